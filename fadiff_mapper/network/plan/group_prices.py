"""The price of a group in its network: the tangent of the network's metric at the plan so far."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from fadiff_mapper.network.layers.edp_prices import NetworkPrice
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.run_state import PlanningRun

WORTH = 1e-3
"""The part of a price that a step must bring for another one. A limit of time, not measured."""


def price_of(run: PlanningRun) -> NetworkPrice:
    """The price of parts of the network."""
    return NetworkPrice(run.total, run.options.metric)


def least_price(price: NetworkPrice, known: Sequence[EvaluatedGroup]) -> float:
    """The lowest price of some evaluated groups; infinite where there is none."""
    return min((price(group.point) for group in known), default=inf)


def best_of(price: NetworkPrice, known: Sequence[EvaluatedGroup]) -> EvaluatedGroup:
    """The group with the lowest price."""
    return min(known, key=lambda group: price(group.point))
