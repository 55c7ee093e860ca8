"""The exact evaluation of mappings with residuals: the numbers of `timeloop-model` for a batch of them.

The words that cross every boundary come from a walk through the loops (`kernel/residual_walk.hpp`); everything after it
is the dense evaluation's. Tests compare every number with recorded runs of the real program
(`tests/imperfect/test_recorded_residuals.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.imperfect.average_usage import AverageUsage, average_usage
from fadiff_mapper.imperfect.residual_nest import ResidualNest
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.access_counts import (
    Counts,
    Delivery,
    Rounding,
    accesses,
    bypassed,
    from_outside,
    holding,
    sum_kinds,
)
from fadiff_mapper.model.bandwidth import Bandwidth, bandwidth
from fadiff_mapper.model.energy_latency import cost_of
from fadiff_mapper.model.exact.evaluate import EXACT, Evaluation
from fadiff_mapper.model.exact.interconnect import interconnect_use
from fadiff_mapper.model.legality import LegalityCheck, legal, limits, untouched_sums
from fadiff_mapper.model.loop_nest import active_parts, nest_arrays
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.tile_boxes import tiles
from fadiff_mapper.model.usage import Usage

MOST_CALLS = float(1 << 24)
"""Calls of a walk; longer ones are refused. Equal to `MOST_CALLS` of `kernel/residual_walk.hpp`. Timeloop has no such
limit."""

UNROUNDED = Rounding(nearest=lambda counts: counts, down=lambda counts: counts, up=lambda counts: counts)
"""Counts as they are, for `averaged`."""


@dataclass(frozen=True)
class ResidualWalks:
    """Findings of the walks through a batch of mappings, before any average or rounding.

    Attributes:
        batch: The mappings.
        delivery: The tally of every boundary, as if every level kept every data space, by whole fan-outs.
        size: [L, T, B]. Words of the tile of every level.
        across: [L, T, B]. Words of the tiles of all receivers of one instance.
        use: Instances in use and computes, as Timeloop rounds them.
        iterations: [B]. Computes of the first unit of the arithmetic.
        calls: [B]. Calls of the walk.
        with_hops: Whether hops were counted.
    """

    batch: ResidualNest
    delivery: Delivery
    size: np.ndarray
    across: np.ndarray
    use: AverageUsage
    iterations: np.ndarray
    calls: np.ndarray
    with_hops: bool

    def forgotten(self, computes: int) -> np.ndarray:
        """[B]. Multiply-accumulates of the problem over those that are walked, at least 1.

        The iterations of the first unit times the average units are too few where last runs have fewer of both.
        """
        return np.asarray(np.maximum(computes / np.maximum(self.use.units * self.iterations, 1), 1))


def walk_residuals(layer: PreparedLayer, batch: ResidualNest, *, details: bool = False) -> ResidualWalks:
    """Walks through every mapping of a batch.

    Args:
        layer: The prepared layer.
        batch: B mappings of it.
        details: Count the hops of every interconnect, priced or not.
    """
    nest, with_hops = batch.nest, details or layer.network_priced
    words, multicast, scatter, hop_words, links, size, across, iterations, calls = _kernel.residual_traffic(
        layer.compiled, *nest_arrays(nest), batch.temporal_last, batch.spatial_last, with_hops)
    across[1:] = np.where(across[1:] > 0, across[1:], size[:-1])  # without spatial loops
    fan = nest.spatial.prod(axis=1)[:, None]
    return ResidualWalks(batch, Delivery(words, multicast, scatter, fan, links, hop_words), size, across,
                         average_usage(batch, iterations), iterations, calls, with_hops)


def evaluate_residuals(layer: PreparedLayer, batch: ResidualNest, *, details: bool = False) -> Evaluation:
    """Evaluates one batch, as `timeloop-model` does.

    Args:
        layer: The prepared layer.
        batch: B mappings of it.
        details: Count the hops of every interconnect, priced or not.

    Returns:
        All results; those of mappings that break a limit mean nothing.
    """
    return as_timeloop(layer, walk_residuals(layer, batch, details=details))


def as_timeloop(layer: PreparedLayer, walks: ResidualWalks) -> Evaluation:
    """The numbers of `timeloop-model` from the walks of B mappings of a layer."""
    return _evaluated(layer, walks, walks.use, walks.delivery, EXACT)


def averaged(layer: PreparedLayer, walks: ResidualWalks) -> Evaluation:
    """The same numbers without the faults of rounding.

    Instances and receivers are those in use on average, no count is rounded down, and multiply-accumulates are those of
    the problem. Mappings without residuals have Timeloop's numbers, but for the rounding of counts.

    Args:
        layer: The prepared layer.
        walks: Of B mappings.
    """
    use = walks.use
    receivers = np.concatenate([use.units[None], use.exact[:-1]]) / use.exact
    use = replace(use, average=use.exact, done=np.full(walks.batch.nest.batch, float(layer.problem.computes)))
    return _evaluated(layer, walks, use, replace(walks.delivery, fan=receivers[:, None]), UNROUNDED)


def _evaluated(layer: PreparedLayer, walks: ResidualWalks, use: AverageUsage, raw: Delivery,
               rounding: Rounding) -> Evaluation:
    """The evaluation from the words over every boundary on, which is the dense one's but for averages."""
    nest = holding(walks.batch.nest, layer.reuse)
    active = active_parts(nest)
    tile = replace(tiles(nest, layer.projection, active), size=walks.size, across_size=walks.across)
    laid_out = Usage(use.expansion_x, use.expansion_y, use.compute_cycles)
    with np.errstate(divide="ignore", invalid="ignore"):
        tally = bypassed(raw, nest.keep, layer.reuse)
        counts = accesses(nest, layer.projection, tile, raw, tally, use.instances, rounding, active, layer.reuse)
        asked = _asked(counts, use, laid_out, layer, rounding)
        spent = cost_of(counts, use, laid_out, layer.machine, asked, use.computes, EXACT)
        network = interconnect_use(layer.interconnects, layer.projection, nest.keep, tally, counts.partition,
                                   use.instances) if walks.with_hops else None
        outputs = [t for t, written in enumerate(layer.projection.read_write) if written]
        touched = sum_kinds(tally.words) + from_outside(tally.links) / use.instances[:, None]
        checks = [LegalityCheck("calls", layer.arch.arithmetic.name, walks.calls, MOST_CALLS, walks.calls > MOST_CALLS),
                  *untouched_sums(outputs, nest, layer.arch, touched, counts.partition),
                  *(_on_average(check, layer, use) for check in limits(nest, tile, laid_out, layer.arch))]
    return Evaluation(walks.batch.nest, nest.keep, tile, use, raw, tally, counts, spent, network, checks, legal(checks))


def _asked(counts: Counts, use: AverageUsage, laid_out: Usage, layer: PreparedLayer, rounding: Rounding) -> Bandwidth:
    """Bandwidth that an average instance asks for: words are rounded up after scaling."""
    busy = (laid_out.instances / use.instances)[:, None]
    reads, writes = rounding.up(counts.reads / busy), rounding.up((counts.updates + counts.fills) / busy)
    return bandwidth(replace(counts, reads=reads, updates=writes, fills=np.zeros_like(writes)), use, layer.machine)


def _on_average(check: LegalityCheck, layer: PreparedLayer, use: AverageUsage) -> LegalityCheck:
    """The check with average instances where Timeloop compares these."""
    if check.constraint != "instances":
        return check
    amount = use.average[layer.arch.level_names().index(check.level)]
    return replace(check, amount=amount, broken=amount > check.limit)
