"""The decisions of a mapping besides its factors: loop order, layout of spatial loops, keep or bypass."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from fadiff_mapper.relaxation.layer_batch import LayerFamily


class DecisionKind(IntEnum):
    """The kinds of decisions without a gradient; whole numbers, because compiled code compares them.

    Attributes:
        ORDER: The order of one level's temporal loops.
        LAYOUT: The order of one level's spatial loops and the axis, X or Y, of each.
        KEEP: Whether one level keeps or bypasses one data space.
    """

    ORDER = 0
    LAYOUT = 1
    KEEP = 2


@dataclass(frozen=True)
class OpenDecision:
    """One decision with more than one candidate.

    Attributes:
        kind: The kind of decision.
        level: The storage level whose decision it is, counted from the innermost.
        tensor: The data space, for `DecisionKind.KEEP` alone.
    """

    kind: DecisionKind
    level: int
    tensor: int = 0


def decisions_of(family: LayerFamily, orders: bool = True) -> list[OpenDecision]:
    """The open decisions of a family: orders first, then layouts, then keep or bypass, each by level.

    Args:
        family: The layers that are searched side by side; all share their open decisions.
        orders: Whether loop orders may change (`SearchOptions.orders`).
    """
    ordered = [OpenDecision(DecisionKind.ORDER, level) for level, candidates in enumerate(family.orders)
               if candidates.shape[1] > 1 and orders]
    laid_out = [OpenDecision(DecisionKind.LAYOUT, level) for level, candidates in enumerate(family.layouts)
                if candidates.order.shape[1] > 1]
    return ordered + laid_out + [OpenDecision(DecisionKind.KEEP, *pair) for pair in family.keeps]
