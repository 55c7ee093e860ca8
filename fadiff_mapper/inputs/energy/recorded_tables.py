"""The energy and area tables recorded from Accelergy for the bundled designs."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from fadiff_mapper.base.bundled_files import designs, root
from fadiff_mapper.inputs.native.tables import read_tables
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.tables import Tables, component_name
from fadiff_mapper.inputs.v04.document import translated_architecture
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Map, plain


def tables_for(arch: Architecture) -> Tables | None:
    """The recorded tables of the bundled design that an architecture is, None for any other architecture.

    It is one where all components agree in name, class and every attribute.
    """
    levels = {arch.arithmetic.name, *arch.level_names()}
    for name, tables in _recorded().items():
        names = {component_name(table.component) for table in tables.ert}
        if arch.arithmetic.name not in names or not names <= levels:
            continue  # another design by its names; most need not be translated
        if _bundled_components(name) == components(next(iter(arch.native.values()))):
            return tables
    return None


@cache
def _recorded() -> dict[str, Tables]:
    """The recorded tables of every bundled design, read once."""
    found = {}
    for name in designs():
        ert, art = (_document(root() / "tables" / f"{name}.{kind}.yaml") for kind in ("ERT", "ART"))
        found[name] = read_tables(ert["ERT"], ert.at("ERT"), art["ART"], art.at("ART"), f"bundled with {name}")
    return found


@cache
def _bundled_components(name: str) -> list[dict[str, Any]]:
    template, design = map(_document, (root() / "problems" / "conv.yaml", designs()[name]))
    return components(translated_architecture(Map(design | template, where=template.where)))


def components(native: dict[str, Any]) -> list[dict[str, Any]]:
    """The components of a native tree from the outside in, as plain data."""
    listed: list[dict[str, Any]] = []
    while "subtree" in native:
        native = native["subtree"][0]
        listed += [plain(component) for component in native.get("local", [])]
    return listed


def _document(path: Path) -> Map:
    return load_text(path.read_text(encoding="utf-8"), f"bundled {path.name}")
