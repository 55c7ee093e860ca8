"""Where groups begin and end: the best cover of every chain by groups and single layers, for the whole network.

Problem. Groups overlap, and the EDP of a network is a product of two sums, so that no group is good or bad by itself.

Method. At fixed prices of energy and cycles (`layers.edp_prices`: the tangent of the metric at the present plan) the
metric is a sum over parts, and the cheapest cover of a chain follows by dynamic programming along it. Prices and covers
are computed in turn until the plan is not better any more: each round is exact for its prices, the whole is a descent
that never gets worse than the layers one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fadiff_mapper.network.layers.edp_prices import NOTHING, OperatingPoint, metric_price, metric_value, summed

Plan = TypeVar("Plan")


@dataclass(frozen=True)
class CoverPart(Generic[Plan]):
    """Some adjacent layers of a chain, run as one group.

    Attributes:
        nodes: Their names, in order.
        point: Energy and cycles of the group, all repeats together.
        plan: The group itself; the partition only passes it on.
    """

    nodes: tuple[str, ...]
    point: OperatingPoint
    plan: Plan


def partition(chains: Sequence[tuple[str, ...]], alone: Mapping[str, OperatingPoint], parts: Sequence[CoverPart[Plan]],
              metric: str = "edp", besides: OperatingPoint = NOTHING) -> list[CoverPart[Plan]]:
    """Picks the groups that make the metric of the whole network smallest.

    Args:
        chains: Names of the layers of each chain; every layer of the network is in one.
        alone: Energy and cycles of each layer by itself, all repeats together.
        parts: Groups to choose from; several may cover the same layers.
        metric: "edp", "energy" or "delay".
        besides: Energy and cycles of the network that no group changes.

    Returns:
        Groups that do not overlap, none where no group helps.
    """
    by_end: dict[str, list[CoverPart[Plan]]] = {}
    for part in parts:
        by_end.setdefault(part.nodes[-1], []).append(part)
    best: list[CoverPart[Plan]] = []
    total = summed([*alone.values(), besides])
    while True:
        cover = [part for chain in chains for part in _cover(chain, alone, by_end, total, metric)]
        after = summed([_total(alone, cover), besides])
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):    # no gain beyond rounding
            return best
        best, total = cover, after


def _total(alone: Mapping[str, OperatingPoint], groups: Sequence[CoverPart[Plan]]) -> OperatingPoint:
    """Energy and cycles of the network with some groups."""
    fused = {name for part in groups for name in part.nodes}
    return summed([*(point for name, point in alone.items() if name not in fused), *(part.point for part in groups)])


def _cover(chain: tuple[str, ...], alone: Mapping[str, OperatingPoint], by_end: Mapping[str, Sequence[CoverPart[Plan]]],
           total: OperatingPoint, metric: str) -> list[CoverPart[Plan]]:
    """The cheapest cover of one chain at given prices: cost[n] is that of its first n layers."""
    cost, groups = [0.0], [list[CoverPart[Plan]]()]
    for stop, name in enumerate(chain, 1):
        options = [(cost[-1] + metric_price(alone[name], total, metric), groups[-1])]
        for part in by_end.get(name, ()):
            start = stop - len(part.nodes)
            if start >= 0 and chain[start:stop] == part.nodes:
                options.append((cost[start] + metric_price(part.point, total, metric), [*groups[start], part]))
        price, picked = min(options, key=lambda option: option[0])
        cost.append(price)
        groups.append(picked)
    return groups[-1]
