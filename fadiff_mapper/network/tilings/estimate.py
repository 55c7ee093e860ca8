"""What a fused group would cost, before its tiles are mapped: what its tensors must move at least.

The unfused mapping of a layer gives what happens on the chip; fusion replaces its traffic with the outermost level.
This ranks candidates; every plan that is returned is evaluated exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

LESS = 1e-6
"""The part by which cycles must be fewer to count as fewer."""


@dataclass(frozen=True)
class LayerBase:
    """A layer by itself, as its best mapping runs it.

    inside        energy in pJ of everything but the outermost level's accesses
    compute       cycles of the arithmetic and of all levels but the outermost one, as its fastest mapping runs it:
                  where the outermost level holds a layer up, its best mapping has no use for more units
    outer_reads, outer_writes   words per data space that the outermost level gives and takes
    home_reads    level -> data space -> words that the level gives inwards
    sums_room     words of output that fit where sums are kept, all instances together
    lanes         dimension -> units that work side by side on it in that mapping
    """

    inside: float
    compute: float
    outer_reads: dict[str, float]
    outer_writes: dict[str, float]
    home_reads: dict[str, dict[str, float]]
    sums_room: float
    lanes: dict[str, int]
    prices: OutermostPrices
    whole: OperatingPoint


@dataclass(frozen=True)
class OutermostPrices:
    """pJ per word read from and written to the outermost level, its words per cycle, and pJ per word read from each
    level."""

    read: float
    write: float
    words_per_cycle: float
    level_read: dict[str, float]


def layer_base(result: MappedLayer, others: Sequence[MappedLayer] = ()) -> LayerBase:
    """What the estimate needs of a layer's best mapping by itself; `others` trade energy against cycles."""
    outer, spaces = result.stats.levels[-1], result.stats.levels[-1]["dataspaces"]
    moved = {kind: {name: float(space["utilized_instances"] * sum(space[what] for what in kinds))
                    for name, space in spaces.items()}
             for kind, kinds in (("reads", ("reads",)), ("writes", ("fills", "updates")))}
    accesses = sum(space["energy_pj_total"] for space in outer["dataspaces"].values())
    fastest = min((result, *others), key=_cycles_inside)
    return LayerBase(
        result.stats.energy_pj - accesses, _cycles_inside(fastest), moved["reads"], moved["writes"],
        {level["name"]: {name: float(space["reads"] * space["utilized_instances"])
                         for name, space in level["dataspaces"].items()} for level in result.stats.levels},
        _sums_room(result.spec), _lanes(fastest.mapping), _prices(result),
        OperatingPoint(result.stats.energy_pj, float(result.stats.cycles)))


def revised(base: LayerBase, cycles: float, mapping: Mapping) -> LayerBase:
    """What is known of a layer once a group has run it in so many cycles, with such a mapping for its tiles.

    Where the outermost level holds a layer up, none of its mappings by itself has a use for more units."""
    return base if cycles >= base.compute * (1 - LESS) else replace(base, compute=cycles, lanes=_lanes(mapping))


def _cycles_inside(result: MappedLayer) -> float:
    return float(max(result.stats.arithmetic["cycles"], *(level["cycles"] for level in result.stats.levels[:-1])))


def sum_level(spec: Spec) -> int:
    """The level in which sums are kept: the innermost one that must keep the output, or else that may."""
    levels, output = spec.constraints.levels, spec.problem.output.name
    must = [place for place, level in enumerate(levels) if output in level.keep]
    may = [place for place, level in enumerate(levels) if output not in level.bypass]
    return (must or may)[0]


def _sums_room(spec: Spec) -> float:
    level = spec.arch.levels[sum_level(spec)]
    return inf if level.usable is None else float(level.usable * level.instances)


def _lanes(mapping: Mapping) -> dict[str, int]:
    return {dim: prod(level.spatial[dim] for level in mapping.levels) for dim in mapping.levels[0].spatial}


def _prices(result: MappedLayer) -> OutermostPrices:
    spec = result.spec
    machine = prepare_layer(spec.arch, spec.problem, spec.tables).machine
    width = [min(float(limit[-1, 0]) for limit in (machine.shared_bandwidth, bandwidth))
             for bandwidth in (machine.read_bandwidth, machine.write_bandwidth)]
    read, update = machine.read[:, 0] / machine.block[:, 0], machine.update[:, 0] / machine.block[:, 0]
    return OutermostPrices(float(read[-1]), float(update[-1]), min(width),
                           dict(zip(spec.arch.level_names(), map(float, read), strict=True)))


def estimated(base: LayerBase, computed: Any, reads: Any, writes: Any, more_home_energy: Any,
              slowed: Any) -> OperatingPoint:
    """A layer that computes `computed` times its operations in `slowed` times their cycles, and moves these words from
    and to the outermost level; numbers, or arrays of them."""
    energy = base.inside * computed + reads * base.prices.read + writes * base.prices.write + more_home_energy
    return OperatingPoint(energy, np.maximum(base.compute * slowed, (reads + writes) / base.prices.words_per_cycle))
