"""Constraints on the map space, per storage level (values only; `inputs/native/constraints.py` reads them).

They serve as keys: factors by dimension count for equality but not for the hash, which a `dict` does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LoopConstraint:
    """Limits on the temporal (or spatial) loops of one level."""

    fixed: dict[str, int] = field(default_factory=dict, hash=False)  # the factor of a dimension
    minimum: dict[str, int] = field(default_factory=dict, hash=False)  # the least factor of a dimension
    maximum: dict[str, int] = field(default_factory=dict, hash=False)  # the largest factor of a dimension
    inner: tuple[str, ...] = ()  # the innermost loops in order, innermost first
    # The outermost loops in order, innermost first, so that the last entry is the outermost loop. Dimensions named in
    # neither lie between, in any order.
    outer: tuple[str, ...] = ()
    # Leading entries of the full spatial permutation that lie on X, also of factor 1; None: open, or temporal.
    split: int | None = None
    # Data spaces that the level is sent anew on every call (temporal), or sends to each receiver separately (spatial).
    no_reuse: frozenset[str] = frozenset()
    no_link_transfer: frozenset[str] = frozenset()  # data spaces that receivers do not hand on to each other (spatial)
    rmw_first_update: frozenset[str] = frozenset()  # outputs that are read back for their first update too (temporal)
    # Place of each part for messages, such as {"fixed.C": "arch.yaml:31: ...", "order": "..."}.
    sources: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class LevelConstraints:
    """Limits on one storage level."""

    temporal: LoopConstraint = LoopConstraint()  # limits on its temporal loops
    spatial: LoopConstraint = LoopConstraint()  # limits on its spatial loops, which lie on the fan-out below it
    keep: frozenset[str] = frozenset()  # data spaces that it must keep
    bypass: frozenset[str] = frozenset()  # data spaces that it must not keep
    no_coalesce: frozenset[str] = frozenset()  # data spaces that pass through it word by word where it keeps them
    # Place of each part for messages, by "keep.NAME", "bypass.NAME" and "min_parallelism".
    sources: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Constraints:
    """All limits on mappings that the input gives."""

    levels: tuple[LevelConstraints, ...]  # limits per storage level, innermost first
    min_parallelism: float = 0.0  # least share of the arithmetic units that must be used (Timeloop's "utilization")
    # The sections as the native tools read them, by top-level key, for writing them out again.
    native: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
