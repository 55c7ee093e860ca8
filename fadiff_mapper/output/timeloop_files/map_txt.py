"""The loop nest as text, in the layout of `timeloop-mapper.map.txt`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.spec.mapping import LevelMapping, Mapping, with_residual
from fadiff_mapper.spec.spec import Spec


def map_txt(spec: Spec, mapping: Mapping, stats: Stats) -> str:
    """The nest from the outermost level inwards, each level with the data spaces that it keeps and their tiles' words.

    Loops of bound 1 are left out. A level is underlined where its loops begin; levels without loops stand directly
    above the next one that has some.

    Args:
        spec: The input.
        mapping: The mapping to print.
        stats: Its statistics, for the words of tiles.
    """
    lines: list[str] = []
    header = ""
    depth = 0
    names = spec.problem.dataspace_names()
    for level, level_stats in zip(reversed(mapping.levels), reversed(stats.levels), strict=True):
        if depth and not header:
            lines.append("")
        header = _header(names, level_stats)
        lines.append(header + " ")
        for loop in _loops(level):
            lines += _underline(header)
            header = ""
            lines.append(f"| {'  ' * depth}{loop}")
            depth += 1
    lines += _underline(header)
    lines.append(f"| {'  ' * depth}<< Compute >>")
    return "\n".join(lines) + "\n"


def _header(names: tuple[str, ...], level: dict[str, Any]) -> str:
    """A level's name and the words of its tiles: all, and those that are stored (the same without compression)."""
    kept = {name: level["dataspaces"][name] for name in names if name in level["dataspaces"]}
    tiles = {name: (space.get("data_tile_shape", space["utilized_capacity"]), space["utilized_capacity"])
             for name, space in kept.items()}
    return f"{level['name']} [ " + "".join(f"{name}:{all_} ({used}) " for name, (all_, used) in tiles.items()) + "]"


def _underline(header: str) -> list[str]:
    return ["-" * len(header)] if header else []


def _loops(level: LevelMapping) -> Iterator[str]:
    """The loops of one level from the outermost inwards: temporal, then spatial on Y, then on X."""
    for name in reversed(level.order):
        if level.temporal[name] > 1:
            yield f"for {name} in [0:{with_residual(name, level.temporal[name], level.temporal_last)})"
    for axis in "YX":
        for name, factor in reversed(level.axis_factors(axis).items()):
            yield f"for {name} in [0:{with_residual(name, factor, level.spatial_last)}) (Spatial-{axis})"
