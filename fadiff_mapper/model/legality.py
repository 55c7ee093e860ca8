"""Limits of an architecture that a mapping may break, in Timeloop's words and in Timeloop's order.

Timeloop checks cumulative products of spatial factors and sums of kept tiles, level by level from the innermost; a
single fan-out may be oversubscribed where one further out is not used up. Fused groups give part of a memory to
tensors that stay there; `Room` says how much is left for a mapping.
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
"""Instances below one instance of a level that a mapping may use: where their places matter they are counted one by
one (`kernel/receivers.hpp`). Timeloop has no such limit; machines have a few thousand."""


@dataclass(frozen=True)
class Violation:
    """One broken limit of one mapping; attributes as in `LegalityCheck`, with the sentence that Timeloop prints."""

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
    amount: np.ndarray  # [B]. Words or instances that each mapping asks for
    limit: float        # Words or instances that there are
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
    """Words that a batch may fill in memories where something else lies already."""

    words: np.ndarray    # [L, B]. Words of every level that may be filled
    counted: np.ndarray  # [L, T, B]. Whether the tile of a data space needs these words; the others have their place in
                         # the rest of the level

    def take(self, rows: Any) -> Room:
        """The room of some columns of the batch, by a slice or an index array."""
        return Room(self.words[..., rows], self.counted[..., rows])


def limits(nest: Nest, needed: np.ndarray, tile: Tiles, arch: Architecture, room: Room | None = None,
           metadata: np.ndarray | None = None) -> list[LegalityCheck]:
    """Every check in the order in which Timeloop makes them; Timeloop reports the first one that is broken.

    First whether every data space is kept somewhere, then instances of the arithmetic, then for each level from the
    innermost its capacity, least utilization and instances, and last the fan-outs, which Timeloop does not check, see
    `MOST_RECEIVERS`. `needed` [L, T, B] are the words that tiles take, 0 where none is kept. `room` is smaller where
    tensors of other layers lie. `metadata` [L, B] are bits on a sparse design; a level with a size limits them, too.
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
                # The tile must fit by itself, and its counted part beside the words that reside there.
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

    Timeloop ends on an assertion there, before any other check, so these checks go to the head of `limits`. Words may
    be missing with residuals, or where tiles leave holes or overlap, such as a transposed convolution's: some rank has
    several terms or a coefficient above 1, or some dimension moves several ranks. There are no checks of usual layers.
    `tally` is the traffic after bypassing, `partition` [L, T, B] the words that one of the `instances` [L, B] in use is
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
    """The limits that the mapping in column `row` breaks, the one that Timeloop reports first at the head."""
    return [Violation(check.constraint, check.level, float(check.amount[row]), check.limit,
                      check.reason(row)) for check in checks if check.broken[row]]


def rejection(broken: list[Violation]) -> InvalidMapping:
    """The error of `timeloop-model` for a mapping that breaks limits: it blames the first one's level.

    The level's sentence on the tile and its first one on instances run together, as Timeloop prints them.
    """
    first = broken[0]
    same_level = [v for v in broken[1:] if v.level == first.level and v.constraint in ("instances", "x", "y")]
    tile_first = first.constraint in ("capacity", "metadata", "utilization")
    return InvalidMapping(first.level, first.reason + (same_level[0].reason if tile_first and same_level else ""))
