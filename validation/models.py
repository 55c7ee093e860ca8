"""Timeloop's numbers and those of the models, as arrays of the same shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.gradient.fadiff_as_printed import evaluate_paper
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth import evaluate_smooth
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.timeloop.run_model import ModelAnswer
from fadiff_mapper.timeloop.verify import compared, differences, numbers

from .asking import Answered
from .questions import Question
from .tasks import ModelTask

ACTIONS = ("reads", "fills", "updates")
"""Kinds of access in Timeloop's words."""


@dataclass(frozen=True)
class Numbers:
    """Numbers of B mappings of one task, measured or predicted.

    Attributes:
        counts: Words per instance [A, L, T, B], A as in `ACTIONS`.
        cycles: Cycles [B].
        energy: pJ [B].
        level_energy: pJ of the accesses of all instances of a level [L, B].
    """

    counts: np.ndarray
    cycles: np.ndarray
    energy: np.ndarray
    level_energy: np.ndarray


@dataclass(frozen=True)
class AnsweredTask:
    """The accepted mappings of one task with all numbers for them.

    Attributes:
        task: Design and operator.
        questions: The mappings.
        measured: Timeloop's numbers.
        predicted: Model (a key of `MODELS`) -> its numbers.
    """

    task: ModelTask
    questions: tuple[Question, ...]
    measured: Numbers
    predicted: dict[str, Numbers]


@dataclass(frozen=True)
class Check:
    """The exact model against every number of every answer.

    Attributes:
        numbers: Numbers compared.
        disagreements: A line for each number that is not as Timeloop says, and for each rejected mapping.
    """

    numbers: int
    disagreements: tuple[str, ...]


def smooth(layer: PreparedLayer, nest: Nest) -> Numbers:
    """The numbers of the relaxed model at integer points."""
    relaxed = evaluate_smooth(layer, nest)
    return _numbers(relaxed.counts, relaxed.cost.cycles, relaxed.cost.energy,
                    relaxed.cost.access_energy * relaxed.tile.instances[:, None])


def exact(layer: PreparedLayer, nest: Nest) -> Numbers:
    """The numbers of the exact model."""
    evaluation = evaluate_nest(layer, nest)
    return _numbers(evaluation.counts, evaluation.cycles, evaluation.energy,
                    evaluation.cost.access_energy * evaluation.tile.instances[:, None])


def paper(layer: PreparedLayer, nest: Nest, *, windows: bool = False) -> Numbers:
    """The numbers of FADiff's equations; see `fadiff_mapper.gradient.fadiff_as_printed` for `windows`."""
    printed = evaluate_paper(layer, nest, windows=windows)
    return _numbers(printed.counts, printed.cost.cycles, printed.cost.energy,
                    printed.cost.access_energy * printed.tile.instances[:, None])


MODELS: dict[str, Callable[[PreparedLayer, Nest], Numbers]] = {
    "exact": exact,
    "smooth": smooth,
    "paper, windows as boxes": lambda layer, nest: paper(layer, nest, windows=True),
    "paper, as printed": paper,
}
"""The models from the nearest to the farthest."""


def _numbers(counts: Counts, cycles: np.ndarray, energy: np.ndarray, access_energy: np.ndarray) -> Numbers:
    return Numbers(np.stack([counts.reads, counts.fills, counts.updates]), cycles, energy, access_energy.sum(axis=1))


def measured(task: ModelTask, answers: Sequence[ModelAnswer]) -> Numbers:
    """Timeloop's numbers as arrays; counts are zero where a level does not keep a data space.

    Args:
        task: The task that was asked about.
        answers: Answers, of which the rejected ones are left out.
    """
    spaces, levels = task.dataspaces, task.spec.arch.levels
    counts = np.zeros((len(ACTIONS), len(levels), len(spaces), len(answers)))
    level_energy = np.zeros((len(levels), len(answers)))
    results = [answer.result for answer in answers if answer.result is not None]
    for b, result in enumerate(results):
        for index, level in enumerate(result["levels"]):
            for name, space in level["dataspaces"].items():
                counts[:, index, spaces.index(name), b] = [space[action] for action in ACTIONS]
                level_energy[index, b] += space["energy_pj_per_instance"] * space["utilized_instances"]
    return Numbers(counts, np.array([result["cycles"] for result in results], dtype=np.float64),
                   np.array([result["energy_pj"] for result in results]), level_energy)


def batches(answers: Sequence[Answered]) -> list[AnsweredTask]:
    """The answers task by task, with the numbers of all models; rejected and failed mappings are left out."""
    groups: dict[str, list[Answered]] = defaultdict(list)
    for item in answers:
        if item.answer is not None and item.answer.result is not None:
            groups[item.question.task.name].append(item)
    return [batch(group) for group in groups.values()]


def batch(group: Sequence[Answered]) -> AnsweredTask:
    """Evaluates the accepted mappings of one task under every model, in one batch each."""
    task = group[0].question.task
    questions = tuple(item.question for item in group)
    nest = pack([question.mapping for question in questions], task.spec.problem)
    answers = [item.answer for item in group if item.answer is not None]
    return AnsweredTask(task, questions, measured(task, answers),
                        {name: model(task.layer, nest) for name, model in MODELS.items()})


def check(answers: Sequence[Answered]) -> Check:
    """Compares the exact model with every number of every accepted mapping.

    Counts, capacities, bandwidths, interconnects and energies are all compared; a rejected mapping is a disagreement,
    because every question is legal in the exact model.

    Args:
        answers: Answers to questions about any tasks; failed runs are passed over.
    """
    groups: dict[str, list[Answered]] = defaultdict(list)
    for item in answers:
        groups[item.question.task.name].append(item)
    count, wrong = 0, []
    for group in groups.values():
        task = group[0].question.task
        nest = pack([item.question.mapping for item in group], task.spec.problem)
        evaluation = evaluate_nest(task.layer, nest, details=True)
        for row, item in enumerate(group):
            if item.answer is None:
                continue
            if item.answer.result is None:
                wrong.append(f"{task.name}: rejected by Timeloop: {item.answer.error}")
                continue
            count += numbers(item.answer.result)
            ours = compared(stats_of(task.layer, evaluation, row))
            wrong += [f"{task.name}: {text}" for text in differences(item.answer.result, ours)]
    return Check(count, tuple(wrong))
