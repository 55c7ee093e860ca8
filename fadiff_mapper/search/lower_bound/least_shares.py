"""The bound on a sparse design: the least share of the dense accesses and computes that it carries out.

Three mechanisms remove accesses. Formats do not store zeros, and tiles that a parent's format marks as empty are not
sent: at least the expected density of the tensor remains. Gating and skipping leave at least the probability that
single words of all leaders are nonzero, as larger tiles are empty less often. Computes on two nonzeros always happen.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.sparse_optimizations import FIXED, HYPERGEOMETRIC
from fadiff_mapper.model.sparse_accesses import TOLERANCE
from fadiff_mapper.model.sparse_design import SparseDesign, millionths
from fadiff_mapper.search.lower_bound.assemble import LeastShares, LowerBound, lower_bound
from fadiff_mapper.search.mapspace.build import MapSpace

SLACK = 1 - 1e-9
"""Factor on every share: sums of probabilities may differ in their last bits."""
MILLIONTH = 6e-7
"""The most that rounding to a millionth takes from a probability, with a margin."""
LARGEST_ROUNDED = 1 << 20
"""Largest tile in words for which the rounding of its least occupancy is checked; sparser tensors count as unsafe. A
limit on time and memory, set by hand."""


def sparse_lower_bound(design: SparseDesign, space: MapSpace, over: Over = never) -> LowerBound | None:
    """Bounds all metrics of one layer on a sparse design from below.

    It is the bound of the dense layer with the least remaining shares of accesses and computes, in memories as large as
    compression makes them.

    Returns None if no bound is proven: see `lower_bound`, and for designs with spatial skipping. Raises OutOfTime.
    """
    if design.skips_instances:
        return None
    roomy = replace(space, architecture=with_room_at_most(design, design.layer.arch))
    return lower_bound(design.layer, roomy, least_shares(design), over=over)


def least_shares(design: SparseDesign) -> LeastShares:
    """The shares of a sparse design without spatial skipping."""
    problem, levels = design.layer.problem, design.sparse.levels
    expected = [density * SLACK for density in design.word_densities]
    known = [least_sent(design, t) * SLACK for t in range(len(expected))]
    stored = np.ones((len(levels), len(expected)))
    for t, space in enumerate(problem.dataspaces):
        formats = [options.formats.get(space.name) for options in levels]
        for level, own in enumerate(formats):
            if any(outer is not None for outer in formats[level + 1:]):
                stored[level, t] = known[t]
            elif own is not None:
                stored[level, t] = expected[t]
            if own is not None and own.compressed and design.layer.arch.levels[level].block_size > 1:
                stored[level, t] *= known[t]
    left, names = np.ones(len(expected)), problem.dataspace_names()
    targets = set()
    for options in levels:
        for choice in (one for group in (*options.gating, *options.skipping) for one in group):
            target = names.index(choice.target)
            targets.add(target)
            left[target] = min(left[target], math.prod(expected[names.index(name)] for name in choice.conditions))
    accessed = stored * left
    # Reads of outputs are rounded down; few of them may be rounded to none.
    reads = np.where([space.read_write and t in targets for t, space in enumerate(problem.dataspaces)], 0.0, accessed)
    # Computes whose operands are both nonzero always happen.
    computed = 1 - 3 * TOLERANCE
    for density, written in zip(design.word_densities, design.layer.projection.read_write, strict=True):
        if not written:
            computed *= max(millionths(density) - MILLIONTH, 0.0)
    return LeastShares(reads, accessed, accessed, computed, max(known, default=1.0))


def least_sent(design: SparseDesign, tensor: int) -> float:
    """The least expected share of a tensor's words that is sent if empty tiles are not sent.

    Timeloop takes the first probability for that of the empty tile, even if tiles cannot be empty (see
    `sparse_tiles.fill`). In such cases the share is unknown, and 0 is returned.
    """
    model = design.models[tensor]
    if model.kind == HYPERGEOMETRIC:
        # Tiles of at most half the words can be empty, as all nonzeros fit outside; windows overlap and may be larger.
        safe = 2 * model.nonzeros <= model.words and not design.layer.projection.windowed[tensor]
    elif model.kind != FIXED or model.density <= 2 / LARGEST_ROUNDED:
        safe = False
    else:  # safe if no tile with one nonzero or more has a least occupancy that division rounds to 0
        words = np.arange(math.floor(1 / model.density), math.ceil(2 / model.density) + 1, dtype=np.float64)
        below = np.floor(words * model.density)
        safe = bool(((below != 1) | (np.floor(below / words * words) == 1)).all())
    return design.word_densities[tensor] if safe else 0.0


def with_room_at_most(design: SparseDesign, arch: Architecture) -> Architecture:
    """The architecture with memories enlarged to hold as many uncompressed words as they may hold compressed.

    Where anything is compressed, sizes grow by the inverse of the least density.
    """
    levels = []
    for level, options in zip(arch.levels, design.sparse.levels, strict=True):
        densities = [density for density, name in zip(
            design.word_densities, design.layer.problem.dataspace_names(), strict=True) if name in options.formats]
        least = min(densities, default=1.0)
        size = level.size if level.size is None or least >= 1 else (
            math.ceil(level.size / (least * SLACK)) if least > 0 else None)
        levels.append(replace(level, size=size))
    return replace(arch, levels=tuple(levels))
