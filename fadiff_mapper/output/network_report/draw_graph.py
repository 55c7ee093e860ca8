"""The network as a graph in rows: one node a row, every tensor a lane from its writer to its last reader.

Nodes stand in topological order, so all edges lead down; a lane belongs to one tensor at a time, so lines may cross but
never run over one another, over a node or over a text, however large the network is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fadiff_mapper.output.network_report.drawing import (
    COUNT,
    ENERGY,
    DisplayUnit,
    Dot,
    Drawing,
    Label,
    Rect,
    Shape,
    Stroke,
    change,
    fitting,
    tint,
    unit_for,
)
from fadiff_mapper.output.network_report.layer_views import LayerView
from fadiff_mapper.workload import Node

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult

WIDTH, ROW, LANE, MARGIN, TOP = 1080.0, 22.0, 22.0, 16.0, 26.0
"""Pixels: of the drawing at least, of a row, of a lane, left of the first lane, and above the first row."""

NAME, OPERATOR, SHAPE, NUMBER, GROUP = 230.0, 130.0, 170.0, 110.0, 130.0
"""Widths of the columns of text in pixels."""


@dataclass(frozen=True)
class _Columns:
    """Where the texts of a row stand, in pixels: `name`, `operator` and `shape` begin there, the others end there."""

    name: float
    operator: float
    shape: float
    macs: float
    energy: float
    group: float


def draw_graph(result: NetworkResult, views: Sequence[LayerView]) -> Drawing:
    """The graph with a row of numbers per node.

    Args:
        result: The plan; its nodes stand in topological order.
        views: The plan's layers, from `layer_views`.

    Returns:
        Layers as filled dots, other operators as rings, the layers of a group in its colour, every tensor as a line
        from its writer to its readers.
    """
    nodes, shown = result.workload.nodes, {view.name: view for view in views}
    rows = {node.name: row for row, node in enumerate(nodes)}
    lanes = node_lanes(nodes)
    columns = _columns(MARGIN + (max(lanes.values(), default=0) + 1) * LANE + 14)
    units = unit_for((view.macs for view in views), COUNT), unit_for((v.planned.energy_pj for v in views), ENERGY)
    width = columns.group + 16
    shapes: list[Shape] = list(_headings(columns, units))
    for view in views:
        if view.group is not None:
            shapes.append(Rect(2, _y(rows[view.name]) - ROW / 2, width - 4, ROW, f"band {tint('group', view.group)}"))
    for node in nodes:
        shapes += [_edge(tensor, node.name, rows, lanes) for tensor in dict.fromkeys(node.inputs)]
    for node in nodes:
        shapes += _node(node, shown.get(node.name), (_x(lanes[node.name]), _y(rows[node.name])), columns, units)
    return Drawing(width, TOP + len(nodes) * ROW + 4, f"the graph of {result.workload.name}", tuple(shapes))


def _columns(name: float) -> _Columns:
    """The columns of text, the first one beginning at `name`; the last one ends at the drawing's right edge."""
    operator, shape = name + NAME, name + NAME + OPERATOR
    numbers = shape + SHAPE
    return _Columns(name, operator, shape, numbers + NUMBER, numbers + 2 * NUMBER,
                    max(numbers + 2 * NUMBER + GROUP, WIDTH - 16))


def _headings(columns: _Columns, units: tuple[DisplayUnit, DisplayUnit]) -> Iterator[Label]:
    for x, text in ((columns.name, "node"), (columns.operator, "operator"), (columns.shape, "output")):
        yield Label(x, 14, text, "quiet")
    for x, text in ((columns.macs, f"{units[0].name} MACs".strip()), (columns.energy, units[1].name)):
        yield Label(x, 14, text, "quiet", "end")


def node_lanes(nodes: Sequence[Node]) -> dict[str, int]:
    """A lane for every node's tensor, so that no two tensors share a lane at the same time.

    A node takes over the lane of an operand that no later node reads; else it gets the first free lane. Chains thus run
    straight down.

    Args:
        nodes: In topological order, each one a row.

    Returns:
        Node name -> lane, counted from 0 on the left.
    """
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
    """The first lane whose tensor has its last reader above a row."""
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
    turn, stop = _y(rows[reader] - 1), _y(rows[reader])
    middle = (turn + stop) / 2
    bend = f"C{x:.1f} {middle:.1f} {end:.1f} {middle:.1f} {end:.1f} {stop:.1f}"
    return Stroke(f"M{x:.1f} {_y(rows[tensor]):.1f}V{turn:.1f}{bend}", "edge")


def _node(node: Node, view: LayerView | None, at: tuple[float, float], columns: _Columns,
          units: tuple[DisplayUnit, DisplayUnit]) -> Iterator[Shape]:
    """The dot of a node at `at`, its texts, and for a layer its numbers; `view` is None for other operators."""
    (x, y), group = at, view.group if view else None
    css_class = tint("group", group) if group is not None else "layer" if view else "ring"
    yield Dot(x, y, 5 if view else 4, css_class, node.name)
    y += 4
    yield Label(columns.name, y, fitting(node.name, NAME - 12), "name" if view else "quiet", title=node.name)
    repeat = f" × {view.repeat}" if view and view.repeat > 1 else ""
    yield Label(columns.operator, y, fitting((node.what or node.op) + repeat, OPERATOR - 8), "quiet")
    if node.shape is not None:
        yield Label(columns.shape, y, fitting(" × ".join(map(str, node.shape)), SHAPE - 8), "quiet")
    if view:
        yield Label(columns.macs, y, units[0].number(view.macs), "quiet", "end")
        yield Label(columns.energy, y, units[1].number(view.planned.energy_pj), "quiet", "end")
    if view and group is not None:
        saved = change(view.planned.energy_pj, view.alone.energy_pj)
        yield Label(columns.energy + 12, y, saved, "quiet")
        yield Label(columns.group, y, f"group {group}", tint("ink", group), "end")
