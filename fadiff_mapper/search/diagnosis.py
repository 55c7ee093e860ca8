"""Why no legal mapping was found: a small set of constraints that together exclude all, or the hardware by itself.

Small map spaces are enumerated, which proves that they are empty; in large ones a short search looks for any legal
mapping. Constraints are then left out, many at a time at first (as in delta debugging, Zeller and Hildebrandt 2002), as
long as no legal mapping appears. The remaining constraints together cause the failure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.legality import violations
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.best_so_far import SearchOutcome
from fadiff_mapper.search.exhaustive import exhaust, measured
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import MapSpace
from fadiff_mapper.search.mapspace.conflicts import Demand, check_mapping, conflicts, demands, joined, without
from fadiff_mapper.search.options import Effort, Progress, SearchOptions
from fadiff_mapper.search.search_many import search

SECONDS = 8.0
"""Seconds after which the set of constraints is no longer reduced: a user waits for the answer."""

ENUMERATED = 50_000
"""Largest map space that is enumerated, within about a second."""

QUICK = SearchOptions(threads=1, effort=Effort(chains=32, neighbours=4, chains_agreeing=33, searches=1, proof=0))
"""Options of a search for any legal mapping, which ends with the first. More chains must agree than there are, so that
chains that agree on an illegal mapping go on."""


def diagnosis(layer: PreparedLayer, space: MapSpace, over: Over = never) -> str:
    """Lines that say why a search found no legal mapping in a space.

    They say "no mapping can" only if proven, by a contradiction or by the evaluation of every mapping. Raises OutOfTime
    if `over` was true before anything was found.
    """
    deadline = time.monotonic() + SECONDS
    whole, whole_proven = attempt(layer, space, over)
    if whole and whole.legal:
        return "a second search found a legal mapping: try another seed"
    nearest = f"; the nearest mapping fails: {shortcoming(layer, space, whole.nest)}" if whole else ""
    asked = demands(space)
    bare = without(space, asked)
    alone, proven = attempt(layer, bare, over)
    if not alone or not alone.legal:
        reasons = conflicts(bare) or ([shortcoming(layer, bare, alone.nest)] if alone else [])
        return f"{_verdict(alone, proven)} even without constraints{''.join(f': {reason}' for reason in reasons[:1])}"

    def only(kept: Sequence[Demand]) -> tuple[SearchOutcome | None, bool]:
        return attempt(layer, without(space, [demand for demand in asked if demand not in kept]), over)

    def empty(kept: Sequence[Demand]) -> bool:
        found, _ = only(kept)
        return not found or not found.legal

    core, minimal = smallest(asked, empty, deadline)
    judged, proven = only(core)
    verdict = _verdict(judged, proven) if proven or not whole_proven else _verdict(whole, whole_proven)
    few = " (any one of them dropped, there is one)" if minimal and len(core) > 1 else ""
    return f"{verdict} under {joined([demand.words for demand in core])}{few}{nearest}"


def attempt(layer: PreparedLayer, space: MapSpace, over: Over = never) -> tuple[SearchOutcome | None, bool]:
    """Looks for any legal mapping: among all in a small space, else by a short search (`QUICK`).

    The outcome has the mapping of least excess if none is legal; it is None if there is no mapping at all. True:
    proven, as all mappings up to the first legal one were evaluated or a contradiction excludes all. Raises OutOfTime.
    """
    size = 0 if conflicts(space, over) else measured(space, ENUMERATED, over)[0]
    if not size:
        return None, True
    task, met = MappingTask(replace(layer, arch=space.architecture), space), []

    def watch(_: int, nest: Nest, step: Progress) -> None:
        if step.legal:
            met.append(nest)

    def stopped() -> bool:
        if not met and over():
            raise OutOfTime
        return bool(met)

    if size <= ENUMERATED:
        return exhaust(task, QUICK, watcher=watch, stopped=stopped), True
    return search([task], QUICK, watcher=watch, stopped=stopped)[0], False


def smallest(asked: Sequence[Demand], empty: Callable[[Sequence[Demand]], bool],
             deadline: float) -> tuple[list[Demand], bool]:
    """Leaves out demands, first half of them at a time, as long as the rest is `empty` of legal mappings.

    Returns a small subset without legal mappings, and whether it is irreducible: unknown after the deadline, seconds of
    `time.monotonic`.
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


def shortcoming(layer: PreparedLayer, space: MapSpace, nest: Nest) -> str:
    """The reason why a mapping (a nest of one row) is illegal: Timeloop's, else the broken constraint."""
    broken = violations(evaluate_nest(layer, nest).checks, 0)
    if broken:
        return f"{broken[0].level}: {broken[0].reason}"
    return "; ".join(check_mapping(space, unpack(nest, 0, space.problem)))


def _verdict(outcome: SearchOutcome | None, proven: bool) -> str:
    """The finding of an attempt without a legal mapping, as the beginning of a sentence."""
    if outcome and not proven:
        return f"no legal mapping was found in {outcome.evaluations} evaluations"
    return f"no mapping can be legal{f' (all {outcome.evaluations} evaluated)' if outcome else ''}"
