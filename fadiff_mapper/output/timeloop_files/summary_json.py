"""The results of several problems side by side, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fadiff_mapper.base.json_text import json_text

if TYPE_CHECKING:
    from fadiff_mapper.search.result import Result


def summary_json(names: Sequence[str], results: Sequence[Result]) -> str:
    """The results as JSON text.

    Args:
        names: A name per problem.
        results: The results in the same order.

    Returns:
        An object with one entry per problem under `layers`, by name: bounds, cycles, energy in pJ, EDP in pJ * cycles,
        area in mm^2, status. `energy_pj` and `cycles` beside it are sums over the problems, each counted once, and
        `edp` is their product: the EDP of a network of these layers.
    """
    layers = {name: {"problem": result.spec.problem.name, "bounds": dict(result.spec.problem.bounds),
                     "cycles": result.stats.cycles, "energy_pj": result.stats.energy_pj, "edp": result.stats.edp,
                     "utilization": result.stats.utilization, "area_mm2": result.stats.area_mm2,
                     "evaluations": result.evaluations, "status": result.status}
              for name, result in zip(names, results, strict=True)}
    cycles, energy = (sum(getattr(result.stats, name) for result in results) for name in ("cycles", "energy_pj"))
    return json_text({"layers": layers, "cycles": cycles, "energy_pj": energy, "edp": cycles * energy}) + "\n"
