"""No legal mapping is below the bound: random ones, whole spaces, and the best mappings known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fadiff_validation.random_mappings import constrained_nests
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_specs import PRICES, product, whole_space
from strategies import SHAPES, Case, cases, forgetful_cases, packed_cases

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.search.lower_bound import least_traffic, parallel
from fadiff_mapper.search.lower_bound.assemble import LowerBound, lower_bound
from fadiff_mapper.search.lower_bound.least_traffic import bound_inputs, undominated
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace

ANCHORS = Path(__file__).parents[3] / "shared" / "anchors" / "layers.json"
METRICS = ("edp", "energy", "delay", "last_level_accesses")


def prepared(spec: Spec) -> tuple[PreparedLayer, MapSpace]:
    return layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints)


def smallest(scores: Scores) -> dict[str, float]:
    """The least of every metric among the legal mappings of a batch."""
    found = {"edp": scores.energy * scores.cycles, "energy": scores.energy, "delay": scores.cycles,
             "last_level_accesses": scores.last_level_accesses}
    return {name: float(values[scores.legal].min()) for name, values in found.items()}


def broken(bound: LowerBound, found: dict[str, float]) -> list[str]:
    return [f"{name}: {found[name]} < {bound.of(name)}" for name in METRICS if found[name] < bound.of(name)]


@given(cases(SHAPES) | forgetful_cases(SHAPES) | packed_cases(SHAPES),
       st.lists(st.integers(1, 60), min_size=3, max_size=3), st.booleans(),
       st.sampled_from((least_traffic.MOST_TILES, 200, 30)), st.sampled_from((parallel.MOST_STATES, 1)))
def test_no_mapping_on_any_small_machine_is_below_the_bound(case: Case, sizes: list[int], free: bool,
                                                            most: int, states: int) -> None:
    """Any choice of what is kept; any fan-outs, windows, strides, links, memories; tiles one by one or in groups; all
    states of parallelism or one in their place."""
    levels = tuple(replace(level, size=size) for level, size in
                   zip(case.arch.levels[:-1], sizes, strict=False)) + case.arch.levels[-1:]
    arch = replace(case.arch, levels=levels)
    layer = prepare_layer(arch, case.problem, PRICES, reuse_of(case.mapping, case.problem.dataspace_names()))
    scores = score(layer, pack([case.mapping], case.problem))
    assume(scores.legal[0])
    said = [LevelConstraints(bypass=frozenset(case.problem.dataspace_names()) - level.keep, keep=level.keep)
            for level in case.mapping.levels]
    inner = [LevelConstraints()] * (len(levels) - 1) if free else said[:-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(least_traffic, "MOST_TILES", most)
        patch.setattr(parallel, "MOST_STATES", states)
        patch.setattr(parallel, "_states", parallel._states.__wrapped__)    # nothing remembered
        bound = lower_bound(layer, build_mapspace(arch, case.problem, Constraints((*inner, said[-1]))))
    assert bound is not None and not broken(bound, smallest(scores))


@given(st.sampled_from(list(bundled_files.designs())), st.sampled_from(("conv", "depthwise", "grouped_conv")),
       st.integers(0, 99), st.data())
@settings(max_examples=12)
def test_no_mapping_within_a_designs_constraints_is_below_the_bound(design: str, shape: str, seed: int,
                                                                    data: st.DataObject) -> None:
    spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find(f"problems/{shape}")))
    extent = st.sampled_from((1, 2, 3, 4, 6, 7, 12, 16, 32))
    bounds = {name: data.draw(extent if name not in "RSN" else st.sampled_from((1, 2, 3, 5)), label=name)
              for name in spec.problem.dimensions}
    spec = replace(spec, problem=Problem(shape, bounds, spec.problem.dataspaces))
    layer, space = prepared(spec)
    scores = score(layer, constrained_nests(layer, spec, 10, seed))
    assume(scores.legal.any())
    bound = lower_bound(layer, space)
    assert bound is not None and not broken(bound, smallest(scores))


@given(st.lists(st.lists(st.integers(0, 9), min_size=3, max_size=3), min_size=1, max_size=80),
       st.lists(st.floats(0, 10), min_size=3, max_size=3))
def test_no_price_makes_a_left_out_alternative_the_cheapest(rows: list[list[int]], prices: list[float]) -> None:
    points = np.array(rows, dtype=np.float64).T
    left = undominated(points)
    assert {tuple(row) for row in left.T} <= {tuple(row) for row in points.T}
    assert (np.array(prices) @ left).min() == pytest.approx((np.array(prices) @ points).min())


@given(st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=least_traffic.MOST_PASSES))
def test_of_few_alternatives_all_that_another_one_undercuts_are_left_out(rows: list[tuple[int, ...]]) -> None:
    front = {tuple(column) for column in undominated(np.array(rows, dtype=np.float64).T).T}
    assert front == {row for row in set(rows) if not any(
        other != row and all(a <= b for a, b in zip(other, row, strict=True)) for other in rows)}


@pytest.mark.parametrize("design", ["gemmini_large", "simba_like"])
def test_a_layer_rich_in_divisors_has_no_more_tiles_than_are_tried(design: str) -> None:
    """With 30 x 30 x 16 x 16 divisors a bound that tries every tile takes a hundred times the search of a layer."""
    spec = load(bundled_files.find(f"arch/{design}"), bundled_files.find("problems/conv"))
    rich = {"C": 720, "M": 720, "P": 120, "Q": 120}
    bounds = {name: rich.get(name, 1) for name in spec.problem.dimensions}
    layer, space = prepared(replace(spec, problem=Problem("conv", bounds, spec.problem.dataspaces)))
    groups = [level for level in bound_inputs(space).tiles if level is not None and not level.single]
    assert groups
    assert all(level.words.shape[1] <= least_traffic.MOST_TILES for level in groups)
    bound, once = lower_bound(layer, space), lower_bound(layer, space, tiled=False)
    assert bound is not None
    assert once is not None
    assert bound.edp >= once.edp


@pytest.mark.parametrize("most", [300, 1_000, 5_000])
def test_groups_of_tiles_give_a_looser_bound_and_not_one_below_compulsory_traffic(
        most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, space = prepared(load("bundled:arch/gemmini_small", "bundled:layers/resnet18/conv3x3_64_64_56_s1"))
    exact, once = lower_bound(layer, space), lower_bound(layer, space, tiled=False)
    monkeypatch.setattr(least_traffic, "MOST_TILES", most)
    loose = lower_bound(layer, space)
    assert exact is not None
    assert once is not None
    assert loose is not None
    for metric in METRICS:
        assert once.of(metric) <= loose.of(metric) * (1 + 1e-12)
        assert loose.of(metric) <= exact.of(metric) * (1 + 1e-12)
    assert loose.edp < exact.edp


def test_the_bound_is_at_most_the_optimum_of_a_space_that_can_be_enumerated() -> None:
    spec = product()
    layer, space = prepared(spec)
    optimum, bound = smallest(score(layer, whole_space(spec))), lower_bound(layer, space)
    assert bound is not None and not broken(bound, optimum)
    assert optimum["delay"] < 1.5 * bound.delay and optimum["energy"] < 2 * bound.energy


@pytest.mark.skipif(not ANCHORS.exists(), reason="the best known mappings are not at hand")
def test_the_bound_is_below_the_best_known_mappings_and_at_least_as_tight_as_one_without_capacities() -> None:
    """The best known energies are sums of figures that Timeloop printed per MAC with two decimals of a femtojoule."""
    layers = {name.rsplit("/", 1)[-1]: name for name in bundled_files.listing() if name.startswith("layers/")}
    rows = json.loads(ANCHORS.read_text(encoding="utf-8"))["rows"]
    tighter = 0
    rows = rows[::2]  # both designs, and every layer on one of them
    for row in rows:
        spec = load(bundled_files.find(f"arch/{row['design']}"), bundled_files.find(layers[row["layer"]]))
        bound, best = lower_bound(*prepared(spec)), row["best_known"]
        assert bound is not None
        printed = 0.005e-3 * spec.problem.computes * (2 * len(spec.arch.levels) + 1)
        assert bound.edp <= (best["energy_pj"] + printed) * best["cycles"] * (1 + 1e-9)
        assert bound.delay <= best["cycles"]
        tighter += bound.edp >= row["lower_bound_edp"] * (1 - 1e-5)
    assert tighter == len(rows)
