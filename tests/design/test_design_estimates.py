"""Estimates of designs before they are mapped: bounds, raised by what mapped designs near them lie above theirs."""

from __future__ import annotations

from dataclasses import replace
from math import inf, log

import numpy as np
import pytest
from small_spaces import small_question

from fadiff_mapper.design.bound_designs import expected_gaps, expected_logarithms, metric_logarithm, walk
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import LeastFigures
from fadiff_mapper.design.space import DesignSpace, Parameter, Point, read_space

EDP = np.array([1.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> DesignQuestion:
    return small_question(tmp_path_factory.mktemp("space"))


@pytest.fixture(scope="module")
def grid() -> DesignSpace:
    """Two parameters from 1 to 64 by 1."""
    space = read_space("bundled:spaces/dosa_gemmini")
    return replace(space, parameters=(Parameter("x", "", range(1, 65)), Parameter("y", "", range(1, 65))))


def test_the_bound_of_a_design_holds_and_lies_close(question: DesignQuestion) -> None:
    bench = DesignBench(question, None)
    for point in list(all_points(question.space))[::3]:
        least, exact = bench.least_at(point), evaluate_design(bench, point)
        assert least is not None
        assert least.energy_pj <= exact.energy_pj
        assert least.cycles <= exact.cycles
        assert least.product(1, 1) <= exact.edp <= 1.5 * least.product(1, 1)
        assert least.product(1, 1) == pytest.approx(least.of("edp", 1.0))


def test_mapped_designs_are_exact_and_raise_those_near_them(grid: DesignSpace) -> None:
    """Bounds of 1 everywhere; one mapped design lies 20 % above, one far away 1 %."""
    near, far = (7, 7), (63, 63)
    expected = expected_logarithms(grid, lambda _: (LeastFigures(1.0, 1.0, 1.0), 0.0), EDP,
                                   {near: log(1.2), far: log(1.01)})
    assert expected(near) == log(1.2)
    assert expected((8, 7)) == pytest.approx(log(1.2), rel=0.05)
    assert expected((62, 63)) == pytest.approx(log(1.01), abs=0.01)
    assert log(1.01) < expected((20, 20)) < log(1.2)


def test_without_a_bound_there_is_no_estimate_but_of_mapped_designs(grid: DesignSpace) -> None:
    expected = expected_logarithms(grid, lambda _: None, EDP, {(3, 3): 2.0})
    assert expected((3, 3)) == 2.0
    assert expected((4, 4)) == inf


def test_an_unknown_area_does_not_count() -> None:
    assert metric_logarithm(np.array([1.0, 1.0, 1.0]), 2.0, 3.0, 0.0) == pytest.approx(log(6))
    assert metric_logarithm(np.array([1.0, 1.0, 2.0]), 2.0, 3.0, 5.0) == pytest.approx(log(150))


def walked(grid: DesignSpace, start: Point, value: dict[Point, float] | None, most: int) -> dict[Point, float]:
    """All values looked at on a walk over a bowl around x = 40, y = 3, or over given values."""
    seen: dict[Point, float] = {}

    def value_at(point: Point) -> float:
        x, y = (index + 1 for index in point)
        seen[point] = abs(np.log2(x / 40)) + abs(np.log2(y / 3)) if value is None else value.get(point, 1.0)
        return seen[point]
    walk(grid, start, value_at, lambda: len(seen) >= most)
    return seen


def test_a_walk_ends_at_the_bottom_and_looks_at_few_designs(grid: DesignSpace) -> None:
    seen = walked(grid, (1, 50), None, 1000)
    assert min(seen, key=lambda point: seen[point]) == (39, 2)
    assert len(seen) < 80, "of 4,096"


def test_a_walk_stops_when_told(grid: DesignSpace) -> None:
    assert len(walked(grid, (1, 50), None, 10)) == 10


def test_a_slight_slope_is_not_followed(grid: DesignSpace) -> None:
    """A plain that falls by a ten-thousandth with every value: the walk looks around its start alone."""
    slope = {(x, y): 1.0 + 0.0001 * x for x in range(64) for y in range(64)}
    seen = walked(grid, (20, 20), slope, 1000)
    assert all(x == 20 or y == 20 for x, y in seen)


def test_a_gap_that_falls_with_the_memory_goes_on_falling_beyond_the_mapped_designs() -> None:
    """Gaps of 0.4, 0.3 and 0.2 at 3, 4 and 5 octaves; none below 0, and none where nothing is known."""
    places = [np.array([octaves, 2.0]) for octaves in (3.0, 4.0, 5.0)]
    gap_at = expected_gaps(places, [0.4, 0.3, 0.2])
    assert [gap_at(place) for place in places] == pytest.approx([0.4, 0.3, 0.2], abs=0.01)
    assert gap_at(np.array([6.0, 2.0])) == pytest.approx(0.1, abs=0.03)
    assert gap_at(np.array([9.0, 2.0])) == 0.0
    assert expected_gaps([], [])(places[0]) == 0.0
    assert expected_gaps(places[:1], [0.4])(places[2]) == pytest.approx(0.4)
