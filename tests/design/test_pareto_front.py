"""Fronts and the volume that they dominate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.design.result import hypervolume, undominated

axes = st.integers(1, 8)
values = st.integers(1, 3).flatmap(lambda d: st.lists(st.tuples(*[axes] * d), min_size=1, max_size=12))


@given(values)
def test_the_front_is_what_no_other_point_beats(points: list[tuple[int, ...]]) -> None:
    front = [points[number] for number in undominated(points)]
    assert set(front) == {point for point in points if not any(
        other != point and all(a <= b for a, b in zip(other, point, strict=True)) for other in points)}
    assert len(front) == len(set(front))
    assert front == sorted(front)


@given(values)
def test_the_volume_is_the_share_of_cells_that_some_point_dominates(points: list[tuple[int, ...]]) -> None:
    dimensions, side = len(points[0]), 8
    corners = np.stack(np.meshgrid(*[np.arange(side)] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    dominated = np.any([np.all(corners >= point, axis=1) for point in points], axis=0)
    assert hypervolume(points, (side,) * dimensions) == pytest.approx(dominated.mean())


def test_units_do_not_matter_and_points_beyond_the_reference_count_nothing() -> None:
    assert hypervolume([(1e9, 2.0), (5e9, 1.0)], (1e10, 4.0)) == pytest.approx(0.9 * 0.5 + 0.5 * 0.25)
    assert hypervolume([(11.0, 1.0)], (10.0, 10.0)) == 0.0
