"""The loop: the true best of a small space, whatever the method, the workers, the store and the shards."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_spaces import SECTION, forbid_searches, small_network, small_question, small_space

import fadiff_mapper
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design import bound_designs as proposer_module
from fadiff_mapper.design import executors as executors_module
from fadiff_mapper.design import layer_entries as entries_module
from fadiff_mapper.design import search_design as final_module
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.layer_entries import OUT_OF_TIME, layer_entries
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.result import DesignOutcome, DesignResult
from fadiff_mapper.design.result_store import ResultStore
from fadiff_mapper.design.search_design import DesignClock, DesignProgress, search_design
from fadiff_mapper.gradient import descent_for_designs
from fadiff_mapper.search.lower_bound.assemble import gap_above


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for the tests of this file, so that each layer is mapped once in all of them."""
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def truth(store: Path, tmp_path_factory: pytest.TempPathFactory) -> list[DesignOutcome]:
    """Every design of the small space."""
    bench = DesignBench(small_question(tmp_path_factory.mktemp("truth")), store)
    return [evaluate_design(bench, point) for point in all_points(bench.question.space)]


def searched(question: DesignQuestion, jobs: int = 1, **settings: Any) -> DesignResult:
    shared = {name: settings.pop(name) for name in ("store", "shard") if name in settings}
    options = replace(question.options, **{"method": "random", "neighbours": False} | settings)
    return search_design(replace(question, options=options), DesignWorkers(jobs, **shared),
                         descent=descent_for_designs(options.method))


@pytest.mark.slow
@pytest.mark.parametrize("fuse", [False, True])
def test_with_a_gap_the_best_design_of_the_whole_space_is_proven(fuse: bool, tmp_path: Path) -> None:
    question = small_question(tmp_path, fuse=fuse)
    every = searched(question, method="exhaustive", prune=False, store=tmp_path / "store")
    proven = searched(question, method="random", evaluations=2, gap=0.0, store=tmp_path / "store")
    assert proven.best.edp == every.best.edp and len(proven.outcomes) == 12
    assert proven.evaluations < 12 and proven.bound >= every.bound * (1 - 1e-6)
    assert proven.gap == gap_above(proven.best.edp, proven.bound)
    assert 0 < proven.gap < 0.5 if fuse else proven.gap == 0
    assert "of all 12 designs" in proven.proven and ("fused groups" in proven.proven) == fuse
    left, best = [outcome for outcome in proven.outcomes if outcome.pruned], proven.best.edp
    assert all(outcome.bounds.of("edp", outcome.area_mm2) >= best for outcome in left) and proven.pruned_gap == 0
    assert (f"no plan on the {len(left)} designs pruned for their bounds is better" in proven.proven) == fuse
    plan, = proven.mapped_networks
    assert plan.gap is not None and 0 <= plan.gap <= proven.gap + 1e-8
    wide = searched(question, method="random", evaluations=2, gap=10.0, store=tmp_path / "store")
    assert wide.evaluations == 2 and wide.gap is not None and wide.gap <= 10
    assert wide.pruned_gap is not None and 0 < wide.pruned_gap <= wide.gap and "pruned" not in wide.proven


def test_without_a_gap_nothing_is_said_of_designs_that_were_not_looked_at(tmp_path: Path) -> None:
    machine = searched(small_question(tmp_path), method="random", evaluations=2, store=tmp_path / "store")
    assert machine.gap is None and "10 designs were not looked at" in machine.proven


@pytest.mark.parametrize(("settings", "asked", "message"), [
    ({"gap": -0.1}, {}, "gap: found -0.1; accepted: a share of 0 or more"),
    ({"gap": math.inf}, {}, "gap: found inf; accepted: a share of 0 or more"),
    ({"gap": 0.0, "prune": False}, {}, "gap: found with prune=False; accepted: one of them"),
    ({"gap": 0.0}, {"metrics": ("edp", "area")}, "gap: found with several metrics, with which nothing is proven")])
def test_a_gap_that_cannot_be_proven_is_refused(settings: dict[str, Any], asked: dict[str, Any], message: str,
                                                tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match=message):
        searched(small_question(tmp_path, **asked), **settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["random", "exhaustive", "tpe", "nsga2"])
def test_every_method_finds_the_best_of_a_small_space(method: str, store: Path, truth: list[DesignOutcome],
                                                      tmp_path: Path) -> None:
    if method in ("tpe", "nsga2"):
        pytest.importorskip("optuna")
    machine = searched(small_question(tmp_path), method=method, store=store)
    assert machine.best == min(truth, key=lambda outcome: outcome.edp)
    assert {outcome.point for outcome in machine.outcomes} == {outcome.point for outcome in truth}
    assert machine.evaluations + machine.pruned + machine.refused == len(truth)
    assert machine.history[-1]["value"] == machine.best.edp
    assert machine.mapped_networks[0].stats.edp == machine.best.edp


def comparable(machine: DesignResult) -> DesignResult:
    timeless = tuple({key: value for key, value in step.items() if key != "time_s"} for step in machine.history)
    return replace(machine, time_s=0.0, history=timeless, mapped_networks=())


@pytest.mark.slow
def test_workers_and_store_change_nothing(store: Path, truth: list[DesignOutcome], tmp_path: Path) -> None:
    question = small_question(tmp_path, seed=3)
    settings = {"evaluations": 4, "per_round": 3}
    alone = searched(question, **settings)
    assert comparable(searched(question, **settings, jobs=2, store=tmp_path / "new")) == comparable(alone)
    assert comparable(searched(question, **settings, store=tmp_path / "new")) == comparable(alone)


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    question = small_question(tmp_path)
    calls: list[int] = []
    real = entries_module.search_all

    def dying(tasks: list[Any], options: Any, **settings: Any) -> Any:
        calls.append(len(tasks))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(tasks, options, **settings)

    monkeypatch.setattr(entries_module, "search_all", dying)
    settings = {"method": "exhaustive", "evaluations": 5, "store": tmp_path / "store", "prune": False}
    with pytest.raises(KeyboardInterrupt):
        searched(question, **settings)
    assert searched(question, **settings).evaluations == 5
    assert len(calls) == 3 + 3  # two designs were in the store


def edited(store: Path, change: Callable[[dict[str, Any]], dict[str, Any]], digests: bool) -> int:
    """Changes all entries of a store that have energies; `digests`: as one does who works the digests out anew."""
    count = 0
    for file in sorted(store.glob("*.jsonl")):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        those = [line for line in lines if "energy_pj" in line["entry"]]
        for line in those:
            changed = change(line["entry"])
            if digests:
                ResultStore(store).put(line["key"], changed)
            line["entry"] = changed
        if not digests:
            file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        count += len(those)
    return count


def half(entry: dict[str, Any]) -> dict[str, Any]:
    return entry | {name: entry[name] / 2 for name in ("energy_pj", "cycles")}


def test_a_store_that_was_edited_makes_no_design_win(truth: list[DesignOutcome], tmp_path: Path) -> None:
    """The figures of the worst design are made better than those of the best."""
    worst = max(truth, key=lambda outcome: outcome.edp)
    question, store = small_question(tmp_path), tmp_path / "store"
    evaluate_design(DesignBench(question, store), worst.point)
    count = edited(store, lambda entry: entry | {"energy_pj": 1.0, "cycles": 1.0}, digests=False)
    settings = {"method": "exhaustive", "store": store, "prune": False}
    machine = searched(question, **settings)
    assert sorted(machine.outcomes, key=lambda outcome: outcome.point) == truth
    assert machine.confirmed
    assert len(machine.warnings) == 1
    assert machine.warnings[0].startswith(f"{count} entries of the store were not as they had been written, and what "
                                          f"they hold was evaluated anew: {store}")
    assert searched(question, **settings).warnings == ()  # the store is whole again


@pytest.mark.parametrize("fuse", [False, True])
def test_a_best_design_that_is_not_what_the_store_says_is_reported(fuse: bool, tmp_path: Path) -> None:
    question, settings = small_question(tmp_path, fuse=fuse), {"evaluations": 1, "store": tmp_path / "store"}
    honest = searched(question, **settings)
    assert (honest.confirmed, honest.warnings) == (True, ())
    assert searched(question, **settings).confirmed
    edited(tmp_path / "store", half, digests=True)
    machine = searched(question, **settings)
    assert not machine.confirmed
    assert machine.warnings == (
        f"the best design, evaluated again, takes {honest.best.energy_pj:.6g} pJ and {honest.best.cycles:.6g} cycles "
        f"for two_layers, not {honest.best.energy_pj / 2:.6g} pJ and {honest.best.cycles / 2:.6g} cycles as the store "
        "has it: it was changed, or filled by another machine; search again without it",)
    assert machine.mapped_networks[0].stats == honest.mapped_networks[0].stats


def test_shards_put_their_designs_together(truth: list[DesignOutcome], tmp_path: Path,
                                           monkeypatch: pytest.MonkeyPatch) -> None:
    question = small_question(tmp_path)
    parts = [searched(question, method="exhaustive", store=tmp_path / "store", shard=(number, 3))
             for number in (1, 2, 3)]
    points = [outcome.point for part in parts for outcome in part.outcomes]
    assert sorted(points) == [outcome.point for outcome in truth]
    forbid_searches(monkeypatch)
    assert searched(question, method="exhaustive", store=tmp_path / "store").best in truth


def test_several_metrics_give_the_front(store: Path, truth: list[DesignOutcome], tmp_path: Path) -> None:
    question = small_question(tmp_path, metrics=("energy", "delay"))
    machine = searched(question, method="exhaustive", store=store)
    best = {outcome.point for outcome in truth if not any(
        (other.energy_pj, other.cycles) != (outcome.energy_pj, outcome.cycles) and other.energy_pj <= outcome.energy_pj
        and other.cycles <= outcome.cycles for other in truth)}
    assert {outcome.point for outcome in machine.front} == best
    assert machine.hypervolume == machine.history[-1]["hypervolume"]
    volumes = [step["hypervolume"] for step in machine.history]
    assert volumes == sorted(volumes)
    assert 0 < volumes[-1] < 1


def test_pruning_loses_nothing(store: Path, truth: list[DesignOutcome], tmp_path: Path) -> None:
    settings = {"method": "exhaustive", "per_round": 2, "store": store}
    pruned, all_mapped = (searched(small_question(tmp_path), **settings, prune=prune) for prune in (True, False))
    assert pruned.best == all_mapped.best
    assert pruned.pruned > 0 == all_mapped.pruned
    assert all_mapped.evaluations == len(truth)


def test_limits_hold_and_a_space_without_a_design_names_the_limit(store: Path, tmp_path: Path) -> None:
    section = SECTION + "  limits: {units: 64, columns * depth: 20000}\n"
    machine = searched(small_question(tmp_path, section), method="exhaustive", store=store)
    assert all(outcome.parameters["columns"] == 4 and outcome.parameters["depth"] <= 5000
               for outcome in machine.outcomes if outcome.feasible)
    with pytest.raises(FadiffError) as failure:
        searched(small_question(tmp_path, SECTION + "  limits: {units: 20, columns * depth: 20000}\n"), store=store)
    assert str(failure.value).splitlines() == [
        "gemmini_small: none of the 12 designs evaluated is feasible",
        "limit units: 12 of 12 designs are above 20; the least value met is 64",
        "limit columns * depth: 5 of 12 designs are above 20000; the least value met is 2048"]
    with pytest.raises(FadiffError, match="limit units: 8 of 8 designs are above 20; the least value met is 64"):
        searched(small_question(tmp_path, SECTION + "  limits: {units: 20}\n"), method="gradient", store=store)


def test_a_search_ends_where_no_neighbour_is_better(store: Path, truth: list[DesignOutcome], tmp_path: Path) -> None:
    machine = searched(small_question(tmp_path), method="exhaustive", evaluations=2, per_round=1, store=store,
                       neighbours=True)
    best = machine.best.point
    assert machine.outcomes[0].edp > machine.best.edp  # the first design is not the end of it
    assert all(outcome.edp >= machine.best.edp for outcome in machine.neighbours)
    assert len({outcome.point for outcome in machine.outcomes}) == len(machine.outcomes) < len(truth)
    assert all(sum(abs(a - b) for a, b in zip(outcome.point, best, strict=True)) == 1 for outcome in machine.neighbours)
    assert len(machine.neighbours) >= 2
    assert all(outcome.mapped for outcome in machine.neighbours)


def test_time_and_interruption_end_a_search_with_what_there_is(store: Path, tmp_path: Path) -> None:
    question, steps = small_question(tmp_path), []

    def stopped() -> bool:
        return len(steps) >= 2

    exhaustive = replace(question, options=replace(question.options, method="exhaustive"))
    machine = search_design(exhaustive, DesignWorkers(1, store=store),
                            on_progress=steps.append, stopped=stopped)
    assert machine.status == "interrupted: the best designs so far"
    assert len(machine.outcomes) == 2
    assert isinstance(steps[-1], DesignProgress)
    assert steps[-1].best == machine.best
    late = searched(question, time_limit=1e-9)
    assert (late.evaluations, late.status) == (1, "out of time after 1e-09 s: the best designs so far")
    refused = small_question(tmp_path, SECTION + "  limits: {units: 20}\n")
    with pytest.raises(FadiffError, match=r"above 20.*\ntime was over then; accepted: more time"):
        searched(refused, time_limit=1e-9)


class SlowDesigns:
    """The time that designs take, of a clock that only they move: half a second to map one, a tenth to propose."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        real = executors_module.evaluate_design

        def slow(bench: DesignBench, point: tuple[int, ...], rivals: Any, stopped: Any,
                 give_up: bool) -> DesignOutcome:
            for _ in range(5):
                self.now += 0.1
                if stopped():
                    if give_up:
                        raise OutOfTime
                    return replace(real(bench, point, rivals), cut_short=True)
            return real(bench, point, rivals)

        monkeypatch.setattr(executors_module, "evaluate_design", slow)
        monkeypatch.setattr(time, "time", lambda: self.now)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["exhaustive", "gradient"])
@pytest.mark.parametrize(("limit", "least", "most"), [(0.2, 0.2, 0.2), (1.2, 1.0, 1.2), (3.3, 2.0, 3.3)])
def test_a_search_ends_within_its_time(method: str, limit: float, least: float, most: float, store: Path,
                                       truth: list[DesignOutcome], tmp_path: Path,
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    question, clock = small_question(tmp_path), SlowDesigns(monkeypatch)
    machine = searched(question, method=method, time_limit=limit, store=store, prune=False, neighbours=True)
    assert least - 1e-9 <= clock.now - 1000.0 <= most + 0.1 + 1e-9  # a step of the clock may cross the limit
    assert machine.status == f"out of time after {limit:g} s: the best designs so far"
    assert 1 <= machine.evaluations == len(machine.outcomes) <= max(1, limit / 0.5)
    assert machine.best.cut_short == (limit < 0.5) == bool(machine.warnings)


def test_a_search_whose_proposer_runs_out_of_time_says_so(store: Path, tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    question, clock = small_question(tmp_path), SlowDesigns(monkeypatch)

    def walked(*_: object) -> None:
        clock.now += 9.0

    monkeypatch.setattr(proposer_module, "walk", walked)
    machine = searched(question, method="bounds", time_limit=8.0, store=store, prune=False)
    assert machine.status == "out of time after 8 s: the best designs so far"


def test_a_design_that_is_cut_short_has_sound_mappings_and_leaves_nothing_behind(tmp_path: Path) -> None:
    question, store = small_question(tmp_path), tmp_path / "store"
    specs = DesignBench(question, None).reader.specs((1, 2))
    whole = layer_entries(specs, question.layer_options, ResultStore(None))
    cut = layer_entries(specs, question.layer_options, ResultStore(store), lambda: True, give_up=False)
    assert {entry.status for entry in cut} == {OUT_OF_TIME}
    for short, long in zip(cut, whole, strict=True):
        assert long.energy_pj * long.cycles <= short.energy_pj * short.cycles <= 1.5 * long.energy_pj * long.cycles
    with pytest.raises(OutOfTime):
        layer_entries(specs, question.layer_options, ResultStore(store), lambda: True)
    assert not store.exists()
    known = ResultStore(store)
    assert layer_entries(specs, question.layer_options, known) == whole
    assert layer_entries(specs, question.layer_options, known, lambda: True) == whole  # nothing is left to search


@pytest.mark.parametrize("fuse", [False, True])
def test_a_search_without_time_has_a_design_with_its_mappings(fuse: bool, tmp_path: Path) -> None:
    machine = searched(small_question(tmp_path, fuse=fuse), method="gradient", time_limit=1e-9, store=tmp_path / "s")
    assert machine.best.cut_short
    assert machine.confirmed
    assert machine.status == "out of time after 1e-09 s: the best designs so far"
    assert machine.warnings == ("there was no time to search the mappings of the best design to the end",)
    plan, = machine.mapped_networks
    assert plan.status == OUT_OF_TIME
    assert (plan.stats.energy_pj, plan.stats.cycles) == (machine.best.energy_pj, machine.best.cycles)
    assert not list((tmp_path / "s").glob("*.jsonl"))


def test_a_best_design_that_cannot_be_planned_again_in_time_is_named(tmp_path: Path) -> None:
    question, store = small_question(tmp_path, fuse=True), tmp_path / "store"
    searched(question, evaluations=1, store=store)
    machine = searched(question, evaluations=1, store=store, time_limit=1e-9)
    assert not machine.best.cut_short
    assert machine.warnings == ("there was no time to plan the best design again: its figures are those of the store, "
                                "its files have the plan that was found",)


def test_accelergy_is_not_asked_where_there_is_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_module, "installed", lambda: "/nowhere/accelergy")
    machine = searched(small_question(tmp_path), time_limit=1e-9)
    assert machine.final == machine.front
    assert machine.final_source == "estimate; no figures by Accelergy: there was no time"


def test_half_of_the_time_is_for_judging_before_a_design_is_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])

    def judging(clock: DesignClock) -> float:
        clock.begin_proposals()
        return clock.judging_end - now[0]

    clock = DesignClock(60.0, lambda: 0, 1000.0)
    assert judging(clock) == 30
    now[0] += 29
    assert not clock.over_for_proposals()
    now[0] += 11
    assert clock.over_for_proposals() and not clock.over()
    assert judging(clock) == 10  # all designs of the first round broke a limit
    clock.mappings.append(1.0)
    assert judging(clock) == 20
    now[0] += 21
    assert clock.over_for_proposals() and clock.over()
    unlimited = DesignClock(None, lambda: 0, 0.0)
    assert judging(unlimited) == math.inf and not unlimited.over_for_proposals()


def test_time_is_kept_back_for_plans_that_must_be_found_again(tmp_path: Path) -> None:
    clock = DesignClock(60.0, lambda: 1, time.time())
    assert clock.left() > 59  # nothing is known of designs yet
    clock.mappings += [4.0, 10.0, 5.0]
    assert 54 < clock.left() <= 55
    assert not clock.too_late()
    clock.proposals.append(50.5)
    assert clock.too_late()
    assert clock.end() == clock.start + 55
    assert DesignClock(None, lambda: 1, 0.0).end() == math.inf


@pytest.mark.parametrize(("settings", "message"), [
    ({"method": "annealing"}, "method: found 'annealing'; accepted: bounds, gradient, random, exhaustive, tpe, nsga2"),
    ({"evaluations": 0}, "evaluations: found 0; accepted: a whole number from 1"),
    ({"shard": (4, 3), "store": Path("x")}, "shard: found 4/3; accepted: i/n with i from 1 to n"),
    ({"shard": (1, 3), "method": "tpe", "store": Path("x")}, "shard: the method tpe learns from every design"),
    ({"shard": (1, 3)}, "shard: found no store"),
    ({"jobs": 999_999_999_999}, "jobs: found 999999999999; accepted: a whole number from 1 to 1024"),
    ({"time_limit": -1.0}, "time limit: found -1.0; accepted: seconds greater than 0"),
])
def test_options_out_of_range_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match=message):
        searched(small_question(tmp_path), **settings)


@pytest.mark.parametrize(("settings", "message"), [
    ({"metrics": ("speed",)}, "metric: found 'speed'; accepted: edp, energy, delay, area, edap"),
    ({"metrics": ("edp", "edp")}, "metric: found edp, edp; accepted: one to three different metrics"),
    ({"weights": (1.0, 2.0)}, "weights: found 2 for 1 networks"),
    ({"weights": (-1.0,)}, "weights: found -1.0; accepted: numbers greater than 0"),
    ({"seed": -5}, "seed: found -5; accepted: a whole number from 0 to 9223372036854775807"),
    ({"seed": 2 ** 63}, "seed: found 9223372036854775808; accepted: a whole number from 0"),
])
def test_questions_that_make_no_sense_are_refused(settings: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match=message):
        if "weights" in settings:
            searched(replace(small_question(tmp_path), **settings))
        searched(small_question(tmp_path, **settings))


def test_the_public_function_reads_files_and_networks(store: Path, truth: list[DesignOutcome], tmp_path: Path) -> None:
    small_network(tmp_path)
    small_space(tmp_path)
    options, workers = DesignOptions(method="exhaustive", fuse=False), DesignWorkers(jobs=1, store=store)
    every = fadiff_mapper.search_design(["bundled:arch/gemmini_small", tmp_path / "space.yaml"],
                                        tmp_path / "two_layers.yaml", options, workers=workers)
    assert every.best == min(truth, key=lambda outcome: outcome.edp)
    space = fadiff_mapper.read_space("bundled:arch/gemmini_small", tmp_path / "space.yaml", limits={"units": 128})
    result = fadiff_mapper.search_design(space, tmp_path / "two_layers.yaml", options, workers=workers)
    assert result.best == min((each for each in truth if each.parameters["columns"] <= 8), key=lambda each: each.edp)
    assert result.limits == {"units": 128}
    assert isinstance(result, fadiff_mapper.DesignResult)
