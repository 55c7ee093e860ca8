"""Makes a corner that shows a difference smaller, as long as it still shows one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace

from .corner import Corner

SWITCHES = ("no_temporal_reuse", "no_multicast", "no_link_transfer", "rmw_first_update", "no_coalesce")
"""Attributes of a level's mapping that switch reuse off."""

ASKED = 400
"""Corners that are tried for one difference at most: a plain limit. Small nests need fewer."""


def shrunk(corner: Corner, differs: Callable[[Corner], bool], most: int = ASKED) -> Corner:
    """The smallest corner that greedy steps lead to.

    Args:
        corner: A corner that shows a difference.
        differs: Whether a corner shows a difference; the real tool is asked each time.
        most: Corners tried at most.

    Returns:
        A corner that shows a difference, and of which no single step (see `smaller`) leads to another one, unless
        `most` ran out.
    """
    tried, found = 0, True
    while found:
        found = False
        for candidate in smaller(corner):
            if tried >= most:
                return corner
            tried += 1
            if differs(candidate):
                corner, found = candidate, True
                break
    return corner


def smaller(corner: Corner) -> Iterator[Corner]:
    """All corners one step smaller, large steps first: a level, a tensor, a loop, a part of a loop, an attribute."""
    yield from without_a_level(corner)
    yield from without_a_tensor(corner)
    for bound in (lambda factor: 1, lambda factor: 2, lambda factor: factor - 1):
        yield from with_smaller_loops(corner, bound)
    yield from with_plainer_ranks(corner)
    yield from with_a_plainer_level(corner)


def without_a_level(corner: Corner) -> Iterator[Corner]:
    """Levels without a loop and without a fan-out left out, except the outermost one."""
    for index, (machine, level) in enumerate(zip(corner.levels[:-1], corner.mapping.levels[:-1], strict=True)):
        if machine.fan == (1, 1) and max(*level.temporal.values(), *level.spatial.values()) == 1:
            levels = corner.mapping.levels
            yield replace(corner, levels=corner.levels[:index] + corner.levels[index + 1:],
                          mapping=Mapping(levels[:index] + levels[index + 1:]))


def without_a_tensor(corner: Corner) -> Iterator[Corner]:
    """Operands left out, except the last one; dimensions of no tensor remain as long as they have loops."""
    for space in corner.spaces:
        if not space.read_write and len(corner.spaces) > 2:
            fewer = tuple(other for other in corner.spaces if other != space)
            names = {name for other in fewer for name in other.dimensions}
            if all(name in names for name in corner.bounds):
                levels = tuple(_without(level, frozenset({space.name})) for level in corner.mapping.levels)
                yield replace(corner, spaces=fewer, mapping=Mapping(levels))


def with_smaller_loops(corner: Corner, bound: Callable[[int], int]) -> Iterator[Corner]:
    """Every loop once with another bound, where that is smaller than its own."""
    for index, level in enumerate(corner.mapping.levels):
        for name in level.temporal:
            wide, long = level.spatial[name], level.temporal[name]
            if wide > bound(wide) >= 1:
                yield _with_level(corner, index, replace(level, spatial=level.spatial | {name: bound(wide)}))
            if long > bound(long) >= 1:
                yield _with_level(corner, index, replace(level, temporal=level.temporal | {name: bound(long)}))


def with_plainer_ranks(corner: Corner) -> Iterator[Corner]:
    """Every coefficient above 1 once smaller by 1."""
    for space in corner.spaces:
        for rank in space.ranks:
            for term in rank:
                if term.coefficient > 1:
                    less = replace(term, coefficient=term.coefficient - 1)
                    ranks = tuple(tuple(less if other is term else other for other in row) for row in space.ranks)
                    plainer = DataSpace(space.name, ranks, space.read_write)
                    yield replace(corner, spaces=tuple(plainer if other is space else other for other in corner.spaces))


def with_a_plainer_level(corner: Corner) -> Iterator[Corner]:
    """Every level once with plain wires, with everything kept and reused, or without receivers that have no work."""
    everything = frozenset(space.name for space in corner.spaces)
    for index, (machine, level) in enumerate(zip(corner.levels, corner.mapping.levels, strict=True)):
        for attribute in machine.attributes.keys() - {"word_bits"}:
            less = {name: value for name, value in machine.attributes.items() if name != attribute}
            yield _with_machine(corner, index, attributes=less)
        if level.keep != everything:
            roomier = None if machine.entries is None else machine.entries + 1000
            yield _with_machine(_with_level(corner, index, replace(level, keep=everything)), index, entries=roomier)
        for switch in SWITCHES:
            if getattr(level, switch):
                nothing: dict[str, Any] = {switch: frozenset()}
                yield _with_level(corner, index, replace(level, **nothing))
        for fan in ((machine.fan[0] - 1, machine.fan[1]), (machine.fan[0], machine.fan[1] - 1)):
            if min(fan) >= 1 and (max(fan) > 1 or max(level.spatial.values()) == 1):
                yield _with_machine(corner, index, fan=fan)


def _with_level(corner: Corner, index: int, level: LevelMapping) -> Corner:
    """The corner with other loops at one level."""
    levels = corner.mapping.levels
    return replace(corner, mapping=Mapping((*levels[:index], level, *levels[index + 1:])))


def _with_machine(corner: Corner, index: int, **changes: object) -> Corner:
    """The corner with another storage level."""
    machine = replace(corner.levels[index], **changes)  # type: ignore[arg-type]
    return replace(corner, levels=(*corner.levels[:index], machine, *corner.levels[index + 1:]))


def _without(level: LevelMapping, lost: frozenset[str]) -> LevelMapping:
    """The level without some tensors."""
    left: dict[str, Any] = {name: getattr(level, name) - lost for name in ("keep", *SWITCHES)}
    return replace(level, **left)
