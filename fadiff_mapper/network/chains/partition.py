"""Where groups begin and end: the best cover of every chain by groups and single layers, for the whole network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from fadiff_mapper.network.layers.edp_prices import OperatingPoint, metric_price, metric_value, summed

Plan = TypeVar("Plan")


@dataclass(frozen=True)
class CoverPart(Generic[Plan]):
    """One way to run some adjacent layers of a chain as a group."""

    nodes: tuple[str, ...]
    point: OperatingPoint
    plan: Plan


def partition(chains: Sequence[tuple[str, ...]], alone: Mapping[str, OperatingPoint], ways: Sequence[CoverPart[Plan]],
              metric: str = "edp") -> list[CoverPart[Plan]]:
    """The groups that make the metric of the whole network smallest.

    Dynamic programming along each chain at the prices of the present plan, again with the prices of the plan that
    comes out, until it is not better. Without a group that helps, none is taken.
    """
    by_end: dict[str, list[CoverPart[Plan]]] = {}
    for way in ways:
        by_end.setdefault(way.nodes[-1], []).append(way)
    best: list[CoverPart[Plan]] = []
    total = summed(list(alone.values()))
    while True:
        found = [way for chain in chains for way in _cover(chain, alone, by_end, total, metric)]
        after = _total(alone, found)
        if metric_value(after, metric) >= metric_value(total, metric) * (1 - 1e-12):
            return best
        best, total = found, after


def _total(alone: Mapping[str, OperatingPoint], groups: Sequence[CoverPart[Plan]]) -> OperatingPoint:
    fused = {name for way in groups for name in way.nodes}
    return summed([*(point for name, point in alone.items() if name not in fused), *(way.point for way in groups)])


def _cover(chain: tuple[str, ...], alone: Mapping[str, OperatingPoint], by_end: Mapping[str, Sequence[CoverPart[Plan]]],
           total: OperatingPoint, metric: str) -> list[CoverPart[Plan]]:
    """The cheapest cover of one chain at given prices."""
    cost, groups = [0.0], [list[CoverPart[Plan]]()]
    for stop, name in enumerate(chain, 1):
        options = [(cost[-1] + metric_price(alone[name], total, metric), groups[-1])]
        for way in by_end.get(name, ()):
            start = stop - len(way.nodes)
            if start >= 0 and chain[start:stop] == way.nodes:
                options.append((cost[start] + metric_price(way.point, total, metric), [*groups[start], way]))
        price, picked = min(options, key=lambda option: option[0])
        cost.append(price)
        groups.append(picked)
    return groups[-1]
