"""Each method of the papers' comparison finds the optimum of a space that is enumerated. No test says who wins."""

from __future__ import annotations

import math
from importlib import import_module

import numpy as np
import pytest
from small_specs import product

from benchmarks.papers.course import LayerCourse
from benchmarks.papers.encoded_search import Budget, LayerObjective
from benchmarks.papers.encoding import Encoding
from benchmarks.papers.networks import NetworkQuestion
from fadiff_mapper.fusion.prices import NOTHING
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.search.best_so_far import exact_value
from fadiff_mapper.search.exhaustive import nests, whole_space
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.workload import Node, build_workload
from fadiff_mapper.workload.operator import make_operator

SPEC = product(mapspace=[
    *({"type": "temporal", "target": level, "permutation": "MKN"} for level in ("DRAM", "Buffer")),
    {"type": "bypass", "target": "Buffer", "keep": ["A", "Z"], "bypass": ["B"]}])
"""216 mappings, of which fewer than a half are legal, and one is the best."""

LIBRARIES = {"random_search": "numpy", "genetic": "pymoo", "bayesian": "optuna"}

EVALUATIONS = {"random_search": 1000, "genetic": 1000, "bayesian": 150}


def all_scores(task: MappingTask) -> Scores:
    """Every mapping of a small space."""
    [everything] = nests(whole_space(task.space), 1 << 16)
    return score(task.layer, everything)


def least(task: MappingTask) -> float:
    """The least EDP of a small space."""
    return math.exp(exact_value(all_scores(task), ("edp",)).min())


@pytest.mark.parametrize("method", EVALUATIONS)
def test_a_baseline_finds_the_optimum_of_an_enumerated_space(method: str) -> None:
    pytest.importorskip(LIBRARIES[method])
    task, course = mapping_task(SPEC), LayerCourse(1)
    objective = LayerObjective(Encoding(task), Budget(0.0, EVALUATIONS[method]), course)
    import_module(f"benchmarks.papers.{method}").search(objective, 1)
    assert course.points[-1][2] * course.points[-1][3] == pytest.approx(least(task), rel=1e-12)
    assert objective.evaluations == course.evaluations >= EVALUATIONS[method]
    edps = [energy * cycles for _, _, energy, cycles in course.points]
    assert edps == sorted(edps, reverse=True)


def test_vectors_reach_every_mapping_that_is_legal_and_no_other() -> None:
    task = mapping_task(product(mapspace=[{"type": "temporal", "target": "DRAM", "permutation": "MKN"}]))
    encoding, scores = Encoding(task), all_scores(task)
    found = encoding.fitted(np.random.default_rng(0).random((20_000, encoding.size)))[1]
    assert found.legal.all() and not scores.legal.all()
    assert set(found.energy) == set(scores.energy[scores.legal])


def test_factors_of_every_vector_multiply_to_the_bounds() -> None:
    task = mapping_task(SPEC)
    encoding = Encoding(task)
    nest = encoding.nests(np.random.default_rng(0).random((500, encoding.size)))
    bounds = np.array(list(SPEC.problem.bounds.values()))[:, None]
    assert (nest.temporal.prod(axis=0) * nest.spatial.prod(axis=0) == bounds).all()


def question() -> NetworkQuestion:
    """The product as a network of one layer."""
    layer = make_operator("gemm", dict.fromkeys("NMC", 4) | dict.fromkeys("PQRS", 1))
    return NetworkQuestion(build_workload("one", [Node("a", "gemm", (), layer=layer)]), (SPEC,), (2,), NOTHING)


def test_dosas_descent_finds_the_optimum_layer_by_layer() -> None:
    from benchmarks.papers import dosa_descent
    options = dosa_descent.settings(steps=60, reorder_every=20)
    record = dosa_descent.search(question(), 1, options).as_record()
    energy, cycles = record["layers"][0]["points"][-1][2:]
    assert energy * cycles == pytest.approx(least(mapping_task(SPEC)), rel=1e-12)


def test_one_tiling_for_all_layers_is_an_encoding_of_the_same_space() -> None:
    pytest.importorskip("pymoo")
    from benchmarks.papers import one_tiling
    course = one_tiling.search(question(), Budget(0.0, 1000), 0)
    # Two runs of the only layer: twice the energy and twice the cycles.
    assert course.whole[-1][2] == pytest.approx(4 * least(mapping_task(SPEC)), rel=1e-12)


def test_our_search_finds_the_optimum_and_counts_legal_mappings_alone() -> None:
    from benchmarks.papers import our_plan
    course, notes = LayerCourse(1), {"looked_at": 0}
    our_plan.mapped_layer(SPEC, NetworkOptions(threads=1), course, notes)
    assert course.points[-1][2] * course.points[-1][3] == pytest.approx(least(mapping_task(SPEC)), rel=1e-12)
    assert course.points[-1][1] <= course.evaluations < notes["looked_at"]
