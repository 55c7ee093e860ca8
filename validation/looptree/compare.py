"""Fused mappings beside LoopTree: every number that a recording has, field by field.

`recorded/looptree.jsonl.gz` has one JSON object per line: a `tool`, then `case`s with LoopTree's `input` (YAML), the
`result` (accesses and occupancy by component, tensor and layer) and `known_issue`: an inconsistency in LoopTree's own
numbers, or null.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .evaluate_fused import evaluate_fused

RECORDED = Path(__file__).parents[1] / "recorded" / "looptree.jsonl.gz"

FIELDS = {"ops": "operations, with recomputation", "compute_steps": "time steps", "occupancy_max": "largest occupancy",
          "capacity_peak_words": "words that a level must hold", "energy_pJ": "energy"}
"""Fields of a result other than accesses -> their names in the report."""


@dataclass(frozen=True)
class MatchedShare:
    """Numbers of one field that our model gives as LoopTree does.

    Attributes:
        field: Name of the field in the report.
        cases: Recorded mappings that have such numbers.
        numbers: LoopTree's numbers.
        equal: How many of them are ours, too.
    """

    field: str
    cases: int
    numbers: int
    equal: int


@dataclass(frozen=True)
class Comparison:
    """All recorded mappings compared.

    Attributes:
        version: The version of LoopTree.
        shares: Equal numbers by field.
        differences: A line for each number that differs, with the case, the number and both values.
    """

    version: str
    shares: tuple[MatchedShare, ...]
    differences: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The comparison as JSON values."""
        return asdict(self)


def recorded(path: Path = RECORDED) -> tuple[str, list[dict[str, Any]]]:
    """The version of LoopTree that was recorded, and the cases."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        tool, *cases = [json.loads(line) for line in file]
    return tool["version"], cases


def compare(version: str, cases: Sequence[dict[str, Any]]) -> Comparison:
    """Evaluates every case and compares all its numbers.

    Args:
        version: The version of LoopTree.
        cases: Entries of the recording.
    """
    results = [(case["name"], list(numbers(case["result"])), dict(numbers(evaluate_fused(case["input"]).to_dict())))
               for case in cases]
    rows = [(name, field, at, value, ours.get((field, at))) for name, theirs, ours in results
            for (field, at), value in theirs]
    shares = []
    for field in dict.fromkeys(row[1] for row in rows):
        part = [row for row in rows if row[1] == field]
        shares.append(MatchedShare(field, len({row[0] for row in part}), len(part),
                                   sum(same(*row[3:]) for row in part)))
    return Comparison(version, tuple(shares), tuple(
        f"{name}: {field}, {at}: LoopTree {value:,}, ours {'nothing' if ours is None else f'{ours:,}'}"
        for name, field, at, value, ours in rows if not same(value, ours)))


def same(theirs: float, ours: float | None) -> bool:
    """Whether two numbers are equal to 1e-12 of their value.

    Energies may be summed up in another order. Counts are far below 10^12, so for counts this is equality.
    """
    return ours is not None and math.isclose(theirs, ours, rel_tol=1e-12)


def numbers(result: dict[str, Any]) -> Iterator[tuple[tuple[str, str], float]]:
    """((field, key within the field), number) for all numbers of a result, accesses by level."""
    for path, count in result["accesses"].items():
        level, tensor_and_layer = path.split("/", 1)
        for action in ("reads", "writes"):
            yield (f"accesses of {level}", f"{tensor_and_layer} {action}"), count[action]
    for key, field in FIELDS.items():
        for at, value in result[key].items():
            yield (field, at), value
