"""Tensors of a fused group that a sum behind a later layer reads once more, such as residual operands.

Problem. The input of a layer is read again where a residual sum adds it to the output of that layer or of a later one.
Until then its words stay at their home level: longer than the layers that write and read them run, and from the first
point that either reader still needs.

Method. The sum reads the points of the output that the layer before it finishes in a step (`SecondRead.dims`). For an
intermediate, the points needed in a step are the hull of what both readers read; where it is retained, from the oldest
point that a later step needs. The group's own input is there for one step, so that the sum must read points of the same
step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, SecondRead
from fadiff_mapper.model.legality import Violation


def home_of(group: FusedGroup, read: SecondRead) -> str:
    """The home level of a tensor that is read again.

    Args:
        group: the group.
        read: one of its second reads.
    """
    stay = group.links[read.first - 1].stay if read.first else group.layers[0].operands[read.tensor]
    return stay.level


def last_uses(group: FusedGroup) -> list[int]:
    """The last layer that runs before each link's intermediate is read for the last time in a step.

    Args:
        group: the group.

    Returns:
        Positions of layers, link by link: the reader's or, with second reads, that of the latest layer behind which one
        stands.
    """
    return [max([index + 1, *(read.behind for read in group.second_reads if read.first == index + 1)])
            for index in range(len(group.links))]


def needed_by_all(first: Sequence[range], again: Sequence[Sequence[range]], retained: bool) -> list[range]:
    """Points of a tensor's axis that are there in every step of a loop.

    Args:
        first: points that the next layer reads, step by step.
        again: the same for every second read.
        retained: whether words stay from step to step.

    Returns:
        In each step the hull of all that is read; where words are retained, from the oldest point that this step or a
        later one reads up to the last one that any step so far has read.
    """
    hulls = [_hull(list(step)) for step in zip(first, *again, strict=True)]
    if not retained:
        return hulls
    stops, stop = [], 0
    for points in hulls:
        stop = max(stop, points.stop)
        stops.append(stop)
    result, start = [], inf
    for points, stop in zip(reversed(hulls), reversed(stops), strict=True):
        start = min(start, points.start) if len(points) else start
        result.append(range(int(min(start, stop)), stop))
    return result[::-1]


def points_again(read: SecondRead, own: str | None, extent: int, moved: str | None, done: range) -> range:
    """Points of a tensor's axis that a second read takes in a step.

    Args:
        read: the second read.
        own: the dimension of the tensor that the loop moves; None where it moves none, so that all is there at once.
        extent: points of that dimension.
        moved: the dimension of the layer `read.behind` that the loop moves.
        done: points of it that the layer computes in the step.
    """
    if not len(done):
        return range(0)
    if own is None:
        return range(1)
    return range(done.start, min(done.stop, extent)) if read.dims.get(own) == moved else range(extent)


def second_read_violations(group: FusedGroup, cut: Sequence[Sequence[str | None]],
                           done: Sequence[Sequence[Sequence[range]]]) -> Iterator[Violation]:
    """Violations of the second reads of a group.

    Args:
        group: a group whose links and loops are sound.
        cut: for each layer and loop the dimension that the loop moves, None where it moves none.
        done: for each layer and loop the points that the layer computes in every step.
    """
    for read in group.second_reads:
        reason = _unsound(group, read)
        if reason is None:
            reasons = (_split(group, read, loop, cut, done) for loop in range(len(group.loops)))
            reason = next((found for found in reasons if found), None)
        if reason:
            yield Violation("second read", "", 1, 0, f"{read.tensor} of layer {read.first + 1}, read again behind "
                            f"layer {read.behind + 1}, {reason}")


def _unsound(group: FusedGroup, read: SecondRead) -> str | None:
    """Why a second read fits no loops at all."""
    if not 0 <= read.first <= read.behind < len(group.layers):
        return "is read in another order"
    if not read.first and read.tensor not in group.layers[0].operands:
        return "does not stay on the chip"
    if read.first and read.tensor != group.links[read.first - 1].tensor:
        return "is not what the layer before hands on"
    problem, holder = group.layers[read.behind].problem, group.layers[max(read.first - 1, 0)].problem
    space = holder.output if read.first else next(ds for ds in holder.dataspaces if ds.name == read.tensor)
    along = {dim: holder.bounds[dim] for dim in space.dimensions if holder.bounds[dim] > 1}
    added = {dim: problem.bounds[dim] for dim in problem.output.dimensions if problem.bounds[dim] > 1}
    if {read.dims.get(dim): extent for dim, extent in along.items()} != added:
        return "has other dimensions than the output that it is added to"
    link = group.links[read.first - 1] if read.first else None
    return "is pooled or put together with other tensors" if link and (link.pooled or link.elsewhere) else None


def _split(group: FusedGroup, read: SecondRead, loop: int, cut: Sequence[Sequence[str | None]],
           done: Sequence[Sequence[Sequence[range]]]) -> str | None:
    """Why a loop leaves less of the tensor on the chip than the second read takes; None where it does not."""
    own, moved = cut[max(read.first - 1, 0)][loop], cut[read.behind][loop]
    own = own if own in read.dims else None
    if own is not None and read.dims.get(own) != moved and len(done[read.behind][loop]) > 1:
        return f"is cut along {own} by the loop over {group.loops[loop].dim}, which leaves the sum whole"
    if read.first:
        return None
    kept = group.loops[loop].dim in group.layers[0].operands[read.tensor].across
    for mine, theirs in zip(done[0][loop], done[read.behind][loop], strict=True):
        there = len(mine) > 0 or kept if own is None else mine.start <= theirs.start and theirs.stop <= mine.stop
        if len(theirs) and not there:
            return f"is not there in every step along {group.loops[loop].dim}"
    return None


def _hull(parts: Sequence[range]) -> range:
    """The least range with all points of some ranges; of empty ones the first."""
    full = [part for part in parts if len(part)]
    return range(min(part.start for part in full), max(part.stop for part in full)) if full else parts[0]
