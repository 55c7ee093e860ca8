"""Density models: probabilities that add up, and the closed forms of the fixed and the banded one."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fadiff_mapper.sparse.banded_matrix import banded_histogram, empty_share, global_density, nonzeros_in
from fadiff_mapper.sparse.density_models import FixedStructured, Hypergeometric
from fadiff_mapper.sparse.hypergeometric_pdf import hypergeometric_pdf


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_hypergeometric_probabilities_are_those_of_binomials(data: st.DataObject) -> None:
    total = data.draw(st.integers(1, 600))
    tile, marked = data.draw(st.integers(1, total)), data.draw(st.integers(0, total))
    occupancies, probabilities = Hypergeometric(marked, total).histogram((tile,))
    exact = [math.comb(marked, int(x)) * math.comb(total - marked, tile - int(x)) / math.comb(total, tile)
             for x in occupancies]
    assert np.allclose(probabilities, exact, rtol=1e-13, atol=0)
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-12)


def test_large_tensors_go_through_logarithms_and_agree() -> None:
    x, r = np.arange(3), np.full(3, 40)
    exact = [math.comb(40, k) * math.comb(199_960, 1000 - k) / math.comb(200_000, 1000) for k in range(3)]
    assert np.allclose(hypergeometric_pdf(x, r, 1000, 200_000), exact, rtol=1e-12)


def test_tiles_of_millions_of_words_take_memory_for_likely_occupancies_alone() -> None:
    words = 1 << 26
    tracemalloc.start()
    occupancies, probabilities = Hypergeometric(words // 2, words).histogram((words // 2,))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-10)
    # The logarithms of the machine's C library decide the sum to some 1e-12, and the mean of a part of it with it.
    assert math.isclose(float((occupancies * probabilities).sum() / probabilities.sum()), words / 4, rel_tol=1e-12)
    assert probabilities[0] < 1e-300 and probabilities[-1] < 1e-300  # nothing that a double can hold is left out
    assert most < 100 << 20


@settings(max_examples=60, deadline=None)
@given(words=st.integers(1, 5000), density=st.floats(0, 1))
def test_fixed_tiles_have_one_of_two_occupancies(words: int, density: float) -> None:
    model = FixedStructured(density)
    occupancies, probabilities = model.histogram((words,))
    assert len(occupancies) <= 2 and occupancies[-1] - occupancies[0] <= 1
    assert math.isclose(float((occupancies * probabilities).sum()), words * density, rel_tol=1e-9, abs_tol=1e-9)
    assert (model.empty((words,)) > 0) == (words * density < 1)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_banded_tiles_hold_all_nonzeros_of_the_matrix(data: st.DataObject) -> None:
    tile, tiles = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 6))
    side = tile * tiles
    band = data.draw(st.integers(0, side - 1))
    nonzeros = sum(abs(row - column) <= band for row in range(side) for column in range(side))
    assert nonzeros_in(band, (0, 0), (side, side)) == nonzeros
    assert math.isclose(global_density(band, (side, side)), nonzeros / side ** 2)
    if math.ceil(band / tile) * 2 < tiles:  # Timeloop's shortcut holds where rows with a whole band are left
        occupancies, probabilities = banded_histogram(band, (side, side), (tile, tile))
        assert math.isclose(float((occupancies * probabilities).sum()) * tiles ** 2, nonzeros)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_empty_tiles_of_a_banded_matrix_are_those_between_timeloops_corners(data: st.DataObject) -> None:
    """An inner tile begins at twice the outer corner plus its offset; it ends at the outer corner, offset and side."""
    extents = [data.draw(st.integers(1, 4)) for _ in range(4)]
    tile, several = (extents[0], extents[1]), (extents[2], extents[3])
    outer = tile[0] * several[0], tile[1] * several[1]
    side = math.lcm(*outer) * data.draw(st.integers(1, 2))
    band = data.draw(st.integers(0, side - 1))
    occupancy = int(data.draw(st.sampled_from(banded_histogram(band, (side, side), outer)[0])))
    corners = [(row, column) for row in range(0, side, outer[0]) for column in range(0, side, outer[1])
               if nonzeros_in(band, (row, column), (row + outer[0], column + outer[1])) == occupancy]
    assume(corners and corners[0][0] < outer[0] * (math.ceil(band / outer[0]) + 1))  # those that Timeloop looks at
    (top, left), empty = corners[0], 0
    for row in range(top, top + outer[0], tile[0]):
        for column in range(left, left + outer[1], tile[1]):
            empty += not any(abs(x - y) <= band for x in range(top + row, row + tile[0])
                             for y in range(left + column, column + tile[1]))
    assert empty_share(band, (side, side), tile, outer, occupancy) == empty / math.prod(several)
