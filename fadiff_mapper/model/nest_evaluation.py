"""From loop nests to access counts, cycles and energy: the pipeline that the exact and the smooth evaluation share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fadiff_mapper.model.access_counts import Counts, Delivery, Rounding, accesses, bypassed, holding
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.loop_nest import Active, Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.tile_boxes import Tiles, tiles
from fadiff_mapper.model.usage import Usage, usage


@dataclass(frozen=True)
class NestEvaluation:
    """Results of the shared equations for a batch; see the classes named for axes and units.

    Attributes:
        nest: The mappings, without levels that Timeloop forgets (`access_counts.holding`).
        tile: Boxes and sizes of tiles.
        use: Instances in use and compute cycles.
        raw: Traffic over every boundary as if every level kept every data space.
        tally: Traffic after levels that bypass a data space have handed theirs outwards.
        counts: Reads, fills and updates of every level.
        cost: Cycles and energy.
    """

    nest: Nest
    tile: Tiles
    use: Usage
    raw: Delivery
    tally: Delivery
    counts: Counts
    cost: Cost


def evaluate_with(layer: PreparedLayer, nest: Nest, active: Active, traffic: Callable[[Tiles], Delivery],
                  rounding: Rounding, use: Usage | None = None) -> NestEvaluation:
    """Tiles, traffic, accesses and cost of a batch of nests.

    The exact and the smooth evaluation differ in two arguments: in how tiles become traffic (whatever slides, is
    shared, or hops between neighbours), and in the rounding.

    Args:
        layer: The prepared layer.
        nest: B mappings of it, NumPy or torch.
        active: Loops that may differ from 1, and data spaces whose traffic matters.
        traffic: Tiles to the tally of every boundary before bypassing.
        rounding: How counts and cycles become whole numbers.
        use: Instances in use on average, of a batch with residuals; None: all that are laid out.

    Returns:
        The results; energy without interconnects.
    """
    nest = holding(nest, layer.reuse)
    tile, use = tiles(nest, layer.projection, active), use or usage(nest, active)
    raw = traffic(tile)
    tally = bypassed(raw, nest.keep, layer.reuse)
    counts = accesses(nest, layer.projection, tile, raw, tally, use.instances, rounding, active,
                      layer.reuse)
    return NestEvaluation(nest, tile, use, raw, tally, counts, cost(counts, use, layer.machine, use.computes, rounding))
