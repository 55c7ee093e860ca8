"""The outcome of a run as JSON: for other programs, and as a record of where each number came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.json_text import json_text
from fadiff_mapper.output.timeloop_files.versions import versions
from fadiff_mapper.spec.native.mapping import literal_mapping

if TYPE_CHECKING:
    from fadiff_mapper.search.result import Result


def result_json(result: Result) -> str:
    """The result of one layer as JSON text.

    Args:
        result: The mapped layer.

    Returns:
        An object with status, mapping (directives), stats (`Stats.to_dict`), corrected (where there is a
        calibration), bound (`bound_record`), sensitivities (where asked for), energy_source and area_source (component
        to source), evaluations, history (improvements:
        evaluations, value, stage), options, seed, files, notes, versions and timing. All seconds, those of the history
        too, stand under `timing`: the rest is the same whenever the same versions run with the same options, unless a
        time limit cut the run short. Numbers that are not finite are null.
    """
    spec = result.spec
    content = {
        "status": result.status,
        "mapping": literal_mapping(result.mapping, spec.arch, spec.problem),
        "stats": result.stats.to_dict(),
        **({"corrected": {"cycles": result.corrected.cycles, "edp": result.stats.energy_pj * result.corrected.cycles,
                          "exact_choice_cycles": result.corrected.exact_choice_cycles}} if result.corrected else {}),
        "bound": _bound(result),
        "sensitivities": [sensitivity.to_dict() for sensitivity in result.sensitivities],
        "energy_source": result.stats.energy_source,
        "area_source": result.stats.area_source,
        "evaluations": result.evaluations,
        "history": [{key: value for key, value in step.items() if key != "time_s"} for step in result.history],
        "options": result.options,
        "seed": result.options.get("seed"),
        "files": spec.files,
        "notes": spec.notes,
        "versions": versions(),
        "timing": {"total_s": result.time_s, "history_s": [step["time_s"] for step in result.history]},
    }
    return json_text(content) + "\n"


def _bound(result: Result) -> dict[str, Any] | None:
    """The lower bound for the record; a mapping that may not be the last has none, nor loads what makes them."""
    if result.bound is None:
        return None
    from fadiff_mapper.analysis.lower_bound import bound_record
    return bound_record(result.bound, result.metric, result.value)
