"""Faults of Timeloop's own in the numbers of mappings with residuals."""

from __future__ import annotations

import math

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec


def own_faults(spec: Spec, mapping: Mapping, stats: Stats) -> tuple[str, ...]:
    """A sentence for each fault of `timeloop-model` that the numbers of a mapping with residuals repeat.

    Args:
        spec: The input.
        mapping: The mapping.
        stats: Its numbers, as Timeloop computes them.
    """
    faults = []
    if stats.computes != spec.problem.computes:
        faults.append(f"Timeloop counts {stats.computes} multiply-accumulates where the problem has "
                      f"{spec.problem.computes}; the energy of the arithmetic and the utilization follow")
    if any(level.temporal_last for level in mapping.levels):
        whole = math.prod(factor for level in mapping.levels for factor in level.temporal.values())
        faults.append(f"Timeloop's {whole} compute cycles count the last runs of temporal loops as long as the others")
    if any(level.spatial_last for level in mapping.levels):
        faults.append("Timeloop rounds the instances in use on average down to a whole number, so that energies of "
                      "levels below a spatial loop with a residual are too low")
    return tuple(faults)
