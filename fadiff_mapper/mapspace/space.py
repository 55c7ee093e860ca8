"""The map space as a value: which factors, orders, axes and keep/bypass choices are open at each level."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class LoopSpace:
    """The temporal (or spatial) loops of one level.

    The order from the innermost loop outwards is `inner`, then `between` in any order, then `outer`; together they
    name every dimension. Loops of factor 1 may stand anywhere.

    Attributes:
        choices: Allowed factors of each dimension, ascending, each a divisor of the bound; one entry is a fixed
            factor, none is a contradiction.
        inner: The innermost dimensions in order, innermost first.
        between: The dimensions whose order is free.
        outer: The outermost dimensions in order, innermost first.
    """

    choices: dict[str, tuple[int, ...]]
    inner: tuple[str, ...]
    between: tuple[str, ...]
    outer: tuple[str, ...]

    @property
    def key(self) -> Hashable:
        """A value that is equal for equal loops."""
        return tuple(self.choices.items()), self.inner, self.between, self.outer


@dataclass(frozen=True)
class LevelSpace:
    """The open choices of one storage level.

    Attributes:
        name: Name of the level.
        temporal: Its temporal loops.
        spatial: Its spatial loops, on the fan-out below it.
        fanout: Instances along (X, Y) of that fan-out.
        axes: The axes that each dimension's spatial loop may lie on: "X", "Y", "XY", or "" where it must be 1.
        keep: Data spaces that must be kept.
        bypass: Data spaces that must not be kept.
        open: Data spaces with a choice. Each data space is in exactly one of the three.
    """

    name: str
    temporal: LoopSpace
    spatial: LoopSpace
    fanout: tuple[int, int]
    axes: dict[str, str]
    keep: frozenset[str]
    bypass: frozenset[str]
    open: frozenset[str]

    @cached_property
    def key(self) -> Hashable:
        """A value that is equal for levels with equal choices."""
        return (self.name, self.temporal.key, self.spatial.key, self.fanout, tuple(self.axes.items()), self.keep,
                self.bypass, self.open)


@dataclass(frozen=True)
class MapSpace:
    """All mappings of a problem onto an architecture within the constraints.

    Attributes:
        architecture: The architecture.
        problem: The problem.
        constraints: The constraints.
        levels: The choices that these three leave open, per storage level, innermost first.
    """

    architecture: Architecture
    problem: Problem
    constraints: Constraints
    levels: tuple[LevelSpace, ...]
