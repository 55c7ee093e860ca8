"""Constraints on the map space, per storage level (values only; `inputs/native/constraints.py` reads them).

They serve as keys: factors by dimension count for equality but not for the hash, which a `dict` does not have.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LoopConstraint:
    """Limits on the temporal (or spatial) loops of one level.

    Attributes:
        fixed: The factor of a dimension.
        minimum: The least factor of a dimension.
        maximum: The largest factor of a dimension.
        inner: The innermost loops in order, innermost first.
        outer: The outermost loops in order, innermost first, so that the last entry is the outermost loop.
            Dimensions named in neither lie between, in any order.
        split: Leading entries of the full spatial permutation that lie on X, those of factor 1 counted; None leaves
            it open. Temporal loops have none.
        no_reuse: Data spaces that the level is sent anew on every call (temporal), or that it sends to each receiver
            separately (spatial).
        no_link_transfer: Data spaces that the receivers do not hand on to each other (spatial).
        rmw_first_update: Outputs that the level reads back for their first update too (temporal).
        sources: Place of each part for messages, such as {"fixed.C": "arch.yaml:31: ...", "order": "..."}.
    """

    fixed: dict[str, int] = field(default_factory=dict, hash=False)
    minimum: dict[str, int] = field(default_factory=dict, hash=False)
    maximum: dict[str, int] = field(default_factory=dict, hash=False)
    inner: tuple[str, ...] = ()
    outer: tuple[str, ...] = ()
    split: int | None = None
    no_reuse: frozenset[str] = frozenset()
    no_link_transfer: frozenset[str] = frozenset()
    rmw_first_update: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class LevelConstraints:
    """Limits on one storage level.

    Attributes:
        temporal: Limits on its temporal loops.
        spatial: Limits on its spatial loops, which lie on the fan-out below it.
        keep: Data spaces that it must keep.
        bypass: Data spaces that it must not keep.
        no_coalesce: Data spaces that pass through it word by word where it keeps them.
        sources: Place of each part for messages, by "keep.NAME", "bypass.NAME" and "min_parallelism".
    """

    temporal: LoopConstraint = LoopConstraint()
    spatial: LoopConstraint = LoopConstraint()
    keep: frozenset[str] = frozenset()
    bypass: frozenset[str] = frozenset()
    no_coalesce: frozenset[str] = frozenset()
    sources: dict[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Constraints:
    """All limits on mappings that the input gives.

    Attributes:
        levels: Limits per storage level, innermost first.
        min_parallelism: Least share of the arithmetic units that must be used (Timeloop's "utilization").
        native: The sections as the native tools read them, by top-level key, for writing them out again.
    """

    levels: tuple[LevelConstraints, ...]
    min_parallelism: float = 0.0
    native: dict[str, object] = field(default_factory=dict, repr=False, compare=False)
