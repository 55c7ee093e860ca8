"""How near predicted access counts, cycles and energies are to the measured ones.

Measured means: as Timeloop says. Accuracy of a count is 1 - |predicted - measured| / measured, as FADiff's section 4.2
states it for its own model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .models import ACTIONS, MODELS, AnsweredTask, Numbers


@dataclass(frozen=True)
class AccessAccuracy:
    """One kind of access of one layer under one model, over the mappings that have such accesses.

    Attributes:
        model: A key of `MODELS`.
        design: The architecture.
        operator: The layer.
        level: The storage level.
        tensor: The data space.
        action: One of `ACTIONS`.
        mappings: How many mappings have such accesses.
        accuracy: Mean accuracy over these mappings.
        worst: Lowest accuracy among them.
        exact: Share of them in which the count is right to the word.
        modelled: Whether the model predicts such an access in any mapping.
    """

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
    """Relative errors over some mappings: mean and worst."""

    mean: float
    worst: float


@dataclass(frozen=True)
class Worst:
    """One count that a model gets badly wrong.

    Attributes:
        model: A key of `MODELS`.
        batch: The layer's mappings.
        row: Index of the mapping in the batch.
        level: The storage level.
        tensor: The data space.
        action: One of `ACTIONS`.
        measured: Timeloop's count in words per instance.
        predicted: The model's count.
        accuracy: Accuracy of the count.
    """

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
    """Accuracy of counts, elementwise: 1 - |predicted - measured| / measured, not below 0.

    Args:
        measured: Counts of any shape, not negative.
        predicted: Counts of the same shape.

    Returns:
        Accuracies of that shape. If nothing is measured, the accuracy of a positive prediction is 0, and that of no
        prediction is not a number, so that averages pass over it.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        relative: np.ndarray = np.maximum(0.0, 1 - np.abs(predicted - measured) / measured)
    return np.where(measured > 0, relative, np.where(predicted > 0, 0.0, np.nan))


def right(measured: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Whether counts are equal once whole, elementwise: Timeloop rounds, the differentiable models do not."""
    close: np.ndarray = np.abs(predicted - measured) < 1
    return close


def cells(batches: Sequence[AnsweredTask]) -> list[AccessAccuracy]:
    """A cell for every kind of access that occurs, batch by batch, under every model."""
    return [cell for batch in batches for model in MODELS for cell in _cells(batch, model)]


def _cells(batch: AnsweredTask, model: str) -> Iterator[AccessAccuracy]:
    measured, predicted = batch.measured.counts, batch.predicted[model].counts
    accuracies, equal = accuracy(measured, predicted), right(measured, predicted)
    for action, level, tensor in np.ndindex(measured.shape[:3]):
        values = accuracies[action, level, tensor]
        occurs = ~np.isnan(values)
        if occurs.any():
            yield AccessAccuracy(model, batch.task.design, batch.task.operator, batch.task.spec.arch.levels[level].name,
                                 batch.task.dataspaces[tensor], ACTIONS[action], int(occurs.sum()),
                                 float(values[occurs].mean()),
                                 float(values[occurs].min()), float(equal[action, level, tensor][occurs].mean()),
                                 bool(predicted[action, level, tensor].any()))


def total(cells: Sequence[AccessAccuracy]) -> tuple[float, float, float]:
    """Sums up cells over all their counts.

    Args:
        cells: At least one cell.

    Returns:
        (mean accuracy, accuracy of the worst single count, share of exact counts).
    """
    counts = np.array([cell.mappings for cell in cells], dtype=np.float64)
    means, exact = (np.array([getattr(cell, name) for cell in cells]) for name in ("accuracy", "exact"))
    return (float((means * counts).sum() / counts.sum()), min(cell.worst for cell in cells),
            float((exact * counts).sum() / counts.sum()))


def relative(measured: np.ndarray, predicted: np.ndarray) -> Error:
    """Relative errors of predictions of values that are greater than 0, [B]."""
    off = np.abs(predicted - measured) / measured
    return Error(float(off.mean()), float(off.max()))


def level_errors(batches: Sequence[AnsweredTask], model: str) -> dict[tuple[str, str], float]:
    """Errors of the energy of each level's accesses under one model.

    Args:
        batches: Measured and predicted numbers.
        model: A key of `MODELS`.

    Returns:
        (design, level) -> sum of the absolute errors over all mappings, relative to the sum of the measured energies;
        levels without energy are left out.
    """
    sums: dict[tuple[str, str], tuple[float, float]] = {}
    for batch in batches:
        off = np.abs(batch.predicted[model].level_energy - batch.measured.level_energy).sum(axis=1)
        for level, wrong, right_sum in zip(batch.task.spec.arch.levels, off, batch.measured.level_energy.sum(axis=1),
                                           strict=True):
            total_error, total_energy = sums.get((batch.task.design, level.name), (0.0, 0.0))
            sums[batch.task.design, level.name] = total_error + float(wrong), total_energy + float(right_sum)
    return {key: wrong / whole for key, (wrong, whole) in sums.items() if whole}


def worst(batches: Sequence[AnsweredTask], model: str, count: int) -> list[Worst]:
    """The counts that a model gets most wrong by their ratio to the measured ones, at most one per layer.

    Args:
        batches: Measured and predicted numbers.
        model: A key of `MODELS`.
        count: How many to return at most.

    Returns:
        Largest ratio first. Kinds of access that the model never predicts are left out.
    """
    largest = [max(items, key=_ratio) for batch in batches if (items := list(_worst(batch, model)))]
    return sorted(largest, key=lambda item: -_ratio(item))[:count]


def _worst(batch: AnsweredTask, model: str) -> Iterator[Worst]:
    """For every kind of access the mapping with the largest ratio, where its count is wrong."""
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
    """Absolute logarithm of predicted over measured; 1 is added to both, so that 0 words have a ratio, too."""
    return abs(float(np.log((item.predicted + 1) / (item.measured + 1))))


def pooled(batches: Sequence[AnsweredTask], model: str | None, quantity: str) -> np.ndarray:
    """Cycles or energy of all mappings of some batches, one after the other.

    Args:
        batches: At least one batch.
        model: A key of `MODELS`, or None for the measured values.
        quantity: `cycles` or `energy`.

    Returns:
        Values [B], B mappings of all batches together.
    """
    def numbers(batch: AnsweredTask) -> Numbers:
        return batch.measured if model is None else batch.predicted[model]

    return np.concatenate([getattr(numbers(batch), quantity) for batch in batches])
