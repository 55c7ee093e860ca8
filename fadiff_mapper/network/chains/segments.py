"""Which layers of a network could be fused: chains of layers that can hand tiles on, and their segments.

Every layer passes its tensor to at most one next layer within a chain; other readers of it (a residual, a second
branch) get it from the outermost level, where it is then written too. Sums with other tensors on the way cost nothing
here, as they do without fusion.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx

from fadiff_mapper.fusion import FusedLink, Stay
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.workload import Link as NetworkLink
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.axis_algebra import composed
from fadiff_mapper.workload.operator import REPEAT
from fadiff_mapper.workload.producer_consumer import OUTPUT

NO_TILES_THROUGH = ("reduce", "opaque")
"""Kinds of operators in between that a group's links do not know."""


@dataclass(frozen=True)
class Segment:
    """Layers that follow one another, as one group could run them.

    links: what ties them, with a place that is yet to be decided. whole: for each link the dimensions of its producer
    that no loop may cut. key: equal for segments that have the same plans at the same cost.
    """

    nodes: tuple[str, ...]
    problems: tuple[Problem, ...]
    links: tuple[FusedLink, ...]
    whole: tuple[frozenset[str], ...]
    repeat: int

    @property
    def key(self) -> Hashable:
        return (tuple((tuple(problem.bounds.items()), problem.dataspaces) for problem in self.problems),
                tuple((link.tensor, tuple(link.dims.items()), tuple(link.padding.items()),
                       tuple(link.pooled.items()), link.written)
                      for link in self.links), self.whole, self.repeat)


def chains(workload: Workload) -> list[tuple[tuple[str, ...], tuple[NetworkLink, ...]]]:
    """The maximal chains, each layer in one: nodes and the links between them."""
    after: dict[str, NetworkLink] = {}
    taken: set[str] = set()
    for link in workload.links():
        if link.producer not in after and link.consumer not in taken and _can_fuse(workload, link):
            after[link.producer] = link
            taken.add(link.consumer)
    found = []
    for node in workload.layers:
        if node.name not in taken:
            names, links = [node.name], []
            while names[-1] in after:
                links.append(after[names[-1]])
                names.append(links[-1].consumer)
            found.append((tuple(names), tuple(links)))
    return found


def segments(workload: Workload, longest: int) -> list[Segment]:
    """All segments of two to `longest` layers that can run as one step of the network."""
    nodes = {node.name: node for node in workload.nodes}
    graph = nx.DiGraph(workload.graph())
    place = {name: index for index, name in enumerate(nx.topological_sort(graph))}
    found = []
    for names, links in chains(workload):
        for start in range(len(names)):
            for stop in range(start + 2, min(start + longest, len(names)) + 1):
                if not _in_one_go(graph, place, names[start:stop], links[start:stop - 1]):
                    break
                layers = [nodes[name].layer for name in names[start:stop]]
                used = links[start:stop - 1]
                found.append(Segment(
                    names[start:stop], tuple(layer.problem for layer in layers if layer),
                    tuple(_group_link(one) for one in used),
                    tuple(frozenset(one.whole) for one in used), layers[0].repeat if layers[0] else 1))
    return found


def runs_in_order(workload: Workload, groups: Iterable[tuple[str, ...]]) -> bool:
    """Whether a network can run with each of these groups in one go, the operators between their layers inside."""
    between = {(link.producer, link.consumer): link.through for link in workload.links()}
    first = {name: nodes[0] for nodes in groups
             for name in (*nodes, *(name for pair in pairwise(nodes) for name in between[pair]))}
    steps = ((first.get(before, before), first.get(after, after)) for before, after in workload.graph().edges())
    return bool(nx.is_directed_acyclic_graph(nx.DiGraph((before, after) for before, after in steps if before != after)))


def _can_fuse(workload: Workload, link: NetworkLink) -> bool:
    """Whether tiles pass, through windows or unchanged."""
    kinds = {node.name: node.kind for node in workload.nodes}
    if not link.fusable or any(kinds[name] in NO_TILES_THROUGH for name in link.through):
        return False
    pools = [place for place, name in enumerate(link.through) if kinds[name] == "pool"]
    if pools and _readers(workload, (link.producer, *link.through[:pools[-1]])) - {*link.through, link.consumer}:
        return False
    layers = {node.name: node.layer for node in workload.layers}
    producer = layers[link.producer]
    assert producer is not None
    moved = {axis.producer: axis.dimension for axis in link.axes}
    if producer.repeat > 1 and moved.get(REPEAT) != REPEAT:
        return False
    output = producer.problem.output.dimensions
    return (all(dim in moved for dim in output if producer.problem.bounds[dim] > 1)
            and len(set(moved.values())) == len(moved))


def _readers(workload: Workload, names: Iterable[str]) -> set[str]:
    """Nodes that read these, and `OUTPUT` where one is returned."""
    own = set(names)
    return {after for before, after in workload.graph().edges() if before in own} | (
        {OUTPUT} if own & set(workload.outputs) else set())


def _group_link(link: NetworkLink) -> FusedLink:
    """The link as a group has it."""
    axes = [axis for axis in link.axes if axis.producer != REPEAT]
    own = {axis.dimension: composed(axis.slides[axis.pools:]).pad for axis in axes}
    return FusedLink(link.operand, {axis.producer: axis.dimension for axis in axes}, Stay(""),
                     {dim: pad for dim, pad in own.items() if pad},
                     {axis.dimension: composed(axis.slides[:axis.pools]) for axis in axes if axis.pools},
                     written=bool(link.also_read_by))


def _in_one_go(graph: nx.DiGraph[str], place: Mapping[str, int], names: tuple[str, ...],
               links: tuple[NetworkLink, ...]) -> bool:
    """Whether nothing outside the segment stands between two of its nodes: what they join must be there before.

    place: of every node in a topological order; what comes after the last node of the segment leads to none of it.
    """
    inside = {*names, *(name for link in links for name in link.through)}
    last = max(place[name] for name in inside)
    seen: set[str] = set()
    todo = [after for name in inside for after in graph.successors(name) if after not in inside]
    while todo:
        name = todo.pop()
        if name in inside:
            return False
        if name not in seen and place[name] < last:
            seen.add(name)
            todo += graph.successors(name)
    return True
