"""The tile of each data space at each level: its box, its neighbours further in and out, its fiber tree."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.sparse.complete_nest import CompleteNest, Ranks, box_of
from fadiff_mapper.sparse.fiber_tree import FiberTree
from fadiff_mapper.spec.sparse_optimizations import Representation


@dataclass(frozen=True)
class StoredTile:
    """The tile of a data space at a level that keeps it.

    Attributes:
        box: Its extents along the ranks of the tensor.
        parent: The next level outwards that keeps the data space; None for the outermost.
        child: The next level inwards that keeps it; None where its words go to the arithmetic.
        representation: Its format; None where it is stored plainly.
        tree: Its fibers; None where it has no format.
    """

    box: Box
    parent: int | None
    child: int | None
    representation: Representation | None = None
    tree: FiberTree | None = None

    @property
    def words(self) -> int:
        """Words of the tile, zeros included."""
        return math.prod(self.box)

    @property
    def has_metadata(self) -> bool:
        """Whether the tile is stored in a format."""
        return self.representation is not None

    @property
    def compressed(self) -> bool:
        """Whether its zeros are not stored."""
        return self.representation is not None and self.representation.compressed

    @property
    def metadata_ranks(self) -> int:
        """Ranks of its format; 0 without one."""
        return len(self.representation.ranks) if self.representation else 0


Column = dict[int, StoredTile]
"""The tiles of one data space by level, innermost first; levels that bypass it are left out."""


def plain_column(kept: list[int], nest: CompleteNest, ranks: Ranks,
                 representations: dict[int, Representation]) -> Column:
    """The tiles of a data space before fiber trees are built.

    Args:
        kept: Levels that keep it, innermost first.
        nest: The loops.
        ranks: Its ranks.
        representations: Formats by level.
    """
    return {level: StoredTile(box_of(ranks, nest[level][-1].points), kept[i + 1] if i + 1 < len(kept) else None,
                              kept[i - 1] if i else None, representations.get(level))
            for i, level in enumerate(kept)}
