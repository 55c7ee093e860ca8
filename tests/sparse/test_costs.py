"""Blocks, limits and energies of compressed tiles, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sparse_inputs import recorded_specs

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.sparse_optimizations import RankFormat, Representation
from fadiff_mapper.kernel._kernel import DensityModel
from fadiff_mapper.model.sparse_accesses import (
    AccessSplit,
    StoredSpace,
    TileAccesses,
    block_ratio,
    check_arithmetic,
    check_level,
    format_bits,
)
from fadiff_mapper.model.sparse_savings import UsedInstances
from fadiff_mapper.model.sparse_tiles import FiberTree, Occupancy, StoredTile

NONE = AccessSplit({"actual": 0, "gated": 0, "skipped": 0}, {"actual": ((3, 0),), "gated": ((1, 0),), "skipped": ()})


def level(**changes: object) -> StorageLevel:
    spec = next(recorded_specs("mm2"))
    return replace(spec.arch.levels[0], **changes)  # type: ignore[arg-type]


def stored(own: StorageLevel, words: int, density: float) -> StoredSpace:
    tile = StoredTile((words,), None, None, Representation((RankFormat("cp", (), 4, 8),)),
                      FiberTree(((1,), (words,)), (words,), inner_to_outer=False))
    model = DensityModel("fixed_structured", density, 0, [words])
    nonzeros = words * density
    return StoredSpace(own, tile, Occupancy(1.0, density, nonzeros, ((nonzeros, 0.0),), int(nonzeros),
                                            ((nonzeros, 0.0),)), model, TileAccesses(NONE, NONE, NONE, 0),
                       UsedInstances(1, 1, 1.0), written=False)


def test_small_tiles_leave_blocks_unfilled() -> None:
    """8 words with 2 nonzeros are one block of 4, where filled blocks would be half of one."""
    assert block_ratio(stored(level(block_size=4), 8, 0.25)) == 2
    assert block_ratio(stored(level(block_size=1), 8, 0.25)) == 1
    assert block_ratio(stored(level(block_size=4), 4 * 188, 0.25)) == 1  # from 188 blocks on they are taken as filled
    with pytest.raises(FadiffError, match="blocks of 3 words; accepted: 2, 4, 8, 16, 32, or 1"):
        block_ratio(stored(level(block_size=3), 8, 0.25))


def test_metadata_take_the_bits_of_their_rank() -> None:
    assert format_bits(stored(level(), 8, 0.25), NONE, "actual") == 3 * 4
    assert format_bits(stored(level(), 8, 0.25), NONE, "gated") == 4


def test_limits_are_told_in_timeloops_words() -> None:
    small = level(size=4, min_utilization=0.0)
    used = [UsedInstances(1, 1, 1.0)]
    assert small.usable == 4
    check_level(small, [stored(small, 16, 0.25)], used)  # compression lets it in
    with pytest.raises(InvalidMapping, match="mapped tile size 5 exceeds buffer capacity 4"):
        check_level(small, [stored(small, 20, 0.25)], used)
    with pytest.raises(InvalidMapping, match="mapped tile size 2 is less than constrained minimum utilization 4"):
        check_level(replace(small, min_utilization=1.0), [stored(small, 8, 0.25)], used)
    with pytest.raises(InvalidMapping, match=r"mapped instances 9\.5 exceeds available hardware instances"):
        check_level(small, [], [UsedInstances(1, 1, 9.5)])
    arithmetic = next(recorded_specs("mm2")).arch.arithmetic
    with pytest.raises(InvalidMapping, match="mapped max Arithmetic instances 10000 exceeds"):
        check_arithmetic(arithmetic, UsedInstances(100, 100, 1.0))
