"""What keeps a mapping from running on an architecture, in Timeloop's words and in Timeloop's order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.model.access_counts import Tiles
from fadiff_mapper.model.energy_latency import Usage
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.spec.arch import Architecture, Arithmetic, StorageLevel

NOWHERE = "one of the tensors is bypassed in all storage levels"


@dataclass(frozen=True)
class Violation:
    """One broken limit: which one, at which level (its name), what the mapping asks for, and what there is."""

    constraint: str
    level: str
    amount: float
    limit: float
    reason: str
    """The sentence that `timeloop-model` prints."""


@dataclass(frozen=True)
class LegalityCheck:
    """One check over a batch: `broken` [B], with what is asked for, [B], and what there is."""

    constraint: str
    level: str
    amount: np.ndarray
    limit: float
    broken: np.ndarray

    def reason(self, row: int) -> str:
        asked, there = _number(self.amount[row]), _number(self.limit)
        return {
            "nowhere": NOWHERE,
            "arithmetic": f"mapped max Arithmetic instances {asked} exceeds hardware instances {there}",
            "arithmetic x": f"mapped max Arithmetic X expansion {asked} exceeds hardware instances {there}",
            "arithmetic y": f"mapped max Arithmetic Y expansion {asked} exceeds hardware instances {there}",
            "capacity": f"mapped tile size {asked} exceeds buffer capacity {there}",
            "utilization": f"mapped tile size {asked} is less than constrained minimum utilization {self.limit:g}",
            "instances": f"mapped instances {self.amount[row]:g} exceeds available hardware instances {there}",
            "x": f"mapped X expansion {asked} exceeds available hardware instances {there}",
            "y": f"mapped Y expansion {asked} exceeds available hardware instances {there}",
        }[self.constraint]


def _number(value: float) -> str:
    return f"{value:.17g}"


@dataclass(frozen=True)
class Room:
    """What a batch may fill where something else lies already.

    words [L, B]: of every level, all that may be filled. counted [L, T, B]: the data spaces that need it; the others
    have their place.
    """

    words: np.ndarray
    counted: np.ndarray

    def take(self, rows: Any) -> Room:
        """Some columns, by a slice or an index array."""
        return Room(self.words[..., rows], self.counted[..., rows])


def limits(nest: Nest, tile: Tiles, use: Usage, arch: Architecture, room: Room | None = None) -> list[LegalityCheck]:
    """Every check in the order in which Timeloop makes them; the first one broken is what it reports."""
    def limit(constraint: str, level: str, amount: np.ndarray, most: float) -> LegalityCheck:
        return LegalityCheck(constraint, level, amount, most, amount > most)

    mac = arch.arithmetic
    kept_nowhere = (~nest.keep.any(axis=0)).any(axis=0)
    result = [limit("nowhere", mac.name, kept_nowhere.astype(np.float64), 0)]
    units: tuple[Arithmetic | StorageLevel, ...] = (mac, *arch.levels)
    for index, unit in enumerate(units):
        x, y = use.expansion_x[index], use.expansion_y[index]
        names = ("instances", "x", "y") if index else ("arithmetic", "arithmetic x", "arithmetic y")
        if index:
            result += _tile_limits(index - 1, nest, tile, arch, room)
        result += [limit(names[0], unit.name, x * y, unit.instances), limit(names[1], unit.name, x, unit.mesh_x),
                   limit(names[2], unit.name, y, unit.mesh_y)]
    return result


def _tile_limits(index: int, nest: Nest, tile: Tiles, arch: Architecture, room: Room | None) -> list[LegalityCheck]:
    level = arch.levels[index]
    if level.usable is None:
        return []
    kept = tile.size[index] * nest.keep[index]
    words = kept.sum(axis=0)
    least = level.usable * level.min_utilization
    filled = words
    if room is not None:
        there = np.maximum(level.usable - room.words[index], 0)
        filled = np.maximum(words, (kept * room.counted[index]).sum(axis=0) + there)
    return [LegalityCheck("capacity", level.name, filled, level.usable, filled > level.usable),
            *([LegalityCheck("utilization", level.name, words, least, words < least)] if least else [])]


def violations(checks: list[LegalityCheck], row: int) -> list[Violation]:
    """All that is wrong with one mapping of the batch, first what Timeloop reports first."""
    return [Violation(check.constraint, check.level, float(check.amount[row]), check.limit,
                      check.reason(row)) for check in checks if check.broken[row]]


def rejection(broken: list[Violation]) -> InvalidMapping:
    """What `timeloop-model` says: the first level to blame, with its tile and, run together, its instances."""
    first = broken[0]
    same_level = [v for v in broken[1:] if v.level == first.level and v.constraint in ("instances", "x", "y")]
    tile_first = first.constraint in ("capacity", "utilization")
    return InvalidMapping(first.level, first.reason + (same_level[0].reason if tile_first and same_level else ""))


def legal(checks: list[LegalityCheck]) -> np.ndarray:
    """[B]: whether nothing is broken."""
    result: np.ndarray = ~np.any([check.broken for check in checks], axis=0)
    return result


def excess(checks: list[LegalityCheck]) -> np.ndarray:
    """[B]: how far from legal: over all broken limits the sum of log2(asked / available), and a little for each."""
    total = np.zeros(len(checks[0].broken))
    for check in compress(checks, np.any([check.broken for check in checks], axis=1)):
        ratio = np.maximum(check.amount, 1e-9) / max(check.limit, 1e-9)
        total += check.broken * (np.abs(np.log2(ratio)) + 0.1)
    return total
