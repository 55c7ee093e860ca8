"""The files of an inference: a table of operators, the curve of every batch, all numbers, and a page."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from fadiff_mapper.base.text_formats import csv_text, json_text
from fadiff_mapper.inference.infer import PHASES, InferenceResult, OperatorShare, cached_words
from fadiff_mapper.inference.language_model import LanguageModel
from fadiff_mapper.output.chrome_trace import TraceSlice, trace_json
from fadiff_mapper.output.drawing import (
    COLOURS,
    Dot,
    Drawing,
    Label,
    Rect,
    Shape,
    Stroke,
    axis_of,
    field,
    round_ticks,
    tint,
)
from fadiff_mapper.output.network_page import page_template
from fadiff_mapper.output.roofline import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, RooflinePoint, draw_roofline
from fadiff_mapper.output.run_files import versions
from fadiff_mapper.workload.coverage import folded_in_words

NAMES, ROW, BAR, VALUE = 176.0, 24.0, 12.0, 110.0  # pixels of the drawing of shares: names, a row, a bar, a number
COLUMNS = tuple(field.name for field in fields(OperatorShare) if field.name != "busy")  # of operators.csv
MOST_OPERATORS = 24  # operators in the table of the page; the CSV has all


def inference_files(result: InferenceResult) -> dict[str, str]:
    """Name -> text of every file.

    operators.csv has a row for each operator of each mapped step, with all its runs in layers of one kind. tokens.csv
    has a row for each generated token of each batch. trace.json shows the prefill and the last mapped step in time.
    """
    return {
        "operators.csv": csv_text(COLUMNS, ([getattr(share, name) for name in COLUMNS] for share in result.operators)),
        "tokens.csv": csv_text(("batch", "length", "seconds", "joules"), (
            (outcome.batch, *step) for outcome in result.batches for step in (
                (result.prompt, outcome.first_token_s, outcome.first_token_j), *outcome.steps))),
        "fadiff.inference.json": json_text(record(result)) + "\n", "trace.json": trace(result),
        "inference.html": inference_html(result)}


def record(result: InferenceResult) -> dict[str, Any]:
    """All numbers as plain values: seconds, joules and words of the whole batch."""
    return {
        "model": asdict(result.model) if isinstance(result.model, LanguageModel) else {"name": result.model.name},
        "design": result.design, "prompt": result.prompt, "generate": result.generate,
        "cycle_s": result.cycle_s, "versions": versions(), "folded_into_neighbours": result.folded, "fuse": result.fuse,
        "batches": [{
            "batch": outcome.batch, "time_to_first_token_s": outcome.first_token_s, "seconds": outcome.seconds,
            "time_per_token_s": outcome.further_token_s, "tokens_per_s": outcome.tokens_per_s,
            "joules_per_token": outcome.joules_per_token, "weight_words": outcome.weight_words,
            "cache_words": outcome.cache_words, "weights_in": outcome.weights_in, "cache_in": outcome.cache_in,
            "busy_s": {phase: result.busy(outcome.batch, phase) for phase in PHASES},
            "not_counted": dict(zip(("operators", "operations"), result.uncounted().get(outcome.batch, (0, 0)),
                                    strict=True)),
            **{f"by_{name}": {key: {"seconds": seconds, "joules": joules} for (key,), (
                seconds, joules) in result.shares(outcome.batch, name).items()} for name in (
                    "bound", "unit", "operator")}} for outcome in result.batches]}


def trace(result: InferenceResult) -> str:
    """The prefill and the last mapped step of every batch in Chrome's trace event format.

    A process is a batch, a row a unit; operators of all layers run in turn.
    """
    counts = {layers.name: layers.count for layers in result.model.layers}
    processes = {}
    for outcome in result.batches:
        slices, now = list[TraceSlice](), 0.0
        for phase in PHASES:
            every = [share for share in result.operators if (share.batch, share.phase) == (outcome.batch, phase)]
            last = max((share.length for share in every), default=0)
            own = [share for share in every if share.length == last]
            ends = [share for share in own if share.layers == "ends"]
            first = [share for share in ends if not share.operator.startswith("head")]
            order = [*((share, 1, "") for share in first), *(
                (share, count, f"{name} {index} ") for name, count in counts.items() for index in range(count)
                for share in own if share.layers == name), *((share, 1, "") for share in ends if share not in first)]
            for share, count, prefix in order:
                length = share.cycles / count * result.cycle_s * 1e6
                slices.append(TraceSlice(share.unit, f"{prefix}{share.operator}", phase, now, length, {
                    "kind": share.kind, "bound": share.bound, "pJ": share.energy_pj / count,
                    "multiply-accumulates": share.macs // count, "operations": share.operations // count}))
                now += length
        processes[outcome.batch] = f"batch {outcome.batch}", slices
    return trace_json(processes, time="seconds of the design's clock")


def _draw_curves(result: InferenceResult, curves: dict[int, list[tuple[int, float]]], unit: str,
                 title: str) -> Drawing | None:
    """A line for each batch over the length of the cache; None without further tokens."""
    if not all(curves.values()):
        return None
    low, high = result.prompt, result.prompt + result.generate
    y = axis_of([value for curve in curves.values() for _, value in curve], BOTTOM, TOP)
    scale = (RIGHT - LEFT) / (high - low)
    shapes = field(LEFT, RIGHT, y)
    shapes += [Label(LEFT + (tick - low) * scale, BOTTOM + 16, f"{tick:g}", "value", "middle")
               for tick in round_ticks(low, high)]
    shapes += [Label(RIGHT, BOTTOM + 34, "tokens before", "head", "end"), Label(4, TOP - 8, unit, "head")]
    for batch, curve in curves.items():
        points = [(LEFT + (length - low) * scale, y.at(value)) for length, value in curve]
        shapes.append(Stroke("M" + "L".join(f"{x:.1f} {at:.1f}" for x, at in points), "course"))
        (x, at), value = points[-1], curve[-1][1]
        shapes += [Dot(x, at, 3, "chosen", f"batch {batch}: {value:.4g} {unit}"),
                   Label(x + 8, at + 4, f"batch {batch}", "value")]
    return Drawing(WIDTH, HEIGHT, f"{title} over the length of the cache", tuple(shapes))


def draw_bounds(result: InferenceResult) -> tuple[Drawing, list[tuple[str, str]]]:
    """A bar for each phase of each batch, with the share of time that each unit and memory bounds; and the legend."""
    rows = [(f"batch {outcome.batch}, {phase}", {
        bound: seconds for (own, bound), (seconds, _) in result.shares(outcome.batch, "phase", "bound").items()
        if own == phase and seconds}) for outcome in result.batches for phase in PHASES]
    rows = [(name, parts) for name, parts in rows if parts]
    names = list(dict.fromkeys(name for _, parts in rows for name in parts))
    shapes: list[Shape] = []
    for row, (name, parts) in enumerate(rows):
        top, whole, at = row * ROW, sum(parts.values()), NAMES
        shapes.append(Label(NAMES - 12, top + 15, name, "name", "end"))
        for part, seconds in parts.items():
            length = seconds / whole * (WIDTH - NAMES - VALUE)
            shapes.append(Rect(at, top + (ROW - BAR) / 2, length, BAR, tint("part", names.index(part)),
                               f"{part}: {seconds / whole:.1%}"))
            at += length
        shapes.append(Label(at + 6, top + 15, f"{whole:.4g} s", "value"))
    legend = [(name, tint("part", index)) for index, name in enumerate(names)]
    return Drawing(WIDTH, len(rows) * ROW + 6, "what bounds the time", tuple(shapes)), legend


def inference_html(result: InferenceResult) -> str:
    """The page as text: HTML in which every number of the tables is in a `data` element with an exact `value`."""
    times = _draw_curves(result, {outcome.batch: [(length, 1e3 * seconds) for length, seconds, _ in outcome.steps]
                                  for outcome in result.batches}, "ms per token", "milliseconds per token")
    memory = _draw_curves(result, {outcome.batch: [
        (length, 1e-9 * (outcome.weight_words + cached_words(result.model, outcome.batch, length)))
        for length, *_ in outcome.steps] for outcome in result.batches}, "G words", "weights and cache in 10^9 words")
    products = [RooflinePoint(f"{share.operator}, {share.phase}, batch {share.batch}", share.macs,
                              share.outermost_words, share.cycles * result.cycle_s,
                              tint("group", share.phase == "decode")) for share in result.operators]
    bandwidth = result.words_per_cycle and result.words_per_cycle / result.cycle_s
    bounds, legend = draw_bounds(result)
    operators = [(outcome, list(result.shares(outcome.batch, "phase", "operator", "unit").items())[:MOST_OPERATORS])
                 for outcome in result.batches]
    return page_template("inference.html.jinja").render(
        result=result, versions=versions(), colours=COLOURS, times=times, memory=memory,
        roofline=draw_roofline(products, result.macs_per_cycle / result.cycle_s, bandwidth, "s"),
        bounds=bounds, legend=legend, operators=operators, uncounted=result.uncounted(),
        folded=folded_in_words(result.folded))
