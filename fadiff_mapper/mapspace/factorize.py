"""Divisors, and the ways to write a number as an ordered product of allowed factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache

import numpy as np

from fadiff_mapper.base.errors import FadiffError

PORTION = 1 << 20
"""Numbers that are tried as divisors at a time: 8 MiB; nothing was measured."""

MOST_DIVISORS = 1024
"""Divisors of a bound whose factors are chosen. Tables over pairs of them, for every level, then take some 100 MiB. No
number below 3.6 * 10^8 has more."""

REMEMBERED = 4096
"""Sets of reachable divisors that are kept: the levels and layers of a network share most of theirs. A plain limit on
memory."""


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a number from 1 to 2^53, ascending.

    Raises:
        FadiffError: There are more than `MOST_DIVISORS`.
    """
    last = math.isqrt(number)
    portions = (np.arange(first, min(first + PORTION, last + 1)) for first in range(1, last + 1, PORTION))
    small = [int(divisor) for portion in portions for divisor in portion[number % portion == 0]]
    if 2 * len(small) > MOST_DIVISORS:
        raise FadiffError(f"the bound {number} has {2 * len(small)} divisors, of which factors are chosen; accepted: "
                          f"at most {MOST_DIVISORS}")
    return tuple(small + [number // d for d in reversed(small) if d * d != number])


def factorizations(bound: int, choices: Iterable[Sequence[int]]) -> dict[int, int]:
    """Counts ordered factorizations.

    Args:
        bound: A positive number.
        choices: The allowed factors at each place.

    Returns:
        For every divisor of `bound` that can be reached, the number of ways to pick one factor from each of
        `choices` so that they multiply to it.
    """
    ways = {1: 1}
    for factors in choices:
        longer: dict[int, int] = {}
        for product, count in ways.items():
            for factor in factors:
                if bound % (product * factor) == 0:
                    longer[product * factor] = longer.get(product * factor, 0) + count
        ways = longer
    return ways


def reachable(bound: int, choices: Iterable[Sequence[int]]) -> frozenset[int]:
    """The divisors of a number that are products of one factor from each choice.

    Args:
        bound: A positive number.
        choices: The allowed factors at each place; all those that allow every divisor count as one, and those that
            allow 1 alone as none.
    """
    choices, every = list(choices), divisors(bound)
    limited = sorted(tuple(choice) for choice in choices if len(choice) < len(every) and tuple(choice) != (1,))
    free = any(len(choice) == len(every) for choice in choices)
    return _reachable(bound, (*limited, every) if free else tuple(limited))


@lru_cache(maxsize=REMEMBERED)
def _reachable(bound: int, choices: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    """The divisors that `factorizations` reaches."""
    return frozenset(factorizations(bound, choices))


def factorization_count(bound: int, choices: Sequence[Sequence[int]]) -> int:
    """Counts the ordered factorizations of a number itself.

    Args:
        bound: A positive number.
        choices: The allowed factors at each place.

    Returns:
        `factorizations(bound, choices)[bound]`, 0 where there is none. The k choices that allow every divisor are
        counted at once: they share what is left to them, a product of prime powers p^m, in as many ways as the product
        of binomial(m + k - 1, m).
    """
    whole = divisors(bound)
    limited = [choice for choice in choices if len(choice) < len(whole)]
    free = len(choices) - len(limited)
    return sum(ways * _shares(bound // product, free) for product, ways in factorizations(bound, limited).items())


def _shares(number: int, places: int) -> int:
    """Ways to write a number as an ordered product of so many factors."""
    if not places:
        return int(number == 1)
    ways, left = 1, number
    for prime in divisors(number)[1:]:  # ascending, so that what still divides is prime
        power = 0
        while left % prime == 0:
            left, power = left // prime, power + 1
        ways *= math.comb(power + places - 1, power)
    return ways
