"""A map space and an objective in the form that the compiled search takes (`kernel/map_space.hpp`, `chains.hpp`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fadiff_mapper.kernel._kernel import Decision, MapSpace, Quantity
from fadiff_mapper.search.best_so_far import PRIORITY, SHARE_WEIGHT
from fadiff_mapper.search.layer_family import LayerFamily, temporal_orders
from fadiff_mapper.search.mapspace import available, factor_ranges

ORDER_DRAWS = 2
"""How often the order of a level stands among the decisions that moves draw from; layouts and choices to keep or bypass
stand there once, because a level has many more orders. Nothing was measured."""


def compiled_space(family: LayerFamily, member: int, *, residuals: bool = False) -> MapSpace:
    """The map space of one member of a family for the compiled search; arguments as of `space_table`."""
    return MapSpace(family.layer.compiled, **space_table(family, member, residuals=residuals))


def space_table(family: LayerFamily, member: int, *, residuals: bool = False) -> dict[str, Any]:
    """The tables of one member of a family.

    Args:
        family: Layers with the candidates of their decisions.
        member: Number of the member.
        residuals: Whether factors may be any whole numbers, of a family of one.

    Returns:
        The arguments of the kernel's map space, by name.
    """
    space, factors = family.spaces[member], family.factors
    names = space.problem.dataspace_names()
    if residuals:
        least, most = factor_ranges(space)
        family = replace(family, orders=tuple(
            temporal_orders(space, family.layer.projection, level, (most[2 * level + 1] > 1).tolist())[None]
            for level in range(len(space.levels))))
        movable = most > least
        movable[-1] = False  # the outermost loops take what the others leave
        tables: dict[str, Any] = {"least": least, "most": most,
                                  "points": np.array(list(space.problem.bounds.values()), dtype=np.float64)}
    else:
        movable = factors.movable[member]
        tables = {name: getattr(factors, name)[member] for name in (
            "divisor", "quotient", "product", "allowed", "completable")}
        tables["bound"] = factors.bound[member].astype(np.int64)
    return tables | {
        "movable": [(int(place), int(d)) for place, d in zip(*np.nonzero(movable), strict=True)],
        "orders": [level[member].tolist() for level in family.orders],
        "layouts": [list(zip(level.order[member].tolist(), level.on_y[member].tolist(), strict=True))
                    for level in family.layouts],
        "keep": np.array([[name in level.keep for name in names] for level in space.levels]),
        "open": [(int(level), int(t)) for level, t in family.keeps],
        "decisions": [
            *[(Decision.ORDER, level, 0) for level, own in enumerate(family.orders) if own.shape[1] > 1
              for _ in range(ORDER_DRAWS)],
            *[(Decision.LAYOUT, level, 0) for level, own in enumerate(family.layouts) if own.order.shape[1] > 1],
            *[(Decision.KEEP, int(level), int(t)) for level, t in family.keeps]],
        "available": float(available(space)), "min_parallelism": float(space.constraints.min_parallelism),
    }


def compiled_objective(metrics: Sequence[str], weights: Sequence[float] | None = None,
                       sums: tuple[float, float] | None = None) -> dict[str, Any]:
    """The objective in the form that the compiled search takes.

    Args:
        metrics: Metrics in order of priority.
        weights: Exponents of energy and delay, in place of the metrics.
        sums: Energy and cycles of a network in which the share counts, in place of both.

    Returns:
        Arguments of the kernel's objective, by name: terms (weight, quantity) of a sum of weighted
        logarithms, and the sums.
    """
    named = ([("share", SHARE_WEIGHT)] if sums is not None
             else list(zip(("energy", "delay"), weights, strict=True)) if weights is not None
             else [(name, PRIORITY ** i) for i, name in enumerate(metrics)])
    return {"terms": [(float(weight), Quantity.__members__[name]) for name, weight in named],
            "sums": sums or (1.0, 1.0)}
