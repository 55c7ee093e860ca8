"""The files that a run leaves behind, each as text: in Timeloop's formats, and one JSON with everything.

Nothing here touches a disk; `rundir.write_files` puts the texts into a folder.
"""

from fadiff_mapper.emit.map_txt import map_txt
from fadiff_mapper.emit.map_yaml import map_yaml
from fadiff_mapper.emit.merged_input import merged_input
from fadiff_mapper.emit.result_json import Improvement, result_json
from fadiff_mapper.emit.stats_txt import stats_txt
from fadiff_mapper.emit.tables_yaml import art_yaml, ert_yaml
from fadiff_mapper.emit.versions import versions

__all__ = ["Improvement", "art_yaml", "ert_yaml", "map_txt", "map_yaml", "merged_input", "result_json", "stats_txt",
           "versions"]
