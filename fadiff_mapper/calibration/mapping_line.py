"""A mapping in one line, as `L3[WIO] K8 Q28 - L2[WI] K4X - L1[O] P7 C3X - L0[W] P16`.

Levels stand outermost first, with their number, innermost 0, and the initials of the data spaces that they keep; loops
stand outermost first with their factor; X or Y marks a spatial loop over the fan-out below the level. This is the text
that Timeloop's mapper prints for each mapping that it finds. Levels that only fan out (the dummy storages for which
containers of the v0.4 dialect stand) have no number: their loops stand with the level above.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as AnyMapping
from dataclasses import replace

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem

LEVEL = re.compile(r"L(\d{1,2})\[([A-Za-z]*)\]")
LOOP = re.compile(r"([A-Z])([1-9]\d{0,8})([XY]?)")


def read_mapping_line(text: str, arch: Architecture, problem: Problem, renamed: AnyMapping[str, str]) -> Mapping:
    """Reads the line.

    Args:
        text: The line.
        arch: The architecture; the line names each of its levels that store something once.
        problem: The layer.
        renamed: Dimensions of the problem by the letter that stands for them, where it is another.

    Returns:
        The mapping.

    Raises:
        FadiffError: A level or loop that cannot be read, or factors that do not multiply to the bounds.
    """
    levels: dict[int, LevelMapping] = {}
    stores = [number for number, level in enumerate(arch.levels) if not level.is_dummy]
    if not stores or stores[-1] != len(arch.levels) - 1:
        raise FadiffError(f"{arch.name}: the outermost level stores nothing; accepted: one that does, such as DRAM")
    for part in text.split(" - "):
        words = part.split()
        head = LEVEL.fullmatch(words[0]) if words else None
        if head is None or int(head[1]) in levels:
            raise FadiffError(f'found the level "{part[:40]}"; accepted: each level once, as "L2[WI] N1 K4X"')
        levels[int(head[1])] = _level(head[2], words[1:], problem, renamed)
    if sorted(levels) != list(range(len(stores))):
        raise FadiffError(f"found the levels {sorted(levels)}; accepted: 0 to {len(stores) - 1}, the storage "
                          f"levels of {arch.name}")
    mapping = Mapping(_with_fan_outs({stores[number]: level for number, level in levels.items()}, arch))
    for name, bound in problem.bounds.items():
        product = 1
        for level in mapping.levels:
            product *= level.temporal[name] * level.spatial[name]
        if product != bound:
            raise FadiffError(f"the factors of {name} multiply to {product}; accepted: its bound, {bound}")
    return mapping


def _with_fan_outs(stores: dict[int, LevelMapping], arch: Architecture) -> tuple[LevelMapping, ...]:
    """All levels, innermost first; a level below a store that only fans out has the store's spatial loops.

    X means Y where the fan-out has a Y direction alone: tables mark every spatial loop with X.
    """
    levels: list[LevelMapping] = []
    one = dict.fromkeys(next(iter(stores.values())).temporal, 1)
    for number in reversed(range(len(arch.levels))):
        level = stores.get(number)
        if level is None:
            above = levels[-1]
            levels[-1] = replace(above, spatial=one)
            level = replace(above, temporal=one, keep=frozenset())
        levels.append(level)
    along_y = [x == 1 and y > 1 for x, y in map(arch.fanout, range(len(levels)))]
    return tuple(replace(level, split=0) if turned else level
                 for level, turned in zip(reversed(levels), along_y, strict=True))


def _level(kept: str, loops: list[str], problem: Problem, renamed: AnyMapping[str, str]) -> LevelMapping:
    """One level; loops of one dimension multiply, as `P2 Q7 P4`, the outermost of them gives the order."""
    names = problem.dimensions
    temporal, spatial = dict.fromkeys(names, 1), dict.fromkeys(names, 1)
    order: list[str] = []
    axes: dict[str, str] = {}
    for word in loops:
        loop = LOOP.fullmatch(word)
        name = renamed.get(loop[1], loop[1]) if loop else ""
        if loop is None or name not in temporal:
            raise FadiffError(f'found the loop "{word[:20]}"; accepted: a dimension and its factor, as K4, or K4X for '
                              "a spatial loop")
        if loop[3]:
            spatial[name] *= int(loop[2])
            axes[name] = loop[3]
        else:
            temporal[name] *= int(loop[2])
            if name not in order:
                order.append(name)
    innermost_first = [*reversed(order), *(name for name in names if name not in order)]
    on_x = [name for name in names if axes.get(name) != "Y"]
    keep = frozenset(name for name in problem.dataspace_names() if name[0].upper() in kept.upper())
    return LevelMapping(temporal, tuple(innermost_first), spatial, (*on_x, *(n for n in names if n not in on_x)),
                        len(on_x), keep)
