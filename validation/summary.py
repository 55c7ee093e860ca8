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
    """Figures that a paper states for its model.

    Attributes:
        accuracy: Mean accuracy of access counts.
        cycles: (tau, rho) of the ranking by cycles.
        energy: (tau, rho) of the ranking by energy.
    """

    accuracy: float
    cycles: tuple[float, float]
    energy: tuple[float, float]


PAPER = Stated(0.96, (1.0, 1.0), (0.7804, 0.9218))
"""FADiff, section 4.2."""

WORST = 10
"""Counts that are listed for each model: as many as a reader can look into; nothing was measured."""


@dataclass(frozen=True)
class Row:
    """One model over the mappings of a group.

    Attributes:
        model: A key of `MODELS`.
        group: Name of the group: an operator, a design, a layer, a kind of mapping, or all mappings.
        mappings: Mappings in the group.
        accuracy: Mean accuracy over all access counts.
        modelled: Mean accuracy over the kinds of access that the model knows at all.
        worst: Accuracy of the worst count.
        exact: Share of counts that are right to the word.
        errors: Quantity (`QUANTITIES`) -> relative errors.
        rankings: Quantity -> rank correlations with Timeloop.
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
    """All measures of a run.

    Attributes:
        overall: A row per model, over all mappings.
        by_kind: Rows per kind of mapping and model.
        by_operator: Rows per operator and model.
        by_design: Rows per design and model.
        by_layer: Rows per design, operator and model.
        cells: Accuracy of every kind of access.
        levels: Model -> (design, level) -> relative error of the level's energy.
        worst: The counts that each model gets most wrong.
        check: The exact model against every number.
    """

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
    """Measures everything that the report shows.

    Args:
        batches: At least one task with its accepted mappings.
        check: The exact model against every number.
        resamples: Bootstrap samples of every interval, see `ranking`.
    """
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
    """A row per group and model; `groups` maps a name to the batches of a group."""
    return tuple(row(model, name, batches, resamples) for name, batches in groups.items() for model in MODELS)


def row(model: str, group: str, batches: Sequence[AnsweredTask], resamples: int = RESAMPLES) -> Row:
    """One model over all mappings of some batches.

    Args:
        model: A key of `MODELS`.
        group: Name of the row.
        batches: At least one batch.
        resamples: Bootstrap samples of every interval.
    """
    own_cells = [cell for cell in cells(batches) if cell.model == model]
    all_counts, (modelled, _, _) = total(own_cells), total([cell for cell in own_cells if cell.modelled])
    pairs = {name: (pooled(batches, None, name), pooled(batches, model, name)) for name in QUANTITIES}
    return Row(model, group, len(pairs["cycles"][0]), all_counts[0], modelled, *all_counts[1:],
               {name: relative(*pair) for name, pair in pairs.items()},
               {name: ranking(*pair, resamples) for name, pair in pairs.items()})


def of_kind(batch: AnsweredTask, kind: str) -> AnsweredTask | None:
    """The part of a batch with mappings of one kind (a key of `KINDS`), or None where there are none."""
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
        **{name: [asdict(entry) for entry in getattr(summary, name)] for name in groups},
        "levels": {model: [{"design": design, "level": level, "energy_error": error}
                           for (design, level), error in errors.items()] for model, errors in summary.levels.items()},
        "worst": [{"model": item.model, "layer": item.batch.task.name, "kind": item.batch.questions[item.row].kind,
                   "level": item.level, "tensor": item.tensor, "action": item.action, "measured": item.measured,
                   "predicted": item.predicted} for item in summary.worst],
        "numbers_compared": summary.check.numbers, "disagreements": list(summary.check.disagreements)}
