"""What may be reused: the data spaces that levels hold from call to call, and those that they send to several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.mapping import Mapping


@dataclass(frozen=True)
class Reuse:
    """One choice for all mappings of a batch, [L, T] each; boundary b lies below level b (see `counts`).

    held        whether what is below a boundary holds its tile from one call to the next, so that only new words are
                sent; the arithmetic below the innermost level never does
    multicast   whether receivers below a boundary that want the same words share one transfer (for outputs: whether
                their partial sums are added up on the way)
    """

    held: np.ndarray
    multicast: np.ndarray


def full_reuse(levels: int, tensors: int) -> Reuse:
    """Timeloop's default: everything is reused."""
    return _reuse([frozenset()] * levels, [frozenset()] * levels, [""] * tensors)


def reuse_of(mapping: Mapping, names: Sequence[str]) -> Reuse:
    """What the directives of a mapping leave on. `names` are the data spaces in order."""
    return _reuse([level.no_temporal_reuse for level in mapping.levels],
                  [level.no_multicast for level in mapping.levels], names)


def constrained_reuse(constraints: Constraints, names: Sequence[str]) -> Reuse:
    """What constraints leave on."""
    return _reuse([level.temporal.no_reuse for level in constraints.levels],
                  [level.spatial.no_reuse for level in constraints.levels], names)


def with_reuse(mapping: Mapping, constraints: Constraints) -> Mapping:
    """The mapping with the reuse switched off that the constraints switch off."""
    return Mapping(tuple(
        replace(level, no_temporal_reuse=limits.temporal.no_reuse, no_multicast=limits.spatial.no_reuse)
        for level, limits in zip(mapping.levels, constraints.levels, strict=True)))


def _reuse(in_time: Sequence[frozenset[str]], in_space: Sequence[frozenset[str]], names: Sequence[str]) -> Reuse:
    """From the data spaces that each level does not reuse. Nobody asks whether the outermost level holds its tile."""
    held = [[False for _ in names], *([name not in off for name in names] for off in in_time[:-1])]
    return Reuse(np.array(held), np.array([[name not in off for name in names] for off in in_space]))
