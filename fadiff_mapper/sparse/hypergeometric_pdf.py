"""The hypergeometric distribution, to the last bit of the library that Timeloop calls.

Counts are rounded down from products such as words * (1 - density), which often lie on a whole number up to the last
bit of the density. So the probabilities must be those of Boost.Math, order of operations included: products of
factorials for tensors of up to 170 words, products of prime powers for larger ones, both in extended precision
(64 bits of mantissa, NumPy's `longdouble` on x86) and rounded to doubles at the end. On machines whose `longdouble` is
a double, a count may be off by one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

MOST_FACTORIAL = 170
"""Boost.Math keeps a table of factorials up to here."""
MOST_PRIME = 104_723
"""Boost.Math's last prime but one; it factorizes tensors of up to this many words."""
MOST_PRIME_WORK = 30_000_000
"""Primes times occupancies above which prime powers take too long (some seconds) and logarithms of factorials take
their place, with 13 digits or so."""

Real = np.longdouble


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
    else:
        values = _by_logarithms(x.astype(np.int64), r.astype(np.int64), n, total)
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


def _by_primes(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """The product of prime powers, smallest prime first; a product out of range is begun anew and joined at the end."""
    result = np.ones(len(x), dtype=Real)
    parts: list[list[np.longdouble]] = [[] for _ in x]
    limits = np.finfo(Real)
    for prime in _primes()[: np.searchsorted(_primes(), total, side="right")]:
        powers = _prime_powers(int(prime), x, r, n, total)
        if not powers.any():
            continue
        factor = _integer_power(Real(prime), powers)
        with np.errstate(over="ignore", divide="ignore"):
            leaves = ((factor > 1) & (limits.max / factor < result)) | ((factor < 1) & (limits.tiny / factor > result))
        leaves &= powers != 0
        for lane in np.flatnonzero(leaves):
            parts[lane].insert(0, result[lane])
        result = np.where(leaves, factor, result * factor)
    for number, others in enumerate(parts):
        if others:
            result[number] = _joined([result[number], *others])
    return result


def _prime_powers(prime: int, x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """The exponent of a prime in the probability, [X]."""
    powers = np.zeros(len(x), dtype=np.int64)
    base = int(prime)
    while base <= total:
        powers += (n // base + r // base + (total - n) // base + (total - r) // base - total // base - x // base
                   - (n - x) // base - (r - x) // base - (total - n - r + x) // base)
        base *= prime
    return powers


def _integer_power(base: np.longdouble, exponents: np.ndarray) -> np.ndarray:
    """base ** exponent for each exponent, with the multiplications that Boost.Math makes."""
    distinct, place = np.unique(exponents, return_inverse=True)
    values = np.array([_power(base, int(exponent)) for exponent in distinct], dtype=Real)
    return values[place.reshape(exponents.shape)]


def _power(base: np.longdouble, exponent: int) -> np.longdouble:
    if exponent < 0:
        return Real(1) / _power(base, -exponent)
    if exponent > 8:
        return base ** Real(exponent)
    if exponent <= 3:
        return Real(1) if exponent == 0 else base if exponent == 1 else base * base * (base if exponent == 3 else 1)
    half = _power(base, exponent // 2) if exponent != 6 and exponent != 7 else base * base * base
    return base * half * half if exponent % 2 else half * half


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


@lru_cache(maxsize=4)
def _log_factorials(total: int) -> np.ndarray:
    return np.concatenate([[Real(0)], np.cumsum(np.log(np.arange(1, total + 1, dtype=Real)))])


def _by_logarithms(x: np.ndarray, r: np.ndarray, n: int, total: int) -> np.ndarray:
    """For tensors that are too large for prime powers."""
    table = _log_factorials(total)
    exponent = (table[n] + table[r] + table[total - n] + table[total - r] - table[total] - table[x] - table[n - x]
                - table[r - x] - table[total - n - r + x])
    result: np.ndarray = np.exp(exponent)
    return result
