"""Collections are rare inside a block, and as frequent as before behind it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from fadiff_mapper.base.rare_collections import ALLOCATIONS, rare_collections


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    """Python's own thresholds, whatever other tests have set."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield gc.get_threshold()
    gc.set_threshold(*before)


def test_collections_are_rare_inside_and_as_before_behind(thresholds: tuple[int, int, int]) -> None:
    with rare_collections():
        inside = gc.get_threshold()
        assert inside[0] == ALLOCATIONS
        with rare_collections():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == thresholds


def test_an_error_leaves_the_thresholds_as_they_were(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="inside"), rare_collections():
        raise ValueError("inside")
    assert gc.get_threshold() == thresholds


def test_collections_that_were_switched_off_stay_off() -> None:
    gc.set_threshold(0)
    with rare_collections():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0
