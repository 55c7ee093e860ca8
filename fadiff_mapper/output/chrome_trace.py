"""Schedules in Chrome's trace event format, which Perfetto and chrome://tracing open.

Source of the format: Trace Event Format (Google), "Complete Events" and "Metadata Events".
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.inputs.native.arch import cycle_seconds
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.layer_views import layer_views

GROUPS = "fused groups"  # the row of a plan's trace in which each group is one slice


@dataclass(frozen=True)
class TraceSlice:
    """A piece of work on one row of a trace."""

    row: str  # the unit that works, such as a compute unit
    name: str
    category: str
    start: float  # microseconds
    length: float  # microseconds
    details: Mapping[str, Any] = field(default_factory=dict)  # shown when a user selects the slice


def trace_json(processes: Mapping[int, tuple[str, Sequence[TraceSlice]]], **about: str) -> str:
    """The text of a trace: number of a process -> its name and slices; `about` are sentences on the whole.

    The slices of one row must not overlap. Times are rounded to whole nanoseconds, because Perfetto drops slices that
    overlap by less. Rows are threads, numbered from above the processes: Perfetto takes thread 0, and a thread with its
    process's number, for the process's main thread.
    """
    events: list[dict[str, Any]] = []
    numbers = itertools.count(max(processes, default=0) + 1)
    for process, (title, slices) in processes.items():
        rows = {row: next(numbers) for row in dict.fromkeys(own.row for own in slices)}
        named = [("process_name", process, title), *(("thread_name", number, row) for row, number in rows.items())]
        events += [{"name": kind, "ph": "M", "pid": process, "tid": row, "args": {"name": name}}
                   for kind, row, name in named]
        ends = dict.fromkeys(rows, 0)   # nanoseconds
        for own in sorted(slices, key=lambda own: own.start):
            start = max(round(1000 * own.start), ends[own.row])
            ends[own.row] = max(round(1000 * (own.start + own.length)), start)
            events.append({"name": own.name, "cat": own.category, "ph": "X", "ts": start / 1000,
                           "dur": (ends[own.row] - start) / 1000, "pid": process, "tid": rows[own.row],
                           "args": dict(own.details)})
    return json_text({"displayTimeUnit": "ms", "otherData": about, "traceEvents": events}) + "\n"


def plan_trace(result: NetworkResult) -> str:
    """The trace of a plan: a row for the multiply-accumulators, each compute unit, and the fused groups.

    Unfused layers, groups and operators run one after the other, in the order of the network. Each layer and operator
    of a group is one slice, although they take turns tile by tile. These slices follow one another or, in a group whose
    units work side by side, start together. Without a clock in the design a microsecond stands for a cycle.
    """
    spec, outermost = result.layers[0].result.spec, result.hardware.arch.levels[-1].name
    clock = cycle_seconds(spec.arch, spec.literal)
    scale, array = (clock or 1e-6) * 1e6, result.hardware.arch.arithmetic.name
    work: dict[str, tuple[int | None, str, float, dict[str, Any]]] = {  # group, row, cycles and details by node
        view.name: (view.group, array, view.planned.cycles, {
            "kind": view.op, "pJ": view.planned.energy_pj, "multiply-accumulates": view.macs})
        for view in layer_views(result)}
    work |= {own.node: (own.group, own.unit, own.cycles, {"kind": own.op, "pJ": own.energy_pj, "bound": own.bound})
             for own in result.operators}
    order = [node.name for node in result.workload.nodes if node.name in work]
    slices, now, drawn = list[TraceSlice](), 0.0, set[int]()
    for name in order:
        number, row, cycles, details = work[name]
        if number is None:
            slices.append(TraceSlice(row, name, "by itself", now * scale, cycles * scale, details))
            now += cycles
        elif number not in drawn:
            drawn.add(number)
            outcome = result.groups[number - 1]
            slices.append(TraceSlice(GROUPS, f"group {number}", "group", now * scale, outcome.cost.cycles * scale, {
                "layers": len(outcome.nodes), "pJ": outcome.cost.energy_pj, "bound": outcome.cost.bound}))
            at: dict[str, float] = {}
            for own in order:
                if work[own][0] == number:
                    _, row, cycles, details = work[own]
                    key = row if outcome.group.side_by_side else ""
                    start = at.get(key, now)
                    slices.append(TraceSlice(row, own, f"group {number}", start * scale, cycles * scale, details))
                    at[key] = start + cycles
            now += outcome.cost.cycles
    if not result.operators and result.planned_joined.cycles:
        slices.append(TraceSlice(outermost, "operands that sums and products read besides", "by itself", now * scale,
                                 result.planned_joined.cycles * scale, {"pJ": result.planned_joined.energy_pj}))
    return trace_json({1: (f"{result.workload.name} on {result.design}", slices)},
                      time="seconds of the design's clock" if clock else "a microsecond stands for a cycle")
