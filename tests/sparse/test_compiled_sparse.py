"""The compiled scores of sparse designs beside those of the full evaluation, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from recorded_cases import recording
from test_recorded_sparse import DESIGNS, SPARSE, sparse_document

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays, pack
from fadiff_mapper.search.compiled_space import compiled_space
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.sparse.score_sparse import score_one_by_one, score_sparse
from fadiff_mapper.spec.densities import BANDED, HYPERGEOMETRIC
from fadiff_mapper.spec.spec import Spec

RANDOM = 6
"""Random mappings of each design, densities and problem, besides the recorded ones."""


def specs_of(design: str) -> Iterator[Spec]:
    """The recorded inputs of a design that Timeloop accepts, one for each problem, densities and options."""
    seen = set()
    for case in recording(SPARSE)["case"].values():
        key = json.dumps([case["problem"], case["densities"], case["sparse_optimizations"]])
        if case["arch"] == design and case["sparse_optimizations"] is not None and key not in seen:
            seen.add(key)
            try:
                yield load(sparse_document(case))
            except FadiffError:
                continue


@pytest.mark.parametrize("design", DESIGNS)
def test_compiled_scores_are_those_of_the_full_evaluation(design: str) -> None:
    compared = legal = 0
    for spec in specs_of(design):
        task = mapping_task(spec)
        if task.sparse is None or task.sparse.compiled is None or spec.mapping is None:
            continue
        *arrays, _, _ = _kernel.random_points(task.layer.compiled, compiled_space(task.family, 0), RANDOM, 1)
        nest = joined([pack([spec.mapping], spec.problem), Nest(*arrays)])
        ours, full = score_sparse(task.sparse, nest), score_one_by_one(task.sparse, nest)
        for name in ("legal", "cycles", "energy", "last_level_accesses"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(full, name), err_msg=f"{design}: {name}")
        np.testing.assert_allclose(ours.excess, full.excess, rtol=1e-12)
        compared, legal = compared + nest.batch, legal + int(full.legal.sum())
    assert compared > 30
    assert legal > 5


def test_designs_that_skip_instances_are_left_to_the_full_evaluation() -> None:
    skipping = [spec for spec in specs_of("mm2") if any(level.spatial_skipping for level in spec.sparse.levels)]
    assert skipping
    for spec in skipping:
        task = mapping_task(spec)
        assert task.sparse is not None
        assert task.sparse.compiled is None
        assert score_sparse(task.sparse, pack([spec.mapping], spec.problem)).legal.tolist() == [True]


def test_banded_densities_are_compiled() -> None:
    tasks = [task for design in ("fan_cp", "dram_only", "gate_mac", "tensor24") for spec in specs_of(design)
             if any(density.distribution == BANDED for density in spec.problem.densities.values())
             and (task := mapping_task(spec)).sparse is not None
             and not any(level.spatial_skipping for level in spec.sparse.levels)]
    assert len(tasks) >= 6
    legal = 0
    for task in tasks:
        assert task.sparse.compiled is not None
        *arrays, _, _ = _kernel.random_points(task.layer.compiled, compiled_space(task.family, 0), 4 * RANDOM, 2)
        ours, full = score_sparse(task.sparse, Nest(*arrays)), score_one_by_one(task.sparse, Nest(*arrays))
        np.testing.assert_array_equal(ours.legal, full.legal)
        np.testing.assert_array_equal(ours.energy, full.energy)
        np.testing.assert_array_equal(ours.cycles, full.cycles)
        legal += int(full.legal.sum())
    assert legal >= 10


def test_an_evaluator_refuses_a_call_from_inside_its_own() -> None:
    spec = next(spec for spec in specs_of("fan_cp") if (found := mapping_task(spec).sparse) and found.compiled and any(
        density.distribution == HYPERGEOMETRIC for density in spec.problem.densities.values()))
    handed: list[Any] = []
    with mock.patch("fadiff_mapper.sparse.compiled_design._kernel.SparseTables", lambda *given: handed.extend(given)):
        task = mapping_task(spec)
        assert task.sparse is not None
        assert task.sparse.compiled is None
    layer, table = handed
    refusals: list[str] = []

    def asking(*given: Any) -> dict[str, Any]:
        try:
            evaluator.score(nest, np.empty((5, 1)))
        except RuntimeError as error:
            refusals.append(str(error))
        found: dict[str, Any] = table["occupancy_of"](*given)
        return found
    nest = nest_arrays(pack([spec.mapping], spec.problem))
    evaluator = _kernel.SparseEvaluator(_kernel.SparseTables(layer, table | {"occupancy_of": asking}))
    evaluator.score(nest, np.empty((5, 1)))
    assert set(refusals) == {"in use by another call"}
