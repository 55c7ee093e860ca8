"""The search loop: designs are proposed round by round, evaluated exactly by an executor, and the best are kept.

Proposals of a round depend on the archive of all earlier rounds, and their evaluation on its front: the answer depends
neither on the number and order of workers nor on the content of the store.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime, SpecError, attempted, listed
from fadiff_mapper.design.bound_designs import BoundDesigns, DesignDescent
from fadiff_mapper.design.evaluate_design import (
    PROOF_WORK,
    SLACK,
    DesignBench,
    design_bound,
    disagreement,
    evaluate_design,
)
from fadiff_mapper.design.executors import executor
from fadiff_mapper.design.layer_entries import OUT_OF_TIME
from fadiff_mapper.design.proposers import BLACK_BOX, ExhaustiveDesigns, OptunaDesigns, Proposer
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers, check_question
from fadiff_mapper.design.result import DesignOutcome, DesignResult, OutcomeTable, hypervolume, undominated
from fadiff_mapper.design.space import DesignSpace, Point, design_document, limit_values, points_beside
from fadiff_mapper.inputs.energy.choose_source import installed
from fadiff_mapper.search.lower_bound.refine import refine

WRITING = 1.5
"""Seconds reserved for the last steps, per second from the command's start to its search: both grow with the networks
and on a slow machine."""

JUDGING = 0.5  # share of the remaining time for judging designs until a first design is mapped


@dataclass
class DesignClock:
    """Predicts whether a round can end in time from past rounds; all times in seconds."""

    limit: float | None  # time for the search; None: no limit
    designs_after: Callable[[], int]  # expected number of designs to map after the search
    start: float  # by `time.time`, the only clock shared with workers on other machines
    proposals: list[float] = field(default_factory=list)  # duration of each round's proposals
    mappings: list[float] = field(default_factory=list)  # duration until each round had its first mapped design
    judging_end: float = inf  # end of the time to propose a round's designs
    missed: bool = False  # whether a design or round was given up or not begun in time

    def over(self) -> bool:
        """Whether the time of the search, its last steps included, is over."""
        return self.limit is not None and time.time() > self.start + self.limit

    def left(self) -> float:
        """Remaining seconds for the search of designs; infinite without a limit, below 0 if over."""
        return self.end() - time.time()

    def begin_proposals(self) -> None:
        """Starts the time for judging designs."""
        self.judging_end = time.time() + self.left() * (1.0 if self.mappings else JUDGING)

    def over_for_proposals(self) -> bool:
        """Whether judging must end, so that the proposed designs can be mapped."""
        return time.time() > self.judging_end

    def too_late(self) -> bool:
        """Whether a round that begins now is unlikely to map a design in time."""
        return self.left() < sum(median(seconds) for seconds in (self.proposals, self.mappings) if seconds)

    def end(self) -> float:
        """The end of the search of designs, in seconds since the epoch; infinite without a limit."""
        if self.limit is None:
            return inf
        return self.start + self.limit - (self.designs_after() * median(self.mappings) if self.mappings else 0.0)


def kept_back(begun: float) -> float:
    """Seconds of a command's limit that a search starting now cannot use: already spent, or needed for the files.

    `begun`: the start of the command on the monotonic clock.
    """
    return (time.monotonic() - begun) * (1 + WRITING)


@dataclass(frozen=True)
class DesignProgress:
    """The progress of a search of designs."""

    evaluations: int  # designs mapped
    wanted: float  # most designs to map; infinite if only space or time is the limit
    pruned: int  # designs pruned for their lower bounds
    refused: int  # designs that are invalid or break a limit
    best: DesignOutcome | None  # best in the first metric; None before a feasible design
    time_s: float  # since the start

    @property
    def rate(self) -> float:
        """Designs mapped in a second."""
        return self.evaluations / self.time_s if self.time_s else 0.0

    @property
    def left_s(self) -> float:
        """Remaining seconds at this rate; infinite if unknown."""
        return (self.wanted - self.evaluations) / self.rate if self.rate else inf


OnDesign = Callable[[DesignProgress], None]  # called after every design

InTime = Callable[[Sequence[Point], Sequence[tuple[float, ...]]], Iterator[DesignOutcome | None]]
"""Evaluates points against rivals as `Evaluated` does, within a time limit set by its maker."""


@dataclass
class DesignRun:
    """The archive, front and history of a running search."""

    metrics: tuple[str, ...]
    wanted: float  # most designs to map
    on_progress: OnDesign
    archive: OutcomeTable  # every outcome so far, in the order of proposal
    front: list[DesignOutcome] = field(default_factory=list)  # best in the first metric first
    history: list[dict[str, Any]] = field(default_factory=list)  # as `DesignResult.history`; `front` has its metrics
    mapped: int = 0
    pruned: int = 0
    start: float = field(default_factory=time.monotonic)

    @property
    def time_s(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def values(self) -> list[tuple[float, ...]]:
        """The metrics of the front's designs."""
        return [tuple(outcome.of(metric) for metric in self.metrics) for outcome in self.front]

    def add(self, outcome: DesignOutcome) -> None:
        """Adds an outcome and reports it."""
        self.archive.append(outcome)
        self.mapped += outcome.mapped
        self.pruned += outcome.pruned
        designs = [*self.front, outcome] if outcome.feasible else self.front
        front = [designs[number] for number in undominated(
            [tuple(each.of(metric) for metric in self.metrics) for each in designs])]
        if any(each is outcome for each in front):
            self.front = front
            self.history.append({"time_s": self.time_s, "evaluations": self.mapped,
                                 "value": front[0].of(self.metrics[0]), "front": self.values()})
        self.on_progress(DesignProgress(self.mapped, self.wanted, self.pruned,
                                        len(self.archive) - self.mapped - self.pruned,
                                        self.front[0] if self.front else None, self.time_s))


MOST_LOOKED_AT = 1000  # designs whose limits are computed again for the message, within some seconds


def blame(bench: DesignBench, outcomes: Sequence[DesignOutcome]) -> str:
    """The reasons why none of some designs is feasible.

    One line for each broken limit, with the number of designs and the least value found, limits that no design meets
    first; then the most frequent other reasons.
    """
    space, met = bench.question.space, dict[str, list[tuple[float, float]]]()
    for outcome in outcomes[:MOST_LOOKED_AT]:
        try:
            limits = limit_values(space, outcome.point, bench.reader.specs(outcome.point)[0])
        except SpecError:
            limits = limit_values(space, outcome.point)
        for name, pair in limits.items():
            met.setdefault(name, []).append(pair)
    lines = []
    for name, pairs in met.items():
        broken, least = sum(not value <= most for value, most in pairs), min(value for value, _ in pairs)
        if broken:
            lines.append((-broken, f"limit {name}: {broken} of {len(pairs)} designs are above {pairs[0][1]:g}; the "
                                   f"least value met is {least:.6g}"))
    others = Counter(outcome.reason for outcome in outcomes
                     if not any(outcome.reason.startswith(f"{name} is ") for name in met))
    lines += [(-count, f"{count} of {len(outcomes)} designs: {reason}") for reason, count in others.most_common(3)]
    head = f"{space.name}: none of the {len(outcomes)} designs evaluated is feasible"
    return "\n".join([head, *(line for _, line in sorted(lines))])


STRIDES = (1.0, 0.25)
"""Octaves of steps beside the best design, before steps of one value, which are slow on a fine grid."""


def settled(run: DesignRun, space: DesignSpace, evaluated: InTime, stopped: Over,
            prune: bool) -> tuple[DesignOutcome, ...]:
    """Moves from the best design to better designs beside it until there is none.

    On the way, at most as many further designs are mapped as the search was asked for, so that short searches stay
    short; the last neighbourhood is mapped completely.

    `run` has a feasible design; `stopped`: asked after every neighbourhood, once true, the best design so far stays;
    `prune`: whether designs `STRIDES` octaves away are left out if their lower bound is no better.
    Returns the designs one value away from the best design in one parameter, all mapped, better or not.
    """
    most = 2 * run.wanted

    def moved(outcomes: Iterable[DesignOutcome | None], until: float) -> bool:
        """Adds outcomes until `until` designs are mapped; returns whether the best design has changed."""
        best, known = run.front[0], {outcome.point for outcome in run.archive}
        for outcome in outcomes:
            if outcome is not None and outcome.point not in known:
                run.add(outcome)
            if run.mapped >= until:
                break
        return run.front[0] is not best

    for octaves in STRIDES:
        again = True
        while again and run.mapped < most and not stopped():
            known = {outcome.point for outcome in run.archive}
            beside = [point for point in points_beside(space, run.front[0].point, octaves) if point not in known]
            again = moved(evaluated(beside, run.values() if prune else []), most)
    while True:
        around = [outcome for outcome in evaluated(points_beside(space, run.front[0].point, 0.0), [])
                  if outcome is not None]
        if not moved(around, inf) or run.mapped >= most or stopped():
            return tuple(around)


MOST_NAMED = 3  # files of the store named in a sentence

NO_DESCENT = ("PyTorch is not installed, so the method is bounds instead of gradient: no designs come from descents; "
              'accepted: pip install "fadiff-mapper[gradient]", or the method bounds')
"""Error if no method was requested and the default one cannot run."""

SEARCH_ENDED = "search ended"  # the status of a search that was not interrupted


def search_design(question: DesignQuestion, workers: DesignWorkers, *,
                  on_progress: OnDesign = lambda _: None, stopped: Over = never, kept_back: float = 0.0,
                  descent: DesignDescent | None = None) -> DesignResult:
    """Searches the best designs of a space for some networks; see `api.search_design`.

    `kept_back`: seconds of the time limit that the caller has spent, or needs for the files. `descent` proposes further
    designs for the method "gradient"; None if that is not the default. The result has no front for some shards.

    Raises:
        SpecError: The space is wrong.
        FadiffError: An option is out of range, a library is missing, or no evaluated design is feasible; the message
            names the limit to blame.
    """
    notes = () if question.options.method is not None or descent else (NO_DESCENT,)
    options = replace(question.options, method=question.options.method or ("gradient" if descent else "bounds"))
    question = replace(question, options=options)
    check_question(question, workers)
    assert (options.method == "gradient") == (descent is not None)
    archive = OutcomeTable({parameter.name: parameter.values for parameter in question.space.parameters},
                           [(network.name, weight) for network, weight in
                            zip(question.networks, question.weights, strict=True)])
    run = DesignRun(options.metrics, question.most_mapped(workers.shard), on_progress, archive)
    with ExitStack() as stack:
        folder = Path(workers.store or stack.enter_context(tempfile.TemporaryDirectory(prefix="fadiff-")))
        bench = DesignBench(question, folder)
        stack.enter_context(bench.store.opened())

        def mapped_after() -> int:
            """Designs to map again after a search: for their last figures, and for plans not kept."""
            again = len(run.front) if installed() else 0
            return again + bool(run.front and question.fuse and bench.planned != run.front[0].point)

        limit = None if options.time_limit is None else options.time_limit - kept_back
        clock = DesignClock(limit, mapped_after, time.time())
        black_box = BLACK_BOX.get(str(options.method))
        study = None if workers.study is None else folder / f"{workers.study}.study"
        proposer = black_box(question, study) if black_box else BoundDesigns(
            question, bench.reader.specs, bench.mappings_at, bench.least_at, clock.over_for_proposals, descent)
        sampled = proposer if isinstance(proposer, OptunaDesigns) else None
        if sampled:
            stack.callback(sampled.leave)
        with executor(bench, workers) as evaluated:
            def in_time(points: Sequence[Point], rivals: Sequence[tuple[float, ...]]) -> Iterator[DesignOutcome | None]:
                """Evaluates designs within the clock's time, and notes when a round has its first mapping."""
                if run.front and clock.left() < 0:
                    clock.missed |= bool(points)
                    return
                begun, mapped = time.time(), False
                for outcome in evaluated(points, rivals, clock.end(), clock.limit is not None and not run.front):
                    if outcome is not None and outcome.mapped and not mapped:
                        clock.mappings.append(time.time() - begun)
                        mapped = True
                    clock.missed |= outcome is None or outcome.cut_short
                    if sampled and outcome is not None and not outcome.cut_short:
                        sampled.learn(outcome)
                    yield outcome

            status = _rounds(run, clock, proposer, in_time, options, stopped, workers.shard or (1, 1))
            status += "; cycles are corrected to measured hardware" if question.options.calibration else ""
            ended = stopped() or not run.front or workers.shard is not None
            neighbours = () if ended or not options.neighbours else settled(
                run, question.space, in_time, stopped, options.prune)
            if options.gap is not None and not (ended or clock.missed):
                run.wanted = inf
                others = ExhaustiveDesigns(question.space, question.options.seed)
                status = _rounds(run, clock, others, in_time, options, stopped, gap=options.gap)
                raise_bounds(run, bench, options.gap, lambda: clock.over() or stopped())
        if clock.missed:
            out_of_time = f"out of time after {options.time_limit:g} s: the best designs so far"
            status = status.replace(SEARCH_ENDED, out_of_time)
        if not run.front and workers.shard is None:
            reasons = blame(bench, run.archive) if run.archive else f"{question.space.name}: no design was evaluated"
            raise FadiffError(reasons + ("\ntime was over then; accepted: more time" if clock.missed else ""))
        return _result(run, bench, workers.shard, neighbours, status, clock.over, notes)


def _rounds(run: DesignRun, clock: DesignClock, proposer: Proposer, in_time: InTime, options: DesignOptions,
            stopped: Over, shard: tuple[int, int] = (1, 1), gap: float = 0.0) -> str:
    """Evaluates round by round to the end; returns the reason in words.

    A design is not mapped if its bound leaves it better than the best design by at most the `gap`.
    """
    known = {outcome.point for outcome in run.archive}
    proposed = idle = 0
    number, shards = shard
    while run.mapped < run.wanted and not clock.missed:
        if isinstance(proposer, OptunaDesigns):
            for outcome in in_time(proposer.mapped_by_others(run.archive), []):
                if outcome is not None:
                    run.add(outcome)
            if run.mapped >= run.wanted or clock.missed:
                break
        begun = time.time()
        clock.begin_proposals()
        points = [point for point in proposer.propose(int(min(options.round, run.wanted - run.mapped)), run.archive)
                  if point not in known]
        clock.proposals.append(time.time() - begun)
        if not points and not clock.over_for_proposals():  # a proposer without time may have nothing to propose
            return "all designs that the method proposes were evaluated"
        known.update(points)
        mine = [point for place, point in enumerate(points, proposed) if place % shards == number - 1]
        proposed += len(points)
        before = run.mapped
        for outcome in in_time(mine, [tuple(value / (1 + gap) for value in rival) for rival in run.values()]
                               if options.prune else []):
            if outcome is not None:
                run.add(outcome)
            if stopped():
                return "interrupted: the best designs so far"
        idle = 0 if run.mapped > before else idle + 1
        clock.missed |= run.mapped < run.wanted and clock.too_late()
        if idle >= proposer.idle_rounds and not clock.missed:
            return f"no design to map in {idle} rounds: all were refused or no better by their lower bounds"
    return SEARCH_ENDED


def raise_bounds(run: DesignRun, bench: DesignBench, gap: float, over: Over) -> None:
    """Raises the least bound of the space until the best design is within the `gap`, or as far as proofs go.

    The design with the least bound comes next: its layers' mappings are proved. Designs that were not mapped are left
    out, as their bounds are within the gap.
    """
    def bound_at(place: int) -> float:
        outcome = run.archive[place]
        return SLACK * outcome.bounds.of(run.metrics[0], outcome.area_mm2) if outcome.bounds else inf

    enough, raised = run.front[0].of(run.metrics[0]) / (1 + gap), set[int]()
    bounds = {place: bound_at(place) for place, outcome in enumerate(run.archive) if outcome.bounds and outcome.mapped}

    def deciding() -> list[int]:
        place = min(bounds, key=bounds.__getitem__, default=-1)
        return [place] if place in bounds and bounds[place] < enough and place not in raised else []

    def opened(place: int) -> int:
        """Raises a design's bound by proofs of its layers' mappings."""
        least = design_bound(bench, bench.reader.specs(run.archive[place].point), over, PROOF_WORK, proved=True)
        if least is not None:
            run.archive.set_bounds(place, least)
        raised.add(place)
        bounds[place] = bound_at(place)
        return 1
    with suppress(OutOfTime):
        refine(deciding, opened)


def space_bound(run: DesignRun, size: int) -> float | None:
    """A lower bound on the first metric over all plans on all designs of the space; None if unknown.

    All `size` designs of the space must be refused or bounded, for a single metric.
    """
    if len(run.metrics) > 1 or len(run.archive) < size or any(
            outcome.bounds is None and (outcome.mapped or outcome.feasible) for outcome in run.archive):
        return None
    return min((SLACK * outcome.bounds.of(run.metrics[0], outcome.area_mm2) for outcome in run.archive
                if outcome.bounds is not None), default=None)


def _result(run: DesignRun, bench: DesignBench, shard: tuple[int, int] | None, neighbours: tuple[DesignOutcome, ...],
            status: str, over: Over, notes: tuple[str, ...]) -> DesignResult:
    """The result of a run at its end; `over`: whether there is no time for optional steps."""
    question, space, changed = bench.question, bench.question.space, bench.store.changed
    options = question.options
    final, source = tuple(run.front), f"{question.energy}; Accelergy is not installed"
    if installed() is not None:     # mapped again, as other energies may favour other mappings
        again = DesignBench(replace(question, space=replace(space, energy="accelergy")), bench.folder)

        def evaluated() -> tuple[DesignOutcome, ...]:
            if over():
                raise OutOfTime
            return tuple(evaluate_design(again, outcome.point, stopped=over) for outcome in run.front)
        outcomes, lost = attempted("figures by Accelergy", evaluated)
        if outcomes is None:
            source = f"{question.energy}; {lost}"
        else:
            kept = all(outcome.mapped or not outcome.reason for outcome in outcomes)
            final, source = outcomes, (f"Accelergy (searched with {question.energy})" if kept else
                                       "Accelergy; by its figures not every design keeps its limits (searched with "
                                       f"{question.energy})")
    networks, lost = attempted("mappings of the best design", lambda: bench.networks_at(
        run.front[0].point, over, proved=options.gap is not None) if run.front else ())
    warnings, differs = list(notes), ""
    if changed:
        some = listed(sorted(changed)[:MOST_NAMED]) + (" and others" if len(changed) > MOST_NAMED else "")
        warnings.append(f"{len(changed)} entries of the store were not as they had been written, and what they hold "
                        f"was evaluated anew: {some}")
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
    feasible = [outcome for outcome in run.archive if outcome.feasible]
    reference = tuple(max(outcome.of(metric) for outcome in feasible)
                      for metric in run.metrics) if len(run.metrics) > 1 and feasible else ()
    history = [{key: value for key, value in step.items() if key != "front"}
               | ({"hypervolume": hypervolume(step["front"], reference)} if reference else {}) for step in run.history]
    effort = {name: getattr(options, name) for name in ("method", "evaluations", "time_limit", "prune")}
    effort |= {"shard": shard} | ({} if options.gap is None else {"gap": options.gap})
    return DesignResult(
        question=question, name=space.name, space_size=space.size,
        limits=dict(space.limits),
        metrics=options.metrics, outcomes=run.archive, front=tuple(run.front),
        documents=tuple(design_document(space, outcome.point) for outcome in run.front),
        mapped_networks=networks or (), neighbours=neighbours,
        final=final, final_source=source,
        hypervolume=hypervolume(run.values(), reference) if reference else None, reference=reference,
        bound=space_bound(run, space.size), history=tuple(history),
        options=effort | {"per_round": options.round, "seed": options.seed, "fuse": question.fuse,
                          "energy": question.energy, "weights": list(question.weights)}
        | (options.calibration.record() if options.calibration else {}),
        status=status, time_s=run.time_s, warnings=tuple(warnings), confirmed=not differs)
