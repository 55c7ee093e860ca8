"""Why no legal mapping was found: a small set of constraints that together leave none, or the hardware alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.mapspace import Demand, MapSpace, check_mapping, conflicts, demands, without
from fadiff_mapper.mapspace.conflicts import joined
from fadiff_mapper.model.exact.evaluate import evaluate_nest
from fadiff_mapper.model.legality import violations
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.relaxation.layer_batch import family_of
from fadiff_mapper.search.best_so_far import SearchState
from fadiff_mapper.search.exhaustive import exhaust, measured
from fadiff_mapper.search.gradient_descent import descend
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.population import population_of
from fadiff_mapper.search.refinement import anneal

SECONDS = 8.0
"""After so long, the set of constraints found so far is not made smaller."""

ENUMERATED = 50_000
"""Mappings up to which a space is searched to the last one, so that its emptiness is proven."""

QUICK = SearchOptions(gradient=False, chains=32, rounds=60, neighbours_tried=4, chains_agreeing=33, threads=1)
"""A search for any legal mapping, which ends with the first: chains that agree on an illegal one go on."""


@dataclass(frozen=True)
class DiagnosisAttempt:
    """A search for any legal mapping of a space: how many were evaluated, and whether those were all (`proven` also
    where a contradiction proves that there is none). `nearest` is one row, None where there is no mapping at all."""

    legal: bool
    proven: bool
    evaluations: int
    nearest: Nest | None = None


def diagnosis(layer: PreparedLayer, space: MapSpace, seconds: float = SECONDS) -> str:
    """What keeps mappings of a space from being legal, in one or several lines.

    Says "no mapping can" only where that is proven, by a contradiction or by the evaluation of every mapping.
    """
    deadline = time.monotonic() + seconds
    whole = attempt(layer, space)
    if whole.legal:
        return "a second search found a legal mapping: try another seed, or more restarts, chains and rounds"
    nearest = f"; the nearest mapping fails: {shortcoming(layer, space, whole.nearest)}" if whole.nearest else ""
    asked = demands(space)
    bare = without(space, asked)
    alone = attempt(layer, bare)
    if not alone.legal:
        return f"{_verdict(alone)} even without constraints{_hardware(layer, bare, alone)}"
    core, minimal = smallest(asked, lambda kept: not attempt(layer, _only(space, asked, kept)).legal, deadline)
    judged = attempt(layer, _only(space, asked, core))
    claim = judged if judged.proven or not whole.proven else whole
    few = " (any one of them dropped, there is one)" if minimal and len(core) > 1 else ""
    return f"{_verdict(claim)} under {joined([demand.words for demand in core])}{few}{nearest}"


def attempt(layer: PreparedLayer, space: MapSpace) -> DiagnosisAttempt:
    """Look for any legal mapping: among all where they are few, else by a short search."""
    if conflicts(space):
        return DiagnosisAttempt(legal=False, proven=True, evaluations=0)
    family, met = family_of(replace(layer, arch=space.architecture), [space]), []

    def watch(_: int, nest: Nest, step: Progress) -> None:
        if step.legal:
            met.append(nest)

    def stopped() -> bool:
        return bool(met)

    size = measured(space, ENUMERATED)[0]
    if not size:
        return DiagnosisAttempt(legal=False, proven=True, evaluations=0)
    if size <= ENUMERATED:
        found = exhaust(family, QUICK, watcher=watch, stopped=stopped)[0]
        return DiagnosisAttempt(found.legal, True, found.evaluations, found.nest)
    state, rng = SearchState(family, QUICK, watch, stopped), np.random.default_rng(QUICK.seed)
    start = descend(state, QUICK.chains, rng)
    if not met:
        anneal(state, population_of(family, start, family.member_of(start.batch)), rng, QUICK.annealing)
    return DiagnosisAttempt(bool(met), False, int(state.evaluations[0]), state.nests[0])


def smallest(asked: Sequence[Demand], empty: Callable[[Sequence[Demand]], bool],
             deadline: float) -> tuple[list[Demand], bool]:
    """A small subset that is still `empty`, halving first; and whether none of its demands can be left out.

    After the deadline nothing more is left out.
    """
    needed, size = list(asked), max(1, len(asked) // 2)
    while True:
        for start in reversed(range(0, len(needed), size)):
            if time.monotonic() > deadline:
                return needed, False
            rest = needed[:start] + needed[start + size:]
            if empty(rest):
                needed = rest
        if size == 1:
            return needed, True
        size //= 2


def _only(space: MapSpace, asked: Sequence[Demand], kept: Sequence[Demand]) -> MapSpace:
    return without(space, [demand for demand in asked if demand not in kept])


def shortcoming(layer: PreparedLayer, space: MapSpace, nest: Nest) -> str:
    """What is wrong with one mapping: Timeloop's reason, else the constraint that it breaks."""
    broken = violations(evaluate_nest(layer, nest).checks, 0)
    if broken:
        return f"{broken[0].level}: {broken[0].reason}"
    return "; ".join(check_mapping(space, unpack(nest, 0, space.problem)))


def _hardware(layer: PreparedLayer, space: MapSpace, found: DiagnosisAttempt) -> str:
    reasons = conflicts(space)
    if reasons:
        return f": {reasons[0]}"
    return f": {shortcoming(layer, space, found.nearest)}" if found.nearest else ""


def _verdict(found: DiagnosisAttempt) -> str:
    if not found.proven:
        return f"no legal mapping was found in {found.evaluations} evaluations"
    return f"no mapping can be legal (all {found.evaluations} evaluated)" if found.evaluations else (
        "no mapping can be legal")

