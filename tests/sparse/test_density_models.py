"""Density models: probabilities that add up, and the closed forms of the fixed and the banded one."""

from __future__ import annotations

import math
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fadiff_mapper.kernel import _kernel
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


def test_probabilities_of_large_tensors_are_those_of_binomials() -> None:
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
    assert probabilities[0] < 1e-43 and probabilities[-1] < 1e-43  # no sum would hold what is left out
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


@pytest.mark.parametrize(("x", "r", "n", "total", "probability"), [
    (3, 100, 200, 131072, "0x1.0066bb1c9457p-11"),
    (0, 41943, 128, 131072, "0x1.ab724a2320614p-72"),
    (83, 85197, 128, 131072, "0x1.2dc6dacd551ccp-4"),
    (5461, 43690, 16384, 131072, "0x1.cf353f03ff5a7p-8"),
    (1, 7, 1000003, 1048583, "0x1.1b704fd68ffefp-24"),
    (0, 131000, 3, 131072, "0x1.5d760c30638dfp-33"),
    (2500, 50000, 50000, 1000000, "0x1.1333c0c34e4bbp-7")])
def test_probabilities_of_tensors_beyond_the_primes_of_boost_are_its_own(
        x: int, r: int, n: int, total: int, probability: str) -> None:
    """Printed by Boost.Math 1.74, `pdf(hypergeometric_distribution<double>(r, n, total), x)`."""
    assert hypergeometric_pdf(np.array([x]), np.array([r]), n, total)[0] == float.fromhex(probability)


Real = np.longdouble
RATIO_G = Real("12.2252227365970611572265625")
RATIO_NUMERATOR = (
    "2715894658327.717377557655133124376674911", "3590179526097.912105038525528721129550434",
    "2223966599737.814969312127353235818710172", "856940834518.9562481809925866825485883417",
    "229885871668.749072933597446453399395469", "45526171687.54610815813502794395753410032",
    "6884887713.165178784550917647709216424823", "811048596.1407531864760282453852372777439",
    "75213915.96540822314499613623119501704812", "5509245.417224265151697527957954952830126",
    "317673.5368435419126714931842182369574221", "14268.27989845035520147014373320337523596",
    "489.3618720403263670213909083601787814792", "12.38941330038454449295883217865458609584",
    "0.2183627389504614963941574507281683147897", "0.002393749522058449186690627996063983095463",
    "0.1229541408909435212800785616808830746135e-4")


def polynomial(coefficients: list[Any], z: Any) -> Any:
    """In powers of z, or of 1 / z where z > 1; even and odd powers apart."""
    row = coefficients[::-1] if z <= 1 else coefficients
    square = z * z if z <= 1 else 1 / (z * z)
    even, odd = row[0], row[1]
    for first, second in zip(row[2::2], [*row[3::2], None], strict=True):
        even = even * square + first
        odd = odd if second is None else odd * square + second
    return even + odd * (z if z <= 1 else 1 / z)


def ratio_of_factorials(x: int, r: int, n: int, total: int) -> Any:
    """n! r! (total - n)! (total - r)! / (total! x! ...), each k! as ((k + g + 1/2) / e) ** (k + 1/2) * Lanczos' sum.

    A power is [exponent, base, shift], (base * e ** shift) ** exponent. The bases of the two largest exponents are
    joined until little is left of the second.
    """
    denominator = [1]
    for k in range(16):
        denominator = [k * low + high for low, high in zip([*denominator, 0], [0, *denominator], strict=True)]
    factorials = [Real(k) for k in (n, r, total - n, total - r, total, x, n - x, r - x, total - n - r + x)]
    sums = [polynomial([Real(text) for text in RATIO_NUMERATOR], k + 1)
            / polynomial([Real(str(value)) for value in denominator], k + 1) for k in factorials]
    bases = [k + RATIO_G + Real(0.5) for k in factorials]
    powers = [[k + Real(0.5), base if i < 4 else 1 / base, -1 if i < 4 else 1]
              for i, (k, base) in enumerate(zip(factorials, bases, strict=True))]
    powers.sort(key=lambda power: -power[0])

    def sink(i: int) -> None:
        while i + 1 < len(powers) and powers[i][0] <= powers[i + 1][0]:
            powers[i], powers[i + 1], i = powers[i + 1], powers[i], i + 1

    def join(into: list[Any], other: list[Any]) -> None:
        into[1:] = into[1] * other[1], into[2] + other[2]

    going_on = True
    while going_on:
        powers[0][0] -= powers[1][0]
        join(powers[1], powers[0])
        if powers[1][1] < np.finfo(Real).tiny and powers[1][0] != 0:
            return Real(0)
        sink(0)
        going_on = powers[1][0] > 1
    last = max(i for i, power in enumerate(powers) if power[0] != 0)
    while last > 0:
        while last and powers[last - 1][0] == powers[last][0]:
            join(powers[last - 1], powers[last])
            powers[last][0] = Real(0)
            sink(last)
            last -= 1
        last -= 1
    product = None
    for exponent, base, shift in powers:
        if product is not None and (exponent <= 0 or product < np.finfo(Real).tiny):
            product = product if exponent <= 0 else Real(0)
            break
        whole = base * np.exp(Real(shift))
        power = (whole if exponent == 1 and product is not None
                 else np.sqrt(whole) if exponent == 0.5 and product is not None else np.power(whole, exponent))
        product = power if product is None else product * power
    return product * (sums[0] * sums[1] * sums[2] * sums[3] / (sums[4] * sums[5] * sums[6] * sums[7] * sums[8]))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_compiled_ratio_is_the_readable_one_bit_for_bit(data: st.DataObject) -> None:
    total = data.draw(st.integers(104_724, 3_000_000))
    n, r = data.draw(st.integers(20, total - 20)), data.draw(st.integers(20, total - 20))
    likely = n * r // total
    x = min(max(data.draw(st.integers(likely - 60, likely + 60)), 0, n + r - total), n, r)
    found = _kernel.hypergeometric(np.array([x]), np.array([r]), n, total, 10 ** 9)
    assert found[0] == np.float64(ratio_of_factorials(x, r, n, total))


def test_probabilities_that_would_take_too_long_come_from_logarithms() -> None:
    x = np.arange(2)
    assert np.isnan(_kernel.hypergeometric(x, np.full(2, 10 ** 12), 1, 3 * 10 ** 12, 10 ** 6)).all()
    started = time.perf_counter()
    assert np.allclose(hypergeometric_pdf(x, np.full(2, 10 ** 12), 1, 3 * 10 ** 12), [2 / 3, 1 / 3], rtol=1e-2)
    assert time.perf_counter() - started < 2
