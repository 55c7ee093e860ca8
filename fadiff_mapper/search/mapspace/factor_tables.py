"""The factors of several map spaces as arrays, for work on many mappings at once.

A mapping is a choice of one factor for every dimension at every *place*. The loops of one level are two places, 2 l
for its spatial loops and 2 l + 1 for its temporal ones, so that places run from the innermost loops outwards. Factors
are stored as *numbers* of divisors: the divisors of a bound are numbered from 0 in ascending order, so that 1 has the
number 0 and the bound the last one. Axes: W (map space), P (place), D (dimension), N (divisor; as many as the richest
bound has, unused ones hold 1 and are never allowed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fadiff_mapper.search.mapspace.build import LoopSpace, MapSpace, divisors

NUMBER = np.int16
"""The type of divisors' numbers: small, because moves look up many of them.

Enough for bounds up to 10^15, of which none has more than 26,880 divisors.
"""

REMEMBERED = 2048
"""Tables of dimensions that are kept: layers of a network, tiles of its groups and designs of a sweep share most."""

NONE = -1
"""The number of a quotient or product that is no divisor of the bound."""

DIVISOR_AXES = (1, 2, 2, 1, 2, 0, 0)
"""How many axes of each table of `FactorTables`, in order, run over divisors."""


@dataclass(frozen=True)
class FactorTables:
    """The divisors that places may have, and arithmetic with their numbers.

    Attributes:
        divisor: The divisors of each bound, [W, D, N].
        quotient: Number of the i-th divisor over the j-th, NONE where that is no divisor, [W, D, N, N].
        product: Number of the i-th divisor times the j-th, NONE where that is no divisor, [W, D, N, N].
        allowed: Whether the constraints let a place have a divisor, [W, P, D, N].
        completable: Whether, with the i-th divisor left to distribute over a place and those further out, the place
            may take the j-th divisor so that the others can still take the rest, [W, P, D, N, N].
        bound: Number of the bound itself, [W, D].
        outermost: Numbers of the factors that leave as much as can be to the outermost places: place by place from the
            innermost outwards, the smallest divisor that the places further out can complete to the bound, or 1 where
            there is none, [W, P, D]. NONE at all places of a dimension where these do not multiply to its bound.
    """

    divisor: np.ndarray
    quotient: np.ndarray
    product: np.ndarray
    allowed: np.ndarray
    completable: np.ndarray
    bound: np.ndarray
    outermost: np.ndarray

    @property
    def looping(self) -> np.ndarray:
        """Whether a place can have a loop of more than one iteration, [W, P, D]."""
        looping: np.ndarray = np.any(self.allowed[..., 1:], axis=-1)
        return looping

    @property
    def movable(self) -> np.ndarray:
        """Whether a place has a choice of several factors, [W, P, D]."""
        movable: np.ndarray = self.allowed.sum(axis=-1) > 1
        return movable


def places(space: MapSpace) -> list[LoopSpace]:
    """The loops at each place, innermost first: a level's spatial loops, then its temporal ones."""
    return [loops for level in space.levels for loops in (level.spatial, level.temporal)]


def factor_tables(spaces: Sequence[MapSpace]) -> FactorTables:
    """Tabulates the factors of map spaces.

    Args:
        spaces: Map spaces over the same levels and dimensions; bounds and constraints may differ.

    Returns:
        The tables, stacked along the axis W.
    """
    width = max(len(divisors(bound)) for space in spaces for bound in space.problem.bounds.values())
    columns = []
    for space in spaces:
        choices = [loops.choices for loops in places(space)]
        for name, bound in space.problem.bounds.items():
            columns.append(_dimension_tables(bound, tuple(choice[name] for choice in choices), width))
    count = len(spaces)
    divisor, quotient, product, allowed, completable, whole, outermost = (
        np.concatenate(column).reshape(count, -1, *column[0].shape[1:]) for column in zip(*columns, strict=True))
    return FactorTables(divisor, quotient, product, np.ascontiguousarray(allowed.swapaxes(1, 2)),
                        np.ascontiguousarray(completable.swapaxes(1, 2)), whole, outermost.swapaxes(1, 2))


@lru_cache(maxsize=REMEMBERED)
def _dimension_tables(bound: int, choices: tuple[tuple[int, ...], ...], width: int) -> list[np.ndarray]:
    """The tables of one dimension, in the order of `FactorTables`, brought to a width; not to be written to.

    Args:
        bound: The dimension's bound.
        choices: The factors that each place may have.
        width: N, the divisors of the richest bound.

    Returns:
        Each table with an axis D of one entry in front.
    """
    values = np.array(divisors(bound))
    quotient, times = (_numbers(values, table) for table in (values[:, None] / values, values[:, None] * values))
    allowed = np.zeros((len(choices), len(values)), dtype=np.bool_)
    for row, choice in zip(allowed, choices, strict=True):
        row[np.searchsorted(values, choice)] = True
    # From the outermost place inwards: `rest` tells which divisors the places further out can take up.
    completable, rest = [], values == 1
    for here in allowed[::-1]:
        completable.append((quotient >= 0) & here & rest[quotient])
        rest = completable[-1].any(axis=1)
    completable.reverse()
    tables: list[np.ndarray] = [
        values.astype(np.float64), quotient.astype(NUMBER), times.astype(NUMBER), allowed, np.stack(completable),
        np.array(len(values) - 1), np.array(_outermost(quotient, completable), dtype=np.int64)]
    return [_padded(table, axes, width)[None] for table, axes in zip(tables, DIVISOR_AXES, strict=True)]


def _outermost(quotient: np.ndarray, completable: Sequence[np.ndarray]) -> list[int]:
    """`FactorTables.outermost` of one dimension, from the numbers of quotients and for each place `completable`."""
    left, numbers = len(quotient) - 1, []
    for table in completable:
        numbers.append(int(table[left].argmax()))  # the first that can be completed; 0, which is 1, where none can
        left = quotient[left, numbers[-1]]
    return [NONE] * len(numbers) if left else numbers


def _numbers(values: np.ndarray, table: np.ndarray) -> np.ndarray:
    """The number of each entry of a table among ascending values; NONE where there is none."""
    number = np.minimum(np.searchsorted(values, table), len(values) - 1)
    return np.where(values[number] == table, number, NONE)


def _padded(table: np.ndarray, axes: int, width: int) -> np.ndarray:
    """The table with its last `axes` axes, which run over divisors, brought to `width`."""
    filler = {"f": 1.0, "i": NONE, "b": False}[table.dtype.kind]
    padded = np.full(table.shape[:table.ndim - axes] + (width,) * axes, filler, dtype=table.dtype)
    padded[tuple(map(slice, table.shape))] = table
    return padded


def factor_ranges(space: MapSpace) -> tuple[np.ndarray, np.ndarray]:
    """The factors that constraints and fan-outs allow where a factor need not divide its bound.

    Returns:
        Least and largest factor, [2 L, D] each; place 2 l are the spatial loops of level l, 2 l + 1 its temporal ones.
        All whole numbers between them are allowed.
    """
    rows = []
    for limits, level in zip(space.constraints.levels, space.levels, strict=True):
        room = dict(zip("XY", level.fanout, strict=True))
        for loops, spatial in ((limits.spatial, True), (limits.temporal, False)):
            row = []
            for name, bound in space.problem.bounds.items():
                fixed = loops.fixed.get(name)
                most = max((room[axis] for axis in level.axes[name]), default=1) if spatial else bound
                if not spatial and level.temporal.choices[name] == (1,):
                    most = 1
                row.append((fixed, fixed) if fixed is not None else (
                    loops.minimum.get(name, 1), min(loops.maximum.get(name, most), most, bound)))
            rows.append(row)
    least, most_of = np.moveaxis(np.array(rows, dtype=np.float64), -1, 0)
    return np.ascontiguousarray(least), np.ascontiguousarray(most_of)
