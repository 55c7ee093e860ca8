"""The estimate of one layer in a fused group, before its tiles are mapped.

Problem. Thousands of candidates cannot be mapped; they have to be ranked from what is known of the layers by
themselves.

Method. A layer's best mapping by itself gives its energy and cycles on the chip (`LayerBase`). The estimate
(`kernel/nest_estimate.cpp`) replaces its traffic with the outermost level and multiplies its work where halos are
recomputed. Estimates only rank candidates; every plan that is returned is evaluated exactly, and `revised` corrects the
estimate once a group has run a layer faster than expected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from fadiff_mapper.model.exact.stats import dense_count
from fadiff_mapper.model.machine import word_energy
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import OperatingPoint
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.spec.spec import Spec

LESS = 1e-6
"""The part by which cycles must be fewer to count as fewer: a guard against rounding, not tuned."""


KNOWN_LANES = 6
"""Mappings of a layer that estimates know the lanes of, the fastest ones. Set by hand, not measured."""


@dataclass(frozen=True)
class SideBySide:
    """The units that one mapping of a layer uses side by side.

    Attributes:
        compute: Cycles of the arithmetic and of all levels but the outermost one.
        lanes: Units that work side by side on each dimension.
    """

    compute: float
    lanes: dict[str, int]


@dataclass(frozen=True)
class LayerBase:
    """A layer by itself, as its best mapping runs it.

    Attributes:
        inside: pJ of everything but the outermost level's accesses.
        home_reads: Words that each level gives inwards: level -> data space -> words.
        sums_room: Words of output that fit where sums are finished, all instances together.
        known: Mappings that tiles may be run like, the fastest first: the layer's own fastest one, as the outermost
            level may hold the best one up, which then has no use for more units; those of the layer with padded
            bounds, whose lanes tiles can fill where the whole layer cannot; and those that groups were found to have.
        prices: Prices of words, and the bandwidth of the outermost level.
        whole: Energy and cycles of the best mapping, one run.
    """

    inside: float
    home_reads: dict[str, dict[str, float]]
    sums_room: float
    known: tuple[SideBySide, ...]
    prices: OutermostPrices
    whole: OperatingPoint

    @property
    def lanes(self) -> dict[str, int]:
        """Units that work side by side on each dimension in the fastest mapping."""
        return self.known[0].lanes


@dataclass(frozen=True)
class OutermostPrices:
    """Prices of words.

    Attributes:
        read: pJ per word read from the outermost level.
        write: pJ per word written to it.
        words_per_cycle: Its bandwidth: the least of the shared one, that of reads and that of writes.
        level_read: pJ per word read from each level, by name.
    """

    read: float
    write: float
    words_per_cycle: float
    level_read: dict[str, float]


def layer_base(result: MappedLayer, others: Sequence[MappedLayer] = (),
               padded: Sequence[MappedLayer] = ()) -> LayerBase:
    """Reads off a layer's mappings what estimates need.

    Args:
        result: Its best mapping by itself.
        others: Mappings of the layer that trade energy against cycles.
        padded: Mappings of the layer with padded bounds.
    """
    accesses = sum(space["energy_pj_total"] for space in result.stats.levels[-1]["dataspaces"].values())
    fastest = min((result, *others), key=_cycles_inside)
    operations = prod(result.spec.problem.bounds.values())
    known = [SideBySide(_cycles_inside(fastest), _lanes(fastest.mapping))]
    known += [SideBySide(_cycles_inside(one) * operations / prod(one.spec.problem.bounds.values()), _lanes(one.mapping))
              for one in padded]
    return LayerBase(
        result.stats.energy_pj - accesses,
        {level["name"]: {name: float(dense_count(space["reads"]) * space["utilized_instances"])
                         for name, space in level["dataspaces"].items()} for level in result.stats.levels},
        _sums_room(result.spec), _fastest(known), _prices(result),
        OperatingPoint(result.stats.energy_pj, float(result.stats.cycles)))


def revised(base: LayerBase, cycles: float, mapping: LayerMapping) -> LayerBase:
    """Corrects what is known of a layer once a group has run it.

    Where the outermost level holds a layer up, none of its mappings by itself has a use for more units; groups with it
    are then thought slower than they are.

    Args:
        base: The layer as known before.
        cycles: Cycles of the layer's work in the group.
        mapping: The mapping of its largest tile there.

    Returns:
        `base` itself unless the group was faster.
    """
    if cycles >= base.known[0].compute * (1 - LESS):
        return base
    return replace(base, known=_fastest([SideBySide(cycles, _lanes(mapping)), *base.known]))


def _fastest(known: Sequence[SideBySide]) -> tuple[SideBySide, ...]:
    """The fastest mappings, each with other lanes."""
    ranked = sorted(known, key=lambda one: one.compute)
    return tuple(one for index, one in enumerate(ranked)
                 if all(one.lanes != other.lanes for other in ranked[:index]))[:KNOWN_LANES]


def group_bases(segment: Segment, bases: Mapping[str, LayerBase]) -> list[LayerBase]:
    """Looks up the layers of a segment by themselves, each with all the runs that its problem has there.

    Args:
        segment: The segment.
        bases: Each layer by itself, one run, by name.
    """
    return [_runs(bases[name], runs) for name, runs in zip(segment.nodes, segment.runs, strict=True)]


def _runs(base: LayerBase, runs: int) -> LayerBase:
    """A layer's runs back to back."""
    if runs == 1:
        return base
    reads = {level: {name: runs * words for name, words in own.items()} for level, own in base.home_reads.items()}
    # Mappings over several runs may spread these over units, so lanes of one run say nothing of them.
    known = (SideBySide(runs * base.known[0].compute, {}),)
    return replace(base, inside=runs * base.inside, known=known, home_reads=reads,
                   whole=OperatingPoint(runs * base.whole.energy_pj, runs * base.whole.cycles))


def _cycles_inside(result: MappedLayer) -> float:
    """Cycles of a mapping if the outermost level had no limit of bandwidth."""
    return float(max(result.stats.arithmetic["cycles"], *(level["cycles"] for level in result.stats.levels[:-1])))


def sum_level(spec: Spec) -> int:
    """Finds the level in which sums are finished: the innermost one that must keep the output, or else that may.

    Args:
        spec: The layer on its design.

    Returns:
        Index of the level.
    """
    levels, output = spec.constraints.levels, spec.problem.output.name
    must = [index for index, level in enumerate(levels) if output in level.keep]
    may = [index for index, level in enumerate(levels) if output not in level.bypass]
    return (must or may)[0]


def _sums_room(spec: Spec) -> float:
    """Words of output that fit where sums are finished, all instances together."""
    level = spec.arch.levels[sum_level(spec)]
    return inf if level.usable is None else float(level.usable * level.instances)


def _lanes(mapping: LayerMapping) -> dict[str, int]:
    """Units that work side by side on each dimension, over all levels."""
    return {dim: prod(level.spatial[dim] for level in mapping.levels) for dim in mapping.levels[0].spatial}


def _prices(result: MappedLayer) -> OutermostPrices:
    """Prices of words from the tables of a layer's spec; pJ per word is pJ per access over words per access."""
    spec = result.spec
    machine = prepare_layer(spec.arch, spec.problem, spec.tables).machine
    width = [min(float(limit[-1, 0]) for limit in (machine.shared_bandwidth, bandwidth))
             for bandwidth in (machine.read_bandwidth, machine.write_bandwidth)]
    word = word_energy(machine)
    return OutermostPrices(float(word.read[-1, 0]), float(word.update[-1, 0]), min(width),
                           dict(zip(spec.arch.level_names(), map(float, word.read[:, 0]), strict=True)))
