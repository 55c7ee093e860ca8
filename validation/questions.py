"""The mappings that Timeloop is asked about: random ones of two kinds, and the mapper's own."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, joined, pack, unpack

from .random_mappings import constrained_nests, random_mapping
from .tasks import ModelTask

KINDS = {"any": "random, within what the hardware allows", "design": "random, within the design's constraints",
         "best": "found by the mapper"}

SUITES = {"quick": (3, 0), "full": (105, 1)}
"""Suite -> (random mappings of each kind, mappings found by the mapper) per operator and design.

The numbers only set how long a suite runs; nothing was measured to choose them. 105 mappings are three blocks.
"""

CORNERS = "corners"
"""The suite of `corners.rules`: mappings on machines of their own."""

CORNER_COUNT = 2600
"""Corners that are asked about unless another number is given: 200 of each rule, a few minutes on one core."""

METRICS = ("edp", "energy", "delay")
"""Metrics that the mapper minimises, one mapping each."""

BLOCK = 35
"""Mappings that are drawn together, so that a longer list begins with the mappings of a shorter one."""

ATTEMPTS = 40
"""Batches drawn in search of legal mappings before a layer is left with fewer: a plain limit, nothing was measured."""


@dataclass(frozen=True)
class Question:
    """One legal mapping of a task.

    Attributes:
        task: Design and operator.
        kind: How the mapping was drawn, a key of `KINDS`.
        mapping: The mapping.
    """

    task: ModelTask
    kind: str
    mapping: Mapping


def random_questions(task: ModelTask, count: int, seed: int) -> Iterator[Question]:
    """Up to `count` legal mappings of each random kind; a larger count begins with the mappings of a smaller one.

    Args:
        task: Design and operator.
        count: Mappings of each kind; fewer come where legal ones are rare.
        seed: Of the draws; tasks draw independently of each other.
    """
    for kind, draw in (("any", any_nests), ("design", design_nests)) if count else ():
        blocks = [draw(task, BLOCK, f"{seed}/{task.name}/{block}") for block in range(-(-count // BLOCK))]
        nest = joined(blocks).take(slice(0, count))
        for row in range(nest.batch):
            yield Question(task, kind, unpack(nest, row, task.spec.problem))


def any_nests(task: ModelTask, count: int, label: str) -> Nest:
    """Up to `count` legal nests that respect nothing but the hardware, drawn from the seed `label`."""
    rng, spec, legal = random.Random(label), task.spec, []
    for _ in range(ATTEMPTS):
        drawn = pack([random_mapping(spec.arch, spec.problem, rng) for _ in range(count)], spec.problem)
        legal.append(drawn.take(np.flatnonzero(evaluate_nest(task.layer, drawn).legal)))
        if sum(part.batch for part in legal) >= count:
            break
    return joined(legal).take(slice(0, count))


def design_nests(task: ModelTask, count: int, label: str) -> Nest:
    """Up to `count` legal nests within the design's constraints, drawn from the seed `label`."""
    return constrained_nests(task.layer, task.spec, count, number(label))


def number(label: str) -> int:
    """A seed for generators that want a number."""
    return random.Random(label).getrandbits(32)


def best_questions(task: ModelTask, count: int, seed: int, threads: int) -> Iterator[Question]:
    """The mapper's own mapping for each of the first `count` metrics, found without a time limit."""
    from fadiff_mapper import SearchOptions, map_layer

    for metric in METRICS[:count]:
        best = map_layer(task.spec, SearchOptions(threads=threads), metric=metric, seed=seed)
        yield Question(task, "best", best.mapping)
