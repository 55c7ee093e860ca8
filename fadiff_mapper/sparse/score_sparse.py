"""The numbers that a search compares, for a batch of mappings on a sparse design."""

from __future__ import annotations

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.exact.evaluate import Evaluation, Scores, evaluate_nest, scores_of
from fadiff_mapper.model.loop_nest import Nest, nest_arrays, unpack
from fadiff_mapper.sparse.evaluate_sparse import SparseDesign, SparseEvaluation, evaluate_sparse

REJECTED = 1.0
"""Octaves that a mapping which the sparse analysis rejects counts as illegal, besides those by which the dense tiles
break limits. Nothing was measured. Equal to the kernel's."""


def score_sparse(design: SparseDesign, nest: Nest) -> Scores:
    """Cycles, energy and legality of a batch, by the compiled kernel where it models the design.

    Args:
        design: The layer on its design.
        nest: B mappings of it.

    Returns:
        Scores in the order of the batch; numbers of illegal mappings are 0. Mappings on which Timeloop aborts count as
        illegal. A mapping that only compression makes fit is legal.
    """
    if design.compiled is None:
        return score_one_by_one(design, nest)
    out = np.empty((5, nest.batch))
    _kernel.SparseEvaluator(design.compiled).score(nest_arrays(nest), out)
    return Scores(out[0], out[1], out[2], out[4].astype(np.bool_), out[3])


def score_one_by_one(design: SparseDesign, nest: Nest) -> Scores:
    """The same from the whole evaluation of each mapping (`evaluate_sparse.py`)."""
    dense = evaluate_nest(design.layer, nest)
    cycles, energy, last = np.zeros((3, nest.batch))
    legal, excess = np.zeros(nest.batch, dtype=np.bool_), np.array(scores_of(dense).excess) + REJECTED
    for row in range(nest.batch):
        found = _evaluated(design, dense, nest, row)
        if found is not None:
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
