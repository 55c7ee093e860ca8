"""Drawings of a mapped network: its layers as bars, its graph in rows, and the tile schedule of a fused group."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from typing import TYPE_CHECKING

from fadiff_mapper.fusion.fused_group import FusedGroup, Stay
from fadiff_mapper.fusion.tile_steps import DimSpan, intermediates, layer_steps, operand_words
from fadiff_mapper.output.drawing import (
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
    level_line,
    tint,
    unit_for,
    upright_line,
)
from fadiff_mapper.output.layer_views import LayerShare, LayerView
from fadiff_mapper.workload import Node

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult

WIDTH, NAMES = 1080.0, 176.0
"""Pixels of the drawings' width (the graph may be wider), and of the names on their left."""

GAP, VALUE, HEAD, ROW, BAR, THIN = 26.0, 52.0, 34.0, 24.0, 9.0, 4.0
"""Pixels of the drawing of layers: between panels, the number behind the longest bar, the headings, a row, a bar as
planned and an unfused one."""


@dataclass(frozen=True)
class LayerPanel:
    """One panel of bars."""

    title: str  # with the unit
    unit: DisplayUnit  # of all numbers in the panel
    parts: tuple[tuple[str, str], ...]  # (name, CSS class) of the parts of every bar, as they are stacked
    values: Callable[[LayerShare], dict[str, float]]  # the value of each part of a share; missing parts are 0


def draw_layers(views: Sequence[LayerView], components: Sequence[str], spaces: Sequence[str],
                outermost: str) -> Drawing:
    """Layer by layer: energy by component, cycles, and words at the outermost level.

    Three panels of horizontal bars share one row per layer. Below the bar of the plan a fused layer has a pale bar of
    the same layer unfused. `components` and `spaces` are the orders in which bars are stacked, `outermost` names the
    level.
    """
    shares = [share for view in views for share in (view.planned, view.alone)]
    energy = unit_for((share.energy_pj for share in shares), ENERGY)    # fits the largest number, planned or not
    cycles = unit_for((share.cycles for share in shares), COUNT)
    words = unit_for((share.outermost_words for share in shares), COUNT)
    panels = (
        LayerPanel(f"energy ({energy.name})", energy,
                   tuple((name, component_kind(components, outermost, name)) for name in components),
                   lambda share: share.components),
        LayerPanel(f"cycles ({cycles.name})" if cycles.name else "cycles", cycles, (("cycles", "time"),),
                   lambda share: {"cycles": share.cycles}),
        LayerPanel(f"{outermost} traffic ({words.name} words)".replace("( ", "("), words,
                   tuple((name, tint("space", k)) for k, name in enumerate(spaces)), lambda share: share.outermost))
    width = (WIDTH - NAMES) / len(panels)
    shapes: list[Shape] = []
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        shapes.append(Label(NAMES - 22, top + 15, fitting(view.name, NAMES - 26), "name", "end", view.name))
        if view.group is not None:
            shapes.append(Rect(NAMES - 14, top + 2, 4, ROW - 4, tint("group", view.group), f"group {view.group}", 2))
    for column, panel in enumerate(panels):
        gap = GAP if column else 0
        shapes += _panel(panel, views, NAMES + column * width + gap, width - gap)
    return Drawing(WIDTH, HEAD + len(views) * ROW + 8, "energy, cycles and outermost traffic of every layer",
                   tuple(shapes))


def component_kind(components: Sequence[str], outermost: str, name: str) -> str:
    """The CSS class with the colour of a component; the outermost level always has the same class."""
    return "outer" if name == outermost else tint("part", list(components).index(name))


def _panel(panel: LayerPanel, views: Sequence[LayerView], left: float, width: float) -> Iterator[Shape]:
    """Heading, axis and bars of one panel; all bars of a panel have one scale, in pixels per unit of the value."""
    def total(share: LayerShare) -> float:
        return sum(panel.values(share).values())

    def bar(share: LayerShare, name: str, top: float, height: float, suffix: str) -> Iterator[Shape]:
        values, at = panel.values(share), left
        for part, css_class in panel.parts:
            length = values.get(part, 0.0) * scale
            if length > 0:
                yield Rect(at, top, length, height, css_class + suffix,
                           f"{name}, {part}: {panel.unit.written(values[part])}")
                at += length

    bars = width - VALUE
    largest = max((total(share) for view in views for share in (view.planned, view.alone)), default=0.0) or 1.0
    scale = bars / largest
    yield Label(left, 14, panel.title, "head")
    yield level_line(left, HEAD - 8, left + width, "rule")
    yield upright_line(left, HEAD - 8, HEAD + len(views) * ROW, "rule")
    for row, view in enumerate(views):
        top = HEAD + row * ROW
        fused = view.group is not None
        bar_top = top + (4 if fused else (ROW - BAR) / 2)
        yield from bar(view.planned, view.name, bar_top, BAR, "")
        if fused:
            yield from bar(view.alone, f"{view.name} by itself", bar_top + BAR + 2, THIN, " before")
        longest = max(total(view.planned), total(view.alone))
        yield Label(left + longest * bars / largest + 5, top + 15, panel.unit.number(total(view.planned)), "value")


NODE_ROW, LANE, MARGIN, TOP = 22.0, 22.0, 16.0, 26.0
"""Pixels of the graph: of a row, of a lane, left of the first lane, and above the first row."""

NAME, OPERATOR, SHAPE, NUMBER, GROUP = 230.0, 130.0, 170.0, 110.0, 130.0
"""Widths of its columns of text in pixels."""


def draw_graph(result: NetworkResult, views: Sequence[LayerView]) -> Drawing:
    """The network as a graph in rows: one node with its numbers per row, every tensor a lane from its writer to
    readers.

    Nodes come in topological order, so all edges lead down; a lane belongs to one tensor at a time, so lines may cross
    but never overlap one another, a node or a text. Layers are filled dots, other operators rings; the layers of a
    group have its colour.
    """
    nodes, shown = result.workload.nodes, {view.name: view for view in views}
    lanes = node_lanes(nodes)
    x = {name: MARGIN + lane * LANE for name, lane in lanes.items()}
    y = {node.name: TOP + (row + 0.5) * NODE_ROW for row, node in enumerate(nodes)}
    # Columns of a row's texts: the first three are left-aligned here, the others right-aligned.
    name = MARGIN + (max(lanes.values(), default=0) + 1) * LANE + 14
    operator, shape = name + NAME, name + NAME + OPERATOR
    macs, energy = shape + SHAPE + NUMBER, shape + SHAPE + 2 * NUMBER
    end = max(energy + GROUP, WIDTH - 16)
    mac_unit = unit_for((view.macs for view in views), COUNT)
    energy_unit = unit_for((view.planned.energy_pj for view in views), ENERGY)
    shapes: list[Shape] = [Label(x_, 14, text, "quiet") for x_, text in (
        (name, "node"), (operator, "operator"), (shape, "output"))]
    shapes += [Label(x_, 14, text, "quiet", "end") for x_, text in (
        (macs, f"{mac_unit.name} MACs".strip()), (energy, energy_unit.name))]
    shapes += [Rect(2, y[view.name] - NODE_ROW / 2, end + 12, NODE_ROW, f"band {tint('group', view.group)}")
               for view in views if view.group is not None]
    for node in nodes:    # down the tensor's lane, and over to the reader's in the last row
        for tensor in dict.fromkeys(node.inputs):
            turn, stop = y[node.name] - NODE_ROW, y[node.name]
            middle = (turn + stop) / 2
            bend = f"C{x[tensor]:.1f} {middle:.1f} {x[node.name]:.1f} {middle:.1f} {x[node.name]:.1f} {stop:.1f}"
            shapes.append(Stroke(f"M{x[tensor]:.1f} {y[tensor]:.1f}V{turn:.1f}{bend}", "edge"))
    for node in nodes:
        view, base = shown.get(node.name), y[node.name] + 4
        group = view.group if view else None
        kind = tint("group", group) if group is not None else "layer" if view else "ring"
        repeat = f" × {view.repeat}" if view and view.repeat > 1 else ""
        shapes += [Dot(x[node.name], y[node.name], 5 if view else 4, kind, node.name),
                   Label(name, base, fitting(node.name, NAME - 12), "name" if view else "quiet", title=node.name),
                   Label(operator, base, fitting((node.what or node.op) + repeat, OPERATOR - 8), "quiet")]
        if node.shape is not None:
            shapes.append(Label(shape, base, fitting(" × ".join(map(str, node.shape)), SHAPE - 8), "quiet"))
        if view:
            shapes += [Label(macs, base, mac_unit.number(view.macs), "quiet", "end"),
                       Label(energy, base, energy_unit.number(view.planned.energy_pj), "quiet", "end")]
        if view and group is not None:
            shapes += [Label(energy + 12, base, change(view.planned.energy_pj, view.alone.energy_pj), "quiet"),
                       Label(end, base, f"group {group}", tint("ink", group), "end")]
    return Drawing(end + 16, TOP + len(nodes) * NODE_ROW + 4, f"the graph of {result.workload.name}", tuple(shapes))


def node_lanes(nodes: Sequence[Node]) -> dict[str, int]:
    """Node name -> lane of its tensor, counted from 0 on the left; no two tensors share a lane at the same time.

    A node takes over the lane of an operand that no later node reads; else it gets the first free lane: chains run
    straight down. Nodes are in topological order.
    """
    last_reader = {tensor: row for row, node in enumerate(nodes) for tensor in node.inputs}
    lanes: dict[str, int] = {}
    taken: dict[int, int] = {}       # lane -> the row up to which its tensor is read
    for row, node in enumerate(nodes):
        ending = sorted(lanes[tensor] for tensor in set(node.inputs) if last_reader[tensor] == row)
        lane = ending[0] if ending else next(lane for lane in range(len(nodes)) if taken.get(lane, -1) < row)
        lanes[node.name] = lane
        taken[lane] = last_reader.get(node.name, row)
    return lanes


STEP_HEAD, TALL, LOW, SPACE, STAY = 26.0, 52.0, 32.0, 8.0, 20.0
"""Pixels of a schedule: the step numbers above, a strip in a group with several steps and with one, between strips, and
a resident's row."""

MOST_STEPS = 16
"""Steps that are drawn at most, so that each has 56 pixels."""


@dataclass(frozen=True)
class ResidentBar:
    """A tensor that stays on the chip."""

    name: str  # node and data space
    words: int  # its live words
    stay: Stay
    css_class: str
    writer: int | None = None  # its layer, if no word outlasts the next layer's run


def residents(group: FusedGroup, nodes: Sequence[str]) -> tuple[ResidentBar, ...]:
    """The tensors that stay on the chip, in the order of the layers: operands, then the tensor for the next layer."""
    bars, all_steps = [], layer_steps(group)
    for index, (layer, steps) in enumerate(zip(group.layers, all_steps, strict=True)):
        spaces = layer.problem.dataspace_names()
        for name, stay in layer.operands.items():
            bars.append(ResidentBar(f"{nodes[index]} {name}", operand_words(layer, name, group, steps), stay,
                                    tint("space", spaces.index(name))))
        if index < len(group.links):
            stay, output = group.links[index].stay, layer.problem.output.name
            words, outlasting = (of_links[index] for of_links in intermediates(group, all_steps, stay.level))
            bars.append(ResidentBar(f"{nodes[index]} {output}", words, stay, tint("space", spaces.index(output)),
                                    None if outlasting else index))
    return tuple(bars)


def draw_schedule(group: FusedGroup, nodes: Sequence[str], number: int) -> Drawing:
    """The first `MOST_STEPS` steps of a fused group: the points that each layer computes, and the resident tensors.

    Time runs to the right; within a step the layers run one after the other. Each layer's strip shows the dimension
    that its outermost loop cuts, the first point at the top: computed points are solid, retained points pale. Bars
    below are tensors that stay on the chip, drawn along their live ranges. `number`, the group's number in the plan,
    gives its colour.
    """
    all_steps, total, stays = layer_steps(group), group.steps, residents(group, nodes)
    shown = list(islice(product(*(range(len(spans)) for spans in all_steps[-1].spans)), MOST_STEPS))
    column = (WIDTH - NAMES - 8) / len(shown)
    strip = TALL if total > 1 else LOW
    strips = STEP_HEAD + len(nodes) * (strip + SPACE)
    height = strips + len(stays) * STAY + (12 if stays else 0)
    extent = f"{len(shown)} steps" if len(shown) == total else f"first {len(shown)} of {total:,} steps"
    shapes: list[Shape] = [Label(NAMES - 14, 14, extent if total > 1 else "one step", "quiet", "end")]
    for step in range(len(shown)):
        shapes += [Label(NAMES + (step + 0.5) * column, 14, str(step + 1), "quiet", "middle"),
                   upright_line(NAMES + step * column, STEP_HEAD - 6, height - 4, "grid")]
    shapes.append(upright_line(NAMES + len(shown) * column, STEP_HEAD - 6, height - 4, "grid"))
    for index, name in enumerate(nodes):
        steps = all_steps[index]
        loop = next((k for k, cut in enumerate(steps.cut) if cut is not None and len(steps.spans[k]) > 1), None)
        dim = None if loop is None else steps.cut[loop]
        spans = [DimSpan(range(1), range(1)) if loop is None else steps.spans[loop][picked[loop]] for picked in shown]
        low, high = min(span.needed.start for span in spans), max(span.needed.stop for span in spans)
        box = Rect(NAMES, STEP_HEAD + index * (strip + SPACE), len(shown) * column, strip, "strip")
        bound = group.layers[index].problem.bounds[dim] if dim else 0
        extent = f"{dim} {low}\u2013{high - 1} of {bound}" if dim else "all of it"
        middle, slot, scale = box.y + strip / 2, box.width / len(shown) / len(nodes), strip / max(high - low, 1)
        shapes += [box, Label(NAMES - 14, middle - 3, fitting(name, NAMES - 18), "name", "end", name),
                   Label(NAMES - 14, middle + 12, extent, "quiet", "end")]
        for step, (span, picked) in enumerate(zip(spans, shown, strict=True)):
            works = all(len(steps.spans[k][at].done) for k, at in enumerate(picked))
            done = f"{span.done.start}\u2013{span.done.stop - 1}" if len(span.done) else "nothing"
            left, kind = NAMES + (step * len(nodes) + index) * slot + 0.5, tint("group", number)
            shapes += [Rect(left, box.y + (points.start - low) * scale, max(slot - 1, 1), max(len(points) * scale, 1),
                            style, f"{name}, step {step + 1}: {dim or 'all'} {done}", 1)
                       for points, style in ((span.needed, f"{kind} halo"), (span.done if works else range(0), kind))
                       if len(points)]
    for row, resident in enumerate(stays):
        top = strips + 8 + row * STAY
        kept = [loop.dim for loop in group.loops if loop.dim in resident.stay.across]
        how = f", kept along {', '.join(kept)}" if kept else ", anew in every step" if group.loops else ""
        text = f"{resident.words:,} words in {resident.stay.level}{how}"
        shapes.append(Label(NAMES - 14, top + 12, fitting(resident.name, NAMES - 18), "name", "end", resident.name))
        shapes += [Rect(NAMES + start * column + 0.5, top + 1, (end - start) * column - 1, STAY - 5,
                        f"{resident.css_class} stay", f"{resident.name}: {text}", 3)
                   for start, end in _lifetimes(resident, group, shown)]
        shapes += [Label(NAMES + 8, top + 12, text, "value"),
                   level_line(NAMES, top + STAY - 2, NAMES + len(shown) * column, "grid")]
    return Drawing(WIDTH, height, f"tile schedule of group {number}", tuple(shapes))


def _lifetimes(resident: ResidentBar, group: FusedGroup,
               shown: Sequence[tuple[int, ...]]) -> Iterator[tuple[float, float]]:
    """(begin, end) of every live range among the drawn steps, in steps.

    A tensor without words for later steps lives while its writer and the next layer run; others live until a loop
    advances along which they are not kept.
    """
    if resident.writer is not None:
        count = len(group.layers)
        for step in range(len(shown)):
            yield step + resident.writer / count, step + (resident.writer + 2) / count
        return
    lost = [k for k, loop in enumerate(group.loops) if loop.dim not in resident.stay.across]
    starts = [step for step in range(len(shown))
              if not step or any(shown[step][k] != shown[step - 1][k] for k in lost)]
    yield from zip(starts, [*starts[1:], len(shown)], strict=True)
