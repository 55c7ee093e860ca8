"""How near predicted access counts, cycles and energies are to the measured ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .models import ACTIONS, MODELS, AnsweredTask, Numbers


@dataclass(frozen=True)
class AccessAccuracy:
    """One kind of access under one model: `accuracy` (mean and worst over the mappings that have such accesses) and
    the share of those mappings in which the count is right to the word. `modelled`: the model ever predicts one."""

    model: str
    design: str
    operator: str
    level: str
    tensor: str
    action: str
    mappings: int
    accuracy: float
    worst: float
    exact: float
    modelled: bool


@dataclass(frozen=True)
class Error:
    """Relative errors, mean and worst."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Worst:
    """One count that a model gets badly wrong: where, and by how much. `row` is the mapping's place in its batch."""

    model: str
    batch: AnsweredTask
    row: int
    level: str
    tensor: str
    action: str
    measured: float
    predicted: float
    accuracy: float


def accuracy(measured: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """1 - |predicted - measured| / measured, not below 0, elementwise.

    Where nothing is measured: 0 if something is predicted, and not a number if nothing is.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found: np.ndarray = np.maximum(0.0, 1 - np.abs(predicted - measured) / measured)
    return np.where(measured > 0, found, np.where(predicted > 0, 0.0, np.nan))


def right(measured: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Whether counts are equal once whole: Timeloop rounds, the differentiable models do not."""
    close: np.ndarray = np.abs(predicted - measured) < 1
    return close


def cells(batches: Sequence[AnsweredTask]) -> list[AccessAccuracy]:
    """Every kind of access that occurs, under every model."""
    return [cell for batch in batches for model in MODELS for cell in _cells(batch, model)]


def _cells(batch: AnsweredTask, model: str) -> Iterator[AccessAccuracy]:
    measured, predicted = batch.measured.counts, batch.predicted[model].counts
    near, equal = accuracy(measured, predicted), right(measured, predicted)
    for action, level, tensor in np.ndindex(measured.shape[:3]):
        values = near[action, level, tensor]
        there = ~np.isnan(values)
        if there.any():
            yield AccessAccuracy(model, batch.task.design, batch.task.operator, batch.task.spec.arch.levels[level].name,
                                 batch.task.dataspaces[tensor], ACTIONS[action], int(there.sum()),
                                 float(values[there].mean()),
                                 float(values[there].min()), float(equal[action, level, tensor][there].mean()),
                                 bool(predicted[action, level, tensor].any()))


def total(cells: Sequence[AccessAccuracy]) -> tuple[float, float, float]:
    """(mean accuracy, worst single count, share of exact counts) over all counts of some cells."""
    counts = np.array([cell.mappings for cell in cells], dtype=np.float64)
    means, exact = (np.array([getattr(cell, name) for cell in cells]) for name in ("accuracy", "exact"))
    return (float((means * counts).sum() / counts.sum()), min(cell.worst for cell in cells),
            float((exact * counts).sum() / counts.sum()))


def relative(measured: np.ndarray, predicted: np.ndarray) -> Error:
    """Of values that are greater than 0."""
    off = np.abs(predicted - measured) / measured
    return Error(float(off.mean()), float(off.max()))


def level_errors(batches: Sequence[AnsweredTask], model: str) -> dict[tuple[str, str], float]:
    """(design, level) -> error of the energy of a level's accesses, over all mappings, relative to their sum."""
    sums: dict[tuple[str, str], list[float]] = {}
    for batch in batches:
        off = np.abs(batch.predicted[model].level_energy - batch.measured.level_energy).sum(axis=1)
        for level, wrong, right_sum in zip(batch.task.spec.arch.levels, off, batch.measured.level_energy.sum(axis=1),
                                           strict=True):
            found = sums.setdefault((batch.task.design, level.name), [0.0, 0.0])
            found[0] += float(wrong)
            found[1] += float(right_sum)
    return {key: wrong / whole for key, (wrong, whole) in sums.items() if whole}


def worst(batches: Sequence[AnsweredTask], model: str, count: int) -> list[Worst]:
    """The counts that a model gets most wrong by their ratio to the measured ones, one per layer.

    Kinds of access that it does not model at all are left out.
    """
    found = [max(items, key=_ratio) for batch in batches if (items := list(_worst(batch, model)))]
    return sorted(found, key=lambda item: -_ratio(item))[:count]


def _worst(batch: AnsweredTask, model: str) -> Iterator[Worst]:
    measured, predicted = batch.measured.counts, batch.predicted[model].counts
    factor = np.abs(np.log((predicted + 1) / (measured + 1)))
    for action, level, tensor in np.ndindex(measured.shape[:3]):
        row = int(np.argmax(factor[action, level, tensor]))
        at = action, level, tensor, row
        if predicted[action, level, tensor].any() and not right(measured[at], predicted[at]):
            yield Worst(model, batch, row, batch.task.spec.arch.levels[level].name, batch.task.dataspaces[tensor],
                        ACTIONS[action], float(measured[at]), float(predicted[at]),
                        float(accuracy(measured[at], predicted[at])))


def _ratio(item: Worst) -> float:
    return abs(float(np.log((item.predicted + 1) / (item.measured + 1))))


def pooled(batches: Sequence[AnsweredTask], model: str | None, quantity: str) -> np.ndarray:
    """`cycles` or `energy` of all mappings, measured (None) or predicted."""
    def one(batch: AnsweredTask) -> Numbers:
        return batch.measured if model is None else batch.predicted[model]

    return np.concatenate([getattr(one(batch), quantity) for batch in batches])
