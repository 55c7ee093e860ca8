"""The differentiable cost model: the shared equations without what has no smooth form.

At integer factors it differs from the exact evaluation in the rounding of counts and vector accesses, in the energy of
networks, and where windows are handed on or shared in ways that `spatial_overlap_closed_form.py` does not follow.
`benchmarks/smooth_distance.py` measures how much that is. Between integers nothing is promised: the search draws
integers and follows the gradient there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fadiff_mapper.model import access_counts as counting
from fadiff_mapper.model.access_counts import Counts, Rounding, Tiles
from fadiff_mapper.model.energy_latency import Cost, Usage, cost, usage
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.smooth.sliding_window_closed_form import WindowSteps, window_steps
from fadiff_mapper.model.smooth.spatial_overlap_closed_form import smooth_delivery


def _same(values: Array) -> Array:
    return values


SMOOTH = Rounding(nearest=_same, down=_same, up=_same)


@dataclass(frozen=True)
class SmoothEvaluation:
    """What the relaxed model says of a batch of nests; axes and units as in `evaluate.Evaluation`."""

    tile: Tiles
    use: Usage
    counts: Counts
    cost: Cost


def evaluate_smooth(layer: PreparedLayer, nest: Nest, active: Active | None = None) -> SmoothEvaluation:
    """Counts, cycles and energy of nests, NumPy or torch alike, differentiable in their factors.

    `active` names the loops that may exceed 1 at all (see `gumbel_softmax.drawable_parts`); the others cost no time.
    """
    active = active or all_active(nest)
    tile = counting.tiles(nest, layer.projection, active)
    use = usage(nest, active)
    found = all_window_steps(layer.projection, nest, tile, active, layer.reuse)
    wanted = smooth_demand(nest, layer.projection, tile, active, layer.reuse, found)
    raw = counting.delivery(nest, layer.projection, wanted, active, layer.reuse)
    raw = smooth_delivery(raw, found, nest, layer.projection, layer.arch, tile, active, layer.reuse)
    tally = counting.bypassed(raw, nest.keep)
    tallied = counting.accesses(nest, layer.projection, tile, raw, tally, use.instances, SMOOTH, active)
    return SmoothEvaluation(tile, use, tallied, cost(tallied, use, layer.machine, use.computes, SMOOTH))


def all_window_steps(projection: Projection, nest: Nest, tile: Tiles, active: Active, reuse: Reuse) -> dict[int, WindowSteps]:
    """How windows slide, by data space, where this matters."""
    found = ((tensor, window_steps(nest, projection, tensor, tile, active, reuse))
             for tensor, windowed in enumerate(projection.windowed) if windowed)
    return {tensor: slid for tensor, slid in found if slid is not None}


def smooth_demand(nest: Nest, projection: Projection, tile: Tiles, active: Active, reuse: Reuse,
                  found: dict[int, WindowSteps]) -> Array:
    """`access_counts.demand`, with what is known better of the windows that slide, [L, T, B]."""
    xp, counted = array_namespace(nest.temporal), active.counted.copy()
    for tensor, slid in found.items():  # asked for here, so not there
        counted[[level - 1 for level in slid.levels], tensor] = False
    rough = counting.demand(nest, projection, tile, replace(active, counted=counted), reuse)
    known = {(level, tensor): slid.demand[n] for tensor, slid in found.items() for n, level in enumerate(slid.levels)}
    return xp.stack([xp.stack([known.get((level, tensor), rough[level, tensor]) for tensor in range(rough.shape[1])])
                     for level in range(rough.shape[0])]) if known else rough
