"""What savings leave of accesses and computes, on tiny counts by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.sparse_accesses import WRAP, DenseCounts, Operand, saved_accesses, saved_computes
from fadiff_mapper.model.sparse_savings import GATED, SKIPPED, Saving
from fadiff_mapper.model.sparse_tiles import StoredTile

COLUMN = {0: StoredTile((1,), 1, None), 1: StoredTile((8,), None, 0)}
"""Two levels that store plainly."""
COUNTS = {0: DenseCounts(100, 40, 0, 0), 1: DenseCounts(40, 8, 0, 0)}


def test_a_level_saves_its_own_accesses_and_those_of_all_levels_inside() -> None:
    found, share = saved_accesses(COUNTS, COLUMN, {}, {1: Saving(SKIPPED, 0.75)}, {}, written=False)
    assert found[1].reads.words == {"actual": 10, "gated": 0, "skipped": 30}
    assert found[0].fills.words == {"actual": 10, "gated": 0, "skipped": 0}  # never sent
    assert found[0].reads.words == {"actual": 25, "gated": 0, "skipped": 0}
    assert share == 0.75


def test_a_level_further_in_saves_only_what_is_left_to_save() -> None:
    savings = {1: Saving(SKIPPED, 0.5), 0: Saving(GATED, 0.75)}
    found, share = saved_accesses(COUNTS, COLUMN, {}, savings, {}, written=False)
    assert found[0].reads.words == {"actual": 25, "gated": 25, "skipped": 0}  # half of the 50 left: 1 - 0.25 / 0.5
    assert found[0].reads.busy == 50
    assert share == 0.75


def test_a_level_further_out_that_saves_more_leaves_a_negative_count() -> None:
    savings = {1: Saving(SKIPPED, 0.75), 0: Saving(GATED, 0.5)}
    found, _ = saved_accesses(COUNTS, COLUMN, {}, savings, {}, written=False)
    assert found[0].wrapped
    assert found[0].reads.words == {"actual": 50, "gated": WRAP - 25, "skipped": 0}


def test_skipped_instances_save_what_is_inside_them() -> None:
    found, share = saved_accesses(COUNTS, COLUMN, {}, {}, {1: 0.5}, written=False)
    assert (found[1].reads.words["actual"], found[0].reads.words["actual"], share) == (40, 50, 0.5)
    with pytest.raises(FadiffError, match="spatial and temporal skipping at the same time"):
        saved_accesses(COUNTS, COLUMN, {}, {1: Saving(SKIPPED, 0.5)}, {1: 0.5}, written=False)


def test_zeros_that_are_not_stored_are_not_accessed() -> None:
    found, _ = saved_accesses(COUNTS, COLUMN, {1: 0.3}, {}, {}, written=False)
    assert found[1].reads.words["actual"] == 40 - math.floor(40 * 0.7)


def computes(*operands: Operand, gates: bool = False, skips: bool = False) -> tuple[int, int, int]:
    found = saved_computes(1000, operands, gates=gates, skips=skips)
    assert found.algorithmic == 1000
    return found.actual, found.gated, found.skipped


PLAIN, FORMATTED = Operand(0.5, has_metadata=False, saved=None), Operand(0.2, has_metadata=True, saved=None)


def test_computes_on_a_zero_are_gated_and_those_without_a_partner_skipped() -> None:
    assert computes(PLAIN, FORMATTED) == (1000, 0, 0)
    assert computes(PLAIN, FORMATTED, skips=True) == (200, 0, 800)
    assert computes(PLAIN, FORMATTED, gates=True) == (100, 900, 0)
    assert computes(PLAIN, FORMATTED, gates=True, skips=True) == (100, 100, 800)


def test_computes_of_which_no_operand_exists_are_nowhere() -> None:
    both = (FORMATTED, Operand(0.5, has_metadata=True, saved=None))
    assert computes(*both, skips=True) == (100, 0, 500)  # 0.8 * 0.5 of them have neither


def test_an_operand_is_nonzero_where_its_partner_was_accessed() -> None:
    """Accesses to the second are saved where the first is empty, so the first is nonzero in all computes left."""
    assert computes(FORMATTED, Operand(0.5, has_metadata=False, saved=0.8), gates=True) == (100, 100, 0)
    with pytest.raises(FadiffError, match="probability of 2"):
        computes(FORMATTED, Operand(0.5, has_metadata=False, saved=0.9))


@settings(max_examples=60, deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_computes_on_two_nonzeros_always_happen(one: float, other: float, first: bool, second: bool, gates: bool,
                                                skips: bool) -> None:
    actual, gated, skipped = computes(Operand(round(one, 6), first, None), Operand(round(other, 6), second, None),
                                      gates=gates, skips=skips)
    assert actual >= math.floor(1000 * round(one, 6) * round(other, 6))
    assert actual + gated + skipped <= 1000
    assert gates or not gated
    assert skips or not skipped


def test_two_operands_are_accepted() -> None:
    with pytest.raises(FadiffError, match="a problem of 1 operands; accepted: two"):
        computes(PLAIN)
