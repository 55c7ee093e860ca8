"""The descent on sparse designs: it follows the dense model, and its draws have their sparse values."""

from __future__ import annotations

from functools import partial

import pytest
from sparse_inputs import skipping_product

import fadiff_mapper as fm
from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.options import Effort


def test_the_best_draw_has_its_sparse_energy() -> None:
    effort = Effort(searches=0, descent=partial(descend, restarts=4, steps=3))
    spec = skipping_product({"A": 0.25, "B": 0.5})
    result = map_layers([spec], fm.SearchOptions(("energy",), threads=1, effort=effort))[0]
    assert result.status == "descent ended"
    assert result.stats.energy_pj == evaluate_mapping(spec, result.mapping).energy_pj
    assert result.history[-1]["value"] == pytest.approx(result.stats.energy_pj, rel=1e-12)
    assert result.bound is not None
    assert result.stats.energy_pj >= result.bound.energy
