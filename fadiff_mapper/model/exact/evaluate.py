"""The exact evaluation: the numbers of `timeloop-model` for a whole batch of mappings of one problem at once.

Tests compare every count, cycle and rejection with recorded runs of the real program
(`tests/model/test_recorded_timeloop.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.model.access_counts import Counts, Delivery, Rounding, delivery, from_outside, sum_kinds
from fadiff_mapper.model.energy_latency import Cost, Usage, outermost_accesses
from fadiff_mapper.model.exact.interconnect import InterconnectUse, interconnect_use
from fadiff_mapper.model.legality import LegalityCheck, Room, excess, legal, limits, outputs_with_holes, untouched_sums
from fadiff_mapper.model.loop_nest import Active, Nest, active_parts, pack
from fadiff_mapper.model.nest_evaluation import NestEvaluation, evaluate_with
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.temporal_reuse import demand
from fadiff_mapper.model.tile_boxes import Tiles
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import Tables

CHUNK = 8192
"""Mappings per step of a large batch: few enough that the arrays stay in the processor's cache.
`benchmarks/evaluation_throughput.py` measures mappings per second."""

WORTH_A_THREAD = 1024
"""Mappings below which another thread is expected to cost more than it brings; a choice of the small batches of a
search, of which no measurement is kept."""


def _nearest(values: np.ndarray) -> np.ndarray:
    """Half away from zero, as C++ rounds (counts are not negative; NumPy would round half to even)."""
    floor = np.floor(values)
    rounded: np.ndarray = floor + (values - floor >= 0.5)
    return rounded


EXACT = Rounding(nearest=_nearest, down=np.floor, up=np.ceil)
"""Timeloop's rounding of counts, vector accesses and cycles."""


@dataclass(frozen=True)
class Evaluation:
    """All exact results of a batch; see the classes named for axes and units.

    Attributes:
        nest: The mappings.
        tile: Boxes and sizes of tiles.
        use: Instances in use and compute cycles.
        raw: Traffic over every boundary as if every level kept every data space.
        tally: Traffic after bypassing.
        counts: Reads, fills and updates of every level.
        cost: Cycles, and energy without interconnects.
        network: Traffic of the interconnects; None where it was not asked for and none of them costs energy.
        checks: All limits in Timeloop's order.
        legal: [B]. Whether Timeloop accepts the mapping; the numbers of the others mean nothing.
    """

    nest: Nest
    tile: Tiles
    use: Usage
    raw: Delivery
    tally: Delivery
    counts: Counts
    cost: Cost
    network: InterconnectUse | None
    checks: list[LegalityCheck]
    legal: np.ndarray

    @property
    def cycles(self) -> np.ndarray:
        """Cycles of the whole run, [B]."""
        cycles: np.ndarray = self.cost.cycles
        return cycles

    @property
    def energy(self) -> np.ndarray:
        """Total energy in pJ, interconnects included, [B]."""
        energy: np.ndarray = self.cost.energy if self.network is None else self.cost.energy + self.network.total
        return energy


def evaluate_nest(layer: PreparedLayer, nest: Nest, *, details: bool = False, room: Room | None = None) -> Evaluation:
    """Evaluates one batch, as `timeloop-model` does.

    Args:
        layer: The prepared layer.
        nest: B mappings of it, as a NumPy batch.
        details: Count the hops of every interconnect, priced or not, as `stats.stats_of` needs them.
        room: Words that may be filled where tensors of other layers lie already; None leaves all to the mapping.

    Returns:
        All results, of illegal mappings too.
    """
    with_hops = details or layer.network_priced
    active = active_parts(nest)
    if with_hops:  # Timeloop counts the hops of every boundary before bypassing, kept data space or not
        active = replace(active, counted=np.ones_like(active.counted))
    # A bypassed level divides by a traffic of 0 where nothing is kept; such columns are illegal.
    with np.errstate(divide="ignore", invalid="ignore"):
        shared = evaluate_with(layer, nest, active,
                               lambda tile: _traffic(layer, nest, tile, active, with_hops), EXACT)
        network = interconnect_use(layer.arch, layer.projection, nest.keep, shared.tally, shared.counts.partition,
                                   shared.use.instances) if with_hops else None
        checks = [*_untouched(layer, nest, shared), *limits(nest, shared.tile, shared.use, layer.arch, room)]
    return Evaluation(nest, shared.tile, shared.use, shared.raw, shared.tally, shared.counts, shared.cost, network,
                      checks, legal(checks))


def _untouched(layer: PreparedLayer, nest: Nest, shared: NestEvaluation) -> list[LegalityCheck]:
    """`untouched_sums` of the outputs that may have untouched words; nothing for all usual layers."""
    outputs = outputs_with_holes(layer.projection)
    if not outputs:
        return []
    touched = sum_kinds(shared.tally.words) + from_outside(shared.tally.links) / shared.use.instances[:, None]
    return untouched_sums(outputs, nest, layer.arch, touched, shared.counts.partition)


def _traffic(layer: PreparedLayer, nest: Nest, tile: Tiles, active: Active, with_hops: bool) -> Delivery:
    """The tally before bypassing: closed forms, and where they may not hold the walk and the count by receivers."""
    # Imported here because these modules load numba, which nothing needs before the first evaluation.
    from fadiff_mapper.model.exact.sliding_window_walk import exact_demand
    from fadiff_mapper.model.exact.spatial_transfers import exact_delivery

    closed_form = demand(nest, layer.projection, tile, active, layer.reuse)
    wanted = exact_demand(nest, layer.projection, tile, closed_form, active, layer.reuse)
    raw = delivery(nest, layer.projection, wanted, active, layer.reuse)
    return exact_delivery(nest, layer.projection, layer.arch, tile, raw, active, layer.reuse, with_hops)


def evaluate_one(arch: Architecture, problem: Problem, tables: Tables, mapping: Mapping, *,
                 details: bool = False) -> tuple[PreparedLayer, Evaluation]:
    """Evaluates one mapping with the reuse that its directives leave on.

    Args:
        arch: The architecture.
        problem: The layer.
        tables: ERT and ART in force.
        mapping: A mapping of the problem onto the architecture.
        details: See `evaluate_nest`.

    Returns:
        The prepared layer, and the evaluation of a batch of this one mapping.
    """
    layer = prepare_layer(arch, problem, tables, reuse_of(mapping, problem.dataspace_names()))
    return layer, evaluate_nest(layer, pack([mapping], problem), details=details)


@dataclass(frozen=True)
class Scores:
    """The numbers of a batch that a search compares.

    Attributes:
        cycles: [B]. Cycles of the whole run.
        energy: [B]. Total energy in pJ.
        last_level_accesses: [B]. Accesses of the outermost level in words.
        legal: [B]. Whether Timeloop accepts the mapping.
        excess: [B]. Octaves by which the mapping breaks its limits, see `legality.excess`; 0 where legal.
    """

    cycles: np.ndarray
    energy: np.ndarray
    last_level_accesses: np.ndarray
    legal: np.ndarray
    excess: np.ndarray


def scores_of(evaluation: Evaluation) -> Scores:
    """The scores of an evaluated batch."""
    return Scores(evaluation.cycles, evaluation.energy, outermost_accesses(evaluation.counts, evaluation.use),
                  evaluation.legal, excess(evaluation.checks))


def score(layer: PreparedLayer, nest: Nest, *, threads: int = 1, room: Room | None = None) -> Scores:
    """Cycles, energy and legality of a batch of any size.

    Args:
        layer: The prepared layer.
        nest: B mappings of it.
        threads: Threads that share the batch, which is cut into chunks of at most `CHUNK` mappings. The results do
            not depend on it.
        room: Words that may be filled, see `evaluate_nest`.

    Returns:
        Scores in the order of the batch.
    """
    size = min(CHUNK, max(WORTH_A_THREAD, -(-nest.batch // threads)))
    parts = [slice(start, start + size) for start in range(0, nest.batch, size)]

    def scored(part: slice) -> Scores:
        return scores_of(evaluate_nest(layer, nest.take(part), room=room and room.take(part)))

    if threads > 1 and len(parts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            return _join(list(pool.map(scored, parts)))
    return _join([scored(part) for part in parts])


def _join(parts: Sequence[Scores]) -> Scores:
    """Scores of consecutive parts as those of the whole batch."""
    return Scores(*(np.concatenate([getattr(part, name) for part in parts]) for name in Scores.__dataclass_fields__))
