"""Which segments are enumerated, in which order, and which are left out.

Problem. A network has ten times as many segments as layers, and long ones are rarely worth a group. Enumerating the
candidates of all of them can take longer than a time limit; then none of them would ever be mapped.

Method. Without a limit segments grow: a long one is enumerated only where it extends one whose best candidate promises
more than the same layers divided. With a limit each round lists segments for a part of the time that is left, and
planning maps what looks best before the next; segments are taken in an order that spreads evenly over all places and
lengths, so that those of any round cover the network. The second enumeration, at the plan's prices, goes in parts.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import Any

from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.plan.group_prices import least_price, price_of
from fadiff_mapper.network.plan.groups import EvaluatedGroup, enumerated
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.tile_nests import LOOPED

LISTING = 0.4
"""The part of the time left in which segments are listed; in which their candidates are enumerated before these are
mapped; and then again.

So that a limit which enumeration alone would fill has a plan. Set by hand, not measured.
"""

DEARER = 0.2
"""The part by which the best candidate of a segment, or its best group, may be dearer than the plan on the same layers
for the segment to be enumerated again at other prices.

With 0.2 MobileNetV2 saves on `eyeriss_like` what it saves where all segments with a candidate are enumerated again
(56.8 % of its EDP, 103 instead of 171 segments of 675), with 0.15 it saves 55.9 % (23 November 2026).
"""

GOLDEN = (5 ** 0.5 - 1) / 2
"""Multiples of it, modulo 1, spread evenly however many there are."""


def near_plan(board: PlanningBoard, plan: Sequence[CoverPart[EvaluatedGroup]]) -> list[PlanningFacts]:
    """Finds the distinct segments with a candidate or a group near the plan, at the prices of the run as they are now.

    Args:
        board: All segments.
        plan: The plan so far.

    Returns:
        Segments whose best candidate or group is dearer than the plan on the same layers by less than `DEARER`, those
        of all places and lengths mixed.
    """
    run = board.run
    price = price_of(run)
    spent = {name: price(point) for name, point in run.alone.items()}
    for part in plan:
        rate = price(part.point) / sum(spent[name] for name in part.nodes)
        spent |= {name: rate * spent[name] for name in part.nodes}
    near = set()
    for segment, facts in board.every:
        best = min([least_price(price, facts.exact), *(price(candidate.estimate) for candidate in facts.waiting)])
        if best < (1 + DEARER) * sum(spent[name] for name in segment.nodes):
            near.add(segment.key)
    return [board.known[key] for key in _mixed([key for key in board.known if key in near])]


def unlisted(board: PlanningBoard) -> dict[Any, Segment]:
    """Finds the distinct segments whose candidates are yet to be enumerated.

    Args:
        board: All segments.

    Returns:
        Segments by their key, those of all places and lengths mixed; none once time is over.
    """
    run = board.run
    if not run.enumerates or run.over():
        return {}
    return {key: board.known[key].segment for key in _mixed(board.known) if not board.known[key].listed}


def grown_candidates(board: PlanningBoard) -> dict[Any, list[Candidate]]:
    """Enumerates the candidates of segments from short to long, and notes that all segments are done with.

    Args:
        board: All segments, none of them enumerated yet.

    Returns:
        Candidates by the key of their segment. Segments of more than `LOOPED` layers, with one loop at most, are left
        out where their best candidate without the first layer, and that without the last one, is dearer than the best
        division of the same layers into candidates and single layers. Of 2,880 segments of 200 distinct layers 630 are
        left; 25 pairs of network and design save what they save with all of them, MobileNetV2 on `gemmini_large` 70.3
        instead of 70.0 % of its EDP (23 November 2026).
    """
    run, proposed = board.run, dict[Any, list[Candidate]]()
    price = price_of(run)
    prices: dict[tuple[str, ...], float] = {(name,): price(point) for name, point in run.alone.items()}
    worthwhile = set[tuple[str, ...]]()
    by_length: dict[int, list[Segment]] = {}
    for segment in board.segments:
        by_length.setdefault(len(segment.nodes), []).append(segment)
    for length, same in sorted(by_length.items()):
        if run.over():
            break
        grown: dict[Hashable, Segment] = {
            segment.key: board.known[segment.key].segment for segment in same
            if length <= LOOPED or {segment.nodes[1:], segment.nodes[:-1]} & worthwhile}
        proposed |= enumerated(run.hardware, grown, run.bases, run.total, run.options.metric, run.over)
        promised = {segment.nodes: price(found[0].estimate) for segment in same
                    if (found := proposed.get(segment.key))}
        worthwhile |= {nodes for nodes, together in promised.items() if together < _divided(nodes, prices)}
        prices |= promised
    for facts in board.known.values():
        facts.listed = True
    return proposed


def _divided(nodes: tuple[str, ...], prices: Mapping[tuple[str, ...], float]) -> float:
    """The least price of some layers in a row, divided into single ones and shorter rows that have a price."""
    cost = [0.0]
    for stop in range(1, len(nodes) + 1):
        cost.append(min(cost[start] + prices.get(nodes[start:stop], inf) for start in range(stop)))
    return cost[-1]


def listed_candidates(board: PlanningBoard, left: Mapping[Any, Segment]) -> dict[Any, list[Candidate]]:
    """Enumerates the candidates of as many segments as a part of the time left allows, of one at least, and notes them.

    Args:
        board: All segments.
        left: Segments that are yet to be enumerated.

    Returns:
        Candidates by the key of their segment.
    """
    run = board.run
    proposed = enumerated(run.hardware, left, run.bases, run.total, run.options.metric, run.over_in(LISTING))
    for key in proposed:
        board.known[key].listed = True
    return proposed


def _mixed(keys: Iterable[Any]) -> list[Any]:
    """Keys in an order of which every part is spread evenly over all of them."""
    return [key for _, key in sorted(enumerate(keys), key=lambda item: item[0] * GOLDEN % 1)]
