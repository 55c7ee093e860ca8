"""Random small changes of mappings, one column after the other (compiled).

A *shift* takes a divisor of the factor of one loop and gives it to another loop of the same dimension. An *exchange*
is two shifts between the same two places in opposite directions: of two dimensions, which changes the shape of a tile
and little of its size, or of one, whose loops then swap divisors. The other decisions (loop order, keep or bypass,
layout of spatial loops) change one at a time.
Axes: see `Nest` and `mapspace.tables`; a place is 2 l for the spatial loops of a level, 2 l + 1 for its temporal ones.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.search.factor_shift import NOWHERE, DivisorTables, FactorShift, shift, shiftable
from fadiff_mapper.search.family_decisions import decisions_of
from fadiff_mapper.search.population import Population, factors_of

Ints: TypeAlias = np.ndarray
Floats: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray

DECISION, SHIFT_TWICE, EXCHANGE, BOTH = 0.3, 0.8, 0.5, 0.1
"""Shares of random moves: that change a decision and no factor; of the others, those with a second shift, of which so
many are exchanges; and those that change a decision too."""

WHAT, FIRST, SECOND, FIT, ALSO, DECIDE, PICK, AGAIN, BACK, CHANCES = 0, 1, 4, 7, 8, 9, 10, 11, 12, 13
"""What each of the random numbers of a move decides (shifts take three), and how many there are."""

NONE = -1
ORDER, LAYOUT, KEEP = range(3)
KINDS = {"order": (ORDER, ORDER), "layout": (LAYOUT,), "keep": (KEEP,)}
"""Decisions as moves draw them: orders twice as often, because there are more of them."""


class ChainColumns(NamedTuple):
    """The arrays of a population that moves change; the factors follow from their numbers."""

    number: Ints
    order: Ints
    keep: Bools
    on_y: Bools
    spatial_order: Ints


class MoveTable(NamedTuple):
    """What M moves do.

    number [P, D, M]   the divisors' numbers after each
    decision [M]       the row of `OpenMoves.decisions` that is decided anew, or `NONE`
    pick [M]           the candidate that is taken for it, of all levels' candidates
    layout [L, M]      the layout that a level's spatial loops need now, of all levels' candidates, or `NONE`
    """

    number: Ints
    decision: Ints
    pick: Ints
    layout: Ints


class OpenMoves(NamedTuple):
    """What moves may change in a family.

    divisor [W, D, N]; decisions [K, 3]: kind, level and tensor. The candidates of all levels stand one after the
    other, those of a level from `..._first[level]` on: orders [W, n, D], layouts (their order and on_y) alike.
    fanout [L, 2]: units along X and Y.
    """

    factors: DivisorTables
    divisor: Floats
    decisions: Ints
    orders: Ints
    orders_first: Ints
    layouts: Ints
    layouts_on_y: Bools
    layouts_first: Ints
    fanout: Ints


def open_in(family: LayerFamily, orders: bool = True) -> OpenMoves:
    """What is open in a family; `orders`: whether those of loops are."""
    decisions = [(kind, decision.level, decision.tensor) for decision in decisions_of(family, orders)
                 for kind in KINDS[decision.kind]]
    return OpenMoves(shiftable(family.factors), family.factors.divisor,
                     np.array(decisions, dtype=np.int64).reshape(-1, 3),
                     np.concatenate(family.orders, axis=1), _first([order.shape[1] for order in family.orders]),
                     np.concatenate([layout.order for layout in family.layouts], axis=1),
                     np.concatenate([layout.on_y for layout in family.layouts], axis=1),
                     _first([layout.order.shape[1] for layout in family.layouts]),
                     np.array([level.fanout for level in family.spaces[0].levels], dtype=np.int64))


def _first(counts: list[int]) -> Ints:
    return np.cumsum([0, *counts])


def proposed(open_: OpenMoves, here: Population, tries: int, rng: np.random.Generator) -> tuple[Population, np.ndarray]:
    """Mappings after one random move each, and for each the number of its draw: `tries` from every row, in order.

    Draws that change nothing are left out.
    """
    batch, levels = len(here.member) * tries, len(open_.fanout)
    before = ChainColumns(here.number, here.nest.order, here.nest.keep, here.nest.on_y, here.nest.spatial_order)
    moves = MoveTable(here.number.repeat(tries, axis=-1), np.full(batch, NONE), np.full(batch, NONE),
                      np.full((levels, batch), NONE))
    draws = np.flatnonzero(draw_moves(open_, here.member, before, tries, rng.random((batch, CHANCES)), moves))
    origin = draws // tries
    member = here.member[origin]
    after = ChainColumns(columns(moves.number, draws), *(columns(array, origin) for array in before[1:]))
    decide(open_, member, moves, draws, after)
    spatial, temporal = factors_of(member, after.number, open_.divisor)
    nest = Nest(temporal, spatial, after.order, after.keep, after.on_y, after.spatial_order)
    return Population(member, after.number, nest), draws


@compiled
def draw_moves(open_: OpenMoves, member: Ints, here: ChainColumns, tries: int, chances: Floats,
               moves: MoveTable) -> Bools:
    """Draws `tries` moves from every column of `here`; which of them lead to another mapping, [M]."""
    changed = np.zeros(len(chances), dtype=np.bool_)
    several_layouts = np.diff(open_.layouts_first) > 1
    for draw in range(len(chances)):
        column, chance = draw // tries, chances[draw]
        w, decides = member[column], len(open_.decisions) > 0
        if not decides or chance[WHAT] >= DECISION:
            shift_once_or_twice(open_.factors, w, moves.number, draw, chance)
            changed[draw] = differ(here.number, column, moves.number, draw)
            for level in range(len(several_layouts)):
                if changed[draw] and several_layouts[level]:
                    moves.layout[level, draw] = fitting(open_, w, here.on_y, level, column, moves.number, draw,
                                                        chance[FIT])
            decides &= chance[ALSO] < BOTH
        if decides:
            moves.decision[draw] = int(chance[DECIDE] * len(open_.decisions))
            changed[draw] |= decided(open_, w, here, column, moves, draw, chance[PICK])
    return changed


@compiled
def shift_once_or_twice(factors: DivisorTables, member: int, number: Ints, draw: int, chance: Floats) -> None:
    """One shift or two, or an exchange."""
    anywhere = FactorShift(NOWHERE, NOWHERE)
    first = shift(factors, member, number, draw, anywhere, chance[FIRST:])
    if first.source >= 0 and chance[AGAIN] < SHIFT_TWICE:
        back = first if chance[BACK] < EXCHANGE else anywhere
        shift(factors, member, number, draw, back, chance[SECOND:])


@compiled
def differ(before: Ints, column: int, number: Ints, draw: int) -> bool:
    """Whether the divisors' numbers of a draw are not those of its column."""
    for place in range(number.shape[0]):
        for d in range(number.shape[1]):
            if before[place, d, column] != number[place, d, draw]:
                return True
    return False


@compiled
def fitting(open_: OpenMoves, member: int, on_y: Bools, level: int, column: int, number: Ints, draw: int,
            chance: float) -> int:
    """The layout that a level's spatial loops need, where one axis is too short for those that it has; else `NONE`.

    A loop that grows in a full array often fits only if another one changes its axis. Of the layouts that fit, it is
    the first one from a random one on.
    """
    if fits(open_, member, on_y[level, :, column], level, number, draw):
        return NONE
    first, stop = open_.layouts_first[level], open_.layouts_first[level + 1]
    start = int(chance * (stop - first))
    for step in range(stop - first):
        pick = first + (start + step) % (stop - first)
        if fits(open_, member, open_.layouts_on_y[member, pick], level, number, draw):
            return int(pick)
    return NONE


@compiled
def fits(open_: OpenMoves, member: int, on_y: Bools, level: int, number: Ints, draw: int) -> bool:
    """Whether the spatial loops of a level are no more than its fan-out has units, on either axis."""
    x = y = 1.0
    for d in range(len(on_y)):
        factor = open_.divisor[member, d, number[2 * level, d, draw]]
        if on_y[d]:
            y *= factor
        else:
            x *= factor
    return bool(x <= open_.fanout[level, 0] and y <= open_.fanout[level, 1])


@compiled
def decided(open_: OpenMoves, member: int, here: ChainColumns, column: int, moves: MoveTable, draw: int,
            chance: float) -> bool:
    """Picks a candidate for a decision; whether it changes anything: loops of one iteration may stand anywhere."""
    kind, level, _ = open_.decisions[moves.decision[draw]]
    if kind == KEEP:
        return True
    place, standing, candidates, starts = (
        (2 * level + 1, here.order, open_.orders, open_.orders_first) if kind == ORDER else
        (2 * level, here.spatial_order, open_.layouts, open_.layouts_first))
    pick = moves.pick[draw] = starts[level] + int(chance * (starts[level + 1] - starts[level]))
    at = 0
    for d in candidates[member, pick]:
        if moves.number[place, d, draw] > 0:
            while moves.number[place, standing[level, at, column], draw] == 0:
                at += 1
            if standing[level, at, column] != d or (
                    kind == LAYOUT and here.on_y[level, d, column] != open_.layouts_on_y[member, pick, d]):
                return True
            at += 1
    return False


@compiled
def decide(open_: OpenMoves, member: Ints, moves: MoveTable, draws: Ints, after: ChainColumns) -> None:
    """Writes what some draws decide into the columns that they lead to."""
    for column, draw in enumerate(draws):
        w = member[column]
        for level in range(len(moves.layout)):
            if moves.layout[level, draw] >= 0:
                lay_out(open_, w, level, moves.layout[level, draw], after, column)
        if moves.decision[draw] >= 0:
            kind, level, tensor = open_.decisions[moves.decision[draw]]
            if kind == LAYOUT:
                lay_out(open_, w, level, moves.pick[draw], after, column)
            elif kind == ORDER:
                for slot in range(after.order.shape[1]):
                    after.order[level, slot, column] = open_.orders[w, moves.pick[draw], slot]
            else:
                after.keep[level, tensor, column] ^= True


@compiled
def lay_out(open_: OpenMoves, member: int, level: int, pick: int, after: ChainColumns, column: int) -> None:
    """Writes a layout of a level's spatial loops into a column."""
    for slot in range(after.order.shape[1]):
        after.spatial_order[level, slot, column] = open_.layouts[member, pick, slot]
        after.on_y[level, slot, column] = open_.layouts_on_y[member, pick, slot]
