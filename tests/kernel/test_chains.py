"""The compiled search: optimal where that can be checked, honest about its end, and the same answer in any slices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from kernel_parts import parts
from small_specs import product, whole_space

from fadiff_mapper import SearchOptions, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search import refinement
from fadiff_mapper.search.best_so_far import ILLEGAL, exact_value
from fadiff_mapper.search.layer_family import LayerFamily, family_of
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.refinement import Refinement, chains_of, compiled_space

LITTLE, SIXTEEN = Effort(16, 40, 6, extra_rounds=10, extra_chains=4), Effort(16, 40)
QUICK = SearchOptions(effort=LITTLE)
LEAST_DESCENT = 1e-12
"""By how much (in logarithms) a neighbour has to be better for the descent to go there, as in `chains.cpp`."""


def alone(spec: Spec) -> LayerFamily:
    """A layer by itself."""
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    return family_of(layer, [build_mapspace(spec.arch, spec.problem, spec.constraints)])


def conv(design: str) -> LayerFamily:
    return alone(load(find(f"arch/{design}"), find("layers/resnet18/conv3x3_64_64_56_s1")))


def begun(of: LayerFamily, options: SearchOptions = QUICK, **more: Any) -> Refinement:
    """The refinement of a layer from random mappings."""
    return Refinement(MappingTask(of.layer, of.spaces[0], **more), options, watcher=lambda *_: None)


def every_neighbour(of: LayerFamily, nest: Nest) -> Nest:
    """All mappings one decision away; every level has few enough layouts for all of them to be looked at."""
    assert all(layouts.order.shape[1] <= 12 for layouts in of.layouts)
    return Nest(*parts.all_neighbours(of.layer.compiled, compiled_space(of, 0), nest_arrays(nest), 0)[:6])


def same(a: Nest, b: Nest) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(nest_arrays(a), nest_arrays(b), strict=True))


@pytest.mark.parametrize("metrics", [("edp",), ("energy",), ("delay",), ("last_level_accesses",), ("delay", "energy"),
                                     ("last_level_accesses", "edp")])
def test_the_optimum_of_a_space_that_can_be_enumerated(metrics: tuple[str, ...]) -> None:
    spec = product()
    of, nest = alone(spec), whole_space(spec)
    best = exact_value(score(of.layer, nest), metrics).min()
    for seed in range(3):
        found = begun(of, SearchOptions(metrics, seed, effort=SIXTEEN))
        assert found.run() and found.chains.best_value == pytest.approx(best, abs=1e-9)


@pytest.mark.slow
def test_the_optimum_of_a_share_in_a_network() -> None:
    spec = product()
    of, scores = alone(spec), score(alone(spec).layer, whole_space(spec))
    energy, cycles = float(scores.energy[scores.legal].min()), float(scores.cycles[scores.legal].min())
    optima = set()
    for sums in ((energy, cycles), (energy, 30 * cycles), (30 * energy, cycles), (np.inf, cycles), (energy, np.inf)):
        values = exact_value(scores, ("edp",), sums=np.array(sums)[:, None])
        share = scores.energy / sums[0] + scores.cycles / sums[1]
        assert values[scores.legal] == pytest.approx(2 * np.log(share[scores.legal]), abs=1e-12)
        found = begun(of, sums=sums)
        found.run()
        assert found.chains.best_value == pytest.approx(values.min(), abs=1e-9)
        optima.add(float(score(of.layer, found.best()).energy[0]))
    assert len(optima) > 1, "the sums decide"


def test_the_optimum_beside_what_lies_there_already() -> None:
    spec = product()
    of, nest = alone(spec), whole_space(spec)
    values = []
    for words in (12.0, 7.0, 1.0):
        room = np.array([words, 1e9]), np.array([[False, True, True], [True, True, True]])
        batch = Room(*(np.repeat(part[..., None], nest.batch, axis=-1) for part in room))
        values.append(float(exact_value(score(of.layer, nest, room=batch), ("energy",)).min()))
        found = begun(of, SearchOptions(("energy",), effort=SIXTEEN), room=Room(*room))
        found.run()
        assert found.chains.best_value == pytest.approx(values[-1], abs=1e-9)
        one = Room(*(part[..., None] for part in room))
        assert score(of.layer, found.best(), room=one).legal.all()
    assert values == sorted(set(values)), "less room costs energy"


def test_the_optimum_that_uses_enough_units() -> None:
    """The energy is least on one unit or two; three quarters of them must work."""
    spec = product(mapspace_constraints=[{"target": "Buffer", "type": "utilization", "min": 0.75}])
    of, nest = alone(spec), whole_space(spec)
    assert of.spaces[0].constraints.min_parallelism == 0.75
    used = nest.spatial.prod(axis=(0, 1)) / 4
    values = exact_value(score(of.layer, nest), ("energy",))
    found = begun(of, SearchOptions(("energy",), effort=SIXTEEN))
    found.run()
    assert found.chains.best_value == pytest.approx(values[used >= 0.75].min(), abs=1e-9)
    assert found.best().spatial.prod() >= 3


def test_too_few_units_count_as_a_broken_limit() -> None:
    spec = product(mapspace_constraints=[{"target": "Buffer", "type": "utilization", "min": 0.75}])
    of, nest = alone(spec), whole_space(spec)
    one_unit = nest.take([int(np.flatnonzero((nest.spatial.prod(axis=(0, 1)) == 1) & score(of.layer, nest).legal)[0])])
    chains = chains_of(MappingTask(of.layer, of.spaces[0]), SearchOptions(seed=0), compiled_space(of, 0))
    chains.start_at(nest_arrays(one_unit))
    assert chains.best_value == pytest.approx(ILLEGAL + np.log2(0.75 / 0.25))


@pytest.mark.parametrize("design", ["gemmini_small", "weight_stationary", "eyeriss_like"])
def test_it_says_converged_only_where_no_neighbour_is_better(design: str) -> None:
    of = conv(design)
    for seed in range(3):
        little = Effort(chains=4, rounds=3, extra_rounds=0, neighbours=2, proof=0)
        found = begun(of, SearchOptions(seed=seed, effort=little))
        chains = found.chains
        found.anneal()
        steps, converged = 0, False
        while not converged:
            near = exact_value(score(of.layer, every_neighbour(of, found.best())), ("edp",)).min()
            before = chains.best_value
            converged = chains.polish(1)
            assert converged == (near >= before - LEAST_DESCENT)
            assert chains.best_value == pytest.approx(min(near, before), rel=1e-15), "steepest descent"
            steps += not converged
        assert steps > 0 and chains.polish(1)


def test_the_history_counts_every_evaluation_and_only_falls() -> None:
    of = conv("gemmini_small")
    found = begun(of, replace(QUICK, effort=replace(LITTLE, proof=0)))
    found.run()
    values = [entry.value for entry in found.history]
    counted = [entry.evaluations for entry in found.history]
    assert values == sorted(values, reverse=True) and len(set(values)) == len(values)
    assert counted == sorted(counted) and counted[-1] <= found.chains.evaluations
    assert counted[0] == 1 and {entry.stage for entry in found.history} <= {"start", "refine", "polish"}
    assert float(exact_value(score(of.layer, found.best()), ("edp",))[0]) == pytest.approx(values[-1], rel=1e-15)


def finished(of: LayerFamily, slices: Callable[[], int], seed: int = 3) -> tuple[Nest, float, int]:
    """The answer of chains that run a few rounds at a time."""
    chains = chains_of(MappingTask(of.layer, of.spaces[0]), SearchOptions(seed=seed), compiled_space(of, 0))
    chains.start_random(12)
    chains.begin(40, 0.8, 0.01, 10, 6, 4, False, resplit_rate=0.5)
    while not chains.anneal(slices()):
        pass
    chains.keep_strongest(4)
    chains.begin(20, 0.1, 0.01, 5, 3, 4, True, resplit_rate=0.2, crossover_rate=0.3)
    while not chains.anneal(slices()):
        pass
    chains.start_again(6)
    chains.begin(10, 0.8, 0.01, 10, 6, 4, False, resplit_rate=0.5)
    while not chains.anneal(slices()):
        pass
    chains.polish(200)
    return Nest(*chains.best()), chains.best_value, chains.evaluations


def test_slices_of_rounds_and_threads_change_nothing() -> None:
    of, rng = conv("simba_like"), np.random.default_rng(0)
    best, value, evaluations = finished(of, lambda: 5)
    for slices in (lambda: 1, lambda: 60, lambda: int(rng.integers(0, 9))):
        again = finished(of, slices)
        assert same(again[0], best) and again[1:] == (value, evaluations)
    seeds = range(3, 7)
    with ThreadPoolExecutor(4) as pool:
        at_once = list(pool.map(lambda seed: finished(of, lambda: 1, seed), seeds))
    assert same(at_once[0][0], best) and at_once[0][1:] == (value, evaluations)
    assert [one[1:] for one in at_once] == [finished(of, lambda: 5, seed)[1:] for seed in seeds]
    assert len({one[2] for one in at_once}) > 1, "seeds search in their own way"


def test_chains_of_unlike_values_are_kept_before_copies() -> None:
    of = conv("gemmini_small")
    drawn = Nest(*parts.random_points(of.layer.compiled, compiled_space(of, 0), 200, 0)[:6])
    values = exact_value(score(of.layer, drawn), ("edp",))
    best, second, third = (drawn.take([int(row)]) for row in np.unique(values, return_index=True)[1][:3])
    for count, met in ((1, 1), (2, 1), (3, 1), (4, 2), (5, 3), (9, 3)):
        chains = chains_of(MappingTask(of.layer, of.spaces[0]), SearchOptions(seed=0), compiled_space(of, 0))
        for nest in (third, best, best, second, best):
            chains.start_at(nest_arrays(nest))
        assert chains.met == 3
        chains.keep_strongest(count)
        assert chains.met == met, "the best, the second and the third, then the copies of the best"


def test_a_search_that_starts_again_keeps_its_best_mapping_and_none_of_its_chains() -> None:
    of = conv("gemmini_small")
    found = begun(of)
    found.anneal()
    chains, best, value, evaluations = found.chains, found.best(), found.chains.best_value, found.chains.evaluations
    assert chains.met > 0
    chains.start_again(3)
    assert chains.evaluations == evaluations + 3
    assert (chains.best_value, chains.met) == (value, 0) and same(found.best(), best)


@pytest.mark.parametrize("design", ["gemmini_large", "weight_stationary"])
def test_a_layer_on_which_chains_agree_is_searched_once(design: str) -> None:
    of = conv(design)
    once, again = (begun(of, SearchOptions(effort=Effort(searches=searches, proof=0)))
             for searches in (1, 5))
    assert once.run() and again.run()
    assert once.chains.evaluations == again.chains.evaluations and same(once.best(), again.best())


@pytest.mark.slow
def test_a_hard_layer_is_searched_again_with_the_best_of_all_searches() -> None:
    """Its two best mappings share out the array of units in unlike ways, three moves apart."""
    of = alone(load(find("arch/simba_like"), find("layers/resnet18/conv3x3_256_256_14_s1")))
    found = {searches: begun(of, SearchOptions(seed=1018, effort=Effort(searches=searches, proof=0)))
             for searches in (1, 2, 5)}
    assert all(one.run() for one in found.values())
    evaluations = [one.chains.evaluations for one in found.values()]
    assert evaluations[1] > 1.2 * evaluations[0]
    values = [one.chains.best_value for one in found.values()]
    assert values == sorted(values, reverse=True) and values[0] > values[-1] + 0.002


@pytest.mark.parametrize(("changed", "again"), [
    ({}, True), ({"searches": 1}, False), ({"extra_rounds": 0}, False), ({"chains_agreeing": 1}, False),
    ({"proof": 100}, True), ({"proof": 50_000}, False)])
def test_too_few_chains_at_the_best_after_the_further_rounds_start_a_search_again(
        changed: dict[str, int], again: bool) -> None:
    """Unless a short proof leaves a small gap."""
    of, changed = conv("simba_like"), {"proof": 0} | changed
    found = begun(of, SearchOptions(effort=replace(LITTLE, **changed)))  # type: ignore[arg-type]
    found.run()
    first = begun(of, SearchOptions(effort=replace(LITTLE, **changed | {"searches": 1})))  # type: ignore[arg-type]
    first.run()
    assert (found.chains.evaluations > first.chains.evaluations) == again
    assert found.chains.best_value <= first.chains.best_value


def test_factors_that_come_from_other_chains_stay_in_the_map_space() -> None:
    of = conv("eyeriss_like")
    found = begun(of, SearchOptions(effort=replace(LITTLE, crossover_rate=1.0, rounds=5, extra_rounds=20,
                                                   chains_agreeing=17)))
    before = found.chains.best_value
    found.run()
    best = found.best()
    assert found.chains.best_value < before
    assert np.array_equal((best.temporal * best.spatial).prod(axis=0)[:, 0], list(of.spaces[0].problem.bounds.values()))
    assert exact_value(score(of.layer, best), ("edp",))[0] == pytest.approx(found.chains.best_value, rel=1e-15)


def test_rounds_between_two_looks_at_the_clock_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    of, answers = conv("gemmini_small"), []
    for seconds in (refinement.LOOK_EVERY, 0.0, 1000.0):
        monkeypatch.setattr(refinement, "LOOK_EVERY", seconds)
        found = begun(of)
        found.run()
        answers.append((found.chains.best_value, found.chains.evaluations, found.best().temporal.tolist()))
    assert answers[0] == answers[1] == answers[2]
