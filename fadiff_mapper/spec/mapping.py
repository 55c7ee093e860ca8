"""A mapping: for every storage level its loops, where its spatial loops lie, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LevelMapping:
    """The loops of one storage level. Orders run from the innermost loop to the outermost and name every dimension.

    `temporal` and `spatial` map each dimension to its factor (1 where there is no loop). The first `split`
    entries of `spatial_order` lie on the X axis of the fan-out below this level, the others on Y.
    `no_temporal_reuse` are the data spaces that the level is sent anew on every call, `no_multicast` those that it
    sends to each receiver separately.
    """

    temporal: dict[str, int]
    order: tuple[str, ...]
    spatial: dict[str, int]
    spatial_order: tuple[str, ...]
    split: int
    keep: frozenset[str]
    no_temporal_reuse: frozenset[str] = frozenset()
    no_multicast: frozenset[str] = frozenset()

    def axis_factors(self, axis: str) -> dict[str, int]:
        """The spatial factors on "X" or "Y", in loop order from the innermost, those of 1 left out."""
        names = self.spatial_order[: self.split] if axis == "X" else self.spatial_order[self.split:]
        return {name: self.spatial[name] for name in names if self.spatial[name] > 1}


@dataclass(frozen=True)
class Mapping:
    """One `LevelMapping` per storage level, from the innermost to the outermost."""

    levels: tuple[LevelMapping, ...]
