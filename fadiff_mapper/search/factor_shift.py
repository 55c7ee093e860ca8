"""Shifts of factors: a divisor of the factor of one loop goes to another loop of the same dimension (compiled)."""

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
    """What may stand where (see `FactorTables`), and the loops with a choice in some member of a family, [Q]."""

    quotient: Ints
    product: Ints
    allowed: Bools
    movable: Bools
    place: Ints
    dim: Ints


class FactorShift(NamedTuple):
    """From which place to which; `NOWHERE` where none was possible."""

    source: int
    target: int


def shiftable(tables: FactorTables) -> DivisorTables:
    """The tables for compiled code."""
    movable = tables.movable
    return DivisorTables(tables.quotient, tables.product, tables.allowed, movable, *np.nonzero(movable.any(axis=0)))


@compiled
def shift(factors: DivisorTables, member: int, number: Ints, column: int, back: FactorShift,
          chance: Floats) -> FactorShift:
    """Shifts one divisor in a column of `number` [P, D, B]; three random numbers in [0, 1) say which.

    After `back`, if that is a shift, between the same places in the opposite direction.
    """
    w = member
    site = pick_site(factors.movable[w], factors.place, factors.dim, number, column, back.target, chance[0])
    if site < 0:
        return FactorShift(NOWHERE, NOWHERE)
    p, d = factors.place[site], factors.dim[site]
    here = number[p, d, column]
    part = pick_part(factors.quotient[w, d, here], factors.allowed[w, p, d], chance[1])
    if part < 0:
        return FactorShift(NOWHERE, NOWHERE)
    goal = pick_target(factors.product[w, d, :, part], factors.allowed[w, :, d], number[:, d, column], p, back.source,
                       chance[2])
    if goal < 0:
        return FactorShift(NOWHERE, NOWHERE)
    number[p, d, column] = factors.quotient[w, d, here, part]
    number[goal, d, column] = factors.product[w, d, number[goal, d, column], part]
    return FactorShift(p, goal)


@compiled
def pick_site(movable: Bools, place: Ints, dim: Ints, number: Ints, column: int, only: int, uniform: float) -> int:
    """A loop of several iterations; `only`: at that place."""
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
    """A divisor other than 1 that a loop can give away, so that it is `left` with one that is allowed."""
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
    """Another place that can take a divisor: `more` is the product of every divisor with it; `only`: that place."""
    count, wanted = 0, -1
    for _ in range(2):
        for place in range(len(number)):
            result = more[number[place]]
            if place != source and (only < 0 or place == only) and result >= 0 and allowed[place, result]:
                if count == wanted:
                    return place
                count += 1
        count, wanted = 0, int(uniform * count)
    return NOWHERE
