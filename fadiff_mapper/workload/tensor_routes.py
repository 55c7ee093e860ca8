"""The way of a tensor from the layer that wrote it: what its axes are after each operator in between.

Every tensor has one route, that of the layer which was ready last: where tensors are joined, only its tiles can
arrive just in time, so the routes of the others end there (`joins` names what they bring).
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
"""Operators between two layers; a route is followed no further."""


@dataclass(frozen=True)
class Route:
    """From `producer` to a tensor: its axes (None once an obstacle stands in the way), the nodes passed `through`,
    the tensors joined on the way, the producer's dimensions that must be `whole` in a tile, and how many layers
    lie behind (`depth`)."""

    producer: str
    axes: tuple[TensorAxis, ...] | None
    depth: int
    through: tuple[str, ...] = ()
    joins: tuple[str, ...] = ()
    whole: frozenset[str] = frozenset()
    obstacle: Obstacle | None = None


def routes(nodes: Sequence[Node]) -> dict[str, Route]:
    """The route of every tensor that a layer stands behind, by the tensor's name. `nodes` in topological order."""
    found: dict[str, Route] = {}
    shapes = {node.name: node.shape for node in nodes}
    for node in nodes:
        if node.layer:
            found[node.name] = _start(node, found)
        elif any(name in found for name in node.inputs):
            found[node.name] = _passed(_arriving(node, found), node, shapes)
    return found


def blocked(route: Route, name: str, detail: str) -> Route:
    """The same route with an obstacle; the first one stays."""
    return replace(route, axes=None,
                   obstacle=route.obstacle or Obstacle(name, f"{detail}: {OBSTACLES[name]}"))


def _start(node: Node, found: Mapping[str, Route]) -> Route:
    layer = node.layer
    assert layer is not None
    depth = 1 + max((found[name].depth for name in node.inputs if name in found), default=0)
    output = layer.problem.output
    extents = layer.extents(output.name)
    axes = [axis_of([AxisPiece(name, extents[name]) for name in axis]) for axis in layer.view(output.name)]
    simple = all(len(rank) == 1 for rank in output.ranks)
    start = Route(node.name, tuple(axes), depth)
    return _reshaped(start, node, node.shape) if simple else blocked(start, "rearranged", node.name)


def _arriving(node: Node, found: Mapping[str, Route]) -> Route:
    """The route of the operand that is ready last; the others end here."""
    operands = [found[name] for name in node.inputs if name in found]
    main = max(operands, key=lambda route: route.depth)
    if len(main.through) >= MOST_BETWEEN:
        return blocked(main, "far", node.name)
    twins = [route for route in operands if route.producer == main.producer]
    longest = max(twins, key=lambda route: len(route.through))
    others = tuple(name for name in node.inputs if name not in found or found[name].producer != main.producer)
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
    """The route behind one operator."""
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
    if route.axes is None:
        return route
    assert shape is not None  # axes are only known where shapes are
    axes = regrouped(route.axes, shape)
    if axes is None:
        return blocked(route, "rearranged", f"{node.name} ({node.op})")
    return replace(route, axes=axes)


def _whole(route: Route, node: Node) -> Route:
    assert route.axes is not None
    chosen = whole_axes(node, len(route.axes))
    dims = {piece.dimension for axis in chosen for piece in route.axes[axis].pieces}
    route = replace(route, whole=route.whole | dims)
    if node.kind == "rows":
        return route
    axes = tuple(TensorAxis(1, ()) if index in chosen else axis for index, axis in enumerate(route.axes or ()))
    return _reshaped(replace(route, axes=axes), node, node.shape)


def _pooled(route: Route, node: Node) -> Route:
    """Windows over the trailing axes. One that covers a whole axis leaves one point of it."""
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
