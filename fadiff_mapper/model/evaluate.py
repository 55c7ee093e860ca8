"""The evaluation of a batch of mappings: the steps that all models share, and the numbers of `timeloop-model`.

Tests compare every count, cycle and rejection with recorded runs of the real program
(`tests/model/test_recorded_timeloop.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.access_counts import (
    Counts,
    Delivery,
    Rounding,
    accesses,
    bypassed,
    element_words,
    holding,
)
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.interconnects import InterconnectUse, interconnect_use
from fadiff_mapper.model.legality import LegalityCheck, Room, limits, untouched_sums
from fadiff_mapper.model.loop_nest import Active, Array, Nest, active_parts, all_active, nest_arrays, pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tiles import Tiles, average_usage, tiles

if TYPE_CHECKING:
    from fadiff_mapper.model.sparse_savings import Saving
    from fadiff_mapper.model.sparse_tiles import StoredTile

WORTH_A_THREAD = 1024
"""Least mappings for another thread: with fewer, its start costs more than it saves."""


def _nearest(values: np.ndarray) -> np.ndarray:
    """Half away from zero, as C++ rounds (counts are not negative; NumPy would round half to even)."""
    floor = np.floor(values)
    rounded: np.ndarray = floor + (values - floor >= 0.5)
    return rounded


EXACT = Rounding(nearest=_nearest, down=np.floor, up=np.ceil)
"""Timeloop's rounding of counts, vector accesses and cycles."""

UNROUNDED = Rounding(nearest=lambda counts: counts, down=lambda counts: counts, up=np.ceil)
"""No rounding of counts, which are averages over instances; vector accesses and cycles are still rounded up."""

MOST_CALLS = _kernel.MOST_CALLS
"""Most steps of a walk through residual factors; longer walks are refused. Timeloop has no such limit."""


@dataclass(frozen=True)
class NestEvaluation:
    """Results of every model for a batch; see the classes of the fields for axes and units."""

    tile: Tiles     # Boxes and sizes of tiles, instances in use and compute cycles
    counts: Counts  # Reads, fills and updates of every level
    price: Callable[[], Cost]  # Computes `cost`

    @cached_property
    def cost(self) -> Cost:
        """Cycles, and energy without interconnects; computed on demand, as sparse designs do not need it."""
        with np.errstate(divide="ignore", invalid="ignore"):  # counts of illegal mappings may be nan
            return self.price()


@dataclass(frozen=True)
class Evaluation(NestEvaluation):
    """All results of a batch."""

    nest: Nest                              # The mappings
    held: Array                             # [L, T, B]. Whether the level holds the data space: it keeps it, and
                                            # Timeloop does not forget it there (`access_counts.holding`)
    raw: Delivery                           # Traffic over every boundary as if every level kept every data space
    tally: Delivery                         # Traffic after levels that bypass a data space have passed theirs outwards
    network: InterconnectUse | None = None  # Traffic of the interconnects; None if it was not requested and none of
                                            # them costs energy
    checks: Sequence[LegalityCheck] = ()    # All limits in Timeloop's order, none in the smooth model; numbers of
                                            # illegal mappings have no meaning

    @cached_property
    def legal(self) -> np.ndarray:
        """Whether Timeloop accepts the mapping, [B]."""
        result: np.ndarray = ~np.any([check.broken for check in self.checks], axis=0)
        return result

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


@dataclass(frozen=True, kw_only=True)
class SparseEvaluation(Evaluation):
    """All results of one mapping on a sparse design (`sparse_accesses.evaluate_sparse`).

    Counts remain the dense ones. The fields here split them by kind, over the whole run, in accesses per instance, 0
    where a data space is not kept. Axes as in `sparse_accesses.py`.
    """

    columns: tuple[AnyMapping[int, StoredTile], ...]  # For every data space its tiles by level
    most: np.ndarray                # [L + 1, T, 2]. Most instances in use along X and Y; entry 0 is the arithmetic,
                                    # entry l + 1 is level l
    average: np.ndarray             # [L + 1, T]. Instances in use on average
    savings: AnyMapping[tuple[int, int], Saving]  # Savings by (level, data space)
    words: np.ndarray               # [K, A, L, T]. Words
    units: np.ndarray               # [K, A, L, T, R, 2]. Accesses to metadata and to payloads of every rank, innermost
                                    # rank first
    reductions: np.ndarray          # [L, T]. Sums of an arriving word and a stored word
    compressions: np.ndarray        # [L, T]. Words that are compressed on their way outwards
    wrapped: np.ndarray             # [L, T]. Whether some count is negative
    addresses: np.ndarray           # [L, T]. Addresses generated per cluster
    format_shares: np.ndarray       # [3, L, T]. Shares of metadata in reads and writes together, in reads, in writes
    computes: tuple[int, int, int]  # Computes by kind, all units together, without computes of which no operand
                                    # exists


def evaluate_with(layer: PreparedLayer, nest: Nest, tile: Tiles, raw: Delivery, rounding: Rounding,
                  active: Active) -> Evaluation:
    """Bypass, accesses and cost of a batch of nests.

    The exact and the smooth evaluation differ in the tally `raw` of every boundary before bypassing (windows that slide
    or are shared, links between neighbours), and in the rounding. Tiles of a batch with residual factors have the
    average instances in use. `active`: the loops that may exceed 1. Energy is without interconnects, and no
    limits are checked.
    """
    held = holding(nest, layer.reuse)
    tally = bypassed(raw, held.keep, layer.reuse)
    counts = accesses(held, layer.projection, tile, raw, tally, rounding, active, layer.reuse)
    if layer.machine.element_words is not None:
        counts = replace(counts, words=element_words(counts, nest, layer.projection, *layer.machine.element_words))
    return Evaluation(tile, counts, lambda: cost(counts, tile, layer.machine, rounding), nest, held.keep, raw, tally)


def exact_traffic(layer: PreparedLayer, nest: Nest, with_hops: bool) -> tuple[Delivery, np.ndarray, np.ndarray]:
    """Counts the traffic of a batch as Timeloop does, as if every level kept every data space, in compiled code.

    Without residual factors by closed forms where these hold; elsewhere by the walk of sliding windows
    (`kernel/window_walk.hpp`) and receiver by receiver (`kernel/receivers.hpp`). With residual factors by a walk
    through the loops (`kernel/residual_walk.hpp`). `with_hops` also counts the hops of every fan-out (else 0), and
    windows in full below levels that bypass the data space: bypassing rescales their words, not their hops.

    Returns the tally of every boundary, with as many kinds as any mapping needs; the demand of one receiver below each
    boundary in words, [L, T, B], 0 with residual factors; and the steps of walks through loops with residual factors,
    [B], 0 without.
    """
    wanted, words, multicast, scatter, hop_words, links, calls = _kernel.traffic(layer.compiled, nest_arrays(nest),
                                                                                 with_hops)
    return Delivery(words, multicast, scatter, nest.spatial.prod(axis=1)[:, None], links, hop_words), wanted, calls


def evaluate_nest(layer: PreparedLayer, nest: Nest, *, details: bool = False, room: Room | None = None,
                  rounding: Rounding = EXACT) -> Evaluation:
    """Evaluates one batch, as `timeloop-model` does.

    `details`: count the hops of every interconnect, priced or not, for `stats.stats_of`. `room`: words that tensors of
    other layers leave. `rounding`: `UNROUNDED` gives the numbers of a batch with residual factors without
    Timeloop's faults: instances and receivers are averages in use, no access is rounded, and multiply-accumulates are
    those of the problem. Illegal mappings have results, too, without meaning if they have residual factors.
    """
    with_hops = details or layer.network_priced
    active = active_parts(nest)
    raw, _, calls = exact_traffic(layer, nest, with_hops)
    if nest.residual and rounding is UNROUNDED:  # fractional shares must not depend on the batch
        active = all_active(nest)
    tile = tiles(nest, layer.projection, active)
    if nest.residual:
        tile, receivers = average_usage(tile, nest)
        if rounding is EXACT:
            tile = replace(tile, computes=np.trunc(tile.computes), average=np.trunc(tile.instances))
        else:
            tile = replace(tile, computes=np.full(nest.batch, float(layer.problem.computes)))
            raw = replace(raw, fan=receivers[:, None])
    # A bypassed level divides by a traffic of 0 if no level keeps the data space; such columns are illegal.
    with np.errstate(divide="ignore", invalid="ignore"):
        found = evaluate_with(layer, nest, tile, raw, rounding, active)
        network = interconnect_use(layer.interconnects, layer.projection, found.held, found.tally, found.counts,
                                   tile.instances) if with_hops else None
        checks = [LegalityCheck("calls", layer.arch.arithmetic.name, calls, MOST_CALLS,
                                calls > MOST_CALLS)] if nest.residual else []
        checks += untouched_sums(layer.projection, layer.arch, nest, found.held, found.tally, tile.instances,
                                 found.counts.partition)
        checks += limits(replace(nest, keep=found.held), np.ceil(layer.machine.needed(tile.size)) * found.held, tile,
                         layer.arch, room)
    return replace(found, network=network, checks=checks)


def evaluate_one(arch: Architecture, problem: Problem, tables: Tables, mapping: Mapping, *, details: bool = False,
                 residuals: bool = False) -> tuple[PreparedLayer, Evaluation]:
    """Evaluates one mapping with the reuse that its directives leave on; `details` as in `evaluate_nest`."""
    layer = prepare_layer(arch, problem, tables, reuse_of(mapping, problem.dataspace_names()))
    return layer, evaluate_nest(layer, pack([mapping], problem, residuals=residuals), details=details)


@dataclass(frozen=True)
class Scores:
    """The numbers of a batch that a search compares."""

    cycles: np.ndarray               # [B]. Cycles of the whole run
    energy: np.ndarray               # [B]. Total energy in pJ
    last_level_accesses: np.ndarray  # [B]. Accesses of the outermost level in words
    legal: np.ndarray                # [B]. Whether Timeloop accepts the mapping
    excess: np.ndarray               # [B]. Octaves by which the mapping breaks its limits, see
                                     # `kernel/evaluate.cpp:refuse`; 0 where legal


def score(layer: PreparedLayer, nest: Nest, *, threads: int = 1, room: Room | None = None,
          sparse: _kernel.SparseTables | None = None) -> Scores:
    """Cycles, energy and legality of a batch of any size, by the compiled kernel.

    `threads` share the batch, without effect on the results; `room`: as in `evaluate_nest`.
    `sparse`: the design's treatment of zeros (`sparse_design.SparseDesign.compiled`), with the whole capacity as
    room. Scores are in the order of the batch; cycles, energy and accesses of illegal mappings are 0.
    """
    batch = nest.batch
    out = np.empty((5, batch))
    words, counted = (None, None) if room is None else (room.words, room.counted)
    score_part = partial(_kernel.score, layer.compiled, nest_arrays(nest), words, counted, out, all=False,
                         sparse=sparse)
    size = max(WORTH_A_THREAD, -(-batch // threads))
    if size >= batch:
        score_part(0, batch)
    else:
        from concurrent.futures import ThreadPoolExecutor  # a first mapping needs none
        begins = range(0, batch, size)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(score_part, begins, [*begins[1:], batch]))
    return Scores(out[0], out[1], out[2], out[4].astype(np.bool_), out[3])
