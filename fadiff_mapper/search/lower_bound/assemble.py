"""The bound on a metric: traffic, parallelism and prices put together, with the source of every part.

For every choice of the data spaces that levels keep, and every state of parallelism under it:

- energy is at least the energy of multiply-accumulates, of the least accesses (`accesses`), and of the leakage of the
  instances that must be in use for the least delay;
- delay is at least the multiply-accumulates over units in use, and at every level the least words over its bandwidth.

The bound is the least over all choices and states, so it holds for every mapping, legal ones in particular. The bound
on EDP is the least product in one state, which may exceed the product of the two bounds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from typing import Any

import numpy as np

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.model.energy_latency import through_ports
from fadiff_mapper.model.prepared_layer import UNLIMITED, PreparedLayer, element_shares, word_energy
from fadiff_mapper.search.lower_bound.least_traffic import (
    AccessPrices,
    Addend,
    BoundInputs,
    KeepChoice,
    States,
    bound_inputs,
    keep_choice,
    least_total,
)
from fadiff_mapper.search.lower_bound.parallel import most_instances, most_units, parallelism
from fadiff_mapper.search.mapspace.build import MapSpace, factor_ranges

METRIC_NAMES = {"edp": "EDP", "energy": "energy", "delay": "delay", "last_level_accesses": "last level accesses"}


SAME = 1e-8
"""Relative difference of value and bound that still counts as proved: sums differ in their last bits, and bounds leave
some billionths for this."""


def gap_above(value: float, bound: float) -> float:
    """The share by which a value may be above the best possible value; 0: proved best; infinite: the bound is 0."""
    share = value / bound - 1 if bound else math.inf if value else 0.0
    return share if share > SAME else 0.0


def percent_above(gap: float) -> str:
    """A proven gap in percent, rounded up to a hundredth."""
    return f"{math.ceil(max(gap, 0.0) * 1e4) / 100:g} %"


def sentence(bound: LowerBound | None, metric: str, value: float) -> str:
    """States what is proven about a value of a metric, with the largest parts of the bound; percentage rounded up."""
    above = bound.gap(metric, value) if bound else None
    if bound is None or above is None:
        return f"no lower bound on {METRIC_NAMES[metric]} is known for this problem"
    share = f"at most {percent_above(above)} above " if above else ""
    energies, delays = (sorted((part for part in bound.parts if part.metric == quantity), key=lambda part: -part.value)
                        for quantity in ("energy", "delay"))
    whole = sum(part.value for part in energies) or 1.0
    time = f"time: {delays[0].source}"
    energy = "energy: " + ", ".join(f"{part.where} {part.value / whole:.0%}" for part in energies[:3])
    largest = {"edp": f"{time}; {energy}", "energy": energy, "delay": time,
               "last_level_accesses": "words that must cross the outermost boundary"}[metric]
    return f"{METRIC_NAMES[metric]} is {share}the best possible; bound: {largest}"


def bound_record(bound: LowerBound, metric: str, value: float) -> dict[str, Any]:
    """The bound as a plain dict, for other programs.

    Returns bound and gap of the metric, the sentence, the bounds on all four metrics, and the parts.
    """
    return {"metric": metric, "value": bound.of(metric), "gap": bound.gap(metric, value),
            "sentence": sentence(bound, metric, value),
            **{name: bound.of(name) for name in METRIC_NAMES}, "parts": [asdict(part) for part in bound.parts]}


MOST_CHOICES = 32
"""Most keep-or-bypass choices tried together; beyond it every data space is bounded by itself, with each word sent
once. A limit on time, set by hand."""

MOST_SETS = 4096
"""Most sets of levels that may keep one data space, tried one by one; beyond it the data space is left out of the
bound. A limit on time, which designs of 12 levels meet."""

SLACK = 1 - 1e-11
"""Factor on every bound: the sums here and in the exact model may differ in their last bits."""


@dataclass(frozen=True)
class BoundPart:
    """One addend of the energy bound, or one of the limits whose largest is the delay bound."""

    metric: str   # "energy" or "delay"
    where: str    # The level, the data space or the two levels of the addend, in words
    value: float  # Energy in pJ, or delay in cycles
    source: str   # Why no mapping can have less, in words


@dataclass(frozen=True)
class LowerBound:
    """Lower bounds on the metrics of all legal mappings of a map space.

    Attributes:
        edp: Energy-delay product, pJ * cycles. May exceed energy * delay, as these are minimised separately.
        energy: Energy, pJ.
        delay: Delay, cycles.
        last_level_accesses: Accesses of the outermost level, words.
        parts: The parts of the EDP bound before branch and bound raised it (`raised`): its energy is the sum of their
            energies, its delay the largest of their delays.
    """

    edp: float
    energy: float
    delay: float
    last_level_accesses: float
    parts: tuple[BoundPart, ...]

    def of(self, metric: str) -> float:
        """The bound on a metric, in the unit of the attribute."""
        return float(getattr(self, metric))

    def gap(self, metric: str, value: float) -> float | None:
        """The share by which a value of a metric may be above the best possible value; None if the bound is 0."""
        least = self.of(metric)
        return max(value / least - 1, 0.0) if least > 0 else None

    def raised(self, metric: str, least: float) -> LowerBound:
        """The bounds with that on one metric raised to `least`."""
        values = {name: self.of(name) for name in METRIC_NAMES}
        return LowerBound(**values | {metric: max(values[metric], least)}, parts=self.parts)


@dataclass(frozen=True)
class LeastShares:
    """Least shares of the dense accesses and computes that remain on a sparse design; by default all."""

    reads: np.ndarray | float = 1.0    # Words read, [L, T]
    fills: np.ndarray | float = 1.0    # Words filled, [L, T]
    updates: np.ndarray | float = 1.0  # Words updated, [L, T]
    computes: float = 1.0              # Multiply-accumulates that happen
    instances: float = 1.0             # Instances in use


def without_bound(layer: PreparedLayer) -> bool:
    """Whether no bound is proven for a layer.

    If a rank of an output is a sum of dimensions, Timeloop's count of words that need no read-back can exceed the words
    that are written. A dimension with coefficient 0 belongs to a rank and does not move it.
    """
    return any(written and windowed for windowed, written
               in zip(layer.projection.windowed, layer.projection.read_write, strict=True)) or any(
        not term.coefficient for space in layer.problem.dataspaces for rank in space.ranks for term in rank)


def lower_bound(layer: PreparedLayer, space: MapSpace, shares: LeastShares | None = None, *,
                tiled: bool = True, over: Over = never) -> LowerBound | None:
    """Bounds all metrics of one layer from below.

    `shares`: least shares of the dense accesses and computes that zeros leave; None: all. `tiled`: whether factors
    divide their dimensions, so that all tiles are known; else every word is sent once.

    Returns None where no bound is proven, see `without_bound`. Raises OutOfTime.
    """
    if without_bound(layer):
        return None
    inputs, shares = bound_inputs(space, tiled), shares or LeastShares()
    states, kept = cache(partial(parallelism, space, inputs.spread)), _keepers(layer, space, over)
    if math.prod(map(len, kept)) <= MOST_CHOICES:
        bounds = [_joint_bound(layer, inputs, keep_choice(inputs, states, keepers), shares)
                  for keepers in in_time(itertools.product(*kept), over)]
    else:
        bounds = [_separate_bound(layer, replace(inputs, tiles=(None,) * len(inputs.tiles)), states, kept, shares,
                                  over)]
    edp, energy, delay, accesses = (min(getattr(bound, name) for bound in bounds) * SLACK
                                    for name in METRICS)
    return LowerBound(edp, energy, delay, accesses, min(bounds, key=lambda bound: bound.edp).parts)


def _keepers(layer: PreparedLayer, space: MapSpace, over: Over) -> list[list[tuple[int, ...]]]:
    """For each data space every nonempty set of levels that may hold it, innermost first.

    Levels outside of all coalescing keepers of a data space hold nothing of it
    (`model/access_counts.py:holding`). If there are more than `MOST_SETS` sets, the only one is empty: the traffic of
    the data space is left out of the bound.
    """
    kept: list[list[tuple[int, ...]]] = []
    for t, name in enumerate(in_time(space.problem.dataspace_names(), over)):
        each = [(True,) if name in level.keep else (False,) if name in level.bypass else (False, True)
                for level in space.levels]
        if math.prod(map(len, each)) > MOST_SETS:
            kept.append([()])
            continue
        rows = (tuple(itertools.compress(range(len(row)), row)) for row in itertools.product(*each))
        held = dict.fromkeys(tuple(i for i in row if any(layer.reuse.coalesced[j, t] for j in row if j >= i))
                             for row in rows)
        kept.append([row for row in held if row])
    return kept


def _joint_bound(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, shares: LeastShares) -> LowerBound:
    """The bound among the mappings of one choice: the best state of parallelism for each metric."""
    limits = _cycle_limits(layer, inputs, choice, shares)
    delay = np.maximum.reduce([addend.value for addend in limits]) + layer.machine.network_latency
    addends = [*least_total(layer, inputs, choice, _energies(layer, inputs, shares)),
               *_compute_and_leakage(layer, inputs, choice.states.macs, delay, shares)]
    energy = np.asarray(sum(addend.value for addend in addends))
    accesses = np.asarray(sum(addend.value for addend in least_total(layer, inputs, choice, _outermost(layer))))
    best = int((energy * delay).argmin())
    parts = tuple(BoundPart(metric, part.where, float(part.value[best]), part.source)
                  for metric, own in (("energy", addends), ("delay", limits)) for part in own)
    return LowerBound(float((energy * delay).min()), float(energy.min()), float(delay.min()), float(accesses.min()),
                      parts)


def _separate_bound(layer: PreparedLayer, inputs: BoundInputs, states: States,
                    kept: Sequence[Sequence[tuple[int, ...]]], shares: LeastShares, over: Over) -> LowerBound:
    """The bound if there are too many choices: each data space at its cheapest, as if it had all levels to itself.

    No joint tiles are tried: with all the room, a single data space mostly has a tile that fits, and a loop outside
    that does not move it. `kept`: for each data space every set of levels that may keep it.
    """
    alone = [[keep_choice(inputs, states, tuple(keepers if t == tensor else () for t in range(len(kept))))
              for keepers in in_time(options, over)] for tensor, options in enumerate(kept)]
    energies: list[BoundPart] = []
    limits: list[BoundPart] = []
    accesses = 0.0
    for options in alone:
        totals = [least_total(layer, inputs, choice, _energies(layer, inputs, shares))
                  for choice in in_time(options, over)]
        cheapest = min(totals, key=lambda total: sum(float(addend.value.min()) for addend in total))
        energies += [BoundPart("energy", addend.where, float(addend.value.min()), addend.source)
                     for addend in cheapest]
        slowest = [max(_cycle_limits(layer, inputs, choice, shares), key=lambda limit: float(limit.value.min()))
                   for choice in in_time(options, over)]
        limit = min(slowest, key=lambda limit: float(limit.value.min()))
        limits.append(BoundPart("delay", limit.where, float(limit.value.min()), limit.source))
        accesses += min(sum(float(addend.value.min())
                            for addend in least_total(layer, inputs, choice, _outermost(layer)))
                        for choice in in_time(options, over))
    delay = max(part.value for part in limits) + layer.machine.network_latency
    macs = np.array([max(choice.states.macs.max() for options in alone for choice in options)])
    energies += [BoundPart("energy", addend.where, float(addend.value[0]), addend.source)
                 for addend in _compute_and_leakage(layer, inputs, macs, np.array([delay]), shares)]
    energy = sum(part.value for part in energies)
    return LowerBound(energy * delay, energy, delay, accesses, (*energies, *limits))


def _energies(layer: PreparedLayer, inputs: BoundInputs, shares: LeastShares) -> AccessPrices:
    """Least energies in pJ per word: at best every block is full, and one access serves a whole cluster."""
    machine, word = layer.machine, word_energy(layer.machine)
    shared = np.minimum(1.0, machine.clusters / inputs.spread.instances[:, None])
    written = np.array(layer.projection.read_write)
    address = machine.addr_gen * shared
    whole, partial = element_shares(layer.arch, layer.problem)  # outputs are read and filled as partial sums
    updates = (word.update * shared + address * written) * shares.updates
    return AccessPrices((word.read * shared + address * ~written) * shares.reads * partial,
                        (word.fill * shared + address) * shares.fills * partial, updates * whole, updates * partial)


def _outermost(layer: PreparedLayer) -> AccessPrices:
    """Prices that count the words of the outermost level, all actions alike."""
    each = np.zeros((len(layer.arch.levels), len(layer.problem.dataspaces)))
    each[-1] = 1.0
    return AccessPrices(each, each, each, each)


def _compute_and_leakage(layer: PreparedLayer, inputs: BoundInputs, macs: np.ndarray,
                         delay: np.ndarray, shares: LeastShares) -> list[Addend]:
    """Energy besides accesses: the arithmetic, and the leakage of at least the instances in use.

    Instances in use times cycles are at least the MACs over the units below one instance.

    `macs`: MACs in use in each state of parallelism, `delay`: the least cycles, [S] each. Returns addends in pJ.
    """
    computes, instances = layer.problem.computes * shares.computes, shares.instances
    parts = [Addend(layer.arch.arithmetic.name, computes * layer.machine.compute_energy * np.ones_like(macs),
                    f"{layer.problem.computes} multiply-accumulates")]
    below = np.ones_like(macs)
    for level, level_space in enumerate(inputs.space.levels):
        below = below * inputs.spread.below[level]
        leak = float(layer.machine.leak[level, 0])
        if leak:
            busy = np.maximum(delay - layer.machine.network_latency, computes * instances / np.minimum(below, macs))
            parts.append(Addend(f"{level_space.name} leakage", leak * busy, "instances in use over the least time"))
    return parts


def _cycle_limits(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice,
                  shares: LeastShares) -> list[Addend]:
    """Limits in cycles: MACs over MACs that can work at once; words over bandwidth, level by level."""
    macs = choice.states.macs
    return [Addend(layer.arch.arithmetic.name, layer.problem.computes * shares.computes / macs,
                   f"{layer.problem.computes} multiply-accumulates on at most {int(macs.max())} units at once"),
            *(Addend(unit.name, port.cycles, f"{port.name} bandwidth of {unit.name}: {port.words:g} words/cycle "
                                             f"on {inputs.spread.instances[level]:g} instances")
              for level, unit in enumerate(layer.arch.levels)
              for port in _port_limits(layer, inputs, choice, shares, level))]


@dataclass(frozen=True)
class PortLimit:
    """The least cycles for the words through one port of a level."""

    name: str
    reads: bool         # whether reads pass through it
    writes: bool
    words: float        # words per cycle of each instance
    cycles: np.ndarray  # least cycles in each state of parallelism, [S]


def _port_limits(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, shares: LeastShares,
                 level: int) -> Iterator[PortLimit]:
    """The limited ports of a level."""
    machine, nothing = layer.machine, np.zeros((len(layer.arch.levels), len(layer.problem.dataspaces)))
    whole, partial = element_shares(layer.arch, layer.problem)
    # ports that a read word, and a written word, pass through
    ports = through_ports(np.array([1, 0]), np.array([0, 1]), machine)
    for name, ((reads, writes), limit) in zip(("read", "write", "shared"), ports, strict=True):
        rate = float(limit[level, 0])
        if rate < UNLIMITED:
            each = nothing.copy()
            each[level] = machine.bandwidth_scale[level, :, 0] / (rate * inputs.spread.instances[level])
            addends = least_total(layer, inputs, choice, AccessPrices(
                each * reads * shares.reads * partial, each * writes * shares.fills * partial,
                *(each * writes * shares.updates * words for words in (whole, partial))))
            yield PortLimit(name, bool(reads), bool(writes), rate,
                            sum((addend.value for addend in addends), np.zeros_like(choice.states.macs)))


# Why it holds. A mapping with residual factors is a mapping of a larger problem without them, cut off at the bounds. So
# its spatial loops have any whole factors that fit the fan-outs, and it needs at least as many cycles as there are
# multiply-accumulates over units in use. Each distinct word still is sent at least once to each level that keeps it.
# Joint tiles are not used, as their points need not divide the bounds. The bound is on numbers without Timeloop's
# rounding (`model.evaluate.UNROUNDED`): Timeloop rounds the average instances in use down and may print less.

def residual_lower_bound(layer: PreparedLayer, space: MapSpace, over: Over = never) -> LowerBound | None:
    """Bounds all metrics of one layer from below, for any whole factors.

    Returns None if no bound is proven, see `lower_bound`. Raises OutOfTime.
    """
    return lower_bound(layer, _any_factors(space), tiled=False, over=over)


def _any_factors(space: MapSpace) -> MapSpace:
    """A map space with every whole spatial factor that constraints and fan-outs allow."""
    ranges = [table[0::2].astype(int) for table in factor_ranges(space)]
    levels = tuple(replace(level, spatial=replace(level.spatial, choices={
        name: tuple(range(least, most + 1)) for name, least, most in zip(space.problem.bounds, *own, strict=True)}))
        for level, *own in zip(space.levels, *ranges, strict=True))
    return replace(space, levels=levels)


@dataclass(frozen=True)
class LeastInSteps:
    """Lower bounds on a layer in a fused group, whatever the steps in which the layer runs.

    Attributes:
        energy: pJ, if each word from and to the outermost level comes and goes once.
        cycles: Cycles under the same condition.
        inside: pJ on the chip, without reads and fills of the home.
        busy: Cycles of the arithmetic and of all levels except the outermost, without fills of the home.
        inward: Words read from the home of each data space, [T].
        back: pJ of a partial sum that returns to the level inside the home that keeps sums; 0 if several levels, or
            none, may keep them.
        summing: For each port of that level its cycles, and the cycles of a sum that returns.
        units: The most multiply-accumulates in use, by spatial loops over the given dimensions only.
        instances: The most instances of a level in use, by spatial loops over the given dimensions only.
    """

    energy: float
    cycles: float
    inside: float
    busy: float
    inward: np.ndarray
    back: float
    summing: Sequence[tuple[float, float]]
    units: Callable[[frozenset[str]], float]
    instances: Callable[[int, frozenset[str]], float]


def least_in_steps(layer: PreparedLayer, space: MapSpace, home: int, copied: bool) -> LeastInSteps | None:
    """Lower bounds on a layer that runs in steps, each with a mapping of its own.

    On the chip a recomputed part of the layer costs at least as much again: smaller tiles touch no fewer words for each
    multiply-accumulate.

    `home`: the index of a level; `copied`: whether finished sums are read once more, in the level inside the home that
    keeps sums, to be copied to the home. Returns None if no bound is proven (`without_bound`), or if too many sets of
    levels could keep the data spaces.
    """
    space, shape = _any_factors(space), (len(space.levels), len(space.problem.dataspaces))
    inputs, kept = bound_inputs(space, False, True), _keepers(layer, space, never)
    if math.prod(map(len, kept)) > MOST_CHOICES or without_bound(layer):
        return None
    every, none, shares = np.ones(shape), np.zeros(shape), LeastShares()
    whole = _energies(layer, inputs, shares)
    chip, other = every.copy(), every.copy()    # all levels except the outermost; all except this and the home
    chip[-1], other[-1], other[home] = 0.0, 0.0, 0.0
    filled = every.copy()
    filled[home] = 0.0  # a resident operand is filled once, however often the layer runs
    unfilled = LeastShares(fills=filled)
    inner = AccessPrices(whole.read * other, whole.fill * other, whole.update * chip, whole.sums * chip)
    states = cache(partial(parallelism, space, inputs.spread))
    output = layer.projection.read_write.index(True)
    name = layer.problem.dataspaces[output].name
    inside = [level for level in range(home) if name not in space.levels[level].bypass]
    if not any(name in space.levels[level].keep for level in inside):
        inside = []     # the home itself may add up sums
    copy = inputs.touched[output] * element_shares(layer.arch, layer.problem)[0][:, output] * copied
    where = inside if len(inside) == 1 else []
    found: list[tuple[float, float, float, float]] = []
    summing: list[list[tuple[float, float]]] = []
    inward = np.full(shape[1], np.inf)
    for keepers in itertools.product(*kept):
        choice = keep_choice(inputs, states, keepers)
        nothing = np.zeros_like(choice.states.macs)

        def total(prices: AccessPrices, choice: KeepChoice = choice, nothing: np.ndarray = nothing) -> np.ndarray:
            return np.asarray(sum((addend.value for addend in least_total(layer, inputs, choice, prices)), nothing))

        ports = [list(_port_limits(layer, inputs, choice, shares, level)) for level in range(shape[0])]
        at_home = list(_port_limits(layer, inputs, choice, unfilled, home))
        working = layer.problem.computes / choice.states.macs
        cycles = np.maximum.reduce([working, *(port.cycles for own in ports for port in own)])
        busy = np.maximum.reduce([working, *(
            port.cycles for level, own in enumerate(ports[:-1]) for port in (at_home if level == home else own))])
        energies = [total(prices) + sum(addend.value for addend in _compute_and_leakage(
            layer, inputs, choice.states.macs, delay, shares)) for prices, delay in ((whole, cycles), (inner, busy))]
        found.append((energies[0].min(), cycles.min(), energies[1].min(), busy.min()))
        each = [(level, port, float(layer.machine.bandwidth_scale[level, output, 0])
                 / (port.words * inputs.spread.instances[level])) for level in where for port in ports[level]]
        summing.append([(float(port.cycles.min()) + port.reads * copy[level] * one, port.writes * one)
                        for level, port, one in each])
        for t in range(shape[1]):
            own = none.copy()
            own[home, t] = 1.0
            inward[t] = min(inward[t], total(AccessPrices(own, none, none, none)).min())
    energy, cycles, within, busy = (SLACK * float(min(values)) for values in zip(*found, strict=True))
    copying = min((float(word_energy(layer.machine).read[level, 0] * copy[level]) for level in inside), default=0.0)
    return LeastInSteps(energy + copying, cycles, within + copying, busy, inward,
                        sum(float(whole.fill[level, output]) for level in where),
                        [min(port) for port in zip(*summing, strict=True)],
                        cache(partial(most_units, space, inputs.spread)), partial(most_instances, inputs.spread))
