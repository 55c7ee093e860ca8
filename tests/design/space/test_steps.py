"""Steps along parameters: octaves where values are positive numbers, values one by one otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fadiff_mapper.design.space import DesignSpace, Parameter, coordinate, points_beside, read_space


@pytest.fixture(scope="module")
def space() -> DesignSpace:
    """DOSA's grid: a side from 2 to 128 by 2, two memories from 8 to 1024 KB by 8."""
    return read_space("bundled:spaces/dosa_gemmini")


def values(space: DesignSpace, point: tuple[int, ...]) -> list[object]:
    return [parameter.values[index] for parameter, index in zip(space.parameters, point, strict=True)]


def test_an_octave_doubles_and_halves_whatever_the_step_of_a_range(space: DesignSpace) -> None:
    beside = [values(space, point) for point in points_beside(space, (31, 31, 63), 1.0)]
    assert beside == [[32, 256, 512], [128, 256, 512], [64, 128, 512], [64, 512, 512], [64, 256, 256], [64, 256, 1024]]


def test_no_octave_is_the_next_value(space: DesignSpace) -> None:
    assert points_beside(space, (31, 0, 127), 0.0) == [(30, 0, 127), (32, 0, 127), (31, 1, 127), (31, 0, 126)]


@pytest.mark.parametrize("octaves", [0.01, 0.5, 3.0, 40.0])
def test_steps_go_at_least_one_value_and_stay_in_the_space(space: DesignSpace, octaves: float) -> None:
    for start in ((0, 0, 0), (1, 64, 127), (63, 127, 127)):
        beside = points_beside(space, start, octaves)
        assert start not in beside
        assert len(beside) == len(set(beside))
        assert all(0 <= index < len(parameter.values) for point in beside
                   for index, parameter in zip(point, space.parameters, strict=True))


def test_words_and_ranges_with_zero_are_counted_value_by_value(space: DesignSpace, tmp_path: Path) -> None:
    words, zero = Parameter("kind", "", ("LPDDR4", "HBM2", "DDR3")), Parameter("depth", "", range(0, 10))
    assert [coordinate(words, index) for index in range(3)] == [0, 1, 2]
    assert [coordinate(zero, index) for index in range(10)] == list(range(10))
    assert points_beside(replace(space, parameters=(words, zero)), (1, 5), 2.0) == [(0, 5), (2, 5), (1, 3), (1, 7)]


def test_a_range_of_a_thousand_million_values_is_not_written_out(space: DesignSpace) -> None:
    wide = replace(space, parameters=(Parameter("kb", "", range(1, 10**9)),))
    assert points_beside(wide, (2**20 - 1,), 1.0) == [(2**19 - 1,), (2**21 - 1,)]
    assert points_beside(wide, (0,), 40.0) == [(10**9 - 2,)]
