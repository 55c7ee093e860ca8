"""A design for many problems: an architecture with its constraints and energies, read once more for each problem."""

from __future__ import annotations

import os
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from fadiff_mapper.inputs.load import Source, read_document, read_spec, source_files
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Workload
from fadiff_mapper.yaml.located import Map, with_places
from fadiff_mapper.yaml.place import Where

Design: TypeAlias = Spec | Source | Sequence[Source]
"""A spec (whose problem and mapping are left out), a dict, a file, or several files."""


def specs_of(workload: Workload, design: Design, energy: str = "bundled", strict: bool = True) -> tuple[Spec, ...]:
    """Reads a design once for every distinct problem of a network.

    Args:
        workload: The network.
        design: A spec (whose problem and mapping are left out), a dict, a file, or several files.
        energy: Source of energies, as in `inputs.load.load`; a `Spec` keeps its own tables.
        strict: As in `inputs.load.load`; a `Spec` has been read and keeps its own warnings.

    Returns:
        Specs, in the order of `workload.distinct()`.

    Raises:
        SpecError: Bad input.
    """
    document, files = _document(design)
    literals = [entry.layer.literal for entry in workload.distinct()]
    if isinstance(design, Spec):
        return tuple(replace(read_spec(with_problem(document, literal), files, "built-in", strict=False),
                             tables=design.tables, notes=design.notes, mapper=design.mapper)
                     for literal in literals)
    first = read_spec(with_problem(document, literals[0]), files, energy, strict)
    return (first, *(read_spec(with_problem(document, literal), files, energy, strict, like=first)
                     for literal in literals[1:]))


def _document(design: Design) -> tuple[Map, tuple[str, ...]]:
    """The sections of a design, and the files that they come from."""
    if isinstance(design, Spec):
        sections = {**design.arch.native, **design.constraints.native}
        sections |= {key: design.literal[key] for key in ("compound_components", "variables", "sparse_optimizations")
                     if key in design.literal}
        document = with_places(sections, Where("design"))
        assert isinstance(document, Map)
        return document, design.files
    if isinstance(design, Map):
        read = [design.at(key).file for key in ("architecture", "arch") if key in design]
        return design, tuple(file for file in read if file.endswith((".yaml", ".yml")))
    sources = [design] if isinstance(design, str | os.PathLike | AnyMapping) else list(design)
    return read_document(*sources), source_files(sources)


def with_problem(document: Map, literal: dict[str, Any]) -> Map:
    """The document with another problem and without a mapping.

    Args:
        document: The sections of a design.
        literal: The problem as plain data.
    """
    kept = {key: value for key, value in document.items() if key not in ("problem", "mapping")}
    places = {key: place for key, place in document.places.items() if key in kept}
    return Map({**kept, "problem": with_places(literal, Where("network"))}, where=document.where, places=places)
