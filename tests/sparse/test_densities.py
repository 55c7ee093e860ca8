"""Density models beside the enumeration of tiny tensors, and their closed forms."""

from __future__ import annotations

import math
import time
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.sparse_optimizations import BANDED, FIXED, HYPERGEOMETRIC
from fadiff_mapper.kernel._kernel import DensityModel
from fadiff_mapper.model import sparse_design  # noqa: F401  (gives the kernel the error that it raises)


def hypergeometric(nonzeros: int, words: int) -> DensityModel:
    return DensityModel(HYPERGEOMETRIC, max(nonzeros - 0.5, 0) / words, 0, [words])  # rounded up to whole words


def band(width: int, side: int) -> DensityModel:
    return DensityModel(BANDED, 1.0, width, [side, side])


@pytest.mark.parametrize(("nonzeros", "words"), [(0, 4), (1, 5), (3, 7), (7, 7)])
def test_nonzeros_are_drawn_from_the_whole_tensor(nonzeros: int, words: int) -> None:
    model, draws = hypergeometric(nonzeros, words), list(combinations(range(words), nonzeros))
    for tile in range(1, words + 1):
        held = [sum(word < tile for word in draw) for draw in draws]
        occupancies, probabilities = model.histogram([tile])
        assert occupancies.tolist() == sorted(set(held))
        assert probabilities == pytest.approx([held.count(int(x)) / len(held) for x in occupancies], rel=1e-15)
        assert model.empty([tile]) == pytest.approx(held.count(0) / len(held), rel=1e-15)
        assert model.expected([tile]) == pytest.approx(nonzeros * tile / words, rel=1e-15)
        assert model.most([tile]) == max(held)


@given(st.data())
def test_hypergeometric_probabilities_are_those_of_binomials(data: st.DataObject) -> None:
    words = data.draw(st.integers(1, 600))
    tile, nonzeros = data.draw(st.integers(1, words)), data.draw(st.integers(0, words))
    occupancies, probabilities = hypergeometric(nonzeros, words).histogram([tile])
    exact = [math.comb(nonzeros, int(x)) * math.comb(words - nonzeros, tile - int(x)) / math.comb(words, tile)
             for x in occupancies]
    assert np.allclose(probabilities, exact, rtol=1e-13, atol=0)
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-12)


def test_tiles_within_a_tile_are_drawn_from_its_nonzeros() -> None:
    empty = hypergeometric(5, 30).empty_within([2], [6], np.arange(6.0))
    assert empty == pytest.approx([math.comb(6 - x, 2) / math.comb(6, 2) for x in range(6)], rel=1e-15)


@pytest.mark.parametrize("words", [170, 171, 104_729, 200_000])
def test_each_of_the_ways_to_a_probability_agrees_with_binomials(words: int) -> None:
    found = dict(zip(*hypergeometric(40, words).histogram([100]), strict=True))
    for x in range(3 if words > 200 else 17, 20):
        exact = math.comb(40, x) * math.comb(words - 40, 100 - x) / math.comb(words, 100)
        assert found[x] == pytest.approx(exact, rel=1e-12)


def test_tiles_of_millions_of_words_have_likely_occupancies_alone() -> None:
    words = 1 << 26
    occupancies, probabilities = hypergeometric(words // 2, words).histogram([words // 2])
    assert len(occupancies) < 1 << 20
    assert math.isclose(probabilities.sum(), 1, rel_tol=1e-10)
    # The logarithms of the machine's C library decide the sum to some 1e-12, and the mean of a part of it with it.
    assert math.isclose(float((occupancies * probabilities).sum() / probabilities.sum()), words / 4, rel_tol=1e-12)
    assert probabilities[0] < 1e-43  # no sum would hold what is left out
    assert probabilities[-1] < 1e-43


@pytest.mark.parametrize(("x", "nonzeros", "tile", "words", "probability"), [
    (3, 100, 200, 131072, "0x1.0066bb1c9457p-11"),
    (0, 41943, 128, 131072, "0x1.ab724a2320614p-72"),
    (83, 85197, 128, 131072, "0x1.2dc6dacd551ccp-4"),
    (5461, 43690, 16384, 131072, "0x1.cf353f03ff5a7p-8"),
    (1, 7, 1000003, 1048583, "0x1.1b704fd68ffefp-24"),
    (0, 131000, 3, 131072, "0x1.5d760c30638dfp-33"),
    (2500, 50000, 50000, 1000000, "0x1.1333c0c34e4bbp-7")])
def test_probabilities_beyond_the_primes_of_boost_are_its_own(
        x: int, nonzeros: int, tile: int, words: int, probability: str) -> None:
    """Printed by Boost.Math 1.74, `pdf(hypergeometric_distribution<double>(nonzeros, tile, words), x)`."""
    found = dict(zip(*hypergeometric(nonzeros, words).histogram([tile]), strict=True))
    assert found[x] == float.fromhex(probability)


def test_probabilities_that_would_take_too_long_come_from_logarithms() -> None:
    started = time.perf_counter()
    probabilities = hypergeometric(10 ** 12, 3 * 10 ** 12).histogram([1])[1]
    assert np.allclose(probabilities, [2 / 3, 1 / 3], rtol=1e-2)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(("tile", "least"), [(3, 0), (12, 0), (13, 0), (16, 4)])
def test_the_least_occupancy_wraps_around_unless_the_tile_is_the_tensor(tile: int, least: int) -> None:
    assert hypergeometric(4, 16).least([tile]) % 2 ** 64 == least


@given(words=st.integers(1, 5000), density=st.floats(0, 1))
def test_fixed_tiles_have_one_of_two_occupancies(words: int, density: float) -> None:
    model = DensityModel(FIXED, density, 0, [words])
    occupancies, probabilities = model.histogram([words])
    assert len(occupancies) <= 2
    assert occupancies[-1] - occupancies[0] <= 1
    assert math.isclose(float((occupancies * probabilities).sum()), words * density, rel_tol=1e-9, abs_tol=1e-9)
    assert (model.empty([words]) > 0) == (words * density < 1)
    assert model.most([words]) == math.ceil(words * density)


@given(tile=st.tuples(st.integers(1, 5), st.integers(1, 5)), several=st.integers(1, 4), width=st.integers(0, 24))
def test_banded_tiles_are_those_of_the_matrix(tile: tuple[int, int], several: int, width: int) -> None:
    side = math.lcm(*tile) * several
    assume(width < side)
    model = band(width, side)
    nonzero = np.abs(np.subtract.outer(np.arange(side), np.arange(side))) <= width
    assert model.expected([1, 1]) == pytest.approx(nonzero.mean(), rel=1e-15)
    assert dict(zip(*model.histogram([side, side]), strict=True))[nonzero.sum()] == 1
    held = [int(nonzero[row:row + tile[0], column:column + tile[1]].sum())
            for row, column in product(range(0, side, tile[0]), range(0, side, tile[1]))]
    # Timeloop takes the first rows of tiles for the last ones too, and its first full row for all between.
    if tile[0] == tile[1] and math.ceil(width / tile[0]) * 2 < side // tile[0]:
        occupancies, probabilities = model.histogram(tile)
        assert probabilities == pytest.approx([held.count(int(x)) / len(held) for x in occupancies], rel=1e-15)
        assert model.empty(tile) == pytest.approx(held.count(0) / len(held), rel=1e-15)
        assert model.most(tile) == max(held)


@given(st.data())
def test_empty_tiles_of_a_banded_matrix_are_those_between_timeloops_corners(data: st.DataObject) -> None:
    """An inner tile begins at twice the outer corner plus its offset; it ends at the outer corner, offset and side."""
    tile, several = ([data.draw(st.integers(1, 4)) for _ in range(2)] for _ in range(2))
    outer = tile[0] * several[0], tile[1] * several[1]
    side = math.lcm(*outer) * data.draw(st.integers(1, 2))
    width = data.draw(st.integers(0, side - 1))
    nonzero = np.abs(np.subtract.outer(np.arange(side), np.arange(side))) <= width
    held = {(row, column): int(nonzero[row:row + outer[0], column:column + outer[1]].sum())
            for row, column in product(range(0, side, outer[0]), range(0, side, outer[1]))}
    occupancy = data.draw(st.sampled_from(sorted(set(held.values()))))
    top, left = next(corner for corner, number in held.items() if number == occupancy)
    assume(top < outer[0] * (math.ceil(width / outer[0]) + 1))  # those that Timeloop looks at
    empty = sum(not any(abs(x - y) <= width for x in range(top + row, row + tile[0])
                        for y in range(left + column, column + tile[1]))
                for row, column in product(range(top, top + outer[0], tile[0]), range(left, left + outer[1], tile[1])))
    share, = band(width, side).empty_within(tile, outer, np.array([float(occupancy)]))
    assert share == empty / math.prod(several)


@pytest.mark.parametrize(("question", "reason"), [
    (lambda: DensityModel(BANDED, 1.0, 2, [8, 4]), "8 x 4 words; accepted: a square matrix"),
    (lambda: DensityModel(BANDED, 1.0, 16, [8, 8]), "band width 16"),
    (lambda: DensityModel(HYPERGEOMETRIC, 0.5, 0, [2 ** 40, 2 ** 13]), "2\\^53 words"),
    (lambda: band(1, 8).histogram([16, 1]), "exceeds the banded matrix"),
    (lambda: band(1, 8).empty_within([1, 1], [3, 3], np.array([1.0])), "do not divide"),
    (lambda: band(1, 8).empty_within([1, 1], [4, 4], np.array([16.0])), "no tile of 4 x 4 words with 16 nonzeros"),
    (lambda: DensityModel(FIXED, 0.5, 0, [8]).most_elements([8], [3]), "no multiple of the 3 words")])
def test_what_timeloop_aborts_on_is_said(question: object, reason: str) -> None:
    with pytest.raises(FadiffError, match=reason):
        question()  # type: ignore[operator]
