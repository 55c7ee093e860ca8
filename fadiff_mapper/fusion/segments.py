"""Layers of a network that could be fused: chains of layers that pass tiles to one another, and their segments.

Problem. FADiff fuses neighbours in a list of layers. A network is a graph: tensors have several readers, pools and sums
lie between layers, and a group must run in one go, without waiting for a layer outside.

Method. A *chain* is a maximal path of layers in which each hands its tensor to the next one tile by tile; each layer is
in one chain. A *segment* is a part of a chain that can run as one step of the network. Within a chain, every layer
passes its tensor to at most one next layer; for other readers (a residual, a second branch) the tensor is also written
to the outermost level.

Runs. The heads of attention are runs of one matrix product; the projections around them run once. If layers of a group
differ in their number of runs, the group needs a shared loop over the heads, but a loop only cuts dimensions of
problems. So a product that runs G times becomes a grouped 1 x 1 convolution of G groups (`batched`): the same
multiply-accumulates on the same words. Links then lead from channels to groups and back (`AxisMap` names the runs
`REPEAT`). By itself, and in groups whose layers all run equally often, a layer is the problem of one run.

Residual operands. The other operand of a sum comes from the outermost level (`prices`). If a layer of the segment
before the sum reads the same tensor, the tensor is on the chip already: the axes of both, in dimensions of the layers,
say which points are added (`fusion.SecondRead`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion.fused_group import FusedLink, LayerTree, LinkOperator, SecondRead, Stay
from fadiff_mapper.fusion.tile_steps import read_slide, space_of
from fadiff_mapper.inputs.native.problem import literal_bits
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Link as NetworkLink
from fadiff_mapper.workload import Node, Workload
from fadiff_mapper.workload.operator import REPEAT, Operator, make_operator
from fadiff_mapper.workload.producer_consumer import OtherInput, other_inputs
from fadiff_mapper.workload.tensor_axes import SCATTERED, TensorAxis
from fadiff_mapper.workload.window_slide import WindowSlide, composed

RUNS = "G"
"""The dimension of a batched problem for its runs."""

PLAIN = ("pointwise", "join", "reshape", "transpose")
"""Kinds of nodes that may lie between the last layer of a group and a sum: they keep the order of points."""


@dataclass(frozen=True)
class ResidualOperand:
    """An operand of the sum `node` that a group could read on the chip; `words`: of all runs together."""

    read: SecondRead
    words: int
    node: str = field(compare=False)


@dataclass(frozen=True)
class SharedOperand:
    """An operand of a layer that an earlier layer of a segment reads, too: with the same words in the same order."""

    layer: int  # position of the layer
    operand: str  # its data space
    first: int  # position of the first layer that reads the same tensor
    tensor: str  # data space in that first layer


@dataclass(frozen=True)
class Segment(LayerTree):
    """Layers of a tree, one after the other, that could run as one group."""

    nodes: tuple[str, ...]  # names of the layers
    problems: tuple[Problem, ...]  # their problems
    links: tuple[FusedLink, ...]  # links between them, without a chosen home
    # for each link the dimensions that no loop may cut: of its producer, or of its reader where the reader
    # concatenates tensors along them
    whole: tuple[frozenset[str], ...]
    repeat: int  # runs of the group
    # for each layer its runs within one run of the group, if its problem covers all of them
    runs: tuple[int, ...] = ()
    # for each link the window through which the next layer reads, by dimension of the producer
    slides: tuple[Mapping[str, WindowSlide], ...] = ()
    residuals: tuple[ResidualOperand, ...] = ()  # operands of sums behind its layers that could be read on the chip
    # positions of the links whose tensor has no reader outside the group except those sums
    read_inside: frozenset[int] = frozenset()
    shared: tuple[SharedOperand, ...] = ()  # operands that several of its layers read
    # equal for segments with equal candidates at equal cost, within one call of `segments`
    key: int = -1

    @cached_property
    def cuts(self) -> dict[str, list[str | None]]:
        """Dimension of the last layer -> the dimension of each layer that a loop over it cuts, or None."""
        found = {}
        for dim in self.problems[-1].bounds:
            cut: list[str | None] = [*(None for _ in self.links), dim]
            for index in reversed(range(len(self.links))):
                cut[index] = self.links[index].back.get(cut[self.reader(index)] or "")
            found[dim] = cut
        return found

    @cached_property
    def needed_shares(self) -> list[float]:
        """The least share of each layer's work that a group has to do: strides, and later layers that do not read the
        whole intermediate, may leave out points."""
        points, shares = {len(self.links): dict(self.problems[-1].bounds)}, [1.0]
        for index in reversed(range(len(self.links))):
            link, problem, reader = self.links[index], self.problems[index], self.problems[self.reader(index)]
            before = dict(problem.bounds)
            for own, slides in self.slides[index].items():
                theirs, extent = link.dims[own], problem.bounds[own]
                span = (slides.kernel - 1) * slides.dilation + 1
                read = (points[self.reader(index)][theirs] - 1) * min(slides.stride, span) + span
                behind = max(slides.read(range(reader.bounds[theirs])).stop - extent, 0)
                least = -(-read // slides.shrink) * slides.block - max(slides.ahead, 0) - behind
                before[own] = min(max(least, 1), extent)
            shares.insert(0, prod(before[dim] / extent for dim, extent in problem.bounds.items()))
            points[index] = before
        return shares

    @property
    def charged(self) -> bool:
        """True if compute units run operators between its layers at some cost."""
        return any(link.operators for link in self.links)

    @property
    def batched(self) -> bool:
        """True if the problem of a layer covers several of its runs."""
        return any(runs > 1 for runs in self.runs)


def chains(workload: Workload) -> list[tuple[tuple[str, ...], tuple[NetworkLink, ...]]]:
    """The maximal trees of layers that pass tensors in tiles; each layer is in one tree, and most trees are chains.

    Each layer except the last of its tree leads to one other layer, its reader. A layer comes after all layers that
    lead to it, and chains, whose layers pass on their first operands, stay together.

    Returns:
        Names of the layers, and for each but the last its link.
    """
    nodes = {node.name: node for node in workload.nodes}
    after: dict[str, NetworkLink] = {}
    main: dict[str, str] = {}   # layer -> the layer before it in its chain
    sides: dict[str, list[str]] = {}    # layer -> layers that make its other operands
    links = [link for link in sorted(workload.links(), key=lambda link: not link.in_tiles)
             if _can_fuse(workload, nodes, link)]
    for link in links:
        if link.producer not in after and link.consumer not in main:
            after[link.producer] = link
            main[link.consumer] = link.producer
    for link in links:
        if link.producer not in after and not link.elsewhere and not any(axis.pools for axis in link.axes) and (
                link.operand not in {after[other].operand
                                     for other in (main[link.consumer], *sides.get(link.consumer, ()))}):
            after[link.producer] = link
            sides.setdefault(link.consumer, []).append(link.producer)

    def tree(last: str) -> list[str]:
        """All layers that lead to a layer: its chain at the end, and before it the trees of other operands, those of
        later layers first."""
        chain = [last]
        while chain[0] in main:
            chain.insert(0, main[chain[0]])
        return [*(name for own in reversed(chain) for side in sides.get(own, ()) for name in tree(side)), *chain]

    every = []
    for node in workload.layers:
        if node.name not in after:
            names = tree(node.name)
            every.append((tuple(names), tuple(after[name] for name in names[:-1])))
    return every


def segments(workload: Workload, longest: int, over: Over = never, *, units: bool = False) -> list[Segment]:
    """Lists the segments of up to `longest` layers that can run as one step of the network, by chain, then first layer,
    then length.

    `units`: whether compute units run the operators between layers at a cost. Once `over` is true, longer segments are
    left out, and perhaps some of equal length.
    """
    nodes = {node.name: node for node in workload.nodes}
    rank = {node.name: index for index, node in enumerate(workload.nodes)}
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for node in workload.nodes:
        for tensor in node.inputs:
            after[tensor].append(node.name)
    joins, every = _joins_behind(workload), chains(workload)
    parts = _SegmentParts(link_operators(workload) if units else {})
    growing = [(chain, start) for chain, (names, _) in enumerate(every) for start in range(len(names) - 1)]
    found: list[tuple[int, int, Segment]] = []
    for length in range(2, longest + 1):
        longer = []
        for chain, start in growing:
            if over():
                break
            names = every[chain][0][start:start + length]
            links = every[chain][1][start:start + length - 1]
            if len(names) < length:
                continue
            whole = all(link.consumer in names for link in links)   # else a layer has its reader outside
            if not whole or _in_one_go(after, rank, names, links):  # else no longer segment from here can
                longer.append((chain, start))
            if whole and longer[-1:] == [(chain, start)]:
                found.append((chain, start, _segment(names, links, parts, joins, nodes)))
        growing = longer
    return [segment for _, _, segment in sorted(found, key=lambda item: item[:2])]


def link_operators(workload: Workload) -> dict[str, LinkOperator]:
    """The operators without multiply-accumulates that may lie between two layers of a group, by node."""
    nodes, passed = {node.name: node for node in workload.nodes}, {
        name: {link.producer, *link.through} for link in workload.links() for name in link.through}
    found = {}
    for operator in workload.vector_operators():
        if operator.node in passed:
            node = nodes[operator.node]
            others = [nodes[name].shape or () for name in {*node.inputs} - passed[operator.node]]
            found[operator.node] = LinkOperator(operator, sum(map(prod, (*others, *node.constants))))
    return found


def links_within(workload: Workload, nodes: Sequence[str]) -> list[NetworkLink]:
    """The links of layers that run in one go: from each layer to its first reader among them, if any."""
    position = {name: index for index, name in enumerate(nodes)}
    found: dict[str, NetworkLink] = {}
    for link in workload.links():
        if link.fusable and link.producer in position and position.get(link.consumer, -1) > position[link.producer]:
            known = found.get(link.producer)
            if known is None or position[link.consumer] < position[known.consumer]:
                found[link.producer] = link
    return [found[name] for name in nodes if name in found]


def runs_in_order(workload: Workload, groups: Iterable[tuple[str, ...]]) -> bool:
    """Whether a network can run with each group (names of layers) as one step, including the operators inside."""
    first = {name: nodes[0] for nodes in groups
             for name in (*nodes, *(name for link in links_within(workload, nodes) for name in link.through))}
    before: dict[str, set[str]] = {}
    for node in workload.nodes:
        step = first.get(node.name, node.name)
        before.setdefault(step, set()).update({first.get(tensor, tensor) for tensor in node.inputs} - {step})
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


def over_all_runs(spec: Spec, layer: Operator, dimensions: tuple[str, ...]) -> Spec:
    """The spec of a layer, or of all its runs as one problem if a group has the problem with these dimensions."""
    if dimensions == spec.problem.dimensions:
        return spec
    whole = batched(layer)
    return replace(spec, problem=whole.problem, mapping=None, literal=spec.literal | {"problem": whole.literal})


def batched(layer: Operator) -> Operator:
    """All runs of a matrix product as one problem; the operator itself if it runs once."""
    return layer if layer.repeat == 1 else _grouped(
        (*layer.problem.bounds.items(), (RUNS, layer.repeat)), layer.problem.dataspaces)


@lru_cache(maxsize=256)     # a network has some dozen; SDXL's U-Net has 280 such layers, of 8 kinds
def _grouped(bounds: tuple[tuple[str, int], ...], alike: tuple[DataSpace, ...]) -> Operator:
    """The grouped convolution with these bounds and the bits of some tensors; equal heads of a network share it."""
    bits = Map(literal_bits(alike).get("bits", {}), where=Where("grouped_conv"))
    return make_operator("grouped_conv", dict(bounds), bits=bits)


GroupLink = tuple[FusedLink, Mapping[str, WindowSlide], frozenset[str]]
"""A link within a group, its windows by dimension of the producer, and the dimensions that no loop may cut."""


@dataclass
class _SegmentParts:
    """Links and problems that segments of one network share, by whether layers run one run at a time (`apart`).

    `numbers`: the number of each distinct value that distinguishes segments.
    """

    operators: Mapping[str, LinkOperator]  # by node; empty where operators cost nothing
    links: dict[tuple[str, str, bool], tuple[GroupLink, int]] = field(default_factory=dict)
    problems: dict[tuple[str, bool], int] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, value: Hashable) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def problem_number(self, name: str, layer: Operator, apart: bool) -> int:
        """The number of a layer's problem."""
        key = (name, apart)
        if key not in self.problems:
            self.problems[key] = self.number((tuple(layer.problem.bounds.items()), layer.problem.dataspaces))
        return self.problems[key]

    def link(self, link: NetworkLink, producer: Operator, consumer: Operator, apart: bool,
             distance: int) -> tuple[GroupLink, int]:
        """A link between two layers, the second `distance` layers behind the first, and its number."""
        key = (link.producer, link.consumer, apart)
        if key not in self.links:
            between = tuple(self.operators[name] for name in link.through if name in self.operators)
            own = replace(_group_link(link, producer, apart), operators=between, distance=distance)
            whole = frozenset(map(_dimension, link.whole)) - own.running
            self.links[key] = (own, slides_of(own, consumer.problem), whole), self.number(
                (own.tensor, tuple(own.dims.items()), tuple(own.padding.items()), tuple(own.pooled.items()),
                 own.written, tuple(own.between.items()), own.whole, own.elsewhere, own.company, whole, own.running,
                 own.causal, own.distance, tuple(operator.key for operator in own.operators)))
        return self.links[key]


def _segment(names: tuple[str, ...], links: Sequence[NetworkLink], parts: _SegmentParts,
             joins: Mapping[str, Sequence[_JoinBehind]], nodes: Mapping[str, Node]) -> Segment:
    """A segment with the residual operands that it could read on the chip.

    If each run of a layer only needs one run of the layer before, problems are single runs; else of all runs.
    """
    layers = [layer for name in names if (layer := nodes[name].layer)]
    readers = [names.index(link.consumer) for link in links]
    apart = all(_run_by_run(link, layers[index], layers[reader])
                for index, (link, reader) in enumerate(zip(links, readers, strict=True)))
    runs = tuple(1 if apart else layer.repeat for layer in layers)
    own = layers if apart else list(map(batched, layers))
    passed = [parts.link(link, own[index], own[reader], apart, reader - index)
              for index, (link, reader) in enumerate(zip(links, readers, strict=True))]
    chain = all(reader == index + 1 for index, reader in enumerate(readers))
    shared = () if chain else shared_operands(names, links, own, nodes)
    residuals: list[ResidualOperand] = []
    inside = frozenset[int]()
    if chain and not any(count > 1 for count in runs) and any(name in joins for name in names):
        for behind, name in enumerate(names):
            for join in joins.get(name, ()):
                # behind the last layer a compute unit would do the sum at its own cost
                here = (join.plain and not parts.operators if behind == len(links)
                        else join.operand.node in links[behind].through)
                read = _handed_on(join, names, links, behind) or _own_input(join, nodes, nodes[names[0]], behind)
                if here and read:
                    residuals.append(ResidualOperand(read, join.operand.words, join.operand.node))
        inside = frozenset(
            index for index, link in enumerate(links) if link.also_read_by and set(link.also_read_by) <= {
                other.node for other in residuals if other.read.first == index + 1})
    repeat = layers[0].repeat if apart else 1
    key = parts.number((
        tuple(parts.problem_number(name, layer, apart) for name, layer in zip(names, own, strict=True)),
        tuple(number for _, number in passed), repeat, inside, shared,
        tuple((other.read.first, other.read.tensor, other.read.behind, tuple(other.read.dims.items()), other.words)
              for other in residuals)))
    return Segment(names, tuple(layer.problem for layer in own), tuple(link for (link, _, _), _ in passed),
                   tuple(whole for (_, _, whole), _ in passed), repeat, runs,
                   tuple(slides for (_, slides, _), _ in passed), tuple(residuals), inside, shared, key)


def shared_operands(names: Sequence[str], links: Sequence[NetworkLink], layers: Sequence[Operator],
                     nodes: Mapping[str, Node]) -> tuple[SharedOperand, ...]:
    """The operands of layers that earlier layers of a segment read, too, with equal extents."""
    handed = {(link.consumer, link.operand) for link in links}
    first: dict[Hashable, tuple[int, str]] = {}
    found = []
    for index, name in enumerate(names):
        for tensor, operand in zip(nodes[name].inputs, nodes[name].operands, strict=False):
            if (name, operand) in handed or layers[index].repeat > 1:
                continue
            problem = layers[index].problem
            key = tensor, layers[index].view(operand), space_of(problem, operand).tile_extents(problem.bounds)
            if key in first:
                found.append(SharedOperand(index, operand, *first[key]))
            first.setdefault(key, (index, operand))
    return tuple(found)


def slides_of(link: FusedLink, reader: Problem) -> dict[str, WindowSlide]:
    """The windows through which a layer reads the intermediate of a link, by dimension of the producer."""
    return {own: read_slide(reader, link, theirs) for own, theirs in link.dims.items()}


def _dimension(name: str) -> str:
    """The dimension of a batched problem that a dimension of a link, or `REPEAT`, becomes."""
    return RUNS if name == REPEAT else name


def _run_by_run(link: NetworkLink, producer: Operator, consumer: Operator) -> bool:
    """Whether each run of the consumer reads the output of one run of the producer."""
    if producer.repeat == consumer.repeat == 1:
        return True
    whole = any(axis.producer == axis.dimension == REPEAT and not axis.slides for axis in link.axes)
    return producer.repeat == consumer.repeat and whole and REPEAT not in link.whole


def _can_fuse(workload: Workload, nodes: Mapping[str, Node], link: NetworkLink) -> bool:
    """Whether a link can be in a group.

    Not if the tensor before a pool has other readers, if a concatenated pooled tensor has other readers, or if runs of
    a layer that is no product would have to be one problem.
    """
    if not link.fusable:
        return False
    pools = [index for index, name in enumerate(link.through) if nodes[name].kind == "pool"]
    if pools and link.elsewhere and link.also_read_by:
        return False
    before = (link.producer, *link.through[:pools[-1]]) if pools else ()
    if {reader for name in before for reader in workload.readers[name]} - {*link.through, link.consumer}:
        return False
    producer, consumer = nodes[link.producer].layer, nodes[link.consumer].layer
    assert producer is not None and consumer is not None
    moved = {axis.producer: axis.dimension for axis in link.axes}
    together = all(layer.repeat == 1 or layer.op == "gemm" for layer in (producer, consumer))
    return (together or _run_by_run(link, producer, consumer)) and len(set(moved.values())) == len(moved)


def _group_link(link: NetworkLink, producer: Operator, apart: bool) -> FusedLink:
    """A link of the network in the form of a group.

    Windows of pools are composed into one window for each dimension, and so are those between pools and consumer; only
    the padding is taken from the consumer's own window. If layers run `apart`, run by run, links do not name runs.
    """
    axes = [replace(axis, producer=_dimension(axis.producer), dimension=_dimension(axis.dimension))
            for axis in link.axes if not apart or axis.producer != REPEAT]
    between = {axis.dimension: composed(axis.slides[axis.pools:axis.own]) for axis in axes if axis.pools < axis.own}
    own = {axis.dimension: composed(axis.slides[axis.own:]).pad for axis in axes}
    output = producer.problem.output
    handed = {dim for dim in output.dimensions if producer.problem.bounds[dim] > 1} - {axis.producer for axis in axes}
    found = FusedLink(link.operand, {axis.producer: axis.dimension for axis in axes}, Stay(""),
                      {dim: pad for dim, pad in own.items() if pad},
                      {axis.dimension: composed(axis.slides[:axis.pools]) for axis in axes if axis.pools},
                      bool(link.also_read_by), between, frozenset(handed), link.elsewhere,
                      running=frozenset(link.running))
    bounds = producer.problem.bounds
    rows = [dim for dim in output.dimensions - found.running - {RUNS} if bounds[dim] > 1]
    if link.causal and len(rows) == len(found.running) == 1 and rows[0] in found.dims and not found.between and (
            bounds[rows[0]] % link.causal == 0 and link.causal <= bounds[min(found.running)]):
        found = replace(found, causal=(rows[0], link.causal))
    if not link.elsewhere or found.beside:  # all words that are read have room of their own
        company = Fraction(0)
    elif found.lies_pooled:                 # words of other tensors are pooled, too, on arrival
        company = link.elsewhere / (1 - link.elsewhere)
    else:
        company = (link.elsewhere * prod(link.shape or (1,))
                   / (producer.problem.tensor_size(output) * producer.repeat))
    return replace(found, company=company)


def _in_one_go(after: Mapping[str, Sequence[str]], rank: Mapping[str, int], names: tuple[str, ...],
               links: tuple[NetworkLink, ...]) -> bool:
    """Whether no outside node lies between two nodes of a segment, and a tree has no further links between its layers.

    `after`: the nodes that read each node; `rank`: the position of every node in a topological order. Nodes behind the
    last node of the segment lead to none of its nodes, so the search ends there.
    """
    inside = {*names, *(name for link in links for name in link.through)}
    if any(link.consumer != name for link, name in zip(links, names[1:], strict=True)):
        # another link in a tree would lead to a layer that runs too early, or to part of a tensor
        expected = {pair for link in links for pair in pairwise((link.producer, *link.through, link.consumer))}
        if any((name, reader) not in expected for name in inside for reader in after[name] if reader in inside):
            return False
    last = max(rank[name] for name in inside)
    seen: set[str] = set()
    todo = [reader for name in inside for reader in after[name] if reader not in inside]
    while todo:
        name = todo.pop()
        if name in inside:
            return False
        if name not in seen and rank[name] < last:
            seen.add(name)
            todo += after[name]
    return True


@dataclass(frozen=True)
class _JoinBehind:
    """A sum behind a layer, with its other operand."""

    operand: OtherInput  # the operand
    axes: tuple[str, ...]  # for each axis of the sum the dimension of the layer's output; "" for a single point
    plain: bool  # whether all nodes between layer and sum are of the kinds `PLAIN`
    producer: str  # the layer that makes the operand; "" if none
    # for each axis of the operand the dimension of the producer's output; None if an axis is no whole dimension
    producer_axes: tuple[str, ...] | None


def _joins_behind(workload: Workload) -> dict[str, list[_JoinBehind]]:
    """For each layer the sums behind it whose other operand is as large as the layer's output."""
    nodes, routes = {node.name: node for node in workload.nodes}, workload.routes
    found: dict[str, list[_JoinBehind]] = {}
    for operand in other_inputs(workload.nodes):
        route, other = routes.get(operand.node), routes.get(operand.tensor)
        if route is None or nodes[operand.tensor].shape != nodes[operand.node].shape:
            continue
        layer = nodes[route.producer].layer
        axes = layer and _whole_dimensions(route.axes, layer)
        if layer is None or not axes or operand.words != layer.repeat * prod(
                layer.problem.bounds[dim] for dim in layer.problem.output.dimensions):
            continue
        before = nodes[other.producer].layer if other else None
        found.setdefault(route.producer, []).append(_JoinBehind(
            operand, axes, all(nodes[name].kind in PLAIN for name in route.through), other.producer if other else "",
            _whole_dimensions(other.axes, before) if other and before else None))
    return found


def _whole_dimensions(axes: Sequence[TensorAxis] | None, layer: Operator) -> tuple[str, ...] | None:
    """For each axis of a tensor the dimension of the layer's output along it, "" for a single point.

    None if the axes are unknown, or an axis is no whole dimension.
    """
    names: list[str] = []
    for axis in axes or ():
        if axis.extent == 1:
            names.append("")
            continue
        piece = axis.pieces[0] if len(axis.pieces) == 1 and not axis.slides else None
        if piece is None or piece.dimension == SCATTERED or piece.step != 1 or piece.extent != (
                layer.repeat if piece.dimension == REPEAT else layer.problem.bounds[piece.dimension]):
            return None
        names.append(piece.dimension)
    return None if axes is None else tuple(names)


def _handed_on(join: _JoinBehind, names: Sequence[str], links: Sequence[NetworkLink],
               behind: int) -> SecondRead | None:
    """The second read of a tensor that is an intermediate of the segment, or None."""
    if join.producer not in names[:behind] or join.producer_axes is None:
        return None
    before = names.index(join.producer)
    link = links[before]
    if join.operand.tensor not in (link.producer, *link.through):
        return None
    dims = _together(join.producer_axes, join.axes)
    return None if dims is None else SecondRead(before + 1, link.operand, behind, dims)


def _own_input(join: _JoinBehind, nodes: Mapping[str, Node], first: Node, behind: int) -> SecondRead | None:
    """The second read of an input of the segment's first layer, read point by point there; or None."""
    layer = first.layer
    assert layer is not None
    for tensor, operand in zip(first.inputs, first.operands, strict=True):
        node = nodes[tensor]
        while node.name != join.operand.tensor and node.kind == "pointwise":
            node = nodes[node.inputs[0]]
        if node.name == join.operand.tensor and node.shape == nodes[tensor].shape == nodes[join.operand.node].shape:
            axes = _point_by_point(layer, operand, node.shape or ())
            dims = None if axes is None else _together(axes, join.axes)
            return None if dims is None else SecondRead(0, operand, behind, dims)
    return None


def _point_by_point(layer: Operator, operand: str, shape: Sequence[int]) -> tuple[str, ...] | None:
    """For each axis of an operand the only dimension that moves along it, "" for a single point; None if windows slide
    or the layer merges axes of the tensor."""
    bounds, space = layer.problem.bounds, layer.dataspace(operand)
    if len(layer.view(operand)) != len(shape):
        return None
    rank_of = {term.dimension: rank for rank in space.ranks for term in rank}
    names = []
    for view, extent in zip(layer.view(operand), shape, strict=True):
        if view == (REPEAT,) or extent == 1:
            names.append(REPEAT if extent > 1 else "")
            continue
        moving = [term for name in view for term in rank_of[name] if bounds[term.dimension] > 1]
        if len(moving) != 1 or moving[0].coefficient != 1 or bounds[moving[0].dimension] != extent:
            return None
        names.append(moving[0].dimension)
    return tuple(names)


def _together(tensor: Sequence[str], output: Sequence[str]) -> dict[str, str] | None:
    """Dimension of the tensor -> dimension of the output, axis by axis; None if one side is a run and the other not."""
    pairs = [(mine, theirs) for mine, theirs in zip(tensor, output, strict=True) if mine or theirs]
    if any((mine == REPEAT) != (theirs == REPEAT) for mine, theirs in pairs):
        return None
    return {mine: theirs for mine, theirs in pairs if mine != REPEAT}
