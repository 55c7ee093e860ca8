"""Where groups begin and end: the best cover of every chain by groups and single layers, for the whole network.

Problem. Groups overlap, and the EDP of a network is a product of two sums, so that no group is good or bad by itself.

Method. At fixed prices of energy and cycles (`fusion.prices`: the tangent of the metric at the present plan) the metric
is a sum over parts, and the cheapest cover of a chain follows by dynamic programming along it. Prices and covers are
computed in turn until the plan is not better any more: each round is exact for its prices, the whole is a descent that
never gets worse than the layers one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fadiff_mapper.fusion.prices import NOTHING, NetworkPrice, OperatingPoint, metric_value, summed

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


def covered_total(alone: Mapping[str, OperatingPoint], groups: Sequence[CoverPart[Plan]],
                  besides: OperatingPoint) -> OperatingPoint:
    """Energy and cycles of a network with groups that do not overlap, the other layers by themselves, and the rest."""
    fused = {name for part in groups for name in part.nodes}
    return summed([*(point for name, point in alone.items() if name not in fused), *(part.point for part in groups),
                   besides])


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
    # for every layer of a chain the groups that end with it, each with the number of layers in front of its first one
    places = [(chain, [[(stop - len(part.nodes), part) for part in by_end.get(name, ())
                        if len(part.nodes) <= stop and chain[stop - len(part.nodes):stop] == part.nodes]
                       for stop, name in enumerate(chain, 1)]) for chain in chains]
    best: list[CoverPart[Plan]] = []
    total = covered_total(alone, (), besides)
    while True:
        price = NetworkPrice(total, metric)
        cover = [part for chain, ending in places for part in _cover(chain, alone, ending, price)]
        after = covered_total(alone, cover, besides)
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):    # no gain beyond rounding
            return best
        best, total = cover, after


def _cover(chain: tuple[str, ...], alone: Mapping[str, OperatingPoint],
           ending: Sequence[Sequence[tuple[int, CoverPart[Plan]]]], price: NetworkPrice) -> list[CoverPart[Plan]]:
    """The cheapest cover of one chain at given prices: cost[n] is that of its first n layers."""
    cost, last = [0.0], list[tuple[int, CoverPart[Plan]] | None]()
    for name, groups in zip(chain, ending, strict=True):
        least, picked = cost[-1] + price(alone[name]), None
        for start, part in groups:
            if (own := cost[start] + price(part.point)) < least:
                least, picked = own, (start, part)
        cost.append(least)
        last.append(picked)
    cover, stop = list[CoverPart[Plan]](), len(chain)
    while stop:
        group = last[stop - 1]
        stop = stop - 1 if group is None else group[0]
        cover += [] if group is None else [group[1]]
    return cover[::-1]
