"""The differentiable cost model: the shared equations without what has no smooth form.

At integer factors it differs from the exact evaluation only where windows meet several moving loops or lie next to
each other in space (`windows.py`, `spread.py`), in the rounding of counts and vector accesses, and in the energy of
networks. `benchmarks/smooth_distance.py` measures how much that is.
"""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper import counts as counting
from fadiff_mapper.cost import Cost, Usage, cost, usage
from fadiff_mapper.counts import Counts, Rounding, Tiles
from fadiff_mapper.exact import Layer
from fadiff_mapper.nest import Active, Array, Nest


def _same(values: Array) -> Array:
    return values


SMOOTH = Rounding(nearest=_same, down=_same, up=_same)


@dataclass(frozen=True)
class SmoothEvaluation:
    """What the relaxed model says of a batch of nests; axes and units as in `exact.Evaluation`."""

    tile: Tiles
    use: Usage
    counts: Counts
    cost: Cost


def evaluate_smooth(layer: Layer, nest: Nest, active: Active | None = None) -> SmoothEvaluation:
    """Counts, cycles and energy of nests, NumPy or torch alike, differentiable in their factors.

    `active` names the loops that may exceed 1 at all (see `relax.drawable_parts`); the others cost no time.
    """
    tile = counting.tiles(nest, layer.projection, active)
    use = usage(nest, active)
    wanted = counting.demand(nest, layer.projection, tile, active, layer.reuse)
    raw = counting.delivery(nest, layer.projection, wanted, active, layer.reuse)
    tally = counting.bypassed(raw, nest.keep)
    found = counting.accesses(nest, layer.projection, tile, raw, tally, use.instances, SMOOTH, active)
    return SmoothEvaluation(tile, use, found, cost(found, use, layer.machine, use.computes, SMOOTH))
