"""A whole network: its nodes in order, and what is asked of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.workload.node import INPUT, NOT_UNDERSTOOD, Node
from fadiff_mapper.workload.operator import Operator, Shape
from fadiff_mapper.workload.producer_consumer import Link, find_links
from fadiff_mapper.workload.shapes import output_shape
from fadiff_mapper.yaml.located import Where

if TYPE_CHECKING:
    import networkx as nx

MOST_NODES = 50_000


@dataclass(frozen=True)
class Distinct:
    """One problem, to be mapped once: the nodes that are it. `times` counts all runs, repeats included."""

    layer: Operator
    nodes: tuple[str, ...]
    times: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all runs."""
        return self.layer.problem.computes * self.times


@dataclass(frozen=True)
class NotUnderstood:
    """An operator that was not understood: where, what, and its part of the network's multiply-accumulates.

    `share` is None where its own are not known.
    """

    node: str
    what: str
    macs: int | None
    share: float | None


@dataclass(frozen=True)
class Totals:
    """A network's energy in pJ and cycles, both summed over all runs of all layers."""

    energy_pj: float
    cycles: int

    @property
    def edp(self) -> float:
        """The product of the two sums (pJ * cycles), which is not the sum of the layers' products."""
        return self.energy_pj * self.cycles


@dataclass(frozen=True)
class Workload:
    """A network. `nodes` are in topological order, inputs among them; `outputs` are the tensors that it returns."""

    name: str
    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]

    @property
    def layers(self) -> tuple[Node, ...]:
        """The nodes that are layers."""
        return tuple(node for node in self.nodes if node.layer)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all layers; operators that are not understood are not in it."""
        return sum(node.layer.macs for node in self.nodes if node.layer)

    def graph(self) -> nx.MultiDiGraph[str]:
        """The network as a networkx graph: `node` on nodes; `tensor`, `shape` and `operand` on edges."""
        import networkx as nx  # here, so that mapping a layer does not wait for it

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        shapes = {node.name: node.shape for node in self.nodes}
        for node in self.nodes:
            graph.add_node(node.name, node=node)
            for position, tensor in enumerate(node.inputs):
                operand = node.operands[position] if node.layer else position
                graph.add_edge(tensor, node.name, key=position, tensor=tensor, shape=shapes[tensor], operand=operand)
        return graph

    def distinct(self) -> tuple[Distinct, ...]:
        """The distinct problems in the order of their first appearance."""
        found: dict[Hashable, list[Node]] = {}
        for node in self.nodes:
            if node.layer:
                found.setdefault(node.layer.key, []).append(node)
        return tuple(Distinct(_layer(nodes[0]), tuple(node.name for node in nodes),
                              sum(_layer(node).repeat for node in nodes)) for nodes in found.values())

    def problems(self) -> tuple[dict[str, Any], ...]:
        """The distinct problems as Timeloop input: each a dict with the one key `problem`."""
        return tuple({"problem": entry.layer.literal} for entry in self.distinct())

    def links(self) -> tuple[Link, ...]:
        """Layer to layer, in the order of the consumers."""
        return self._links

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        return find_links(self.nodes, self.outputs)

    def chains(self, fusable: bool = False) -> tuple[tuple[str, ...], ...]:
        """The maximal runs of layers that hand one tensor on: each layer's output goes to the next layer only, as
        its only operand from another layer. With `fusable`, only links without an obstacle count."""
        leaving: dict[str, list[Link]] = {}
        arriving: dict[str, list[Link]] = {}
        for link in self.links():
            leaving.setdefault(link.producer, []).append(link)
            arriving.setdefault(link.consumer, []).append(link)
        after = {link.producer: link.consumer for link in self.links()
                 if len(leaving[link.producer]) == len(arriving[link.consumer]) == 1
                 and not link.also_read_by and not link.joins and (link.fusable or not fusable)}
        starts = [node.name for node in self.layers if node.name not in after.values()]
        return tuple(tuple(_followed(start, after)) for start in starts)

    def not_understood(self) -> tuple[NotUnderstood, ...]:
        """The operators that were not understood. Their shares are of all multiply-accumulates that are known."""
        unknown = [node for node in self.nodes if node.op == NOT_UNDERSTOOD]
        total = self.macs + sum(node.macs or 0 for node in unknown)
        return tuple(NotUnderstood(node.name, node.what, node.macs, None if node.macs is None else node.macs / total)
                     for node in unknown)

    def totals(self, costs: Sequence[tuple[float, int]]) -> Totals:
        """Energy and cycles of the network from (energy in pJ, cycles) of each of `distinct()`."""
        entries = list(zip(self.distinct(), costs, strict=True))
        return Totals(sum(entry.times * energy for entry, (energy, _) in entries),
                      sum(entry.times * cycles for entry, (_, cycles) in entries))


def build_workload(name: str, nodes: Iterable[Node], outputs: Sequence[str] = (),
                   where: Where | None = None) -> Workload:
    """A checked network: nodes in topological order, with the shapes that follow from their operands.

    Without `outputs` they are the tensors that nobody reads. Raises SpecError, naming the place, for a network without
    a layer, two nodes of one name, a tensor that nobody writes, a cycle, and shapes that do not fit.
    """
    where = where or Where(name)
    given = list(nodes)
    by_name = {node.name: node for node in given}
    if len(given) > MOST_NODES:
        raise where.error(f"{len(given)} nodes", f"at most {MOST_NODES}")
    for node in given:
        if by_name[node.name] is not node:
            raise node.where.error(f'there are two nodes called "{node.name}"')
        for tensor in node.inputs:
            if tensor not in by_name:
                raise node.where.error(f'{node.name} reads "{tensor}", which no node writes'
                                       f"{nearest(tensor, list(by_name))}")
    if not any(node.layer for node in given):
        raise where.error(f"the network has no layer (nodes: {listed(sorted({n.what or n.op for n in given}))})",
                          "at least one convolution or matrix product")
    ordered = _with_shapes(_ordered(given))
    read = {tensor for node in ordered for tensor in node.inputs}
    unread = tuple(node.name for node in ordered if node.name not in read and node.op != INPUT)
    for tensor in outputs:
        if tensor not in by_name:
            raise where.error(f'the output "{tensor}" is no node{nearest(tensor, list(by_name))}')
    return Workload(name, ordered, tuple(outputs) or unread)


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Topological order that keeps the given one where it can."""
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(node.name for node in nodes)
    graph.add_edges_from((tensor, node.name) for node in nodes for tensor in node.inputs)
    place = {node.name: index for index, node in enumerate(nodes)}
    try:
        return [nodes[place[name]] for name in nx.lexicographical_topological_sort(graph, key=place.__getitem__)]
    except nx.NetworkXUnfeasible:
        cycle = [edge[0] for edge in nx.find_cycle(graph)]
        raise nodes[place[cycle[0]]].where.error(f"the network has a cycle: {' -> '.join([*cycle, cycle[0]])}",
                                                 "a graph without cycles") from None


def _with_shapes(nodes: Sequence[Node]) -> tuple[Node, ...]:
    shapes: dict[str, Shape | None] = {}
    done = []
    for node in nodes:
        shapes[node.name] = output_shape(node, [shapes[tensor] for tensor in node.inputs])
        done.append(replace(node, shape=shapes[node.name]))
    return tuple(done)


def _layer(node: Node) -> Operator:
    assert node.layer is not None
    return node.layer


def _followed(start: str, after: dict[str, str]) -> Iterable[str]:
    name: str | None = start
    while name is not None:
        yield name
        name = after.get(name)
