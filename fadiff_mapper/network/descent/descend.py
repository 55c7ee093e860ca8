"""Gradient descent on the relaxed network: tiling factors of all layers and a fusion variable of every link at once.

Problem. Mapping and fusion depend on each other, so FADiff minimises EDP + lambda (P_map + P_mem + P_align) over both
(eq. 20).

Method. Adam on log2 of the tiling factors and on the logits of sigma. The loss is the logarithm of the network's metric
(for EDP: sum of energies times sum of cycles), so that networks of all sizes have gradients of one scale, plus the
penalties of eqs. (21) to (26), each weighed with its layer's share in the metric. Factors are drawn by Gumbel-Softmax
(Jang et al. 2017) with a straight-through gradient, at a temperature that falls; the weight of the penalties rises. All
restarts of all layers run in one batch; `starts` says where they begin.

The descent begins at mappings that are already the best of each layer by itself: left to it are the links to fuse, and
in which tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.descent.relaxed_cost import RelaxedCost, relaxed_cost
from fadiff_mapper.network.descent.relaxed_machine import DescendedHardware
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.network.descent.starts import RestartPoint, ease, starts
from fadiff_mapper.network.layers.edp_prices import NetworkPrice, OperatingPoint, summed
from fadiff_mapper.relaxation.adam import adam_step, one_torch_thread
from fadiff_mapper.relaxation.annealing import geometric
from fadiff_mapper.relaxation.gumbel_softmax import RelaxedFactors, decode, draw, gumbel


@dataclass(frozen=True)
class DescentOptions:
    """Effort of the descent.

    Measured: 30 steps led to the same plans as 60 (MobileNetV1, ResNet-18 and VGG-16 on the large bundled design, two
    or three seeds); they are 20 since estimates learn from evaluated groups, with which MobileNetV1 saves 51.1 to
    51.5 % with every seed. `rate` rose as the steps became fewer. The other values were set by hand; effects on whole
    plans are measured by `benchmarks/agatf/ablations.py` and `benchmarks/network_fusion.py`.

    Attributes:
        steps: Steps of Adam.
        restarts: Descents side by side; fewer for networks of many layers, see `columns`.
        rate: Learning rate of log2 of the tiling factors in the first step.
        sigma_rate: Learning rate of the logits of sigma.
        last: `rate` of the last step, as a part of `rate`.
        draw_temperature_start: Gumbel-Softmax temperature of the first step.
        draw_temperature_end: Gumbel-Softmax temperature of the last step.
        quiet: Part of the steps with Gumbel noise; without noise afterwards, sigma settles.
        penalty_weight_start: Weight of the penalties in the first step.
        penalty_weight_end: Weight of the penalties in the last step.
        columns: Restarts times layers at most, a limit of memory and time; no descent has fewer than four restarts.
    """

    steps: int = 20
    restarts: int = 16
    rate: float = 0.12
    sigma_rate: float = 0.2
    last: float = 0.05
    draw_temperature_start: float = 0.1
    draw_temperature_end: float = 0.05
    quiet: float = 0.6
    penalty_weight_start: float = 0.5
    penalty_weight_end: float = 4.0
    columns: int = 2048


@dataclass(frozen=True)
class DescentEnd:
    """The end of every restart, the lowest loss first.

    Attributes:
        loss: Logarithm of the metric with weighed penalties, without noise, [R].
        sigma: Fusion variables, [E, R].
        nests: Drawn nests of every site, with integer factors, R columns each.
        place: Coordinates of the hardware's parameters, [P, R]; None where it did not descend.
    """

    loss: np.ndarray
    sigma: np.ndarray
    nests: tuple[Nest, ...]
    place: np.ndarray | None = None


def restarts_of(network: RelaxedNetwork, options: DescentOptions) -> int:
    """Descents side by side of a network, R."""
    return max(min(options.restarts, options.columns // len(network.sites)), 4)


def descend(network: RelaxedNetwork, metric: str, model: str, seed: int, options: DescentOptions | None = None,
            stopped: Callable[[], bool] = lambda: False, hardware: DescendedHardware | None = None) -> DescentEnd:
    """Descends on the network's metric: FADiff eq. (20).

    Args:
        network: The relaxed network.
        metric: "edp", "energy" or "delay".
        model: "refined", or "paper" for FADiff's equations as printed.
        seed: The same seed gives the same descent.
        options: Effort; None is `DescentOptions()`.
        stopped: Asked before every step; once true, the state reached is returned.
        hardware: Hardware that descends, too, with R columns; then factors inside the home move as fast as the others.
    """
    options = options or DescentOptions()
    restarts = restarts_of(network, options)
    generator = torch.Generator().manual_seed(seed)
    start = starts(network, restarts, seed)
    # Descended are offsets from the start: scaled by `ease`, factors inside the home move less than those outside.
    moved = [torch.zeros_like(theta).requires_grad_(True) for theta in start.thetas]
    eases = [torch.ones_like(part) if hardware else part
             for part in (ease(batch, network.home) for batch in network.batches)]
    place = hardware.place.requires_grad_(True) if hardware else None
    logits = start.logits.requires_grad_(True)
    shares = _shares(network, metric)
    move_factors = [adam_step(theta, options.rate) for theta in moved]
    move_sigma = adam_step(logits, options.sigma_rate)
    move_hardware = adam_step(hardware.place, hardware.rate) if hardware else None

    def loss(noisy: bool, temperature: float, weight: float) -> tuple[torch.Tensor, list[RelaxedFactors]]:
        thetas = [begin + part * more for begin, part, more in zip(start.thetas, eases, moved, strict=True)]
        factors = [draw(batch.places, theta, part[..., None] * gumbel(batch.places, theta.shape[-1], generator)
                        if noisy else None, temperature)
                   for batch, theta, part in zip(network.batches, thetas, eases, strict=True)]
        machine, added, broken = hardware.design_at(hardware.place) if hardware else (None, 0.0, 0.0)
        total = relaxed_cost(network, torch.sigmoid(logits), factors, thetas, start.choices, model, machine)
        return (smooth_metric(total, metric) + added
                + weight * ((shares * total.broken).sum(dim=0) + broken)), factors

    with one_torch_thread():
        for step in range(options.steps):
            if stopped():
                break
            ratio = step / max(options.steps - 1, 1)
            temperature = geometric(options.draw_temperature_start, options.draw_temperature_end, ratio)
            weight = geometric(options.penalty_weight_start, options.penalty_weight_end, ratio)
            value, _ = loss(ratio < options.quiet, temperature, weight)
            value.sum().backward()  # type: ignore[no-untyped-call]  # restarts are independent: each has its gradient
            for move in move_factors:
                move((1 - ratio) * (1 - options.last) + options.last)
            move_sigma()
            if move_hardware:
                move_hardware((1 - ratio) * (1 - options.last) + options.last)
        with torch.no_grad():
            value, factors = loss(False, options.draw_temperature_end, options.penalty_weight_end)
    order = value.argsort(stable=True)
    return DescentEnd(value[order].numpy(), torch.sigmoid(logits.detach())[:, order].numpy(),
                      _nests(network, start, factors, order.numpy()),
                      None if place is None else place.detach()[:, order].numpy())


def smooth_metric(total: RelaxedCost, metric: str) -> torch.Tensor:
    """Logarithm of the network's metric ("edp", "energy" or "delay"), [R]."""
    energy, cycles = torch.log(total.energy), torch.log(total.cycles)
    return {"edp": energy + cycles, "energy": energy, "delay": cycles}[metric]


def _shares(network: RelaxedNetwork, metric: str) -> torch.Tensor:
    """Every site's share in the metric when all layers run by themselves, [V, 1].

    Weights of penalties: a small layer that does not fit must not outweigh a large one that does.
    """
    points = [OperatingPoint(site.times * site.result.stats.energy_pj, site.times * site.result.stats.cycles)
              for site in network.sites]
    total = summed(points)
    price = NetworkPrice(total, metric)
    return torch.tensor([[price(point)] for point in points], dtype=torch.float64)


def _nests(network: RelaxedNetwork, start: RestartPoint, factors: Sequence[RelaxedFactors],
           order: np.ndarray) -> tuple[Nest, ...]:
    """The nests of every site, restarts in the given order."""
    nests: dict[int, Nest] = {}
    for batch, drawn, choices in zip(network.batches, factors, start.choices, strict=True):
        nest = decode(drawn, choices)
        nests |= {site: nest.take(member * len(order) + order) for member, site in enumerate(batch.sites)}
    return tuple(nests[site] for site in range(len(network.sites)))
