"""Shifts of factors: a divisor of the factor of one loop goes to another loop of the same dimension (compiled).

The product of a dimension's factors stays, so that every shift leads from one factorization of the bound to another.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.mapspace import FactorTables

Ints: TypeAlias = np.ndarray
Floats: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray

NOWHERE = -1
"""The place of a shift that was not possible, and of one that may be anywhere."""


class DivisorTables(NamedTuple):
    """The tables of `FactorTables` that compiled code looks up, and the loops with a choice.

    Attributes:
        quotient: Number of the i-th divisor over the j-th, [W, D, N, N]; negative where that is no divisor.
        product: Number of the i-th divisor times the j-th, [W, D, N, N]; negative where that is no divisor.
        allowed: Whether the constraints let a place have a divisor, [W, P, D, N].
        movable: Whether a place has a choice, [W, P, D].
        place: The places of the Q loops with a choice in some member of the family, [Q].
        dim: The dimensions of these loops, [Q].
    """

    quotient: Ints
    product: Ints
    allowed: Bools
    movable: Bools
    place: Ints
    dim: Ints


class FactorShift(NamedTuple):
    """A shift from one factor place to another; `NOWHERE` twice where none was possible."""

    source: int
    target: int


def shiftable(tables: FactorTables) -> DivisorTables:
    """The tables of a family in the form that compiled code takes."""
    movable = tables.movable
    return DivisorTables(tables.quotient, tables.product, tables.allowed, movable, *np.nonzero(movable.any(axis=0)))


@compiled
def shift(factors: DivisorTables, member: int, number: Ints, column: int, back: FactorShift,
          chance: Floats) -> FactorShift:
    """Shifts one random divisor, in place.

    Args:
        factors: The tables of the family.
        member: The member of the family that the mapping is of.
        number: Numbers of divisors, [P, D, B]; changed in one column.
        column: The column to change.
        back: Where it is a shift, the new one goes between the same two places in the opposite direction.
        chance: Three random numbers in [0, 1): for the loop that gives, the divisor, and the place that takes.

    Returns:
        The shift; of two `NOWHERE`, and nothing is changed, if the numbers drawn lead to none.
    """
    w = member
    loop = pick_loop(factors.movable[w], factors.place, factors.dim, number, column, back.target, chance[0])
    if loop < 0:
        return FactorShift(NOWHERE, NOWHERE)
    p, d = factors.place[loop], factors.dim[loop]
    giver = number[p, d, column]
    part = pick_part(factors.quotient[w, d, giver], factors.allowed[w, p, d], chance[1])
    if part < 0:
        return FactorShift(NOWHERE, NOWHERE)
    target = pick_target(factors.product[w, d, :, part], factors.allowed[w, :, d], number[:, d, column], p, back.source,
                         chance[2])
    if target < 0:
        return FactorShift(NOWHERE, NOWHERE)
    number[p, d, column] = factors.quotient[w, d, giver, part]
    number[target, d, column] = factors.product[w, d, number[target, d, column], part]
    return FactorShift(p, target)


# Each of the three choices below goes over its candidates twice: the first time to count them, the second time to
# stop at the one that the random number stands for. No list is made, which compiled code would pay for.


@compiled
def pick_loop(movable: Bools, place: Ints, dim: Ints, number: Ints, column: int, only: int, uniform: float) -> int:
    """A random loop of several iterations that has a choice, or `NOWHERE`.

    Args:
        movable: Whether a place has a choice in this member, [P, D].
        place: Places of the loops with a choice in some member, [Q].
        dim: Their dimensions, [Q].
        number: Numbers of divisors, [P, D, B]; the divisor 1 has number 0.
        column: The mapping, a column of `number`.
        only: The one place that counts; negative: all.
        uniform: A random number in [0, 1).

    Returns:
        The loop's index in `place` and `dim`.
    """
    count, wanted = 0, -1
    for _ in range(2):
        for q in range(len(place)):
            if (only < 0 or place[q] == only) and movable[place[q], dim[q]] and number[place[q], dim[q], column] > 0:
                if count == wanted:
                    return q
                count += 1
        count, wanted = 0, int(uniform * count)
    return NOWHERE


@compiled
def pick_part(left: Ints, allowed: Bools, uniform: float) -> int:
    """A random divisor other than 1 that a loop can give away, by its number, or `NOWHERE`.

    Args:
        left: For every divisor the number of what the loop is left with, [N]; negative where it cannot give that.
        allowed: Whether the loop may have a divisor, [N].
        uniform: A random number in [0, 1).
    """
    count, wanted = 0, -1
    for _ in range(2):
        for part in range(1, len(left)):
            if left[part] >= 0 and allowed[left[part]]:
                if count == wanted:
                    return part
                count += 1
        count, wanted = 0, int(uniform * count)
    return NOWHERE


@compiled
def pick_target(more: Ints, allowed: Bools, number: Ints, source: int, only: int, uniform: float) -> int:
    """A random place, other than the source, that can take a divisor, or `NOWHERE`.

    Args:
        more: For every divisor the number of its product with the one that moves, [N].
        allowed: Whether a place may have a divisor, [P, N].
        number: The number that each place has now, [P].
        source: The place that gives.
        only: The one place that counts; negative: all.
        uniform: A random number in [0, 1).
    """
    count, wanted = 0, -1
    for _ in range(2):
        for p in range(len(number)):
            result = more[number[p]]
            if p != source and (only < 0 or p == only) and result >= 0 and allowed[p, result]:
                if count == wanted:
                    return p
                count += 1
        count, wanted = 0, int(uniform * count)
    return NOWHERE
