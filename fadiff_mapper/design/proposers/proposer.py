"""The one interface of all that proposes designs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fadiff_mapper.design.evaluation.design_result import DesignOutcome

IDLE_ROUNDS = 200
"""Idle rounds of a proposer that does not judge what it proposes. Set by hand."""


class Proposer(Protocol):
    """Proposes designs, round by round; knows of a design's worth from the archive alone.

    Attributes:
        idle_rounds: Rounds one after the other without a design to map, after which a search ends: all that is
            proposed was then refused or left out for its lower bound.
    """

    idle_rounds: int

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[tuple[int, ...]]:
        """The designs of the next round.

        Args:
            count: Designs wanted at most.
            archive: The outcomes of all earlier rounds in the order of their proposal, infeasible and pruned ones
                among them, each design once.

        Returns:
            Up to `count` points, none of them twice and none of the archive; fewer or none where no more are known.
        """
