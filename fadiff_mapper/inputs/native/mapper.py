"""Reads `mapper:` into `MapperOptions`: options with a meaning for the search here, and a reason for each other."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.spec import METRICS, MapperOptions
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency
from fadiff_mapper.inputs.yaml.located import Reader, anything, integer, mapping, one_of, sequence
from fadiff_mapper.inputs.yaml.place import Where

WITHOUT_MEANING = {
    "search_size": "Timeloop counts mappings here; the search ends when it has converged",
    "algorithm": "the search descends a relaxed model, it does not sample",
    "timeout": "Timeloop counts rejected mappings in a row here; use --time-limit for seconds",
    "victory_condition": "Timeloop counts mappings without improvement here; the search ends when it has converged",
    "sync_interval": "the search has no threads to synchronise",
    "log_interval": "progress is shown on the terminal",
    "log_oaves": "no such log is written",
    "log_oaves_mappings": "no such log is written",
    "log_orojenesis_mappings": "no such log is written",
    "log_stats": "the history is in fadiff.result.json",
    "log_suboptimal": "the history is in fadiff.result.json",
    "log_all_mappings": "the history is in fadiff.result.json",
    "log_mappings_yaml": "the history is in fadiff.result.json",
    "log_mappings_verbose": "the history is in fadiff.result.json",
    "live_status": "progress is shown on the terminal",
    "diagnostics": "rejected mappings are not sampled",
    "penalize_consecutive_bypass_fails": "rejected mappings are not sampled",
    "emit_whoop_nest": "no Whoop nest is written",
    "max_temporal_loops_in_a_mapping": "mappings are not limited by their number of loops",
    "filter_revisits": "mappings are not sampled",
    "max_permutations_per_if_visit": "loop orders are not enumerated",
    "out_prefix": "files are named after timeloop-mapper",
}
"""Options of `timeloop-mapper` that change nothing here -> the reason."""
UNSET = (None, False, -1, "timeloop-mapper")
"""Values by which Timeloop's front end says that an option is not used; they need no word."""


def read_mapper(node: Any, where: Where, leniency: Leniency = STRICT) -> MapperOptions:
    """Reads the mapper section; in options that change nothing here, hyphens may stand for underscores.

    Args:
        node: The section.
        where: Its place.
        leniency: Decides about unknown keys.

    Raises:
        SpecError: An unknown key or metric.
    """
    reader = Reader(underscored(mapping(node, where)), leniency)
    reader.take("version", anything, None)
    spelling = ("optimization_metric", "optimization_metrics")
    written = reader.take(spelling, anything, None)
    key = next((name for name in spelling if reader.has(name)), spelling[0])
    metrics: tuple[str, ...] = ("edp",)
    if isinstance(written, str):
        metrics = (one_of(*METRICS)(written, reader.at(key)),)
    elif written is not None:
        rows = sequence(written, reader.at(key))
        metrics = tuple(one_of(*METRICS)(str(value), rows.at(i)) for i, value in enumerate(rows))
        metrics = metrics or ("edp",)
    threads = reader.take("num_threads", integer(1), None)
    ignored = []
    for name, why in WITHOUT_MEANING.items():
        if reader.take((name, name.replace("_", "-")), anything, None) not in UNSET:
            ignored.append((name, why))
    reader.finish(" in the mapper section")
    return MapperOptions(metrics, threads, tuple(ignored))
