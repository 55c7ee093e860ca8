"""Divisors, and the ways to write a number as an ordered product of allowed factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache


@cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a positive number, ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return tuple(small + [number // d for d in reversed(small) if d * d != number])


def factorizations(bound: int, choices: Iterable[Sequence[int]]) -> dict[int, int]:
    """Counts ordered factorizations.

    With k choices that all allow every divisor, the count for the bound itself is the product over its prime powers
    p^m of binomial(m + k - 1, k - 1).

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
