"""The files of one mapped layer, in the layouts of Timeloop's programs, and a JSON with all results."""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.base.version import __version__
from fadiff_mapper.inputs.load import merged_input
from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.native.tables import art_tree, ert_tree
from fadiff_mapper.inputs.spec.mapping import Mapping, with_residual
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output.stats_txt import stats_txt
from fadiff_mapper.search.result import Result


def versions() -> dict[str, str]:
    """Library -> version of this package, Python and NumPy, and of torch if this process has loaded it."""
    loaded = {"fadiff_mapper": __version__, "python": platform.python_version(), "numpy": np.__version__}
    torch = sys.modules.get("torch")
    return loaded | ({"torch": str(torch.__version__)} if torch else {})


def course(history: Sequence[dict[str, Any]], time_s: float) -> dict[str, Any]:
    """The end of a record: the history without its seconds, versions, and all seconds, which differ from run to run."""
    return {"history": [{key: value for key, value in step.items() if key != "time_s"} for step in history],
            "versions": versions(),
            "timing": {"total_s": time_s, "history_s": [step["time_s"] for step in history]}}


def map_txt(spec: Spec, mapping: Mapping, stats: Stats) -> str:
    """The nest from the outermost level inwards, each level with the data spaces that it keeps and their tiles' words.

    Loops of bound 1 are left out. A level is underlined where its loops begin; levels without loops come directly above
    the next level with loops. Tiles have all words and stored words, equal without compression.
    """
    lines: list[str] = []
    header, depth = "", 0
    for level, level_stats in zip(reversed(mapping.levels), reversed(stats.levels), strict=True):
        if depth and not header:
            lines.append("")
        tiles = {name: (space.get("data_tile_shape", space["utilized_capacity"]), space["utilized_capacity"])
                 for name in spec.problem.dataspace_names() if (space := level_stats["dataspaces"].get(name))}
        words = "".join(f"{name}:{all_} ({used}) " for name, (all_, used) in tiles.items())
        header = f"{level_stats['name']} [ {words}]"
        lines.append(header + " ")
        loops = [f"for {name} in [0:{with_residual(name, level.temporal[name], level.temporal_last)})"
                 for name in reversed(level.order) if level.temporal[name] > 1]
        loops += [f"for {name} in [0:{with_residual(name, factor, level.spatial_last)}) (Spatial-{axis})"
                  for axis in "YX" for name, factor in reversed(level.axis_factors(axis).items())]
        for loop in loops:
            lines += ["-" * len(header)] if header else []
            lines.append(f"| {'  ' * depth}{loop}")
            header, depth = "", depth + 1
    lines += ["-" * len(header)] if header else []
    lines.append(f"| {'  ' * depth}<< Compute >>")
    return "\n".join(lines) + "\n"


def result_json(result: Result) -> str:
    """The result of one layer as JSON text.

    Keys: status, mapping (directives), stats (`Stats.to_dict`), corrected (with a calibration), bound (`bound_record`),
    sensitivities (where asked for), energy_source and area_source (component to source), evaluations, options, seed,
    files, notes, history (improvements: evaluations, value, stage), versions and timing. All seconds are under
    `timing`: the rest is the same for the same versions and options, unless a time limit ended the run. Numbers that
    are not finite are null.
    """
    spec, bound = result.spec, None
    if result.bound is not None:  # interim mappings have no bound and load no module for it
        from fadiff_mapper.search.lower_bound.assemble import bound_record
        bound = bound_record(result.bound, result.metric, result.value)
    content = {
        "status": result.status,
        "mapping": literal_mapping(result.mapping, spec.arch, spec.problem),
        "stats": result.stats.to_dict(),
        **({"corrected": {"cycles": result.corrected.cycles, "edp": result.stats.energy_pj * result.corrected.cycles,
                          "exact_choice_cycles": result.corrected.exact_choice_cycles}} if result.corrected else {}),
        "bound": bound,
        "gap": result.gap,
        "sensitivities": [sensitivity.to_dict() for sensitivity in result.sensitivities],
        "energy_source": result.stats.energy_source,
        "area_source": result.stats.area_source,
        "evaluations": result.evaluations,
        "options": result.options,
        "seed": result.options.get("seed"),
        "files": spec.files,
        "notes": spec.notes,
        **course(result.history, result.time_s),
    }
    return json_text(content) + "\n"


def summary_json(names: Sequence[str], results: Sequence[Result]) -> str:
    """The results as JSON text.

    One entry per problem under `layers`, by name: bounds, cycles, energy in pJ, EDP in pJ * cycles, area in mm^2,
    status. `energy_pj` and `cycles` beside it are sums over the problems, each counted once, and `edp` is their
    product: the EDP of a network of these layers.
    """
    layers = {name: {"problem": result.spec.problem.name, "bounds": dict(result.spec.problem.bounds),
                     "cycles": result.stats.cycles, "energy_pj": result.stats.energy_pj, "edp": result.stats.edp,
                     "utilization": result.stats.utilization, "area_mm2": result.stats.area_mm2,
                     "evaluations": result.evaluations, "status": result.status}
              for name, result in zip(names, results, strict=True)}
    cycles, energy = (sum(getattr(result.stats, name) for result in results) for name in ("cycles", "energy_pj"))
    return json_text({"layers": layers, "cycles": cycles, "energy_pj": energy, "edp": cycles * energy}) + "\n"


def program_files(program: str, spec: Spec, mapping: Mapping, stats: Stats) -> dict[str, str]:
    """The files that `timeloop-mapper` and `timeloop-model` write for one evaluated mapping, by name.

    Loop nest, statistics, energies (ERT) and areas (ART); every name begins with `program`.
    """
    return {
        f"{program}.map.txt": map_txt(spec, mapping, stats),
        f"{program}.stats.txt": stats_txt(spec, stats),
        f"{program}.ERT.yaml": dump({"ERT": ert_tree(spec.arch, spec.tables)}),
        f"{program}.ART.yaml": dump({"ART": art_tree(spec.arch, spec.tables)}),
    }


def reproducing_files(program: str, spec: Spec, mapping: Mapping, stats: Stats) -> dict[str, str]:
    """The files of `program_files`, the mapping as a constraint, and `fadiff.input.yaml`.

    The latter repeats the evaluation of the mapping here and in `timeloop-model`.
    """
    return program_files(program, spec, mapping, stats) | {
        "timeloop-mapper.map.yaml": dump({"mapping": literal_mapping(mapping, spec.arch, spec.problem)}),
        "fadiff.input.yaml": dump(merged_input(spec, mapping))}


def run_files(result: Result) -> dict[str, str]:
    """The files of a searched layer by name: `timeloop-mapper`'s files, the input, and the result as JSON."""
    return reproducing_files("timeloop-mapper", result.spec, result.mapping, result.stats) | {
        "fadiff.result.json": result_json(result)}
