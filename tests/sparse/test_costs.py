"""Blocks, limits and metadata of compressed tiles, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sparse_inputs import recorded_specs

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.arch import Architecture, StorageLevel
from fadiff_mapper.inputs.spec.sparse_optimizations import RankFormat, Representation
from fadiff_mapper.kernel._kernel import DensityModel
from fadiff_mapper.model.legality import limits, rejection, violations
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.sparse_accesses import block_ratio
from fadiff_mapper.model.sparse_tiles import StoredTile
from fadiff_mapper.model.tiles import Tiles


def level(**changes: object) -> StorageLevel:
    spec = next(recorded_specs("mm2"))
    return replace(spec.arch.levels[0], **changes)  # type: ignore[arg-type]


def ratio(own: StorageLevel, words: int, density: float) -> float:
    nonzeros = words * density
    tile = StoredTile((words,), None, None, Representation((RankFormat("cp", (), 4, 8),)), (words,), ((1,), (words,)),
                      1.0, density, nonzeros, ((nonzeros, 0.0),), int(nonzeros), ((nonzeros, 0.0),))
    return block_ratio(own, own.block_size, tile, DensityModel("fixed_structured", density, 0, [words]))


def test_small_tiles_leave_blocks_unfilled() -> None:
    """8 words with 2 nonzeros are one block of 4, where filled blocks would be half of one."""
    assert ratio(level(block_size=4), 8, 0.25) == 2
    assert ratio(level(block_size=1), 8, 0.25) == 1
    assert ratio(level(block_size=4), 4 * 188, 0.25) == 1  # from 188 blocks on they are taken as filled
    with pytest.raises(FadiffError, match="blocks of 3 words; accepted: 2, 4, 8, 16, 32, or 1"):
        ratio(level(block_size=3), 8, 0.25)


def test_metadata_take_the_bits_of_their_rank() -> None:
    tile = StoredTile((8,), None, None, Representation((RankFormat("cp", (), 4, 8),)))
    assert tile.metadata_bits(((3.0, 0.0),)) == 3 * 4
    assert tile.metadata_bits(((1.0, 2.0),)) == 4 + 2 * 8


def broken(own: StorageLevel, words: int, *, most: tuple[int, int] = (1, 1), average: float = 1.0,
           metadata: int = 0) -> str:
    """What Timeloop says to one level of these words and instances; nothing where it accepts them."""
    arch = replace(next(recorded_specs("mm2")).arch, levels=(own,))
    assert isinstance(arch, Architecture)
    one = np.ones((1, 1, 1))
    nest = Nest(one, one, one, one > 0, one > 1, one)
    x, y = np.full((2, 1), most[0]), np.full((2, 1), most[1])
    tile = Tiles(one, one, one, one, one, x, y, np.ones(1), np.ones(1), np.full((1, 1), average))
    found = violations(limits(nest, one * words, tile, arch, metadata=np.array([[metadata]])), 0)
    return str(rejection(found)) if found else ""


def test_limits_are_told_in_timeloops_words() -> None:
    small = level(size=4, min_utilization=0.0)
    assert small.usable == 4
    assert not broken(small, 4)
    assert "mapped tile size 5 exceeds buffer capacity 4" in broken(small, 5)
    assert "mapped tile size 2 is less than constrained minimum utilization 4" in broken(
        replace(small, min_utilization=1.0), 2)
    assert "exceeds metadata buffer capacity" in broken(small, 4, metadata=1 << 40)
    assert "mapped instances 9.5 exceeds available hardware instances" in broken(small, 4, average=9.5)
    assert "mapped max Arithmetic instances 10000 exceeds" in broken(small, 4, most=(100, 100))
