"""Layer-wise gradient descent with DOSA's settings.

Seven start points, 1,490 steps of Adam, loop orders looked at every 500 steps: the settings of DOSA's code for its
figures (github.com/ucb-bar/dosa, dataset/dse/mapping_driven_hw_search.py). The descent is ours, on our relaxed model;
start points are random where DOSA's come from CoSA. Every mapping drawn on the way is evaluated exactly and the best
one is kept, which is more than a descent on a model alone would know.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.layer_family import batch_key
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import Effort, Progress, SearchOptions
from fadiff_mapper.search.search_many import LARGEST, search_all

from .course import LayerCourse, NetworkCourse
from .networks import NetworkQuestion


def settings(restarts: int = 7, steps: int = 1490, reorder_every: int = 500) -> SearchOptions:
    """A descent without a refinement, by default with DOSA's settings."""
    descent = partial(descend, restarts=restarts, steps=steps, reorder_every=reorder_every)
    return SearchOptions(threads=1, effort=Effort(searches=0, descent=descent))


def search(question: NetworkQuestion, seed: int, options: SearchOptions | None = None) -> NetworkCourse:
    """Descends on all layers; those that differ in their bounds alone side by side.

    Args:
        question: The network on its design.
        seed: Seed of every random number.
        options: Effort of the descent; None: `settings`.
    """
    tasks, joined = question.tasks(), question.joined
    courses = [LayerCourse(times) for times in question.times]
    options = replace(options or settings(), seed=seed)
    search_all(tasks[:1], settings(1, 1))    # warms torch up, so that no time below includes that
    looked_at = 0
    for members in families(tasks):
        start = time.process_time()

        def watch(index: int, nest: Nest, progress: Progress, members: list[int] = members,
                  start: float = start) -> None:
            if progress.legal:      # a layer's own time is its share of that of all layers of its family
                found = score(tasks[members[index]].layer, nest)
                courses[members[index]].note((time.process_time() - start) / len(members),
                                             progress.legal_evaluations, float(found.energy[0]),
                                             float(found.cycles[0]))

        outcomes = search_all([tasks[member] for member in members], options, watcher=watch)
        for member, outcome in zip(members, outcomes, strict=True):
            courses[member].end((time.process_time() - start) / len(members), outcome.legal_evaluations)
            looked_at += outcome.evaluations
    return NetworkCourse(courses, (joined.energy_pj, joined.cycles), len(tasks), notes={"looked_at": looked_at})


def families(tasks: Sequence[MappingTask]) -> list[list[int]]:
    """The layers that descend side by side, as the search groups them."""
    groups: dict[object, list[int]] = {}
    for index, task in enumerate(tasks):
        groups.setdefault(batch_key(task.space, task.layer.projection), []).append(index)
    return [members[first:first + LARGEST] for members in groups.values() for first in range(0, len(members), LARGEST)]
