"""Enumeration in rounds: the candidates of as many segments as a part of the time left allows.

Problem. Enumerating the candidates of all segments of a large network can take longer than a time limit; then none of
them would ever be mapped.

Method. Each round lists segments for a part of the time that is left, and planning maps what looks best before the
next. Segments are taken in an order that spreads evenly over all places and lengths, so that those of any round cover
the network. Without a limit there is one round, and the order plays no role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.plan.groups import enumerated
from fadiff_mapper.network.plan.planning_board import PlanningBoard
from fadiff_mapper.network.tilings.estimate_sheet import Candidate

LISTING = 0.4
"""The part of the time left in which segments are enumerated before their candidates are mapped, and then again.

So that a limit which enumeration alone would fill has a plan. Set by hand, not measured.
"""

GOLDEN = (5 ** 0.5 - 1) / 2
"""Multiples of it, modulo 1, spread evenly however many there are."""


def unlisted(board: PlanningBoard) -> dict[Any, Segment]:
    """Finds the distinct segments whose candidates are yet to be enumerated.

    Args:
        board: All segments.

    Returns:
        Segments by their key, those of all places and lengths mixed; none once time is over.
    """
    run = board.run
    if not run.options.enumeration or run.clock.over():
        return {}
    mixed = sorted(enumerate(board.known.items()), key=lambda item: item[0] * GOLDEN % 1)
    return {key: facts.segment for _, (key, facts) in mixed if not facts.listed}


def listed_candidates(board: PlanningBoard, left: Mapping[Any, Segment]) -> dict[Any, list[Candidate]]:
    """Enumerates the candidates of as many segments as a part of the time left allows, of one at least, and notes them.

    Args:
        board: All segments.
        left: Segments that are yet to be enumerated.

    Returns:
        Candidates by the key of their segment.
    """
    run = board.run
    proposed = enumerated(run.hardware, left, run.bases, run.total, run.options.metric, run.clock.over_in(LISTING))
    for key in proposed:
        board.known[key].listed = True
    return proposed
