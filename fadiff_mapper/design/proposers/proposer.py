"""The one interface of all that proposes designs."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.evaluation.design_result import DesignOutcome
from fadiff_mapper.design.space import DesignSpace, Point

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


MOST_DESIGNS = 1_000_000
"""Designs of a space that is enumerated: a limit for safety; nothing was measured."""

DRAWS = 64
"""Draws for each design wanted, after which what is left of a small space is enumerated. Not measured."""


def all_points(space: DesignSpace) -> Iterator[Point]:
    """Every point of a space, the last parameter fastest."""
    return itertools.product(*(range(len(parameter.values)) for parameter in space.parameters))


class ExhaustiveDesigns:
    """Proposes every design of a small space, in order.

    Attributes:
        points: The points that are left.
        idle_rounds: See `Proposer`.
    """

    idle_rounds = IDLE_ROUNDS

    def __init__(self, space: DesignSpace) -> None:
        """Raises FadiffError for a space that is too large."""
        if space.size > MOST_DESIGNS:
            raise FadiffError(f"method: exhaustive would evaluate {space.size:,} designs; accepted: spaces of at most "
                              f"{MOST_DESIGNS:,}, or another method")
        self.points = all_points(space)

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`; the archive plays no role."""
        return list(itertools.islice(self.points, count))


class RandomDesigns:
    """Proposes designs drawn evenly, each once.

    Attributes:
        space: The space.
        rng: Source of the draws.
        proposed: All points so far.
        seen: Outcomes of the archive whose points are among them.
        idle_rounds: See `Proposer`.
    """

    idle_rounds = IDLE_ROUNDS

    def __init__(self, space: DesignSpace, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng(seed)
        self.proposed: set[Point] = set()
        self.seen = 0

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`; of the archive only that its designs are not proposed again plays a role."""
        self.proposed.update(outcome.point for outcome in archive[self.seen:])
        self.seen = len(archive)
        sizes = [len(parameter.values) for parameter in self.space.parameters]
        points: list[Point] = []
        for _ in range(DRAWS * count):
            if len(points) == count:
                return points
            point = tuple(int(index) for index in self.rng.integers(0, sizes))
            if point not in self.proposed:
                self.proposed.add(point)
                points.append(point)
        return points + self._left(count - len(points))

    def _left(self, count: int) -> list[Point]:
        """Some of the last points of a space that has been drawn nearly empty."""
        if self.space.size > MOST_DESIGNS:
            return []
        left = [point for point in all_points(self.space) if point not in self.proposed]
        order = self.rng.permutation(len(left))[:count]
        points = [left[index] for index in order]
        self.proposed.update(points)
        return points
