"""Old hyphenated words, which Timeloop rewrites with underscores in all of its input before it parses it."""

from __future__ import annotations

import re
from operator import is_
from typing import Any

from fadiff_mapper.inputs.yaml.located import Map, Seq

REWRITTEN = (
    # architecture
    "word_bits", "block_size", "cluster_size", "cluster_area", "num_ports", "num_banks", "multiple_buffering",
    "min_utilization", "vector_access_energy", "addr_gen_energy", "adder_energy", "router_energy", "wire_energy",
    "energy_per_hop", "tile_width", "network_type", "metadata_word_bits",
    # problem
    "data_spaces", "read_write", "cnn_layer", "CNN_Layer", "gemm_ABZ", "fixed_structured",
    # sparse optimizations
    "representation_format", "rank_application_order", "inner_to_outer", "outer_to_inner", "flattened_rankIDs",
    "compression_rate", "action_optimization", "compute_optimization", "condition_on", "skipping_spatial",
    "spatial_skip", "gate_on_zero_operand",
    # mapper
    "optimization_metric", "optimization_metrics", "last_level_accesses", "ordered_accesses", "num_threads",
    "search_size", "victory_condition", "sync_interval", "log_interval", "log_stats", "log_suboptimal", "log_all",
    "log_all_mappings", "log_mappings_yaml", "log_mappings_verbose", "log_orojenesis_mappings", "live_status",
    "penalize_consecutive_bypass_fails", "emit_whoop_nest", "max_permutations_per_if_visit", "filter_revisits",
    "linear_pruned", "random_pruned", "timeloop_metric", "timeloop_metrics",
    # other programs of Timeloop and their sections
    "arch_space_sweep", "arch_spec", "arch_space_files", "problem_space_files", "step_size", "tree_like", "access_X",
    "timeloop_simple_mapper", "timeloop_design_space", "timeloop_unit_tests", "gcc_ar", "gcc_ranlib",
)
"""Every word that Timeloop rewrites, as it is afterwards. Timeloop's own list has two more, `network_word_bits` and
`payload_word_bits`, which it never finds: `word-bits` is rewritten before them, and the first hyphen stays."""
_HYPHENATED = re.compile(
    rf"\b(?:{'|'.join(sorted((word.replace('_', '-') for word in REWRITTEN), key=len, reverse=True))})"
    r"\b(?!-|>|\.hpp|\.cpp)", re.ASCII)


def underscored(value: Any) -> Any:
    """A part of a document, a `Map`, `Seq` or scalar, with the hyphenated words of its keys and texts rewritten.

    Timeloop rewrites the text of a file: names that contain such a word change with it, and a word that is part of a
    longer one does not count as one where a hyphen follows (`fixed-structured-2` stays).
    """
    if isinstance(value, str):
        text = _HYPHENATED.sub(lambda found: found[0].replace("-", "_"), value) if "-" in value else value
        return value if text == value else type(value)(text)  # words in quotes stay such
    if isinstance(value, Map):
        items = {underscored(key): underscored(item) for key, item in value.items()}
        if len(items) < len(value):
            twice = next(key for key in value if underscored(key) != key and underscored(key) in value)
            raise value.at(twice).error(f'the key "{underscored(twice)}" is given twice, once as "{twice}"',
                                        "each key once")
        if all(key in value and item is value[key] for key, item in items.items()):
            return value
        return Map(items, where=value.where, tag=value.tag,
                   places={underscored(key): where for key, where in value.places.items()})
    if isinstance(value, Seq):
        entries = [underscored(item) for item in value]
        return value if all(map(is_, entries, value)) else value.having(entries)
    return value
