"""Batches of mappings whose factors may have residuals.

A factor f with residual r on a loop stands for runs of f iterations, of which the very last one has r: where every loop
of the same dimension further out is in its last iteration. So five points on tiles of two are a factor 3 outside a
factor 2 with the residual 1. Every such mapping is one without residuals that covers more points, cut off at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fadiff_mapper.model.loop_nest import Nest, columns, joined, pack, unpack
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class ResidualNest:
    """A batch of mappings with residuals.

    Attributes:
        nest: The mappings with all runs as long as the others.
        temporal_last: [L, D, B]. Iterations of the last run of each temporal loop; its factor without a residual.
        spatial_last: [L, D, B]. The same for spatial loops.
    """

    nest: Nest
    temporal_last: np.ndarray
    spatial_last: np.ndarray

    def take(self, rows: Any) -> ResidualNest:
        """Some columns of the batch, copied; see `Nest.take`."""
        return ResidualNest(self.nest.take(rows), columns(self.temporal_last, rows), columns(self.spatial_last, rows))


def joined_residuals(parts: Sequence[ResidualNest]) -> ResidualNest:
    """Several batches side by side, in the given order."""
    return ResidualNest(joined([part.nest for part in parts]),
                        np.concatenate([part.temporal_last for part in parts], axis=-1),
                        np.concatenate([part.spatial_last for part in parts], axis=-1))


def without_residuals(nest: Nest) -> ResidualNest:
    """A batch whose runs all have the same length."""
    return ResidualNest(nest, nest.temporal.copy(), nest.spatial.copy())


def pack_residuals(mappings: Sequence[Mapping], problem: Problem) -> ResidualNest:
    """Mappings as one batch.

    Args:
        mappings: B mappings of `problem`, all with the same number of levels.
        problem: Gives the order of dimensions and data spaces.
    """
    nest = pack([_with_whole_runs(mapping) for mapping in mappings], problem)

    def lasts(factors: str) -> np.ndarray:
        rows = [[[getattr(level, f"{factors}_last").get(name, getattr(level, factors)[name])
                  for name in problem.dimensions] for level in mapping.levels] for mapping in mappings]
        return np.ascontiguousarray(np.moveaxis(np.array(rows, dtype=np.float64), 0, -1))

    return ResidualNest(nest, lasts("temporal"), lasts("spatial"))


def _with_whole_runs(mapping: Mapping) -> Mapping:
    return Mapping(tuple(replace(level, temporal_last={}, spatial_last={}) for level in mapping.levels))


def unpack_residuals(batch: ResidualNest, row: int, problem: Problem) -> Mapping:
    """One column of a batch as a mapping.

    Args:
        batch: The batch.
        row: Index along the batch axis.
        problem: Gives the names of dimensions and data spaces.
    """
    def lasts(last: np.ndarray, factors: dict[str, int]) -> dict[str, int]:
        return {name: int(own) for name, own in zip(problem.dimensions, last, strict=True) if int(own) != factors[name]}

    return Mapping(tuple(
        replace(level, temporal_last=lasts(batch.temporal_last[index, :, row], level.temporal),
                spatial_last=lasts(batch.spatial_last[index, :, row], level.spatial))
        for index, level in enumerate(unpack(batch.nest, row, problem).levels)))


def cut_off(nest: Nest, bounds: np.ndarray) -> ResidualNest:
    """Mappings of more points than there are, cut off at the bounds.

    The factors decide the residuals: points are numbered in mixed radix, from the innermost loop outwards, and the
    digits of the last point are the residuals less one. Loops beyond the last point vanish, and the outermost temporal
    loop takes what the others leave.

    Args:
        nest: B mappings whose factors are any whole numbers from 1.
        bounds: [D]. Points of every dimension.

    Returns:
        Mappings that cover the bounds exactly. Where the factors divide the bounds they have no residuals.
    """
    left = np.repeat(np.asarray(bounds, dtype=np.float64)[:, None], nest.batch, axis=1)
    whole, last = {}, {}
    for name in ("temporal", "spatial"):
        whole[name], last[name] = np.empty_like(nest.temporal), np.empty_like(nest.temporal)
    for level in range(len(nest.temporal)):
        for name, factors in (("spatial", nest.spatial), ("temporal", nest.temporal)):
            outermost = level == len(nest.temporal) - 1 and name == "temporal"
            whole[name][level] = left if outermost else np.minimum(factors[level], left)
            last[name][level] = (left - 1) % whole[name][level] + 1
            left = np.ceil(left / whole[name][level])
    return ResidualNest(replace(nest, temporal=whole["temporal"], spatial=whole["spatial"]), last["temporal"],
                        last["spatial"])
