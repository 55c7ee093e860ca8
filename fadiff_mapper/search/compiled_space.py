"""A map space and an objective in the form that the compiled search takes (`kernel/map_space.hpp`, `chains.hpp`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fadiff_mapper.mapspace import available
from fadiff_mapper.search.best_so_far import PRIORITY, SHARE_WEIGHT
from fadiff_mapper.search.layer_family import DecisionKind, LayerFamily, decisions_of

DRAWS = {DecisionKind.ORDER: 2, DecisionKind.LAYOUT: 1, DecisionKind.KEEP: 1}
"""How often each kind stands among the decisions that moves draw from: orders twice, because a level has many more
orders than there are choices to keep or bypass. Nothing was measured."""

QUANTITIES = ("edp", "energy", "delay", "last_level_accesses", "share")
"""Metrics, and the share in a network, in the order of the kernel's `Objective::Quantity`."""


def compiled_space(family: LayerFamily, member: int) -> dict[str, Any]:
    """The tables of one member of a family for the compiled search.

    Args:
        family: Layers with the candidates of their decisions.
        member: Number of the member.

    Returns:
        The arguments of the kernel's map space, by name.
    """
    space, factors = family.spaces[member], family.factors
    names = space.problem.dataspace_names()
    return {
        "width": factors.divisor.shape[-1], "divisor": factors.divisor[member], "quotient": factors.quotient[member],
        "product": factors.product[member], "allowed": factors.allowed[member],
        "completable": factors.completable[member], "bound": factors.bound[member].astype(np.int64),
        "movable": [(int(place), int(d)) for place, d in zip(*np.nonzero(factors.movable[member]), strict=True)],
        "orders": [level[member].tolist() for level in family.orders],
        "layouts": [list(zip(level.order[member].tolist(), level.on_y[member].tolist(), strict=True))
                    for level in family.layouts],
        "keep": np.array([[name in level.keep for name in names] for level in space.levels]),
        "open": [(int(level), int(t)) for level, t in family.keeps],
        "decisions": [(int(decision.kind), decision.level, decision.tensor) for decision in decisions_of(family)
                      for _ in range(DRAWS[decision.kind])],
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
        Arguments of the kernel's objective, by name: terms (weight, number of the quantity) of a sum of weighted
        logarithms, and the sums.
    """
    named = ([("share", SHARE_WEIGHT)] if sums is not None
             else list(zip(("energy", "delay"), weights, strict=True)) if weights is not None
             else [(name, PRIORITY ** i) for i, name in enumerate(metrics)])
    return {"terms": [(float(weight), QUANTITIES.index(name)) for name, weight in named], "sums": sums or (1.0, 1.0)}
