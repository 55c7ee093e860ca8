"""Layers of a network that could be fused: chains of layers that can hand tiles on, and their segments.

Problem. FADiff fuses neighbours in a list of layers. A network is a graph: tensors have several readers, pools and sums
stand between layers, and a group must run in one go, without waiting for a layer outside.

Method. A *chain* is a maximal path of layers in which each hands its tensor to the next one tile by tile; each layer is
in one chain. A *segment* is a part of a chain that can run as one step of the network. Within a chain, every layer
passes its tensor to at most one next layer; other readers (a residual, a second branch) get it from the outermost
level, where it is then written too. Reads of sums with other tensors on the way are charged for the whole network, with
fusion and without (`layers.joined_reads`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from math import prod

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion import FusedLink, Stay
from fadiff_mapper.fusion.tile_steps import read_slide
from fadiff_mapper.network.chains.batched_runs import RunsOfLayer, can_be_batched, dimension
from fadiff_mapper.network.chains.residual_operands import (
    JoinBehind,
    ResidualOperand,
    joins_behind,
    residual_operands,
)
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.workload import Link as NetworkLink
from fadiff_mapper.workload import Node, Workload
from fadiff_mapper.workload.operator import REPEAT, Operator
from fadiff_mapper.workload.window_slide import WindowSlide, composed


@dataclass(frozen=True)
class Segment:
    """Layers that follow one another, as one group could run them.

    Attributes:
        nodes: Names of the layers.
        problems: Their problems.
        links: Links between them, with a home level that is yet to be decided.
        whole: For each link the dimensions that no loop may cut: of its producer, or of the next layer where that one
            puts together tensors along them.
        repeat: How often the group runs.
        runs: For each layer its runs within one run of the group, where its problem is that of all of them
            (`batched_runs`).
        slides: For each link the window through which the next layer reads, by dimension of the producer; empty: they
            are worked out.
        residuals: Operands of sums behind its layers that could be read on the chip.
        read_inside: Positions of the links whose tensor has no reader outside the group but those sums.
        key: Equal for segments with the same candidates at the same cost, among those that `segments` lists together.
    """

    nodes: tuple[str, ...]
    problems: tuple[Problem, ...]
    links: tuple[FusedLink, ...]
    whole: tuple[frozenset[str], ...]
    repeat: int
    runs: tuple[int, ...] = ()
    slides: tuple[Mapping[str, WindowSlide], ...] = ()
    residuals: tuple[ResidualOperand, ...] = ()
    read_inside: frozenset[int] = frozenset()
    key: int = -1

    def __post_init__(self) -> None:
        if len(self.slides) < len(self.links):
            object.__setattr__(self, "slides", tuple(map(_slides, self.links, self.problems[1:])))

    @property
    def batched(self) -> bool:
        """True if a layer's problem is that of several of its runs."""
        return any(runs > 1 for runs in self.runs)


def chains(workload: Workload) -> list[tuple[tuple[str, ...], tuple[NetworkLink, ...]]]:
    """Finds the maximal chains of a network.

    Args:
        workload: The network.

    Returns:
        Names of the layers and the links between them, for every chain; each layer is in one.
    """
    nodes = {node.name: node for node in workload.nodes}
    after: dict[str, NetworkLink] = {}
    taken: set[str] = set()
    for link in sorted(workload.links(), key=lambda link: not link.in_tiles):
        if link.producer not in after and link.consumer not in taken and _can_fuse(workload, nodes, link):
            after[link.producer] = link
            taken.add(link.consumer)
    every = []
    for node in workload.layers:
        if node.name not in taken:
            names, links = [node.name], []
            while names[-1] in after:
                links.append(after[names[-1]])
                names.append(links[-1].consumer)
            every.append((tuple(names), tuple(links)))
    return every


def segments(workload: Workload, longest: int, over: Over = never) -> list[Segment]:
    """Lists the segments that can run as one step of the network.

    Args:
        workload: The network.
        longest: Layers of a segment at most; at least two.
        over: Tells whether time is over; once true, the longer ones are left out, and maybe some of equal length.

    Returns:
        Segments in the order of their first layers, of equal ones the shorter first.
    """
    nodes = {node.name: node for node in workload.nodes}
    rank = {node.name: index for index, node in enumerate(workload.nodes)}
    after: dict[str, list[str]] = {name: [] for name in nodes}
    for node in workload.nodes:
        for tensor in node.inputs:
            after[tensor].append(node.name)
    joins, every = joins_behind(workload), chains(workload)
    parts = _SegmentParts({node.name: RunsOfLayer(node.layer) for node in workload.layers if node.layer})
    growing = [(chain, start) for chain, (names, _) in enumerate(every) for start in range(len(names) - 1)]
    found: list[tuple[int, int, Segment]] = []
    for length in range(2, longest + 1):
        longer = []
        for chain, start in growing:
            if over():
                break
            names = every[chain][0][start:start + length]
            links = every[chain][1][start:start + length - 1]
            if len(names) == length and _in_one_go(after, rank, names, links):  # else no longer one can either
                found.append((chain, start, _segment(names, links, parts, joins, nodes)))
                longer.append((chain, start))
        growing = longer
    return [segment for _, _, segment in sorted(found, key=lambda item: item[:2])]


GroupLink = tuple[FusedLink, Mapping[str, WindowSlide], frozenset[str]]
"""A link as a group has it, its window by dimension of the producer, and the dimensions that no loop may cut."""


@dataclass
class _SegmentParts:
    """What segments of one network share, made once.

    Attributes:
        layers: The layers by name.
        links: Links so far, by producer, consumer and whether layers run apart, with their number.
        problems: Numbers of problems so far, by the name of the layer and whether layers run apart.
        numbers: For everything that tells segments apart a number, equal for equal ones.
    """

    layers: dict[str, RunsOfLayer]
    links: dict[tuple[str, str, bool], tuple[GroupLink, int]] = field(default_factory=dict)
    problems: dict[tuple[str, bool], int] = field(default_factory=dict)
    numbers: dict[Hashable, int] = field(default_factory=dict)

    def number(self, value: Hashable) -> int:
        """The number of a value."""
        return self.numbers.setdefault(value, len(self.numbers))

    def problem_number(self, name: str, layer: Operator, apart: bool) -> int:
        """The number of a layer's problem, as it stands in a segment whose layers run apart or not."""
        key = (name, apart)
        if key not in self.problems:
            self.problems[key] = self.number((tuple(layer.problem.bounds.items()), layer.problem.dataspaces))
        return self.problems[key]

    def link(self, link: NetworkLink, producer: Operator, consumer: Operator, apart: bool) -> tuple[GroupLink, int]:
        """A link between two layers as they stand in a segment, and its number."""
        key = (link.producer, link.consumer, apart)
        if key not in self.links:
            own, whole = _group_link(link, producer, apart), frozenset(map(dimension, link.whole))
            self.links[key] = (own, _slides(own, consumer.problem), whole), self.number(
                (own.tensor, tuple(own.dims.items()), tuple(own.padding.items()), tuple(own.pooled.items()),
                 own.written, tuple(own.between.items()), own.whole, own.elsewhere, own.company, whole))
        return self.links[key]


def _segment(names: tuple[str, ...], links: Sequence[NetworkLink], parts: _SegmentParts,
             joins: Mapping[str, Sequence[JoinBehind]], nodes: Mapping[str, Node]) -> Segment:
    """A segment with the residual operands that it could read on the chip.

    Layers that run equally often run so as a group; others are one problem each over all their runs.
    """
    layers = [parts.layers[name].layer for name in names]
    apart = all(_run_by_run(link, *pair) for link, pair in zip(links, pairwise(layers), strict=True))
    runs = tuple(1 if apart else layer.repeat for layer in layers)
    own = layers if apart else [parts.layers[name].together for name in names]
    passed = [parts.link(link, *pair, apart) for link, pair in zip(links, pairwise(own), strict=True)]
    residuals: tuple[ResidualOperand, ...] = ()
    inside = frozenset[int]()
    if not any(count > 1 for count in runs) and any(name in joins for name in names):
        residuals = residual_operands(joins, nodes, names, links)
        inside = frozenset(
            index for index, link in enumerate(links) if link.also_read_by and set(link.also_read_by) <= {
                other.node for other in residuals if other.read.first == index + 1})
    repeat = layers[0].repeat if apart else 1
    key = parts.number((
        tuple(parts.problem_number(name, layer, apart) for name, layer in zip(names, own, strict=True)),
        tuple(number for _, number in passed), repeat, inside,
        tuple((other.read.first, other.read.tensor, other.read.behind, tuple(other.read.dims.items()), other.words)
              for other in residuals)))
    return Segment(names, tuple(layer.problem for layer in own), tuple(link for (link, _, _), _ in passed),
                   tuple(whole for (_, _, whole), _ in passed), repeat, runs,
                   tuple(slides for (_, slides, _), _ in passed), residuals, inside, key)


def _slides(link: FusedLink, reader: Problem) -> dict[str, WindowSlide]:
    """The windows through which a layer reads what a link leads to it, by dimension of the producer."""
    return {own: read_slide(reader, link, theirs) for own, theirs in link.dims.items()}


def _run_by_run(link: NetworkLink, producer: Operator, consumer: Operator) -> bool:
    """Whether each run of the consumer reads what one run of the producer makes."""
    if producer.repeat == consumer.repeat == 1:
        return True
    whole = any(axis.producer == axis.dimension == REPEAT and not axis.slides for axis in link.axes)
    return producer.repeat == consumer.repeat and whole and REPEAT not in link.whole


def runs_in_order(workload: Workload, groups: Iterable[tuple[str, ...]]) -> bool:
    """Tells whether a network can run with each of some groups in one go, operators between their layers inside.

    Args:
        workload: The network.
        groups: Names of the layers of each group.
    """
    between = {(link.producer, link.consumer): link.through for link in workload.links()}
    first = {name: nodes[0] for nodes in groups
             for name in (*nodes, *(name for pair in pairwise(nodes) for name in between[pair]))}
    before: dict[str, set[str]] = {}
    for node in workload.nodes:
        step = first.get(node.name, node.name)
        before.setdefault(step, set()).update({first.get(tensor, tensor) for tensor in node.inputs} - {step})
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return False
    return True


def _can_fuse(workload: Workload, nodes: Mapping[str, Node], link: NetworkLink) -> bool:
    """Whether a group can have a link.

    Not where a tensor before a pool has other readers, where a pooled one has and is put together with others, or where
    runs of a layer that is no product would have to be one problem.
    """
    if not link.fusable:
        return False
    pools = [index for index, name in enumerate(link.through) if nodes[name].kind == "pool"]
    if pools and link.elsewhere and link.also_read_by:
        return False
    if pools and _readers(workload, (link.producer, *link.through[:pools[-1]])) - {*link.through, link.consumer}:
        return False
    producer, consumer = nodes[link.producer].layer, nodes[link.consumer].layer
    assert producer is not None and consumer is not None
    moved = {axis.producer: axis.dimension for axis in link.axes}
    together = _run_by_run(link, producer, consumer) or (can_be_batched(producer) and can_be_batched(consumer))
    return together and len(set(moved.values())) == len(moved)


def _readers(workload: Workload, names: Iterable[str]) -> set[str]:
    """Nodes that read some nodes, and `producer_consumer.OUTPUT` where the network returns one of them."""
    return {reader for name in names for reader in workload.readers[name]}


def _group_link(link: NetworkLink, producer: Operator, apart: bool) -> FusedLink:
    """A link of the network as a group has it.

    Windows of pools are composed into one for each dimension, and so are those between them and the consumer; of the
    consumer's own window, the padding is noted. Where layers run `apart`, run by run, links say nothing of runs.
    """
    axes = [replace(axis, producer=dimension(axis.producer), dimension=dimension(axis.dimension))
            for axis in link.axes if not apart or axis.producer != REPEAT]
    between = {axis.dimension: composed(axis.slides[axis.pools:axis.own]) for axis in axes if axis.pools < axis.own}
    own = {axis.dimension: composed(axis.slides[axis.own:]).pad for axis in axes}
    output = producer.problem.output
    handed = {dim for dim in output.dimensions if producer.problem.bounds[dim] > 1} - {axis.producer for axis in axes}
    group_link = FusedLink(link.operand, {axis.producer: axis.dimension for axis in axes}, Stay(""),
                           {dim: pad for dim, pad in own.items() if pad},
                           {axis.dimension: composed(axis.slides[:axis.pools]) for axis in axes if axis.pools},
                           bool(link.also_read_by), between, frozenset(handed), link.elsewhere)
    return replace(group_link, company=_company(group_link, link, producer))


def _company(group_link: FusedLink, link: NetworkLink, producer: Operator) -> Fraction:
    """Words of other tensors beside each stored word of an intermediate; none where all that is read has own room."""
    if not link.elsewhere or group_link.beside:
        return Fraction(0)
    if group_link.lies_pooled:  # words of others are pooled, too, when they come
        return link.elsewhere / (1 - link.elsewhere)
    made = producer.problem.tensor_size(producer.problem.output) * producer.repeat
    return link.elsewhere * prod(link.shape or (1,)) / made


def _in_one_go(after: Mapping[str, Sequence[str]], rank: Mapping[str, int], names: tuple[str, ...],
               links: tuple[NetworkLink, ...]) -> bool:
    """Whether nothing outside the segment stands between two of its nodes.

    `after`: the nodes that read each node. `rank`: position of every node in a topological order; nodes behind the last
    one of the segment lead to none of it, so the search ends there.
    """
    inside = {*names, *(name for link in links for name in link.through)}
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
