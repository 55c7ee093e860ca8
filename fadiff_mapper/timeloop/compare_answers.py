"""Compares an evaluation with the answer of `timeloop-model`, number by number.

Counts must be equal. Energies agree to 1e-9, as sums may be taken in another order. A few numbers Timeloop only prints
with two decimals; they are compared with the slack that this leaves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from fadiff_mapper.model.exact.stats import Stats

TWO_DECIMALS = 0.00501
"""Largest distance between a number and its print with two decimals, with a little for the rounding of halves."""

PRINTED = ("ingresses", "link_transfers", "spatial_reductions", "leakage_energy_pj", "energy_uj",
           "utilization_percent")
"""Numbers that are known with two decimals only."""

WITH_LEAKAGE = ("energy_pj_total", "energy_pj")
"""Energies that contain leakages, one of two decimals for each level."""


def compared(stats: Stats) -> dict[str, Any]:
    """The statistics in the form of an answer, with energy and utilization of the summary not rounded."""
    exact = {"energy_uj": stats.energy_pj / 1e6, "utilization_percent": stats.utilization * 100}
    return stats.to_dict() | {"printed": stats.printed() | exact}


def differences(want: Any, ours: Any, name: str = "", path: str = "") -> Iterator[str]:
    """Compares an evaluation with an answer of Timeloop, recursively.

    Whole numbers must be equal, others to 1e-9, those that Timeloop prints with two decimals to these. Levels,
    networks and data spaces must be the same ones.

    Args:
        want: The answer, or a part of it: nested dicts and lists of numbers and names.
        ours: The evaluation, or the same part of it (see `compared`); numbers beyond the answer's are left out.
        name: The key of the part.
        path: The keys down to the part, for the lines.

    Returns:
        One line for every number of the answer that the evaluation does not give.
    """
    if isinstance(ours, dict) and not isinstance(want, dict):
        # Densities without optimizations change no number, and Timeloop prints the dense form, one for all kinds.
        ours = ours["actual"]
    if isinstance(want, dict):
        if name == "dataspaces" and want.keys() != ours.keys():
            yield f"{path}: {sorted(ours)} instead of {sorted(want)}"
        for key in (key for key in want if key in ours):
            yield from differences(want[key], ours[key], key, f"{path}.{key}" if path else key)
        if name != "dataspaces":
            yield from (f"{path}.{key}: missing" for key in want.keys() - ours.keys())
    elif isinstance(want, list):
        if len(want) != len(ours):
            yield f"{path}: {ours} instead of {want}"
        for i, (item, own) in enumerate(zip(want, ours, strict=False)):
            yield from differences(item, own, name, f"{path}[{_label(item, i)}]")
    elif want != ours if isinstance(want, str) else not _close(name, want, ours):
        yield f"{path}: {ours} instead of {want}"


def numbers(answer: Any) -> int:
    """The number of numbers in an answer."""
    if isinstance(answer, dict | list):
        return sum(numbers(item) for item in (answer.values() if isinstance(answer, dict) else answer))
    return not isinstance(answer, str)


def _label(item: Any, index: int) -> str:
    """The name of an entry of a list, else its index."""
    return str(item.get("name", index)) if isinstance(item, dict) else str(index)


def _close(name: str, want: float, ours: float) -> bool:
    """Whether two numbers agree as far as Timeloop's is known."""
    if isinstance(want, int) and name not in PRINTED:
        return want == ours
    slack = TWO_DECIMALS if name in PRINTED else 10 * TWO_DECIMALS if name in WITH_LEAKAGE else 1e-12
    return math.isclose(want, ours, rel_tol=1e-9, abs_tol=slack)
