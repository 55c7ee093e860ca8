"""Routes of tensors: the nodes from an operator to a tensor, and the axes of the tensor after each node.

Every tensor has one route. Where tensors are joined, only tiles of the operator that is ready last can arrive just in
time: its route goes on, the routes of the other operands end (`Route.joins` names these operands). Nodes change axes by
their kind (`node.KINDS`): pools add windows, softmax and similar nodes need whole rows, reshapes regroup pieces. The
paths of a tensor that is joined with itself (x * sigmoid(x), x / mean(x), rotated halves) merge axis by axis. A route
with an obstacle goes on, so that links can name the obstacle.

Most nodes that pick, repeat or concatenate elements (kind opaque) change only one axis. Tiles pass along all other
axes. Along this axis they pass where windows describe the points that are read, else its dimensions must be whole.

    concat    the concatenated axis is scattered among all operands from the producer; the fraction of its points that
              other tensors produce is `Route.elsewhere`
    slice     the cut axis is scattered, and the producer computes all of it. Where several tensors are concatenated
              along this axis, the node must state the places that it takes
    pad       a window of one point with padding, if the node states the zeros in front; else scattered
    resize    a window that shrinks, if the node states its interpolation; else scattered
    expand    a repeated axis of one point is scattered without dimensions; an axis of more points among its own
    gather    the axes that it states are scattered; without stated axes a computed index picks elements, and no tile
              is followed
    scatter   the axis in which another tensor replaces stated places is scattered among both tensors
    interleave  the axes along which points of several tensors alternate are scattered
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from fadiff_mapper.workload import origins
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.origins import Origins
from fadiff_mapper.workload.shapes import whole_axes
from fadiff_mapper.workload.tensor_axes import (
    POINT,
    SCATTERED,
    AxisPiece,
    TensorAxis,
    axis_of,
    merged,
    regrouped,
    scattered,
)
from fadiff_mapper.workload.window_slide import WindowSlide, composable

Axes = tuple[TensorAxis, ...]


@dataclass(frozen=True)
class Obstacle:
    """The reason why two operators cannot share tiles."""

    name: str  # a key of `OBSTACLES`
    sentence: str  # the obstacle in words, with its node


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

MOST_BETWEEN = 200  # nodes between two operators; a route is followed no further: a plain safety limit for large graphs


@dataclass(frozen=True)
class Route:
    """The way from an operator to a tensor."""

    producer: str  # node of the operator
    axes: Axes | None  # the tensor's axes in the producer's dimensions; None behind an obstacle
    depth: int  # operators on the longest path that ends in the producer, itself included
    through: tuple[str, ...] = ()  # nodes passed, in topological order
    joins: tuple[str, ...] = ()  # other tensors joined on the way
    whole: frozenset[tuple[str, int]] = frozenset()  # aligned stretches (dimension, length) that a tile covers whole
    elsewhere: Fraction = Fraction(0)  # fraction of the elements that other tensors produce, as in a concatenation
    obstacle: Obstacle | None = None  # the first obstacle on the way, if any
    own: Origins | None = field(default=None, compare=False, repr=False)  # the producer's elements; None: not known


Operand = tuple[Route | None, Shape | None]
"""An operand of a node: its route, None where no operator precedes it, and its shape, None where it is not known."""


def routes(nodes: Sequence[Node]) -> dict[str, Route]:
    """The routes of all tensors that an operator precedes, by name of the tensor.

    `nodes` are in topological order, with shapes.
    """
    result: dict[str, Route] = {}
    shapes = {node.name: node.shape for node in nodes}
    place = {node.name: index for index, node in enumerate(nodes)}
    for node in nodes:
        if node.layer:
            output, extents = node.layer.problem.output, node.layer.extents(node.layer.problem.output.name)
            axes = tuple(axis_of([AxisPiece(name, extents[name]) for name in axis])
                         for axis in node.layer.view(output.name))
            depth = 1 + max((result[name].depth for name in node.inputs if name in result), default=0)
            start = Route(node.name, axes, depth, own=origins.all_own(len(axes)))
            simple = all(len(rank) == 1 for rank in output.ranks)
            result[node.name] = _reshaped(start, node.shape) if simple else _blocked(start, "sums", node.name)
        elif any(name in result for name in node.inputs):
            result[node.name] = _route_behind(node, result, shapes, place)
    return result


def _blocked(route: Route, name: str, detail: str) -> Route:
    """The route with an obstacle, unless it has one already; `detail` names the node."""
    return replace(route, axes=None, obstacle=route.obstacle or Obstacle(name, f"{detail}: {OBSTACLES[name]}"))


def _refused(route: Route, name: str, node: Node) -> Route:
    """The route with an obstacle at a node, which is named with its operation."""
    return _blocked(route, name, f"{node.name} ({node.what or node.op})")


def _route_behind(node: Node, before: Mapping[str, Route], shapes: Mapping[str, Shape | None],
            place: Mapping[str, int]) -> Route:
    """The route behind one node without multiply-accumulates, from the operand that is ready last."""
    operands = [before[name] for name in node.inputs if name in before]
    main = max(operands, key=lambda route: route.depth)
    if len(main.through) >= MOST_BETWEEN:
        return _blocked(main, "far", node.name)
    twins = {name: before[name] for name in node.inputs if name in before and before[name].producer == main.producer}
    first, *_ = paths = list(twins.values())
    through = sorted({name for path in paths for name in path.through}, key=place.__getitem__)
    joins = dict.fromkeys([name for path in paths for name in path.joins]
                          + [name for name in node.inputs if name not in twins])
    route = replace(max(paths, key=lambda path: len(path.through)), through=(*through, node.name), joins=tuple(joins),
                    whole=frozenset().union(*(path.whole for path in paths)),
                    obstacle=next((path.obstacle for path in paths if path.obstacle), None))
    if node.kind == "not_understood":
        return _refused(route, node.kind, node)
    if node.kind == "pool" and node.window is None:
        return _blocked(route, "window", node.name)
    if route.obstacle is not None or node.shape is None:
        return route if route.obstacle else _blocked(route, "no_shape", f"{node.name} ({node.op})")
    if 0 in node.shape:
        return _blocked(route, "untold", f"{node.name} ({node.op}), without elements")
    arriving = [(twins.get(name), shapes[name]) for name in node.inputs]
    if node.kind == "join":
        return _joined(route, node.shape, arriving)
    if node.kind == "opaque":
        return _picked(route, node, node.shape, arriving)
    route = replace(route, axes=first.axes, own=first.own, elsewhere=first.elsewhere)
    axes = first.axes or ()
    if node.kind == "pool":
        return _pooled(route, node, node.shape, axes)
    if node.kind in ("rows", "reduce"):
        chosen = whole_axes(node, len(axes))
        route = replace(route, whole=route.whole.union(*(axes[axis].spans for axis in chosen)))
        if node.kind == "rows":
            return route
        if route.elsewhere and route.own is None:
            return _blocked(route, "mixed", f"{node.name} ({node.op})")
        route = replace(route, axes=tuple(POINT if index in chosen else axis for index, axis in enumerate(axes)))
        return _reshaped(route if route.own is None else _of_origins(route, origins.reduced(
            route.own, tuple(chosen))), node.shape)
    if node.kind == "transpose":
        return replace(route, axes=tuple(axes[axis] for axis in node.axes),
                       own=None if route.own is None else route.own.transpose(node.axes))
    return _reshaped(route, node.shape)


def _of_origins(route: Route, own: Origins) -> Route:
    """The route with these origins, and the fraction `elsewhere` that follows from them."""
    return replace(route, own=own, elsewhere=origins.share_from_elsewhere(own))


def _reshaped(route: Route, shape: Shape | None) -> Route:
    """The route with its axes under another shape."""
    if route.axes is None or shape is None:  # axes are only known where shapes are
        return route
    before = tuple(axis.extent for axis in route.axes)
    own = None if route.own is None else origins.reshaped(route.own, before, shape)
    return replace(route, axes=regrouped(route.axes, shape), own=own)


def _joined(route: Route, shape: Shape, operands: Sequence[Operand]) -> Route:
    """The route behind a node that joins its operands point by point, where one or several operands have routes.

    Where the operand is repeated along an axis, another tensor has all points of the result: then all elements count as
    produced elsewhere, and the operand is only a factor or summand of each.
    """
    paths = [path for path, _ in operands if path is not None]
    by_itself = len(paths) == len(operands) and math.prod(shape) == max(math.prod(each or ()) for _, each in operands)
    padded = [(POINT,) * (len(shape) - len(path.axes or ())) + (path.axes or ()) for path in paths]
    axes, repeated = [], False
    for extent, column in zip(shape, zip(*padded, strict=True), strict=True):
        long = list(dict.fromkeys(axis for axis in column if axis.extent > 1))
        repeated = repeated or (extent > 1 and not by_itself and all(
            piece.dimension == SCATTERED and not piece.among for axis in long for piece in axis.pieces))
        axes.append(merged(long) if long else scattered([], extent))
    route = replace(route, axes=tuple(axes))
    if repeated:
        return _of_origins(route, origins.all_own(len(axes)) & False)
    own = [path.own for path in paths if path.own is not None]
    if len(own) < len(paths):
        return replace(route, own=None, elsewhere=min(path.elsewhere for path in paths))
    return _of_origins(route, origins.joined(own, len(axes)))


def _pooled(route: Route, node: Node, shape: Shape, before: Axes) -> Route:
    """The route behind a pool, whose windows slide over the trailing axes; an axis of one output point is whole."""
    window, axes, whole = node.window, list(before), set(route.whole)
    assert window is not None
    lead = len(axes) - len(window.kernel)
    slid = [lead + index for index, kernel in enumerate(window.kernel) if (kernel, window.stride[index]) != (1, 1)]
    if route.elsewhere and (route.own is None or not origins.uniform(route.own, slid)):
        return _blocked(route, "mixed", f"{node.name} ({node.op})")
    for index, kernel in enumerate(window.kernel):
        axis, extent = axes[lead + index], shape[lead + index]
        passed = WindowSlide(kernel, window.stride[index], window.dilation[index], window.pad[index][0])
        if extent == 1:
            whole |= axis.spans
            axes[lead + index] = POINT
        elif passed == WindowSlide(1, 1, passed.dilation):
            continue
        elif any(piece.dimension == SCATTERED for piece in axis.pieces):
            axes[lead + index] = scattered([axis], extent)
        else:
            axes[lead + index] = TensorAxis(extent, axis.pieces, (*axis.slides, passed))
    return replace(route, axes=tuple(axes), whole=frozenset(whole))


NOT_FOLLOWED = {"scatter": "placed", "sort": "sorted", "recurrence": "in_turn", "other": "untold"}
"""Operations of the kind opaque through which no tile is followed -> name of the obstacle."""


def _picked(route: Route, node: Node, shape: Shape, operands: Sequence[Operand]) -> Route:
    """The route behind a node of the kind opaque, of which at least one operand has a route."""
    if node.op == "scatter" and len(node.axes) == 1 and node.window is not None:
        return _overwritten(route, node, shape, operands)
    if node.op in NOT_FOLLOWED:
        return _refused(route, NOT_FOLLOWED[node.op], node)
    if node.op in ("concat", "interleave"):
        return _put_together(route, node, shape, operands)
    path = next(path for path, _ in operands if path is not None)
    axes, own = path.axes or (), path.own
    if node.op == "expand":
        return _repeated(route, node, shape, path)
    if any(not 0 <= axis < len(axes) for axis in node.axes):
        return _refused(route, "untold", node)
    if node.op == "slice" and len(axes) == len(shape) + 1 and len(node.axes) == 1:  # one point; the axis is dropped
        (gone,) = node.axes
        own = None if own is None else origins.taken(own, gone, _places(node, gone, 1))
        return _found(route, node, axes[:gone] + axes[gone + 1:], axes[gone:gone + 1],
                      None if own is None else np.take(own, 0, gone), path.elsewhere)
    if node.op == "gather" and not node.axes:
        return _refused(route, "picked", node)
    if len(axes) != len(shape):
        return _refused(route, "untold", node)
    result, whole = list(axes), []
    for index, (axis, extent) in enumerate(zip(axes, shape, strict=True)):
        if axis.extent == extent and not (node.op == "gather" and index in node.axes):
            continue
        own = None if own is None else origins.taken(own, index, _places(node, index, extent))
        window = _window(node, index, axis, extent)
        if window is not None and composable((*axis.slides, window)):
            result[index] = TensorAxis(extent, axis.pieces, (*axis.slides, window))
        else:
            result[index] = scattered([axis], extent)
            whole.append(axis)
    return _found(route, node, result, whole, own, path.elsewhere)


def _found(route: Route, node: Node, axes: Iterable[TensorAxis], whole: Iterable[TensorAxis], own: Origins | None,
           before: Fraction, elsewhere: Fraction = Fraction(0)) -> Route:
    """The route with these axes; dimensions of the axes in `whole` must be whole. Without known origins `own`, any part
    from elsewhere `before` the node is an obstacle, and behind the node this part is `elsewhere`."""
    if own is None and before:
        return _refused(route, "mixed", node)
    route = replace(route, axes=tuple(axes), whole=route.whole.union(*(axis.spans for axis in whole)), own=None,
                    elsewhere=elsewhere)
    return route if own is None else _of_origins(route, own)


def _places(node: Node, axis: int, extent: int) -> range | None:
    """The places along an axis that a slice reads or a scatter writes; None where the node does not state them."""
    if node.op not in ("slice", "scatter") or node.window is None or axis not in node.axes:
        return None
    index = node.axes.index(axis)
    if index >= len(node.window.pad):
        return None
    start, step = -node.window.pad[index][0], node.window.stride[index]
    return range(start, start + extent * step, step)


def _window(node: Node, index: int, axis: TensorAxis, extent: int) -> WindowSlide | None:
    """The window through which a padded or resized axis is read; None where there is none, or the node states none."""
    if len(axis.pieces) != 1 or axis.pieces[0].dimension == SCATTERED or node.window is None:
        return None
    if node.op == "pad" and index in node.axes and len(node.window.pad) == len(node.axes):
        return WindowSlide(1, 1, 1, node.window.pad[node.axes.index(index)][0])
    place = index - (len(node.shape or ()) - len(node.window.kernel))
    if node.op == "resize" and extent % axis.extent == 0 and place >= 0:
        return WindowSlide(node.window.kernel[place], 1, 1, node.window.pad[place][0], extent // axis.extent)
    return None


def _repeated(route: Route, node: Node, shape: Shape, path: Route) -> Route:
    """The route behind an expand: axes are aligned at the last one, and axes of one point are repeated."""
    axes = path.axes or ()
    lead = len(shape) - len(axes)
    if lead < 0:
        return _refused(route, "untold", node)
    padded = (POINT,) * lead + axes
    again = [index for index, (axis, extent) in enumerate(zip(padded, shape, strict=True)) if 1 < axis.extent != extent]
    own = None if path.own is None else path.own.reshape((1,) * lead + path.own.shape)
    result = (axis if axis.extent == extent else scattered([axis] if axis.extent > 1 else [], extent)
              for axis, extent in zip(padded, shape, strict=True))
    return _found(route, node, result, [padded[index] for index in again],
                  own if own is not None and origins.uniform(own, again) else None, path.elsewhere)


def _merged(axes: Sequence[Axes], shape: Shape, along: Sequence[int]) -> list[TensorAxis]:
    """The axes of several tensors with equal numbers of axes merged into one tensor's; scattered along some axes."""
    columns = [list(dict.fromkeys(column)) for column in zip(*axes, strict=True)]
    return [scattered(column, extent) if index in along else merged(column)
            for index, (column, extent) in enumerate(zip(columns, shape, strict=True))]


def _put_together(route: Route, node: Node, shape: Shape, operands: Sequence[Operand]) -> Route:
    """The route behind a concat along an axis or a new axis, or an interleave along any axes."""
    if any(path is not None and len(path.axes or ()) + 1 == len(shape) for path, _ in operands):
        if len(node.axes) != 1 or not 0 <= node.axes[0] < len(shape):
            return _refused(route, "untold", node)
        (new,) = node.axes
        operands = [(path and replace(path, axes=(*(path.axes or ())[:new], POINT, *(path.axes or ())[new:]),
                                      own=None if path.own is None else np.expand_dims(path.own, new)),
                     None if each is None else (*each[:new], 1, *each[new:])) for path, each in operands]
    own = [path.axes or () for path, _ in operands if path is not None]
    if any(len(axes) != len(shape) for axes in own):
        return _refused(route, "untold", node)
    longer = [index for index, extent in enumerate(shape) if any(axes[index].extent != extent for axes in own)]
    elements = sum(math.prod(axis.extent for axis in axes) for axes in own)
    elsewhere = 1 - Fraction(elements, math.prod(shape))
    if (node.op == "concat" and len(longer) != 1) or elsewhere < 0:
        return _refused(route, "untold", node)
    result, whole = _merged(own, shape, longer), [axes[index] for axes in own for index in longer]
    shapes = [each for _, each in operands if each is not None]
    parts = [origins.all_own(len(shape)) & False if path is None else path.own for path, _ in operands]
    known = [part for part in parts if part is not None]
    stated = (node.op == "concat" and len(shapes) == len(known) == len(operands)
              and all(len(each) == len(shape) for each in shapes)
              and sum(each[longer[0]] for each in shapes) == shape[longer[0]])  # else a constant takes some places
    places = origins.put_together(known, shapes, longer[0]) if stated else None
    before = max(path.elsewhere for path, _ in operands if path is not None)
    return _found(route, node, result, whole, places, before, elsewhere)


def _overwritten(route: Route, node: Node, shape: Shape, operands: Sequence[Operand]) -> Route:
    """The route behind a scatter that replaces places of one axis; either tensor may be a constant, and no operand."""
    (along,) = node.axes
    parts = [operand for operand in operands if operand[1] != shape]
    bases = [operand for operand in operands if operand[1] == shape]
    own = [path.axes or () for path, _ in operands if path is not None]
    if len(parts) > 1 or len(bases) > 1 or any(len(axes) != len(shape) for axes in own) or not 0 <= along < len(
            shape) or any(axes[index].extent != extent for axes in own for index, extent in enumerate(shape)
                          if index != along):
        return _refused(route, "untold", node)

    def made(operand: Sequence[Operand]) -> Origins | None:  # a constant counts as own, as no tensor is fetched for it
        everything = origins.all_own(len(shape))
        return everything if not operand else everything & False if operand[0][0] is None else operand[0][0].own
    base, part = made(bases), made(parts)
    places = _places(node, along, (parts[0][1] or shape)[along] if parts else 0)
    known = None if base is None or part is None or not places else origins.overwritten(base, part, shape, along,
                                                                                        places)
    return _found(route, node, _merged(own, shape, [along]), [axes[along] for axes in own], known, Fraction(1))
