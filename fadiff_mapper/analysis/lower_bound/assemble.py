"""The bound on a metric: traffic, parallelism and prices put together, with the source of every part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from fadiff_mapper.analysis.lower_bound.accesses import AccessPrices, Addend, KeepChoice, least_total
from fadiff_mapper.analysis.lower_bound.parallel import Parallelism, parallelism
from fadiff_mapper.analysis.lower_bound.traffic import BoundGround, Keepers, crossings_of, ground_of
from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.energy_latency import UNLIMITED
from fadiff_mapper.model.prepared_layer import PreparedLayer

MOST_CHOICES = 32
"""Keep-or-bypass choices tried together; with more, every data space is bounded by itself, each word sent once."""

States = Callable[[tuple[int, ...]], Parallelism]
"""What may run at once, by the innermost level that keeps each data space."""

SLACK = 1 - 1e-11
"""The sums here and in the exact model may differ in their last bits."""


@dataclass(frozen=True)
class BoundPart:
    """One addend of the energy bound (pJ), or one of the limits whose largest is the delay bound (cycles)."""

    metric: str
    where: str
    value: float
    source: str


@dataclass(frozen=True)
class LowerBound:
    """No legal mapping of the map space has less. `edp` in pJ * cycles, `energy` in pJ, `delay` in cycles,
    `last_level_accesses` in words; `parts` are those of the EDP bound: its energy is their sum, its delay the
    largest. The bound on EDP may exceed energy * delay, whose best mappings can be different ones."""

    edp: float
    energy: float
    delay: float
    last_level_accesses: float
    parts: tuple[BoundPart, ...]

    def of(self, metric: str) -> float:
        """The bound on one of the metrics that a search can minimise."""
        return float(getattr(self, metric))


def lower_bound(layer: PreparedLayer, space: MapSpace) -> LowerBound | None:
    """The bound for one layer and map space; None where none is proven: an output whose rank is a sum of dimensions,
    since Timeloop's count of what need not be read back can exceed what is written there."""
    if any(windowed and written for windowed, written
           in zip(layer.projection.windowed, layer.projection.read_write, strict=True)):
        return None
    ground = ground_of(space)
    states = cache(partial(parallelism, space))
    kept = [_keepers(space, name) for name in space.problem.dataspace_names()]
    if math.prod(map(len, kept)) <= MOST_CHOICES:
        found = [_joint(layer, ground, _choice(ground, states, keepers)) for keepers in itertools.product(*kept)]
    else:
        found = [_separate(layer, replace(ground, tiles=(None,) * len(ground.tiles)), states, kept)]
    edp, energy, delay, accesses = (min(getattr(one, name) for one in found) * SLACK
                                    for name in ("edp", "energy", "delay", "last_level_accesses"))
    return LowerBound(edp, energy, delay, accesses, min(found, key=lambda one: one.edp).parts)


def _keepers(space: MapSpace, name: str) -> list[tuple[int, ...]]:
    """Every set of levels that may keep a data space, the innermost first; none is empty."""
    each = [(True,) if name in level.keep else (False,) if name in level.bypass else (False, True)
            for level in space.levels]
    rows = (tuple(i for i, kept in enumerate(row) if kept) for row in itertools.product(*each))
    return [row for row in rows if row]


def _choice(ground: BoundGround, states: States, keepers: Keepers) -> KeepChoice:
    return KeepChoice(keepers, states(tuple(kept[0] if kept else -1 for kept in keepers)),
                      crossings_of(ground, keepers))


def _joint(layer: PreparedLayer, ground: BoundGround, choice: KeepChoice) -> LowerBound:
    """The bound among the mappings that keep what `choice` says: the best state of parallelism for each metric."""
    limits = _limits(layer, ground, choice)
    delay = np.maximum.reduce([addend.value for addend in limits]) + layer.machine.network_latency
    addends = [*least_total(layer, ground, choice, _energies(layer, ground)),
               *_standing(layer, ground, choice.states.macs, delay)]
    energy = np.asarray(sum(addend.value for addend in addends))
    accesses = np.asarray(sum(one.value for one in least_total(layer, ground, choice, _outermost(layer))))
    best = int((energy * delay).argmin())
    parts = tuple(BoundPart(metric, one.where, float(one.value[best]), one.source)
                  for metric, some in (("energy", addends), ("delay", limits)) for one in some)
    return LowerBound(float((energy * delay).min()), float(energy.min()), float(delay.min()), float(accesses.min()),
                      parts)


def _separate(layer: PreparedLayer, ground: BoundGround, states: States,
              kept: Sequence[Sequence[tuple[int, ...]]]) -> LowerBound:
    """Where there are too many choices of what is kept: each data space at its cheapest, as if it were alone.

    Without tiles: a data space alone mostly finds one that fits and a loop outside that does not move it.
    """
    alone = [[_choice(ground, states, tuple(keepers if t == tensor else () for t in range(len(kept))))
              for keepers in options] for tensor, options in enumerate(kept)]
    energies: list[BoundPart] = []
    limits: list[BoundPart] = []
    accesses = 0.0
    for options in alone:
        totals = [least_total(layer, ground, choice, _energies(layer, ground)) for choice in options]
        cheapest = min(totals, key=lambda total: sum(float(one.value.min()) for one in total))
        energies += [BoundPart("energy", one.where, float(one.value.min()), one.source) for one in cheapest]
        slowest = [max(_limits(layer, ground, choice), key=lambda limit: float(limit.value.min()))
                   for choice in options]
        limit = min(slowest, key=lambda one: float(one.value.min()))
        limits.append(BoundPart("delay", limit.where, float(limit.value.min()), limit.source))
        accesses += min(sum(float(one.value.min()) for one in least_total(layer, ground, choice, _outermost(layer)))
                        for choice in options)
    delay = max(part.value for part in limits) + layer.machine.network_latency
    macs = np.array([max(choice.states.macs.max() for options in alone for choice in options)])
    energies += [BoundPart("energy", one.where, float(one.value[0]), one.source)
                 for one in _standing(layer, ground, macs, np.array([delay]))]
    energy = sum(part.value for part in energies)
    return LowerBound(energy * delay, energy, delay, accesses, (*energies, *limits))


def _energies(layer: PreparedLayer, ground: BoundGround) -> AccessPrices:
    """pJ per word: blocks are full at best, and one access serves a whole cluster at best."""
    machine = layer.machine
    shared = np.minimum(1.0, machine.clusters / ground.instances[:, None])
    written = np.array(layer.projection.read_write)
    address = machine.addr_gen * shared
    each = np.ones((len(shared), len(written)))
    return AccessPrices(machine.read / machine.block * shared + address * ~written,
                        (machine.fill / machine.block * shared + address) * each,
                        machine.update / machine.block * shared + address * written)


def _outermost(layer: PreparedLayer) -> AccessPrices:
    """Words of the outermost level, all actions alike."""
    each = np.zeros((len(layer.arch.levels), len(layer.problem.dataspaces)))
    each[-1] = 1.0
    return AccessPrices(each, each, each)


def _standing(layer: PreparedLayer, ground: BoundGround, macs: np.ndarray, delay: np.ndarray) -> list[Addend]:
    """Energy that is not that of accesses: the arithmetic, and leakage of at least the instances in use.

    Instances in use times cycles are at least the MACs over those that hang below one instance.
    """
    computes = float(layer.problem.computes)
    parts = [Addend(layer.arch.arithmetic.name, computes * layer.machine.compute_energy * np.ones_like(macs),
                    f"{layer.problem.computes} multiply-accumulates")]
    below = np.ones_like(macs)
    for level, here in enumerate(ground.space.levels):
        below = below * math.prod(max(choices, default=1) for choices in here.spatial.choices.values())
        leak = float(layer.machine.leak[level, 0])
        if leak:
            busy = np.maximum(delay - layer.machine.network_latency, computes / np.minimum(below, macs))
            parts.append(Addend(f"{here.name} leakage", leak * busy, "instances in use over the least time"))
    return parts


def _limits(layer: PreparedLayer, ground: BoundGround, choice: KeepChoice) -> list[Addend]:
    """Cycles: MACs over those that can work at once; words over bandwidth, level by level."""
    macs, machine = choice.states.macs, layer.machine
    result = [Addend(layer.arch.arithmetic.name, layer.problem.computes / macs,
                     f"{layer.problem.computes} multiply-accumulates on at most {int(macs.max())} units at once")]
    nothing = np.zeros((len(layer.arch.levels), len(layer.problem.dataspaces)))
    for level, unit in enumerate(layer.arch.levels):
        for what, limit, reads, writes in (("read", machine.read_bandwidth, 1, 0),
                                           ("write", machine.write_bandwidth, 0, 1),
                                           ("shared", machine.shared_bandwidth, 1, 1)):
            rate = float(limit[level, 0])
            if rate < UNLIMITED:
                each = nothing.copy()
                each[level] = machine.bandwidth_scale[level, :, 0] / (rate * ground.instances[level])
                addends = least_total(layer, ground, choice, AccessPrices(each * reads, each * writes, each * writes))
                cycles = sum((one.value for one in addends), np.zeros_like(macs))
                result.append(Addend(unit.name, cycles, f"{what} bandwidth of {unit.name}: {rate:g} words/cycle "
                                                        f"on {ground.instances[level]:g} instances"))
    return result
