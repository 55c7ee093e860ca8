"""The values that compiled moves work on: open decisions and loops of a family, and the changes of each move.

Axes as in `random_moves`: W members of a family, L levels, D dimensions, N divisors, M moves.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np

from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.search.factor_shift import DivisorTables, shiftable
from fadiff_mapper.search.family_decisions import DecisionKind, decisions_of

Ints: TypeAlias = np.ndarray
Floats: TypeAlias = np.ndarray
Bools: TypeAlias = np.ndarray

NONE = -1
"""No decision, no layout."""

ORDER, LAYOUT, KEEP = map(int, DecisionKind)
"""The kinds of decisions as plain integers, for compiled code."""

DRAWS = {DecisionKind.ORDER: 2, DecisionKind.LAYOUT: 1, DecisionKind.KEEP: 1}
"""How often each kind stands among the decisions that moves draw from: orders twice, because a level has many more
orders than there are choices to keep or bypass. Nothing was measured."""


class ChainColumns(NamedTuple):
    """The arrays of a population that moves change, axes as in `Population`; the factors follow from their numbers."""

    number: Ints
    order: Ints
    keep: Bools
    on_y: Bools
    spatial_order: Ints


class MoveTable(NamedTuple):
    """The effects of M moves.

    Attributes:
        number: The divisors' numbers after each, [P, D, M].
        decision: The row of `OpenMoves.decisions` that is decided anew, or `NONE`, [M].
        pick: The candidate that is taken for it, counted over all levels' candidates, [M].
        layout: The layout that each level's spatial loops need after the shifts, counted over all levels' candidates,
            or `NONE` where the present one still fits, [L, M].
    """

    number: Ints
    decision: Ints
    pick: Ints
    layout: Ints


class OpenMoves(NamedTuple):
    """All that moves may change in a family of W members, as arrays for compiled code.

    The candidates of all levels stand one after the other; the candidates of level l in rows `..._first[l]` up to
    `..._first[l + 1]`.

    Attributes:
        factors: Tables of divisors.
        divisor: The divisors themselves, [W, D, N].
        decisions: Kind, level and data space of each open decision, [K, 3]; some stand there twice (see `DRAWS`).
        orders: Candidate orders of temporal loops, dimension indices from the innermost loop outwards, [W, n, D].
        orders_first: First candidate of each level, [L + 1].
        layouts: Candidate orders of spatial loops, [W, n, D].
        layouts_on_y: Whether the spatial loop of a dimension lies on the Y axis in each layout, [W, n, D].
        layouts_first: First layout of each level, [L + 1].
        fanout: Units along X and Y below each level, [L, 2].
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
    """The moves that are open in a family.

    Args:
        family: The layers that are searched side by side.
        orders: Whether loop orders may change.
    """
    decisions = [(decision.kind, decision.level, decision.tensor) for decision in decisions_of(family, orders)
                 for _ in range(DRAWS[decision.kind])]
    return OpenMoves(shiftable(family.factors), family.factors.divisor,
                     np.array(decisions, dtype=np.int64).reshape(-1, 3),
                     np.concatenate(family.orders, axis=1), _first([order.shape[1] for order in family.orders]),
                     np.concatenate([layout.order for layout in family.layouts], axis=1),
                     np.concatenate([layout.on_y for layout in family.layouts], axis=1),
                     _first([layout.order.shape[1] for layout in family.layouts]),
                     np.array([level.fanout for level in family.spaces[0].levels], dtype=np.int64))


def _first(counts: list[int]) -> Ints:
    """Where each of several lists begins when they are put together, and the end of the last one."""
    return np.cumsum([0, *counts])
