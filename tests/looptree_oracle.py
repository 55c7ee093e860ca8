"""A fused mapping run step by step with Python sets: what every storage node holds, gets and gives.

Written from LoopTree's rules, not from the package's code: loops are walked in time order, a shelf per tensor
remembers what was made, and a unit remembers what it held one step before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from fadiff_validation.looptree.fused_input import Access, Chain, Compute, Einsum, Loop, Split, Storage, TreeNode

Point = tuple[int, ...]
Word = tuple[int, ...]


@dataclass
class Shelf:
    """Words of a tensor that are made and still there: in this round of the loop outside its place, and the last."""

    place: int
    round: Point = ()
    now: set[Word] = field(default_factory=set)
    before: set[Word] = field(default_factory=set)

    def lacks(self, step: Point, wanted: set[Word]) -> set[Word]:
        """The wanted words that have to be made now; then they are there."""
        outer = step[:self.place]
        if outer != self.round:
            next_one = self.round[:-1] == outer[:-1] and bool(outer) and self.round[-1:] == (outer[-1] - 1,)
            self.before = self.now if next_one else set()
            self.now, self.round = set(), outer
        missing = wanted - self.now - self.before
        self.now |= wanted
        return missing


@dataclass(frozen=True)
class Event:
    """One step of one layer: (node position, kind, index) of all loops around it, and the operation."""

    at: tuple[tuple[int, str, int], ...]
    operation: Point


@dataclass
class Counted:
    """Words at one storage node, as one layer uses it."""

    held: dict[Any, dict[Any, set[Word]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(set)))

    def arrivals(self) -> Iterator[tuple[Any, Any, Word]]:
        """(moment, unit, word) for every word that its unit did not hold at the moment before."""
        earlier: dict[Any, set[Word]] = {}
        moments = self.without_idle_loops()
        for moment in sorted(moments):
            for unit, words in moments[moment].items():
                for word in words - earlier.get(unit, set()):
                    yield moment, unit, word
            earlier = moments[moment]

    def without_idle_loops(self) -> dict[Any, dict[Any, set[Word]]]:
        """What is held, without the innermost loops during which no unit that works ever changes its words.

        A unit without work in some steps of such a loop keeps its words until it works again.
        """
        moments = self.held
        while all(moments):
            merged: dict[Any, dict[Any, set[Word]]] = defaultdict(lambda: defaultdict(set))
            for moment, units in moments.items():
                for unit, words in units.items():
                    merged[moment[:-1]][unit] |= words
            if any(words != merged[moment[:-1]][unit] for moment, units in moments.items()
                   for unit, words in units.items()):
                break
            moments = merged
        return moments

    def fills(self) -> int:
        return sum(1 for _ in self.arrivals())

    def peak(self) -> int:
        return max((len(words) for units in self.held.values() for words in units.values()), default=0)

    def parent_reads(self, alike: Any) -> int:
        """Each word once for all units that `alike` maps to the same sender, at each moment."""
        return len({(moment, alike(unit), word) for moment, unit, word in self.arrivals()})


def touched(access: Access, einsum: Einsum, operation: Point) -> Word:
    value = dict(zip(einsum.ranks, operation, strict=True))
    return tuple(axis.constant + sum(c * value[rank] for rank, c in axis.terms.items()) for axis in access.axes)


def tiles(points: set[Point], rank: int, tile: int) -> Iterator[tuple[int, set[Point]]]:
    """The tiles of a set of operations along a rank, counted from its smallest value; empty ones are no step."""
    first = min(point[rank] for point in points)
    for index in range(0, max((point[rank] - first) // tile for point in points) + 1):
        part = {point for point in points if (point[rank] - first) // tile == index}
        if part:
            yield index, part


def run(chain: Chain, nodes: tuple[TreeNode, ...]) -> dict[str, list[Event]]:
    """The steps of every layer in time order. One split, with one layer per branch."""
    *trunk, split = nodes
    events: dict[str, list[Event]] = {einsum.name: [] for einsum in chain.einsums}
    last = chain.einsums[-1]
    whole = {einsum.name: set(product(*einsum.ranks.values())) for einsum in chain.einsums}
    if isinstance(split, Compute):
        events[last.name] = list(walk(last, tuple(nodes), whole[last.name], (), 0))
        return events
    assert isinstance(split, Split)
    shelves: dict[tuple[str, str], Shelf] = {}
    loops = 0
    for node in trunk:
        if isinstance(node, Storage):
            for tensor in node.tensors:
                for reader in chain.readers(tensor):
                    shelves.setdefault((tensor, reader.name), Shelf(loops))
        loops += isinstance(node, Loop)
    for at, todo in shared(last, trunk, whole[last.name], ()):
        work = share_out(chain, last, todo, tuple(index for _, _, index in at), shelves, whole)
        for index, branch in enumerate(split.branches):
            below = branch[-1]
            assert isinstance(below, Compute)
            if work[below.einsum]:
                here = (*at, (len(trunk), "pipeline" if split.pipelined else "temporal", index))
                events[below.einsum] += walk(chain.einsum(below.einsum), branch, work[below.einsum], here,
                                             len(trunk) + 1)
    return events


def shared(last: Einsum, trunk: list[TreeNode], points: set[Point], at: Any,
           place: int = 0) -> Iterator[tuple[Any, Any]]:
    """(loop indices, operations of the last layer) for every step of the trunk."""
    if place == len(trunk):
        yield at, points
        return
    node = trunk[place]
    if not isinstance(node, Loop):
        yield from shared(last, trunk, points, at, place + 1)
        return
    for index, part in tiles(points, list(last.ranks).index(node.rank), node.tile):
        yield from shared(last, trunk, part, (*at, (place, "temporal", index)), place + 1)


def share_out(chain: Chain, last: Einsum, todo: set[Point], step: Point, shelves: dict[tuple[str, str], Shelf],
              whole: dict[str, set[Point]]) -> dict[str, set[Point]]:
    """Work of each layer in this step, from the last one back.

    Where several layers read a tensor, each has a shelf of its own, and what all of them lack is made.
    """
    work = whole | {last.name: todo}
    for reader in reversed(chain.einsums):
        for access in reader.reads:
            writer = chain.writer(access.tensor)
            if writer is None:
                continue
            wanted = {touched(access, reader, point) for point in work[reader.name]}
            shelf = shelves.get((access.tensor, reader.name))
            missing = shelf.lacks(step, wanted) if shelf else wanted
            (output,) = writer.writes
            work[writer.name] = {point for point in work[writer.name] if touched(output, writer, point) in missing}
    return work


def walk(einsum: Einsum, nodes: tuple[TreeNode, ...], points: set[Point], at: Any, place: int) -> Iterator[Event]:
    """The steps of one branch."""
    node = nodes[0]
    if isinstance(node, Compute):
        for point in sorted(points):
            yield Event(at, point)
    elif isinstance(node, Loop):
        kind = "spatial" if node.spatial else "temporal"
        for index, part in tiles(points, list(einsum.ranks).index(node.rank), node.tile):
            yield from walk(einsum, nodes[1:], part, (*at, (place, kind, index)), place + 1)
    else:
        yield from walk(einsum, nodes[1:], points, at, place + 1)


def observe(events: list[Event], einsum: Einsum, access: Access, place: int, last_place: int) -> Counted:
    """Words that the node at position `place` of a path holds at every step of the loops outside it.

    `last_place` is the level's last node on the path: spatial loops above it tell its units apart.
    """
    found = Counted()
    for event in events:
        moment = tuple(index for where, kind, index in event.at if kind == "temporal" and where < place)
        unit = tuple((where, index) for where, kind, index in event.at if kind != "temporal" and where < last_place)
        found.held[moment][unit].add(touched(access, einsum, event.operation))
    return found
