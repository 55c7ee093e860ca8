"""What savings leave of accesses and computes, on tiny counts by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.sparse_optimizations import RankFormat, Representation
from fadiff_mapper.model.sparse_accesses import FILL, READ, WRAP, Operand, saved_accesses, saved_computes
from fadiff_mapper.model.sparse_savings import GATED, SKIPPED, Saving
from fadiff_mapper.model.sparse_tiles import StoredTile

COLUMN = {0: StoredTile((1,), 1, None), 1: StoredTile((8,), None, 0)}
"""Two levels that store plainly."""
COUNTS = np.array([[100.0, 40], [40, 8], [0, 0]])
"""Reads, fills and updates of both levels."""
NO_METADATA = np.zeros((3, 2, 0, 2), dtype=np.uint64)


def saved(savings: dict[int, Saving], skipped: dict[int, float] | None = None,
          column: dict[int, StoredTile] = COLUMN) -> tuple[np.ndarray, np.ndarray, float | None]:
    """Words by kind, access and level; whether a count of a level is negative; the share saved of the computes."""
    (words, *_, wrapped), share = saved_accesses(COUNTS, NO_METADATA, column, savings, skipped or {}, written=False)
    return words, wrapped, share


def test_a_level_saves_its_own_accesses_and_those_of_all_levels_inside() -> None:
    words, _, share = saved({1: Saving(SKIPPED, 0.75)})
    assert words[:, READ, 1].tolist() == [10, 0, 30]
    assert words[:, FILL, 0].tolist() == [10, 0, 0]  # never sent
    assert words[:, READ, 0].tolist() == [25, 0, 0]
    assert share == 0.75


def test_a_level_further_in_saves_only_what_is_left_to_save() -> None:
    words, _, share = saved({1: Saving(SKIPPED, 0.5), 0: Saving(GATED, 0.75)})
    assert words[:, READ, 0].tolist() == [25, 25, 0]  # half of the 50 left: 1 - 0.25 / 0.5
    assert share == 0.75


def test_a_level_further_out_that_saves_more_leaves_a_negative_count() -> None:
    words, wrapped, _ = saved({1: Saving(SKIPPED, 0.75), 0: Saving(GATED, 0.5)})
    assert wrapped[0]
    assert words[:, READ, 0].tolist() == [50, WRAP - 25, 0]


def test_skipped_instances_save_what_is_inside_them() -> None:
    words, _, share = saved({}, {1: 0.5})
    assert (*words[0, READ, ::-1], share) == (40, 50, 0.5)
    with pytest.raises(FadiffError, match="spatial and temporal skipping at the same time"):
        saved({1: Saving(SKIPPED, 0.5)}, {1: 0.5})


def test_zeros_that_are_not_stored_are_not_accessed() -> None:
    stored = replace(COLUMN[1], representation=Representation((RankFormat("ub", (), 0, 0),)), density=0.3)
    words, _, _ = saved({}, column=COLUMN | {1: stored})
    assert words[0, READ, 1] == 40 - math.floor(40 * 0.7)


def computes(*operands: Operand, gates: bool = False, skips: bool = False) -> tuple[int, int, int]:
    return saved_computes(1000, operands, gates=gates, skips=skips)


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
