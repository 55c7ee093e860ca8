"""A designed machine as one page of HTML: self-contained, without scripts, in light and in dark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.design.result import DesignOutcome, DesignResult, better_neighbour, undominated
from fadiff_mapper.output.drawing import (
    COLOURS,
    COUNT,
    EDP,
    ENERGY,
    Dot,
    Drawing,
    Label,
    Rect,
    Shape,
    Stroke,
    axis_of,
    change,
    field,
    fitting,
    round_ticks,
    unit_for,
    upright_line,
)
from fadiff_mapper.output.layer_views import component_names, layer_views
from fadiff_mapper.output.network_page import component_kind, layer_part, page_template
from fadiff_mapper.output.run_files import versions

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.search.explanation.sensitivities import Sensitivity

WIDTH = 1080.0  # pixels of every drawing

HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 400.0, 92.0, 1060.0, 16.0, 356.0
"""Pixels of the drawing of the front, and of the edges of its field."""

MOST_NUMBERED = 40  # designs of the front with a number beside their dot: more would overlap


def draw_front(result: DesignResult) -> Drawing | None:
    """EDP against area: every feasible design a dot, the front numbered, the best design ringed, the limit a line.

    None if fewer than two designs are feasible or no area is known.
    """
    feasible = [outcome for outcome in result.outcomes if outcome.feasible and outcome.area_mm2 > 0]
    if len(feasible) < 2:
        return None
    areas = [outcome.area_mm2 for outcome in feasible]
    limit = result.limits.get("area_mm2")
    x = axis_of([*areas, *([limit] if limit and limit < 4 * max(areas) else [])], LEFT, RIGHT)
    y = axis_of([outcome.edp for outcome in feasible], BOTTOM, TOP)
    unit = unit_for([max(outcome.edp for outcome in feasible)], EDP)
    shapes = field(LEFT, RIGHT, y, unit.size, x)
    shapes += [Label(RIGHT, BOTTOM + 34, "area (mm²)", "head", "end"), Label(4, TOP - 2, f"EDP ({unit.name})", "head")]
    if limit and x.low <= limit <= x.high:
        shapes += [Rect(x.at(limit), TOP, RIGHT - x.at(limit), BOTTOM - TOP, "strip", f"beyond the limit of {limit:g}"),
                   upright_line(x.at(limit), TOP, BOTTOM, "edge"),
                   Label(x.at(limit) - 6, TOP + 12, f"limit {limit:g} mm²", "quiet", "end")]
    border = least_of_both(feasible)    # border of the region of designs that are beaten
    stairs = "".join(f"H{x.at(outcome.area_mm2):.1f}V{y.at(outcome.edp):.1f}" for outcome in border[1:])
    shapes.append(Stroke(f"M{x.at(border[0].area_mm2):.1f} {TOP:.1f}V{y.at(border[0].edp):.1f}{stairs}H{RIGHT:.1f}",
                         "edge"))

    def dot(outcome: DesignOutcome, radius: float, css_class: str) -> Dot:
        values = ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
                           for name, value in outcome.parameters.items())
        return Dot(x.at(outcome.area_mm2), y.at(outcome.edp), radius, css_class,
                   f"{values}: {unit.written(outcome.edp)}, {outcome.area_mm2:.4g} mm²")

    front = {outcome.point for outcome in result.front}
    shapes += [dot(outcome, 3, "other") for outcome in feasible if outcome.point not in front]
    for number, outcome in enumerate(result.front, 1):
        shapes += [dot(outcome, 9, "ring")] if number == 1 else []
        shapes.append(dot(outcome, 5, "chosen"))
        if number <= MOST_NUMBERED and len(result.front) > 1:
            shapes.append(Label(x.at(outcome.area_mm2) + 8, y.at(outcome.edp) - 7, str(number), "value"))
    return Drawing(WIDTH, HEIGHT, "EDP against area of every feasible design", tuple(shapes))


def least_of_both(outcomes: Sequence[DesignOutcome]) -> list[DesignOutcome]:
    """The designs that no other design beats in both EDP and area, by rising area."""
    return [outcomes[number] for number in undominated([(each.area_mm2, each.edp) for each in outcomes])]


PANELS, APART, INSET, ABOVE, BELOW = 250.0, 36.0, 78.0, 22.0, 40.0
"""Pixels of the drawing of convergence: its height, between its two panels, and around a panel's field."""

UNITS = {"edp": EDP, "energy": ENERGY, "delay": COUNT}
PLAIN = (("", 1.0),)  # units of the metrics' values; products with an area have none


def draw_convergence(result: DesignResult) -> Drawing | None:
    """The best value so far against designs mapped and against seconds, as steps; None without a feasible design."""
    steps = [step for step in result.history if step["value"] > 0]
    if not steps:
        return None
    y = axis_of([step["value"] for step in steps], PANELS - BELOW, ABOVE)
    unit = unit_for([steps[0]["value"]], UNITS.get(result.metrics[0], PLAIN))
    width = (WIDTH - APART) / 2
    panels = (("designs mapped", [step["evaluations"] for step in steps], float(max(1, result.evaluations)), 0.0),
              ("seconds", [step["time_s"] for step in steps], max(result.time_s, 1e-3), width + APART))
    values, shapes = [step["value"] for step in steps], list[Shape]()
    for name, places, end, at in panels:    # a linear axis from 0 to `end`, and the best value so far, which falls
        left, right = at + INSET, at + width - 8
        scale = (right - left) / end
        shapes += field(left, right, y, unit.size)
        shapes += [Label(left + tick * scale, y.start + 16, f"{tick:.4g}", "value", "middle")
                   for tick in round_ticks(0.0, end)]
        shapes.append(Label(right, y.start + 32, name, "head", "end"))
        points = [(left + min(place, end) * scale, y.at(value)) for place, value in zip(places, values, strict=True)]
        path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{px:.1f}V{py:.1f}" for px, py in points[1:])
        shapes += [Stroke(f"{path}H{right:.1f}", "course"),
                   *(Dot(px, py, 3, "chosen", unit.written(value))
                     for (px, py), value in zip(points, values, strict=True))]
    shapes.append(Label(4, 12, f"{result.metrics[0]} ({unit.name})" if unit.name else result.metrics[0], "head"))
    return Drawing(WIDTH, PANELS, "best value so far", tuple(shapes))


NAMES, GAP, VALUE, HEAD, ROW, BAR = 176.0, 40.0, 110.0, 26.0, 22.0, 12.0
"""Pixels of the drawing of levels: names, between panels, the number behind a bar, the heading, a row, a bar."""


@dataclass(frozen=True)
class LevelShare:
    """One component of the machine in a whole run of all networks."""

    name: str  # level, arithmetic, or wires
    css_class: str
    energy_pj: float  # as planned
    cycles: float | None  # busy cycles, summed over unfused layers; None for wires


def level_shares(networks: Sequence[tuple[float, NetworkResult]]) -> tuple[LevelShare, ...]:
    """The shares of every component, the outermost level first, from (times each network runs, its mappings)."""
    names = tuple(dict.fromkeys(name for _, network in networks for name in component_names(
        network, layer_views(network))))
    arch = networks[0][1].hardware.arch
    energies, cycles = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for weight, network in networks:
        for view in layer_views(network):
            for name, energy in view.planned.components.items():
                energies[name] = energies.get(name, 0.0) + weight * energy
        for outcome in network.layers:
            busy = {level["name"]: level["cycles"] for level in outcome.stats.levels}
            busy[outcome.stats.arithmetic["name"]] = outcome.stats.arithmetic["cycles"]
            for name in names:
                cycles[name] += weight * outcome.count * busy.get(name, 0.0)
    built = {*arch.level_names(), arch.arithmetic.name}
    return tuple(LevelShare(name, component_kind(names, arch.levels[-1].name, name), energies[name],
                            cycles[name] if name in built else None) for name in reversed(names))


def draw_levels(shares: Sequence[LevelShare]) -> Drawing:
    width = (WIDTH - NAMES - GAP) / 2
    energy = unit_for((share.energy_pj for share in shares), ENERGY)
    shapes: list[Shape] = [Label(NAMES - 10, HEAD + row * ROW + 14, fitting(share.name, NAMES - 14), "", "end")
                           for row, share in enumerate(shares)]
    for title, values, unit, left in (
            (f"energy ({energy.name})", [share.energy_pj for share in shares], energy, NAMES),
            ("busy cycles, layers by themselves", [share.cycles or 0.0 for share in shares],
             unit_for((share.cycles or 0.0 for share in shares), COUNT, "cycles"), NAMES + width + GAP)):
        scale = (width - VALUE) / (max(values) or 1.0)    # the longest bar leaves room for its number
        shapes += [Label(left, 14, title, "head"), upright_line(left, HEAD - 4, HEAD + len(shares) * ROW, "rule")]
        for row, (share, value) in enumerate(zip(shares, values, strict=True)):
            top = HEAD + row * ROW
            if value > 0:
                shapes.append(Rect(left, top + (ROW - BAR) / 2, value * scale, BAR, share.css_class,
                                   f"{share.name}: {unit.written(value)}"))
            shapes.append(Label(left + value * scale + 6, top + 15, unit.written(value), "value"))
    return Drawing(WIDTH, HEAD + len(shares) * ROW + 6, "energy and busy cycles by level", tuple(shapes))


def parameter_worths(result: DesignResult) -> list[dict[str, Any]]:
    """Every parameter of the best design: its name and value, and the designs with the next values below and above.

    Such a design is None past the end of the values, or if it was not evaluated, for instance because of its bound.
    Else it has its outcome, and its differences in EDP ("" if infeasible) and area ("" if unknown) to the best design.
    """
    known = {outcome.point: outcome for outcome in (*result.outcomes, *result.neighbours)}
    best = result.best

    def step(axis: int, by: int) -> dict[str, Any] | None:
        outcome = known.get((*best.point[:axis], best.point[axis] + by, *best.point[axis + 1:]))
        if outcome is None or outcome.pruned:
            return None
        return {"outcome": outcome, "edp": change(outcome.edp, best.edp) if outcome.feasible else "",
                "area": change(outcome.area_mm2, best.area_mm2) if outcome.area_mm2 < float("inf") else ""}

    return [{"name": name, "value": value, "below": step(axis, -1), "above": step(axis, 1)}
            for axis, (name, value) in enumerate(best.parameters.items())]


MOST_LISTED = 40  # designs in the table of the front; `front.csv` has all
MOST_SENSITIVITIES = 12  # constants in the table of sensitivities
MOST_REFUSALS = 8  # reasons in the table of refusals

def design_html(result: DesignResult, folders: Sequence[str],
                sensitivities: Sequence[Sensitivity] = (), unknown: str = "") -> str:
    """The page as text: HTML in which every number of the tables is in a `data` element with an exact `value`.

    `folders` are each network's files, relative to the page; `sensitivities` belong to the best design's EDP, the
    largest first; `unknown` says why they are missing.
    """
    weighted = [(figures.weight, network) for figures, network in
                zip(result.best.networks, result.mapped_networks, strict=True)] if result.mapped_networks else []
    shown = result.front[:MOST_LISTED]    # for one metric: the designs that no other beats in both EDP and area
    if len(result.metrics) == 1 and result.front:
        both = least_of_both([outcome for outcome in result.outcomes if outcome.feasible])
        shown = (result.best, *(outcome for outcome in both if outcome.point != result.best.point))[:MOST_LISTED]
    refusals = Counter(outcome.reason.split(" is ")[0] if "; the limit is " in outcome.reason else outcome.reason
                       for outcome in result.outcomes if not outcome.feasible and not outcome.pruned)
    figures = []    # exact values, rounded ones with their units, the difference with the final source of energies
    for name, key, units in (("EDP", "edp", EDP), ("energy", "energy_pj", ENERGY), ("cycles", "cycles", COUNT),
                             ("area", "area_mm2", None)) if result.front else ():
        value = getattr(result.best, key)
        text = (unit_for([value], units).written(value) if units else f"{value:.4g} mm²" if value else "not known")
        figures.append({"name": name, "value": value, "text": text,
                        "final": change(getattr(result.final[0], key), value) if result.priced_anew else ""})
    sections = []
    for (weight, network), folder in zip(weighted, folders, strict=True):
        views, stats = layer_views(network), network.stats
        sections.append(layer_part(network, views, views) | {
            "name": network.workload.name, "weight": weight, "folder": folder, "stats": stats,
            "stats_text": [unit_for([value], units, counted).written(value) for value, units, counted in (
                (stats.edp, EDP, ""), (stats.energy_pj, ENERGY, ""), (stats.cycles, COUNT, "cycles"))],
            "saved": change(stats.edp, network.unfused_stats.edp),  # by fusion
            "groups": [" → ".join(group.nodes) for group in network.groups]})
    return page_template("design.html.jinja").render(
        result=result, versions=versions(), colours=COLOURS, figures=figures,
        front=draw_front(result), listed=shown, edp=unit_for((outcome.edp for outcome in result.front), EDP),
        energy=unit_for((outcome.energy_pj for outcome in result.front), ENERGY),
        cycles=unit_for((outcome.cycles for outcome in result.front), COUNT),
        convergence=draw_convergence(result), worths=parameter_worths(result) if result.front else (),
        better=better_neighbour(result),
        sensitivities=sensitivities[:MOST_SENSITIVITIES], unknown=unknown,
        levels=draw_levels(level_shares(weighted)) if weighted else None,
        networks=sections, refusals=refusals.most_common(MOST_REFUSALS))


def best_sensitivities(result: DesignResult, over: Over = never) -> tuple[Sensitivity, ...]:
    """The sensitivities of the best design's EDP, every layer unfused.

    Raises:
        FadiffError: The design is sparse.
        OutOfTime: `over` became true.
    """
    if not result.mapped_networks:
        return ()
    if over():
        raise OutOfTime
    from fadiff_mapper.search.explanation.sensitivities import combined_sensitivities
    return combined_sensitivities([
        (figures.weight * layer.count, layer.spec, layer.mapping, layer.stats)
        for figures, network in zip(result.best.networks, result.mapped_networks, strict=True)
        for layer in network.layers], over)
