"""`map` on sparse designs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_nests
from sparse_inputs import recorded_specs, skipping_product

import fadiff_mapper as fm
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.sparse_optimizations import FIXED, Density
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.loop_nest import unpack
from fadiff_mapper.network.map_network import sparse_tensors
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.search.explanation.sensitivities import mapping_sensitivities
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.options import Effort
from fadiff_mapper.workload.readers.network_text import network_text


def test_a_sparse_design_is_searched_by_its_sparse_values() -> None:
    spec = skipping_product({"A": 0.25})
    refined = fm.SearchOptions(threads=1, effort=Effort(chains=4, rounds=4, extra_rounds=0, neighbours=2))
    result = fm.map_layer(spec, refined, metric="energy")
    assert result.stats.sparse
    assert result.stats == evaluate_mapping(spec, result.mapping)
    assert result.bound is not None
    assert result.stats.energy_pj >= result.bound.energy
    assert result.value == pytest.approx(result.history[-1]["value"])
    assert result.value < evaluate_mapping(replace(spec, sparse=None), result.mapping).energy_pj


def test_a_design_that_skips_instances_is_searched_as_fast_as_others() -> None:
    spec = next(spec for spec in recorded_specs("fan_cp") if spec.sparse and any(
        level.spatial_skipping for level in spec.sparse.levels))
    result = fm.map_layer(spec, fm.SearchOptions(threads=1), metric="edp")
    assert result.stats == evaluate_mapping(spec, result.mapping)
    assert result.status.startswith("converged")
    assert result.evaluations > 4000
    assert result.bound is None


def test_scores_of_a_batch_are_those_of_its_mappings() -> None:
    spec = skipping_product({"A": 0.25})
    task = mapping_task(spec)
    assert task.sparse is not None
    nest = random_nests(task.layer, task.space, 40)
    everything = task.sparse.score(nest)
    rows = np.flatnonzero(everything.legal)[:3]
    mappings = [unpack(nest, row, spec.problem) for row in rows]
    scores = task.sparse.score(nest.take(rows))
    stats = [evaluate_mapping(spec, mapping) for mapping in mappings]
    assert len(stats) == 3
    assert np.allclose(scores.energy, [one.energy_pj for one in stats])
    assert scores.cycles.tolist() == [one.cycles for one in stats]
    assert scores.last_level_accesses.tolist() == [one.of("last_level_accesses") for one in stats]
    assert scores.legal.all()


def test_sensitivities_of_a_sparse_design_are_refused() -> None:
    spec = skipping_product({"A": 0.25})
    task = mapping_task(spec)
    with pytest.raises(FadiffError, match="not known for sparse designs"):
        mapping_sensitivities(spec, unpack(random_nests(task.layer, task.space, 1), 0, spec.problem), "edp")


DIMS = "dims: {N: 8, M: 8, C: 8, P: 1, Q: 1, R: 1, S: 1}"


def test_layers_with_sparse_tensors_are_not_fused_and_named(tmp_path: Path) -> None:
    network = tmp_path / "network.yaml"
    network.write_text(f"""workload:
  version: 1
  name: two
  inputs: {{x: [8, 8]}}
  shapes:
  - {{id: first, op: gemm, count: 1, {DIMS}, densities: {{Inputs: 0.5}}}}
  - {{id: second, op: gemm, count: 1, {DIMS}}}
  graph:
  - {{name: a, shape: first, from: [x]}}
  - {{name: b, shape: second, from: [a]}}
""", encoding="utf-8")
    workload = fm.load_network(network)
    sparse, dense = (entry.layer.problem for entry in workload.distinct())
    assert sparse.densities == {"Inputs": Density(FIXED, 0.5)}
    assert not dense.densities
    specs = specs_of(workload, "bundled:arch/gemmini_small")
    assert sparse_tensors(specs) == (f"Inputs of {sparse.name}",)
    assert network_text(workload).count("densities") == 1
    with pytest.raises(FadiffError, match=r"gradient with sparse tensors \(Inputs of .*\), whose layers are not fused; "
                                          "accepted: annealing"):
        fm.map_network(workload, "bundled:arch/gemmini_small", fm.NetworkOptions(method="gradient"))
