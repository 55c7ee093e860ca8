"""Random shifts of factors, column by column: whole-number work that numba does faster than any array operation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.compiled import compiled
from fadiff_mapper.mapspace import FactorTables

Ints = np.ndarray
Floats = np.ndarray
Bools = np.ndarray

NOWHERE = -1
"""The place of a shift that was not possible."""


@dataclass(frozen=True)
class Sites:
    """The loops that can be other than fixed in some member of a family, [Q] each."""

    place: Ints
    dim: Ints


def sites_of(tables: FactorTables) -> Sites:
    """All loops with a choice."""
    return Sites(*np.nonzero(tables.movable.any(axis=0)))


@dataclass(frozen=True)
class Shifts:
    """One shift per column, [B] each: from which place to which, of which dimension; `NOWHERE` where none is."""

    source: Ints
    target: Ints
    dim: Ints


def shifted(tables: FactorTables, sites: Sites, member: Ints, number: Ints, where: Bools, uniform: Floats,
            back: Shifts | None = None, exchange: Bools | None = None) -> Shifts:
    """Shift one random divisor in every column where `where` [B] is set; changes `number` [P, D, B] in place.

    `uniform` [3, B] decides which. Where `exchange` [B] is set, the shift goes between the places of `back` in the
    opposite direction, with another dimension.
    """
    batch = len(member)
    source, target, dim = (np.full(batch, NOWHERE) for _ in range(3))
    before = back or Shifts(source, target, dim)
    shift_columns(tables.quotient, tables.product, tables.allowed, tables.movable, sites.place, sites.dim, member,
                  number, where, uniform, np.zeros(batch, dtype=np.bool_) if exchange is None else exchange,
                  before.source.copy(), before.target.copy(), before.dim.copy(), source, target, dim)
    return Shifts(source, target, dim)


@compiled
def shift_columns(quotient: Ints, product: Ints, allowed: Bools, movable: Bools, site_place: Ints, site_dim: Ints,
                  member: Ints, number: Ints, where: Bools, uniform: Floats, exchange: Bools, back_source: Ints,
                  back_target: Ints, back_dim: Ints, source: Ints, target: Ints, dim: Ints) -> None:
    """See `shifted`; fills in source, target and dim."""
    for b in range(len(member)):
        if not where[b]:
            continue
        w = member[b]
        only, other, to = -1, -1, -1
        if exchange[b]:
            only, other, to = back_target[b], back_dim[b], back_source[b]
        site = pick_site(movable[w], site_place, site_dim, number, b, only, other, uniform[0, b])
        if site < 0:
            continue
        p, d = site_place[site], site_dim[site]
        here = number[p, d, b]
        part = pick_part(quotient[w, d, here], allowed[w, p, d], uniform[1, b])
        if part < 0:
            continue
        goal = pick_target(product[w, d, :, part], allowed[w, :, d], number[:, d, b], p, to, uniform[2, b])
        if goal < 0:
            continue
        number[p, d, b] = quotient[w, d, here, part]
        number[goal, d, b] = product[w, d, number[goal, d, b], part]
        source[b], target[b], dim[b] = p, goal, d


@compiled
def pick_site(movable: Bools, place: Ints, dim: Ints, number: Ints, column: int, only: int, other: int,
              uniform: float) -> int:
    """A loop of several iterations: at the place `only` and not of the dimension `other`, where these are set."""
    count, wanted = 0, -1
    for _ in range(2):
        for q in range(len(place)):
            open_here = only < 0 or (place[q] == only and dim[q] != other)
            if open_here and movable[place[q], dim[q]] and number[place[q], dim[q], column] > 0:
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
