"""The bound for mappings whose factors need not divide their dimensions.

Why it holds. A mapping with residuals is one without, of a larger problem, cut off at the bounds. So its spatial loops
have any whole factors that the fan-outs hold, and it needs at least as many cycles as there are multiply-accumulates
over the units that work. Each distinct word still is sent at least once to each level that keeps it; of joint tiles,
whose points divided the bounds, nothing is used. The bound is one on the numbers without Timeloop's faults of rounding
(`model.exact.evaluate.UNROUNDED`): Timeloop rounds the instances in use on average down and may print less.
"""

from __future__ import annotations

from dataclasses import replace

from fadiff_mapper.analysis.lower_bound.assemble import LowerBound, lower_bound
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.mapspace import MapSpace, factor_ranges
from fadiff_mapper.model.prepared_layer import PreparedLayer


def residual_lower_bound(layer: PreparedLayer, space: MapSpace, over: Over = never) -> LowerBound | None:
    """Bounds all metrics of one layer from below, whatever whole numbers its factors are.

    Args:
        layer: The problem on its architecture.
        space: Its map space, with the constraints.
        over: Tells whether time is over.

    Returns:
        The bound; None where none is proven, see `lower_bound`.

    Raises:
        OutOfTime: Time was over before the bound was known.
    """
    return lower_bound(layer, with_any_factor(space), tiled=False, over=over)


def with_any_factor(space: MapSpace) -> MapSpace:
    """The map space with every whole spatial factor that constraints and fan-outs allow."""
    ranges = [table[0::2].astype(int) for table in factor_ranges(space)]
    levels = tuple(replace(level, spatial=replace(level.spatial, choices={
        name: tuple(range(least, most + 1)) for name, least, most in zip(space.problem.bounds, *own, strict=True)}))
        for level, *own in zip(space.levels, *ranges, strict=True))
    return replace(space, levels=levels)
