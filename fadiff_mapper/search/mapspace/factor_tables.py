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
    """Tabulates the factors of map spaces over the same levels and dimensions; bounds and constraints may differ."""
    width = max(len(divisors(bound)) for space in spaces for bound in space.problem.bounds.values())
    columns = [_dimension_tables(bound, tuple(loops.choices[name] for loops in places(space)), width)
               for space in spaces for name, bound in space.problem.bounds.items()]
    divisor, quotient, product, allowed, completable, whole, outermost = (
        np.stack(column).reshape(len(spaces), -1, *column[0].shape) for column in zip(*columns, strict=True))
    return FactorTables(divisor, quotient, product, np.ascontiguousarray(allowed.swapaxes(1, 2)),
                        np.ascontiguousarray(completable.swapaxes(1, 2)), whole, outermost.swapaxes(1, 2))


@lru_cache(maxsize=REMEMBERED)
def _dimension_tables(bound: int, choices: tuple[tuple[int, ...], ...], width: int) -> list[np.ndarray]:
    """The tables of one dimension, in the order of `FactorTables` and without the axes W and D; not to be written to.

    `choices`: the factors of each place; `width`: N, the divisors of the richest bound.
    """
    values = np.array(divisors(bound))

    def numbers(table: np.ndarray) -> np.ndarray:
        number = np.minimum(np.searchsorted(values, table), len(values) - 1)
        return np.where(values[number] == table, number, NONE)

    def padded(table: np.ndarray, axes: int) -> np.ndarray:
        """The table with its last axes, which run over divisors, brought to the width."""
        filler = {"f": 1.0, "i": NONE, "b": False}[table.dtype.kind]
        return np.pad(table, [(0, 0)] * (table.ndim - axes) + [(0, width - len(values))] * axes,
                      constant_values=filler)

    quotient, times = numbers(values[:, None] / values), numbers(values[:, None] * values)
    allowed = np.array([np.isin(values, choice) for choice in choices])
    # From the outermost place inwards: `rest` tells which divisors the places further out can take up.
    completable, rest = np.empty((len(choices), *quotient.shape), dtype=np.bool_), values == 1
    for table, here in zip(completable[::-1], allowed[::-1], strict=True):
        table[:] = (quotient >= 0) & here & rest[quotient]
        rest = table.any(axis=1)
    left, outermost = len(values) - 1, []
    for table in completable:
        outermost.append(int(table[left].argmax()))  # the first that can be completed; 0, which is 1, where none can
        left = quotient[left, outermost[-1]]
    return [padded(values.astype(np.float64), 1), padded(quotient.astype(NUMBER), 2), padded(times.astype(NUMBER), 2),
            padded(allowed, 1), padded(completable, 2), np.array(len(values) - 1),
            np.array([NONE] * len(outermost) if left else outermost)]


def factor_ranges(space: MapSpace) -> tuple[np.ndarray, np.ndarray]:
    """The factors that constraints and fan-outs allow where a factor need not divide its bound.

    Returns:
        Least and largest factor, [P, D] each; all whole numbers between them are allowed.
    """
    ranges = []
    for limits, level in zip(space.constraints.levels, space.levels, strict=True):
        room = dict(zip("XY", level.fanout, strict=True))
        for loops, spatial in ((limits.spatial, True), (limits.temporal, False)):
            for name, bound in space.problem.bounds.items():
                if spatial:
                    most = max((room[axis] for axis in level.axes[name]), default=1)
                else:
                    most = 1 if level.temporal.choices[name] == (1,) else bound
                fixed = loops.fixed.get(name)
                ranges.append((fixed, fixed) if fixed is not None else (
                    loops.minimum.get(name, 1), min(loops.maximum.get(name, most), most, bound)))
    least, largest = np.array(ranges, dtype=np.float64).reshape(-1, len(space.problem.bounds), 2).transpose(2, 0, 1)
    return np.ascontiguousarray(least), np.ascontiguousarray(largest)
