"""Estimates of fused groups before their tiles are mapped, from what is known of the layers by themselves.

Problem. Thousands of candidates cannot be mapped; they have to be ranked. For one order of loops, tile sizes and
resident operands trade the room in the home level against traffic to the outermost one.

Method. A layer's best mapping by itself gives its energy and cycles on the chip (`LayerBase`). The compiled estimate
(`kernel/nest_estimate.hpp`) replaces its traffic with the outermost level and multiplies its work where halos are
recomputed, for all residency choices and many tile sizes side by side, in two stages: `Sheet.lower_prices` brings every
passing operand in once per step; `Sheet.best_tile_sizes` adds the refetches of tiles that do not fit, for the most
promising sizes of one choice. Estimates only rank candidates; every plan that is returned is evaluated exactly, and
`revised` corrects the estimate once a group has run a layer faster than expected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.prices import NOTHING, NetworkPrice, OperatingPoint, WordCosts, word_costs
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.kernel._kernel import FusedSegment, NestEstimate, SegmentLayer, SegmentLink, SumsRest
from fadiff_mapper.model.stats import counted
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload.window_slide import WindowSlide

LESS = 1e-6
"""The part by which cycles must be fewer to count as fewer: a guard against rounding."""

KNOWN_LANES = 6
"""Mappings of a layer that estimates know the lanes of, the fastest ones. Set by hand."""


@dataclass(frozen=True)
class SideBySide:
    """The units that one mapping of a layer uses side by side."""

    compute: float  # cycles of the arithmetic and of all levels but the outermost one
    lanes: dict[str, int]  # units that work side by side on each dimension, over all levels


@dataclass(frozen=True)
class LayerBase:
    """A layer by itself, as its best mapping runs it."""

    inside: float  # pJ of everything but the outermost level's accesses
    home_reads: dict[str, dict[str, float]]  # words that each level gives inwards: level -> data space -> words
    sums_room: float  # words of output that fit where sums are finished, all instances together
    # mappings that tiles may be run like, the fastest first: the layer's own one; those of the layer with padded
    # bounds, whose lanes tiles can fill where the whole layer cannot; and those that groups were found to have
    known: tuple[SideBySide, ...]
    costs: WordCosts
    whole: OperatingPoint  # energy and cycles of the best mapping, one run
    outputs_at: frozenset[str] = frozenset()  # levels that the constraints let keep the output
    constraints: Constraints | None = None  # the design's
    accesses: Mapping[str, float] = field(default_factory=dict)  # level -> pJ of all its accesses

    @property
    def lanes(self) -> dict[str, int]:
        """Units that work side by side on each dimension in the fastest mapping."""
        return self.known[0].lanes


def layer_base(result: Result, padded: Sequence[Result] = ()) -> LayerBase:
    """What estimates need of a layer's mappings.

    Args:
        result: Its best mapping by itself.
        padded: Mappings of the layer with padded bounds.
    """
    levels = result.stats.levels
    accesses = sum(space["energy_pj_total"] for space in levels[-1]["dataspaces"].values())
    operations = prod(result.spec.problem.bounds.values())
    known = [SideBySide(_cycles_inside(result), _lanes(result.mapping))]
    known += [SideBySide(_cycles_inside(one) * operations / prod(one.spec.problem.bounds.values()), _lanes(one.mapping))
              for one in padded]
    constraints = result.spec.constraints
    sums_at = result.spec.arch.levels[sum_level(constraints, result.spec.problem.output.name)]
    return LayerBase(
        result.stats.energy_pj - accesses,
        {level["name"]: {name: float(counted(space["reads"]) * space["utilized_instances"])
                         for name, space in level["dataspaces"].items()} for level in levels},
        inf if sums_at.usable is None else float(sums_at.usable * sums_at.instances),
        _fastest(known), word_costs(result.spec), OperatingPoint(result.stats.energy_pj, float(result.stats.cycles)),
        frozenset(level.name for level, here in zip(result.spec.arch.levels, constraints.levels, strict=True)
                  if result.spec.problem.output.name not in here.bypass), constraints,
        {level["name"]: sum(space["energy_pj_total"] for space in level["dataspaces"].values()) for level in levels})


def revised(base: LayerBase, cycles: float, mapping: LayerMapping) -> LayerBase:
    """Corrects what is known of a layer once a group has run its work in so many cycles.

    Where the outermost level holds a layer up, none of its mappings by itself has a use for more units; groups with it
    are then thought slower than they are.

    Args:
        base: The layer as known before; returned itself unless the group was faster.
        cycles: Cycles of the layer's work in the group.
        mapping: The mapping of its largest tile there.
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
    """The layers of a segment by themselves, each with all the runs that its problem has there, back to back.

    `bases`: each layer by itself, one run, by name.
    """
    return [bases[name] if runs == 1 else replace(
        bases[name], inside=runs * bases[name].inside,
        # mappings over several runs may spread these over units, so lanes of one run say nothing of them
        known=(SideBySide(runs * bases[name].known[0].compute, {}),),
        home_reads={level: {space: runs * words for space, words in own.items()}
                    for level, own in bases[name].home_reads.items()},
        whole=bases[name].whole.times(runs)) for name, runs in zip(segment.nodes, segment.runs, strict=True)]


def _cycles_inside(result: Result) -> float:
    """Cycles of a mapping if the outermost level had no limit of bandwidth."""
    return float(max(result.stats.arithmetic["cycles"], *(level["cycles"] for level in result.stats.levels[:-1])))


def sum_level(constraints: Constraints, output: str) -> int:
    """Index of the level in which sums are finished: the innermost that must keep the output, or else that may."""
    must = [index for index, level in enumerate(constraints.levels) if output in level.keep]
    may = [index for index, level in enumerate(constraints.levels) if output not in level.bypass]
    return (must or may)[0]


def _lanes(mapping: LayerMapping) -> dict[str, int]:
    """Units that work side by side on each dimension, over all levels."""
    return {dim: prod(level.spatial[dim] for level in mapping.levels) for dim in mapping.levels[0].spatial}


@dataclass(frozen=True)
class CompiledSegment:
    """A segment with what is known of its layers, ready to be estimated."""

    segment: Segment
    bases: Sequence[LayerBase]
    usable: dict[str, float]  # words of every level that can be a home, by name; infinite without a limit
    tables: FusedSegment  # the same for the kernel


Translated = dict[Hashable, tuple[Any, Any]]
"""Layers and links in the kernel's form, each with what it was made from, by the identity of these."""


def compiled_segment(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase],
                     known: Translated | None = None) -> CompiledSegment:
    """Translates a segment for the compiled estimates.

    Args:
        hardware: The design.
        segment: The segment.
        bases: Each layer by itself (`group_bases`).
        known: Layers and links of other segments on the same design; those of this one are added.
    """
    known = {} if known is None else known

    def translated(translate: Callable[..., Any], *parts: Any) -> Any:
        key = tuple(map(id, parts))
        if key not in known:
            known[key] = translate(*parts), parts  # kept, so that no other object takes over their identity
        return known[key][0]

    levels = {name: hardware.level(name) for name in homes(hardware)}
    words = {name: hardware.arch.levels[index].usable for name, index in levels.items()}
    layers = []
    for index, (problem, base) in enumerate(zip(segment.problems, bases, strict=True)):
        before = segment.into(index)
        linked = next((link.tensor for link in before if link.distance == 1), None)
        layers.append(translated(partial(_compiled_layer, levels), problem, base, linked,
                                 *(link.tensor for link in before)))
    links = [translated(_compiled_link, link, segment.slides[index], segment.problems[index],
                        segment.problems[segment.reader(index)]) for index, link in enumerate(segment.links)]
    shared = [(one.layer, segment.problems[one.layer].dataspace_names().index(one.operand),
               one.first, segment.problems[one.first].dataspace_names().index(one.tensor)) for one in segment.shared]
    return CompiledSegment(segment, bases, {name: inf if room is None else float(room) for name, room in words.items()},
                           FusedSegment(layers, links, float(segment.repeat), shared))


def _compiled_layer(levels: Mapping[str, int], problem: Problem, base: LayerBase, linked: str | None,
                    *handed: str) -> SegmentLayer:
    """The kernel's form of a layer.

    `levels`: the homes with their indices; `linked`: what the layer right before it hands on; `handed`: what all do.
    """
    names, position = problem.dataspace_names(), {dim: index for index, dim in enumerate(problem.dimensions)}
    return SegmentLayer(
        bounds=list(problem.bounds.values()),
        known=[(own.compute, [own.lanes.get(dim, 1) for dim in problem.dimensions]) for own in base.known],
        spaces=[[[(position[term.dimension], term.coefficient) for term in rank] for rank in space.ranks]
                for space in problem.dataspaces],
        output=names.index(problem.output.name),
        linked=-1 if linked is None else names.index(linked), handed=sum(1 << names.index(name) for name in handed),
        inside=base.inside, sums_room=base.sums_room, read=base.costs.read[-1], write=base.costs.written,
        words_per_cycle=base.costs.bandwidth,
        home_reads=[base.home_reads.get(level, {}).get(name, 0.0) for level in levels for name in names],
        home_price=[base.costs.read[index] for index in levels.values()])


def _compiled_link(link: FusedLink, slides: Mapping[str, WindowSlide], producer: Problem,
                   consumer: Problem) -> SegmentLink:
    """The kernel's form of a link; tables are by dimension of the producer."""
    position = {dim: index for index, dim in enumerate(consumer.dimensions)}
    strides, lying = link.stored_strides, 1 + link.company
    windows = [slides.get(dim, WindowSlide(1, 1)) for dim in producer.dimensions]
    return SegmentLink(
        theirs=[position[link.dims[dim]] if dim in link.dims else -1 for dim in producer.dimensions],
        slides=[((slide.kernel - 1) * slide.dilation + 1, slide.stride, slide.shrink, -slide.pad % slide.shrink,
                 slide.block, slide.ahead, slide.advance) for slide in windows],
        stored=[strides.get(dim, 1) for dim in producer.dimensions], lying=(lying.numerator, lying.denominator),
        elsewhere=float(link.elsewhere), beside=link.beside, written_whole=link.written_whole,
        written_pooled=link.written_pooled, distance=link.distance)


@dataclass(frozen=True)
class Division:
    """An intermediate of two layers that instances of a level divide among them."""

    stay: Stay  # the level and the shares, along no loops
    shares: dict[str, int]  # dimension of the last layer -> number of instances that divide it
    saved: OperatingPoint  # energy by which estimates are lowered


def division(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase], stay: Stay) -> Division:
    """The division with the level and the shares of a residency, of a segment of two layers.

    Estimates count accesses to the home as the layers by themselves make them, the copy of the intermediate to it, and
    that each of its words is read there. Tiles that fit single instances make others; the exact evaluation knows them.
    """
    (link,), shares = segment.links, dict[str, int]()
    for _, dim, number in stay.shares:
        shares[link.dims[dim]] = shares.get(link.dims[dim], 1) * number
    (home, *_), words = homes(hardware), segment.problems[0].tensor_size(segment.problems[0].output)
    read = max(words - bases[-1].home_reads.get(home, {}).get(link.tensor, 0.0), 0.0)
    saved = (words + read) * bases[0].costs.read[hardware.level(home)]
    saved += sum(base.accesses.get(home, 0.0) for base in bases)
    return Division(replace(stay, across=frozenset()), shares, OperatingPoint(segment.repeat * saved, 0.0))


@dataclass(frozen=True)
class TileNest:
    """Shared loops without their sizes."""

    home: str  # name of the level in which intermediates lie
    dims: tuple[str, ...]  # dimensions of the last layer, outermost loop first
    # for each link the loops along which its words are retained; along the others, they are recomputed
    retained: tuple[frozenset[str], ...]
    sums: str  # where partial sums rest between the steps that add to them, as of `FusedGroup.sums`
    division: Division | None = None  # how instances of a level divide the intermediate, which passes by the home


def homes(hardware: Hardware) -> list[str]:
    """The levels in which tensors can stay, outermost first: on the chip, with a single instance and some room."""
    return [level.name for level in reversed(hardware.arch.levels[:-1])
            if level.instances == 1 and not level.is_dummy and level.usable != 0]


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet."""

    segment: Segment  # its layers and links
    group: FusedGroup  # the group, without mappings
    estimate: OperatingPoint  # estimated energy and cycles, all repeats together, less `left_out`
    # reads of residual operands from the outermost level that the network does without, as the group reads them on the
    # chip
    left_out: OperatingPoint = NOTHING


@dataclass(frozen=True)
class Sheet:
    """A nest of shared loops with a grid of tile sizes, [loops, B]; the estimates number the residency choices."""

    nest: TileNest
    segment: Segment
    sizes: np.ndarray
    estimate: NestEstimate

    def lower_prices(self, price: NetworkPrice) -> list[float]:
        """A lower price of every residency choice in its best tile sizes; infinite where operands do not fit."""
        return self.estimate.lower_prices(*price.sums)

    def best_tile_sizes(self, choice: int, price: NetworkPrice, bar: float) -> SizedNest | None:
        """The best tile sizes of a residency choice with refetches; None where none is below the price `bar`."""
        best = self.estimate.best_sizes(choice, *price.sums, bar)
        if best is None:
            return None
        value, energy, cycles, column = best
        return SizedNest(value, self, choice, column, OperatingPoint(energy, cycles))


@dataclass(frozen=True)
class SizedNest:
    """The best tile sizes of one residency choice of a nest."""

    price: float
    sheet: Sheet
    choice: int  # number of the residency choice
    column: int  # number of the tile sizes
    estimate: OperatingPoint  # estimated energy and cycles, all repeats together

    @property
    def tiles(self) -> tuple[int, ...]:
        """Tile size of each loop, outermost first."""
        return tuple(map(int, self.sheet.sizes[:, self.column]))

    def candidate(self) -> Candidate:
        """The group, without mappings, with its estimate."""
        nest, segment = self.sheet.nest, self.sheet.segment
        stays: list[dict[str, Stay]] = [{} for _ in segment.problems]
        shared: list[dict[str, tuple[int, str]]] = [{} for _ in segment.problems]
        names = [problem.dataspace_names() for problem in segment.problems]
        for layer, space, across, first, there in self.sheet.estimate.stays(self.choice):
            loops = frozenset(dim for index, dim in enumerate(nest.dims) if across >> index & 1)
            stays[layer][names[layer][space]] = Stay(nest.home, loops)
            if first >= 0:
                shared[layer][names[layer][space]] = first, names[first][there]
        layers = tuple(FusedLayer(problem, {}, staying, brought)
                       for problem, staying, brought in zip(segment.problems, stays, shared, strict=True))
        links = tuple(link.staying(replace(nest.division.stay if nest.division else Stay(nest.home), across=retained))
                      for link, retained in zip(segment.links, nest.retained, strict=True))
        return Candidate(segment, FusedGroup(layers, links, tuple(map(TileLoop, nest.dims, self.tiles)), segment.repeat,
                                             sums=nest.sums),
                         self.estimate.less(nest.division.saved if nest.division else NOTHING))


def sheet_of(compiled: CompiledSegment, nest: TileNest, sizes: np.ndarray) -> Sheet:
    """The estimates of a segment in one nest, for tile sizes [loops, B]."""
    last = compiled.segment.problems[-1].dimensions
    retained = [sum(1 << index for index, dim in enumerate(nest.dims) if dim in loops) for loops in nest.retained]
    resting = SumsRest.INSIDE if not nest.sums else SumsRest.HOME if nest.sums == nest.home else SumsRest.OUTERMOST
    return Sheet(nest, compiled.segment, sizes, NestEstimate(
        compiled.tables, list(compiled.usable).index(nest.home), compiled.usable[nest.home],
        [last.index(dim) for dim in nest.dims], retained, resting, sizes))
