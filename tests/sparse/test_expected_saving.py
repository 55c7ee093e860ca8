"""Sparse tensors in the differentiable model: expected shares of the dense counts."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_nests
from sparse_inputs import skipping_product

import fadiff_mapper as fm
from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.model.smooth import evaluate_smooth
from fadiff_mapper.model.sparse_design import expected_shares
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.options import Effort


def test_shares_are_the_densities_of_leaders() -> None:
    spec = skipping_product({"A": 0.25, "B": 0.5})
    task = mapping_task(spec)
    assert task.sparse is not None
    shares = expected_shares(task.sparse)
    names, levels = spec.problem.dataspace_names(), [level.name for level in spec.arch.levels]
    assert shares.accesses[levels.index("Loc"), names.index("B")] == 0.25
    assert shares.accesses[levels.index("Loc"), names.index("A")] == 1.0
    assert shares.cycles == 0.25


def test_expected_shares_bring_the_smooth_model_nearer_to_the_sparse_energy() -> None:
    task = mapping_task(skipping_product({"A": 0.25, "B": 0.5}))
    assert task.sparse is not None
    nest = random_nests(task.layer, task.space, 60)
    scores = task.sparse.score(nest)
    legal = np.flatnonzero(scores.legal)
    assert len(legal) > 10
    few = nest.take(legal)
    dense, sparse = (evaluate_smooth(layer, few).cost for layer in (replace(task.layer, shares=None), task.layer))
    off_dense, off_sparse = (np.abs(np.log(cost.energy / scores.energy[legal])).mean() for cost in (dense, sparse))
    assert off_sparse < 0.8 * off_dense
    assert np.abs(np.log(sparse.cycles / scores.cycles[legal])).mean() < 0.5 * np.abs(
        np.log(dense.cycles / scores.cycles[legal])).mean()


def test_full_tensors_leave_everything() -> None:
    task = mapping_task(skipping_product({"A": 1.0, "B": 1.0}))
    assert task.layer.shares is not None
    assert task.layer.shares.accesses == pytest.approx(np.ones_like(task.layer.shares.accesses))
    nest = random_nests(task.layer, task.space, 4)
    plain = evaluate_smooth(replace(task.layer, shares=None), nest)
    assert evaluate_smooth(task.layer, nest).cost.energy == pytest.approx(plain.cost.energy)


def test_the_descent_follows_expected_shares() -> None:
    effort = Effort(searches=0, descent=partial(descend, restarts=4, steps=3))
    options = fm.SearchOptions(("energy",), threads=1, effort=effort)
    result = map_layers([skipping_product({"A": 0.25, "B": 0.5})], options)[0]
    assert result.status == "descent ended"
    assert result.bound is not None
    assert result.stats.energy_pj >= result.bound.energy
