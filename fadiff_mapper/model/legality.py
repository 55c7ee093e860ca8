"""Limits of an architecture that a mapping may break, in Timeloop's words and in Timeloop's order.

Timeloop checks cumulative products of spatial factors and sums of kept tiles, level by level from the innermost; a
single fan-out may be exceeded if a fan-out further out is not used up. Fused groups give part of a memory to
resident tensors; `Room` has the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.access_counts import Delivery, from_outside
from fadiff_mapper.model.loop_nest import Nest, Projection
from fadiff_mapper.model.tiles import Tiles

NOWHERE = "one of the tensors is bypassed in all storage levels"

MOST_RECEIVERS = _kernel.MOST_RECEIVERS
"""Most instances that a mapping may use below one instance of a level: if their places matter, they are counted one by
one (`kernel/receivers.hpp`). Timeloop has no such limit; machines have a few thousand."""


@dataclass(frozen=True)
class Violation:
    """One broken limit of one mapping, with fields as in `LegalityCheck` and the sentence that Timeloop prints."""

    constraint: str
    level: str
    amount: float
    limit: float
    reason: str


@dataclass(frozen=True)
class LegalityCheck:
    """One check over a batch."""

    constraint: str     # Key of the limit in `reason`
    level: str          # Name of the storage level, or of the arithmetic
    amount: np.ndarray  # [B]. Words or instances that each mapping needs
    limit: float        # Available words or instances
    broken: np.ndarray  # [B]. Whether the mapping breaks the limit

    def reason(self, row: int) -> str:
        """The sentence that `timeloop-model` prints about the mapping in column `row`."""
        asked, there = f"{self.amount[row]:.17g}", f"{self.limit:.17g}"  # as C++ prints a double with all its digits
        return {
            "nowhere": NOWHERE,
            "untouched": f"{asked} words of an output's partition are never touched",
            "arithmetic": f"mapped max Arithmetic instances {asked} exceeds hardware instances {there}",
            "arithmetic x": f"mapped max Arithmetic X expansion {asked} exceeds hardware instances {there}",
            "arithmetic y": f"mapped max Arithmetic Y expansion {asked} exceeds hardware instances {there}",
            "capacity": f"mapped tile size {asked} exceeds buffer capacity {there}",
            "metadata": f"mapped metadata tile size {asked} exceeds metadata buffer capacity {there}",
            "utilization": f"mapped tile size {asked} is less than constrained minimum utilization {self.limit:g}",
            "instances": f"mapped instances {self.amount[row]:g} exceeds available hardware instances {there}",
            "x": f"mapped X expansion {asked} exceeds available hardware instances {there}",
            "y": f"mapped Y expansion {asked} exceeds available hardware instances {there}",
            "calls": f"a walk of {asked} steps through residual factors; accepted: at most {there}",
            "receivers": f"spatial loops of {asked} instances; accepted: at most {there}",
        }[self.constraint]


@dataclass(frozen=True)
class Room:
    """Words that a batch may fill in memories beside resident tensors."""

    words: np.ndarray    # [L, B]. Words of every level that may be filled
    counted: np.ndarray  # [L, T, B]. Whether the tile of a data space needs these words; other tiles are resident
                         # tensors with their own room

    def take(self, rows: Any) -> Room:
        """The room of some columns of the batch, by a slice or an index array."""
        return Room(self.words[..., rows], self.counted[..., rows])


def limits(nest: Nest, needed: np.ndarray, tile: Tiles, arch: Architecture, room: Room | None = None,
           metadata: np.ndarray | None = None) -> list[LegalityCheck]:
    """Every check in the order in which Timeloop makes them; Timeloop reports the first one that is broken.

    First whether every data space is kept somewhere, then instances of the arithmetic, then for each level from the
    innermost its capacity, least utilization and instances, and last the fan-outs, which Timeloop does not check, see
    `MOST_RECEIVERS`. `needed` [L, T, B]: the words that tiles take, 0 where not kept. `room`: what resident tensors of
    other layers leave. `metadata` [L, B]: bits on a sparse design; a level with a size limits them, too.
    """
    def limit(constraint: str, level: str, amount: np.ndarray, most: float) -> None:
        checks.append(LegalityCheck(constraint, level, amount, most, amount > most))

    checks: list[LegalityCheck] = []
    limit("nowhere", arch.arithmetic.name, (~nest.keep.any(axis=0)).any(axis=0).astype(np.float64), 0)
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
    instances = tile.instances  # on average, where some are idle
    for index, unit in enumerate(units, -1):
        x, y = tile.expansion_x[index + 1], tile.expansion_y[index + 1]
        if isinstance(unit, StorageLevel):
            if unit.usable is not None:
                words = needed[index].sum(axis=0)
                least = unit.usable * unit.min_utilization
                # The tile must fit by itself, and its counted part beside resident tensors.
                limit("capacity", unit.name, words if room is None else np.maximum(
                    words, (needed[index] * room.counted[index]).sum(axis=0)
                    + np.maximum(unit.usable - room.words[index], 0)), unit.usable)
                if metadata is not None:
                    limit("metadata", unit.name, metadata[index], unit.usable_metadata_bits)
                if least:
                    checks.append(LegalityCheck("utilization", unit.name, words, least, words < least))
            limit("instances", unit.name, instances[index], unit.instances)
        else:
            limit("arithmetic", unit.name, x * y, unit.instances)
        names = ("x", "y") if index >= 0 else ("arithmetic x", "arithmetic y")
        limit(names[0], unit.name, x, unit.mesh_x)
        limit(names[1], unit.name, y, unit.mesh_y)
    for level, receivers in zip(arch.levels, nest.spatial.prod(axis=1), strict=True):
        limit("receivers", level.name, receivers, MOST_RECEIVERS)
    return checks


def untouched_sums(projection: Projection, arch: Architecture, nest: Nest, held: np.ndarray, tally: Delivery,
                   instances: np.ndarray, partition: np.ndarray) -> list[LegalityCheck]:
    """Checks whether fewer words of an output come up to a level, from below and from neighbours, than its partition
    has.

    If so, Timeloop ends on an assertion before any other check, so these checks come first in `limits`. Words may be
    missing with residual factors, or if tiles leave holes or overlap, as in a transposed convolution: some rank has
    several terms or a coefficient above 1, or some dimension moves several ranks. Usual layers have no such checks.
    `tally`: the traffic after bypassing; `partition` [L, T, B]: the words that one of the `instances` [L, B] in use is
    responsible for.
    """
    checks: list[LegalityCheck] = []
    for t, ranks in enumerate(projection.ranks):
        terms = [term for rank in ranks for term in rank]
        if projection.read_write[t] and (nest.residual or len(terms) > len(ranks) or any(c > 1 for _, c in terms)
                                         or len({d for d, _ in terms}) < len(ranks)):
            touched = sum(tally.words[:, :, t]) + from_outside(tally.links[:, t]) / instances
            missing = (partition[:, t] - touched) * held[:, t]
            checks += [LegalityCheck("untouched", level.name, missing[index], 0, missing[index] > 0)
                       for index, level in enumerate(arch.levels)]
    return checks


def violations(checks: Sequence[LegalityCheck], row: int) -> list[Violation]:
    """The limits that the mapping in column `row` breaks, in Timeloop's order of reporting."""
    return [Violation(check.constraint, check.level, float(check.amount[row]), check.limit,
                      check.reason(row)) for check in checks if check.broken[row]]


def rejection(broken: list[Violation]) -> InvalidMapping:
    """The error of `timeloop-model` for a mapping that breaks limits: it names the level of the first broken limit.

    The level's sentence on the tile and its first sentence on instances run together, as Timeloop prints them.
    """
    first = broken[0]
    same_level = [v for v in broken[1:] if v.level == first.level and v.constraint in ("instances", "x", "y")]
    tile_first = first.constraint in ("capacity", "metadata", "utilization")
    return InvalidMapping(first.level, first.reason + (same_level[0].reason if tile_first and same_level else ""))
