"""Fiber trees: which loops become which rank of a format.

A format has a fixed number of ranks, each of which takes one loop, or several that its flattening rule allows. Loops of
bound 1 are passed over. Where the level further out is compressed, its tile must consist of the tiles further in
(pretiling): its inner ranks are then those of the child.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.sparse.complete_nest import CompleteNest, NestLoop, Ranks, box_of, unit_box
from fadiff_mapper.spec.sparse_optimizations import Representation


@dataclass(frozen=True)
class FiberTree:
    """The ranks of one tile, innermost first.

    Attributes:
        loops: For each rank its loops, as (dimension index, bound); none for a rank that no loop was left for.
        boxes: One more than ranks: boxes[r] is the box below rank r, boxes[r + 1] the one of its whole fiber.
        fibers: Coordinates of a fiber of each rank.
        inner_to_outer: The order in which loops were given to ranks.
    """

    loops: tuple[tuple[tuple[int, int], ...], ...]
    boxes: tuple[Box, ...]
    fibers: tuple[int, ...]
    inner_to_outer: bool

    def counts(self, rank: int) -> bool:
        """Whether a rank costs anything: ranks of a single coordinate are passed over, except the first given one."""
        first = 0 if self.inner_to_outer else len(self.fibers) - 1
        return self.fibers[rank] != 1 or rank == first


@dataclass(frozen=True)
class _Relevant:
    """The loops between a tile and its child that move the data space, innermost first."""

    loops: tuple[NestLoop, ...]
    boxes: tuple[Box, ...]


class TooFewRanks(Exception):
    """More loops are left than the format has ranks."""


@dataclass(frozen=True)
class TileLoops:
    """The loops from which the fiber tree of one level is built.

    Attributes:
        nest: All loops.
        ranks: Ranks of the data space.
        level: The level.
        child: The next level inwards that keeps the data space; None for the arithmetic.
        dimensions: Names of the dimensions of the problem.
    """

    nest: CompleteNest
    ranks: Ranks
    level: int
    child: int | None
    dimensions: tuple[str, ...]

    def relevant(self, *, tiled: bool) -> _Relevant:
        """The loops that move the data space.

        Args:
            tiled: Whether inner ranks come from the child's tree. Otherwise the innermost loop of each dimension
                stands for the loops of the child and everything inside it, too.
        """
        dims = {dim for rank in self.ranks for dim, _ in rank}
        inside = 0 if self.child is None else self.child + 1
        loops = [loop for level in range(inside, self.level + 1) for loop in self.nest[level] if loop.dim in dims]
        boxes = tuple(box_of(self.ranks, loop.points) for loop in loops)
        if not tiled and inside:
            points = list(self.nest[inside - 1][-1].points)
            for i, loop in enumerate(loops):
                loops[i] = replace(loop, bound=loop.bound * points[loop.dim])
                points[loop.dim] = 1
        return _Relevant(tuple(loops), boxes)


def fiber_tree(source: TileLoops, representation: Representation | None, child: FiberTree | None) -> FiberTree:
    """Gives loops to ranks.

    Args:
        source: The loops.
        representation: The format; None is one rank that takes all loops.
        child: The child's tree where inner ranks are the child's (pretiling), else None.

    Raises:
        TooFewRanks: Loops are left over.
    """
    outermost_first = representation is None or not representation.inner_to_outer
    relevant = source.relevant(tiled=child is not None)
    rules = _rules(representation, source.dimensions)[len(child.loops) if child else 0:]
    loops, boxes = (_outer_to_inner(relevant, rules) if outermost_first
                    else _inner_to_outer(relevant, rules, unit_box(source.ranks)))
    below = child.boxes if child else (unit_box(source.ranks),)
    loops = [*(child.loops if child else ()), *loops]
    fibers = tuple(_coordinates(rank, source) for rank in loops)
    return FiberTree(tuple(loops), (*below, *boxes), fibers, not outermost_first)


def _coordinates(loops: tuple[tuple[int, int], ...], source: TileLoops) -> int:
    """Words that the loops of a rank span by themselves."""
    points = [1] * len(source.nest[0][-1].points)
    for dim, bound in loops:
        points[dim] *= bound
    return math.prod(box_of(source.ranks, tuple(points)))


Rule = tuple[frozenset[int], ...] | None
"""Groups of dimensions that a rank may take together; none: it takes a single loop; None: it takes every loop."""


def _rules(representation: Representation | None, dimensions: tuple[str, ...]) -> tuple[Rule, ...]:
    """The rule of each rank, innermost first; a tile without a format is one rank that takes every loop."""
    if representation is None:
        return (None,)
    return tuple(tuple(frozenset(dimensions.index(name) for name in group) for group in rank.flattened)
                 for rank in representation.ranks)


Given = tuple[list[tuple[tuple[int, int], ...]], list[Box]]
"""The loops and the box of each rank, innermost first."""


def _outer_to_inner(relevant: _Relevant, rules: tuple[Rule, ...]) -> Given:
    """The outermost rank takes the outermost loop; inner ranks may stay empty.

    A rank whose rule does not allow the loop at hand stays empty and is listed behind all others, as Timeloop does.
    """
    given: list[tuple[tuple[int, int], ...]] = []
    boxes: list[Box] = []
    at, rank = len(relevant.loops) - 1, len(rules)
    while rank > 0 and (at := _skip_trivial(relevant.loops, at, -1)) >= 0:
        rank -= 1
        taken, end = _take(relevant.loops, at, -1, rules[rank])
        if not taken:
            given.append(())
            boxes.append(relevant.boxes[0])
            continue
        given.insert(0, taken)
        boxes.insert(0, relevant.boxes[at])
        at = end
    if _skip_trivial(relevant.loops, at, -1) >= 0:
        raise TooFewRanks
    return [()] * rank + given, [relevant.boxes[0]] * rank + boxes


def _inner_to_outer(relevant: _Relevant, rules: tuple[Rule, ...], unit: Box) -> Given:
    """The innermost rank takes the innermost loop; outer ranks may stay empty."""
    given: list[tuple[tuple[int, int], ...]] = []
    boxes: list[Box] = []
    at, end_of_loops = 0, len(relevant.loops)
    while len(given) < len(rules) and (at := _skip_trivial(relevant.loops, at, 1)) < end_of_loops:
        taken, end = _take(relevant.loops, at, 1, rules[len(given)])
        given.append(taken)
        boxes.append(relevant.boxes[at] if taken else unit)
        at = end
    missing = len(rules) - len(given)
    if _skip_trivial(relevant.loops, at, 1) < end_of_loops:
        raise TooFewRanks
    return given + [()] * missing, boxes + [relevant.boxes[0]] * missing


def _skip_trivial(loops: tuple[NestLoop, ...], at: int, step: int) -> int:
    """The next loop of a bound above 1; -1 or the number of loops where there is none."""
    while 0 <= at < len(loops) and loops[at].trivial:
        at += step
    return at


def _take(loops: tuple[NestLoop, ...], at: int, step: int, rule: Rule) -> tuple[tuple[tuple[int, int], ...], int]:
    """The loops of one rank from `at` on, none where its rule forbids the first one, and the next loop for others."""
    first = (loops[at].dim, loops[at].bound)
    if rule == ():
        return (first,), at + step
    group = None if rule is None else next((group for group in rule if first[0] in group), frozenset())
    if group is not None and not group:
        return (), at
    taken = [first]
    at += step
    while 0 <= at < len(loops) and (group is None or loops[at].dim in group or loops[at].trivial):
        if not loops[at].trivial:
            taken.append((loops[at].dim, loops[at].bound))
        at += step
    return tuple(taken), at
