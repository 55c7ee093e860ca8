"""How far a found value can be from the best possible one, in numbers and in a sentence."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from fadiff_mapper.analysis.lower_bound.assemble import BoundPart, LowerBound

WRITTEN = {"edp": "EDP", "energy": "energy", "delay": "delay", "last_level_accesses": "last level accesses"}


def gap(bound: LowerBound, metric: str, value: float) -> float | None:
    """value / bound - 1, None where the bound is 0."""
    least = bound.of(metric)
    return value / least - 1 if least > 0 else None


def sentence(bound: LowerBound | None, metric: str, value: float) -> str:
    """What is certain about a found value of a metric; a percentage is rounded up."""
    above = gap(bound, metric, value) if bound else None
    if bound is None or above is None:
        return f"no lower bound on {WRITTEN[metric]} is known for this problem"
    percent = math.ceil(max(above, 0.0) * 1e4) / 100
    return f"{WRITTEN[metric]} is at most {percent:g} % above the best possible; bound: {binding(bound, metric)}"


def binding(bound: LowerBound, metric: str) -> str:
    """What the bound on a metric consists of for the most part."""
    def of(kind: str) -> list[BoundPart]:
        return sorted((part for part in bound.parts if part.metric == kind), key=lambda part: -part.value)
    if metric == "last_level_accesses":
        return "words that must cross the outermost boundary"
    energies = of("energy")
    whole = sum(part.value for part in energies) or 1.0
    time = f"time: {of('delay')[0].source}"
    energy = "energy: " + ", ".join(f"{part.where} {part.value / whole:.0%}" for part in energies[:3])
    return {"edp": f"{time}; {energy}", "energy": energy, "delay": time}[metric]


def bound_record(bound: LowerBound | None, metric: str, value: float) -> dict[str, Any] | None:
    """The bound for other programs: value and gap of the metric, all four values, the sentence, and the parts."""
    if bound is None:
        return None
    return {"metric": metric, "value": bound.of(metric), "gap": gap(bound, metric, value),
            "sentence": sentence(bound, metric, value),
            **{name: bound.of(name) for name in WRITTEN}, "parts": [asdict(part) for part in bound.parts]}
