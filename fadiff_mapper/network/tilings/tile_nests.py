"""The loops over tiles that a segment can be run in: their order, where intermediates lie, and which halos are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, permutations

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.groups.tile_steps import read_slide, space_of
from fadiff_mapper.network.chains.segments import Segment

LOOPED = 3
"""Layers of the segments whose loops are enumerated; those of longer ones come from the descent."""


@dataclass(frozen=True)
class TileNest:
    """Loops without their sizes, outermost first; where intermediates lie, along which loops each is kept, and
    whether sums that go on leave the chip in between."""

    home: str
    dims: tuple[str, ...]
    retained: tuple[frozenset[str], ...]
    spilled: bool


def homes(hardware: Hardware) -> list[str]:
    """The levels in which tensors can stay, outermost first."""
    return [level.name for level in reversed(hardware.arch.levels[:-1])
            if level.instances == 1 and not level.is_dummy and level.usable != 0]


def tile_nests(hardware: Hardware, segment: Segment) -> Iterator[TileNest]:
    """The ways to run a segment in these orders of loops; of a long one only those without loops."""
    for dims in orders(segment) if len(segment.problems) <= LOOPED else [()]:
        yield from nests_of(hardware, segment, dims)


def nests_of(hardware: Hardware, segment: Segment, dims: tuple[str, ...]) -> Iterator[TileNest]:
    """One order of loops: in every home, halo retained or recomputed, sums that go on staying or spilled."""
    adding = [dim for dim in dims if dim not in segment.problems[-1].output.dimensions]
    for home in homes(hardware):
        for retained in _halos(segment, dims):
            if not adding or dims[-len(adding):] == tuple(adding):  # sums that stay: their loop is the innermost
                yield TileNest(home, dims, retained, False)
            if adding:
                yield TileNest(home, dims, retained, True)


def orders(segment: Segment) -> Iterator[tuple[str, ...]]:
    """Every order of up to two loops, or of two and one over the channels of the last intermediate."""
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    dims = [dim for dim, bound in last.bounds.items() if bound > 1 and not cuts_whole(segment, dim)
            and (dim in last.output.dimensions or dim in linked)]
    moving = [dim for dim in dims if dim in last.output.dimensions]
    adding = [dim for dim in dims if dim not in last.output.dimensions]
    yield ()
    for count in (1, 2):
        yield from (order for order in permutations(dims, count) if _first_of_equals(segment, order))
    inner = [dim for dim in moving if dim in linked]
    for pair in combinations(inner, 2):
        yield from (order for dim in adding for order in ((*pair, dim), (dim, *pair)))


def _first_of_equals(segment: Segment, order: tuple[str, ...]) -> bool:
    """Whether no loop could change places with one over an equal dimension before it, rows with columns: one order
    of the two is enough, and one of them alone."""
    bounds = segment.problems[-1].bounds
    alike = [(one, two) for one, two in combinations(bounds, 2) if _alike(segment, one, two)]
    return all(one in order and order.index(one) < order.index(two) for one, two in alike if two in order)


def _alike(segment: Segment, one: str, two: str) -> bool:
    """Whether two dimensions of the last layer are interchangeable in all layers."""
    for place in reversed(range(len(segment.problems))):
        problem = segment.problems[place]
        if problem.bounds[one] != problem.bounds[two] or problem.bounds[one] == 1:
            return False
        windows = [[(space.name, len(rank), sorted(problem.bounds[term.dimension] for term in rank),
                     sorted(term.coefficient for term in rank))
                    for space in problem.dataspaces for rank in space.ranks
                    if any(term.dimension == dim for term in rank)] for dim in (one, two)]
        if windows[0] != windows[1]:
            return False
        if place:
            back = {theirs: own for own, theirs in segment.links[place - 1].dims.items()}
            if one not in back or two not in back:
                return False
            if read_slide(problem, segment.links[place - 1], one) != read_slide(problem, segment.links[place - 1], two):
                return False
            one, two = back[one], back[two]
    return True


def cuts_whole(segment: Segment, dim: str | None) -> bool:
    """Whether a loop over a dimension of the last layer would cut what somebody in the segment needs whole."""
    for link, whole in zip(reversed(segment.links), reversed(segment.whole), strict=True):
        dim = next((own for own, theirs in link.dims.items() if theirs == dim), None)
        if dim in whole:
            return True
    return False


def _halos(segment: Segment, dims: tuple[str, ...]) -> Iterator[tuple[frozenset[str], ...]]:
    """For each link the loops along which it is kept: all or some of those whose steps share words of it."""
    shared = [{dim for dim in dims if _shares(segment, place, dim)} for place in range(len(segment.links))]
    seen = set()
    for again in (set[str](), *({dim} for dim in dims), set(dims)):
        halos = {dim for dim in again for place in range(len(segment.links)) if _has_halo(segment, place, dim)}
        retained = tuple(frozenset(own - (again & halos)) for own in shared)
        if retained not in seen:
            seen.add(retained)
            yield retained


def _shares(segment: Segment, place: int, dim: str) -> bool:
    """Whether two steps along a dimension of the last layer share words of the intermediate of a link."""
    return _cut_of(segment, place, dim) is None or _has_halo(segment, place, dim)


def _cut_of(segment: Segment, place: int, dim: str) -> str | None:
    """The dimension of a link's reader that a loop over one of the last layer moves."""
    cut: str | None = dim
    for link in reversed(segment.links[place:]):
        cut = next((own for own, theirs in link.dims.items() if theirs == cut), None)
    return cut


def _has_halo(segment: Segment, place: int, dim: str) -> bool:
    """Whether neighbouring tiles along a dimension of the last layer share some words of the intermediate of a link."""
    cut: str | None = dim
    for link, after in zip(reversed(segment.links[place:]), reversed(segment.problems[place + 1:]), strict=True):
        if cut is None or cut not in space_of(after, link.tensor).dimensions:
            return False
        slide = read_slide(after, link, cut)
        if slide.kernel > slide.stride:
            return True
        cut = next((own for own, theirs in link.dims.items() if theirs == cut), None)
    return False
