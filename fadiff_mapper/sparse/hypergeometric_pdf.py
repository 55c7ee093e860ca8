"""The hypergeometric distribution, to the last bit of the library that Timeloop calls.

Counts are rounded down from products such as words * (1 - density), which often lie on a whole number up to the last
bit of the density. So the probabilities must be those of Boost.Math, order of operations included: products of
factorials for tensors of up to 170 words, products of prime powers for larger ones, and Lanczos' approximation beyond
its primes (`kernel/hypergeometric.cpp`), all in extended precision (64 bits of mantissa, NumPy's `longdouble` on x86)
and rounded to doubles at the end. On machines whose `longdouble` is a double, a count may be off by one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from fadiff_mapper.kernel import _kernel

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
MOST_STEPS = 2_000_000
"""Steps of Lanczos' approximation for one tile (about 40 ms) from which logarithms take its place, so that a search of
tensors with millions of words keeps its time. A probability takes some 250 steps, so tiles with up to 300,000 nonzeros
are within; of boxes of one or two words it takes up to half as many as the tensor has words."""
STIRLING = 1024
"""Words from which the series of log k! is exact to extended precision: its next term is below 1e-24 there."""

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
    elif total <= MOST_PRIME:
        values = _by_logarithms(x.astype(np.int64), r.astype(np.int64), n, total)
    else:
        values = _kernel.hypergeometric(x.astype(np.int64), r.astype(np.int64), n, total, MOST_STEPS)
        left = np.isnan(values)
        values[left] = _by_logarithms(x[left].astype(np.int64), r[left].astype(np.int64), n, total)
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
