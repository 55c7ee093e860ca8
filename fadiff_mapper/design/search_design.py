"""The loop: designs proposed round by round, evaluated exactly by whoever carries the work, the best kept.

A round's designs are proposed from the archive of all rounds before, and evaluated against its front. So neither the
number of workers, nor their order, nor what the store held before has any influence on the answer.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, attempted, listed
from fadiff_mapper.design.design_clock import DesignClock
from fadiff_mapper.design.design_options import DesignOptions, check_design_options
from fadiff_mapper.design.design_run import DesignRun, OnDesign
from fadiff_mapper.design.evaluation.design_question import DesignQuestion, empty_archive
from fadiff_mapper.design.evaluation.design_result import DesignOutcome, DesignResult, metric_exponents
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, disagreement
from fadiff_mapper.design.evaluation.layer_entries import OUT_OF_TIME
from fadiff_mapper.design.evaluation.result_store import ResultStore
from fadiff_mapper.design.evaluation.work_force import Evaluated, InTime, work_force
from fadiff_mapper.design.final_figures import designs_to_map, final_figures
from fadiff_mapper.design.no_design import blame
from fadiff_mapper.design.pareto_front import hypervolume
from fadiff_mapper.design.proposers.bound_designs import BoundDesigns, DesignDescent
from fadiff_mapper.design.proposers.methods import BLACK_BOX
from fadiff_mapper.design.proposers.proposer import Proposer
from fadiff_mapper.design.settle import settled
from fadiff_mapper.design.space import Point, design_document
from fadiff_mapper.search.options import check_options

MOST_NAMED = 3
"""Files of the store that a sentence names."""

NO_DESCENT = ("PyTorch is not installed, so the method is bounds instead of gradient: no designs come from descents; "
              'accepted: pip install "fadiff-mapper[gradient]", or the method bounds')
"""Said where no method was asked for and the default one cannot run."""

SEARCH_ENDED = "search ended"
"""The status of a search that was not cut short."""


def search_design(question: DesignQuestion, options: DesignOptions, *, on_progress: OnDesign = lambda _: None,
                  stopped: Callable[[], bool] = lambda: False, kept_back: float = 0.0,
                  descent: DesignDescent | None = None) -> DesignResult:
    """Searches the best designs of a space for some networks.

    Args:
        question: The space, the networks and the metrics.
        options: Method and effort, and who carries the work.
        on_progress: Told after every design.
        stopped: Asked after every design; once true, the search ends with the best so far.
        kept_back: Seconds of the time limit that the caller has spent already, or needs for the files.
        descent: Proposes further designs, for the method "gradient" (or none, where that is not to be the default).

    Returns:
        The best design, or the front, every number exact; a shard may end without any.

    Raises:
        SpecError: The space is wrong.
        FadiffError: An option is out of range, something is not installed, or no design evaluated is feasible; the
            message says which limit is to blame.
    """
    chosen = options.method is not None
    options = replace(options, method=options.method or ("gradient" if descent else "bounds"))
    check_design_options(options)
    assert (options.method == "gradient") == (descent is not None)
    _check_question(question)
    run = DesignRun(question.metrics, options.most_mapped, on_progress, empty_archive(question))
    with ExitStack() as stack:
        folder = options.store or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fadiff-")))
        bench = DesignBench(question, folder)
        stack.enter_context(bench.store.opened())
        limit = None if options.time_limit is None else options.time_limit - kept_back
        clock = DesignClock(limit, lambda: designs_to_map(bench, run.front), time.time())
        proposer = _proposer(bench, options, clock.over_for_proposals, descent)
        with work_force(bench, options.jobs, options.backend, options.address) as evaluated:
            in_time = _in_time(run, clock, evaluated)
            status = _rounds(run, clock, proposer, in_time, options, stopped)
            status += "; cycles are corrected to measured hardware" if question.calibration else ""
            ended = stopped() or not run.front or options.shard is not None
            neighbours = () if ended or not options.neighbours else settled(
                run, question.space, in_time, stopped, options.prune)
        if clock.missed:
            out_of_time = f"out of time after {options.time_limit:g} s: the best designs so far"
            status = status.replace(SEARCH_ENDED, out_of_time)
        if not run.front and options.shard is None:
            reasons = blame(bench, run.archive) if run.archive else f"{question.space.name}: no design was evaluated"
            raise FadiffError(reasons + ("\ntime was over then; accepted: more time" if clock.missed else ""))
        return _machine(run, bench, options, neighbours, status, clock.over,
                        () if chosen or descent else (NO_DESCENT,))


def _check_question(question: DesignQuestion) -> None:
    """Raises FadiffError for metrics, networks, weights or a seed that make no sense."""
    check_options(question.layer_options)
    for metric in question.metrics:
        metric_exponents(metric)
    if not 1 <= len(set(question.metrics)) == len(question.metrics) <= 3:
        raise FadiffError(f"metric: found {listed(question.metrics)}; accepted: one to three different metrics")
    if question.fuse and question.calibration:
        raise FadiffError("calibration: found fuse=True; accepted: layers by themselves, as they were measured")
    if not question.networks or len(question.networks) != len(question.weights):
        raise FadiffError(f"weights: found {len(question.weights)} for {len(question.networks)} networks; accepted: "
                          "one for each of at least one network")
    for weight in question.weights:
        if not 0 < weight < float("inf"):
            raise FadiffError(f"weights: found {weight!r}; accepted: numbers greater than 0")


def _proposer(bench: DesignBench, options: DesignOptions, over: Callable[[], bool],
              descent: DesignDescent | None) -> Proposer:
    """The proposer for the method of the options, which comes to an end once `over` is true. Raises FadiffError."""
    if (black_box := BLACK_BOX.get(str(options.method))) is not None:
        return black_box(bench.question)
    return BoundDesigns(bench.question, bench.specs_at, bench.mappings_at, bench.least_at, over, descent)


def _in_time(run: DesignRun, clock: DesignClock, evaluated: Evaluated) -> InTime:
    """Evaluates designs in the time that the clock gives, and notes how long the first mapping of a round takes."""
    def in_time(points: Sequence[Point], rivals: Sequence[tuple[float, ...]]) -> Iterator[DesignOutcome | None]:
        if run.front and clock.left() < 0:
            clock.missed |= bool(points)
            return
        begun, mapped = time.time(), False
        for outcome in evaluated(points, rivals, clock.round(bool(run.front))):
            if outcome is None:
                clock.missed = True
            elif outcome.mapped and not mapped:
                clock.mappings.append(time.time() - begun)
                mapped = True
            clock.missed |= outcome is not None and outcome.cut_short
            yield outcome
    return in_time


def _rounds(run: DesignRun, clock: DesignClock, proposer: Proposer, in_time: InTime, options: DesignOptions,
            stopped: Callable[[], bool]) -> str:
    """Evaluates round by round until there is nothing left to do; returns the reason in words."""
    known: set[Point] = set()
    proposed = idle = 0
    while run.mapped < run.wanted and not clock.missed:
        begun = time.time()
        clock.begin_proposals()
        points = [point for point in proposer.propose(int(min(options.round, run.wanted - run.mapped)), run.archive)
                  if point not in known]
        clock.proposals.append(time.time() - begun)
        if not points and not clock.over_for_proposals():  # a proposer without time may have nothing to propose
            return "all designs that the method proposes were evaluated"
        known.update(points)
        mine = _dealt(points, proposed, options.shard)
        proposed += len(points)
        before = run.mapped
        for outcome in in_time(mine, run.values() if options.prune else []):
            if outcome is not None:
                run.add(outcome)
            if stopped():
                return "interrupted: the best designs so far"
        idle = 0 if run.mapped > before else idle + 1
        clock.missed |= run.mapped < run.wanted and clock.too_late()
        if idle >= proposer.idle_rounds and not clock.missed:
            return f"no design to map in {idle} rounds: all were refused or no better by their lower bounds"
    return SEARCH_ENDED


def _dealt(points: Sequence[Point], proposed: int, shard: tuple[int, int] | None) -> list[Point]:
    """The points of a round that this shard evaluates, by their place among all proposed."""
    if shard is None:
        return list(points)
    number, shards = shard
    return [point for place, point in enumerate(points, proposed) if place % shards == number - 1]


def _machine(run: DesignRun, bench: DesignBench, options: DesignOptions, neighbours: tuple[DesignOutcome, ...],
             status: str, over: Callable[[], bool], notes: tuple[str, ...]) -> DesignResult:
    """The result of a run that has ended; `over`: whether there is no time for anything that it can do without."""
    question, space = bench.question, bench.question.space
    final, source = final_figures(bench, run.front, over)
    networks, lost = attempted("mappings of the best design", lambda: bench.networks_at(run.front[0].point, over)
                               if run.front else ())
    warnings, differs = [*notes, *_changed(bench.store)], ""
    if networks is None:
        warnings.append(lost)
    elif run.front and run.front[0].cut_short:
        warnings.append("there was no time to search the mappings of the best design to the end")
    elif OUT_OF_TIME in {network.status for network in networks}:
        warnings.append("there was no time to plan the best design again: its figures are those of the store, its "
                        "files have the plan that was found")
    elif run.front:
        differs = disagreement(question, run.front[0], networks)
        warnings += [differs] if differs else []
    reference = run.reference()
    effort = {name: getattr(options, name) for name in ("method", "evaluations", "time_limit", "prune", "shard")}
    return DesignResult(
        name=space.name, space_size=space.size,
        ranges={each.name: (each.values[0], each.values[-1], len(each.values)) for each in space.parameters},
        limits={limit.name: limit.most for limit in space.limits},
        metrics=question.metrics, outcomes=run.archive, front=tuple(run.front),
        documents=tuple(design_document(space, outcome.point) for outcome in run.front),
        mapped_networks=networks or (), neighbours=neighbours,
        final=final, final_source=source,
        hypervolume=hypervolume(run.values(), reference) if reference else None, reference=reference,
        history=run.improvements(),
        options=effort | {"per_round": options.round, "seed": question.seed, "fuse": question.fuse,
                          "energy": question.energy, "weights": list(question.weights)}
        | (question.calibration.record() if question.calibration else {}),
        status=status, time_s=run.time_s, warnings=tuple(warnings), confirmed=not differs)


def _changed(store: ResultStore) -> list[str]:
    """A sentence on the files of a store that were not as they had been written, if any were not."""
    if not store.changed:
        return []
    some = listed(sorted(store.changed)[:MOST_NAMED]) + (" and others" if len(store.changed) > MOST_NAMED else "")
    return [f"{len(store.changed)} entries of the store were not as they had been written, and what they hold was "
            f"evaluated anew: {some}"]
