"""Sparse tensors in the differentiable model: what is left of the dense counts on average, as constant factors."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.loop_nest import array_namespace


@dataclass(frozen=True)
class ExpectedShares:
    """Shares of the dense numbers that are left, the same for all mappings.

    Attributes:
        accesses: Of the words read, filled and updated, [L, T].
        computes: Of the multiply-accumulates that take energy.
        cycles: Of the cycles of the arithmetic.
    """

    accesses: np.ndarray
    computes: float
    cycles: float

    def of(self, counts: Counts) -> Counts:
        """The counts that are left; partitions stay."""
        left = array_namespace(counts.reads).asarray(self.accesses[..., None])
        return replace(counts, reads=counts.reads * left, fills=counts.fills * left, updates=counts.updates * left,
                       address_generations=counts.address_generations * left)
