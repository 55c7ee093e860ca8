"""The gap between a value that a search reached and the best possible one, in numbers and in a sentence."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from fadiff_mapper.analysis.lower_bound.assemble import BoundPart, LowerBound

METRIC_NAMES = {"edp": "EDP", "energy": "energy", "delay": "delay", "last_level_accesses": "last level accesses"}


def gap(bound: LowerBound, metric: str, value: float) -> float | None:
    """The share by which a value can be above the best possible one.

    Args:
        bound: The lower bound.
        metric: The metric.
        value: A value of it, that of a legal mapping.

    Returns:
        value / bound - 1; None where the bound is 0.
    """
    least = bound.of(metric)
    return value / least - 1 if least > 0 else None


def sentence(bound: LowerBound | None, metric: str, value: float) -> str:
    """States what is proven about a value of a metric; the percentage is rounded up.

    Args:
        bound: The lower bound; None where none is known.
        metric: The metric.
        value: A value of it, that of a legal mapping.
    """
    above = gap(bound, metric, value) if bound else None
    if bound is None or above is None:
        return f"no lower bound on {METRIC_NAMES[metric]} is known for this problem"
    percent = math.ceil(max(above, 0.0) * 1e4) / 100
    return f"{METRIC_NAMES[metric]} is at most {percent:g} % above the best possible; bound: {binding(bound, metric)}"


def binding(bound: LowerBound, metric: str) -> str:
    """The largest parts of the bound on a metric, in words."""
    def largest_first(quantity: str) -> list[BoundPart]:
        return sorted((part for part in bound.parts if part.metric == quantity), key=lambda part: -part.value)
    if metric == "last_level_accesses":
        return "words that must cross the outermost boundary"
    energies = largest_first("energy")
    whole = sum(part.value for part in energies) or 1.0
    time = f"time: {largest_first('delay')[0].source}"
    energy = "energy: " + ", ".join(f"{part.where} {part.value / whole:.0%}" for part in energies[:3])
    return {"edp": f"{time}; {energy}", "energy": energy, "delay": time}[metric]


def bound_record(bound: LowerBound | None, metric: str, value: float) -> dict[str, Any] | None:
    """The bound as a plain dict, for other programs.

    Args:
        bound: The lower bound; None where none is known.
        metric: The metric that was minimised.
        value: The value that was reached.

    Returns:
        Bound and gap of the metric, the sentence, the bounds on all four metrics, and the parts; None without a bound.
    """
    if bound is None:
        return None
    return {"metric": metric, "value": bound.of(metric), "gap": gap(bound, metric, value),
            "sentence": sentence(bound, metric, value),
            **{name: bound.of(name) for name in METRIC_NAMES}, "parts": [asdict(part) for part in bound.parts]}
