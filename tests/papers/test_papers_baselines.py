"""Each method of the papers' comparison finds the optimum of a space that is enumerated. No test says who wins."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from small_specs import product, whole_space

from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.relaxation.metrics import ILLEGAL
from fadiff_mapper.relaxation.objective import exact_value
from fadiff_mapper.search.mapping_task import mapping_task

papers = pytest.importorskip("benchmarks.papers")

BUDGETS = {"random_search": 4000, "genetic": 4000, "bayesian": 120}
"""Mappings with which each method finds the optimum whatever the seed; of the genetic one and random search about a
hundredth of the 110,592 mappings."""

LIBRARIES = {"random_search": "numpy", "genetic": "pymoo", "bayesian": "optuna"}


def optimum() -> float:
    """The least logarithm of the EDP of all mappings of `product`."""
    task = mapping_task(product())
    return float(exact_value(score(task.layer, whole_space(product())), ("edp",)).min())


@pytest.mark.parametrize("method", BUDGETS)
def test_a_baseline_finds_the_optimum_of_an_enumerated_space(method: str) -> None:
    pytest.importorskip(LIBRARIES[method])
    from benchmarks.papers.course import LayerCourse
    from benchmarks.papers.encoded_search import Budget, LayerObjective
    from benchmarks.papers.encoding import Encoding

    best, course = optimum(), LayerCourse(1)
    objective = LayerObjective(Encoding(mapping_task(product())), Budget(0.0, BUDGETS[method]), course)
    import_module(f"benchmarks.papers.{method}").search(objective, 0)
    energy, cycles = course.points[-1][2:]
    assert np.log(energy * cycles) == pytest.approx(best, abs=0.02 if method == "bayesian" else 1e-9)
    assert objective.evaluations == course.evaluations >= BUDGETS[method]
