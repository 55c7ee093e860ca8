"""The expected shares of a sparse design for the differentiable model, as if every tile were a single word."""

from __future__ import annotations

import math

import numpy as np

from fadiff_mapper.model.expected_shares import ExpectedShares
from fadiff_mapper.sparse.complete_nest import unit_box
from fadiff_mapper.sparse.evaluate_sparse import SparseDesign


def expected_shares(design: SparseDesign) -> ExpectedShares:
    """Shares of the dense counts that a sparse design leaves.

    Words that a format stores: the density of the tensor. Accesses that a level at or outside saves: the densities of
    the leaders of the option that saves most. Metadata cost nothing here. The mapping decides which tiles are empty;
    only the exact evaluation counts them.

    Args:
        design: The layer on its design.

    Returns:
        Shares by level and data space.
    """
    problem, names = design.layer.problem, design.layer.problem.dataspace_names()
    density = [min(model.expected(unit_box(ranks)), 1.0)
               for model, ranks in zip(design.models, design.layer.projection.ranks, strict=True)]
    accesses, saved = np.ones((len(design.sparse.levels), len(names))), np.ones(len(names))
    for level in reversed(range(len(accesses))):
        options = design.sparse.levels[level]
        for group in (*options.gating, *options.skipping):
            for one in group:
                t = names.index(one.target)
                saved[t] = min(saved[t], math.prod(density[names.index(name)] for name in one.conditions))
        stored = [density[t] if name in options.formats else 1.0 for t, name in enumerate(names)]
        accesses[level] = saved * stored
    operands = [t for t, space in enumerate(problem.dataspaces) if not space.read_write]
    reached, nonzero = (math.prod(float(values[t]) for t in operands) for values in (saved, density))
    computes = nonzero if design.sparse.gates_computes or design.sparse.skips_computes else reached
    return ExpectedShares(accesses, computes, nonzero if design.sparse.skips_computes else reached)
