"""Reuse that a mapping or constraints allow: in time (tiles that stay), in space (multicast, links) and at a level.

Timeloop reuses all data spaces unless `no_reuse` names one: then every iteration of an outer loop sends the whole tile
again (temporal), or every receiver of a fan-out is sent its own copy (spatial). Three more switches turn off one kind
of reuse each: `no_link_transfer` (words from neighbours), `rmw_first_update` (the first update of an output without a
read), and `no_coalesce` (a word that a level holds for several uses inside it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping

NOTHING_OFF = LevelMapping({}, (), {}, (), 0, frozenset())


@dataclass(frozen=True)
class Reuse:
    """Reuse over each boundary, the same for all mappings of a batch; boundary b lies below level b."""

    held: np.ndarray           # [L, T]. Whether the receivers below a boundary hold their tile from one iteration of
                               # the outer loops to the next, so that only new words are sent. False below the innermost
                               # level: the arithmetic holds nothing
    multicast: np.ndarray      # [L, T]. Whether receivers below a boundary that want the same words share one transfer;
                               # for outputs, whether their partial sums are added up on the way (spatial reduction)
    linked: np.ndarray         # [L, T]. Whether receivers below a boundary may pass words on to a neighbour
    first_written: np.ndarray  # [L, T]. Whether the first update of each word of an output is a plain write; else the
                               # word is filled and read first
    coalesced: np.ndarray      # [L, T]. Whether a level holds words for several uses inside it; else all words for its
                               # receivers come from the next level further out, as with a bypass, but are also filled
                               # into and read from the level


def full_reuse(levels: int, dataspaces: int) -> Reuse:
    """Timeloop's default: everything is reused. The arguments are the sizes of the axes L and T."""
    return reuse_of(Mapping((NOTHING_OFF,) * levels), [""] * dataspaces)


def reuse_of(mapping: Mapping, names: Sequence[str]) -> Reuse:
    """The reuse that the directives of a mapping allow; `names`: the data spaces of the problem in order."""
    # The directive of level l concerns the tile of level l, which the receivers below boundary l + 1 hold.
    # The directive of the outermost level concerns no boundary and is left out.
    off = [[frozenset(names), *(level.no_temporal_reuse for level in mapping.levels[:-1])],
           *([getattr(level, switch) for level in mapping.levels] for switch in (
               "no_multicast", "no_link_transfer", "rmw_first_update", "no_coalesce"))]
    return Reuse(*np.array([[[name not in there for name in names] for there in each] for each in off], dtype=np.bool_))


def with_reuse(mapping: Mapping, constraints: Constraints) -> Mapping:
    """The mapping with directives that switch off the reuse that constraints switch off, for writing it."""
    return Mapping(tuple(
        replace(level, no_temporal_reuse=limits.temporal.no_reuse, no_multicast=limits.spatial.no_reuse,
                no_link_transfer=limits.spatial.no_link_transfer, rmw_first_update=limits.temporal.rmw_first_update,
                no_coalesce=limits.no_coalesce)
        for level, limits in zip(mapping.levels, constraints.levels, strict=True)))
