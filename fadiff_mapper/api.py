"""The public verbs: evaluate a mapping exactly, and find a good one."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.errors import FadiffError, listed
from fadiff_mapper.exact import evaluate_nest, prepare
from fadiff_mapper.inputs import Spec
from fadiff_mapper.legality import rejection, violations
from fadiff_mapper.mapspace import build_mapspace, conflicts
from fadiff_mapper.nest import pack, unpack
from fadiff_mapper.objective import check_metrics
from fadiff_mapper.reuse import constrained_reuse, reuse_of, with_reuse
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import single_letter
from fadiff_mapper.spec.tables import energy_sources
from fadiff_mapper.stats import Stats, stats_of

if TYPE_CHECKING:
    from fadiff_mapper.search import Progress


def evaluate(spec: Spec) -> Stats:
    """What `timeloop-model` computes for the mapping in the input: every count, cycles and energy.

    Raises FadiffError where the input has no mapping, and InvalidMapping(level, reason) where Timeloop would
    reject it.
    """
    if spec.mapping is None:
        raise FadiffError("the input has no mapping section to evaluate; accepted: mapping: with a list of directives")
    return evaluate_mapping(spec, spec.mapping)


def evaluate_mapping(spec: Spec, mapping: Mapping) -> Stats:
    """The same for any mapping of the spec's problem onto its architecture."""
    layer = prepare(spec.arch, spec.problem, spec.tables, reuse_of(mapping, spec.problem.dataspace_names()))
    found = evaluate_nest(layer, pack([mapping], spec.problem), details=True)
    if not found.legal[0]:
        raise rejection(violations(found.checks, 0))
    return stats_of(layer, found, 0, energy_sources(spec.arch, spec.tables))


@dataclass(frozen=True)
class Result:
    """The outcome of a search.

    `status` is a sentence on how it ended. `history` lists every improvement: time_s since the start, evaluations
    so far, the metric's value, and the stage that found it.
    """

    spec: Spec
    mapping: Mapping
    stats: Stats
    status: str
    history: tuple[dict[str, Any], ...]
    options: dict[str, Any]
    evaluations: int
    time_s: float

    def write(self, folder: str | Path) -> None:
        """Write the run's files into a folder, all or none; see `emit.run_files`. Raises FadiffError."""
        from fadiff_mapper import emit, rundir
        with rundir.lock(Path(folder)):
            rundir.write_files(Path(folder), emit.run_files(self))


MOST = {"seed": 2 ** 63 - 1, "restarts": 4096, "steps": 100_000, "threads": 1024}
"""The largest value of each option of a search."""


def _check_options(seed: int, time_limit: float | None, restarts: int | None, steps: int | None,
                   threads: int | None) -> None:
    """FadiffError for an option of the wrong kind or out of range; None stands for the default."""
    if time_limit is not None and (not isinstance(time_limit, int | float) or not time_limit > 0):
        raise FadiffError(f"time limit: found {time_limit!r}; accepted: seconds greater than 0")
    numbers = {"seed": seed, "restarts": restarts, "steps": steps, "threads": threads}
    for name, value in numbers.items():
        least = 0 if name == "seed" else 1
        if value is not None and (not isinstance(value, int) or not least <= value <= MOST[name]):
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {MOST[name]}")


def map_layer(spec: Spec, *, metric: str | tuple[str, ...] | list[str] | None = None, seed: int = 0,
              time_limit: float | None = None, restarts: int | None = None, steps: int | None = None,
              gradient: bool = True, refinement: bool = True, threads: int | None = None,
              on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Find a mapping by gradient descent on the relaxed model and exact refinement.

    `metric`: "edp", "energy", "delay" or "last_level_accesses", or several in order of priority; None takes what
    the input's mapper section says, else EDP. `time_limit` in seconds. `gradient` and `refinement` switch those
    parts off. The same seed gives the same mapping unless the time limit strikes. Raises FadiffError where the
    constraints contradict each other or no legal mapping is found.
    """
    import time

    from fadiff_mapper.search import SearchOptions, search

    _check_options(seed, time_limit, restarts, steps, threads)
    if not single_letter(spec.problem.dimensions):
        raise FadiffError(f"the dimensions {listed(spec.problem.dimensions)} cannot be ordered in Timeloop's mapping "
                          "files; accepted: names of one letter")
    metrics = check_metrics((metric,) if isinstance(metric, str) else metric or spec.mapper.metrics)
    default = SearchOptions()
    options = SearchOptions(metrics=metrics, seed=seed, time_limit=time_limit, restarts=restarts or default.restarts,
                            steps=steps or default.steps, gradient=gradient, refinement=refinement,
                            threads=threads or spec.mapper.num_threads or os.cpu_count() or 1)
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    contradictions = conflicts(space)
    if contradictions:
        raise FadiffError("\n".join(f"no mapping can meet the constraints: {reason}" for reason in contradictions))
    layer = prepare(spec.arch, spec.problem, spec.tables,
                    constrained_reuse(spec.constraints, spec.problem.dataspace_names()))
    start = time.monotonic()
    found = search(layer, space, options, on_progress or (lambda _: None))
    mapping = with_reuse(unpack(found.nest, 0, spec.problem), spec.constraints)
    if not found.legal:
        broken = violations(evaluate_nest(layer, found.nest).checks, 0)
        raise FadiffError(f"no legal mapping was found in {found.evaluations} evaluations; the nearest one fails at "
                          f"{broken[0].level}: {broken[0].reason}")
    history = tuple({"time_s": step.time_s, "evaluations": step.evaluations, "value": step.metric_value,
                     "stage": step.stage} for step in found.history)
    return Result(spec, mapping, evaluate_mapping(spec, mapping), found.status, history, options.as_dict(),
                  found.evaluations, time.monotonic() - start)
