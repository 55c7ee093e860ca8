"""A mapping: for every storage level its loops, the axes of its spatial loops, and the data spaces that it keeps.

Mappings serve as keys: factors by dimension count for equality but not for the hash, which a `dict` does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fadiff_mapper.base.text_formats import html_table


@dataclass(frozen=True)
class LevelMapping:
    """The loops of one storage level. Orders run from the innermost loop to the outermost and name every dimension."""

    temporal: dict[str, int] = field(hash=False)  # factor of each dimension, 1 where there is no loop
    order: tuple[str, ...]  # order of the temporal loops
    spatial: dict[str, int] = field(hash=False)  # factor of each dimension on the fan-out below, 1 without a loop
    spatial_order: tuple[str, ...]  # order of the spatial loops
    split: int  # leading entries of `spatial_order` on the X axis, loops of factor 1 counted; the others lie on Y
    keep: frozenset[str]  # data spaces that the level stores; the others bypass it
    no_temporal_reuse: frozenset[str] = frozenset()  # data spaces that the level is sent anew on every call
    no_multicast: frozenset[str] = frozenset()  # data spaces that the level sends to each receiver separately
    no_link_transfer: frozenset[str] = frozenset()  # data spaces that its receivers do not hand on to each other
    rmw_first_update: frozenset[str] = frozenset()  # outputs that the level reads back for their first update too
    # Data spaces that pass through the level word by word, without being held there for another use.
    no_coalesce: frozenset[str] = frozenset()
    # Residuals: iterations of a loop's last run, for the dimensions whose last run is shorter.
    temporal_last: dict[str, int] = field(default_factory=dict, hash=False)
    spatial_last: dict[str, int] = field(default_factory=dict, hash=False)  # the same for the spatial loops

    def axis_factors(self, axis: str) -> dict[str, int]:
        """The spatial factors above 1 on the axis "X" or "Y", by dimension, from the innermost loop outwards."""
        names = self.spatial_order[: self.split] if axis == "X" else self.spatial_order[self.split:]
        return {name: self.spatial[name] for name in names if self.spatial[name] > 1}


@dataclass(frozen=True)
class Mapping:
    """A tiling of the problem over the levels.

    Attributes:
        levels: One entry per storage level, innermost first. The factors of each dimension multiply to its bound; with
            residuals they cover it (`covered`).
    """

    levels: tuple[LevelMapping, ...]

    @property
    def imperfect(self) -> bool:
        """Whether some factor has a residual."""
        return any(level.temporal_last or level.spatial_last for level in self.levels)

    def covered(self, dimension: str) -> int:
        """Points of a dimension that the loops go through.

        From the outermost loop inwards, a loop of factor f and residual r turns n whole runs and a last one into
        n f + r iterations. Without residuals that is the product of the factors. The order of levels decides, and in a
        level the temporal loop lies outside the spatial one.
        """
        whole = 0
        for level in reversed(self.levels):
            for factors, last in ((level.temporal, level.temporal_last), (level.spatial, level.spatial_last)):
                whole = whole * factors[dimension] + last.get(dimension, factors[dimension]) - 1
        return whole + 1

    def _repr_html_(self) -> str:
        """For notebooks: the loop nest; levels are counted from 0, the innermost, because a mapping has no names."""
        return self.loop_nest_html([f"level {index}" for index in range(len(self.levels))])

    def loop_nest_html(self, level_names: Sequence[str]) -> str:
        """The loop nest as a table of HTML, outermost level and outermost loops first; loops of bound 1 are left out.

        `level_names`: a name per storage level, innermost first, as in `Architecture.level_names`.
        """
        rows = []
        for name, level in reversed(list(zip(level_names, self.levels, strict=True))):
            loops = [level.axis_factors("Y"), level.axis_factors("X")]
            loops.insert(0, {dim: level.temporal[dim] for dim in level.order if level.temporal[dim] > 1})
            lasts = (level.temporal_last, level.spatial_last, level.spatial_last)
            rows.append((name, ", ".join(sorted(level.keep)), *(
                " ".join(f"{dim}={with_residual(dim, factor, last)}" for dim, factor in reversed(factors.items()))
                for factors, last in zip(loops, lasts, strict=True))))
        return html_table("loop nest, outermost first", ("level", "keeps", "temporal", "spatial Y", "spatial X"), rows)


def with_residual(dimension: str, factor: int, last: dict[str, int]) -> str:
    """A factor as Timeloop writes it: "4", or "4,2" where the last run has 2 iterations (`last`: by dimension)."""
    return f"{factor},{last[dimension]}" if dimension in last else str(factor)
