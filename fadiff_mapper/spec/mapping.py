"""A mapping: for every storage level its loops, where its spatial loops lie, and what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.base.html_table import html_table


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

    def _repr_html_(self) -> str:
        """For notebooks: the loop nest; levels are counted from 0, the innermost, because a mapping has no names."""
        return self.loop_nest_html([f"level {index}" for index in range(len(self.levels))])

    def loop_nest_html(self, level_names: Sequence[str]) -> str:
        """The loop nest as a table of HTML, outermost level and outermost loops first; loops of bound 1 are left out.

        Args:
            level_names: A name per storage level, innermost first, as in `Architecture.level_names`.
        """
        rows = []
        for name, level in reversed(list(zip(level_names, self.levels, strict=True))):
            loops = [level.axis_factors("Y"), level.axis_factors("X")]
            loops.insert(0, {dim: level.temporal[dim] for dim in level.order if level.temporal[dim] > 1})
            rows.append((name, ", ".join(sorted(level.keep)), *(
                " ".join(f"{dim}={factor}" for dim, factor in reversed(factors.items())) for factors in loops)))
        return html_table("loop nest, outermost first", ("level", "keeps", "temporal", "spatial Y", "spatial X"), rows)
