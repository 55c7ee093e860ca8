"""Links: pairs of operators of which one reads the other's output, the correspondence of their tiles, and obstacles.

Problem. A fusion engine asks of two operators: which points of the producer does a tile of the consumer need, and which
other readers need the tensor whole?

Method. The route of the tensor (`tensor_routes`) gives its axes in the producer's dimensions; matched with the ranks of
the consumer's operand, they give an `AxisMap` for each dimension along which tiles pass. A link without an obstacle can
be fused: a tile of the consumer needs, along each of its dimensions in `axes`, a stretch of one dimension of the
producer (slid over by the windows in between and by the consumer's own), and all of the dimensions in `whole`.

    one whole dimension     points are equal, up to windows
    its major part          as heads are of channels: one point of the consumer's dimension is a stretch of the
                            producer's, a window as long as its stride (M = 32 * 128 read by G: WindowSlide(128, 128))
    it and minor ones       as channels are of heads: several points of the consumer's dimension stand for one of the
                            producer's, a window that shrinks (G and M = 128 read by C: WindowSlide(1, 1, shrink=128))
    any other               no tile passes along it: the dimensions behind it must be there whole
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice

from fadiff_mapper.workload.node import INPUT, Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape
from fadiff_mapper.workload.picked_axes import SCATTERED, TensorAxis, regrouped
from fadiff_mapper.workload.shapes import own_slide, pad_before, sliding_axes
from fadiff_mapper.workload.tensor_routes import MOST_BETWEEN, Obstacle, Route
from fadiff_mapper.workload.window_slide import WindowSlide, composable, composed

OUTPUT = "output"
"""In `Link.also_read_by`: a tensor on the way is an output of the network."""

MOST_READERS = 100
"""Further readers that a link names: a plain safety limit, so that a tensor with thousands of readers does not
give each of its links a list of thousands."""


@dataclass(frozen=True)
class AxisMap:
    """The dimension of the producer that a dimension of the consumer runs over.

    Attributes:
        dimension: of the consumer (or `REPEAT`, its runs).
        producer: dimension of the producer (or `REPEAT`).
        slides: windows in between, from the producer to the consumer; without any, points are equal. A stretch of n
            points behind a window covers `slide.reach(n)` before it, from its first point times stride minus pad on;
            points beyond the tensor are padding.
        pools: number of windows up to the last one of a pool.
        own: number of windows before the consumer's own one.
    """

    dimension: str
    producer: str
    slides: tuple[WindowSlide, ...] = ()
    pools: int = field(default=0, compare=False)
    own: int = field(default=0, compare=False)

    def needed(self, points: int) -> int:
        """Points of the producer's dimension that `points` adjacent points of the consumer's dimension read."""
        return composed(self.slides).reach(points)


@dataclass(frozen=True)
class Link:
    """The producer-consumer relation of two operators.

    Attributes:
        producer: node of the operator that writes.
        consumer: node of the operator that reads.
        operand: data space of the consumer that the tensor becomes.
        tensor: the tensor that arrives, output of the last node on the way.
        shape: its shape, None where it is not known.
        axes: the producer's dimension for each dimension of the consumer that runs over any; empty with an obstacle.
        whole: dimensions of the producer that a tile must cover whole, for nodes such as a softmax in between, or
            because no tile passes along them.
        through: nodes in between, in order.
        joins: other tensors that nodes in between join to it.
        also_read_by: further readers of any tensor on the way, `MOST_READERS` at most; the tensor must be stored for
            them even if this link is fused.
        obstacle: the reason why tiles cannot pass, None where they can.
        elsewhere: the part of the operand's words that other tensors bring, put together with this one.
        in_tiles: True if a loop can cut the tensor along some dimension; else only all of it can be handed on, with
            whatever is rearranged or normalised in between.
    """

    producer: str
    consumer: str
    operand: str
    tensor: str
    shape: Shape | None
    axes: tuple[AxisMap, ...]
    whole: tuple[str, ...]
    through: tuple[str, ...]
    joins: tuple[str, ...]
    also_read_by: tuple[str, ...]
    obstacle: Obstacle | None
    elsewhere: Fraction = Fraction(0)
    in_tiles: bool = True

    @property
    def fusable(self) -> bool:
        """True if tiles can pass from one operator to the other; else `obstacle` says why not."""
        return self.obstacle is None


def find_links(nodes: Sequence[Node], route_of: Mapping[str, Route],
               readers: Mapping[str, list[str]]) -> tuple[Link, ...]:
    """All links of a network.

    Args:
        nodes: the nodes in topological order, with shapes.
        route_of: the routes of all tensors (`tensor_routes.routes`).
        readers: the readers of all tensors (`readers_of`).

    Returns:
        Links in the order of the consumers, then of their inputs.
    """
    by_name = {node.name: node for node in nodes}
    behind: dict[str, list[str]] = {}
    for node in nodes:
        if not node.layer and node.name in route_of:
            behind.setdefault(route_of[node.name].producer, []).append(node.name)
    links = []
    for consumer in nodes:
        for tensor, operand in zip(consumer.inputs, consumer.operands, strict=False):
            if consumer.layer and tensor in route_of:
                producer = by_name[route_of[tensor].producer]
                route, maps = _matched(route_of[tensor], producer, consumer, operand, by_name[tensor].shape)
                others = _others(route, consumer.name, behind.get(route.producer, []), readers)
                whole = _whole(route, producer, maps)
                links.append(Link(route.producer, consumer.name, operand, tensor, by_name[tensor].shape, maps,
                                  whole, route.through, route.joins, tuple(others), route.obstacle,
                                  Fraction(0) if route.obstacle else route.elsewhere, _cut(producer, maps, whole)))
    return tuple(links)


def readers_of(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, list[str]]:
    """Lists the readers of every tensor.

    Args:
        nodes: the nodes of a network.
        outputs: names of the tensors that the network returns.

    Returns:
        Tensor -> the nodes that read it, and `OUTPUT`.
    """
    readers: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for name in node.inputs:
            readers[name].append(node.name)
    for name in outputs:
        readers[name].append(OUTPUT)
    return readers


def _others(route: Route, consumer: str, behind: Sequence[str], readers: Mapping[str, list[str]]) -> Iterator[str]:
    """Readers of the tensors on the way, except those that only lead back to it (as in x * sigmoid(x)).

    `behind` are the nodes behind the same producer, in topological order.
    """
    path = [route.producer, *route.through]
    inside = {*path, consumer}
    for name in reversed(behind if len(behind) <= MOST_BETWEEN else ()):  # more are no gate: stored in any case
        if readers[name] and all(reader in inside for reader in readers[name]):
            inside.add(name)
    others = (name for tensor in path for name in readers[tensor] if name not in inside)
    yield from dict.fromkeys(islice(others, MOST_READERS))


def _matched(route: Route, producer: Node, consumer: Node, operand: str,
             shape: Shape | None) -> tuple[Route, tuple[AxisMap, ...]]:
    """The route of a link, with an obstacle where the operators do not match, and the consumer's dimensions."""
    first, second = producer.layer, consumer.layer
    assert first is not None and second is not None
    if route.axes is None or shape is None:  # where there are axes, there is a shape
        return route, ()
    names, target = _ranks(second, operand, shape)
    axes = regrouped(route.axes, target)
    claims: dict[str, AxisMap] = {}  # the producer's dimension -> the consumer's that takes the most of it in a point
    for name, axis in zip(names, axes, strict=True):
        own = () if axis.extent == 1 else _own_slides(consumer, second, operand, name, shape)
        found = _claim(first, name, axis, own)
        if found is not None and _stretch(found) > _stretch(claims.get(found.producer)):
            claims[found.producer] = found
    return route, tuple(claims.values())


def _claim(first: Operator, name: str, axis: TensorAxis, own: tuple[WindowSlide, ...]) -> AxisMap | None:
    """The dimension of the producer along which tiles of a rank pass, if there is any: its major piece's."""
    if not axis.pieces or axis.pieces[0].dimension == SCATTERED:
        return None
    head, minor = axis.pieces[0], math.prod(piece.extent for piece in axis.pieces[1:])
    if head.extent * head.step != _bounds(first)[head.dimension] or (axis.slides and minor * head.step > 1):
        return None
    between = axis.slides
    if minor > 1:
        between = (WindowSlide(1, 1, shrink=minor, block=head.step),)
    elif head.step > 1:
        between = (WindowSlide(head.step, head.step),)
    if not composable(between + own):
        return None
    return AxisMap(name, head.dimension, between + own, _pools(axis.slides), len(between))


def _pools(slides: Sequence[WindowSlide]) -> int:
    """Windows up to the last one of a pool; those behind it only move or resize."""
    return max((index for index, slide in enumerate(slides, 1) if slide.kernel > 1 and slide.shrink == 1), default=0)


def _stretch(found: AxisMap | None) -> int:
    """Points of the producer's dimension that one point of the consumer's stands for; 0 for none."""
    if found is None:
        return 0
    first = found.slides[0] if found.slides else WindowSlide(1, 1)
    return first.block if first.shrink > 1 else first.stride


def _bounds(layer: Operator) -> dict[str, int]:
    """The bound of every dimension of an operator, its runs among them."""
    return {**layer.problem.bounds, REPEAT: layer.repeat}


def _cut(producer: Node, maps: Sequence[AxisMap], whole: Sequence[str]) -> bool:
    """True if tiles pass along a dimension of several points."""
    assert producer.layer is not None
    bound = _bounds(producer.layer)
    return any(bound[found.producer] > 1 and found.producer not in whole for found in maps)


def _whole(route: Route, producer: Node, maps: Sequence[AxisMap]) -> tuple[str, ...]:
    """Dimensions of the producer's output that a tile must cover whole.

    A dimension of which aligned stretches are needed is none of them where tiles pass by multiples of these stretches.
    """
    layer = producer.layer
    assert layer is not None
    if route.obstacle is not None:
        return tuple(sorted({dim for dim, _ in route.whole}))
    bound = _bounds(layer)
    blocks = {found.producer: _stretch(found) for found in maps}
    needed = {dim for dim, length in route.whole
              if length == bound[dim] or dim not in blocks or blocks[dim] % length}
    output = {name for axis in layer.view(layer.problem.output.name) for name in axis if bound[name] > 1}
    return tuple(sorted(needed | output - {found.producer for found in maps}))


def _ranks(layer: Operator, operand: str, shape: Shape) -> tuple[list[str], Shape]:
    """Each rank of an operand by the dimension that names it, and its extent in the tensor."""
    extents, sliding = layer.extents(operand), sliding_axes(layer, operand)
    names: list[str] = []
    target: list[int] = []
    for index, axis in enumerate(layer.view(operand)):
        names += axis
        target += [shape[index]] if index in sliding else [extents[name] for name in axis]
    return names, tuple(target)


def _own_slides(node: Node, layer: Operator, operand: str, name: str, shape: Shape) -> tuple[WindowSlide, ...]:
    """The consumer's own window along a rank, if there is any."""
    for axis, position in sliding_axes(layer, operand).items():
        if layer.view(operand)[axis] == (name,):
            slide = replace(own_slide(layer, operand, axis),
                            pad=pad_before(node, layer, operand, axis, position, shape[axis]))
            return () if slide == WindowSlide(1, 1, slide.dilation) else (slide,)
    return ()


# Problem. A plan charges operators: each writes its output once, and reads its operands. Where a node joins two
# tensors (a residual sum, the two projections of a gated feed-forward part), the result takes the place of one of
# them. The other one is read besides, and no operator accounts for it.
#
# Method. A tensor lies in memory where an operator writes it, where it enters the network, or where a join makes it
# of several such tensors; all others are computed from those on their way, as the points of an activation are. Of the
# operands of a join, the largest flows on, of equally large ones that which is ready last. Each other one is read
# besides, unless it is computed from the same tensors: x * sigmoid(x), x / mean(x) and rotated halves read nothing
# else. Operands that are repeated count the words that they have before, constants nothing.
#
# y = x + f(x)                                 x is read besides
# silu(gate(x)) * up(x)                        one of the two projections
# image * sigmoid(fc(mean(image)))             the factor: one word per channel

@dataclass(frozen=True)
class OtherInput:
    """A tensor that a join reads besides the one that flows on.

    Attributes:
        node: name of the join.
        tensor: name of the operand.
        words: its elements.
    """

    node: str
    tensor: str
    words: int


def other_inputs(nodes: Sequence[Node]) -> tuple[OtherInput, ...]:
    """All tensors that joins read besides those that flow on; operands of unknown shape are left out.

    Args:
        nodes: the nodes of a network in topological order, with shapes.
    """
    by_name = {node.name: node for node in nodes}
    place = {name: index for index, name in enumerate(by_name)}
    lying: dict[str, frozenset[str]] = {}
    found: list[OtherInput] = []
    for node in nodes:
        operands = sorted(set(node.inputs), key=place.__getitem__) if node.kind == "join" else []
        besides = _besides(node.name, [by_name[name] for name in operands], by_name, lying)
        own = besides or node.layer is not None or node.op == INPUT
        lying[node.name] = frozenset({node.name}) if own else frozenset().union(*(lying[name] for name in node.inputs))
        found += besides
    return tuple(found)


def _besides(join: str, operands: Sequence[Node], by_name: Mapping[str, Node],
             lying: Mapping[str, frozenset[str]]) -> list[OtherInput]:
    """The operands of a join, in topological order, that are read besides.

    `lying`: the tensors in memory that each tensor is computed from.
    """
    if len(operands) < 2:
        return []
    words = {operand.name: _words(operand, by_name) for operand in operands}
    flows = max(reversed(words), key=lambda name: words[name])
    return [OtherInput(join, name, count) for name, count in words.items()
            if name != flows and count and not lying[name] <= lying[flows]]


def _words(node: Node, by_name: Mapping[str, Node]) -> int:
    """Elements of a tensor, before it is repeated; 0 where its shape is not known."""
    while node.op == "expand":
        node = by_name[node.inputs[0]]
    return math.prod(node.shape) if node.shape is not None else 0
