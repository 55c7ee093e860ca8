"""Drafts of corners: loops are put where a rule wants them, the machine is then built around them.

A machine that is made to measure needs no luck to be large enough, and can be made a word or a unit too small on
purpose.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Term

from .corner import Corner, CornerLevel

LOOPS = 8
"""Temporal loops of a corner at most: Timeloop makes 2^loops calls."""

RECEIVERS = 24
"""Receivers of one fan-out at most: Timeloop compares them pair by pair."""

INSTANCES = 192
"""Units on the whole machine at most."""


@dataclass
class Draft:
    """The loops of a corner while it is drawn: for each level, innermost first, dimension -> bound, innermost first.

    Attributes:
        spaces: The tensors.
        names: The dimensions.
        time: Temporal loops.
        x: Spatial loops along X on the fan-out below the level.
        y: Spatial loops along Y.
    """

    spaces: tuple[DataSpace, ...]
    names: tuple[str, ...]
    time: list[dict[str, int]]
    x: list[dict[str, int]]
    y: list[dict[str, int]]


def tensor(name: str, *ranks: str, read_write: bool = False) -> DataSpace:
    """`tensor("In", "C", "2P+R")`: a text per rank, its terms with a leading coefficient."""
    def term(text: str) -> Term:
        dimension = text.lstrip("0123456789")
        return Term(dimension, int(text.removesuffix(dimension) or 1))
    return DataSpace(name, tuple(tuple(map(term, rank.split("+"))) for rank in ranks), read_write)


def blank(spaces: tuple[DataSpace, ...], levels: int) -> Draft:
    """A draft without loops."""
    names = tuple(sorted({name for space in spaces for name in space.dimensions}))
    return Draft(spaces, names, [{} for _ in range(levels)], [{} for _ in range(levels)], [{} for _ in range(levels)])


def add(draft: Draft, level: int, where: str, name: str, bound: int) -> bool:
    """Puts a loop outside those already there; a loop of the same dimension grows instead.

    Args:
        draft: Changed in place.
        level: Index of the level.
        where: "time", "x" or "y".
        name: The dimension.
        bound: Iterations, at least 2.

    Returns:
        Whether there was room: too many loops, too many receivers, or a dimension on both axes are refused.
    """
    loops: dict[str, int] = getattr(draft, where)[level]
    if where == "time":
        if sum(map(len, draft.time)) >= LOOPS and name not in loops:
            return False
    else:
        other = draft.y[level] if where == "x" else draft.x[level]
        if name in other or receivers(draft, level) * bound > RECEIVERS or bound * math.prod(
                receivers(draft, i) for i in range(len(draft.x))) > INSTANCES:
            return False
    loops[name] = loops.get(name, 1) * bound
    return True


def receivers(draft: Draft, level: int) -> int:
    """Receivers below one instance of a level."""
    return math.prod(draft.x[level].values()) * math.prod(draft.y[level].values())


def below(draft: Draft, level: int) -> dict[str, int]:
    """Points per dimension below the fan-out of a level: the tile of one receiver."""
    return {name: math.prod(loops[i].get(name, 1) for loops in (draft.time, draft.x, draft.y) for i in range(level))
            for name in draft.names}


def across(draft: Draft, level: int) -> dict[str, int]:
    """Points per dimension of all receivers of one instance of a level together."""
    return {name: points * draft.x[level].get(name, 1) * draft.y[level].get(name, 1)
            for name, points in below(draft, level).items()}


def mapping_of(draft: Draft, rng: random.Random, keep: Sequence[frozenset[str]]) -> Mapping:
    """The loops as a mapping; idle loops stand anywhere in an order."""
    levels = []
    for time, x, y, kept in zip(draft.time, draft.x, draft.y, keep, strict=True):
        ones = dict.fromkeys(draft.names, 1)
        free = [name for name in draft.names if name not in x and name not in y]
        on_x = rng.sample(free, rng.randint(0, len(free)))
        rows = with_idle(x, on_x, rng), with_idle(y, [name for name in free if name not in on_x], rng)
        order = with_idle(time, [name for name in draft.names if name not in time], rng)
        levels.append(LevelMapping(ones | time, tuple(order), ones | x | y, (*rows[0], *rows[1]), len(rows[0]), kept))
    return Mapping(tuple(levels))


def with_idle(loops: dict[str, int], idle: Sequence[str], rng: random.Random) -> list[str]:
    """The order of some loops with idle ones at random places in it."""
    order = list(loops)
    for name in idle:
        order.insert(rng.randint(0, len(order)), name)
    return order


def words(spaces: Sequence[DataSpace], mapping: Mapping, level: int) -> int:
    """Words of the tiles that a level keeps."""
    inside = mapping.levels[: level + 1]
    tile = {name: math.prod(one.temporal[name] * one.spatial[name] for one in inside) for name in inside[0].temporal}
    return sum(math.prod(space.tile_extents(tile)) for space in spaces if space.name in inside[-1].keep)


def keeps(draft: Draft, rng: random.Random, share: float, outermost: float = 1.0) -> list[frozenset[str]]:
    """The tensors that each level keeps.

    Args:
        draft: Gives levels and tensors.
        rng: The source of the draws.
        share: Share of (level, tensor) that is kept.
        outermost: The same for the outermost level; a tensor that no level keeps is kept there all the same.
    """
    names = [space.name for space in draft.spaces]
    found = [{name for name in names if rng.random() < share} for _ in draft.time]
    found[-1] = {name for name in names
                 if rng.random() < outermost or not any(name in kept for kept in found[:-1])}
    return [frozenset(kept) for kept in found]


def fans(draft: Draft, rng: random.Random, slack: float) -> list[tuple[int, int]]:
    """The fan-outs of a machine with room for the spatial loops, with a share `slack` of them wider than needed."""
    def width(loops: dict[str, int]) -> int:
        needed = math.prod(loops.values())
        return needed + rng.randint(1, 3) if rng.random() < slack else needed
    return [(width(x), width(y)) for x, y in zip(draft.x, draft.y, strict=True)]


def attributes(rng: random.Random, wires: float) -> dict[str, Any]:
    """Attributes of a level: blocks, bandwidths, and with the chance `wires` energies of its interconnect."""
    found: dict[str, Any] = {"word_bits": 8, "block_size": rng.choice((1, 1, 2, 4))}
    if rng.random() < 0.2:
        found[rng.choice(("read_bandwidth", "write_bandwidth", "shared_bandwidth"))] = rng.choice((0.25, 1, 3))
    if rng.random() < 0.3:
        found["reduction_supported"] = rng.random() < 0.5
    if rng.random() < wires:
        found |= {"energy_per_hop": 0.25, "router_energy": rng.choice((0, 0.5)), "energy-per-ingress": 0.125}
    return found


def built(rule: str, draft: Draft, rng: random.Random, *, keep: Sequence[frozenset[str]] | None = None,
          slack: float = 0.2, wires: float = 0.2) -> Corner:
    """A corner whose machine is made to the measure of the draft's loops.

    Args:
        rule: The rule that it is built for.
        draft: Loops and tensors.
        rng: The source of the draws.
        keep: The tensors that each level keeps; None draws them.
        slack: Share of the fan-outs that are wider than needed.
        wires: Share of the levels whose interconnect costs energy.
    """
    mapping = mapping_of(draft, rng, keep or keeps(draft, rng, 0.9))
    last, levels = len(draft.time) - 1, []
    for index, fan in enumerate(fans(draft, rng, slack)):
        room = max(1, words(draft.spaces, mapping, index)) + rng.choice((0, 0, 1, 50))
        levels.append(CornerLevel(fan, None if index == last else room, attributes(rng, wires)))
    return Corner(rule, tuple(levels), draft.spaces, mapping)
