"""The differentiable model beside the exact one: equal where nothing slides, near it where something does."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from fadiff_validation.random_mappings import random_nests
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import UNSHARED, Case, cases, switched_cases

from fadiff_mapper.base import bundled_files
from fadiff_mapper.gradient.gumbel_softmax import decode, draw, gumbel, places_of
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.evaluate import Evaluation, NestEvaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, active_parts, nest_arrays, pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.smooth import distinct_windows, evaluate_smooth
from fadiff_mapper.search.layer_family import family_of, random_decisions
from fadiff_mapper.search.mapspace.build import build_mapspace

DESIGNS = tuple(bundled_files.designs())
OPERATORS = {"conv 3x3": ("conv", {"C": 32, "M": 64, "R": 3, "S": 3, "N": 1, "P": 28, "Q": 28}),
             "depthwise 5x5": ("depthwise", {"C": 1, "M": 1, "R": 5, "S": 5, "N": 1, "P": 14, "Q": 14, "G": 32}),
             "pointwise": ("conv", {"C": 64, "M": 48, "R": 1, "S": 1, "N": 2, "P": 14, "Q": 14})}
BATCH = 500


def tensors(nest: Nest) -> Nest:
    return Nest(*(torch.from_numpy(np.ascontiguousarray(array)) for array in nest_arrays(nest)))


def counts(found: Evaluation | NestEvaluation) -> np.ndarray:
    """Reads, fills and updates, [3, L, T, B]."""
    return np.stack([np.asarray(getattr(found.counts, action)) for action in ("reads", "fills", "updates")])


@given(cases(UNSHARED) | switched_cases(UNSHARED))
def test_without_windows_the_smooth_counts_are_the_exact_ones(case: Case) -> None:
    """To the word (the exact ones are whole). Wires between neighbours have no smooth form."""
    reuse = reuse_of(case.mapping, case.problem.dataspace_names())
    layer, nest = prepare_layer(case.arch, case.problem, Tables(), reuse), pack([case.mapping], case.problem)
    exact, smooth = evaluate_nest(layer, nest), evaluate_smooth(layer, tensors(nest))
    assume(not exact.raw.links.any())
    assert np.abs(counts(smooth) - counts(exact)).max() < 1


@given(cases(loops=4))
def test_what_is_left_out_because_it_does_nothing_changes_nothing(case: Case) -> None:
    """Windows lie over a fan-out outside which no loop is left, too."""
    layer, nest = prepare_layer(case.arch, case.problem, Tables()), pack([case.mapping], case.problem)
    whole, parts = evaluate_smooth(layer, nest), evaluate_smooth(layer, nest, active_parts(nest))
    np.testing.assert_array_equal(counts(parts), counts(whole))
    assert parts.cost.energy == whole.cost.energy
    assert parts.cost.cycles == whole.cost.cycles


@given(p=st.integers(1, 6), r=st.integers(1, 6), short=st.integers(1, 4), k=st.integers(1, 5), swap=st.booleans())
def test_windows_that_coincide_in_space_are_sent_once(p: int, r: int, short: int, k: int, swap: bool) -> None:
    """Steps of k * short points beside steps of short ones; either may be the first dimension of the rank."""
    places = {k * short * i + short * j for i in range(p) for j in range(r)}
    steps, counts_of = ((k * short, short), (p, r)) if not swap else ((short, k * short), (r, p))
    spatial = np.array(counts_of, dtype=float)[:, None]
    share = distinct_windows(spatial, np.ones_like(spatial), ((0, steps[0]), (1, steps[1])))
    assert share[0] * p * r == pytest.approx(len(places))


@cache
def models(design: str, operator: str) -> tuple[Evaluation, NestEvaluation]:
    """Both models on the legal ones of many random mappings within the design's constraints."""
    shape, bounds = OPERATORS[operator]
    spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find(f"problems/{shape}")))
    problem = replace(spec.problem, bounds=bounds)
    layer, space = prepare_layer(spec.arch, problem, spec.tables), build_mapspace(spec.arch, problem, spec.constraints)
    nest = random_nests(layer, space, BATCH, 1)
    nest = nest.take(np.flatnonzero(evaluate_nest(layer, nest).legal))
    return evaluate_nest(layer, nest), evaluate_smooth(layer, tensors(nest))


@pytest.mark.slow
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("design", DESIGNS)
def test_within_a_designs_constraints_the_models_nearly_agree(design: str, operator: str) -> None:
    exact, smooth = models(design, operator)
    wanted, found = counts(exact), counts(smooth)
    there = wanted > 0
    assert exact.nest.batch >= 20
    accuracy = np.mean(1 - np.abs(found[there] - wanted[there]) / wanted[there])
    assert accuracy > 0.9999
    assert np.mean(np.abs(smooth.cost.energy.numpy() / exact.energy - 1)) < 1e-4
    assert np.mean(np.abs(smooth.cost.cycles.numpy() / exact.cycles - 1)) < 1e-4


def test_what_is_exact_is_exact_in_both() -> None:
    """Tiles, units in use and compute cycles have no approximation."""
    exact, smooth = models("eyeriss_like", "depthwise 5x5")
    assert np.array_equal(exact.tile.size, smooth.tile.size.numpy())
    assert np.array_equal(exact.tile.instances, smooth.tile.instances.numpy())
    assert np.array_equal(exact.tile.compute_cycles, smooth.tile.compute_cycles.numpy())


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_a_draw_costs_what_its_integers_cost(design: str) -> None:
    """The factors that carry gradients are the drawn integers to the last bit: a factor of 1 is no loop."""
    spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find("problems/conv")))
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    places, generator = places_of([space]), torch.Generator().manual_seed(0)
    theta = 2 * torch.rand(len(places.level), places.bound.shape[1], BATCH, generator=generator, dtype=torch.float64)
    choices = random_decisions(family_of(layer, [space]), BATCH, np.random.default_rng(0))
    nest = draw(places, theta.requires_grad_(True), gumbel(places, BATCH, generator), 1.0, choices)
    drawn = evaluate_smooth(layer, nest)
    whole = evaluate_smooth(layer, tensors(decode(nest)))
    assert torch.equal(drawn.cost.energy.detach(), whole.cost.energy)
    assert torch.equal(drawn.cost.cycles.detach(), whole.cost.cycles)
