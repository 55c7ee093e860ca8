"""Enumeration in rounds: the candidates of as many segments as a part of the time left allows.

Problem. Enumerating the candidates of all segments of a large network can take longer than a time limit; then none of
them would ever be mapped.

Method. Each round lists segments for a part of the time that is left, and planning maps what looks best before the
next. Segments are taken in an order that spreads evenly over all places and lengths, so that those of any round cover
the network. Without a limit the first enumeration is one round; the second, at the plan's prices, goes in parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fadiff_mapper.network.chains.partition import CoverPart
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.plan.group_prices import least_price, price_of
from fadiff_mapper.network.plan.groups import EvaluatedGroup, enumerated
from fadiff_mapper.network.plan.planning_board import PlanningBoard, PlanningFacts
from fadiff_mapper.network.tilings.estimate_sheet import Candidate

LISTING = 0.4
"""The part of the time left in which segments are enumerated before their candidates are mapped, and then again.

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
    if not run.options.enumeration or run.over():
        return {}
    return {key: board.known[key].segment for key in _mixed(board.known) if not board.known[key].listed}


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
