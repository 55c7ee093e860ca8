"""Candidates for fused groups, ranked by their estimate, and the best of them mapped and evaluated exactly.

Everything up to here is estimates; from here on costs are exact (`fusion.group_cost`), and groups that turn out
not to run (`group_violations`) are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from fadiff_mapper.fusion import FusedCost, FusedGroup, Hardware
from fadiff_mapper.fusion.group_cost import checked_costs
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import NOTHING, NetworkPrice, OperatingPoint, summed
from fadiff_mapper.network.plan.checkpoint import Checkpoint, batch_key
from fadiff_mapper.network.plan.map_tiles import TileMemory, with_mappings
from fadiff_mapper.network.plan.strategy_search import BestStrategies, TileEffort
from fadiff_mapper.network.tilings.candidates import candidates, distinct
from fadiff_mapper.network.tilings.compiled_segment import Translated
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.layer_estimate import LayerBase, group_bases
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.options import EFFORTS, SearchOptions

LIGHT = TileEffort(SearchOptions(effort="light"))
"""Effort for the tiles of candidates, most of which end up in no plan."""

THOROUGH = replace(LIGHT, deep=SearchOptions(effort=replace(EFFORTS["light"], chains=40, rounds=60, neighbours=12,
                                                            chains_agreeing=8)))
"""Effort for the tiles of groups of the plan that fall short of their estimate: the hardest tile decides a plan."""


COMPARING = replace(THOROUGH, known_too=False)
"""Effort for the tiles of candidates that fall short of their estimate: thorough for layers whose strategies were never
compared.

Searched thoroughly once more, 14 of 15 groups of MobileNetV2 on `gemmini_large` were at most 0.5 % cheaper, where 4 to
31 % were missing; that took half of the whole run and changed no plan. In the GPT-3 block on `gemmini_small`, whose
layers are met for the first time then, it brings 17 % and decides the plan.
"""


@dataclass(frozen=True)
class EvaluatedGroup:
    """A legal group with its mappings.

    Attributes:
        group: The group.
        cost: Its exact cost, all repeats together.
        promised: Its estimate before it was mapped.
        left_out: Reads of residual operands from the outermost level that the network does without.
    """

    group: FusedGroup
    cost: FusedCost
    promised: OperatingPoint
    left_out: OperatingPoint = NOTHING

    @cached_property
    def point(self) -> OperatingPoint:
        """Energy and cycles, less those that the rest of the network does without."""
        return OperatingPoint(self.cost.energy_pj - self.left_out.energy_pj, self.cost.cycles - self.left_out.cycles)


def enumerated(hardware: Hardware, segments: Mapping[Hashable, Segment], bases: Mapping[str, LayerBase],
               total: OperatingPoint, metric: str,
               stopped: Callable[[], bool]) -> dict[Hashable, list[Candidate]]:
    """Enumerates the candidates of every distinct segment that promise a gain.

    Args:
        hardware: The design.
        segments: A segment for each key.
        bases: Each layer by itself, as estimates need it, by name.
        total: Energy and cycles of the network, at whose prices a gain counts.
        metric: "edp", "energy" or "delay".
        stopped: Asked before every segment but the first; once true, the others are left out.
    """
    proposed: dict[Hashable, list[Candidate]] = {}
    known: Translated = {}
    price = NetworkPrice(total, metric)
    for key, segment in segments.items():
        if stopped() and proposed:
            break
        own = group_bases(segment, bases)
        proposed[key] = candidates(hardware, segment, own, price, price(alone(segment, own)), known)
    return proposed


def ranked(proposed: Sequence[Candidate], segment: Segment, bases: Mapping[str, LayerBase], total: OperatingPoint,
           metric: str) -> list[Candidate]:
    """Ranks the different candidates of one segment that promise a gain.

    Args:
        proposed: Candidates of the segment.
        segment: The segment.
        bases: Each layer by itself, as estimates need it, by name.
        total: Energy and cycles of the network.
        metric: "edp", "energy" or "delay".

    Returns:
        The best estimate first; of equal ones that with fewer steps, then the one proposed first.
    """
    price = NetworkPrice(total, metric)
    limit = price(alone(segment, group_bases(segment, bases)))
    # Prices are rounded so that the order does not depend on the last bits of an estimate.
    scored = sorted((round(price(candidate.estimate), 9), candidate.group.steps, number)
                    for number, candidate in enumerate(proposed))
    return distinct([proposed[number] for least, _, number in scored if least < limit])


def alone(segment: Segment, bases: Sequence[LayerBase]) -> OperatingPoint:
    """Adds up the layers of a segment one by one, all repeats together.

    Args:
        segment: The segment.
        bases: Its layers by themselves.
    """
    total = summed([base.whole for base in bases])
    return OperatingPoint(segment.repeat * total.energy_pj, segment.repeat * total.cycles)


def evaluated(hardware: Hardware, chosen: Sequence[Candidate], results: Mapping[str, MappedLayer],
              price: NetworkPrice, effort: TileEffort, stopped: Callable[[], bool], saved: Checkpoint,
              known: BestStrategies, memory: TileMemory | None = None) -> list[EvaluatedGroup | None]:
    """Maps all tiles of some candidates and evaluates them exactly.

    Every tile minimises its share in the network. With products of its own energy and cycles, whose exponents followed
    the shares of the group, MobileNetV2 saved 56.4 instead of 56.8 % of its EDP on `eyeriss_like`, 69.7 instead of 70.0
    on `gemmini_large`, MobileNetV1 29.6 instead of 29.8 on `gemmini_small`; of 23 pairs of network and design 10 saved
    less, none more (23 November 2026).

    Args:
        hardware: The design.
        chosen: The candidates.
        results: The best mapping of each layer by itself, by name, for its constraints.
        price: The price of parts of the network.
        effort: Effort of the searches of tiles.
        stopped: Asked again and again; once true, the searches end with what they have.
        saved: Checkpoint; mappings that it knows are not searched again, others are added to it.
        known: Strategies of tiles to begin with; those that a thorough search finds best are added.
        memory: Searches of tiles made before; new ones are added. None: there are none.

    Returns:
        For every candidate the group with mappings and cost, or None if it cannot run.
    """
    groups = [candidate.group for candidate in chosen]
    batch = batch_key(groups, price.sums, effort)
    mapped = saved.mapped(batch, groups)
    if mapped is None:
        specs = [[results[name].spec for name in candidate.segment.nodes] for candidate in chosen]
        mapped = with_mappings(hardware, groups, specs, price.sums, effort, stopped, known, memory)
        if not stopped():
            saved.keep_mapped(batch, mapped, known)
    known.update(saved.strategies(batch))
    evaluations = memory.evaluations if memory else None
    costs = iter(checked_costs(hardware, [group for group in mapped if group is not None], evaluations))
    return [None if group is None or (cost := next(costs)[1]) is None
            else EvaluatedGroup(group, cost, candidate.estimate, candidate.left_out)
            for candidate, group in zip(chosen, mapped, strict=True)]
