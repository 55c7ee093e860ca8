"""The differentiable cost model: the shared equations without the rules that have no smooth form.

At integer factors the model differs from the exact evaluation in the rounding of counts and vector accesses, in the
energy of interconnects, and where windows are handed on or shared in ways that `spatial_overlap_closed_form.py` does
not follow. `fadiff-validate` measures the distance (row "smooth" of its table). Between integers nothing is promised:
the search draws integers and follows the gradient there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fadiff_mapper.model.access_counts import Counts, Delivery, Rounding, delivery
from fadiff_mapper.model.energy_latency import Cost, cost
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace
from fadiff_mapper.model.nest_evaluation import evaluate_with
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.model.smooth.sliding_window_closed_form import WindowSteps, window_steps
from fadiff_mapper.model.smooth.spatial_overlap_closed_form import smooth_delivery
from fadiff_mapper.model.temporal_reuse import demand
from fadiff_mapper.model.tile_boxes import Tiles
from fadiff_mapper.model.usage import Usage


def _same(values: Array) -> Array:
    return values


SMOOTH = Rounding(nearest=_same, down=_same, up=_same)
"""No rounding: its gradient would be 0 almost everywhere."""


@dataclass(frozen=True)
class SmoothEvaluation:
    """Results of the differentiable model for a batch of nests; axes and units as in `NestEvaluation`.

    Attributes:
        tile: Boxes and sizes of tiles.
        use: Instances in use and compute cycles.
        counts: Reads, fills and updates of every level, not rounded.
        cost: Cycles, and energy without interconnects.
    """

    tile: Tiles
    use: Usage
    counts: Counts
    cost: Cost


def evaluate_smooth(layer: PreparedLayer, nest: Nest, active: Active | None = None) -> SmoothEvaluation:
    """Counts, cycles and energy of nests, differentiable in their factors; of sparse designs the expected ones.

    Args:
        layer: The prepared layer.
        nest: B mappings of it, NumPy or torch.
        active: Loops that may exceed 1 at all (see `gumbel_softmax.drawable_parts`); the others cost no time. None
            takes all.

    Returns:
        The evaluation; with torch factors every number carries its gradient.
    """
    everywhere = active or all_active(nest)
    shared = evaluate_with(layer, nest, everywhere, lambda tile: _traffic(layer, nest, tile, everywhere), SMOOTH)
    if layer.shares is None:
        return SmoothEvaluation(shared.tile, shared.use, shared.counts, shared.cost)
    counts = layer.shares.of(shared.counts)
    busy = replace(shared.use, compute_cycles=shared.use.compute_cycles * layer.shares.cycles)
    computes = shared.use.computes * layer.shares.computes
    return SmoothEvaluation(shared.tile, shared.use, counts, cost(counts, busy, layer.machine, computes, SMOOTH))


def _traffic(layer: PreparedLayer, nest: Nest, tile: Tiles, active: Active) -> Delivery:
    """The tally before bypassing, with windows that slide in time and are shared in space in closed form."""
    steps = all_window_steps(layer.projection, nest, tile, active, layer.reuse)
    wanted = smooth_demand(nest, layer.projection, tile, active, layer.reuse, steps)
    raw = delivery(nest, layer.projection, wanted, active, layer.reuse)
    return smooth_delivery(raw, steps, nest, layer.projection, layer.arch, tile, active, layer.reuse)


def all_window_steps(projection: Projection, nest: Nest, tile: Tiles, active: Active,
                     reuse: Reuse) -> dict[int, WindowSteps]:
    """The steps of sliding windows by data space, for those data spaces of which `temporal_reuse.demand` knows less.

    Args:
        projection: Ranks of the data spaces.
        nest: The mappings.
        tile: Their tiles.
        active: Loops that may differ from 1.
        reuse: Reuse over the boundaries.

    Returns:
        Index of the data space to the steps of its windows.
    """
    steps = ((t, window_steps(nest, projection, t, tile, active, reuse))
             for t, windowed in enumerate(projection.windowed) if windowed)
    return {t: known for t, known in steps if known is not None}


def smooth_demand(nest: Nest, projection: Projection, tile: Tiles, active: Active, reuse: Reuse,
                  steps: dict[int, WindowSteps]) -> Array:
    """`temporal_reuse.demand` with the closed form of several loops that move one window.

    Args:
        nest: The mappings.
        projection: Ranks of the data spaces.
        tile: Their tiles.
        active: Loops that may differ from 1.
        reuse: Reuse over the boundaries.
        steps: Steps of the sliding windows, see `all_window_steps`.

    Returns:
        [L, T, B]. Words that one receiver below each boundary asks for over the whole run.
    """
    xp, counted = array_namespace(nest.temporal), active.counted.copy()
    for t, known in steps.items():  # overlaps are taken from `steps` below, so `demand` need not subtract them
        counted[[level - 1 for level in known.levels], t] = False
    rough = demand(nest, projection, tile, replace(active, counted=counted), reuse)
    better = {(level, t): known.demand[n] for t, known in steps.items() for n, level in enumerate(known.levels)}
    return xp.stack([xp.stack([better.get((level, t), rough[level, t]) for t in range(rough.shape[1])])
                     for level in range(rough.shape[0])]) if better else rough
