"""The hypergeometric distribution, to the last bit of the library that Timeloop calls.

Counts are rounded down from products such as words * (1 - density), which often lie on a whole number up to the last
bit of the density. So the probabilities must be those of Boost.Math, order of operations included: products of
factorials for tensors of up to 170 words, products of prime powers for larger ones, Lanczos' approximation beyond the
primes that the library has, all in extended precision (64 bits of mantissa, NumPy's `longdouble` on x86) and rounded to
doubles at the end. On machines whose `longdouble` is a double, a count may be off by one.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

MOST_FACTORIAL = 170
"""Boost.Math keeps a table of factorials up to here."""
MOST_PRIME = 104_723
"""Boost.Math's last prime but one; it factorizes tensors of up to this many words."""
MOST_PRIME_WORK = 30_000_000
"""Primes times occupancies above which prime powers take too long (some seconds) and logarithms of factorials take
their place, with 13 digits or so."""

MOST_TABLE = 4096
"""Words up to which the exponents of primes in factorials are kept in a table (of some megabytes)."""
SAFE_BITS = 16_000
"""Running products within 2 ** -SAFE_BITS and 2 ** SAFE_BITS stay in the range of extended precision."""
STIRLING = 1024
"""Words from which the series of log k! is exact to extended precision: its next term is below 1e-24 there."""
MOST_LANCZOS = 10_000
"""Occupancies above which logarithms take the place of Lanczos' approximation, which takes some seconds for these."""
MOST_JOINS = 20_000
"""Joined bases of powers (about a second) beyond which logarithms take their place as well."""
LANCZOS_G = np.longdouble("12.2252227365970611572265625")
LANCZOS = (
    "2715894658327.717377557655133124376674911", "3590179526097.912105038525528721129550434",
    "2223966599737.814969312127353235818710172", "856940834518.9562481809925866825485883417",
    "229885871668.749072933597446453399395469", "45526171687.54610815813502794395753410032",
    "6884887713.165178784550917647709216424823", "811048596.1407531864760282453852372777439",
    "75213915.96540822314499613623119501704812", "5509245.417224265151697527957954952830126",
    "317673.5368435419126714931842182369574221", "14268.27989845035520147014373320337523596",
    "489.3618720403263670213909083601787814792", "12.38941330038454449295883217865458609584",
    "0.2183627389504614963941574507281683147897", "0.002393749522058449186690627996063983095463",
    "0.1229541408909435212800785616808830746135e-4")
"""g and the numerator of Lanczos' sum over e ** g, for extended precision (the figures of Boost.Math 1.74)."""

Real = np.longdouble
TINY = np.finfo(Real).tiny


@lru_cache(maxsize=1)
def _factorials() -> tuple[np.longdouble, ...]:
    return tuple(Real(str(math.factorial(k))) for k in range(MOST_FACTORIAL + 1))


@lru_cache(maxsize=1)
def _primes() -> np.ndarray:
    sieve = np.ones(MOST_PRIME + 1, dtype=np.bool_)
    sieve[:2] = False
    for p in range(2, math.isqrt(MOST_PRIME) + 1):
        if sieve[p]:
            sieve[p * p::p] = False
    return np.flatnonzero(sieve)


def hypergeometric_pdf(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """The probability of x marked words in a tile.

    Args:
        x: [X]. Marked words in the tile, possible ones: max(0, n + r - total) <= x <= min(n, r).
        r: [X]. Marked words in all.
        n: Words of the tile.
        total: Words in all.

    Returns:
        [X]. Probabilities in float64.
    """
    if not len(x):
        return np.zeros(0)
    if total <= MOST_FACTORIAL:
        values = np.array([_by_factorials(int(one), int(marked), n, total) for one, marked in zip(x, r, strict=True)])
    elif total <= MOST_PRIME and np.searchsorted(_primes(), total) * len(x) <= MOST_PRIME_WORK:
        values = _by_primes(x.astype(np.int64), r.astype(np.int64), n, total)
    elif total <= MOST_PRIME or len(x) > MOST_LANCZOS:
        values = _by_logarithms(x.astype(np.int64), r.astype(np.int64), n, total)
    else:
        values = _ratio_of_factorials(x.astype(np.int64), r.astype(np.int64), n, total)
    probabilities: np.ndarray = np.clip(values, 0, 1).astype(np.float64)
    return probabilities


def _by_factorials(x: int, r: int, n: int, total: int) -> np.longdouble:
    """Factors and divisors in turn, so that the running product stays near 1."""
    table = _factorials()
    result = table[n]
    factors = [table[r], table[total - n], table[total - r]]
    divisors = [table[total], table[x], table[n - x], table[r - x], table[total - n - r + x]]
    while factors or divisors:
        while divisors and (result >= 1 or not factors):
            result = result / divisors.pop(0)
        while factors and (result <= 1 or not divisors):
            result = result * factors.pop(0)
    return result


@lru_cache(maxsize=8)
def _factorial_powers(limit: int) -> np.ndarray:
    """[P, limit + 1]. The exponent of each prime up to `limit` in k!, for k from 0."""
    primes = _primes()[: np.searchsorted(_primes(), limit, side="right")]
    table = np.zeros((len(primes), limit + 1), dtype=np.int32)
    for row, prime in enumerate(primes):
        base = int(prime)
        while base <= limit:
            table[row] += np.arange(limit + 1, dtype=np.int32) // base
            base *= int(prime)
    return table


def _by_primes(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """The product of prime powers, smallest prime first."""
    limit = 1 << total.bit_length()
    powers = _powers(_factorial_powers(limit), x, r, n, total) if limit <= MOST_TABLE else np.array(
        [_prime_powers(int(prime), x, r, n, total)
         for prime in _primes()[: np.searchsorted(_primes(), total, side="right")]])
    factors = _integer_powers(_primes()[:len(powers)].astype(Real), powers)
    size = np.add.accumulate(np.log2(factors), axis=0)
    if size.max() < SAFE_BITS and size.min() > -SAFE_BITS:
        product: np.ndarray = np.multiply.reduce(factors, axis=0)
        return product
    return np.array([_in_parts(column) for column in factors.T])


def _powers(table: np.ndarray, x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """[P, X]. The exponent of each prime in the probability."""
    fixed = table[:, n] + table[:, total - n] - table[:, total]
    result: np.ndarray = (fixed[:, None] + table[:, r] + table[:, total - r] - table[:, x] - table[:, n - x]
                          - table[:, r - x] - table[:, total - n - r + x])
    return result


def _prime_powers(prime: int, x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """The same for one prime, without a table, [X]."""
    powers = np.zeros(len(x), dtype=np.int64)
    base = prime
    while base <= total:
        powers += (n // base + r // base + (total - n) // base + (total - r) // base - total // base - x // base
                   - (n - x) // base - (r - x) // base - (total - n - r + x) // base)
        base *= prime
    return powers


def _in_parts(factors: np.ndarray) -> np.longdouble:
    """The product where it leaves the range: begun anew there, and the parts joined at the end, the latest first."""
    limits = np.finfo(Real)
    parts = [Real(1)]
    for factor in factors:
        if factor == 1:
            continue
        with np.errstate(over="ignore"):
            leaves = (factor > 1 and limits.max / factor < parts[0]) or (
                factor < 1 and limits.tiny / factor > parts[0])
        if leaves:
            parts.insert(0, factor)
        else:
            parts[0] = parts[0] * factor
    return _joined(parts) if len(parts) > 1 else parts[0]


def _integer_powers(bases: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """[P, X]. bases[p] ** exponents[p, x], with the multiplications that Boost.Math makes."""
    least = int(exponents.min())
    table = np.array([_power(bases, exponent) for exponent in range(least, int(exponents.max()) + 1)], dtype=Real)
    powers: np.ndarray = table[exponents - least, np.arange(len(bases))[:, None]]
    return powers


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    if exponent < 0:
        low: np.ndarray = Real(1) / _power(base, -exponent)
        return low
    if exponent > 8:
        high: np.ndarray = base ** Real(exponent)
        return high
    if exponent <= 1:
        return base if exponent else np.ones_like(base)
    half = _power(base, exponent // 2)
    power: np.ndarray = base * half * half if exponent % 2 else half * half
    return power


def _joined(parts: list[np.longdouble]) -> np.longdouble:
    """The product of partial results, large and small ones in turn."""
    large, small = [part for part in parts if part >= 1], [part for part in parts if part < 1]
    product = Real(1)
    while large or small:
        while large and (product <= 1 or not small):
            product = product * large.pop(0)
        while small and (product >= 1 or not large):
            product = product * small.pop(0)
    return product


def _ratio_of_factorials(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """[X]. The product and quotient of nine factorials, by Lanczos' approximation, as Boost.Math forms it.

    Each k! is ((k + g + 1/2) / e) ** (k + 1/2) times a sum near 1. Bases of powers are joined, those with the largest
    exponents first, until what is left of the exponents is small: so the large powers cancel before they are taken.
    """
    half, size = Real(0.5), len(x)
    above, below = [n, r, total - n, total - r], [total, x, n - x, r - x, total - n - r + x]
    counts = np.array([np.broadcast_to(k, size) for k in above + below]).astype(Real)
    shifted = counts + LANCZOS_G + half
    exponents = counts + half
    order = np.argsort(-exponents, axis=0, kind="stable")
    bases = np.take_along_axis(np.concatenate([shifted[:4], 1 / shifted[4:]]), order, axis=0)
    of_e = np.take_along_axis(np.repeat([-1, 1], [4, 5])[:, None].repeat(size, axis=1), order, axis=0)
    exponents = np.take_along_axis(exponents, order, axis=0)
    powers = [bases, exponents, of_e]
    vanished = np.zeros(size, dtype=np.bool_)
    here, part, joins = np.arange(size), powers, 0
    while len(here) and joins < MOST_JOINS:
        joins += 1
        part[1][0] -= part[1][1]
        part[0][1] *= part[0][0]
        part[2][1] += part[2][0]
        vanished[here] = (part[0][1] < TINY) & (part[1][1] != 0)
        _sink(part, 0)
        going_on = (part[1][1] > 1) & ~vanished[here]
        if not going_on.all():
            for column, values in zip(powers, part, strict=True):
                column[:, here] = values
            here, part = here[going_on], [values[:, going_on] for values in part]
    joined = np.ones(size, dtype=np.bool_)
    joined[here] = False
    result = np.array([_product_of_powers(*(column[:, i] for column in powers)) if joined[i] else Real(0)
                       for i in range(size)], dtype=Real)
    sums = _lanczos_sum(counts + 1)
    correction = sums[0] * sums[1] * sums[2] * sums[3] / (sums[4] * sums[5] * sums[6] * sums[7] * sums[8])
    result = np.where(vanished, Real(0), result * correction)
    result[here] = _by_logarithms(x[here], r[here], n, total)
    return result


def _sink(powers: list[np.ndarray], first: int) -> None:
    """Moves the power in row `first` behind all those with exponents no smaller, in place; the others are sorted."""
    moving: Any = True
    for row in range(first, len(powers[0]) - 1):
        moving = moving & (powers[1][row] <= powers[1][row + 1])
        if not moving.any():
            return
        for values in powers:
            values[row:row + 2, moving] = values[row:row + 2, moving][::-1]


def _product_of_powers(bases: np.ndarray, exponents: np.ndarray, of_e: np.ndarray) -> np.longdouble:
    """The product of (base * e ** of_e) ** exponent, largest exponent first; those of equal exponents as one power."""
    powers = [values[:, None] for values in (bases, exponents, of_e)]
    last = int(np.flatnonzero(exponents)[-1])
    while last > 0:
        while last and exponents[last - 1] == exponents[last]:
            bases[last - 1] *= bases[last]
            of_e[last - 1] += of_e[last]
            exponents[last] = 0
            _sink(powers, last)
            last -= 1
        last -= 1
    product = None
    for base, exponent, shift in zip(bases, exponents, of_e, strict=True):
        if product is not None and exponent <= 0:
            break
        if product is not None and product < TINY:
            return Real(0)
        whole = base * np.exp(Real(int(shift)))
        power = whole if exponent == 1 and product is not None else np.power(whole, exponent)
        if exponent == 0.5 and product is not None:
            power = np.sqrt(whole)
        product = power if product is None else product * power
    assert product is not None
    return product


def _lanczos_sum(z: np.ndarray) -> np.ndarray:
    """Lanczos' sum at z >= 1, a quotient of two polynomials, even and odd powers apart."""
    inverse = 1 / z
    rising = z <= 1
    square, single = np.where(rising, z * z, 1 / (z * z)), np.where(rising, z, inverse)
    parts = []
    for table in _lanczos_tables():
        upward = np.where(rising[None], table[::-1, None, None], table[:, None, None])
        even, odd = upward[0], upward[1]
        for row in range(2, len(table)):
            if row % 2:
                odd = odd * square + upward[row]
            else:
                even = even * square + upward[row]
        parts.append(even + odd * single)
    quotient: np.ndarray = parts[0] / parts[1]
    return quotient


@lru_cache(maxsize=1)
def _lanczos_tables() -> tuple[np.ndarray, np.ndarray]:
    """Coefficients of z ** 0, z, ... of the numerator, and of the denominator z * (z + 1) * ... * (z + 15)."""
    rising = [1]
    for k in range(len(LANCZOS) - 1):
        rising = [k * low + high for low, high in zip([*rising, 0], [0, *rising], strict=True)]
    return np.array([Real(text) for text in LANCZOS]), np.array([Real(str(value)) for value in rising])


@lru_cache(maxsize=1)
def _first_logarithms() -> np.ndarray:
    """[STIRLING]. log k! for k below `STIRLING`."""
    return np.concatenate([[Real(0)], np.cumsum(np.log(np.arange(1, STIRLING, dtype=Real)))])


def _log_factorial(k: np.ndarray) -> np.ndarray:
    """[X]. log k!, by Stirling's series where k is large, in memory that does not grow with k."""
    large = np.maximum(k, STIRLING).astype(Real)
    inverse = 1 / large
    series = (large * np.log(large) - large + np.log(2 * Real(np.pi) * large) / 2
              + inverse * (Real(1) / 12 - inverse ** 2 * (Real(1) / 360 - inverse ** 2 / 1260)))
    logarithm: np.ndarray = np.where(k < STIRLING, _first_logarithms()[np.minimum(k, STIRLING - 1)], series)
    return logarithm


def _by_logarithms(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """For tensors that are too large for prime powers."""
    fixed = _log_factorial(np.array([n, total - n, total]))
    exponent = (fixed[0] + fixed[1] - fixed[2] + _log_factorial(r) + _log_factorial(total - r) - _log_factorial(x)
                - _log_factorial(n - x) - _log_factorial(r - x) - _log_factorial(total - n - r + x))
    result: np.ndarray = np.exp(exponent)
    return result
