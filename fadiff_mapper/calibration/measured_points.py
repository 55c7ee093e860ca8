"""Measured cycles of layers and mappings, from a table (CSV).

Columns: `rtl_cycles` or `cycles`, the measurement. `mapping`: the mapping in one line (`mapping_line`), or the name of
a YAML file with a mapping, relative to the table. The layer: `problem`, the name of a YAML file, or the bounds `R S P Q
C K N` (K or M: output channels) with `Wstride Hstride Wdilation Hdilation`, 1 where they are missing. `part`:
`searched` marks a point that a search proposed, which only judges a correction and is not fitted. Other columns are
ignored.
"""

from __future__ import annotations

import csv
import math
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path

import numpy as np

from fadiff_mapper.base.bundled_files import one_path
from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.inputs.load import load_mapping, read_spec, with_problem
from fadiff_mapper.inputs.native.problem import read_problem
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.located import Map, plain, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, pack

# Levels come outermost first, with their number (innermost 0) and the initials of the data spaces that they keep; loops
# come outermost first with their factor; X or Y marks a spatial loop over the fan-out below the level. Timeloop's
# mapper prints this line for each mapping that it finds. Levels that only add a fan-out (dummy storages, from
# containers of the v0.4 dialect) have no number: their loops are written at the next level outwards.

LEVEL = re.compile(r"L(\d{1,2})\[([A-Za-z]*)\]")
LOOP = re.compile(r"([A-Z])([1-9]\d{0,8})([XY]?)")


def read_mapping_line(text: str, arch: Architecture, problem: Problem, renamed: AnyMapping[str, str]) -> Mapping:
    """Reads the line, in which each storing level of the architecture occurs once; raises FadiffError.

    `renamed`: letter of the line -> dimension of the problem, where the two differ.
    """
    names = problem.dimensions
    levels: dict[int, LevelMapping] = {}
    stores = [number for number, level in enumerate(arch.levels) if not level.is_dummy]
    if not stores or stores[-1] != len(arch.levels) - 1:
        raise FadiffError(f"{arch.name}: the outermost level stores nothing; accepted: one that does, such as DRAM")
    for part in text.split(" - "):
        words = part.split()
        head = LEVEL.fullmatch(words[0]) if words else None
        if head is None or int(head[1]) in levels:
            raise FadiffError(f'found the level "{part[:40]}"; accepted: each level once, as "L2[WI] N1 K4X"')
        # Loops of one dimension multiply, as in `P2 Q7 P4`; the outermost of them gives the order.
        temporal, spatial = dict.fromkeys(names, 1), dict.fromkeys(names, 1)
        order: list[str] = []
        axes: dict[str, str] = {}
        for word in words[1:]:
            loop = LOOP.fullmatch(word)
            name = renamed.get(loop[1], loop[1]) if loop else ""
            if loop is None or name not in temporal:
                raise FadiffError(f'found the loop "{word[:20]}"; accepted: a dimension and its factor, as K4, or K4X '
                                  "for a spatial loop")
            (spatial if loop[3] else temporal)[name] *= int(loop[2])
            if loop[3]:
                axes[name] = loop[3]
            elif name not in order:
                order.append(name)
        on_x = [name for name in names if axes.get(name) != "Y"]
        levels[int(head[1])] = LevelMapping(
            temporal, (*reversed(order), *(name for name in names if name not in order)), spatial,
            (*on_x, *(name for name in names if name not in on_x)), len(on_x),
            frozenset(name for name in problem.dataspace_names() if name[0].upper() in head[2].upper()))
    if sorted(levels) != list(range(len(stores))):
        raise FadiffError(f"found the levels {sorted(levels)}; accepted: 0 to {len(stores) - 1}, the storage "
                          f"levels of {arch.name}")
    # A level that only adds a fan-out takes the spatial loops of the storing level outside it. X means Y where the
    # fan-out has only a Y direction: tables mark every spatial loop with X.
    every: list[LevelMapping] = []
    one = dict.fromkeys(names, 1)
    for number in reversed(range(len(arch.levels))):
        if number in stores:
            every.append(levels[stores.index(number)])
        else:
            above = every[-1]
            every[-1:] = replace(above, spatial=one), replace(above, temporal=one, keep=frozenset())
    mapping = Mapping(tuple(replace(level, split=0) if x == 1 and y > 1 else level for level, (x, y) in zip(
        reversed(every), map(arch.fanout, range(len(every))), strict=True)))
    for name, bound in problem.bounds.items():
        product = math.prod(level.temporal[name] * level.spatial[name] for level in mapping.levels)
        if product != bound:
            raise FadiffError(f"the factors of {name} multiply to {product}; accepted: its bound, {bound}")
    return mapping


CYCLES = ("rtl_cycles", "cycles")
"""Names of the column with the measurement; the first one present counts."""
BOUNDS = "RSPQCN"
COEFFICIENTS = ("Wstride", "Hstride", "Wdilation", "Hdilation")
RENAMED = {"K": "M"}
"""The letter K of tables is the dimension M of the bundled convolution."""
CONVOLUTION = "bundled:problems/conv"
SEARCHED = "searched"
LARGEST = 10 ** 15
"""Largest cycles and bounds that are accepted; float64 holds such numbers exactly."""
TABLE = "a table (CSV in UTF-8)"
LARGEST_TABLE = 1 << 28
"""Bytes of a table at most: a safety limit, 256 for each of `MOST_ROWS` rows."""
MOST_ROWS = 1_000_000
"""Rows that are read at most: a safety limit."""


@dataclass(frozen=True)
class MeasuredLayer:
    """The measured points of one layer."""

    spec: Spec  # the layer on the architecture
    nest: Nest  # B mappings
    measured: np.ndarray  # [B]. Measured cycles.
    exact: np.ndarray  # [B]. Cycles of the exact model, without limits: the measurement shows that the point runs.
    searched: np.ndarray  # [B]. Whether a search proposed the point.


def read_measured(file: str | os.PathLike[str], architecture: Map) -> tuple[MeasuredLayer, ...]:
    """Reads the measured points of every layer, in the order in which layers first occur in the table.

    Problem and mapping in the architecture's document are ignored; a space of designs counts as its default design.

    Raises:
        FadiffError: A file cannot be read, a column is missing, or an entry cannot be understood.
    """
    specs: dict[tuple[str, ...], Spec] = {}
    points: dict[tuple[str, ...], list[tuple[Mapping, float, bool]]] = {}
    folder = Path(file).parent
    for where, row in _rows(Path(file)):
        try:
            key = tuple(row.get(name, "") for name in ("problem", *BOUNDS, "K", "M", *COEFFICIENTS))
            if key not in specs:
                specs[key] = _layer(row, architecture, folder, next(iter(specs.values()), None))
            spec, text = specs[key], row["mapping"].strip()
            if text.endswith((".yaml", ".yml")):
                mapping = load_mapping(_beside(text, folder), spec)
            else:
                names = spec.problem.dimensions
                mapping = read_mapping_line(text, spec.arch, spec.problem, {
                    letter: name for letter, name in RENAMED.items() if letter not in names})
            measured = next(row[name] for name in CYCLES if name in row)
            try:
                cycles = float(measured)
            except ValueError:
                cycles = math.nan
            if not 1 <= cycles <= LARGEST:
                raise FadiffError(f'cycles: found "{measured[:40]}"; accepted: a number of at least 1')
            points.setdefault(key, []).append((mapping, cycles, row.get("part") == SEARCHED))
        except SpecError:
            raise
        except FadiffError as error:
            raise FadiffError(f"{where}: {error}") from error
    if not points:
        raise FadiffError(f"{file}: the table has no rows; accepted: one measured point a row")
    layers = []
    for key, rows in points.items():
        spec, (mappings, every, searched) = specs[key], zip(*rows, strict=True)
        nest = pack(list(mappings), spec.problem)
        exact = np.asarray(evaluate_nest(layer_of(spec), nest).cycles, dtype=np.float64)
        layers.append(MeasuredLayer(spec, nest, np.array(every), exact, np.array(searched)))
    return tuple(layers)


def _rows(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The rows by column, each with its place in the file. Raises FadiffError."""
    content = read_text(file, TABLE, LARGEST_TABLE)
    try:
        with StringIO(content, newline="") as text:
            table = csv.DictReader(text, strict=True)
            columns = table.fieldnames or []
            bounds = "problem" in columns or (set(BOUNDS) <= set(columns) and {"K", "M"} & set(columns))
            if "mapping" not in columns or not set(CYCLES) & set(columns) or not bounds:
                raise FadiffError(f"{file}:1: found the columns {', '.join(columns)[:200] or 'none'}; accepted: "
                                  "mapping, rtl_cycles or cycles, and problem or R, S, P, Q, C, K, N")
            for number, row in enumerate(table):
                if number >= MOST_ROWS:
                    raise FadiffError(f"{file}: found more than {MOST_ROWS} rows; accepted: at most as many")
                if None in row or None in row.values():
                    raise FadiffError(f"{file}:{table.line_num}: the row has not as many fields as the header; "
                                      f"accepted: {len(columns)}")
                yield f"{file}:{table.line_num}", row
    except csv.Error as error:
        raise FadiffError(f"{file}:{table.line_num}: not a row of a table: {error}; accepted: {TABLE}") from error


def _layer(row: dict[str, str], architecture: Map, folder: Path, other: Spec | None) -> Spec:
    """The layer of a row; the architecture is read once for all problems of the same dimensions."""
    if row.get("problem"):
        document = load_file(one_path(_beside(row["problem"], folder)))
        problem = document.get("problem")
        if not problem:
            raise document.where.error("has no problem section", "problem: with shape and instance")
    else:
        channels = next((row[name] for name in ("K", "M") if row.get(name)), "")
        problem = plain(load_file(one_path(CONVOLUTION))["problem"])
        problem["instance"] = {"M": _whole("K", channels)} | {
            name: _whole(name, row.get(name, "")) for name in BOUNDS} | {
            name: _whole(name, row.get(name) or "1") for name in COEFFICIENTS}
        problem = with_places(problem, Where("measured layer"))
    if other is not None:
        read, literal, _ = read_problem(problem, Where("measured layer"))
        if read.dimensions == other.problem.dimensions:
            return replace(other, problem=read, literal=other.literal | {"problem": literal})
    return read_spec(with_problem(architecture, problem, "design_space"), (), "built-in")


def _beside(name: str, folder: Path) -> str:
    """A file named in the table, relative to the table."""
    return name if name.startswith("bundled:") else str(folder / name)


def _whole(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= LARGEST and len(text) < 20):
        raise FadiffError(f'{name}: found "{text[:40]}"; accepted: a whole number above 0')
    return int(text)
