"""Fused groups for a network: candidates ranked by their estimate, the best of them mapped and evaluated exactly."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.fusion.groups.group_cost import checked_cost
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, metric_price, summed
from fadiff_mapper.network.plan.checkpoint import Checkpoint, batch_key
from fadiff_mapper.network.plan.map_tiles import with_mappings
from fadiff_mapper.network.tilings.candidates import candidates, distinct
from fadiff_mapper.network.tilings.estimate import LayerBase
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.options import SearchOptions

LIGHT = SearchOptions(gradient=False, rounds_least=1, chains=16, rounds=24, neighbours_tried=3, chains_agreeing=8,
                      rounds_further=0)
"""For the tiles of candidates."""


@dataclass(frozen=True)
class EvaluatedGroup:
    """A legal group with its mappings and exact cost, all repeats together."""

    group: FusedGroup
    cost: FusedCost

    @property
    def point(self) -> OperatingPoint:
        return OperatingPoint(self.cost.energy_pj, self.cost.cycles)


def enumerated(hardware: Hardware, distinct: Mapping[Hashable, Segment], bases: Mapping[str, LayerBase],
               total: OperatingPoint,
               metric: str, stopped: Callable[[], bool]) -> dict[Hashable, list[Candidate]]:
    """For every distinct segment its candidates that promise a gain."""
    found: dict[Hashable, list[Candidate]] = {}
    for key, segment in distinct.items():
        if stopped():
            break
        own = [bases[name] for name in segment.nodes]
        found[key] = candidates(hardware, segment, own, partial(metric_price, total=total, metric=metric),
                                metric_price(alone(segment, own), total, metric))
    return found


def ranked(found: Sequence[Candidate], segment: Segment, bases: Mapping[str, LayerBase], total: OperatingPoint,
           metric: str) -> list[Candidate]:
    """Different candidates of one segment that promise a gain, the best estimate first."""
    limit = metric_price(alone(segment, [bases[name] for name in segment.nodes]), total, metric)
    scored = [(round(float(metric_price(one.estimate, total, metric)), 9), one.group.steps, place, one)
              for place, one in enumerate(found)]
    return distinct([one for price, _, _, one in sorted(scored, key=lambda item: item[:3]) if price < limit])


def alone(segment: Segment, bases: Sequence[LayerBase]) -> OperatingPoint:
    """The layers of a segment one by one."""
    total = summed([base.whole for base in bases])
    return OperatingPoint(segment.repeat * total.energy_pj, segment.repeat * total.cycles)


def evaluated(hardware: Hardware, chosen: Sequence[Candidate], results: Mapping[str, MappedLayer],
              total: OperatingPoint,
              options: SearchOptions, stopped: Callable[[], bool], saved: Checkpoint) -> list[EvaluatedGroup | None]:
    """The candidates with mappings for all their tiles and their exact cost; None for what turns out not to run.

    Mappings that `saved` knows are not searched again.
    """
    weights = []
    for one in chosen:
        energy, cycles = one.estimate.energy_pj / total.energy_pj, one.estimate.cycles / total.cycles
        weights.append((round(2 * energy / (energy + cycles), 1), 2 - round(2 * energy / (energy + cycles), 1)))
    groups = [one.group for one in chosen]
    batch = batch_key(groups, weights, options)
    mapped = saved.mapped(batch, groups)
    if mapped is None:
        mapped = with_mappings(hardware, groups,
                               [[results[name].spec for name in one.segment.nodes] for one in chosen], weights, options,
                               stopped)
        if not stopped():
            saved.keep_mapped(batch, mapped)
    costs = [None if group is None else checked_cost(hardware, group)[1] for group in mapped]
    return [None if group is None or cost is None else EvaluatedGroup(group, cost)
            for group, cost in zip(mapped, costs, strict=True)]
