"""Compares an evaluation with the answer of `timeloop-model`, number by number."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fadiff_mapper.model.exact.stats import Stats

TWO_DECIMALS = 0.00501
"""What a number that Timeloop prints with two decimals can be off by."""
PRINTED = ("ingresses", "link_transfers", "spatial_reductions", "leakage_energy_pj", "energy_uj",
           "utilization_percent")
WITH_LEAKAGE = ("energy_pj_total", "energy_pj")


def compared(stats: Stats) -> dict[str, Any]:
    """The statistics as an answer is compared with them: energy and utilization of the summary not rounded."""
    exact = {"energy_uj": stats.energy_pj / 1e6, "utilization_percent": stats.utilization * 100}
    return stats.to_dict() | {"printed": stats.printed() | exact}


def differences(want: Any, found: Any, name: str = "", path: str = "") -> Iterator[str]:
    """Every number of `want`, an answer of Timeloop, that `found` does not give, each as one line.

    Whole numbers must be equal, others to 1e-9, those that Timeloop prints with two decimals to these. Levels,
    networks and data spaces must be the same ones.
    """
    if isinstance(want, dict):
        if name == "dataspaces" and want.keys() != found.keys():
            yield f"{path}: {sorted(found)} instead of {sorted(want)}"
        for key in (key for key in want if key in found):
            yield from differences(want[key], found[key], key, f"{path}.{key}" if path else key)
        if name != "dataspaces":
            yield from (f"{path}.{key}: missing" for key in want.keys() - found.keys())
    elif isinstance(want, list):
        if len(want) != len(found):
            yield f"{path}: {found} instead of {want}"
        for i, (one, other) in enumerate(zip(want, found, strict=False)):
            yield from differences(one, other, name, f"{path}[{_label(one, i)}]")
    elif want != found if isinstance(want, str) else not _close(name, want, found):
        yield f"{path}: {found} instead of {want}"


def numbers(answer: Any) -> int:
    """How many numbers an answer has."""
    if isinstance(answer, dict | list):
        return sum(numbers(item) for item in (answer.values() if isinstance(answer, dict) else answer))
    return not isinstance(answer, str)


def _label(item: Any, index: int) -> str:
    return str(item.get("name", index)) if isinstance(item, dict) else str(index)


def _close(name: str, want: float, found: float) -> bool:
    if isinstance(want, int) and name not in PRINTED:
        return want == found
    slack = TWO_DECIMALS if name in PRINTED else 10 * TWO_DECIMALS if name in WITH_LEAKAGE else 1e-12
    return math.isclose(want, found, rel_tol=1e-9, abs_tol=slack)
