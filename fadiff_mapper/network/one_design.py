"""The specs of a design for many problems; the design is read anew only where its meaning depends on the problem."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.inputs.load import Source, read_document, read_spec, source_files, with_problem
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import Map, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Operator, Workload

Design: TypeAlias = Spec | Source | Sequence[Source]
"""A spec (whose problem and mapping are left out), a dict, a file, or several files."""

Value = TypeVar("Value")

MENTIONS = ("spec", "maximize_dims")
"""Words of a v0.4 design that make its reading depend on the bounds of the problem: expressions find the bounds under
`spec`, and `maximize_dims` fits factors to them."""


def specs_of(workload: Workload, design: Design, energy: str = "bundled", strict: bool = True,
             over: Over = never) -> tuple[Spec, ...]:
    """Reads a design for every distinct problem of a network; once for problems that can differ only in bounds.

    Args:
        workload: The network.
        design: A spec (whose problem and mapping are left out), a dict, a file, or several files.
        energy: Source of energies, as in `inputs.load.load`; a `Spec` keeps its own tables.
        strict: As in `inputs.load.load`; a `Spec` has been read and keeps its own warnings.
        over: True once time is over.

    Returns:
        Specs, in the order of `workload.distinct()`.

    Raises:
        SpecError: Bad input.
        OutOfTime: Time was over before the design was read for all problems.
    """
    document, files = _document(design)
    free = not any(word in text for text in _texts(document) for word in MENTIONS)
    specs: list[Spec] = []
    alike: dict[Hashable, Spec] = {}
    try:
        for entry in in_time(workload.distinct(), over):
            key, literal = _all_but_bounds(entry.layer), entry.layer.literal
            like = alike.get(key)
            if free and like is not None and _constraints_mean_the_same(like, entry.layer.problem):
                specs.append(resized_spec(like, entry.layer.problem.bounds))
                continue
            if isinstance(design, Spec):
                spec = read_spec(with_problem(document, literal), files, "built-in", strict=False)
                spec = replace(spec, arch=replace(spec.arch, units=design.arch.units), tables=design.tables,
                               notes=design.notes, mapper=design.mapper)
            else:
                spec = read_spec(with_problem(document, literal), files, energy, strict, specs[0] if specs else None)
            specs.append(spec)
            alike.setdefault(key, spec)
    except OutOfTime:
        raise OutOfTime(f"out of time: the design was read for {len(specs)} of {len(workload.distinct())} distinct "
                        "layers; accepted: a longer time limit") from None
    return tuple(specs)


def by_node(workload: Workload, values: Sequence[Value]) -> dict[str, Value]:
    """The value of every layer by name, from `values` of distinct problems in the order of `workload.distinct()`."""
    return {name: value for entry, value in zip(workload.distinct(), values, strict=True) for name in entry.nodes}


def repeats_of(workload: Workload) -> dict[str, int]:
    """The runs of every layer back to back, by name."""
    return {node.name: node.layer.repeat for node in workload.layers if node.layer}


def _texts(value: Any) -> Iterator[str]:
    """All keys and texts of a document outside of its problem, mapping and tables."""
    if isinstance(value, Map):
        for key, item in value.items():
            yield str(key)
            if key not in ("problem", "mapping", "ERT", "ART"):
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _all_but_bounds(layer: Operator) -> Hashable:
    """A key that is equal for problems that differ only in bounds; bounds of 1 differ, as v0.4 orders their loops."""
    problem, bounds = layer.problem, layer.problem.bounds
    others = [(name, value) for name, value in layer.literal["instance"].items() if name not in bounds]
    return (problem.name, problem.dimensions, problem.dataspaces, tuple(name for name in bounds if bounds[name] == 1),
            repr(others))


def _constraints_mean_the_same(like: Spec, problem: Problem) -> bool:
    """Whether constraints mean the same for a problem that differs from another only in its bounds.

    A fixed factor above the bound of its dimension, or a factor that means the whole bound, changes its meaning.
    """
    fixed = [(name, factor) for level in like.constraints.levels for loops in (level.temporal, level.spatial)
             for name, factor in loops.fixed.items()]
    return not like.warnings and all(
        (factor < like.problem.bounds[name] and factor <= problem.bounds[name])
        or like.problem.bounds[name] == problem.bounds[name] for name, factor in fixed)


def resized_spec(like: Spec, bounds: dict[str, int]) -> Spec:
    """A spec with other bounds, also in its literal form."""
    written = like.literal["problem"]
    literal = like.literal | {"problem": written | {"instance": written["instance"] | bounds}}
    return replace(like, problem=replace(like.problem, bounds=dict(bounds)), literal=literal)


def _document(design: Design) -> tuple[Map, tuple[str, ...]]:
    """The sections of a design, and the names of its files."""
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
