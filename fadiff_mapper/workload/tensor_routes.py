"""Routes of tensors: the way from the operator that wrote a tensor, and its axes after each node in between.

Every tensor has one route, from the operator that is ready last: where tensors are joined, only its tiles can arrive
just in time, so the routes of the others end there (`Route.joins` names the tensors that they bring). Nodes act on axes
by their kind (`node.KINDS`): pools add windows, softmax and its like ask for whole rows, reshapes regroup pieces; how
elements are picked, repeated and put together stands in `picked_axes`. A tensor may come back to itself over several
paths (x * sigmoid(x), x / mean(x), rotated halves): the paths merge axis by axis. A route with an obstacle goes on, so
that links can name it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from fadiff_mapper.workload import origins
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.origins import Origins
from fadiff_mapper.workload.picked_axes import (
    SCATTERED,
    Arrival,
    AxisPiece,
    TensorAxis,
    axis_of,
    merged,
    picked,
    regrouped,
    scattered,
)
from fadiff_mapper.workload.shapes import whole_axes
from fadiff_mapper.workload.window_slide import WindowSlide


@dataclass(frozen=True)
class Obstacle:
    """The reason why two operators cannot share tiles.

    Attributes:
        name: a key of `OBSTACLES`.
        sentence: the same for a reader, with the node at fault.
    """

    name: str
    sentence: str


OBSTACLES = {
    "not_understood": "an operator in between is not understood",
    "picked": "elements are picked by an index that is computed, or by one that is not stated",
    "placed": "elements are put at places that an index names",
    "sorted": "the order of the elements depends on their values",
    "in_turn": "its steps run one after the other, each with the result of the one before",
    "untold": "the way in which its elements hang together with those of its operands is not known",
    "no_shape": "its shape is not known",
    "mixed": "a part is taken, or a pool is formed, along an axis on which several tensors stand, where is not stated",
    "sums": "a rank of its output is a sum of dimensions",
    "window": "a pooling window in between is not stated",
    "far": "too many operators lie in between",
}
"""Names of obstacles, and their sentences."""


MOST_BETWEEN = 200
"""Nodes between two operators; a route is followed no further: a plain safety limit for large graphs, in which every
tensor would else carry a long list of names."""


@dataclass(frozen=True)
class Route:
    """The way from an operator to a tensor.

    Attributes:
        producer: node of the operator.
        axes: the tensor's axes in the producer's dimensions; None once an obstacle stands in the way.
        depth: operators on the longest path that ends in the producer, itself included.
        through: nodes passed, in topological order.
        joins: other tensors joined on the way.
        whole: dimensions of the producer of which a tile must cover whole aligned stretches, each with their length.
        elsewhere: the part of the tensor's elements that other tensors bring: a part of a concatenation, all of a
            larger tensor of which this one is a factor or summand.
        obstacle: the first obstacle on the way, if any.
        own: the elements that the producer makes, as far as their places are known.
    """

    producer: str
    axes: tuple[TensorAxis, ...] | None
    depth: int
    through: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    whole: frozenset[tuple[str, int]] = frozenset()
    elsewhere: Fraction = Fraction(0)
    obstacle: Obstacle | None = None
    own: Origins | None = field(default=None, compare=False, repr=False)


def routes(nodes: Sequence[Node]) -> dict[str, Route]:
    """The routes of all tensors that an operator stands behind.

    Args:
        nodes: the nodes in topological order, with shapes.

    Returns:
        Name of the tensor -> its route.
    """
    result: dict[str, Route] = {}
    shapes = {node.name: node.shape for node in nodes}
    place = {node.name: index for index, node in enumerate(nodes)}
    for node in nodes:
        if node.layer:
            result[node.name] = _start(node, result)
        elif any(name in result for name in node.inputs):
            result[node.name] = _passed(node, result, shapes, place)
    return result


def blocked(route: Route, name: str, detail: str) -> Route:
    """The same route with an obstacle; the first one stays.

    Args:
        route: the route so far.
        name: a key of `OBSTACLES`.
        detail: the node at fault, for the sentence.
    """
    return replace(route, axes=None,
                   obstacle=route.obstacle or Obstacle(name, f"{detail}: {OBSTACLES[name]}"))


def _start(node: Node, before: Mapping[str, Route]) -> Route:
    """The route of an operator's own output: one piece per dimension."""
    layer = node.layer
    assert layer is not None
    depth = 1 + max((before[name].depth for name in node.inputs if name in before), default=0)
    output = layer.problem.output
    extents = layer.extents(output.name)
    axes = [axis_of([AxisPiece(name, extents[name]) for name in axis]) for axis in layer.view(output.name)]
    simple = all(len(rank) == 1 for rank in output.ranks)
    start = Route(node.name, tuple(axes), depth, own=origins.all_own(len(axes)))
    return _reshaped(start, node.shape) if simple else blocked(start, "sums", node.name)


def _passed(node: Node, before: Mapping[str, Route], shapes: Mapping[str, Shape | None],
            place: Mapping[str, int]) -> Route:
    """The route behind one node without multiply-accumulates, from the operand that is ready last."""
    operands = [before[name] for name in node.inputs if name in before]
    main = max(operands, key=lambda route: route.depth)
    if len(main.through) >= MOST_BETWEEN:
        return blocked(main, "far", node.name)
    twins = [route for route in operands if route.producer == main.producer]
    route = replace(_merged(twins, node, before, place), through=())
    through = {name for twin in twins for name in twin.through}
    route = replace(route, through=(*sorted(through, key=place.__getitem__), node.name))
    if len(route.through) > MOST_BETWEEN:
        return blocked(route, "far", node.name)
    if node.kind == "not_understood":
        return blocked(route, node.kind, f"{node.name} ({node.what or node.op})")
    if node.kind == "pool" and node.window is None:
        return blocked(route, "window", node.name)
    if route.obstacle is not None or node.shape is None:
        return route if route.obstacle else blocked(route, "no_shape", f"{node.name} ({node.op})")
    if 0 in node.shape:
        return blocked(route, "untold", f"{node.name} ({node.op}), without elements")
    arrivals = [_arrival(name, main.producer, before, shapes) for name in node.inputs]
    if node.kind == "join":
        return _joined(route, node, arrivals)
    if node.kind == "opaque":
        return _picked(route, node, arrivals)
    return _through_one(replace(route, axes=twins[0].axes, own=twins[0].own, elsewhere=twins[0].elsewhere), node)


def _merged(twins: Sequence[Route], node: Node, before: Mapping[str, Route], place: Mapping[str, int]) -> Route:
    """One route for all paths from the same producer to a node; axes are left to the node's kind."""
    main = max(twins, key=lambda route: len(route.through))
    others = [name for name in node.inputs if name not in before or before[name].producer != main.producer]
    joins = dict.fromkeys([name for route in twins for name in route.joins] + others)
    merged = replace(main, whole=frozenset().union(*(route.whole for route in twins)), joins=tuple(joins))
    return replace(merged, obstacle=next((route.obstacle for route in twins if route.obstacle), None))


def _arrival(name: str, producer: str, before: Mapping[str, Route], shapes: Mapping[str, Shape | None]) -> Arrival:
    """An operand as it arrives: its axes and own elements where it comes from the producer, and its shape."""
    route = before.get(name)
    if route is None or route.producer != producer:
        return Arrival(None, shapes[name])
    return Arrival(route.axes, shapes[name], route.own, route.elsewhere)


def _joined(route: Route, node: Node, arrivals: Sequence[Arrival]) -> Route:
    """The route behind a node that joins its operands point by point, over one path or several.

    Along an axis on which the operand is repeated, the result is as long as a tensor from elsewhere: it brings all the
    elements, of which the operand is a factor or summand.
    """
    assert node.shape is not None
    own = [arrival for arrival in arrivals if arrival.axes is not None]
    alone = len(own) == len(arrivals) and math.prod(node.shape) == max(
        math.prod(arrival.shape or ()) for arrival in arrivals)
    padded = [((TensorAxis(1, ()),) * (len(node.shape) - len(arrival.axes or ())) + (arrival.axes or ()))
              for arrival in own]
    axes, repeated = [], False
    for extent, column in zip(node.shape, zip(*padded, strict=True), strict=True):
        long = list(dict.fromkeys(axis for axis in column if axis.extent > 1))
        repeated = repeated or (extent > 1 and not alone and all(map(_is_repetition, long)))
        axes.append(scattered([], extent) if not long else long[0] if len(long) == 1 else merged(long))
    if repeated:
        return _of_origins(replace(route, axes=tuple(axes)), origins.all_own(len(axes)) & False)
    paths = [arrival.own for arrival in own if arrival.own is not None]
    if len(paths) < len(own):
        return replace(route, axes=tuple(axes), own=None, elsewhere=min(arrival.elsewhere for arrival in own))
    return _of_origins(replace(route, axes=tuple(axes)), origins.joined(paths, len(axes)))


def _is_repetition(axis: TensorAxis) -> bool:
    """Whether all points of an axis are one and the same."""
    return all(piece.dimension == SCATTERED and not piece.among for piece in axis.pieces)


def _of_origins(route: Route, own: Origins) -> Route:
    """The route with its own elements, and the part that the others make up."""
    return replace(route, own=own, elsewhere=origins.share_from_elsewhere(own))


def _picked(route: Route, node: Node, arrivals: Sequence[Arrival]) -> Route:
    """The route behind a node that picks, repeats or puts together elements."""
    found = picked(node, arrivals)
    if found.axes is None:
        return blocked(route, found.obstacle, f"{node.name} ({node.what or node.op})")
    whole = route.whole | {span for axis in found.whole for piece in axis.pieces for span in piece.spans}
    return replace(route, axes=found.axes, whole=whole, own=found.own, elsewhere=found.elsewhere)


def _through_one(route: Route, node: Node) -> Route:
    """The route behind a node of one operand."""
    assert route.axes is not None
    if node.kind == "pool":
        return _pooled(route, node)
    if node.kind in ("rows", "reduce"):
        return _whole(route, node)
    if node.kind == "transpose":
        return replace(route, axes=tuple(route.axes[axis] for axis in node.axes),
                       own=None if route.own is None else route.own.transpose(node.axes))
    return _reshaped(route, node.shape)


def _reshaped(route: Route, shape: Shape | None) -> Route:
    """The route with its axes under another shape."""
    if route.axes is None:
        return route
    assert shape is not None  # axes are only known where shapes are
    before = tuple(axis.extent for axis in route.axes)
    own = None if route.own is None else origins.reshaped(route.own, before, shape)
    return replace(route, axes=regrouped(route.axes, shape), own=own)


def _whole(route: Route, node: Node) -> Route:
    """The route behind a node of kind rows or reduce, whose axes must be whole in a tile."""
    assert route.axes is not None
    chosen = whole_axes(node, len(route.axes))
    spans = {span for axis in chosen for piece in route.axes[axis].pieces for span in piece.spans}
    route = replace(route, whole=route.whole | spans)
    if node.kind == "rows":
        return route
    if route.elsewhere and route.own is None:
        return blocked(route, "mixed", f"{node.name} ({node.op})")
    axes = tuple(TensorAxis(1, ()) if index in chosen else axis for index, axis in enumerate(route.axes or ()))
    own = None if route.own is None else origins.reduced(route.own, tuple(chosen))
    return _reshaped(_with(replace(route, axes=axes), own), node.shape)


def _with(route: Route, own: Origins | None) -> Route:
    """The route with its own elements, where their places are known."""
    return route if own is None else _of_origins(route, own)


def _pooled(route: Route, node: Node) -> Route:
    """The route behind a pool, whose windows slide over the trailing axes; an axis of one output point is whole."""
    window, shape, axes = node.window, node.shape, list(route.axes or ())
    assert window is not None and shape is not None
    whole = set(route.whole)
    lead = len(axes) - len(window.kernel)
    slid = [lead + index for index, kernel in enumerate(window.kernel) if (kernel, window.stride[index]) != (1, 1)]
    if route.elsewhere and (route.own is None or not origins.uniform(route.own, slid)):
        return blocked(route, "mixed", f"{node.name} ({node.op})")
    for index, kernel in enumerate(window.kernel):
        axis, extent = axes[lead + index], shape[lead + index]
        passed = WindowSlide(kernel, window.stride[index], window.dilation[index], window.pad[index][0])
        if extent == 1:
            whole |= {span for piece in axis.pieces for span in piece.spans}
            axes[lead + index] = TensorAxis(1, ())
        elif passed == WindowSlide(1, 1, passed.dilation):
            continue
        elif any(piece.dimension == SCATTERED for piece in axis.pieces):
            axes[lead + index] = scattered([axis], extent)
        else:
            axes[lead + index] = TensorAxis(extent, axis.pieces, (*axis.slides, passed))
    return replace(route, axes=tuple(axes), whole=frozenset(whole))
