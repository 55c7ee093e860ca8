"""Routes of tensors: the way from the operator that wrote a tensor, and its axes after each node in between.

Every tensor has one route, from the operator that is ready last: where tensors are joined, only its tiles can arrive
just in time, so the routes of the others end there (`Route.joins` names the tensors that they bring). Nodes act on axes
by their kind (`node.KINDS`): pools add windows, softmax and its like ask for whole rows, reshapes regroup pieces,
opaque nodes end the axes with an obstacle. A route with an obstacle goes on, so that links can name it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.workload.axis_algebra import (
    OBSTACLES,
    AxisPiece,
    Obstacle,
    TensorAxis,
    WindowSlide,
    axis_of,
    regrouped,
)
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.shapes import whole_axes

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
        through: nodes passed, in order.
        joins: other tensors joined on the way.
        whole: dimensions of the producer that a tile must cover whole.
        obstacle: the first obstacle on the way, if any.
    """

    producer: str
    axes: tuple[TensorAxis, ...] | None
    depth: int
    through: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    whole: frozenset[str] = frozenset()
    obstacle: Obstacle | None = None


def routes(nodes: Sequence[Node]) -> dict[str, Route]:
    """The routes of all tensors that an operator stands behind.

    Args:
        nodes: the nodes in topological order, with shapes.

    Returns:
        Name of the tensor -> its route.
    """
    result: dict[str, Route] = {}
    shapes = {node.name: node.shape for node in nodes}
    for node in nodes:
        if node.layer:
            result[node.name] = _start(node, result)
        elif any(name in result for name in node.inputs):
            result[node.name] = _passed(_arriving(node, result), node, shapes)
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
    start = Route(node.name, tuple(axes), depth)
    return _reshaped(start, node, node.shape) if simple else blocked(start, "rearranged", node.name)


def _arriving(node: Node, before: Mapping[str, Route]) -> Route:
    """The route of the tensor that is ready last among those a node reads; the others end here.

    Several paths from the same producer (as in x * sigmoid(x)) merge where they agree on the axes.
    """
    operands = [before[name] for name in node.inputs if name in before]
    main = max(operands, key=lambda route: route.depth)
    if len(main.through) >= MOST_BETWEEN:
        return blocked(main, "far", node.name)
    twins = [route for route in operands if route.producer == main.producer]
    longest = max(twins, key=lambda route: len(route.through))
    others = tuple(name for name in node.inputs if name not in before or before[name].producer != main.producer)
    merged = replace(longest, whole=frozenset().union(*(route.whole for route in twins)),
                     joins=tuple(dict.fromkeys([name for route in twins for name in route.joins] + list(others))))
    unclear = next((route for route in twins if route.obstacle), None)
    if unclear is not None:
        return replace(merged, axes=None, obstacle=unclear.obstacle)
    same = all(_content(route) == _content(main) for route in twins)
    return merged if same else blocked(merged, "two_paths", node.name)


def _content(route: Route) -> tuple[TensorAxis, ...]:
    """Axes without leading ones, which broadcasting ignores."""
    axes = route.axes or ()
    lead = next((index for index, axis in enumerate(axes) if axis.extent > 1), len(axes))
    return axes[lead:]


def _passed(route: Route, node: Node, shapes: Mapping[str, Shape | None]) -> Route:
    """The route behind one node without multiply-accumulates."""
    if len(route.through) >= MOST_BETWEEN:
        return route
    route = replace(route, through=(*route.through, node.name))
    if node.kind in ("not_understood", "opaque"):
        return blocked(route, node.kind, f"{node.name} ({node.what or node.op})")
    if node.kind == "pool" and node.window is None:
        return blocked(route, "window", node.name)
    if route.axes is None:
        return route
    if node.kind == "pool":
        return _pooled(route, node)
    if node.kind in ("rows", "reduce"):
        return _whole(route, node)
    if node.kind == "transpose":
        return replace(route, axes=tuple(route.axes[axis] for axis in node.axes))
    return _reshaped(route, node, node.shape)


def _reshaped(route: Route, node: Node, shape: Shape | None) -> Route:
    """The route with its axes under another shape."""
    if route.axes is None:
        return route
    assert shape is not None  # axes are only known where shapes are
    axes = regrouped(route.axes, shape)
    if axes is None:
        return blocked(route, "rearranged", f"{node.name} ({node.op})")
    return replace(route, axes=axes)


def _whole(route: Route, node: Node) -> Route:
    """The route behind a node of kind rows or reduce, whose axes must be whole in a tile."""
    assert route.axes is not None
    chosen = whole_axes(node, len(route.axes))
    dims = {piece.dimension for axis in chosen for piece in route.axes[axis].pieces}
    route = replace(route, whole=route.whole | dims)
    if node.kind == "rows":
        return route
    axes = tuple(TensorAxis(1, ()) if index in chosen else axis for index, axis in enumerate(route.axes or ()))
    return _reshaped(replace(route, axes=axes), node, node.shape)


def _pooled(route: Route, node: Node) -> Route:
    """The route behind a pool, whose windows slide over the trailing axes; an axis of one output point is whole."""
    window, shape, axes = node.window, node.shape, list(route.axes or ())
    assert window is not None and shape is not None
    whole = set(route.whole)
    lead = len(axes) - len(window.kernel)
    for index, kernel in enumerate(window.kernel):
        axis = axes[lead + index]
        if shape[lead + index] == 1:
            whole |= {piece.dimension for piece in axis.pieces}
            axes[lead + index] = TensorAxis(1, ())
        else:
            passed = WindowSlide(kernel, window.stride[index], window.dilation[index], window.pad[index][0])
            axes[lead + index] = TensorAxis(shape[lead + index], axis.pieces, (*axis.slides, passed))
    return replace(route, axes=tuple(axes), whole=frozenset(whole))
