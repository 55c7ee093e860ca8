"""Collections are rare inside a block, and as frequent as before behind it."""

from __future__ import annotations

import gc

import pytest

from fadiff_mapper.base.rare_collections import ALLOCATIONS, FULL_EVERY, rare_collections


def test_collections_are_rare_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with rare_collections():
        inside = gc.get_threshold()
        assert inside == (max(before[0], ALLOCATIONS), before[1], FULL_EVERY)
        with rare_collections():
            assert gc.get_threshold() == inside
        assert gc.get_threshold() == inside
    assert gc.get_threshold() == before


def test_an_error_leaves_the_thresholds_as_they_were() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), rare_collections():
        raise ValueError("inside")
    assert gc.get_threshold() == before
