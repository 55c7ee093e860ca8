"""A mapping: for every storage level its loops, where its spatial loops lie, and what it keeps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LevelMapping:
    """The loops of one storage level. Orders run from the innermost loop to the outermost and name every dimension.

    Attributes:
        temporal: Factor of each dimension, 1 where there is no loop.
        order: Order of the temporal loops.
        spatial: Factor of each dimension on the fan-out below this level, 1 where there is no loop.
        spatial_order: Order of the spatial loops.
        split: Leading entries of `spatial_order` that lie on the X axis, loops of factor 1 counted; the others lie
            on Y.
        keep: Data spaces that the level stores; the others bypass it.
        no_temporal_reuse: Data spaces that the level is sent anew on every call.
        no_multicast: Data spaces that the level sends to each receiver separately.
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
        """The spatial loops on one axis.

        Args:
            axis: "X" or "Y".

        Returns:
            Factor by dimension, from the innermost loop outwards; factors of 1 are left out.
        """
        names = self.spatial_order[: self.split] if axis == "X" else self.spatial_order[self.split:]
        return {name: self.spatial[name] for name in names if self.spatial[name] > 1}


@dataclass(frozen=True)
class Mapping:
    """A tiling of the problem over the levels.

    Attributes:
        levels: One entry per storage level, innermost first. The factors of each dimension multiply to its bound.
    """

    levels: tuple[LevelMapping, ...]
