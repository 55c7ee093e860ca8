"""A whole network: checked nodes in topological order, distinct problems, links, totals.

Every reader hands its nodes, in any order, to `build_workload`, which orders them, infers shapes, and refuses
inconsistent graphs with the place in the source.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import chain
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD, Node, Window
from fadiff_mapper.workload.operations import COPIES, VectorOperator, is_folded, vector_operators
from fadiff_mapper.workload.operator import Operator, Shape
from fadiff_mapper.workload.producer_consumer import Link, find_links, readers_of
from fadiff_mapper.workload.rewrites import with_named_norms, with_shared_operands
from fadiff_mapper.workload.shapes import output_shape, possible_macs
from fadiff_mapper.workload.tensor_routes import Route, routes

MOST_NODES = 50_000  # nodes of a network: a plain safety limit
MOST_NUMBER = 2 ** 53  # largest extent or count of a node: doubles are exact up to here


@dataclass(frozen=True)
class Distinct:
    """A problem that is mapped once, however often the network poses it."""

    layer: Operator  # the operator of the first node
    nodes: tuple[str, ...]  # all nodes that pose the problem
    times: int  # runs of all of them, repeats included

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all runs."""
        return self.layer.problem.computes * self.times


@dataclass(frozen=True)
class NotUnderstood:
    """A node that was not understood."""

    node: str  # its name
    what: str  # the framework's name of its operation
    macs: int | None  # its multiply-accumulates, None where they are not known
    possible: int | None  # where they are not known, an estimate of their number (`Node.possible`)
    share: float | None  # its share of all known multiply-accumulates; None where its own are not known


@dataclass(frozen=True)
class Folded:
    """An operator that reads only constants: it is computed once, before the network runs, and is no layer."""

    node: str  # its name
    what: str  # the framework's name of its operation
    macs: int  # its multiply-accumulates


@dataclass(frozen=True)
class OperatingPoint:
    """Energy in pJ and cycles of a network, or of a part of it, each summed over all runs."""

    energy_pj: float
    cycles: float

    @property
    def edp(self) -> float:
        """Energy-delay product of the two sums in pJ * cycles, the objective of FADiff (not the sum of products)."""
        return self.energy_pj * self.cycles

    def times(self, count: float) -> OperatingPoint:
        """Energy and cycles of so many runs."""
        return OperatingPoint(count * self.energy_pj, count * self.cycles)

    def less(self, other: OperatingPoint) -> OperatingPoint:
        """The difference to another part."""
        return OperatingPoint(self.energy_pj - other.energy_pj, self.cycles - other.cycles)


@dataclass(frozen=True)
class Workload:
    """A network."""

    name: str
    nodes: tuple[Node, ...]  # in topological order, inputs among them, with shapes where these are known
    outputs: tuple[str, ...]  # names of the tensors that it returns
    folded: tuple[Folded, ...] = ()  # operators that read only constants and are no nodes

    @property
    def layers(self) -> tuple[Node, ...]:
        """The nodes with multiply-accumulates, in order."""
        return tuple(node for node in self.nodes if node.layer)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all operators; nodes that are not understood are not counted."""
        return sum(node.layer.macs for node in self.nodes if node.layer)

    def distinct(self) -> tuple[Distinct, ...]:
        """The distinct problems in the order of their first appearance; cached."""
        return self._distinct

    @cached_property
    def _distinct(self) -> tuple[Distinct, ...]:
        posing: dict[Hashable, list[tuple[str, Operator]]] = {}
        for node in self.nodes:
            if node.layer:
                posing.setdefault(node.layer.key, []).append((node.name, node.layer))
        return tuple(Distinct(nodes[0][1], tuple(name for name, _ in nodes), sum(layer.repeat for _, layer in nodes))
                     for nodes in posing.values())

    def problems(self) -> tuple[dict[str, Any], ...]:
        """The distinct problems as Timeloop input: each a dict with the one key `problem`."""
        return tuple({"problem": entry.layer.literal} for entry in self.distinct())

    def vector_operators(self) -> tuple[VectorOperator, ...]:
        """The operators without multiply-accumulates that compute or move words, in order (`operations`)."""
        return vector_operators(self.nodes)

    def rearrangements(self) -> dict[str, int]:
        """The rearrangements that are folded into their neighbours: operation -> number of nodes, most first."""
        return dict(Counter(node.op for node in self.nodes if is_folded(node)).most_common())

    def unfolded(self) -> Workload:
        """The network with every rearrangement but reshapes as a copy (`Node.moves`), as if it were run operator by
        operator; a reshape keeps all elements where they are."""
        return replace(self, nodes=tuple(replace(node, moves=True) if node.op in COPIES else node
                                         for node in self.nodes))

    def links(self) -> tuple[Link, ...]:
        """Producer-consumer relations between operators, in the order of the consumers; cached."""
        return self._links

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        return find_links(self.nodes, self.routes, self.readers)

    @cached_property
    def routes(self) -> Mapping[str, Route]:
        """Tensor -> its route from the operator that computed it; cached."""
        return routes(self.nodes)

    @cached_property
    def readers(self) -> Mapping[str, list[str]]:
        """Tensor -> the nodes that read it, and `producer_consumer.OUTPUT` where the network returns it; cached."""
        return readers_of(self.nodes, self.outputs)

    def not_understood(self) -> tuple[NotUnderstood, ...]:
        """The nodes that were not understood; shares are of all multiply-accumulates that are known."""
        unknown = [node for node in self.nodes if node.op == NOT_UNDERSTOOD]
        total = self.macs + sum(node.macs or 0 for node in unknown)
        return tuple(NotUnderstood(node.name, node.what, node.macs, node.possible,
                                   None if node.macs is None else node.macs / total) for node in unknown)

    def totals(self, costs: Sequence[tuple[float, int]]) -> OperatingPoint:
        """Energy and cycles of the network from the costs of its problems.

        `costs` are (energy in pJ, cycles) of one run of each of `distinct()`, in that order.
        """
        entries = list(zip(self.distinct(), costs, strict=True))
        return OperatingPoint(sum(entry.times * energy for entry, (energy, _) in entries),
                              sum(entry.times * cycles for entry, (_, cycles) in entries))


def build_workload(name: str, nodes: Iterable[Node], outputs: Sequence[str] = (),
                   where: Where | None = None, folded: Iterable[Folded] = ()) -> Workload:
    """Checks a network and puts its nodes in order.

    Nodes come in any order, with shapes or without. By default the network returns the tensors that no node reads.

    Raises:
        SpecError: the network has no operator, two nodes of one name, a tensor that no node writes, a cycle, shapes
            that do not fit, or a number above `MOST_NUMBER`; the message names the place. Estimates
            (`Node.possible`) are cut at `MOST_NUMBER` instead.
    """
    where = where or Where(name)
    given, folded = list(nodes), tuple(folded)
    by_name = {node.name: node for node in given}
    if len(given) > MOST_NODES:
        raise where.error(f"{len(given)} nodes", f"at most {MOST_NODES}")
    for entry in folded:
        if entry.macs > MOST_NUMBER:
            raise where.error(f"{entry.node} ({entry.what}) has {entry.macs} multiply-accumulates", "at most 2^53")
    for node in given:
        window = node.window or Window((), (), (), ())
        pads = chain.from_iterable((*window.pad, *(node.pad or ())))
        largest = max(map(abs, (node.macs or 0, node.layer.repeat if node.layer else 1, *(node.shape or ()), *pads,
                                *window.kernel, *window.stride, *window.dilation)))
        if largest > MOST_NUMBER:
            raise node.where.error(f"{node.name} ({node.what or node.op}) has the number {largest}", "at most 2^53")
        if by_name[node.name] is not node:
            raise node.where.error(f'there are two nodes called "{node.name}"')
        for tensor in node.inputs:
            if tensor not in by_name:
                raise node.where.error(f'{node.name} reads "{tensor}", which no node writes'
                                       f"{nearest(tensor, list(by_name))}")
    if not any(node.layer for node in given):
        raise where.error(f"the network has no layer (nodes: {listed(sorted({n.what or n.op for n in given}))})",
                          "at least one convolution or matrix product")
    position = {node.name: index for index, node in enumerate(given)}
    try:
        order = topological([[position[tensor] for tensor in node.inputs] for node in given])
    except CycleError as error:
        cycle = [given[index] for index in error.args[1]]
        raise cycle[0].where.error(f"the network has a cycle: {' -> '.join(node.name for node in cycle)}",
                                   "a graph without cycles") from None
    shapes: dict[str, Shape | None] = {}
    shaped = []
    for node in (given[index] for index in order):
        operands = [shapes[tensor] for tensor in node.inputs]
        shape = shapes[node.name] = output_shape(node, operands)
        if node.op == NOT_UNDERSTOOD and node.macs is None and node.possible is None:
            node = replace(node, possible=possible_macs(operands, [shape]))
        if node.possible and node.possible > MOST_NUMBER:
            node = replace(node, possible=MOST_NUMBER)
        shaped.append(node if node.shape == shape else replace(node, shape=shape))
    ordered = with_named_norms(with_shared_operands(shaped, outputs), outputs)
    read = {tensor for node in ordered for tensor in node.inputs}
    unread = tuple(node.name for node in ordered if node.name not in read and node.op != INPUT)
    for tensor in outputs:
        if tensor not in by_name:
            raise where.error(f'the output "{tensor}" is no node{nearest(tensor, list(by_name))}')
    return Workload(name, ordered, tuple(outputs) or unread, folded)


def topological(reads: Sequence[Iterable[int]]) -> list[int]:
    """A topological order of nodes, by number: each node after the nodes that it reads; a valid given order stays.

    Raises graphlib.CycleError, whose last argument is the cycle, with its first node again at its end.
    """
    waiting = TopologicalSorter(dict(enumerate(reads)))
    waiting.prepare()
    ready, ordered = list(waiting.get_ready()), list[int]()
    heapify(ready)
    while ready:
        ordered.append(heappop(ready))
        waiting.done(ordered[-1])
        for following in waiting.get_ready():
            heappush(ready, following)
    return ordered
