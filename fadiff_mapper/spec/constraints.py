"""Constraints on the map space, per storage level (values only; `spec/native_constraints.py` reads them)."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LoopConstraint:
    """What one level's temporal (or spatial) loops must satisfy.

    `fixed`, `minimum`, `maximum` bound factors by dimension. `inner` are the innermost loops in order (innermost
    first), `outer` the outermost ones in order (innermost first, so the last entry is the outermost loop);
    dimensions named in neither lie between, in any order. `split` (spatial only): how many leading entries of
    the permutation go to X. `sources` says where each part was written, for messages.
    """

    fixed: dict[str, int] = field(default_factory=dict)
    minimum: dict[str, int] = field(default_factory=dict)
    maximum: dict[str, int] = field(default_factory=dict)
    inner: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    split: int | None = None
    no_reuse: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict, compare=False)
    """E.g. {"fixed.C": "arch.yaml:31: ...", "order": "...", "split": "..."}"""


@dataclass(frozen=True)
class LevelConstraints:
    temporal: LoopConstraint = LoopConstraint()
    spatial: LoopConstraint = LoopConstraint()
    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Constraints:
    """One entry per storage level, innermost first; `min_parallelism` is the least share of arithmetic
    instances that must be used (Timeloop's "utilization")."""

    levels: tuple[LevelConstraints, ...]
    min_parallelism: float = 0.0
    native: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
    """The constraint sections as the native tools read them, by top-level key, for writing them out again."""
