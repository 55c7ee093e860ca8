"""A dense design that stands in for a sparse one where candidates are searched."""

from __future__ import annotations

import math
from dataclasses import replace

from fadiff_mapper.spec.arch import Architecture, StorageLevel
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.sparse_optimizations import LevelOptimizations, SparseOptimizations


def with_room_for_zeros(arch: Architecture, problem: Problem, sparse: SparseOptimizations) -> Architecture:
    """The architecture with memories as large as compression makes them, so that zeros find room, too.

    Args:
        arch: The architecture.
        problem: The layer with its densities.
        sparse: The formats of the levels.

    Returns:
        The same architecture where nothing is compressed. Otherwise a size grows by the ratio of words to expected
        nonzeros of tiles of all tensors, all of one size.
    """
    return replace(arch, levels=tuple(_roomy(level, problem, options)
                                      for level, options in zip(arch.levels, sparse.levels, strict=True)))


def _roomy(level: StorageLevel, problem: Problem, options: LevelOptimizations) -> StorageLevel:
    names = problem.dataspace_names()
    kept = sum(problem.density(name).density if name in options.formats and options.formats[name].compressed else 1.0
               for name in names)
    if level.size is None or kept == len(names):
        return level
    return replace(level, size=math.ceil(level.size * len(names) / max(kept, 0.1)))
