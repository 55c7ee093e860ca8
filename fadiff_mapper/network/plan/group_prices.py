"""The price of a group in its network: the tangent of the network's metric at the plan so far."""

from __future__ import annotations

from fadiff_mapper.network.layers.edp_prices import NetworkPrice
from fadiff_mapper.network.plan.groups import EvaluatedGroup
from fadiff_mapper.network.plan.run_state import PlanningRun

WORTH = 1e-3
"""The part of a price that a step must bring for another one. A limit of time, not measured."""


def price_of(run: PlanningRun) -> NetworkPrice:
    """The price of parts of the network."""
    return NetworkPrice(run.total, run.options.metric)


def price_of_group(run: PlanningRun, group: EvaluatedGroup) -> float:
    """The price of an evaluated group."""
    return price_of(run)(group.point)


def best_of(run: PlanningRun, known: list[EvaluatedGroup]) -> EvaluatedGroup:
    """The group with the lowest price."""
    return min(known, key=lambda group: price_of_group(run, group))
