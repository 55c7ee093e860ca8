"""Why no legal mapping was found: a small set of constraints that together leave none, or the hardware alone.

Small map spaces are searched to the last mapping, so that their emptiness is proven; of large ones a short search looks
for any legal mapping. Constraints are then left out, many at a time at first (as in delta debugging, Zeller and
Hildebrandt 2002), as long as no legal mapping appears. The constraints that remain are to blame together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.legality import violations
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.exhaustive import exhaust, measured
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace import Demand, MapSpace, check_mapping, conflicts, demands, without
from fadiff_mapper.search.mapspace.conflicts import joined
from fadiff_mapper.search.options import Effort, Progress, SearchOptions
from fadiff_mapper.search.search_many import search

SECONDS = 8.0
"""After so long, the set of constraints to blame is not made smaller: a limit on a user's patience, nothing was
measured."""

ENUMERATED = 50_000
"""Mappings up to which a space is searched to the last one, so that its emptiness is proven: 0.3 to 1.7 s on one thread
at the 6 to 33 us a mapping that `benchmarks/evaluation_throughput.py` measured."""

QUICK = SearchOptions(threads=1, effort=Effort(chains=32, neighbours=4, chains_agreeing=33, searches=1))
"""A search for any legal mapping, which ends with the first. One more chain has to agree than there are, because chains
that agree on an illegal mapping must go on. The effort was not measured."""


@dataclass(frozen=True)
class DiagnosisAttempt:
    """A search for any legal mapping of a space.

    Attributes:
        legal: Whether there is a legal mapping.
        proven: Whether every mapping was looked at, up to the first legal one, or a contradiction excludes them all;
            False after a short search.
        evaluations: Mappings evaluated.
        nearest: The mapping that breaks its limits least (a nest of one row); None where there is no mapping at all.
    """

    legal: bool
    proven: bool
    evaluations: int
    nearest: Nest | None = None


def diagnosis(layer: PreparedLayer, space: MapSpace, over: Over = never, seconds: float = SECONDS) -> str:
    """Says why the mappings of a space are illegal.

    Args:
        layer: The problem on its architecture.
        space: Its map space, in which a search met no legal mapping.
        over: Tells whether time is over.
        seconds: Time after which the set of constraints to blame is not made smaller.

    Returns:
        One or several lines; they say "no mapping can" only where that is proven, by a contradiction or by the
        evaluation of every mapping.

    Raises:
        OutOfTime: Time was over before anything was known.
    """
    deadline = time.monotonic() + seconds
    whole = attempt(layer, space, over)
    if whole.legal:
        return "a second search found a legal mapping: try another seed"
    nearest = f"; the nearest mapping fails: {shortcoming(layer, space, whole.nearest)}" if whole.nearest else ""
    asked = demands(space)
    bare = without(space, asked)
    alone = attempt(layer, bare, over)
    if not alone.legal:
        reasons = conflicts(bare) or ([shortcoming(layer, bare, alone.nearest)] if alone.nearest else [])
        return f"{_verdict(alone)} even without constraints{''.join(f': {reason}' for reason in reasons[:1])}"

    def only(kept: Sequence[Demand]) -> DiagnosisAttempt:
        return attempt(layer, without(space, [demand for demand in asked if demand not in kept]), over)

    core, minimal = smallest(asked, lambda kept: not only(kept).legal, deadline)
    judged = only(core)
    claim = judged if judged.proven or not whole.proven else whole
    few = " (any one of them dropped, there is one)" if minimal and len(core) > 1 else ""
    return f"{_verdict(claim)} under {joined([demand.words for demand in core])}{few}{nearest}"


def attempt(layer: PreparedLayer, space: MapSpace, over: Over = never) -> DiagnosisAttempt:
    """Looks for any legal mapping: among all where they are few, else by a short search (`QUICK`).

    Args:
        layer: The problem on its architecture.
        space: The map space.
        over: Tells whether time is over.

    Raises:
        OutOfTime: Time was over before a legal mapping was met.
    """
    size = 0 if conflicts(space, over) else measured(space, ENUMERATED, over)[0]
    if not size:
        return DiagnosisAttempt(legal=False, proven=True, evaluations=0)
    task, met = MappingTask(replace(layer, arch=space.architecture), space), []

    def watch(_: int, nest: Nest, step: Progress) -> None:
        if step.legal:
            met.append(nest)

    def stopped() -> bool:
        if not met and over():
            raise OutOfTime
        return bool(met)

    every = size <= ENUMERATED
    outcome = (exhaust(task, QUICK, watcher=watch, stopped=stopped) if every
               else search([task], QUICK, watcher=watch, stopped=stopped)[0])
    return DiagnosisAttempt(outcome.legal, every, outcome.evaluations, outcome.nest)


def smallest(asked: Sequence[Demand], empty: Callable[[Sequence[Demand]], bool],
             deadline: float) -> tuple[list[Demand], bool]:
    """Leaves out demands, half of them at a time first, as long as the rest still leaves no legal mapping.

    Args:
        asked: All demands, under which there is none.
        empty: Whether some demands leave no legal mapping.
        deadline: After this moment (seconds of `time.monotonic`) nothing more is left out.

    Returns:
        A small subset that still leaves none, and whether none of its demands can be left out.
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
    """The reason why a mapping (a nest of one row) is illegal: Timeloop's, else the constraint that it breaks."""
    broken = violations(evaluate_nest(layer, nest).checks, 0)
    if broken:
        return f"{broken[0].level}: {broken[0].reason}"
    return "; ".join(check_mapping(space, unpack(nest, 0, space.problem)))


def _verdict(attempted: DiagnosisAttempt) -> str:
    """The finding of an attempt that met no legal mapping, as the beginning of a sentence."""
    if not attempted.proven:
        return f"no legal mapping was found in {attempted.evaluations} evaluations"
    return f"no mapping can be legal (all {attempted.evaluations} evaluated)" if attempted.evaluations else (
        "no mapping can be legal")

