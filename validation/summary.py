"""All measures of a run in one value, and as plain data for JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from .accuracy import AccessAccuracy, Error, Worst, cells, level_errors, pooled, relative, total, worst
from .models import MODELS, AnsweredTask, Check
from .questions import KINDS
from .ranking import RESAMPLES, Ranking, ranking
from .tasks import ModelTask

QUANTITIES = ("cycles", "energy")


@dataclass(frozen=True)
class Stated:
    """What a paper states for its model: access-count accuracy, and (tau, rho) of cycles and of energy."""

    accuracy: float
    cycles: tuple[float, float]
    energy: tuple[float, float]


PAPER = Stated(0.96, (1.0, 1.0), (0.7804, 0.9218))
"""FADiff, section 4.2."""

WORST = 10


@dataclass(frozen=True)
class Row:
    """One model over some mappings: access counts, errors and rankings of cycles and energy.

    `modelled` is the mean accuracy over the kinds of access that the model knows at all.
    """

    model: str
    group: str
    mappings: int
    accuracy: float
    modelled: float
    worst: float
    exact: float
    errors: dict[str, Error]
    rankings: dict[str, Ranking]


@dataclass(frozen=True)
class Summary:
    """`overall` has a row per model, `by_kind`, `by_operator`, `by_design` and `by_layer` one per model and group."""

    overall: tuple[Row, ...]
    by_kind: tuple[Row, ...]
    by_operator: tuple[Row, ...]
    by_design: tuple[Row, ...]
    by_layer: tuple[Row, ...]
    cells: tuple[AccessAccuracy, ...]
    levels: dict[str, dict[tuple[str, str], float]]
    worst: tuple[Worst, ...]
    check: Check


def summarize(batches: Sequence[AnsweredTask], check: Check, resamples: int = RESAMPLES) -> Summary:
    """Everything that the report shows. There must be at least one batch. `resamples`: see `ranking`."""
    kinds = {kind: [part for batch in batches if (part := of_kind(batch, kind))] for kind in KINDS}
    return Summary(
        overall=rows({"all mappings": list(batches)}, resamples),
        by_kind=rows({kind: parts for kind, parts in kinds.items() if parts}, resamples),
        by_operator=rows(_grouped(batches, lambda task: task.operator), resamples),
        by_design=rows(_grouped(batches, lambda task: task.design), resamples),
        by_layer=rows(_grouped(batches, lambda task: task.name), resamples),
        cells=tuple(cells(batches)), levels={model: level_errors(batches, model) for model in MODELS},
        worst=tuple(item for model in MODELS for item in worst(batches, model, WORST)), check=check)


def _grouped(batches: Sequence[AnsweredTask], label: Callable[[ModelTask], str]) -> dict[str, list[AnsweredTask]]:
    labels = dict.fromkeys(label(batch.task) for batch in batches)
    return {name: [batch for batch in batches if label(batch.task) == name] for name in labels}


def rows(groups: dict[str, list[AnsweredTask]], resamples: int) -> tuple[Row, ...]:
    """A row per group and model."""
    return tuple(row(model, name, batches, resamples) for name, batches in groups.items() for model in MODELS)


def row(model: str, group: str, batches: Sequence[AnsweredTask], resamples: int = RESAMPLES) -> Row:
    """One model over all mappings of some batches."""
    found = [cell for cell in cells(batches) if cell.model == model]
    near, (modelled, _, _) = total(found), total([cell for cell in found if cell.modelled])
    pairs = {name: (pooled(batches, None, name), pooled(batches, model, name)) for name in QUANTITIES}
    return Row(model, group, len(pairs["cycles"][0]), near[0], modelled, *near[1:],
               {name: relative(*pair) for name, pair in pairs.items()},
               {name: ranking(*pair, resamples) for name, pair in pairs.items()})


def of_kind(batch: AnsweredTask, kind: str) -> AnsweredTask | None:
    """The part of a batch with mappings of one kind, or None."""
    rows = np.flatnonzero([question.kind == kind for question in batch.questions])
    if not len(rows):
        return None

    def part(numbers: Any) -> Any:
        return type(numbers)(*(getattr(numbers, name)[..., rows] for name in type(numbers).__dataclass_fields__))

    return AnsweredTask(batch.task, tuple(batch.questions[row] for row in rows), part(batch.measured),
                        {name: part(numbers) for name, numbers in batch.predicted.items()})


def plain(summary: Summary) -> dict[str, Any]:
    """The summary as JSON values."""
    groups = ("overall", "by_kind", "by_operator", "by_design", "by_layer")
    return {
        "paper": asdict(PAPER),
        **{name: [asdict(found) for found in getattr(summary, name)] for name in groups},
        "levels": {model: [{"design": design, "level": level, "energy_error": error}
                           for (design, level), error in found.items()] for model, found in summary.levels.items()},
        "worst": [{"model": item.model, "layer": item.batch.task.name, "kind": item.batch.questions[item.row].kind,
                   "level": item.level, "tensor": item.tensor, "action": item.action, "measured": item.measured,
                   "predicted": item.predicted} for item in summary.worst],
        "numbers_compared": summary.check.numbers, "disagreements": list(summary.check.disagreements)}
