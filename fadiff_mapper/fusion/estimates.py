"""Estimates of fused groups before their tiles are mapped, from the mappings of their layers by themselves.

Problem. Thousands of candidates cannot be mapped; they have to be ranked. For one order of loops, tile sizes and
resident operands trade the room in the home level against traffic to the outermost one.

Method. A layer's best mapping by itself gives its energy and cycles on the chip (`LayerBase`). The compiled estimate
(`kernel/nest_estimate.hpp`) replaces its traffic with the outermost level and multiplies its work where halos are
recomputed, for all residency choices and many tile sizes side by side. It has two stages (`best_candidates`): a lower
price assumes that every passing operand comes in once per step; then refetches of tiles that do not fit are added, for
the most promising sizes of one choice. Estimates only rank candidates; every plan that is returned is evaluated
exactly, and `revised` corrects the estimate once a group has run a layer faster than expected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, Stay, TileLoop
from fadiff_mapper.fusion.prices import NOTHING, NetworkPrice, WordCosts, word_costs
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.kernel._kernel import FusedSegment, NestEstimate, SegmentLayer, SegmentLink, SumsRest
from fadiff_mapper.model.stats import counted
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import OperatingPoint
from fadiff_mapper.workload.window_slide import WindowSlide

LESS = 1e-6
"""Relative difference of cycles that counts as fewer: a guard against rounding."""

KNOWN_LANES = 6
"""Most mappings of a layer whose lanes estimates use, the fastest first. Set by hand."""


@dataclass(frozen=True)
class SideBySide:
    """The parallelism of one mapping of a layer."""

    compute: float  # cycles inside the outermost level
    lanes: dict[str, int]  # spatial factor of each dimension, over all levels


@dataclass(frozen=True)
class LayerBase:
    """Costs of a layer by itself, with its best mapping, as estimates use them."""

    inside: float  # pJ without accesses of the outermost level
    home_reads: dict[str, dict[str, float]]  # words read from each level: level -> data space -> words
    sums_room: float  # words of output that fit in the level that finishes sums, all instances
    # mappings that tiles may follow, fastest first: the layer's best; its fastest, also with padded bounds, whose lanes
    # tiles can fill where the whole layer cannot; and mappings of tiles in evaluated groups
    known: tuple[SideBySide, ...]
    costs: WordCosts
    whole: OperatingPoint  # energy and cycles of the best mapping, one run
    constraints: Constraints | None = None  # the design's
    accesses: Mapping[str, float] = field(default_factory=dict)  # level -> pJ of all its accesses


def layer_base(result: Result, padded: Sequence[Result] = ()) -> LayerBase:
    """Costs of a layer from its best mapping by itself, and parallelism of fast mappings, also with `padded` bounds."""
    levels = result.stats.levels
    accesses = {level["name"]: sum(space["energy_pj_total"] for space in level["dataspaces"].values())
                for level in levels}
    operations = prod(result.spec.problem.bounds.values())
    known = [SideBySide(_cycles_inside(result), _lanes(result.mapping))]
    known += [SideBySide(_cycles_inside(one) * operations / prod(one.spec.problem.bounds.values()), _lanes(one.mapping))
              for one in padded]
    constraints = result.spec.constraints
    sums_at = result.spec.arch.levels[sum_level(constraints, result.spec.problem.output.name)]
    return LayerBase(
        result.stats.energy_pj - accesses[levels[-1]["name"]],
        {level["name"]: {name: float(counted(space["reads"]) * space["utilized_instances"])
                         for name, space in level["dataspaces"].items()} for level in levels},
        inf if sums_at.usable is None else float(sums_at.usable * sums_at.instances),
        _fastest(known), word_costs(result.spec), OperatingPoint(result.stats.energy_pj, float(result.stats.cycles)),
        constraints, accesses)


def revised(base: LayerBase, cycles: float, mapping: LayerMapping) -> LayerBase:
    """Corrects the cycles of a layer after a group has run its work in `cycles`, with a mapping of its largest tile;
    the same object unless the group was faster.

    Tiles may use more units than any known mapping; until such a correction, groups with them are estimated too slow.
    """
    if cycles >= base.known[0].compute * (1 - LESS):
        return base
    return replace(base, known=_fastest([SideBySide(cycles, _lanes(mapping)), *base.known]))


def _fastest(known: Sequence[SideBySide]) -> tuple[SideBySide, ...]:
    """The fastest mappings with different lanes, fastest first, at most `KNOWN_LANES`."""
    ranked = sorted(known, key=lambda one: one.compute)
    return tuple(one for index, one in enumerate(ranked)
                 if all(one.lanes != other.lanes for other in ranked[:index]))[:KNOWN_LANES]


def group_bases(segment: Segment, bases: Mapping[str, LayerBase]) -> list[LayerBase]:
    """Costs of the layers of a segment by themselves, each with all runs that one run of the group has of it.

    `bases`: costs of one run of each layer by itself, by name.
    """
    return [bases[name] if runs == 1 else replace(
        bases[name], inside=runs * bases[name].inside,
        # a mapping over several runs may spread runs over units, so lanes of one run do not apply
        known=(SideBySide(runs * bases[name].known[0].compute, {}),),
        home_reads={level: {space: runs * words for space, words in own.items()}
                    for level, own in bases[name].home_reads.items()},
        whole=bases[name].whole.times(runs)) for name, runs in zip(segment.nodes, segment.runs, strict=True)]


def _cycles_inside(result: Result) -> float:
    """Cycles of a mapping without the outermost level's limit of bandwidth."""
    return float(max(result.stats.arithmetic["cycles"], *(level["cycles"] for level in result.stats.levels[:-1])))


def sum_level(constraints: Constraints, output: str) -> int:
    """Index of the level in which sums are finished: the innermost that must keep the output, else that may."""
    must = [index for index, level in enumerate(constraints.levels) if output in level.keep]
    may = [index for index, level in enumerate(constraints.levels) if output not in level.bypass]
    return (must or may)[0]


def _lanes(mapping: LayerMapping) -> dict[str, int]:
    """Spatial factor of each dimension, over all levels."""
    return {dim: prod(level.spatial[dim] for level in mapping.levels) for dim in mapping.levels[0].spatial}


@dataclass(frozen=True)
class CompiledSegment:
    """A segment on a design with the costs of its layers, in the form that estimates need."""

    hardware: Hardware
    segment: Segment
    bases: Sequence[LayerBase]  # costs of each layer by itself (`group_bases`)
    usable: dict[str, float]  # usable words of every possible home, by name; infinite without a limit
    tables: FusedSegment  # segment and bases in the kernel's form

    @property
    def bounds(self) -> dict[str, int]:
        """Bounds of the last layer, whose dimensions the shared loops cut."""
        return self.segment.problems[-1].bounds

    @property
    def lanes(self) -> dict[str, int]:
        """Spatial factor of each dimension of the last layer, in its fastest mapping."""
        return self.bases[-1].known[0].lanes


Translated = dict[Hashable, tuple[Any, Any]]
"""Layers and links in the kernel's form with their Python originals, by the identity of the originals."""


def compiled_segment(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase],
                     known: Translated | None = None) -> CompiledSegment:
    """Translates a segment and the costs of its layers (`group_bases`) for the compiled estimates.

    `known`: layers and links of other segments on the same design; those of this segment are added.
    """
    known = {} if known is None else known

    def translated(translate: Callable[..., Any], *parts: Any) -> Any:
        key = tuple(map(id, parts))
        if key not in known:
            known[key] = translate(*parts), parts  # kept alive, so that identities stay unique
        return known[key][0]

    levels = {name: hardware.level(name) for name in homes(hardware)}
    usable = {name: inf if (words := hardware.arch.levels[index].usable) is None else float(words)
              for name, index in levels.items()}
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
    return CompiledSegment(hardware, segment, bases, usable, FusedSegment(layers, links, float(segment.repeat), shared))


def _compiled_layer(levels: Mapping[str, int], problem: Problem, base: LayerBase, linked: str | None,
                    *handed: str) -> SegmentLayer:
    """The kernel's form of a layer.

    `levels`: possible homes with their indices; `linked`: operand from the layer before; `handed`: all such operands.
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
class TileNest:
    """Shared loops without tile sizes, with home and retained halos."""

    home: str  # name of the level in which intermediates lie
    dims: tuple[str, ...]  # dimensions of the last layer, outermost loop first
    # for each link the loops along which halos are retained; along other loops they are recomputed
    retained: tuple[frozenset[str], ...]
    sums: str  # where partial sums rest between steps, see `FusedGroup.sums`
    divided: Stay | None = None  # the intermediate divided among instances of another level than `home`


def homes(hardware: Hardware) -> list[str]:
    """The possible homes of tensors, outermost first: levels on the chip with a single instance and some room."""
    return [level.name for level in reversed(hardware.arch.levels[:-1])
            if level.instances == 1 and not level.is_dummy and level.usable != 0]


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet."""

    segment: Segment  # its layers and links
    group: FusedGroup  # the group, without mappings
    estimate: OperatingPoint  # estimated energy and cycles, all repeats together, less `left_out`
    # cost that the network saves outside of the group: reads of residual operands from the outermost level or, with
    # compute units, its operators run by themselves
    left_out: OperatingPoint = NOTHING


def nest_of(compiled: CompiledSegment, candidate: Candidate) -> TileNest:
    """The tile nest of a candidate."""
    group, stay = candidate.group, candidate.group.links[0].stay
    return TileNest(homes(compiled.hardware)[0] if stay.shares else stay.level, tuple(loop.dim for loop in group.loops),
                    tuple(link.stay.across for link in group.links), group.sums, stay if stay.shares else None)


def instances_along(segment: Segment, divided: Stay | None) -> dict[str, int]:
    """Dimension of the last layer -> number of instances that divide it, in a segment of two layers."""
    found: dict[str, int] = {}
    for _, dim, number in divided.shares if divided else ():
        theirs = segment.links[0].dims[dim]
        found[theirs] = found.get(theirs, 1) * number
    return found


def best_candidates(compiled: CompiledSegment, nests: Iterable[tuple[TileNest, np.ndarray]], price: NetworkPrice,
                    limit: float = inf, most: int = 1) -> list[Candidate]:
    """Finds the best tile sizes and resident operands; `nests`: each with the tile sizes to try, [loops, B].

    Returns:
        At most `most` residency choices with a price below `limit`, each with its best tile sizes, lowest estimate
        first; ties keep the order of `nests`.
    """
    last, usable = compiled.segment.problems[-1].dimensions, compiled.usable
    rough: list[tuple[float, int, int, TileNest, np.ndarray, NestEstimate]] = []
    for nest, sizes in nests:
        retained = [sum(1 << index for index, dim in enumerate(nest.dims) if dim in loops) for loops in nest.retained]
        sums = SumsRest.INSIDE if not nest.sums else SumsRest.HOME if nest.sums == nest.home else SumsRest.OUTERMOST
        estimate = NestEstimate(compiled.tables, list(usable).index(nest.home), usable[nest.home],
                                [last.index(dim) for dim in nest.dims], retained, sums, sizes, *price.sums, limit,
                                nest.home in compiled.hardware.resting)
        rough += [(least, len(rough) + choice, choice, nest, sizes, estimate)
                  for choice, least in enumerate(estimate.lower_prices(*price.sums)) if least < limit]
    best: list[tuple[float, int, Callable[[], Candidate]]] = []
    for least, number, choice, nest, sizes, estimate in sorted(rough, key=lambda item: item[:2]):
        bar = best[-1][0] if len(best) == most else limit
        if least >= bar:    # lower prices are sorted: all that follow are at least as high
            break
        if found := estimate.best_sizes(choice, *price.sums, bar):
            value, energy, cycles, column = found
            best.append((value, number, partial(_candidate, compiled, nest, estimate.stays(choice),
                                                sizes[:, column].astype(int).tolist(), OperatingPoint(energy, cycles))))
            best = sorted(best, key=lambda item: item[:2])[:most]
    return [candidate() for *_, candidate in best]


def _candidate(compiled: CompiledSegment, nest: TileNest, stays: Iterable[tuple[int, int, int, int, int]],
               tiles: Sequence[int], estimate: OperatingPoint) -> Candidate:
    """The group of a nest with given tile sizes; `stays`: the resident operands (`NestEstimate.stays`)."""
    segment = compiled.segment
    operands: list[dict[str, Stay]] = [{} for _ in segment.problems]
    shared: list[dict[str, tuple[int, str]]] = [{} for _ in segment.problems]
    names = [problem.dataspace_names() for problem in segment.problems]
    for layer, space, across, first, there in stays:
        loops = frozenset(dim for index, dim in enumerate(nest.dims) if across >> index & 1)
        operands[layer][names[layer][space]] = Stay(nest.home, loops)
        if first >= 0:
            shared[layer][names[layer][space]] = first, names[first][there]
    layers = tuple(FusedLayer(problem, {}, staying, brought)
                   for problem, staying, brought in zip(segment.problems, operands, shared, strict=True))
    links = tuple(link.staying(replace(nest.divided or Stay(nest.home), across=retained))
                  for link, retained in zip(segment.links, nest.retained, strict=True))
    return Candidate(segment, FusedGroup(layers, links, tuple(map(TileLoop, nest.dims, tiles)), segment.repeat,
                                         sums=nest.sums),
                     estimate.less(_saved_by_instances(compiled) if nest.divided else NOTHING))


def _saved_by_instances(compiled: CompiledSegment) -> OperatingPoint:
    """The energy that estimates count too much where instances of a level divide the intermediate of two layers.

    Estimates count the layers' own accesses to the home, the copy of the intermediate into it and the reads from it.
    Tiles in single instances need none of these; the exact evaluation counts their real accesses.
    """
    segment, bases, home = compiled.segment, compiled.bases, homes(compiled.hardware)[0]
    words = segment.problems[0].tensor_size(segment.problems[0].output)
    read = max(words - bases[-1].home_reads.get(home, {}).get(segment.links[0].tensor, 0.0), 0.0)
    saved = (words + read) * bases[0].costs.read[compiled.hardware.level(home)]
    saved += sum(base.accesses.get(home, 0.0) for base in bases)
    return OperatingPoint(segment.repeat * saved, 0.0)
