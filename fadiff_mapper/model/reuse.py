"""Reuse that a mapping or constraints leave on: in time (tiles that stay) and in space (multicast).

Timeloop reuses everything unless `no_reuse` names a data space: then every iteration of an outer loop sends the whole
tile again (temporal), or every receiver of a fan-out is sent its own copy (spatial).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.mapping import Mapping


@dataclass(frozen=True)
class Reuse:
    """Reuse over each boundary, the same for all mappings of a batch; boundary b lies below level b.

    Attributes:
        held: [L, T]. Whether the receivers below a boundary hold their tile from one iteration of the outer loops to
            the next, so that only new words are sent. False below the innermost level: the arithmetic holds nothing.
        multicast: [L, T]. Whether receivers below a boundary that want the same words share one transfer; for
            outputs, whether their partial sums are added up on the way (spatial reduction).
    """

    held: np.ndarray
    multicast: np.ndarray


def full_reuse(levels: int, dataspaces: int) -> Reuse:
    """Timeloop's default: everything is reused. The arguments are the sizes of the axes L and T."""
    return _reuse([frozenset()] * levels, [frozenset()] * levels, [""] * dataspaces)


def reuse_of(mapping: Mapping, names: Sequence[str]) -> Reuse:
    """The reuse that the directives of a mapping leave on.

    Args:
        mapping: One mapping.
        names: The data spaces of the problem in order.

    Returns:
        Reuse with the axis T in the order of `names`.
    """
    return _reuse([level.no_temporal_reuse for level in mapping.levels],
                  [level.no_multicast for level in mapping.levels], names)


def constrained_reuse(constraints: Constraints, names: Sequence[str]) -> Reuse:
    """The reuse that constraints leave on; `names` are the data spaces of the problem in order."""
    return _reuse([level.temporal.no_reuse for level in constraints.levels],
                  [level.spatial.no_reuse for level in constraints.levels], names)


def with_reuse(mapping: Mapping, constraints: Constraints) -> Mapping:
    """The mapping with the reuse that the constraints switch off switched off in its directives, for writing it out."""
    return Mapping(tuple(
        replace(level, no_temporal_reuse=limits.temporal.no_reuse, no_multicast=limits.spatial.no_reuse)
        for level, limits in zip(mapping.levels, constraints.levels, strict=True)))


def _reuse(in_time: Sequence[frozenset[str]], in_space: Sequence[frozenset[str]], names: Sequence[str]) -> Reuse:
    """From the data spaces that each level does not reuse, in time and in space, innermost level first."""
    # The directive of level l speaks of the tile of level l, which is what the receivers below boundary l + 1 hold.
    # The directive of the outermost level speaks of no boundary and is left out.
    held = [[False for _ in names], *([name not in off for name in names] for off in in_time[:-1])]
    return Reuse(np.array(held), np.array([[name not in off for name in names] for off in in_space]))
