"""The fusion variables: one sigma in [0, 1] for every link, found by gradient descent on the EDP of the network.

As the paper has it, (1 - sigma) weighs what the producer writes to the outermost level (eq. 13) and what the consumer
reads from there (eq. 15), sigma the copies between the levels on the chip (eq. 14); the loss is the logarithm of the
network's EDP with a penalty for groups that do not fit (eq. 24). All restarts run in one batch.

What the refined model adds for a link that has candidates: their estimate, with the refetches that shared loops cause,
the recomputed halo and the tiles that have to fit, in place of eqs. (13) to (15) and the penalty.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fadiff_mapper.joint.estimate import LayerBase
from fadiff_mapper.joint.prices import Point

STEPS, RESTARTS, RATE, HEAVY = 120, 16, 0.2, 0.05
"""Steps of Adam, descents side by side, learning rate, and the weight of eq. (24)."""


@dataclass(frozen=True)
class Edge:
    """A link that may be fused: its layers' numbers, how often it runs, and what fusing it saves.

    refined: change of energy and cycles of the best pair of tiles by the refined model; None where no tiles fit.
    words: of the intermediate and both layers' weights, the paper's group that must lie in the buffer.
    """

    producer: int
    consumer: int
    operand: str
    output: str
    repeat: int
    words: float
    refined: Point | None


def descend(layers: Sequence[LayerBase], times: Sequence[int], edges: Sequence[Edge], capacity: float, home: str,
            model: str, seed: int) -> list[float]:
    """Sigma of every edge in the best of all restarts."""
    if not edges:
        return []
    generator = torch.Generator().manual_seed(seed)
    theta = torch.randn((len(edges), RESTARTS), generator=generator, dtype=torch.float64).requires_grad_(True)
    adam = torch.optim.Adam([theta], lr=RATE)
    for _ in range(STEPS):
        loss = _loss(torch.sigmoid(theta), layers, times, edges, capacity, home, model)
        adam.zero_grad()
        loss.sum().backward()  # type: ignore[no-untyped-call]
        adam.step()
    with torch.no_grad():
        sigma = torch.sigmoid(theta)
        best = int(_loss(sigma, layers, times, edges, capacity, home, model).argmin())
    return [float(value) for value in sigma[:, best]]


def _loss(sigma: torch.Tensor, layers: Sequence[LayerBase], times: Sequence[int], edges: Sequence[Edge],
          capacity: float, home: str, model: str) -> torch.Tensor:
    """Log EDP of the network and penalties, [restarts]."""
    energy = [torch.full_like(sigma[0], count * base.whole.energy_pj)
              for base, count in zip(layers, times, strict=True)]
    outer = [torch.full_like(sigma[0], count * (sum(base.outer_reads.values()) + sum(base.outer_writes.values())))
             for base, count in zip(layers, times, strict=True)]
    more_cycles = torch.zeros_like(sigma[0])
    penalty = torch.zeros_like(sigma[0])
    for value, edge in zip(sigma, edges, strict=True):
        if model == "paper":
            first, after = layers[edge.producer], layers[edge.consumer]
            written = edge.repeat * first.outer_writes.get(edge.output, 0.0)
            read = edge.repeat * after.outer_reads.get(edge.operand, 0.0)
            energy[edge.producer] = energy[edge.producer] - value * written * (  # eqs. (13) and (14)
                first.prices.write - first.prices.level_read.get(home, 0.0))
            energy[edge.consumer] = energy[edge.consumer] - value * read * after.prices.read  # eq. (15)
            outer[edge.producer] = outer[edge.producer] - value * written
            outer[edge.consumer] = outer[edge.consumer] - value * read
            penalty = penalty + value * max(edge.words / capacity - 1, 0.0) ** 2  # eqs. (24) and (25)
        elif edge.refined is None:
            penalty = penalty + value
        else:
            energy[edge.producer] = energy[edge.producer] + value * edge.refined.energy_pj
            more_cycles = more_cycles + value * edge.refined.cycles
    cycles = more_cycles
    for base, count, words in zip(layers, times, outer, strict=True):
        if model == "paper":
            cycles = cycles + torch.clamp(words / base.prices.words_per_cycle, min=count * base.compute)  # eq. (16)
        else:
            cycles = cycles + count * base.whole.cycles
    return torch.log(sum(energy[1:], energy[0])) + torch.log(cycles) + HEAVY * penalty
