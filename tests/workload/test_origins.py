"""Elements that one producer makes, followed on booleans for whole axes, against every element followed by itself."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.workload import origins


def whole(own: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """One boolean per element."""
    return np.broadcast_to(own, shape)


@st.composite
def regrouping(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A shape, and another one of as many elements."""
    factors = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))

    def grouped() -> tuple[int, ...]:
        ends = sorted(draw(st.sets(st.integers(1, len(factors)), min_size=1, max_size=3)) | {len(factors)})
        return tuple(math.prod(factors[start:stop]) for start, stop in zip([0, *ends], ends, strict=False))
    return grouped(), grouped()


@given(regrouping(), st.data())
def test_a_reshape_keeps_every_element(shapes: tuple[tuple[int, ...], tuple[int, ...]], data: st.DataObject) -> None:
    before, after = shapes
    narrow = tuple(extent if data.draw(st.booleans()) else 1 for extent in before)
    own = np.array(data.draw(st.lists(st.booleans(), min_size=math.prod(narrow), max_size=math.prod(narrow)))
                   ).reshape(narrow)
    found = origins.reshaped(own, before, after)
    assert found is not None
    assert np.array_equal(whole(found, after), whole(own, before).reshape(after))


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 2), st.data())
def test_a_part_of_tensors_put_together_has_the_elements_of_those_that_stand_there(
        lengths: list[int], axis: int, data: st.DataObject) -> None:
    shapes = [tuple(length if index == axis else 2 for index in range(3)) for length in lengths]
    parts = [origins.all_own(3) & data.draw(st.booleans()) for _ in shapes]
    found = origins.put_together(parts, shapes, axis)
    assert found is not None
    full = np.concatenate([whole(part, shape) for part, shape in zip(parts, shapes, strict=True)], axis)
    assert np.array_equal(whole(found, full.shape), full)
    assert origins.share_from_elsewhere(found) == 1 - Fraction(int(full.sum()), full.size)
    start = data.draw(st.integers(0, sum(lengths) - 1))
    places = range(start, sum(lengths), data.draw(st.integers(1, 3)))
    taken = origins.taken(found, axis, places)
    assert taken is not None
    wanted = full.take(list(places), axis)
    assert np.array_equal(whole(taken, wanted.shape), wanted)


def test_places_that_are_not_stated_or_lie_outside_are_not_followed() -> None:
    own = np.array([[True, False, True]])
    assert origins.taken(own, 1, None) is origins.taken(own, 1, range(2, 4)) is None
    assert origins.taken(own, 0, None) is own
    assert origins.reshaped(own, (4, 3), (5, 3)) is None


def test_an_element_needs_the_producer_if_any_operand_of_its_join_or_any_summand_does() -> None:
    left, right = np.array([[True, False, False]]), np.array([False, True, False])
    assert origins.joined([left, right], 2).tolist() == [[True, True, False]]
    assert origins.reduced(left, (1,)).tolist() == [[True]]
