"""All input of an evaluation in one file that `timeloop-model` runs as it is."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.native.tables import art_tree, ert_tree
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec


def merged_input(spec: Spec, mapping: Mapping | None = None) -> dict[str, Any]:
    """Architecture, problem, tables and mapping as plain data in Timeloop's native dialect: without expressions.

    The tables are written wherever Timeloop would otherwise ask Accelergy, that is, for every architecture written as a
    tree; the old list format without tables keeps Timeloop's built-in energies. Constraints on the map space are left
    out: `timeloop-model` only checks mappings against them, and rejects some that its own mapper found.
    """
    sections: dict[str, Any] = {key: {name: value for name, value in tree.items() if name != "constraints"}
                                for key, tree in spec.arch.native.items()}
    in_lists = any("storage" in tree for tree in spec.arch.native.values())
    sections |= {key: spec.literal[key] for key in ("problem", "sparse_optimizations") if key in spec.literal}
    if spec.tables.ert or not in_lists:
        sections["ERT"] = ert_tree(spec.arch, spec.tables)
    if spec.tables.art:
        sections["ART"] = art_tree(spec.arch, spec.tables)
    if mapping is not None:
        sections["mapping"] = literal_mapping(mapping, spec.arch, spec.problem)
    return sections
