"""Full collections are rare inside a block, and as frequent as before behind it."""

from __future__ import annotations

import gc

import pytest

from fadiff_mapper.base.rare_collections import FULL_EVERY, rare_full_collections


def test_full_collections_are_rare_inside_and_as_before_behind() -> None:
    before = gc.get_threshold()
    with rare_full_collections():
        assert gc.get_threshold() == (*before[:2], FULL_EVERY)
        with rare_full_collections():
            assert gc.get_threshold()[2] == FULL_EVERY
        assert gc.get_threshold()[2] == FULL_EVERY
    assert gc.get_threshold() == before


def test_an_error_leaves_the_thresholds_as_they_were() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"), rare_full_collections():
        raise ValueError("inside")
    assert gc.get_threshold() == before
