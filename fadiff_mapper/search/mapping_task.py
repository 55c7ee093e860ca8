"""One search problem: a layer prepared for evaluation, its map space, and further terms on its mappings.

Dense designs load no sparse module here, so that a first mapping is written at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.problem import single_letter
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.layer_family import LayerFamily, family_of, first_of
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace
from fadiff_mapper.search.mapspace.conflicts import conflicts

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse_design import SparseDesign


@dataclass(frozen=True)
class MappingTask:
    """One problem on one design, as `search_many.search_all` takes it."""

    layer: PreparedLayer                        # The problem on its architecture, prepared for evaluation
    space: MapSpace                             # The map space that is searched
    given: Nest | None = None                   # A nest of one row to start from besides random ones; None: only random
                                                # ones
    room: Room | None = None                    # Words of every level that resident tensors leave to the mapping,
                                                # arrays [L] and [L, T] (without the batch axis); None: the whole
                                                # capacity
    sums: tuple[float, float] | None = None     # Energy and cycles (E, T) of the network of the problem. The share
                                                # energy / E + delay / T, to first order the part in the network's EDP
                                                # (`fusion.prices`), is then minimised instead of the metrics.
                                                # Infinite if they do not count; None: the metrics of the options
    sparse: SparseDesign | None = None          # The layer on its sparse design; None for a dense design

    @cached_property
    def family(self) -> LayerFamily:
        """The problem as a cached family of one."""
        return family_of(self.layer, [self.space])

    @property
    def impossible(self) -> tuple[str, ...]:
        """The dimensions whose factors cannot multiply to their bounds; with any, the map space is empty."""
        tables = self.family.factors
        every = np.arange(tables.bound.shape[1])
        possible = tables.completable[0, 0, every, tables.bound[0]].any(axis=-1)
        return tuple(compress(self.space.problem.dimensions, ~possible))


def mapping_task(spec: Spec, constraints: Constraints | None = None, *, room: Room | None = None,
                 sums: tuple[float, float] | None = None, layer: PreparedLayer | None = None) -> MappingTask:
    """Prepares the problem of a spec for a search; `layer` is the problem on its dense design if already prepared.

    `constraints` replace those of the spec for the map space, except for reuse (`no_reuse`). The map space may be
    empty: contradictions are not checked (see `mapspace.conflicts`).
    """
    layer, sparse = layer or layer_of(spec), None
    if spec.sparse is not None and spec.sparse.applied:
        from fadiff_mapper.model.sparse_design import prepare_sparse
        sparse = prepare_sparse(layer, spec.sparse, spec.tables)
    space = build_mapspace(layer.arch, spec.problem, spec.constraints if constraints is None else constraints)
    return MappingTask(layer, space, None, room, sums, sparse)


def checked_task(spec: Spec, layer: PreparedLayer | None = None, over: Over = never) -> MappingTask:
    """`mapping_task`, checked: FadiffError if no mapping can meet the constraints or be written; OutOfTime."""
    if not single_letter(spec.problem.dimensions):
        raise FadiffError(f"the dimensions {listed(spec.problem.dimensions)} cannot be ordered in Timeloop's mapping "
                          "files; accepted: names of one letter")
    task = mapping_task(spec, layer=layer)
    if first_of(task.family, 0, task.sparse) is not None:
        return task  # a legal mapping is the fastest proof that nothing contradicts
    if contradictions := conflicts(task.space, over):
        raise FadiffError("\n".join(f"no mapping can meet the constraints: {reason}" for reason in contradictions))
    if task.impossible:
        raise FadiffError("no mapping can meet the constraints: the factors that constraints and fan-outs allow do not "
                          f"multiply to the bounds of {listed(task.impossible)}")
    return task
