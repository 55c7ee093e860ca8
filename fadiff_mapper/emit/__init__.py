"""The files that a run leaves behind, each as text: in Timeloop's formats, and one JSON with everything.

Nothing here touches a disk; `rundir.write_files` puts the texts into a folder.
"""

from fadiff_mapper.emit.looptree import looptree_yaml, to_looptree
from fadiff_mapper.emit.map_txt import map_txt
from fadiff_mapper.emit.map_yaml import map_yaml
from fadiff_mapper.emit.merged_input import merged_input
from fadiff_mapper.emit.network_files import network_files
from fadiff_mapper.emit.network_html import network_html
from fadiff_mapper.emit.plan_yaml import plan_yaml
from fadiff_mapper.emit.result_json import result_json
from fadiff_mapper.emit.run_files import program_files, run_files
from fadiff_mapper.emit.stats_txt import stats_txt
from fadiff_mapper.emit.summary import summary_json
from fadiff_mapper.emit.tables_yaml import art_yaml, ert_yaml

__all__ = ["art_yaml", "ert_yaml", "looptree_yaml", "map_txt", "map_yaml", "merged_input", "network_files",
           "network_html", "plan_yaml", "program_files", "result_json", "run_files", "stats_txt", "summary_json",
           "to_looptree"]
