"""Whether the memories and instances suffice for a mapping, in Timeloop's words.

Tiles count with their largest occupancy. A level with a size has a limit of metadata, too; one without is never
checked.
"""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.sparse.instances import UsedInstances
from fadiff_mapper.sparse.level_cost import Stored
from fadiff_mapper.sparse.tile_occupancy import metadata_bits
from fadiff_mapper.spec.arch import Arithmetic, StorageLevel


def check_arithmetic(arithmetic: Arithmetic, use: UsedInstances) -> None:
    """Raises InvalidMapping where there are fewer units than the mapping needs."""
    if use.most > arithmetic.instances:
        raise InvalidMapping(arithmetic.name, f"mapped max Arithmetic instances {use.most} exceeds hardware instances "
                                              f"{arithmetic.instances}")
    for axis, needed, there in (("X", use.x, arithmetic.mesh_x), ("Y", use.y, arithmetic.mesh_y)):
        if needed > there:
            raise InvalidMapping(arithmetic.name, f"mapped max Arithmetic {axis} expansion {needed} exceeds hardware "
                                                  f"instances {there}")


def check_level(level: StorageLevel, stored: Sequence[Stored], use: Sequence[UsedInstances]) -> None:
    """Checks one storage level.

    Args:
        level: The level.
        stored: The data spaces that it keeps.
        use: Its instances in use for every data space, kept or not.

    Raises:
        InvalidMapping: The level is too small; its sentences on the tile and on instances run together, as Timeloop
            prints them.
    """
    reason = _capacity_reason(level, stored) + _instance_reason(level, use)
    if reason:
        raise InvalidMapping(level.name, reason)


def _capacity_reason(level: StorageLevel, stored: Sequence[Stored]) -> str:
    if level.usable is None:
        return ""
    words = sum(one.occupancy.most_words for one in stored)
    bits = sum(metadata_bits(one.tile.representation, one.tile.tree, one.occupancy.most_metadata) for one in stored)
    least = level.usable * level.min_utilization
    if words > level.usable:
        return f"mapped tile size {words} exceeds buffer capacity {level.usable}"
    if bits > level.usable_metadata_bits:
        return f"mapped metadata tile size {bits} exceeds metadata buffer capacity {level.usable_metadata_bits}"
    if words < least:
        return f"mapped tile size {words} is less than constrained minimum utilization {least:g}"
    return ""


def _instance_reason(level: StorageLevel, use: Sequence[UsedInstances]) -> str:
    average, x, y = (max(getattr(one, name) for one in use) for name in ("average", "x", "y"))
    if average > level.instances:
        return f"mapped instances {average:g} exceeds available hardware instances {level.instances}"
    if x > level.mesh_x:
        return f"mapped X expansion {x} exceeds available hardware instances {level.mesh_x}"
    if y > level.mesh_y:
        return f"mapped Y expansion {y} exceeds available hardware instances {level.mesh_y}"
    return ""
