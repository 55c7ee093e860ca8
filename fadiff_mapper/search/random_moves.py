"""Random small changes of mappings, one column after the other (compiled).

A *shift* takes a divisor of the factor of one loop and gives it to another loop of the same dimension. An *exchange*
is two shifts between the same two places in opposite directions: of two dimensions, which changes the shape of a tile
and little of its size, or of one, whose loops then swap divisors. The other decisions (loop order, keep or bypass,
layout of spatial loops) change one at a time.

Axes: see `Nest` and `mapspace.factor_tables`; a factor place is 2 l for the spatial loops of level l, 2 l + 1 for its
temporal ones. M moves, `tries` of them from every column.
"""

from __future__ import annotations

import numpy as np

from fadiff_mapper.base.numba_jit import compiled
from fadiff_mapper.model.loop_nest import Nest, columns
from fadiff_mapper.search.factor_shift import NOWHERE, DivisorTables, FactorShift, shift
from fadiff_mapper.search.move_tables import (
    KEEP,
    LAYOUT,
    NONE,
    ORDER,
    Bools,
    ChainColumns,
    Floats,
    Ints,
    MoveTable,
    OpenMoves,
)
from fadiff_mapper.search.population import Population, factors_of

# The four probabilities were set together with the annealing and have not been varied one by one since;
# benchmarks/layer_quality.py and benchmarks/true_optimum.py measure the search as a whole.

DECISION_ALONE = 0.3
"""Probability that a move changes one decision and no factor."""

SECOND_SHIFT = 0.8
"""Probability that a move which shifts a divisor shifts a second one too."""

EXCHANGE = 0.5
"""Probability that a second shift goes between the places of the first in the opposite direction. Since both may be of
one dimension (its loops then swap divisors), 2 instead of 5 of 294 searches on `simba_like` miss the best value."""

DECISION_TOO = 0.1
"""Probability that a move which shifts divisors changes a decision as well."""

MOVE_TYPE, FIRST_SHIFT, OTHER_SHIFT, LAYOUT_START, ALSO_DECIDE, DECISION, CANDIDATE, AGAIN, BACK, CHANCES = (
    0, 1, 4, 7, 8, 9, 10, 11, 12, 13)
"""The random numbers of a move by their place in its row, and how many there are; each shift takes three.

MOVE_TYPE: a decision alone, or shifts. FIRST_SHIFT, OTHER_SHIFT: the loop, the divisor and the target of a shift.
LAYOUT_START: the first layout looked at where spatial loops no longer fit. ALSO_DECIDE: whether shifts come with a
decision. DECISION, CANDIDATE: which decision, and which candidate for it. AGAIN: whether a second shift follows. BACK:
whether that one is an exchange."""


def proposed(open_: OpenMoves, here: Population, tries: int, rng: np.random.Generator) -> tuple[Population, np.ndarray]:
    """Draws random moves from every mapping; moves that change nothing are left out.

    A quarter of all moves would change nothing. With them among the neighbours of a chain the best of twelve was
    nearly always one of them, so that chains hardly ever left a plateau.

    Args:
        open_: The moves that are open in the family.
        here: B mappings.
        tries: Moves from each of them.
        rng: Source of all random numbers.

    Returns:
        The mappings after one move each, and for each the number of its draw: row * tries + try, ascending.
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
    """Draws `tries` moves from every column of `here` into a table.

    Args:
        open_: The moves that are open in the family.
        member: The member of the family that each column is of, [B].
        here: The mappings before.
        tries: Moves from each column.
        chances: Random numbers in [0, 1), [M, CHANCES].
        moves: The table that is written; `number` comes with the numbers before.

    Returns:
        Whether each move leads to another mapping, [M].
    """
    changed = np.zeros(len(chances), dtype=np.bool_)
    several_layouts = np.diff(open_.layouts_first) > 1
    for draw in range(len(chances)):
        column, chance = draw // tries, chances[draw]
        w, decides = member[column], len(open_.decisions) > 0
        if not decides or chance[MOVE_TYPE] >= DECISION_ALONE:
            shift_once_or_twice(open_.factors, w, moves.number, draw, chance)
            changed[draw] = differ(here.number, column, moves.number, draw)
            for level in range(len(several_layouts)):
                if changed[draw] and several_layouts[level]:
                    moves.layout[level, draw] = fitting(open_, w, here.on_y, level, column, moves.number, draw,
                                                        chance[LAYOUT_START])
            decides &= chance[ALSO_DECIDE] < DECISION_TOO
        if decides:
            moves.decision[draw] = int(chance[DECISION] * len(open_.decisions))
            changed[draw] |= decided(open_, w, here, column, moves, draw, chance[CANDIDATE])
    return changed


@compiled
def shift_once_or_twice(factors: DivisorTables, member: int, number: Ints, draw: int, chance: Floats) -> None:
    """One shift, two, or an exchange, in column `draw` of `number` [P, D, M]; see the probabilities above."""
    anywhere = FactorShift(NOWHERE, NOWHERE)
    first = shift(factors, member, number, draw, anywhere, chance[FIRST_SHIFT:])
    if first.source >= 0 and chance[AGAIN] < SECOND_SHIFT:
        back = first if chance[BACK] < EXCHANGE else anywhere
        shift(factors, member, number, draw, back, chance[OTHER_SHIFT:])


@compiled
def differ(before: Ints, column: int, number: Ints, draw: int) -> bool:
    """Whether the numbers of a draw differ from those of the column that it came from."""
    for p in range(number.shape[0]):
        for d in range(number.shape[1]):
            if before[p, d, column] != number[p, d, draw]:
                return True
    return False


@compiled
def fitting(open_: OpenMoves, member: int, on_y: Bools, level: int, column: int, number: Ints, draw: int,
            chance: float) -> int:
    """The layout that a level's spatial loops need after a shift, or `NONE`.

    A loop that grows in a full array often fits only if another loop changes its axis.

    Args:
        open_: The moves that are open in the family.
        member: The member of the family that the mapping is of.
        on_y: Whether spatial loops lie on the Y axis before the move, [L, D, B].
        level: The level whose fan-out the loops use.
        column: The mapping before the move, a column of `on_y`.
        number: Numbers of divisors after the move, [P, D, M].
        draw: The move, a column of `number`.
        chance: A random number in [0, 1) that says with which layout to begin.

    Returns:
        The first layout from a random one on that fits both axes; `NONE` where the present one does, or none does.
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
    """Whether the spatial loops of a level use no more units than its fan-out has, on either axis.

    `on_y` [D] says which dimensions lie on Y; `number` [P, D, M] and `draw` are the mapping.
    """
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
    """Picks a candidate for the decision of a draw.

    Orders are compared over the loops of several iterations alone: loops of one iteration may stand anywhere.

    Args:
        open_: The moves that are open in the family.
        member: The member of the family that the mapping is of.
        here: The mappings before.
        column: The mapping before, a column of `here`.
        moves: The table of moves, whose `pick` is written.
        draw: The move, a column of `moves`.
        chance: A random number in [0, 1) that says which candidate.

    Returns:
        Whether the candidate differs from what the mapping has.
    """
    kind, level, _ = open_.decisions[moves.decision[draw]]
    if kind == KEEP:
        return True
    p, present, candidates, starts = (
        (2 * level + 1, here.order, open_.orders, open_.orders_first) if kind == ORDER else
        (2 * level, here.spatial_order, open_.layouts, open_.layouts_first))
    pick = moves.pick[draw] = starts[level] + int(chance * (starts[level + 1] - starts[level]))
    at = 0
    for d in candidates[member, pick]:
        if moves.number[p, d, draw] > 0:
            while moves.number[p, present[level, at, column], draw] == 0:
                at += 1
            if present[level, at, column] != d or (
                    kind == LAYOUT and here.on_y[level, d, column] != open_.layouts_on_y[member, pick, d]):
                return True
            at += 1
    return False


@compiled
def decide(open_: OpenMoves, member: Ints, moves: MoveTable, draws: Ints, after: ChainColumns) -> None:
    """Writes the decisions of some draws into the columns that they lead to.

    Args:
        open_: The moves that are open in the family.
        member: The member of the family that each column of `after` is of, [N].
        moves: The table of all moves.
        draws: The moves that are carried out, [N].
        after: The mappings after the moves, N columns; written in place.
    """
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
                for at in range(after.order.shape[1]):
                    after.order[level, at, column] = open_.orders[w, moves.pick[draw], at]
            else:
                after.keep[level, tensor, column] ^= True


@compiled
def lay_out(open_: OpenMoves, member: int, level: int, pick: int, after: ChainColumns, column: int) -> None:
    """Writes layout `pick` of a level's spatial loops into a column."""
    for at in range(after.order.shape[1]):
        after.spatial_order[level, at, column] = open_.layouts[member, pick, at]
        after.on_y[level, at, column] = open_.layouts_on_y[member, pick, at]
