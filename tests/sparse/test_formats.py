"""Fiber trees and occupancies: tiny tiles by hand, and beside the enumeration of all placements of nonzeros."""

from __future__ import annotations

import math
import random
from itertools import combinations

import numpy as np
import pytest
from sparse_inputs import DESIGNS, drawn_spec, recorded_specs

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.sparse_optimizations import (
    BITMASK,
    COORDINATE_PAYLOAD,
    OFFSET_PAIR,
    RUN_LENGTH,
    UNCOMPRESSED_BITMASK,
    RankFormat,
    Representation,
)
from fadiff_mapper.kernel._kernel import DensityModel
from fadiff_mapper.model.sparse_tiles import StoredTile, fill, rank_units, stored_mapping
from fadiff_mapper.search.mapping_task import mapping_task

ALL_PLACEMENTS = list(combinations(range(8), 3))
"""Three nonzeros in a tensor of 8 words, which `THREE_OF_EIGHT` draws."""
THREE_OF_EIGHT = DensityModel("hypergeometric", 3 / 8, 0, [8])


def filled(tile: StoredTile, model: DensityModel, *, known_empty: bool) -> StoredTile:
    fill(tile, model, known_empty=known_empty)
    return tile


def tile_of(kind: str, words: int) -> StoredTile:
    """A tile in one rank whose fiber has a coordinate for each word."""
    return StoredTile((words,), None, None, Representation((RankFormat(kind, (), 3, 8),)), (words,), ((1,), (words,)))


@pytest.mark.parametrize(("kind", "metadata", "payload"), [
    (OFFSET_PAIR, 0, 5), (RUN_LENGTH, 1.2, 1.2), (COORDINATE_PAYLOAD, 2, 2), (BITMASK, 4, 2),
    (UNCOMPRESSED_BITMASK, 8, 8)])
def test_units_of_a_rank_are_counted_by_its_format(kind: str, metadata: float, payload: float) -> None:
    """Of 2 fibers half are empty; of the 4 coordinates of a fiber 30 % are filled."""
    found = rank_units(kind, 2, 4, np.array([0.5]), np.array([0.7]))
    assert [float(units[0]) for units in found] == pytest.approx([metadata, payload])


@pytest.mark.parametrize("words", [1, 3, 8])
def test_coordinates_of_a_tile_are_its_nonzeros(words: int) -> None:
    held = [sum(word < words for word in placement) for placement in ALL_PLACEMENTS]
    found = filled(tile_of(COORDINATE_PAYLOAD, words), THREE_OF_EIGHT, known_empty=False)
    mean = sum(held) / len(held)
    assert found.nonzeros == pytest.approx(mean)
    assert found.metadata == (pytest.approx((mean, 0)),)  # payloads of the innermost rank are the data
    assert (found.used, found.most_words) == (1, max(held))
    assert found.metadata_bits(found.most_metadata) == 3 * max(held)


def test_a_bitmask_has_a_bit_for_every_word_of_tiles_that_hold_something() -> None:
    held = [sum(word < 2 for word in placement) for placement in ALL_PLACEMENTS]
    found = filled(tile_of(BITMASK, 2), THREE_OF_EIGHT, known_empty=False)
    assert found.metadata[0][0] == pytest.approx(2 * sum(number > 0 for number in held) / len(held))


def test_tiles_that_are_known_to_be_empty_are_not_sent() -> None:
    held = [sum(word < 2 for word in placement) for placement in ALL_PLACEMENTS]
    sent = [number for number in held if number]
    found = filled(tile_of(COORDINATE_PAYLOAD, 2), THREE_OF_EIGHT, known_empty=True)
    assert found.used == pytest.approx(len(sent) / len(held))
    assert found.nonzeros == pytest.approx(sum(sent) / len(sent))
    assert found.density == pytest.approx(sum(sent) / len(sent) / 2)


def test_a_plain_tile_needs_all_its_words() -> None:
    found = filled(StoredTile((4,), None, None), THREE_OF_EIGHT, known_empty=False)
    assert (found.most_words, found.metadata, found.nonzeros) == (4, (), pytest.approx(1.5))


def test_fiber_trees_cover_their_tiles() -> None:
    """The boxes below the ranks grow from a single word up to the tile's."""
    rng, covered = random.Random(5), 0
    bases = [next(spec for spec in recorded_specs(design) if spec.mapping is not None) for design in DESIGNS]
    for number in range(90):
        spec = drawn_spec(bases[number % len(bases)], rng)
        task = mapping_task(spec)
        assert spec.mapping is not None
        assert task.sparse is not None
        try:
            stored = stored_mapping(task.sparse, spec.mapping)
        except FadiffError:
            continue
        for tile in (tile for column in stored.columns for tile in column.values() if tile.fibers):
            words = [math.prod(box) for box in tile.boxes]
            assert len(words) == len(tile.fibers) + 1
            if tile.ranks and all(coordinates > 1 for coordinates in tile.fibers):
                covered += 1
                assert words == sorted(words)
                assert words[0] == 1
                assert words[-1] <= tile.words
    assert covered > 20
