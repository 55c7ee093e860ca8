"""Links: pairs of operators of which one reads the other's output, the correspondence of their tiles, and obstacles.

Problem. A fusion engine asks of two operators: which points of the producer does a tile of the consumer need, and which
other readers need the tensor whole?

Method. The route of the tensor (`tensor_routes`) gives its axes in the producer's dimensions; matched with the ranks of
the consumer's operand, they give one `AxisMap` per dimension. A link without an obstacle can be fused: a tile of the
consumer needs, along each of its dimensions in `axes`, a stretch of one dimension of the producer (slid over by the
windows in between and by the consumer's own), and all of the dimensions in `whole`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fadiff_mapper.workload.axis_algebra import Obstacle, TensorAxis, WindowSlide, composed, regrouped
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape
from fadiff_mapper.workload.shapes import own_slide, pad_before, sliding_axes
from fadiff_mapper.workload.tensor_routes import MOST_BETWEEN, Route, blocked, routes

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
        pools: number of windows, from the first on, that belong to pools; the last window may be the consumer's own.
    """

    dimension: str
    producer: str
    slides: tuple[WindowSlide, ...] = ()
    pools: int = field(default=0, compare=False)

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
        whole: dimensions of the producer that a tile must cover whole, for nodes such as a softmax in between.
        through: nodes in between, in order.
        joins: other tensors that nodes in between join to it.
        also_read_by: further readers of any tensor on the way, `MOST_READERS` at most; the tensor must be stored for
            them even if this link is fused.
        obstacle: the reason why tiles cannot pass, None where they can.
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

    @property
    def fusable(self) -> bool:
        """True if tiles can pass from one operator to the other; else `obstacle` says why not."""
        return self.obstacle is None


def find_links(nodes: Sequence[Node], outputs: Sequence[str]) -> tuple[Link, ...]:
    """All links of a network.

    Args:
        nodes: the nodes in topological order, with shapes.
        outputs: names of the tensors that the network returns.

    Returns:
        Links in the order of the consumers, then of their inputs.
    """
    route_of = routes(nodes)
    by_name = {node.name: node for node in nodes}
    readers = _readers(nodes, outputs)
    behind: dict[str, list[str]] = {}
    for node in nodes:
        if not node.layer and node.name in route_of:
            behind.setdefault(route_of[node.name].producer, []).append(node.name)
    links = []
    for consumer in nodes:
        for tensor, operand in zip(consumer.inputs, consumer.operands, strict=False):
            if consumer.layer and tensor in route_of:
                route, maps = _matched(route_of[tensor], by_name[route_of[tensor].producer], consumer, operand,
                                       by_name[tensor].shape)
                others = _others(route, consumer.name, behind.get(route.producer, []), readers)
                links.append(Link(route.producer, consumer.name, operand, tensor, by_name[tensor].shape, maps,
                                  tuple(sorted(route.whole)), route.through, route.joins,
                                  tuple(others), route.obstacle))
    return tuple(links)


def _readers(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, list[str]]:
    """Tensor -> the nodes that read it, and `OUTPUT`."""
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
    if first.repeat != second.repeat:
        route = blocked(route, "repeat", f"{producer.name} runs {first.repeat} times, {consumer.name} {second.repeat}")
    if route.axes is None or shape is None:  # where there are axes, there is a shape
        return route, ()
    names, target = _ranks(second, operand, shape)
    axes = regrouped(route.axes, target)
    if axes is None:
        return blocked(route, "rearranged", f"{operand} of {consumer.name}"), ()
    maps = []
    for name, axis in zip(names, axes, strict=True):
        problem = _mismatch(first, axis)
        if problem:
            return blocked(route, problem, f"{name} of {consumer.name}"), ()
        if axis.pieces:
            own = _own_slides(consumer, second, operand, name, shape)
            maps.append(AxisMap(name, axis.pieces[0].dimension, axis.slides + own, len(axis.slides)))
    return route, tuple(maps)


def _ranks(layer: Operator, operand: str, shape: Shape) -> tuple[list[str], Shape]:
    """Each rank of an operand by the dimension that names it, and its extent in the tensor."""
    extents, sliding = layer.extents(operand), sliding_axes(layer, operand)
    names: list[str] = []
    target: list[int] = []
    for index, axis in enumerate(layer.view(operand)):
        names += axis
        target += [shape[index]] if index in sliding else [extents[name] for name in axis]
    return names, tuple(target)


def _mismatch(first: Operator, axis: TensorAxis) -> str | None:
    """The name of the obstacle where an axis is not one whole dimension of the producer."""
    if len(axis.pieces) > 1:
        return "flattened" if len({piece.dimension for piece in axis.pieces}) > 1 else "part"
    if axis.pieces:
        piece = axis.pieces[0]
        bound = first.repeat if piece.dimension == REPEAT else first.problem.bounds[piece.dimension]
        if piece.step != 1 or piece.extent != bound:
            return "part"
    return None


def _own_slides(node: Node, layer: Operator, operand: str, name: str, shape: Shape) -> tuple[WindowSlide, ...]:
    """The consumer's own window along a rank, if there is any."""
    for axis, position in sliding_axes(layer, operand).items():
        if layer.view(operand)[axis] == (name,):
            slide = replace(own_slide(layer, operand, axis),
                            pad=pad_before(node, layer, operand, axis, position, shape[axis]))
            return () if slide == WindowSlide(1, 1, slide.dilation) else (slide,)
    return ()
