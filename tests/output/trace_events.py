"""A reader of Chrome's trace event format (JSON object form, complete and metadata events) that refuses what a viewer
could not draw, or Perfetto would drop or put elsewhere: source of the rules is Google's "Trace Event Format", and what
Perfetto 52 made of traces that break the others."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slice:
    """A complete event."""

    process: str
    row: str
    name: str
    category: str
    start: float
    length: float
    details: dict[str, Any]


def loaded(text: str) -> list[Slice]:
    """The slices of a trace in the order of the file. Raises AssertionError with the event for each broken rule."""
    document = json.loads(text, parse_constant=lambda value: AssertionError(value))
    assert set(document) <= {"traceEvents", "displayTimeUnit", "otherData", "systemTraceEvents", "metadata"}
    assert document["displayTimeUnit"] in ("ms", "ns")
    processes: dict[int, str] = {}
    rows: dict[tuple[int, int], str] = {}
    slices: list[Slice] = []
    ends: defaultdict[tuple[int, int], int] = defaultdict(int)     # nanoseconds
    for event in document["traceEvents"]:
        place = event["pid"], event["tid"]
        assert all(type(number) is int for number in place), event
        assert isinstance(event["name"], str) and event["name"], event
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name"), event
            if event["name"] == "process_name":
                assert event["pid"] not in processes, event
                processes[event["pid"]] = event["args"]["name"]
            else:
                # thread 0 and that of the process's number are its main thread
                assert event["tid"] not in {0, *processes, *(thread for _, thread in rows)}, event
                rows[place] = event["args"]["name"]
            continue
        assert event["ph"] == "X", event
        start, length = event["ts"], event["dur"]
        assert all(isinstance(number, int | float) and math.isfinite(number) for number in (start, length)), event
        begin, time = round(1000 * start), round(1000 * length)
        assert (begin / 1000, time / 1000) == (start, length), ("no whole nanoseconds", event)
        assert begin >= ends[place] and time >= 0, ("overlaps the slice before", event)
        ends[place] = begin + time
        slices.append(Slice(processes[event["pid"]], rows[place], event["name"], event["cat"], start, length,
                            event["args"]))
    assert slices
    return slices
