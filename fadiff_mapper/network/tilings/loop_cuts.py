"""Shared loops as every layer of a segment sees them, in closed form for many tile sizes side by side.

Problem. `fusion.groups.tile_steps` walks through all steps of a group, which is exact and too slow for thousands of
tile sizes.

Method. The same quantities in closed form, as arrays [B] with one entry per choice of tile sizes: where steps are
summed up, a step counts as the average one; where they must fit, as the largest. `tile_steps` is the authority:
`fetched` is the closed form of `StepClass.fresh`, `held` of `operand_words` and `intermediate_words`, `outlasting` of
`outlasting_words`, and tests/network/test_candidates.py holds them against each other over random groups.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion import FusedLink
from fadiff_mapper.fusion.groups.stored_words import accompanied, stored_extents
from fadiff_mapper.fusion.groups.tile_steps import moved_rank, read_slide
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.spec.problem import DataSpace, Problem, extent_along


@dataclass(frozen=True)
class LoopCut:
    """A shared loop as a layer sees it; all arrays are [B].

    Attributes:
        loop: The loop, by the dimension of the last layer.
        dim: The dimension of this layer that it moves, None where it moves none.
        steps: Steps in which the layer works.
        points: Points of `dim` computed in all steps together.
        first: Points computed in the first step, with nothing retained yet and padding before it.
        later: Points computed in any later step.
        needed: Points of `dim` that the next layer wants in one step, at most.
        advance: Points by which these move on from one step to the next.
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
    """Carries shared loops from the last layer of a segment back to its first.

    Args:
        segment: The segment.
        dims: The loops, by dimension of the last layer, outermost first.
        sizes: Points of a tile along each loop, [B] each.
        retained: For each link the loops along which its words are retained.

    Returns:
        For every layer its cut by each loop.
    """
    last = segment.problems[-1]
    columns = [[_cut_last(last, dim, size)] for dim, size in zip(dims, sizes, strict=True)]
    for index in reversed(range(len(segment.links))):
        for column in columns:
            column.insert(0, _cut_before(segment, index, column[0], column[0].loop in retained[index]))
    return [[column[index] for column in columns] for index in range(len(segment.problems))]


def _cut_last(problem: Problem, dim: str, size: np.ndarray) -> LoopCut:
    """A loop as the last layer sees it."""
    bound = problem.bounds[dim]
    return LoopCut(dim, dim, np.ceil(bound / size), np.full_like(size, bound), size, size, size, size)


def _cut_before(segment: Segment, index: int, after: LoopCut, retained: bool) -> LoopCut:
    """A loop as layer `index` sees it, from how the next layer does: through the window by which that one reads."""
    link, problem, reader = segment.links[index], segment.problems[index], segment.problems[index + 1]
    own = next((mine for mine, theirs in link.dims.items() if theirs == after.dim), None)
    once = np.ones_like(after.steps)
    if own is None or after.dim is None:
        return LoopCut(after.loop, None, once if retained else after.steps, once, once, once, once, once)
    extent, slide = problem.bounds[own], read_slide(reader, link, after.dim)
    first = np.minimum(slide.reach(after.first) - slide.ahead, extent)
    later = np.minimum(slide.reach(after.usual), extent)
    whole = np.minimum(slide.reach(after.points) - 2 * slide.ahead, extent)
    again = np.minimum(after.steps * slide.reach(after.average) - 2 * slide.ahead, after.steps * extent)
    advance = slide.advance * after.advance
    # Padding shortens the first and the last window; even so, every point is computed at least once.
    return LoopCut(after.loop, own, after.steps, whole if retained else np.maximum(again, whole), first,
                   np.minimum(later, advance) if retained else later, np.maximum(first, later), advance)


def _reach(space: DataSpace, problem: Problem, dim: str, points: np.ndarray) -> np.ndarray:
    """Points along the rank that a dimension moves, touched by so many of its points."""
    rank = moved_rank(space, dim)[1]
    result: np.ndarray = extent_along(rank, {**problem.bounds, dim: points})
    return result


def computed(problem: Problem, cuts: Cuts) -> np.ndarray:
    """Computes how often a layer does its work, averaged over its points: 1 without recomputation.

    Args:
        problem: The layer.
        cuts: Its cuts by the shared loops.
    """
    result: Any = 1.0
    for cut in cuts:
        result = result * (cut.steps if cut.dim is None else cut.points / problem.bounds[cut.dim])
    return np.asarray(result)


def fetched(space: DataSpace, problem: Problem, cuts: Cuts, across: Collection[str]) -> np.ndarray:
    """Counts the words of a data space that come from outside over all steps.

    Args:
        space: The data space.
        problem: The layer.
        cuts: Its cuts by the shared loops.
        across: Loops along which words that are there stay.
    """
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
    """Counts the words that lie there at once while a data space stays.

    Args:
        space: The data space.
        problem: The layer.
        cuts: Its cuts by the shared loops.
        across: Loops along which its words stay.
        link: For an intermediate, the link that leads out of the layer; the next layer's needs then count.
    """
    extents: dict[str, Any] = dict(problem.bounds)
    outlive = False
    for cut in cuts:
        if cut.dim is not None and not outlive:
            extents[cut.dim] = cut.largest if link is None else cut.needed
        outlive = outlive or cut.loop in across    # kept along an outer loop: the inner ones walk through all of it
    words = np.asarray(prod(space.tile_extents(stored_extents(link, extents) if link else extents), start=1.0))
    return words if link is None else accompanied(link, words)


def outlasting(space: DataSpace, problem: Problem, cuts: Cuts, across: Collection[str], link: FusedLink) -> np.ndarray:
    """Counts the words of an intermediate that stay live while the other layers run.

    Args:
        space: The producer's output.
        problem: The producer.
        cuts: Its cuts by the shared loops.
        across: Loops along which the intermediate is retained.
        link: The link that leads out of the producer.

    Returns:
        0 without such a loop, the halo of consecutive steps if the innermost loop is the only one, else all that lies
        there.
    """
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
    """Extents of a layer's largest tile by dimension: [B], or a number where no loop cuts.

    Args:
        problem: The layer.
        cuts: Its cuts by the shared loops.
    """
    return problem.bounds | {cut.dim: cut.largest for cut in cuts if cut.dim is not None}
