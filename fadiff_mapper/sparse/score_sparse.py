"""The numbers that a search compares, for a batch of mappings on a sparse design."""

from __future__ import annotations

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.evaluate import Evaluation, Scores, evaluate_nest, scores_of
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.sparse.evaluate_sparse import SparseDesign, SparseEvaluation, evaluate_sparse

REJECTED = 1.0
"""Octaves that a mapping which only the sparse analysis rejects counts as illegal. Nothing was measured."""


def score_sparse(design: SparseDesign, nest: Nest) -> Scores:
    """Cycles, energy and legality of a batch, mapping by mapping.

    Args:
        design: The layer on its design.
        nest: B mappings of it.

    Returns:
        Scores in the order of the batch. Mappings on which Timeloop aborts count as illegal. A mapping that only
        compression makes fit is legal.
    """
    dense = evaluate_nest(design.layer, nest)
    scores = scores_of(dense)
    cycles, energy, last, excess = (np.array(values, dtype=np.float64) for values in (
        scores.cycles, scores.energy, scores.last_level_accesses, scores.excess))
    legal = np.zeros(nest.batch, dtype=np.bool_)
    for row in range(nest.batch):
        found = _evaluated(design, dense, nest, row)
        if found is None:
            excess[row] += REJECTED
        else:
            legal[row], excess[row] = True, 0.0
            cycles[row], energy[row], last[row] = found.cycles, found.energy, _outermost_accesses(found)
    return Scores(cycles, energy, last, legal, excess)


def _evaluated(design: SparseDesign, dense: Evaluation, nest: Nest, row: int) -> SparseEvaluation | None:
    try:
        return evaluate_sparse(design, dense, row, unpack(nest, row, design.layer.problem))
    except FadiffError:
        return None


def _outermost_accesses(found: SparseEvaluation) -> float:
    """Accesses of the outermost level: the dense ones, as Timeloop counts them."""
    outermost = len(found.levels) - 1
    return float(sum(int(found.use.levels[outermost][t].average * (
        counts[outermost].reads + counts[outermost].updates + counts[outermost].fills))
        for t, counts in enumerate(found.counts) if outermost in counts))
