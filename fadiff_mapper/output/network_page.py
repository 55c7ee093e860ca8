"""A mapped network as one page of HTML: self-contained, without scripts, in light and in dark.

The page draws its layers as bars, its graph in rows, and the tile schedule of each fused group. Python gathers numbers
and drawings; the folder `templates` holds all markup and styles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice, product
from math import prod
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from fadiff_mapper.fusion.estimates import homes
from fadiff_mapper.fusion.fused_group import FusedGroup, Stay
from fadiff_mapper.fusion.group_cost import evaluate_tiles
from fadiff_mapper.fusion.group_legality import live_words, live_words_by_layer
from fadiff_mapper.fusion.tile_steps import DimSpan, intermediates, layer_steps, operand_words, space_of
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.drawing import (
    COLOURS,
    COUNT,
    EDP,
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
    svg,
    tint,
    unit_for,
    upright_line,
)
from fadiff_mapper.output.layer_views import (
    LayerShare,
    LayerView,
    component_names,
    dataspace_names,
    layer_views,
)
from fadiff_mapper.output.roofline import RooflinePoint, draw_roofline
from fadiff_mapper.output.run_files import versions
from fadiff_mapper.workload import Node, coverage

WIDTH, NAMES = 1080.0, 176.0  # pixels of the drawings' width (the graph may be wider), and of the names on their left

GAP, VALUE, HEAD, ROW, BAR, THIN = 26.0, 52.0, 34.0, 24.0, 9.0, 4.0
"""Pixels of the drawing of layers: between panels, the number behind the longest bar, the headings, a row, a bar as
planned and an unfused one."""


def layer_part(result: NetworkResult, views: Sequence[LayerView], shown: Sequence[LayerView]) -> dict[str, Any]:
    """The drawing of some layers, its legends of components and data spaces, and the name of the outermost level.

    Drawn are energy by component, cycles, and words at the outermost level: three panels of horizontal bars share one
    row per layer. Below the bar of the plan a fused layer has a pale bar of the same layer unfused.
    """
    names, outermost = component_names(result, views), result.hardware.arch.levels[-1].name
    components = [(name, component_kind(names, outermost, name)) for name in names]     # in the order of the stack
    spaces = [(name, tint("space", k)) for k, name in enumerate(dataspace_names(views))]
    shares = [share for view in shown for share in (view.planned, view.unfused)]
    energy = unit_for((share.energy_pj for share in shares), ENERGY)    # fits the largest number, planned or not
    cycles = unit_for((share.cycles for share in shares), COUNT)
    words = unit_for((share.outermost_words for share in shares), COUNT)
    # title, unit, (name, CSS class) of the parts of every bar as they are stacked, the value of each part of a share
    panels: tuple[tuple[str, DisplayUnit, list[tuple[str, str]], Callable[[LayerShare], dict[str, float]]], ...] = (
        (f"energy ({energy.name})", energy, components, lambda share: share.components),
        (f"cycles ({cycles.name})" if cycles.name else "cycles", cycles, [("cycles", "time")],
         lambda share: {"cycles": share.cycles}),
        (f"{outermost} traffic ({words.name} words)".replace("( ", "("), words, spaces, lambda share: share.outermost))
    width = (WIDTH - NAMES) / len(panels)
    shapes: list[Shape] = []
    for row, view in enumerate(shown):
        top = HEAD + row * ROW
        shapes.append(Label(NAMES - 22, top + 15, fitting(view.name, NAMES - 26), "name", "end", view.name))
        if view.group is not None:
            shapes.append(Rect(NAMES - 14, top + 2, 4, ROW - 4, tint("group", view.group), f"group {view.group}", 2))
    for column, (title, unit, parts, values) in enumerate(panels):
        gap = GAP if column else 0
        left, room = NAMES + column * width + gap, width - gap
        totals = [[sum(values(share).values()) for share in (view.planned, view.unfused)] for view in shown]
        largest, bars = max(map(max, totals), default=0.0) or 1.0, room - VALUE
        scale = bars / largest      # pixels per unit of the value, for all bars of a panel
        shapes += [Label(left, 14, title, "head"), level_line(left, HEAD - 8, left + room, "rule"),
                   upright_line(left, HEAD - 8, HEAD + len(shown) * ROW, "rule")]
        for row, (view, both) in enumerate(zip(shown, totals, strict=True)):
            top, fused = HEAD + row * ROW, view.group is not None
            bar_top = top + (4 if fused else (ROW - BAR) / 2)
            for share, name, y, height, suffix in ((view.planned, view.name, bar_top, BAR, ""), (
                    view.unfused, f"{view.name} by itself", bar_top + BAR + 2, THIN, " before"))[:1 + fused]:
                at = left
                for part, css_class in parts:
                    value = values(share).get(part, 0.0)
                    if value * scale > 0:
                        shapes.append(Rect(at, y, value * scale, height, css_class + suffix,
                                           f"{name}, {part}: {unit.written(value)}"))
                        at += value * scale
            shapes.append(Label(left + max(both) * bars / largest + 5, top + 15, unit.number(both[0]), "value"))
    drawing = Drawing(WIDTH, HEAD + len(shown) * ROW + 8, "energy, cycles and outermost traffic of every layer",
                      tuple(shapes))
    return {"layers": drawing, "components": components, "spaces": spaces, "outermost": outermost}


def component_kind(components: Sequence[str], outermost: str, name: str) -> str:
    """The CSS class with the colour of a component; the outermost level always has the same class."""
    return "outer" if name == outermost else tint("part", list(components).index(name))


NODE_ROW, LANE, MARGIN, TOP = 22.0, 22.0, 16.0, 26.0
"""Pixels of the graph: of a row, of a lane, left of the first lane, and above the first row."""

NAME, OPERATOR, SHAPE, NUMBER, GROUP = 230.0, 130.0, 170.0, 110.0, 130.0  # widths of its columns of text in pixels


def draw_graph(result: NetworkResult, views: Sequence[LayerView]) -> Drawing:
    """The network as a graph in rows: a row for each node with its numbers, a lane for each tensor from its writer to
    its readers.

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
            shapes += [Label(energy + 12, base, change(view.planned.energy_pj, view.unfused.energy_pj), "quiet"),
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

MOST_STEPS = 16  # steps that are drawn at most, so that each has 56 pixels


@dataclass(frozen=True)
class ResidentBar:
    """A tensor that stays on the chip."""

    name: str  # node and data space
    words: int  # its live words
    stay: Stay
    css_class: str
    writer: int | None = None  # number of the layer that writes it; None for operands, and if words outlast its readers
    reader: int = 0  # number of the layer that reads it last


def residents(group: FusedGroup, nodes: Sequence[str]) -> tuple[ResidentBar, ...]:
    """The tensors that stay on the chip, in the order of the layers: operands, then the tensor for the next layer."""
    bars, all_steps = [], layer_steps(group)
    for index, (layer, steps) in enumerate(zip(group.layers, all_steps, strict=True)):
        spaces = layer.problem.dataspace_names()
        for name, stay in layer.operands.items():
            if name in layer.shared:    # listed for an earlier layer
                continue
            words = (layer.problem.tensor_size(space_of(layer.problem, name)) if name in layer.lasting
                     else operand_words(layer, name, group, steps))
            bars.append(ResidentBar(f"{nodes[index]} {name}", words, stay,
                                    tint("space", spaces.index(name))))
        if index < len(group.links):
            stay, output = group.links[index].stay, layer.problem.output.name
            words, outlasting = (of_links[index] for of_links in intermediates(group, all_steps, stay.level))
            bars.append(ResidentBar(f"{nodes[index]} {output}", words, stay, tint("space", spaces.index(output)),
                                    None if outlasting else index, group.last_uses()[index]))
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
        instances = prod(number for *_, number in resident.stay.shares)
        where = f"each of {instances:,} instances of {resident.stay.level}" if instances > 1 else resident.stay.level
        text = f"{resident.words:,} words in {where}{how}"
        if resident.writer is not None:     # no words for later steps: live from its writer to its last reader
            lives = [(step + resident.writer / len(nodes), step + (resident.reader + 1) / len(nodes))
                     for step in range(len(shown))]
        else:                               # live until a loop advances along which it is not kept
            lost = [k for k, loop in enumerate(group.loops) if loop.dim not in resident.stay.across]
            starts = [step for step in range(len(shown))
                      if not step or any(shown[step][k] != shown[step - 1][k] for k in lost)]
            lives = list(zip(starts, [*starts[1:], len(shown)], strict=True))
        shapes.append(Label(NAMES - 14, top + 12, fitting(resident.name, NAMES - 18), "name", "end", resident.name))
        shapes += [Rect(NAMES + start * column + 0.5, top + 1, (end - start) * column - 1, STAY - 5,
                        f"{resident.css_class} stay", f"{resident.name}: {text}", 3)
                   for start, end in lives]
        shapes += [Label(NAMES + 8, top + 12, text, "value"),
                   level_line(NAMES, top + STAY - 2, NAMES + len(shown) * column, "grid")]
    return Drawing(WIDTH, height, f"tile schedule of group {number}", tuple(shapes))


MEMORY = 132.0  # pixels of height for the whole of a memory


def draw_memory(result: NetworkResult, views: Sequence[LayerView]) -> list[Drawing]:
    """For each memory that can hold intermediates, the occupied share of its words over the time of the plan.

    Layers run from left to right, as wide as their cycles; the steps of a group, in which its layers take turns, are
    drawn as one run of each layer. Memories without a limit are left out.
    """
    drawings = []
    groups = {id(outcome.group): outcome.group for outcome in result.groups}
    evaluated = evaluate_tiles(result.hardware, list(groups.values()))
    for name in homes(result.hardware):
        index = result.hardware.arch.level_names().index(name)
        room, total = result.hardware.arch.levels[index].usable, sum(view.planned.cycles for view in views)
        if room is None or not total:
            continue
        bottom, scale = STEP_HEAD + MEMORY, (WIDTH - NAMES - 8) / total
        held = {key: live_words_by_layer(result.hardware, group, index, layers)
                for (key, group), layers in zip(groups.items(), evaluated, strict=True)}
        shapes: list[Shape] = [
            Label(4, 14, name, "head"), Label(NAMES - 14, STEP_HEAD + 4, f"{room:,} words", "value", "end"),
            level_line(NAMES, STEP_HEAD, WIDTH - 8, "grid"), level_line(NAMES, bottom, WIDTH - 8, "rule")]
        at = NAMES
        for view in views:
            if view.group is None:
                spaces = result.layer_of(view.name).stats.levels[index]["dataspaces"].values()
                words = float(sum(space["utilized_capacity"] for space in spaces))
            else:
                outcome = result.groups[view.group - 1]
                words = held[id(outcome.group)][outcome.nodes.index(view.name)]
            width, height = view.planned.cycles * scale, MEMORY * words / room
            where = "by itself" if view.group is None else f"in group {view.group}"
            said = f"{view.name}, {where}: {words:,.0f} of {room:,} words for {view.planned.cycles:,.0f} cycles"
            shapes.append(Rect(at, bottom - height, max(width - 0.5, 0.5), height,
                               "time" if view.group is None else tint("group", view.group), said))
            at += width
        drawings.append(Drawing(WIDTH, bottom + 8, f"words in {name} over time", tuple(shapes)))
    return drawings


def draw_work(result: NetworkResult, views: Sequence[LayerView]) -> Drawing | None:
    """The roofline of the plan: a dot for each group, and for each layer by itself."""
    points, arch = [], result.hardware.arch
    for view in views:
        if view.group is None:
            own = view.planned
            points.append(RooflinePoint(view.name, view.macs, own.outermost_words, own.cycles, "time"))
    for number, outcome in enumerate(result.groups, 1):
        inside = [view for view in views if view.group == number]
        points.append(RooflinePoint(f"group {number}", sum(view.macs for view in inside), sum(
            view.planned.outermost_words for view in inside), outcome.cost.cycles, tint("group", number)))
    return draw_roofline(points, arch.arithmetic.instances, arch.levels[-1].total_bandwidth, "cycle")


def unit_times(result: NetworkResult, views: Sequence[LayerView]) -> list[tuple[str, float]]:
    """Cycles of the multiply-accumulators in a plan, stalls included, and of each compute unit; empty on a design
    without compute units."""
    array = result.hardware.arch.arithmetic.name
    found = {name: float(total.cycles) for name, total in result.units().items()}
    if found:
        found[array] = found.get(array, 0.0) + sum(view.planned.cycles for view in views)
    return sorted(found.items(), key=lambda entry: -entry[1])


def number(value: float, unit: DisplayUnit) -> Markup:
    """A number in a unit, with its exact value; a template macro would be slower for the thousands of a table."""
    return Markup(f'<data value="{value}">{unit.number(value)}</data>')


@cache
def page_template(name: str) -> Template:
    """A template of `fadiff_mapper/output/templates`; an unknown name in it raises instead of printing nothing.

    Templates escape what they print, because names come from input files.
    """
    environment = Environment(
        loader=PackageLoader("fadiff_mapper", "output/templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.filters["svg"] = svg
    environment.globals["number"] = number
    return environment.get_template(name)


MOST_LAYERS, MOST_GROUPS, MOST_NODES = 1000, 200, 4000
"""Layers and groups that the page shows at most, by their share, and nodes up to which it draws the graph: larger pages
take long to make, and browsers longer to show."""


def network_html(result: NetworkResult) -> str:
    """The page as HTML; every number is in a `data` element whose `value` is exact, however rounded its text."""
    views = shown = layer_views(result)
    if len(views) > MOST_LAYERS:    # the largest shares in energy and cycles, with fusion or without
        weights = [max(result.share(cost.energy_pj, cost.cycles) for cost in (view.planned, view.unfused))
                   for view in views]
        kept = sorted(range(len(views)), key=lambda index: -weights[index])[:MOST_LAYERS]
        shown = tuple(views[index] for index in sorted(kept))
    shares = [share for view in shown for share in (view.planned, view.unfused)]
    part = layer_part(result, views, shown)
    sections, held = [], dict[int, list[dict[str, Any]]]()
    for number, outcome in result.weightiest_groups(MOST_GROUPS):
        group, bounds = outcome.group, outcome.group.layers[-1].problem.bounds
        if id(group) not in held:   # most live words and room of the inner levels; equal groups share them
            held[id(group)] = [
                {"level": level.name, "words": live_words(result.hardware, group, index), "room": level.usable}
                for index, level in enumerate(result.hardware.arch.levels[:-1]) if not level.is_dummy]
        sections.append({
            "number": number, "nodes": outcome.nodes, "figures": _figures(outcome.cost, outcome.unfused),
            "loops": [f"{loop.dim}: {bounds[loop.dim]} in tiles of {loop.tile}" for loop in group.loops],
            "steps": group.steps, "repeat": group.repeat, "held": held[id(group)], "one_pass": group.one_pass,
            "skips": group.skips, "output_at": group.output_at,
            "found": [f"{name} of {node}" for node, layer in zip(outcome.nodes, group.layers, strict=True)
                      for name, there in layer.lasting.items() if there],
            "bound": outcome.cost.bound, "side_by_side": group.side_by_side,
            "schedule": draw_schedule(group, outcome.nodes, number)})
    return page_template("network.html.jinja").render(
        **part, result=result, views=shown, every_view=views, versions=versions(),
        coverage=coverage(result.workload, bool(result.hardware.arch.units)),
        figures=[*_figures(result.stats, result.unfused_stats),
                 _figure(f"{part['outermost']} traffic", sum(view.planned.outermost_words for view in views),
                         sum(view.unfused.outermost_words for view in views), COUNT, "words")],
        joined=_figures(result.planned_joined, result.joined)[1:] if result.joined.energy_pj or result.joined.cycles
        else [], operators=result.operators[:MOST_LAYERS],
        colours=COLOURS, tint=tint,
        roofline=draw_work(result, views) if len(views) <= MOST_LAYERS else None, busy=unit_times(result, views),
        memory=draw_memory(result, views) if len(views) <= MOST_LAYERS else [],
        graph=draw_graph(result, views) if len(result.workload.nodes) <= MOST_NODES else None,
        groups=sections, alone={layer.node: layer for layer in result.alone},
        table={"macs": unit_for((view.macs for view in shown), COUNT),
               "energy": unit_for([*(share.energy_pj for share in shares),
                                   *(own.energy_pj for own in result.operators)], ENERGY),
               "cycles": unit_for([*(share.cycles for share in shares), *(own.cycles for own in result.operators)],
                                  COUNT),
               "words": unit_for((share.outermost_words for share in shares), COUNT)},
        recomputed=any(view.recomputed for view in shown))


def _figures(planned: Any, before: Any) -> list[dict[str, Any]]:
    """EDP, energy and cycles of two operating points or costs."""
    return [_figure("EDP", planned.edp, before.edp, EDP),
            _figure("energy", planned.energy_pj, before.energy_pj, ENERGY),
            _figure("cycles", planned.cycles, before.cycles, COUNT)]


def _figure(name: str, planned: float, before: float, units: tuple[tuple[str, float], ...],
            counted: str = "") -> dict[str, Any]:
    """A total in the plan and without fusion: exact values, texts in one unit, and the difference in percent."""
    unit = unit_for((planned, before), units, counted)
    return {"name": name, "planned": planned, "before": before, "planned_text": unit.written(planned),
            "before_text": unit.written(before), "change": change(planned, before)}
