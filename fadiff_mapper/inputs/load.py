"""Reads files, or one dict, into a `Spec` (one layer on one design) or several, and writes a `Spec` as one input."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError, SpecError, listed, nearest
from fadiff_mapper.inputs.energy.choose_source import find_tables, operation_figures
from fadiff_mapper.inputs.energy.source_names import COMPLETES
from fadiff_mapper.inputs.native.arch import read_architecture
from fadiff_mapper.inputs.native.constraints import read_constraints
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.native.problem import read_problem
from fadiff_mapper.inputs.native.sparse_section import read_sparse_optimizations
from fadiff_mapper.inputs.native.tables import IN_INPUT, art_tree, ert_tree, read_tables
from fadiff_mapper.inputs.native.units import read_units
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.keys import IDLE_OPTIONS, MAPPER
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import WARNING, MapperOptions, Spec
from fadiff_mapper.inputs.spec.tables import Tables, missing_actions
from fadiff_mapper.inputs.v04.document import is_v04, translate
from fadiff_mapper.inputs.v04.nodes import inherit
from fadiff_mapper.inputs.yaml.load import combined, load_file, load_files
from fadiff_mapper.inputs.yaml.located import Map, Reader, mapping, plain, with_places
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

ARCHITECTURE_KEYS = ("architecture", "arch")  # both spellings that Timeloop reads
READ_KEYS = (*ARCHITECTURE_KEYS, "arch_constraints", "architecture_constraints", "mapspace", "mapspace_constraints",
             "constraints", "problem", "mapping", "mapper", "ERT", "ART", "sparse_optimizations", "units")
"""Sections that are interpreted here; messages list them as the accepted ones."""
PASSED_ON = ("compound_components", "components", "variables", "globals", "ERT_summary", "ART_summary", "version",
             "dumped_by_timeloop_front_end", "model", "_required_processors")
"""Sections that are accepted and not interpreted: they are for Accelergy, or written by Timeloop's own tools."""
REFUSED = {"layout": "data layouts are not modelled",
           **dict.fromkeys(("arch_space_sweep", "arch_spec"), "sweeps over architectures are not supported")}
"""Sections of valid Timeloop input that are not modelled here -> why."""
UNSET = (None, False, -1, "timeloop-mapper")  # the front end's values of an option that is not used
Source = str | os.PathLike[str] | AnyMapping[str, Any]
"""A YAML file by its path, a bundled file as `bundled:NAME`, or one dict with the sections of an input."""
YAML = (".yaml", ".yml")  # endings of the files that are read from a folder on the command line


def load(*sources: Source, jinja_data: AnyMapping[str, Any] | None = None, energy: str = "bundled",
         strict: bool = True, bits: AnyMapping[str, Any] | None = None) -> Spec:
    """Reads Timeloop input in either dialect, v0.4 or the native one of Timeloop's binaries.

    Unlike on the command line, the default of `energy` runs no program and gives Timeloop's own numbers: the tables
    of a bundled design, else Timeloop's built-in values.

    Args:
        *sources: Any number of YAML files in any order (paths, or names such as `bundled:arch/gemmini_large`; the
            name of a folder stands for all files in it), or one dict of the same sections.
        jinja_data: Variables of the files' Jinja2 templates.
        energy: Where energies come from that no ERT in the input gives, one of `energy.source_names.CHOICES`.
        strict: Whether input that Timeloop ignores or puts up with is an error; else it is a warning of the spec's,
            and the numbers are Timeloop's.
        bits: Bits of an element by tensor, in place of those in the problem's instance, such as
            `{"Weights": {"bits": 4, "scale": 8, "per": 32}, "Inputs": 8}`.

    Returns:
        One problem on one architecture, with the constraints, energy tables and mapping that the input gives.

    Raises:
        SpecError: Bad input, one line per mistake, with file, line and YAML path.
        FadiffError: There is no bundled file of a name, or Accelergy is asked and fails.
    """
    return read_spec(read_document(*sources, jinja_data=jinja_data), source_files(sources), energy, strict, bits=bits)


def load_layers(*names: str | os.PathLike[str], jinja_data: AnyMapping[str, Any] | None = None,
                energy: str = "bundled", strict: bool = True,
                bits: AnyMapping[str, Any] | None = None) -> dict[str, Spec]:
    """Reads one spec for every problem among some files, each together with all files that are no problem.

    A file is a problem where its problem section has an instance. Where at most one file is, all files make one spec.

    Args:
        *names: Files in any order, folders or patterns of them, or names with `bundled:` in front.
        jinja_data: Variables of the files' Jinja2 templates.
        energy: As in `load`.
        strict: As in `load`.
        bits: As in `load`, in all problems.

    Returns:
        The specs by unique names: the name of the problem's file, with the folder's name in front where several files
        have the same name; "" where no file is a problem by itself.

    Raises:
        FadiffError: As in `load`.
    """
    files = files_of(list(map(str, names)))
    trees = {file: load_file(file, jinja_data=jinja_data) for file in files}
    problems = [file for file, tree in trees.items()
                if isinstance(tree.get("problem"), Map) and "instance" in tree["problem"]]
    first = problems[0].stem if problems else ""
    unique = [first] if len(problems) < 2 else unique_names(problems)
    used = {name: [file for file in files if file not in problems or file == own]
            for name, own in zip(unique, problems or [Path()], strict=True)}
    return {name: read_spec(combined([trees[file] for file in own]), tuple(map(str, own)), energy, strict, bits=bits)
            for name, own in used.items()}


def unique_names(files: Sequence[Path]) -> list[str]:
    """A unique name for each file: its stem, else with its folder's name, else with a number.

    The names become folders: `...yaml` becomes `_..`, because `..` is the parent folder.
    """
    names = [file.stem if file.stem.strip(".") else f"_{file.stem}" for file in files]
    count = Counter(names)
    longer = [name if count[name] == 1 else f"{file.resolve().parent.name}.{name}"
              for name, file in zip(names, files, strict=True)]
    count = Counter(longer)
    numbered = [name if count[name] == 1 else f"{name}.{index}" for index, name in enumerate(longer, 1)]
    # where another file has such a name with a number, all are numbered
    return numbered if len(set(numbered)) == len(files) else [f"{name}.{i}" for i, name in enumerate(longer, 1)]


def files_of(names: Sequence[str]) -> list[Path]:
    """The files behind the names on a command line, each once, in order.

    A name is a file, a folder (its YAML files), a pattern such as `layers/*.yaml`, or `bundled:` with the name of a
    bundled file or of a folder of such files. FadiffError where a folder or pattern holds no file. A missing file is
    reported by its reader, which names the nearest file.
    """
    found: list[Path] = []
    for name, path in zip(names, map(Path, names), strict=True):
        if name.startswith(bundled_files.PREFIX):
            found += bundled_files.all_paths(name)
        elif path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.suffix in YAML and entry.is_file())
            if not inside:
                raise FadiffError(f"{name}: there is no YAML file in this folder; accepted: files that end in "
                                  f"{' or '.join(YAML)}")
            found += inside
        elif glob.has_magic(name) and not path.exists():
            matching = sorted(Path(entry) for entry in glob.glob(name) if Path(entry).is_file())
            if not matching:
                raise FadiffError(f"{name}: no file matches this pattern")
            found += matching
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def source_files(sources: Iterable[Source]) -> tuple[str, ...]:
    """The paths of the files among the sources, `bundled:` names resolved. Raises FadiffError."""
    given = [str(source) for source in sources if not isinstance(source, AnyMapping)]
    return tuple(path for source in given for path in (
        map(str, bundled_files.all_paths(source)) if source.startswith(bundled_files.PREFIX) else [source]))


def read_document(*sources: Source, jinja_data: AnyMapping[str, Any] | None = None) -> Map:
    """Merges the sources into one tree whose entries know their places; arguments and errors as for `load`."""
    trees = [source for source in sources if isinstance(source, AnyMapping)]
    if trees and len(sources) > 1:
        raise SpecError("load: give either files or one dict, not both")
    if trees:
        document = with_places(dict(trees[0]), Where("input"))
        assert isinstance(document, Map)
        return document
    if not sources or "" in sources:
        raise SpecError("load: no input; accepted: YAML files or one dict")
    return load_files(source_files(sources), jinja_data=jinja_data)


def _having_bits(document: Map, bits: AnyMapping[str, Any]) -> Map:
    """The document with the bits of these tensors in the instance of its problem."""
    if isinstance(bits, str):
        raise SpecError(f"bits: found {bits}; accepted: bits of an element by tensor (of a network also auto)")
    problem = document.get("problem")
    if not isinstance(problem, Map):
        return document
    inside = isinstance(problem.get("instance"), Map)  # in the oldest form bounds lie beside `shape`
    instance = problem["instance"] if inside else problem
    written = mapping(instance.get("bits") or {}, instance.at("bits"))
    instance = instance.having({**instance, "bits": inherit(written, with_places(dict(bits), Where("bits")))})
    return document.having({**document, "problem": problem.having({**problem, "instance": instance}) if inside
                            else instance})


def _lacking(document: Map, sections: Sequence[str]) -> SpecError:
    """The error of an input that lacks sections."""
    found = listed(key for key in document if document[key])
    return document.where.error(f"the input has no {listed(sections)} section (found: {found or 'none'})",
                                "architecture: and problem:")


def read_spec(document: Map, files: tuple[str, ...] = (), energy: str = "bundled", strict: bool = True,
              like: Spec | None = None, bits: AnyMapping[str, Any] | None = None) -> Spec:
    """Interprets a merged document, which is first translated where it is in the v0.4 dialect; errors as for `load`.

    Args:
        document: The merged input, see `read_document`.
        files: Paths that the spec records as its source.
        like: A strict reading of the same design with another problem: its architecture is reused where the one of this
            document says the same.
        bits: As for `load`.
    """
    document, leniency = _having_bits(document, bits) if bits else document, Leniency(strict)
    if is_v04(document) and not document.get("problem"):
        raise _lacking(document, ["problem"])  # which the translation reads
    keys, read = leniency, None  # the binaries put up with unknown keys, the front end for v0.4 does not
    if is_v04(document):
        keys, (document, read) = STRICT, translate(document, leniency)
    accepted = [*READ_KEYS, *PASSED_ON]
    problems = [f'{document.at(key)}: "{key}" is not supported: {REFUSED[key]}'
                for key in document if key in REFUSED and document[key]]
    problems += keys.mistakes(
        Oddity(document.at(key), f"section {key}", f'unknown section "{key}"{nearest(str(key), accepted)}',
               listed(READ_KEYS)) for key in document if key not in accepted and key not in REFUSED)
    if all(document.get(key) is not None for key in ARCHITECTURE_KEYS):
        problems.append(f'{document.at("arch")}: there is both "arch" and "architecture"; accepted: one of them')
    if problems:
        raise SpecError(*problems)
    arch_key = next((key for key in ARCHITECTURE_KEYS if document.get(key) is not None), None)
    missing = [name for name, there in (("architecture", arch_key), ("problem", document.get("problem"))) if not there]
    if missing or arch_key is None:
        raise _lacking(document, missing)

    def section(name: str, read: Any, *arguments: Any) -> Any:
        """The value of a section; None where the section is empty or missing."""
        return read(document[name], document.at(name), *arguments) if document.get(name) else None

    # The translation of v0.4 has read the problem already, as constraints name its dimensions.
    problem, literal_problem, problem_notes = read or read_problem(document["problem"], document.at("problem"), keys,
                                                                   leniency)
    names = problem.dataspace_names()
    arch = (like.arch if like is not None and strict and like.arch.native == {arch_key: document[arch_key]}
            and {name for level in like.arch.levels for name in level.bandwidth_scale} <= {*names}
            else read_architecture(document[arch_key], document.at(arch_key), arch_key, leniency, names))
    fanouts = [arch.fanout(level) for level in range(len(arch.levels))]
    constraints = read_constraints(document, arch.levels, fanouts, problem, leniency)
    options = section("mapper", read_mapper, leniency) or MapperOptions()
    loops = section("mapping", read_mapping, arch, problem, leniency)
    sparse = section("sparse_optimizations", read_sparse_optimizations, arch, problem, keys)
    literal = {**arch.native, "problem": literal_problem} | {
        key: plain(document[key]) for key in ("compound_components", "variables", "sparse_optimizations")
        if document.get(key)}
    tables, energy_notes = find_energies(document, arch, literal, energy, keys)
    figures, unit_notes = operation_figures(arch, energy, literal) if (
        document.get("units") and not document.get("ERT")) else ({}, ())
    units = section("units", read_units, arch, tables, keys, figures) or ()
    arch = arch if arch.units == units else replace(arch, units=units)
    notes = [*(f"{WARNING}{text}" for text in leniency.warnings),
             *(f"mapper.{name} has no effect: {why}" for name, why in options.ignored),
             *problem_notes, *energy_notes, *unit_notes]
    return Spec(arch, problem, constraints, tables, loops, options, literal, files, tuple(notes), sparse)


def read_mapper(node: Any, where: Where, leniency: Leniency = STRICT) -> MapperOptions:
    """Reads the mapper section; options that change nothing here may be written with hyphens."""
    reader = Reader(underscored(mapping(node, where)), MAPPER, leniency)
    metrics, threads = reader.read("optimization_metric"), reader.read("num_threads")
    ignored = tuple((name, why) for name, why in IDLE_OPTIONS.items() if reader.read(name) not in UNSET)
    reader.finish(" in the mapper section")
    return MapperOptions(metrics or ("edp",), threads, ignored)


def find_energies(document: Map, arch: Architecture, literal: AnyMapping[str, Any], energy: str,
                  leniency: Leniency = STRICT) -> tuple[Tables, tuple[str, ...]]:
    """The tables in force for a document whose architecture has been read, and notes on energies that are missing.

    `literal`: the document's sections, see `Spec.literal`. Leniency is about unknown keys of the tables.
    """
    given = read_tables(document.get("ERT"), document.at("ERT"), document.get("ART"), document.at("ART"), IN_INPUT,
                        leniency)
    tables, notes = find_tables(arch, given, energy, literal)
    missing = [f"the ERT has no energy for {actions}: Timeloop's built-in value is taken"
               for actions in missing_actions(arch, tables)]
    return tables, (*missing, *notes)


def load_mapping(file: str | os.PathLike[str], spec: Spec) -> Mapping:
    """The mapping in a file such as `timeloop-mapper.map.yaml`.

    Args:
        file: A YAML file with a `mapping` section, or `bundled:` with the name of one.
        spec: The architecture and problem that the mapping is for.

    Raises:
        SpecError: There is no mapping in the file, or it does not fit architecture and problem.
        FadiffError: There is no bundled file of this name.
    """
    document = load_file(bundled_files.one_path(file))
    if not document.get("mapping"):
        raise document.where.error("has no mapping section", "mapping: with a list of directives")
    return read_mapping(document["mapping"], document.at("mapping"), spec.arch, spec.problem)


def with_problem(document: Map, problem: dict[str, Any], *left_out: str) -> Map:
    """The sections of a design with another problem, as plain data or read, and without mapping and `left_out`."""
    kept = {key: value for key, value in document.items() if key not in ("problem", "mapping", *left_out)}
    places = {key: place for key, place in document.places.items() if key in kept}
    return Map({**kept, "problem": with_places(problem, Where("network"))}, where=document.where, places=places)


def refuse_missing_energies(spec: Spec, energy: str = "bundled") -> None:
    """Raises SpecError for a spec whose ERT does not price every action that the architecture needs, with all names.

    `energy`: the source that was asked for; some fill in what an ERT lacks (`energy.source_names.COMPLETES`).
    """
    missing = missing_actions(spec.arch, spec.tables) if energy not in COMPLETES else []
    if missing:
        source = listed(spec.files) if spec.files else "input"
        raise SpecError(f"{source}: ERT.tables: no energy for {listed(missing)}; accepted: a table with read, write, "
                        "update (or random_read, ...) for every memory and compute for the arithmetic, or "
                        "--energy built-in or estimate for what is missing")


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
