"""What shared loops make of every layer of a segment, for many tile sizes side by side.

The same quantities as in `fusion.steps`, in closed form: a step counts as the average one where it is summed up, and
as the largest one where it must fit. Arrays are [B], one entry per choice of tile sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion import FusedLink
from fadiff_mapper.fusion.groups.stored_words import stored_extents
from fadiff_mapper.fusion.groups.tile_steps import moved_rank, read_slide
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.spec.problem import DataSpace, Problem


@dataclass(frozen=True)
class LoopCut:
    """One shared loop as one layer sees it.

    loop      the dimension of the last layer
    dim       the dimension of this layer that it moves, None where it moves none
    steps     those in which the layer works
    points    of `dim` that it computes in all steps together
    first     of these in the first step, which has nothing yet that is kept, but padding before it
    later     in any later step
    needed    points of `dim` that the next layer wants in one step, at most
    advance   from the first of these in one step to the first in the next
    """

    loop: str
    dim: str | None
    steps: np.ndarray
    points: np.ndarray
    first: np.ndarray
    later: np.ndarray
    needed: np.ndarray
    advance: np.ndarray

    @property
    def largest(self) -> np.ndarray:
        """Points of the largest step."""
        result: np.ndarray = np.maximum(self.first, self.usual)
        return result

    @property
    def usual(self) -> np.ndarray:
        """Points of most steps."""
        result: np.ndarray = np.where(self.steps > 1, self.later, self.first)
        return result

    @property
    def average(self) -> np.ndarray:
        """Points of one step."""
        result: np.ndarray = self.points / self.steps
        return result


Cuts = Sequence[LoopCut]


def layer_cuts(segment: Segment, dims: Sequence[str], sizes: Sequence[np.ndarray],
               retained: Sequence[Collection[str]]) -> list[list[LoopCut]]:
    """For every layer its cut by each loop. `retained`: for each link the loops along which its halo is kept."""
    last = segment.problems[-1]
    columns = [[_cut_last(last, dim, size)] for dim, size in zip(dims, sizes, strict=True)]
    for index in reversed(range(len(segment.links))):
        for column in columns:
            column.insert(0, _cut_before(segment, index, column[0], column[0].loop in retained[index]))
    return [[column[index] for column in columns] for index in range(len(segment.problems))]


def _cut_last(problem: Problem, dim: str, size: np.ndarray) -> LoopCut:
    bound = problem.bounds[dim]
    return LoopCut(dim, dim, np.ceil(bound / size), np.full_like(size, bound), size, size, size, size)


def _cut_before(segment: Segment, index: int, after: LoopCut, retained: bool) -> LoopCut:
    link, problem, reader = segment.links[index], segment.problems[index], segment.problems[index + 1]
    own = next((mine for mine, theirs in link.dims.items() if theirs == after.dim), None)
    one = np.ones_like(after.steps)
    if own is None or after.dim is None:
        return LoopCut(after.loop, None, one if retained else after.steps, one, one, one, one, one)
    extent, slide = problem.bounds[own], read_slide(reader, link, after.dim)
    first = np.minimum(slide.reach(after.first) - slide.pad, extent)
    later = np.minimum(slide.reach(after.usual), extent)
    whole = np.minimum(slide.reach(after.points) - 2 * slide.pad, extent)
    again = np.minimum(after.steps * slide.reach(after.average) - 2 * slide.pad, after.steps * extent)
    advance = slide.stride * after.advance
    return LoopCut(after.loop, own, after.steps, whole if retained else np.maximum(again, whole), first,
                   np.minimum(later, advance) if retained else later, np.maximum(first, later), advance)


def _reach(space: DataSpace, problem: Problem, dim: str, points: np.ndarray) -> np.ndarray:
    """Points of the rank that a dimension moves, touched by so many of its points."""
    rank = moved_rank(space, dim)[1]
    own = sum(term.coefficient for term in rank if term.dimension == dim)
    others = sum(term.coefficient * (problem.bounds[term.dimension] - 1) for term in rank if term.dimension != dim)
    result: np.ndarray = own * (points - 1) + others + 1
    return result


def computed(problem: Problem, cuts: Cuts) -> np.ndarray:
    """How often a layer computes what it has to, on average."""
    result: Any = 1.0
    for cut in cuts:
        result = result * (cut.steps if cut.dim is None else cut.points / problem.bounds[cut.dim])
    return np.asarray(result)


def fetched(space: DataSpace, problem: Problem, cuts: Cuts, across: Collection[str]) -> np.ndarray:
    """Words of a data space that come from outside over all steps; along `across` those that are there stay."""
    extents: list[Any] = list(space.tile_extents(problem.bounds))
    times: Any = 1.0
    for cut in cuts:
        if cut.dim is None or cut.dim not in space.dimensions:
            times = times * (1 if cut.loop in across else cut.steps)
        elif cut.loop not in across:
            extents[moved_rank(space, cut.dim)[0]] = cut.steps * _reach(space, problem, cut.dim, cut.average)
    return np.asarray(times * prod(extents, start=1.0))


def held(space: DataSpace, problem: Problem, cuts: Cuts, across: Collection[str],
         link: FusedLink | None = None) -> np.ndarray:
    """Words that are there at once while a data space stays; with a link an intermediate, as the next layer needs
    it."""
    extents: dict[str, Any] = dict(problem.bounds)
    outlive = False
    for cut in cuts:
        if cut.dim is not None and not outlive:
            extents[cut.dim] = cut.largest if link is None else cut.needed
        outlive = outlive or cut.loop in across
    return np.asarray(prod(space.tile_extents(stored_extents(link, extents) if link else extents), start=1.0))


def outlasting(space: DataSpace, problem: Problem, cuts: Cuts, across: Collection[str], link: FusedLink) -> np.ndarray:
    """Words of an intermediate that are there while other layers run, as `fusion.steps.outlasting_words`."""
    kept = [cut for cut in cuts if cut.loop in across]
    if not kept:
        return np.zeros(())
    words, innermost = held(space, problem, cuts, across, link), cuts[-1]
    if [cut.loop for cut in kept] != [innermost.loop] or innermost.dim is None:
        return words
    shared, tile = (stored_extents(link, {innermost.dim: points})[innermost.dim]
                    for points in (np.maximum(innermost.needed - innermost.advance, 0), innermost.needed))
    return np.asarray(words * shared / tile)


def largest_tile(problem: Problem, cuts: Cuts) -> dict[str, Any]:
    """Extents of a layer's largest tile."""
    return problem.bounds | {cut.dim: cut.largest for cut in cuts if cut.dim is not None}
