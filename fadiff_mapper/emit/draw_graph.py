"""The network as a graph in rows: one node a row, every tensor a lane from its writer to its last reader.

Nodes stand in topological order, so all edges lead down; a lane belongs to one tensor at a time, so neither lines nor
texts ever cover one another, however large the network is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from fadiff_mapper.emit.drawing import Dot, Drawing, Label, Rect, Shape, Stroke, fitting
from fadiff_mapper.workload import Node

if TYPE_CHECKING:
    from fadiff_mapper.joint import NetworkResult

ROW, LANE, MARGIN, TOP = 22.0, 22.0, 16.0, 12.0
NAME, OPERATOR, SHAPE, GROUP = 220.0, 110.0, 150.0, 90.0


def draw_graph(result: NetworkResult) -> Drawing:
    """Layers as filled dots, other operators as rings, the layers of a group in its colour."""
    nodes = result.workload.nodes
    groups = {name: number for number, outcome in enumerate(result.groups, 1) for name in outcome.nodes}
    rows = {node.name: row for row, node in enumerate(nodes)}
    lanes = node_lanes(nodes)
    text = MARGIN + (max(lanes.values(), default=0) + 1) * LANE + 14
    width = text + NAME + OPERATOR + SHAPE + GROUP
    shapes: list[Shape] = []
    for node in nodes:
        if node.name in groups:
            shapes.append(Rect(4, _y(rows[node.name]) - ROW / 2, width - 8, ROW, f"band group{groups[node.name] % 6}"))
    for node in nodes:
        shapes += [_edge(tensor, node.name, rows, lanes) for tensor in dict.fromkeys(node.inputs)]
    for node in nodes:
        shapes += _node(node, rows, lanes, groups.get(node.name), text)
    return Drawing(width, TOP * 2 + len(nodes) * ROW, f"the graph of {result.workload.name}", tuple(shapes))


def node_lanes(nodes: Sequence[Node]) -> dict[str, int]:
    """The lane of every node: that of an operand which nobody reads later, else the first free one."""
    last_reader = {tensor: row for row, node in enumerate(nodes) for tensor in node.inputs}
    lanes: dict[str, int] = {}
    taken: dict[int, int] = {}       # lane -> the row up to which its tensor is read
    for row, node in enumerate(nodes):
        ending = sorted(lanes[tensor] for tensor in set(node.inputs) if last_reader[tensor] == row)
        lane = ending[0] if ending else _free(taken, row)
        lanes[node.name] = lane
        taken[lane] = last_reader.get(node.name, row)
    return lanes


def _free(taken: Mapping[int, int], row: int) -> int:
    lane = 0
    while taken.get(lane, -1) >= row:
        lane += 1
    return lane


def _x(lane: int) -> float:
    return MARGIN + lane * LANE


def _y(row: int) -> float:
    return TOP + (row + 0.5) * ROW


def _edge(tensor: str, reader: str, rows: Mapping[str, int], lanes: Mapping[str, int]) -> Stroke:
    """Down the tensor's lane, and over to the reader's in the last row."""
    x, end = _x(lanes[tensor]), _x(lanes[reader])
    y, turn, stop = _y(rows[tensor]), _y(rows[reader] - 1), _y(rows[reader])
    middle = (turn + stop) / 2
    return Stroke(f"M{x:.1f} {y:.1f}V{turn:.1f}C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {stop:.1f}", "edge")


def _node(node: Node, rows: Mapping[str, int], lanes: Mapping[str, int], group: int | None,
          text: float) -> Iterator[Shape]:
    x, y = _x(lanes[node.name]), _y(rows[node.name])
    colour = "layer" if node.layer else "ring"
    yield Dot(x, y, 5 if node.layer else 4, colour if group is None else f"group{group % 6}", node.name)
    yield Label(text, y + 4, fitting(node.name, NAME - 12), "name" if node.layer else "quiet", title=node.name)
    repeat = f" × {node.layer.repeat}" if node.layer and node.layer.repeat > 1 else ""
    yield Label(text + NAME, y + 4, fitting((node.what or node.op) + repeat, OPERATOR - 8), "quiet")
    if node.shape is not None:
        yield Label(text + NAME + OPERATOR, y + 4, fitting(" × ".join(map(str, node.shape)), SHAPE - 8), "quiet")
    if group is not None:
        yield Label(text + NAME + OPERATOR + SHAPE + GROUP - 16, y + 4, f"group {group}", f"ink{group % 6}", "end")
