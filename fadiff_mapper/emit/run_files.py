"""All files of a finished run: what `timeloop-mapper` leaves behind, under its names, and two of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fadiff_mapper.emit.map_txt import map_txt
from fadiff_mapper.emit.map_yaml import map_yaml
from fadiff_mapper.emit.merged_input import merged_input
from fadiff_mapper.emit.result_json import result_json
from fadiff_mapper.emit.stats_txt import stats_txt
from fadiff_mapper.emit.tables_yaml import art_yaml, ert_yaml

if TYPE_CHECKING:
    from fadiff_mapper.api import Result


def run_files(result: Result) -> dict[str, str]:
    """File name -> text. `fadiff.input.yaml` repeats the evaluation, here and in `timeloop-model`."""
    spec, mapping, stats = result.spec, result.mapping, result.stats
    return {
        "timeloop-mapper.map.yaml": map_yaml(spec, mapping),
        "timeloop-mapper.map.txt": map_txt(spec, mapping, stats),
        "timeloop-mapper.stats.txt": stats_txt(spec, stats),
        "timeloop-mapper.ERT.yaml": ert_yaml(spec),
        "timeloop-mapper.ART.yaml": art_yaml(spec),
        "fadiff.input.yaml": merged_input(spec, mapping),
        "fadiff.result.json": result_json(result),
    }
