"""Lower bounds of the layers of one design, each by itself; in the store, so that no process computes one twice.

The process that proposes designs judges them by the bounds that the workers need again to leave designs out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import sqrt

from fadiff_mapper.analysis.lower_bound import lower_bound
from fadiff_mapper.design.evaluation.layer_entries import bound_key, design_digest
from fadiff_mapper.design.evaluation.least_figures import LeastFigures
from fadiff_mapper.design.evaluation.result_store import ResultStore
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.sparse.evaluate_sparse_spec import is_sparse
from fadiff_mapper.spec.spec import Spec


@dataclass(frozen=True)
class LayerBounds:
    """The bounds of the layers of one design.

    Attributes:
        specs: The design with every distinct layer.
        store: Bounds of earlier runs and of others that run now.
    """

    specs: Sequence[Spec]
    store: ResultStore

    @cached_property
    def design(self) -> str:
        """The hash of what all layers have in common."""
        return design_digest(self.specs[0])

    def of(self, layer: int) -> LeastFigures | None:
        """The proven bound of one layer that is not fused.

        Args:
            layer: Its number.

        Returns:
            The bound; None where none is proven, and for sparse designs.

        Raises:
            FadiffError: The store cannot be written.
        """
        spec = self.specs[layer]
        if is_sparse(spec):
            return None
        key = bound_key(self.design, spec)
        known = self.store.get(key) or {}
        try:
            return None if known["proven"] is None else LeastFigures(**known["proven"])
        except (TypeError, KeyError):  # not stored yet, or no entry of this kind
            least = _proven(spec)
            self.store.put(key, {"proven": least and asdict(least)})
            return least


def _proven(spec: Spec) -> LeastFigures | None:
    """The bound of a layer, computed; None where none is proven."""
    task = mapping_task(spec)
    bound = lower_bound(task.layer, task.space)
    return None if bound is None else LeastFigures(bound.energy, bound.delay, sqrt(bound.edp))
