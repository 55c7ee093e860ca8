"""Sliding windows in closed form beside the walk and the count of receivers that the exact evaluation makes."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_mapping
from hypothesis import given
from kernel_parts import parts
from strategies import CONV_1D, STRIDED, THREE_TERMS, TWO_RANKS, Case, cases, forgetful_cases

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.access_counts import delivery, demand
from fadiff_mapper.model.evaluate import evaluate_nest, exact_traffic
from fadiff_mapper.model.loop_nest import all_active, nest_arrays, pack, project
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.smooth import evaluate_smooth, smooth_delivery, window_steps
from fadiff_mapper.model.tiles import tiles

WINDOWS = {"conv1d": CONV_1D, "strided": STRIDED, "two_ranks": TWO_RANKS, "three_terms": THREE_TERMS}
INPUTS = 1


@given(cases(WINDOWS, loops=9) | forgetful_cases(WINDOWS))
def test_what_a_sliding_window_demands_is_what_the_walk_counts(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    tile, reuse = tiles(nest, projection), reuse_of(case.mapping, case.problem.dataspace_names())
    _, walked, _ = exact_traffic(prepare_layer(case.arch, case.problem, Tables(), reuse), nest, with_hops=True)
    found = window_steps(nest, projection, INPUTS, tile, all_active(nest), reuse)
    levels = [level for level in range(1, len(nest.temporal)) if reuse.held[level, INPUTS]]
    assert (list(found.levels) if found else []) == levels
    if found:
        np.testing.assert_array_equal(found.demand[:, 0], walked[levels, INPUTS, 0])


@given(cases(WINDOWS, loops=9))
def test_words_that_repeat_the_call_before_are_those_of_the_walk(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    tile, layer = tiles(nest, projection), prepare_layer(case.arch, case.problem, Tables())
    reuse = reuse_of(case.mapping, case.problem.dataspace_names())
    found = window_steps(nest, projection, INPUTS, tile, all_active(nest), reuse)
    for level, again in zip(found.levels, found.again[..., 0], strict=True) if found else ():
        bounds, moves, extent, _ = parts.tile_walk(layer.compiled, nest_arrays(nest), level, INPUTS)
        assert again.sum() == parts.walk_held(bounds, moves, extent)[1].sum()


@given(cases(WINDOWS))
def test_no_word_is_lost_between_neighbours(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    tile, active = tiles(nest, projection), all_active(nest)
    reuse = reuse_of(case.mapping, case.problem.dataspace_names())
    raw = delivery(nest, projection, demand(nest, projection, tile, active, reuse), active, reuse)
    found = window_steps(nest, projection, INPUTS, tile, active, reuse)
    sent = smooth_delivery(raw, {INPUTS: found} if found else {}, nest, projection, case.arch, tile, active, reuse)
    arrived = (sent.words * sent.multicast)[0] + sent.links
    np.testing.assert_allclose(arrived, (raw.words * raw.multicast)[0], rtol=1e-12)
    assert (sent.words > 0).all()


@pytest.mark.parametrize("design", ["eyeriss_like", "gemmini_small", "simba_like"])
@pytest.mark.parametrize(("shape", "size"), [
    ("conv", {"C": 16, "M": 16, "P": 28, "Q": 28, "R": 3, "S": 3}),
    ("depthwise", {"G": 32, "P": 14, "Q": 14, "R": 31, "S": 31})])
def test_any_mapping_counts_nearly_the_same(design: str, shape: str, size: dict[str, int]) -> None:
    """Random mappings, constraints aside: windows slide over several levels and are handed on between units."""
    spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find(f"problems/{shape}")))
    problem = replace(spec.problem, bounds=dict.fromkeys(spec.problem.dimensions, 1) | size)
    layer, rng = prepare_layer(spec.arch, problem, spec.tables), random.Random(f"{design}/{shape}")
    nest = pack([random_mapping(spec.arch, problem, rng) for _ in range(150)], problem)
    exact, smooth = evaluate_nest(layer, nest), evaluate_smooth(layer, nest)
    equal = [np.abs(getattr(exact.counts, name) - getattr(smooth.counts, name)) < 1
             for name in ("reads", "fills", "updates")]
    assert exact.raw.links.any()
    assert np.mean(np.all(equal, axis=(0, 1, 2))[exact.legal]) > 0.97
