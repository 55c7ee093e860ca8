"""All files of a finished run: Timeloop's own files, under their names, and two more of this project."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.timeloop_files.map_txt import map_txt
from fadiff_mapper.output.timeloop_files.result_json import result_json
from fadiff_mapper.output.timeloop_files.stats_txt import stats_txt
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.mapping_text import map_yaml
from fadiff_mapper.spec.native.merged_input import merged_input
from fadiff_mapper.spec.native.tables_text import art_yaml, ert_yaml
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.search.result import Result


def run_files(result: Result) -> dict[str, str]:
    """The files of a searched layer.

    Args:
        result: The mapped layer.

    Returns:
        File name -> text: the files of `timeloop-mapper`, `fadiff.result.json`, and `fadiff.input.yaml`, which repeats
        the evaluation of the mapping here and in `timeloop-model`.
    """
    spec, mapping = result.spec, result.mapping
    return program_files("timeloop-mapper", spec, mapping, result.stats) | {
        "timeloop-mapper.map.yaml": map_yaml(spec, mapping),
        "fadiff.input.yaml": merged_input(spec, mapping),
        "fadiff.result.json": result_json(result),
    }


def program_files(program: str, spec: Spec, mapping: Mapping, stats: Stats) -> dict[str, str]:
    """The files of one evaluated mapping that `timeloop-mapper` and `timeloop-model` both leave behind.

    Args:
        program: Name of the program, the first part of every file name.
        spec: The input.
        mapping: The mapping.
        stats: Its statistics.

    Returns:
        File name -> text: loop nest, statistics, energies (ERT) and areas (ART).
    """
    return {
        f"{program}.map.txt": map_txt(spec, mapping, stats),
        f"{program}.stats.txt": stats_txt(spec, stats),
        f"{program}.ERT.yaml": ert_yaml(spec),
        f"{program}.ART.yaml": art_yaml(spec),
    }
