"""The explanation of a finished run: its lower bound, its sensitivities, and the loops behind every count."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError, attempted, listed, nearest
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import METRICS, Spec
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.model.evaluate import evaluate_one
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.search.explanation.count_breakdown import ACTIONS, CountExplanation, explain_counts

if TYPE_CHECKING:
    from fadiff_mapper.search.explanation.sensitivities import Sensitivity

# Folders may be edited and mixed up, so a run is evaluated again before it is explained: its mapping must reproduce the
# stored numbers.

INPUT, RESULT = "fadiff.input.yaml", "fadiff.result.json"

LARGEST = 1 << 28
"""Largest result file in bytes that is read: a safety limit."""

WRITTEN = "a folder that fadiff-mapper map has written"

SAME = 1e-9
"""Relative difference allowed between stored and new energies (sums in another order); cycles must be equal."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run."""

    spec: Spec              # Its input, with the mapping, without constraints
    mapping: Mapping
    stats: Stats            # The mapping's numbers, computed again
    stored: dict[str, Any]  # The contents of its result file


def read_run(folder: Path | str) -> FinishedRun:
    """Reads and checks a folder that `fadiff-mapper map` has written.

    Raises FadiffError where folder or file is missing or broken, or the mapping does not give the stored numbers.
    """
    folder, accepted = Path(folder), "the file as it was written"
    if not folder.is_dir():
        raise FadiffError(f"{folder}: there is no such folder; accepted: {WRITTEN}")
    missing = [name for name in (INPUT, RESULT) if not (folder / name).is_file()]
    if missing:
        raise FadiffError(f"{folder}: {listed(missing)} not found; accepted: {WRITTEN}")
    path = folder / RESULT
    try:
        stored = json.loads(read_text(path, accepted, LARGEST))
    except (ValueError, RecursionError) as error:
        raise FadiffError(f"{path}: cannot be read: {error}; accepted: {accepted}") from None
    numbers = stored.get("stats") if isinstance(stored, dict) else None
    if not isinstance(numbers, dict) or not all(
            isinstance(numbers.get(key), int | float) for key in ("cycles", "energy_pj")):
        raise FadiffError(f"{path}: stats.cycles and stats.energy_pj not found; accepted: {accepted}")
    if not _is_bound(stored.get("bound")):
        raise FadiffError(f"{path}: bound cannot be understood; accepted: {accepted}")
    spec = load(str(folder / INPUT), strict=False)
    if spec.mapping is None:
        raise FadiffError(f"{folder / INPUT}: there is no mapping section; accepted: {accepted}")
    stats = evaluate(spec)
    for key, today, tolerance in (("cycles", stats.cycles, 0.0), ("energy_pj", stats.energy_pj, SAME)):
        if not math.isclose(numbers[key], today, rel_tol=tolerance):
            raise FadiffError(f"{folder}: the numbers do not repeat: {RESULT} says {key} {numbers[key]}, the mapping "
                              f"of {INPUT} gives {today}; accepted: both files as one run wrote them")
    return FinishedRun(spec, spec.mapping, stats, stored)


def _is_bound(stored: Any) -> bool:
    """Whether a value has the used parts of a `lower_bound.bound_record`."""
    keys = {"metric": str, "where": str, "value": int | float, "source": str}
    return stored is None or (
        isinstance(stored, dict) and stored.get("metric") in METRICS and isinstance(stored.get("sentence"), str)
        and isinstance(stored.get("parts"), list) and all(
            isinstance(part, dict) and all(isinstance(part.get(key), expected) for key, expected in keys.items())
            for part in stored["parts"])
        and all(-SAME <= number < math.inf for entries in (stored, *stored["parts"]) for number in entries.values()
                if isinstance(number, int | float)))


@dataclass(frozen=True)
class RunExplanation:
    """The explanation of one run."""

    metric: str                             # The metric of the sensitivities: that of the stored bound, which the run
                                            # minimised; else EDP
    bound: dict[str, Any] | None            # The bound as stored with the run, see `lower_bound.bound_record`, as the
                                            # folder lacks the constraints to compute it. None if unknown
    sensitivities: tuple[Sensitivity, ...]  # The largest elasticity first; empty for a single count, for sparse
                                            # designs, and for mappings with residual factors
    counts: tuple[CountExplanation, ...]    # Every access count, or the requested one
    lost: str = ""                          # Why sensitivities could not be computed, if so

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values, for JSON."""
        return {"metric": self.metric, "bound": self.bound,
                "sensitivities": [sensitivity.to_dict() for sensitivity in self.sensitivities],
                "counts": [count.to_dict() for count in self.counts]}


def explain_run(run: FinishedRun, count: Sequence[str] | None = None) -> RunExplanation:
    """Explains a run, or one count, by level, data space and action; raises FadiffError if there is no such count."""
    spec = run.spec
    bound = run.stored.get("bound")
    metric = bound["metric"] if bound else "edp"
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, run.mapping, details=True, residuals=True)
    counts = explain_counts(layer, evaluation)
    if count:
        level, space, action = count
        for noun, name, names in (("level", level, spec.arch.level_names()),
                                  ("data space", space, spec.problem.dataspace_names()), ("action", action, ACTIONS)):
            if name not in names:
                raise FadiffError(f'unknown {noun} "{name}"{nearest(name, names)}; accepted: {listed(names)}')
        chosen = tuple(one for one in counts if (one.level, one.dataspace, one.action) == (level, space, action))
        if not chosen:
            known = [f"{one.level} {one.dataspace} {one.action}" for one in counts]
            raise FadiffError(f"{level} has no {action} of {space} in this mapping; accepted: {listed(known)}")
        return RunExplanation(metric, bound, (), chosen)
    # the sensitivities are of the dense model without residuals
    if run.mapping.imperfect or (spec.sparse is not None and spec.sparse.applied):
        return RunExplanation(metric, bound, (), counts)
    from fadiff_mapper.search.explanation.sensitivities import sensitivities
    found, lost = attempted("sensitivities", lambda: sensitivities(layer, evaluation, metric=metric))
    return RunExplanation(metric, bound, found or (), counts, lost)
