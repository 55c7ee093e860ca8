"""The least price of a part of groups that cannot be divided: proofs over all mappings of its tiles.

Problem. The groups of such a part have the same loops and tiles, and recompute the same words. The bound of the part
(`kernel/group_bound.hpp`) knows the words and the units of its tiles, not their mappings, and may be a tenth too low.

Method. Each tile is a problem of its own (`tile_mappings`). Its least price is proved in a map space that holds the
mappings of the tile in every group of the part:

    intermediates, lasting tensors   lie in the home; levels outside do not keep them, unless they are written whole
    operands from outside            stay, whole in the home, or pass; the cheaper case counts
    sums that later steps add to     lie in some level on the chip, or go to the outermost level
    room in the home                 all but the fewest words of the tensors that stay

Added are words that come in once for an operand that stays, the energy of unfinished sums that come back from the
outermost level in whole blocks, and that of finished ones that are written there at last. All else that a group adds to
its tiles costs further energy and cycles (`group_cost.fused_counts`), so no group of the part costs less.

A part may have several sets of tiles: dimensions that are alike may change places; a loop of a single step leaves out
points that no later layer reads; second readers of an intermediate may need more of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations, product
from math import inf, isfinite, prod
from operator import le
from typing import Any, TypeVar

from fadiff_mapper.base.deadline import never
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, TileLoop, layer_steps, step_classes
from fadiff_mapper.fusion.candidates import alike, cut_dims
from fadiff_mapper.fusion.fused_group import Shape, Stay
from fadiff_mapper.fusion.prices import WordCosts
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.fusion.tile_steps import LayerSteps, StepClass, resident_words, space_of
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.lasting_tensors import Residents
from fadiff_mapper.network.tile_mappings import SEARCH, ResidentTile, TileMemory, TileShape, TileStrategy, tile_outcomes

Item = TypeVar("Item")

ANY = TileStrategy.PIECES_FROM_INSIDE
"""Stands for all strategies: sums of an intermediate count as partial ones, which it does not constrain."""


@dataclass(frozen=True)
class WholePart:
    """The part of a segment's groups with some loops, tiles and decisions.

    Attributes:
        loops: The loops of several steps, outermost first.
        kept: For each link the dimensions of the loops along which its words stay.
        spilled: Whether unfinished sums leave the chip between steps.
        stays: For each layer and its first two operands from outside the number of the residency: 0 if undecided, 1 if
            the operand passes, more if it stays; where an earlier layer may have brought it, staying comes first.
        prices: The least price of each layer known so far.
    """

    loops: tuple[TileLoop, ...]
    kept: tuple[frozenset[str], ...]
    spilled: bool
    stays: Sequence[Sequence[int]]
    prices: Sequence[float]


@dataclass(frozen=True)
class SearchedSegment:
    """The groups of a segment on a design with one possible home, for searches of their tiles.

    `specs`: of its layers; the caller keeps them alive as long as `memory` and `prices`, which takes up the least price
    of every tile.
    """

    hardware: Hardware
    home: str
    segment: Segment
    specs: Sequence[Spec]
    residents: Residents    # lasting tensors in the home
    costs: WordCosts
    memory: TileMemory
    prices: dict[Hashable, float]

    @property
    def possible(self) -> bool:
        """Whether the tiles of a part are known, and their constraints no narrower than those of groups.

        Behind a resizing, points may be computed again or not. Groups ignore how much of a level a mapping must fill,
        and factors that a design fixes outside the home where an intermediate is whole there.
        """
        home = self.hardware.level(self.home)
        return not (
            self.segment.charged
            or any(slide.shrink > 1 or slide.block > 1 for slides in self.segment.slides for slide in slides.values())
            or any(level.min_utilization for level in self.hardware.arch.levels)
            or any(factor > 1 for spec in self.specs for level in spec.constraints.levels[home:]
                   for factor in (*level.temporal.fixed.values(), *level.temporal.minimum.values())))

    def price(self, part: WholePart, sums: tuple[float, float]) -> tuple[float, int]:
        """The least price of a part's groups, all repeats together, and the number of mappings evaluated for it.

        `sums`: the energy and the cycles that each cost 1.
        """
        least, work = inf, 1
        operands = [self._operands(part, index) for index in range(len(self.specs))]
        for group in self._tilings(part, operands):
            all_steps, total = layer_steps(group), 0.0
            room = self._room(group, all_steps)
            for index, known in enumerate(part.prices):
                price, evaluated = self._layer_price(
                    group, index, all_steps[index], part.spilled, operands[index], room[index], sums)
                total += max(known, self.segment.repeat * price)
                work += evaluated
            least = min(least, total)
        return least, work

    def _operands(self, part: WholePart, index: int) -> dict[str, Sequence[bool]]:
        """The operands of a layer from outside: whether each stays, and both answers where that is undecided."""
        problem = self.segment.problems[index]
        given = {link.tensor for link in self.segment.into(index)} | self._lasting(index)
        outside = [space.name for space in problem.dataspaces
                   if space is not problem.output and space.name not in given]
        passing = [1 + (name in self._brought(index)) for name in outside]  # the number of this residency
        numbers = [*part.stays[index], *(0 for _ in outside)]
        # what passes may lie in the home during a step, even where the design's mappings do not keep it there
        bypassed = self.specs[index].constraints.levels[self.hardware.level(self.home)].bypass
        return {name: [number != own] if number and (number != own or name not in bypassed) else [False, True]
                for name, number, own in zip(outside, numbers, passing, strict=False)}

    def _lasting(self, index: int) -> set[str]:
        """The operands of a layer that are lasting tensors."""
        return {operand for number, operand, _ in self.residents.operands if number == index}

    def _brought(self, index: int) -> set[str]:
        """The operands of a layer that an earlier layer may have brought into the home."""
        return {one.operand for one in self.segment.shared if one.layer == index}

    def _tilings(self, part: WholePart, operands: Sequence[Mapping[str, Sequence[bool]]]) -> Iterator[FusedGroup]:
        """A group of each set of tiles in a part, without mappings; its operands are those that stay for certain."""
        segment, dims = self.segment, cut_dims(self.segment) if self.segment.links else []
        layers = tuple(FusedLayer(problem, {}, {name: Stay(self.home) for name, stays in own.items()
                                                if all(stays) and name not in self._brought(index)})
                       for index, (problem, own) in enumerate(zip(segment.problems, operands, strict=True)))
        for places in _exchanges(segment, dims):
            found: list[tuple[Any, list[int]]] = []     # tiles, and the layers at which intermediates are read last
            loops = tuple(TileLoop(places[loop.dim], loop.tile) for loop in part.loops)
            single = [TileLoop(dim, segment.problems[-1].bounds[dim]) for dim in dims
                      if dim not in {loop.dim for loop in loops}]
            links = tuple(link.staying(Stay(self.home, frozenset(places[dim] for dim in kept)))
                          for link, kept in zip(segment.links, part.kept, strict=True))
            for others, reads in product(_subsets(single), _subsets([other.read for other in segment.residuals])):
                # outside of all loops, one of a single step needs the least room
                group = FusedGroup(layers, links, (*others, *loops), segment.repeat, second_reads=reads)
                tiles = [_times(step_classes(group, layer, steps))
                         for layer, steps in zip(group.layers, layer_steps(group), strict=True)]
                if not any(tiles == known and all(map(le, earlier, group.last_uses())) for known, earlier in found):
                    found.append((tiles, group.last_uses()))
                    yield group

    def _room(self, group: FusedGroup, all_steps: Sequence[LayerSteps]) -> list[float]:
        """Words of the home that a group leaves to each layer, with whichever policy takes fewer for a tensor."""
        level = self.hardware.arch.levels[self.hardware.level(self.home)]
        assert level.usable is not None
        whole = fewest = resident_words(group, all_steps, level)
        for index, link in enumerate(group.links):
            lines = replace(group, links=(*group.links[:index], link.staying(replace(link.stay, lines=True)),
                                          *group.links[index + 1:]))
            fewest = [least + min(words - before, 0) for least, words, before in zip(
                fewest, resident_words(lines, all_steps, level), whole, strict=True)]
        return [float(level.usable - self.residents.room - words) for words in fewest]

    def _layer_price(self, group: FusedGroup, index: int, steps: LayerSteps, spilled: bool,
                     operands: Mapping[str, Sequence[bool]], room: float,
                     sums: tuple[float, float]) -> tuple[float, int]:
        """The least price of a layer in one run of a group, and the number of mappings evaluated for it."""
        layer, home = group.layers[index], self.hardware.level(self.home)
        problem, output, classes = layer.problem, layer.problem.output, step_classes(group, layer, steps)
        given = [ResidentTile(link.tensor, home, handed=True, apart=link.beside) for link in group.into(index)]
        given += [ResidentTile(operand, home) for operand in sorted(self._lasting(index))]
        # where sums lie, each with the energy of their words beside those of single tiles
        places: list[tuple[list[ResidentTile], float]] = [([], 0.0)]
        if index < len(group.links) or self.residents.made:
            written = any(link.written_whole and index not in self.segment.read_inside
                          for link in group.links[index:index + 1])
            places = [([ResidentTile(output.name, home, written, handed=True, partial=True)], 0.0)]
        elif any(step.shares_sums for step in classes):
            words = {step: problem.resized(step.shape).tensor_size(output) for step in classes}
            block = self.hardware.arch.levels[-1].block_size * self.hardware.arch.levels[-1].instances
            # beside words that the tile itself reads back, a part of a block may take no further access
            again = sum(number * (words[step] // block * block)
                        for step, number in classes.items() if not step.first_sum)
            last = sum(number * words[step] for step, number in classes.items() if step.last_sum)
            places = [([], self.costs.read[-1] * again)] if spilled else [
                ([ResidentTile(output.name, level, handed=True, apart=True, partial=True)], self.costs.written * last)
                for level, here in enumerate(self.specs[index].constraints.levels[:-1])
                if output.name not in here.bypass]
        least, work = inf, 0
        for ways in product(*operands.values()):
            staying = [space_of(problem, name) for name, stays in zip(operands, ways, strict=True) if stays]
            left = room - sum(max(prod(space.tile_extents(problem.resized(step.shape).bounds)) for step in classes)
                              for space in staying if space.name not in layer.operands.keys() | self._brought(index))
            if left < 0:
                continue
            kept = Stay(self.home, frozenset(loop.dim for loop in group.loops))
            fetching = step_classes(group, replace(layer, operands={
                space.name: kept for space in staying if space.name not in self._brought(index)}), steps)
            for sums_there, energy in places:
                held = (*given, *(ResidentTile(space.name, home) for space in staying), *sums_there)
                price, evaluated = self._steps_price(index, fetching, held, left, sums)
                least = min(least, price + energy / sums[0])
                work += evaluated
        return least, work

    def _steps_price(self, index: int, classes: Counter[StepClass], held: tuple[ResidentTile, ...], room: float,
                     sums: tuple[float, float]) -> tuple[float, int]:
        """The least price of the steps of a layer beside some data spaces, and the number of mappings evaluated for it.

        A step takes at least as long as its fetched words need, beside the least energy of its tile.

        Args:
            index: The position of the layer.
            classes: Its steps, with the words that come in once.
            held: The data spaces.
            room: Words of the home.
            sums: The energy and the cycles that each cost 1.
        """
        energy, cycles = self.costs.read[-1] / sums[0], 1 / self.costs.most / sums[1]     # prices of a word
        computes = {step.shape: self.segment.problems[index].resized(step.shape).computes for step in classes}
        lanes = self.hardware.arch.arithmetic.instances
        slow = {step.shape for step in classes if isfinite(sum(sums))
                and sum(step.fresh) / self.costs.most > computes[step.shape] / lanes}
        least, work = self._tile_prices(index, list(_times(classes)), held, room, sums)
        alone, more = self._tile_prices(index, sorted(slow), held, room, (sums[0], inf))    # by their energy
        return sum(number * (energy * sum(step.fresh) + max(
            least[step.shape], alone.get(step.shape, 0.0) + cycles * sum(step.fresh)))
            for step, number in classes.items()), work + more

    def _tile_prices(self, index: int, shapes: Sequence[Shape], held: tuple[ResidentTile, ...], room: float,
                     sums: tuple[float, float]) -> tuple[dict[Shape, float], int]:
        """The least price of each tile of a layer, and the number of mappings evaluated; arguments as above."""
        spec, problem = self.specs[index], self.segment.problems[index]
        prepared = self.memory.layer(spec, problem)
        rooms = tuple(room if level.name == self.home else inf if level.usable is None else float(level.usable)
                      for level in self.hardware.arch.levels)
        keys = {shape: (prepared[1], shape, sums, held, *rooms) for shape in shapes}
        new = [shape for shape, key in keys.items() if key not in self.prices]
        outcomes = tile_outcomes([(TileShape(
            index, shape, replace(spec, problem=problem.resized(shape)), "", keys[shape], rooms, (ANY,), held, sums,
            prepared), ANY) for shape in new], SEARCH, never, replace(self.memory, outcomes={}))
        for shape, outcome in zip(new, outcomes, strict=True):
            # no outcome where constraints contradict each other, no least price where nothing is proved
            self.prices[keys[shape]] = inf if outcome is None else outcome.least or 0.0
        return ({shape: self.prices[key] for shape, key in keys.items()},
                sum(outcome.evaluations for outcome in outcomes if outcome))


def _subsets(of: Sequence[Item]) -> Iterable[tuple[Item, ...]]:
    """All subsets, the smallest first."""
    return chain.from_iterable(combinations(of, count) for count in range(len(of) + 1))


def _times(classes: Counter[StepClass]) -> Counter[Shape]:
    """The number of steps with each shape of tile."""
    times: Counter[Shape] = Counter()
    for step, number in classes.items():
        times[step.shape] += number
    return times


def _exchanges(segment: Segment, dims: Sequence[str]) -> Iterator[dict[str, str]]:
    """All exchanges of dimensions of the last layer that are alike, each as the place of every dimension."""
    for order in permutations(dims):
        if all(dim == place or alike(segment, dim, place) for dim, place in zip(dims, order, strict=True)):
            yield dict(zip(dims, order, strict=True))
