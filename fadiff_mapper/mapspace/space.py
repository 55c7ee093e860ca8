"""The map space as a value: which factors, orders, axes and keep/bypass choices are open at each level."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class LoopSpace:
    """The temporal (or spatial) loops of one level.

    `choices` maps every dimension to its allowed factors, ascending, each a divisor of the bound; one entry is a
    fixed factor, none is a contradiction. The order from the innermost loop outwards is `inner`, then `between`
    in any order, then `outer`; together they name every dimension. Loops of factor 1 may stand anywhere.
    """

    choices: dict[str, tuple[int, ...]]
    inner: tuple[str, ...]
    between: tuple[str, ...]
    outer: tuple[str, ...]


@dataclass(frozen=True)
class LevelSpace:
    """One storage level. `axes` maps each dimension to the axes of the fan-out below this level that its spatial
    loop may lie on: "X", "Y", "XY", or "" where it must be 1. Each data space is in one of `keep` (must be
    kept), `bypass` (must not) and `open`."""

    name: str
    temporal: LoopSpace
    spatial: LoopSpace
    fanout: tuple[int, int]
    axes: dict[str, str]
    keep: frozenset[str]
    bypass: frozenset[str]
    open: frozenset[str]


@dataclass(frozen=True)
class MapSpace:
    """One `LevelSpace` per storage level, innermost first, and what they were derived from."""

    architecture: Architecture
    problem: Problem
    constraints: Constraints
    levels: tuple[LevelSpace, ...]
