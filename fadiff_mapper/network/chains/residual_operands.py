"""Residual operands that a segment could read on the chip: tensors that a sum behind one of its layers reads besides.

Problem. The operand that a sum reads besides the one that flows on comes from the outermost level
(`layers.joined_reads`). Where a layer of the same segment reads that tensor, too, it is on the chip already.

Method. A sum stands behind the layer whose output flows on into it. Its other operand is what one of the segment's
links hands on, or the segment's own input; its axes and those of the sum, both in dimensions of the layers, say which
points meet (`fusion.SecondRead`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from fadiff_mapper.fusion import SecondRead
from fadiff_mapper.workload import Link, Node, Workload
from fadiff_mapper.workload.axis_algebra import SCATTERED, TensorAxis
from fadiff_mapper.workload.joined_operands import JoinedOperand, joined_operands
from fadiff_mapper.workload.operator import REPEAT, Operator

PLAIN = ("pointwise", "join", "reshape", "transpose")
"""Kinds of nodes that may stand between the last layer of a group and the sum: they take the points as they come."""


@dataclass(frozen=True)
class ResidualOperand:
    """An operand of a sum that a group could read on the chip.

    Attributes:
        read: The second read.
        words: Words of the operand, all runs together.
        node: Name of the sum.
    """

    read: SecondRead
    words: int
    node: str = field(compare=False)


@dataclass(frozen=True)
class JoinBehind:
    """A sum behind a layer, with one operand that it reads besides.

    Attributes:
        operand: The operand.
        axes: For each axis of the sum the dimension of the layer's output; "" where it has one point.
        plain: Whether only nodes of the kinds `PLAIN` stand between the layer and the sum.
        producer: The layer that the operand comes from, "" without one.
        producer_axes: For each axis of the operand the dimension of that layer's output; None where they are no whole
            dimensions.
    """

    operand: JoinedOperand
    axes: tuple[str, ...]
    plain: bool
    producer: str
    producer_axes: tuple[str, ...] | None


def joins_behind(workload: Workload) -> dict[str, list[JoinBehind]]:
    """Finds the sums behind the layers of a network whose other operand is as large.

    Args:
        workload: The network.

    Returns:
        Name of the layer -> the sums.
    """
    nodes, routes = {node.name: node for node in workload.nodes}, workload.routes
    found: dict[str, list[JoinBehind]] = {}
    for operand in joined_operands(workload.nodes):
        route, other = routes.get(operand.node), routes.get(operand.tensor)
        if route is None or nodes[operand.tensor].shape != nodes[operand.node].shape:
            continue
        layer = nodes[route.producer].layer
        axes = layer and whole_dimensions(route.axes, layer)
        if layer is None or not axes or operand.words != layer.repeat * _words(layer):
            continue
        before = nodes[other.producer].layer if other else None
        found.setdefault(route.producer, []).append(JoinBehind(
            operand, axes, all(nodes[name].kind in PLAIN for name in route.through), other.producer if other else "",
            whole_dimensions(other.axes, before) if other and before else None))
    return found


def whole_dimensions(axes: Sequence[TensorAxis] | None, layer: Operator) -> tuple[str, ...] | None:
    """For each axis of a tensor the dimension of a layer's output that it is.

    Args:
        axes: The axes; None where they are not known.
        layer: The layer.

    Returns:
        Dimensions, "" for an axis of one point; None where an axis is no whole dimension.
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


def residual_operands(joins: Mapping[str, Sequence[JoinBehind]], nodes: Mapping[str, Node], names: Sequence[str],
                      links: Sequence[Link]) -> tuple[ResidualOperand, ...]:
    """Finds the residual operands that a segment could read on the chip.

    Args:
        joins: The sums behind the layers of the network.
        nodes: Its nodes, by name.
        names: Names of the segment's layers.
        links: The links between them.
    """
    found = []
    for behind, name in enumerate(names):
        for join in joins.get(name, ()):
            inside = join.plain if behind == len(links) else join.operand.node in links[behind].through
            read = _handed_on(join, names, links, behind) or _own_input(join, nodes, nodes[names[0]], behind)
            if inside and read:
                found.append(ResidualOperand(read, join.operand.words, join.operand.node))
    return tuple(found)


def _handed_on(join: JoinBehind, names: Sequence[str], links: Sequence[Link], behind: int) -> SecondRead | None:
    """The read of a tensor that one of the segment's links hands on."""
    if join.producer not in names[:behind] or join.producer_axes is None:
        return None
    before = names.index(join.producer)
    link = links[before]
    if join.operand.tensor not in (link.producer, *link.through):
        return None
    dims = _together(join.producer_axes, join.axes)
    return None if dims is None else SecondRead(before + 1, link.operand, behind, dims)


def _own_input(join: JoinBehind, nodes: Mapping[str, Node], first: Node, behind: int) -> SecondRead | None:
    """The read of a tensor that the segment's first layer reads, too, each point by itself."""
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
    """For each axis of an operand the one dimension that moves along it, "" for one point; None where windows slide."""
    bounds, space = layer.problem.bounds, layer.dataspace(operand)
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
    """Dimension along the tensor -> that of the output, axis by axis; None where runs meet anything but runs."""
    pairs = [(mine, theirs) for mine, theirs in zip(tensor, output, strict=True) if mine or theirs]
    if any((mine == REPEAT) != (theirs == REPEAT) for mine, theirs in pairs):
        return None
    return {mine: theirs for mine, theirs in pairs if mine != REPEAT}


def _words(layer: Operator) -> int:
    """Words of a layer's output, one run."""
    return prod(layer.problem.bounds[dim] for dim in layer.problem.output.dimensions)
