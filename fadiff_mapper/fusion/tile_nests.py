"""Nests of shared loops for a segment: their order, the home level of intermediates, and the halos that are retained.

Problem. The shared loops of a group run over dimensions of its last layer; each is carried back over the links and
cuts the earlier layers. Order and retention decide what has to stay on the chip between steps.

Method. Enumeration, in the terms of LoopTree: inter-layer tiling, and retention or recomputation of each intermediate
per loop. Up to two loops, or three where one adds up sums, and one loop in long segments; one representative of equal
dimensions (rows and columns); halos retained along all loops, along all but one, or along none; every level on the chip
with a single instance as home; and partial sums of the last layer to which later steps add either stay or are spilled
to the outermost level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import NamedTuple

from fadiff_mapper.fusion.fused_group import Hardware
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.fusion.tile_steps import space_of

LOOPED = 3
"""Layers of the longest segments that are tried in nests of several loops; longer ones have at most one. A limit of
time."""


@dataclass(frozen=True)
class TileNest:
    """Shared loops without their sizes.

    Attributes:
        home: Name of the level in which intermediates lie.
        dims: Dimensions of the last layer, outermost loop first.
        retained: For each link the loops along which its words are retained; along the others, they are recomputed.
        spilled: Whether partial sums leave the chip between the steps that add to them.
    """

    home: str
    dims: tuple[str, ...]
    retained: tuple[frozenset[str], ...]
    spilled: bool


def homes(hardware: Hardware) -> list[str]:
    """The levels in which tensors can stay, outermost first: on the chip, with a single instance and some room."""
    return [level.name for level in reversed(hardware.arch.levels[:-1])
            if level.instances == 1 and not level.is_dummy and level.usable != 0]


def tile_nests(hardware: Hardware, segment: Segment) -> Iterator[TileNest]:
    """Enumerates the nests of a segment; of one with more than `LOOPED` layers only those with one loop or none."""
    for dims in orders(segment, 3 if len(segment.problems) <= LOOPED else 1):
        yield from nests_of(hardware, segment, dims)


def nests_of(hardware: Hardware, segment: Segment, dims: tuple[str, ...]) -> Iterator[TileNest]:
    """Enumerates the nests with one order of loops: every home, retention of halos, and treatment of sums."""
    adding = [dim for dim in dims if dim not in segment.problems[-1].output.dimensions]
    halos = list(_halos(segment, dims))
    for home in homes(hardware):
        for retained in halos:
            if not adding or dims[-len(adding):] == tuple(adding):  # sums that stay: their loop is the innermost
                yield TileNest(home, dims, retained, False)
            if adding:
                yield TileNest(home, dims, retained, True)


def orders(segment: Segment, loops: int = 3) -> Iterator[tuple[str, ...]]:
    """Enumerates orders of at most so many loops: up to two, or two over linked outputs and one that adds up sums.

    Yields:
        Dimensions of the last layer, outermost loop first. Only dimensions of its output or of its link are cut: a loop
        over a kernel would cut neither layers before it nor results behind it.
    """
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    dims = [dim for dim, bound in last.bounds.items() if bound > 1 and not cuts_whole(segment, dim)
            and (dim in last.output.dimensions or dim in linked)]
    alike = [pair for pair in combinations(last.bounds, 2) if pair[1] in dims and _alike(segment, *pair)]
    yield ()
    for count in range(1, min(loops, 2) + 1):
        for order in permutations(dims, count):
            # Of two equal dimensions, such as rows and columns, the first is in the order, and before the second.
            if all(first in order and order.index(first) < order.index(second)
                   for first, second in alike if second in order):
                yield order
    inner = [dim for dim in dims if dim in last.output.dimensions and dim in linked]
    for pair in combinations(inner, 2) if loops > 2 else ():
        yield from (order for dim in dims if dim not in last.output.dimensions
                    for order in ((*pair, dim), (dim, *pair)))


def _alike(segment: Segment, first: str, second: str) -> bool:
    """Whether two dimensions of the last layer are interchangeable in all layers."""
    for index in reversed(range(len(segment.problems))):
        problem = segment.problems[index]
        if problem.bounds[first] != problem.bounds[second] or problem.bounds[first] == 1:
            return False
        if problem.windows[first] != problem.windows[second]:
            return False
        if index:
            link, slides = segment.links[index - 1], segment.slides[index - 1]
            if first not in link.back or second not in link.back:
                return False
            first, second = link.back[first], link.back[second]
            if slides[first] != slides[second]:
                return False
    return True


def cuts_whole(segment: Segment, dim: str | None) -> bool:
    """Whether a loop over a dimension of the last layer would cut one that some consumer in the segment needs whole."""
    after = segment.problems[-1:0:-1]
    for link, whole, reader in zip(reversed(segment.links), reversed(segment.whole), after, strict=True):
        if link.put_together and dim in space_of(reader, link.tensor).dimensions - set(link.dims.values()):
            return True
        dim = None if dim is None else link.back.get(dim)
        if dim in whole:
            return True
    return False


class LinkStep(NamedTuple):
    """Two neighbouring steps of a loop over the last layer, as the intermediate of one link sees them.

    Whether they have different words of it, and whether they share some because windows overlap.
    """

    moves: bool
    halo: bool


def carried_back(segment: Segment, dim: str) -> list[LinkStep]:
    """For each link, in order, what its intermediate sees of neighbouring steps of a loop over the last layer."""
    steps: list[LinkStep] = []
    cut: str | None = dim
    halo = False
    for link, slides in zip(reversed(segment.links), reversed(segment.slides), strict=True):
        cut = None if cut is None else link.back.get(cut)
        halo = halo or (cut is not None and slides[cut].overlaps)
        steps.append(LinkStep(cut is not None, halo))
    return steps[::-1]


def _halos(segment: Segment, dims: Sequence[str]) -> Iterator[tuple[frozenset[str], ...]]:
    """For each link the loops along which its words are retained, in every combination that is tried.

    Recomputation is tried along no loop, along one, and along all, as far as these have a halo in some link. Along the
    other loops, all words that two steps share are retained.
    """
    carried = {dim: carried_back(segment, dim) for dim in dims}
    shared = [{dim for dim in dims if not carried[dim][index].moves or carried[dim][index].halo}
              for index in range(len(segment.links))]
    overlapping = {dim for dim in dims if any(step.halo for step in carried[dim])}
    again = (set[str](), *({dim} for dim in dims), set(dims))
    yield from dict.fromkeys(tuple(frozenset(own - (recomputed & overlapping)) for own in shared)
                             for recomputed in again)
