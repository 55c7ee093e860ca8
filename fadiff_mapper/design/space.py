"""Spaces of designs: an architecture with parameters, ties and limits, and the plain architecture of every point."""

from __future__ import annotations

import ast
import keyword
import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from fadiff_mapper.base.errors import FadiffError, SpecError, listed, nearest, noted
from fadiff_mapper.inputs.energy.source_names import CHOICES
from fadiff_mapper.inputs.load import Source, read_document, source_files
from fadiff_mapper.inputs.native.arch import LEVEL_ATTRIBUTES, read_architecture
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.keys import LIST, MAP, TEXT, one, real, table
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import storage_energy
from fadiff_mapper.inputs.v04.document import is_v04, translated_architecture
from fadiff_mapper.inputs.v04.nodes import DECLARED, Steps, named_nodes
from fadiff_mapper.inputs.yaml.expressions import CONSTANTS, FUNCTIONS, Literal, evaluate, syntax_tree
from fadiff_mapper.inputs.yaml.located import (
    LARGEST_WHOLE,
    REQUIRED,
    Check,
    Map,
    Reader,
    Seq,
    kind_of,
    mapping,
    number,
    positive,
    sequence,
    text,
)
from fadiff_mapper.inputs.yaml.place import Leniency, Where

Value: TypeAlias = int | float | str  # a value of a parameter: a number, or a word such as "LPDDR4"

Point: TypeAlias = tuple[int, ...]  # a design: for every parameter the index of its value

SOMEWHERE = Where("space")  # the place of a parameter made in Python


@dataclass(frozen=True)
class Parameter:
    """A quantity of the architecture that a search may choose."""

    name: str  # as used in expressions and results
    path: str  # entry set to its value, such as "Buffer.attributes.depth"; "": used in ties or templates
    values: Sequence[Value]  # ascending numbers (a range may be huge), or words as written
    template: bool = False  # whether it sets a variable of the files' Jinja2 templates
    where: Where = SOMEWHERE  # where it is written, for messages

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return not isinstance(self.values[0], str)


@dataclass(frozen=True)
class Tie:
    """An entry of the architecture that follows from the parameters."""

    expression: str  # over the parameters
    where: Where  # where it is written, for messages


@dataclass(frozen=True)
class DesignSpace:
    """All designs of an architecture with free parameters."""

    name: str  # the name of its first file
    parameters: tuple[Parameter, ...]  # in the order of a point's indices
    ties: Mapping[str, Tie]  # by the path of the entry, such as "Scratchpad.attributes.shared_bandwidth"
    limits: Mapping[str, float]
    """The largest accepted value, by a key of `MACHINE_LIMITS` or an expression over the parameters."""
    document: Map = field(repr=False)  # the architecture and all other sections as written, without `design_space`
    energy: str | None = None  # the source of energies of the space, as in `inputs.load.load`, or None
    files: tuple[str, ...] = ()  # paths of its files
    sources: tuple[Source, ...] = field(default=(), repr=False)  # read again for every design if templates vary
    jinja_data: Mapping[str, Any] = field(default_factory=dict, repr=False)  # the fixed variables of the templates
    strict: bool = True  # whether input of a design that Timeloop ignores is an error

    @property
    def size(self) -> int:
        """The number of designs, including those beyond the limits."""
        return math.prod(len(parameter.values) for parameter in self.parameters)


def parameter_values(space: DesignSpace, point: Point) -> dict[str, Value]:
    """The value of every parameter at a point, by name in the order of the space."""
    return {parameter.name: parameter.values[index] for parameter, index in zip(space.parameters, point, strict=True)}


def nearest_value(accepted: Sequence[Any], wanted: Any) -> int:
    """The index of the nearest of ascending numbers, or of an equal word.

    Distances are differences of logarithms if all numbers are positive, else plain differences; ties go to the smaller
    number.
    """
    if isinstance(wanted, str):
        return list(accepted).index(wanted)
    above = bisect_left(accepted, wanted)
    if above in (0, len(accepted)):
        return min(above, len(accepted) - 1)
    low, high = accepted[above - 1], accepted[above]
    nearer = wanted * wanted <= low * high if accepted[0] > 0 and wanted > 0 else wanted - low <= high - wanted
    return above - 1 if nearer else above


def _in_octaves(parameter: Parameter) -> bool:
    """Whether all values are positive numbers, so that their coordinates are logarithms."""
    lowest = parameter.values[0]
    return not isinstance(lowest, str) and lowest > 0


def coordinate(parameter: Parameter, index: int) -> float:
    """A value of a parameter as a coordinate: log2 if all are positive numbers, else the index."""
    return float(np.log2(float(parameter.values[index]))) if _in_octaves(parameter) else float(index)


def nearest_index(parameter: Parameter, place: float) -> int:
    """The index of the value nearest to a coordinate; ties go to the lower index."""
    if _in_octaves(parameter):
        return nearest_value(parameter.values, 2.0 ** place)
    return min(max(math.ceil(place - 0.5), 0), len(parameter.values) - 1)


def points_beside(space: DesignSpace, point: Point, octaves: float) -> list[Point]:
    """At most two designs per parameter, lower first: `octaves` beside the given design, and at least one value away.
    0: the next values."""
    found = []
    for axis, parameter in enumerate(space.parameters):
        here, place = point[axis], coordinate(parameter, point[axis])
        lower = min(nearest_index(parameter, place - octaves), here - 1)
        higher = max(nearest_index(parameter, place + octaves), here + 1)
        found += [(*point[:axis], index, *point[axis + 1:]) for index in (lower, higher)
                  if 0 <= index < len(parameter.values)]
    return found


def design_area_mm2(spec: Spec) -> float:
    """mm2 of all components, from the spec's area table, else from the architecture; 0 if neither has it."""
    return sum(area.total for area in areas(spec.arch, spec.tables).values()) / 1e6


def leakage_pj(spec: Spec) -> float:
    """pJ of all storage levels' leakage in one cycle, without power gating."""
    return sum(level.instances * storage_energy(level, spec.tables).leak for level in spec.arch.levels)


MACHINE_LIMITS: Mapping[str, Callable[[Spec], float]] = {
    "area_mm2": design_area_mm2, "leakage_pj": leakage_pj, "units": lambda spec: spec.arch.arithmetic.instances}
"""Limits on figures of the machine: its area, its leakage in pJ per cycle, its multiply-accumulate units."""


def limit_values(space: DesignSpace, point: Point, spec: Spec | None = None,
                 area_mm2: float | None = None) -> dict[str, tuple[float, float]]:
    """Limit -> (value at one design, greatest accepted value), in the order of the space.

    Limits on figures of the machine need `spec`, the design with any problem; `area_mm2`: its area if known. Raises
    SpecError for an expression that cannot be computed, or is no number.
    """
    values: dict[str, tuple[float, float]] = {}
    for name, most in space.limits.items():
        if name in MACHINE_LIMITS:
            if spec is not None:
                value = area_mm2 if name == "area_mm2" and area_mm2 is not None else MACHINE_LIMITS[name](spec)
                values[name] = value, most
            continue
        try:
            value = evaluate(name, parameter_values(space, point))
        except FadiffError as error:
            raise SpecError(f"{space.name}: limit {name}: {error}") from None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SpecError(f"{space.name}: limit {name}: found {value!r}; accepted: a number")
        values[name] = float(value), most
    return values


def broken_limit(space: DesignSpace, point: Point, spec: Spec | None = None,
                 area_mm2: float | None = None) -> str | None:
    """A sentence with the first limit that a design breaks, or None; arguments and errors as for `limit_values`."""
    for name, (value, most) in limit_values(space, point, spec, area_mm2).items():
        if not value <= most:
            return f"{name} is {value:.6g}; the limit is {most:.6g}"
    return None


NODE_KEYS = ("class", "subclass", "enabled", "area_scale", "energy_scale")
"""Entries of a node besides attributes and mesh that a path may name."""
MESH = ("meshX", "meshY")
VARIABLES = "variables"  # the section that expressions of an architecture read; a path may begin with it

UNWRITTEN = tuple(sorted({*LEVEL_ATTRIBUTES, *DECLARED} - {"instances", *MESH}))
"""Attributes known to Timeloop that a path may name even if the architecture does not write them."""


def find_entry(document: Map, path: str, where: Where) -> Steps:
    """Keys and indices down to the entry of a v0.4 document that a path names; the last maps may still be missing.

    A path is NODE.attributes.NAME, NODE.spatial.meshX (or meshY), NODE.KEY with a key of `NODE_KEYS`, or
    variables.NAME. Nodes are found by name, at any depth of the tree. Raises SpecError if there is no such node or
    entry; the message names the nearest one.
    """
    def known(key: str, accepted: Sequence[str], what: str) -> str:
        if key not in accepted:
            raise where.error(f'there is no {what} named "{key}"{nearest(key, accepted)}', listed(accepted))
        return key

    nodes = {name: (steps, node) for name, steps, node in named_nodes(document["architecture"], ("architecture",))}
    name = max((name for name in nodes if path.startswith(f"{name}.")), key=len, default=None)
    if name is None:
        first, _, rest = path.partition(".")
        if first == VARIABLES and rest:
            return VARIABLES, known(rest, [str(key) for key in document.get(VARIABLES) or {}], "variable")
        accepted = [*nodes, *([VARIABLES] if document.get(VARIABLES) else [])]
        raise where.error(f'the architecture has no node "{first}"{nearest(first, accepted)}', listed(accepted))
    (steps, node), rest = nodes[name], path[len(name) + 1:]
    section, _, key = rest.partition(".")
    if section == "spatial" and key:
        return (*steps, "spatial", known(key, MESH, f'entry of the spatial part of "{name}"'))
    if section == "attributes" and key:
        attributes = node.get("attributes") or {}
        outer, _, inner = key.partition(".")
        if key not in attributes and inner and isinstance(attributes.get(outer), dict):
            entries = [str(entry) for entry in attributes[outer]]
            return (*steps, section, outer, known(inner, entries, f'entry of the attribute "{outer}" of "{name}"'))
        written = [str(entry) for entry in attributes]
        return (*steps, section, known(key, [*written, *(entry for entry in UNWRITTEN if entry not in written)],
                                       f'attribute of "{name}"'))
    if section in NODE_KEYS and not key:
        return (*steps, section)
    accepted = ["attributes.NAME", *(f"spatial.{axis}" for axis in MESH), *NODE_KEYS]
    raise where.error(f'"{name}" has no entry "{rest}"{nearest(rest, accepted)}', listed(accepted))


def put(owner: Any, steps: Steps, value: Any, where: Where) -> Any:
    """A copy of a map or list with the entry at the end of the steps replaced, and missing maps made.

    `where` is the place of the value for later messages.
    """
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(owner, list):
        items = owner.having(owner) if isinstance(owner, Seq) else Seq(owner, where=where)
        items[int(step)] = put(owner[int(step)], rest, value, where)
        return items
    result = owner.having(owner) if isinstance(owner, Map) else Map(owner if isinstance(owner, dict) else (),
                                                                    where=where)
    result[step] = put(result.get(step), rest, value, where)
    if not rest:
        result.places[step] = where
    return result


SECTION = "design_space"  # the section of a document that turns an architecture into a space


def is_space(document: Map) -> bool:
    """Whether a document has the section of a space."""
    return SECTION in document


def _without_section(document: Map) -> Map:
    return document.having({key: value for key, value in document.items() if key != SECTION})


def design_document(space: DesignSpace, point: Point) -> Map:
    """The plain v0.4 document of one design, without the section of the space.

    Every entry keeps its place; a replaced entry has the place of its parameter or tie.

    Raises SpecError if a tie cannot be computed, a template cannot be rendered with these values, or the rendered
    document lacks the entry of a path.
    """
    values, document = parameter_values(space, point), space.document
    variables = {parameter.name: values[parameter.name] for parameter in space.parameters if parameter.template}
    if variables:
        document = _without_section(read_document(*space.sources, jinja_data={**space.jinja_data, **variables}))
    for parameter in space.parameters:
        if parameter.path:
            steps = find_entry(document, parameter.path, parameter.where)
            document = put(document, steps, values[parameter.name], parameter.where)
    for path, tie in space.ties.items():
        try:
            value = evaluate(tie.expression, values)
        except FadiffError as error:
            raise tie.where.error(str(error)) from None
        if isinstance(value, float) and abs(value) <= LARGEST_WHOLE and value == int(value):
            value = int(value)      # as a depth must be
        value = Literal(value) if isinstance(value, str) else value    # no further expression
        document = put(document, find_entry(document, path, tie.where), value, tie.where)
    return document


def design_architecture(space: DesignSpace, point: Point) -> Architecture:
    """The flat architecture of one design, read without a problem: constraints and mappings are left out.

    Raises SpecError as `design_document`, or if the document is no architecture.
    """
    document = design_document(space, point)
    with_problem = Map({"problem": Map(where=document.where), **document}, where=document.where, places=document.places)
    leniency = Leniency(space.strict)
    native = translated_architecture(with_problem, leniency)
    return read_architecture(native, native.where, leniency=leniency)


FORMS = "values: [V, ...], powers_of_two: [LOW, HIGH], or range: [LOW, HIGH] with step: STEP"
TEXT_FORMS = "V,V,... or LOW:HIGH:STEP or LOW:HIGH:x2 (powers of two)"

MOST_LISTED = 100_000  # most listed values of one parameter; ranges of whole numbers may be longer


def values_of_text(given: str, where: Where) -> Sequence[Value]:
    """The values in a text such as "8,16,32", "1024:32768:1024" or "8:64:x2". Raises SpecError for any other form."""
    bounds = given.split(":")
    if len(bounds) == 3:
        ends = [_scalar(bound) for bound in bounds[:2]]
        if bounds[2].strip() == "x2":
            return _powers_of_two(ends, where)
        return _equally_spaced(*_bounds(ends, where), number(_scalar(bounds[2]), where, above=0), where)
    if len(bounds) > 1 or not all(part.strip() for part in given.split(",")):
        raise where.error(f"found {kind_of(given)}", TEXT_FORMS)
    return _listed_values([_scalar(part) for part in given.split(",")], where)


def _values_of_section(reader: Reader) -> Sequence[Value]:
    """The values of `values`, `powers_of_two`, or `range` with `step` of a parameter. Raises SpecError."""
    given = [key for key in ("values", "powers_of_two", "range") if key in reader.node]
    if len(given) != 1:
        raise reader.node.where.error(f"found {' and '.join(given) or 'no values'}", FORMS)
    if given != ["range"]:
        if "step" in reader.node:
            raise reader.at("step").error('found "step" without "range"', FORMS)
        check: Check[Sequence[Value]] = _listed_values if given == ["values"] else _powers_of_two
        return reader.read(given[0], REQUIRED, check=check)  # type: ignore[no-any-return]
    low, high = reader.read("range", REQUIRED, check=_bounds)
    return _equally_spaced(low, high, reader.read("step", REQUIRED), reader.at("range"))


def _scalar(given: str) -> Value:
    """The number in a text, else the text."""
    for kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            continue
    return given.strip()


def _listed_values(value: Any, where: Where) -> Sequence[Value]:
    """Checks a list of different values, numbers or words; numbers are sorted, words are never expressions."""
    given = sequence(value, where)
    if not given:
        raise where.error("found an empty list", "a list of values")
    for item, place in given.placed():
        if isinstance(item, bool) or not isinstance(item, int | float | str):
            raise place.error(f"found {kind_of(item)}", "a number or a word")
    words = [isinstance(item, str) for item in given]
    if any(words) and not all(words):
        raise where.error("found numbers and words", "numbers alone, or words alone")
    values = [Literal(item) if isinstance(item, str) else _whole(number(item, place))
              for item, place in given.placed()]
    twice = [item for item, count in Counter(values).items() if count > 1]
    if twice:
        raise where.error(f"found {twice[0]} twice", "different values")
    return tuple(values) if any(words) else tuple(sorted(values))


def _bounds(value: Any, where: Where, check: Check[float] = number) -> tuple[float, float]:
    """Checks the lower and the upper bound of a range."""
    given = sequence(value, where)
    if len(given) != 2:
        raise where.error(f"found a list of {len(given)}", "[LOW, HIGH]")
    low, high = (check(item, where) for item in given)
    if low > high:
        raise where.error(f"found [{low}, {high}]", "a lower bound that is at most the upper one")
    return low, high


def _powers_of_two(value: Any, where: Where) -> Sequence[Value]:
    """Checks a pair of powers of two, and gives all powers from the first to the second."""
    def power(item: Any, where: Where) -> int:
        bound = positive(item, where)
        if bound & (bound - 1):
            raise where.error(f"found {bound}", f"powers of two, such as {1 << (bound.bit_length() - 1)} or "
                                                f"{1 << bound.bit_length()}")
        return bound
    low, high = map(int, _bounds(value, where, power))
    return tuple(1 << exponent for exponent in range(low.bit_length() - 1, high.bit_length()))


def _equally_spaced(low: float, high: float, step: float, where: Where) -> Sequence[Value]:
    """The values low, low + step, ... up to `high`, in decimal arithmetic, so that 0.1 + 2 * 0.1 is 0.3.

    Raises SpecError for more than `MOST_LISTED` values that are not all whole, and for whole numbers too large to be
    exact.
    """
    low, step = _whole(low), _whole(step)
    if isinstance(low, int) and isinstance(step, int):
        last = int(high // 1)
        if max(-low, last) > LARGEST_WHOLE:
            raise where.error(f"found [{low}, {last}]", f"whole numbers of at most {LARGEST_WHOLE}")
        return range(low, last + 1, step)
    count = int((Decimal(str(high)) - Decimal(str(low))) / Decimal(str(step))) + 1
    if count > MOST_LISTED:
        raise where.error(f"found {count} values", f"at most {MOST_LISTED} values that are not whole numbers")
    return tuple(_whole(float(Decimal(str(low)) + i * Decimal(str(step)))) for i in range(count))


def _whole(value: float) -> float:
    return int(value) if value == int(value) else value


VERSION = "0.1"  # version that the section must state

DESIGN_SPACE = table(
    ("version", TEXT, REQUIRED, f"version of the section: {VERSION}"),
    ("parameters", MAP, None, "a [parameter](#parameter) by its name in expressions and results"),
    ("ties", MAP, None, "expressions over the parameters, by the entry of the architecture that follows from them"),
    ("limits", MAP, None, f"greatest values, by {', '.join(f'`{name}`' for name in MACHINE_LIMITS)} or an expression"),
    ("energy", one(*CHOICES), None, "the source of energies"))
VALUES = table(
    ("values", LIST, None, "its values: numbers, or words"),
    ("powers_of_two", LIST, None, "[LOW, HIGH]: all powers of two between them"),
    ("range", LIST, None, "[LOW, HIGH]: all values from LOW to HIGH that are `step` apart"),
    ("step", real(above=0), None, "distance of the values of a range"))
PARAMETER = table(("path", TEXT, "", "the entry that is set, such as `Buffer.attributes.depth`")) | VALUES
"""The keys of the section `design_space`, of the values of a parameter, and of a parameter."""

Vary = Mapping[str, Any] | Sequence[str]
"""Template variables that are parameters: ranges by name, or texts "NAME=RANGE"."""


def read_space(*sources: Source, jinja_data: Mapping[str, Any] | None = None, vary: Vary = (),
               limits: Mapping[str, float] | None = None, energy: str | None = None,
               strict: bool = True) -> DesignSpace:
    """Reads a space of designs.

    Args:
        *sources: Files (or one dict) with an architecture in the v0.4 dialect and the section `design_space`.
        jinja_data: Fixed variables of the files' Jinja2 templates.
        vary: Variables of the templates that are parameters of the space: texts such as "side=8:64:x2", or a mapping
            from names to such ranges, lists of values, or mappings as under `parameters`.
        limits: Greatest values by name, besides those in the section; a limit here replaces one of the same name.
        energy: Source of energies that no table in the design gives (see `energy.source_names.CHOICES`), instead of the
            section's source; None: as the section says, else "estimate" in a search, one source for all designs.
        strict: Whether input of the designs that Timeloop ignores is an error.

    Returns:
        The space, with checked paths, expressions and values.

    Raises:
        SpecError: Bad input, with file, line and YAML path.
        FadiffError: A bundled file does not exist.
    """
    data, varied = dict(jinja_data or {}), tuple(_varied(vary))
    first = {parameter.name: parameter.values[0] for parameter in varied}
    if both := [name for name in first if name in data]:
        raise Where("vary").error(f"found {listed(both)}, which a variable of the templates (-D) fixes", "one of them")
    document = read_document(*sources, jinja_data={**data, **first})
    if not is_v04(document):
        raise document.where.error("the architecture of a design space is no tree of nodes",
                                   "architecture: with nodes:, the v0.4 dialect")
    section = Reader(mapping(document.get(SECTION) or Map(where=document.where), document.at(SECTION)), DESIGN_SPACE)
    parameters = (*section.read("parameters", (), check=_parameters), *varied)
    node = section.read("ties", Map(where=document.where))  # a bare number is an expression, too
    ties = {str(path): Tie(text(item, node.at(path)), node.at(path)) for path, item in node.items()}
    bounds = section.read("limits", {}, check=_limits) | _limits(dict(limits or {}), Where("limits"))
    energies = section.read("energy")
    if section.node:
        found = section.read("version")
        if found != VERSION:
            raise section.at("version").error(f"found version {found}", VERSION)
    section.finish(" of the design space")
    files = source_files(sources)
    space = DesignSpace(Path(files[0]).stem if files else "space", parameters, ties,
                        {name: most for name, (most, _) in bounds.items()}, _without_section(document),
                        energy or energies, files, sources, data, strict)
    _check(space, {name: place for name, (_, place) in bounds.items()}, document.at(SECTION))
    return space


def _varied(vary: Vary) -> Iterator[Parameter]:
    """The parameters among the variables of templates."""
    for entry in vary:
        if not isinstance(vary, Mapping) and "=" not in entry:
            raise Where("vary").error(f'found "{entry}"', f"NAME=RANGE, where RANGE is {TEXT_FORMS}")
    for given, values in vary.items() if isinstance(vary, Mapping) else [entry.split("=", 1) for entry in vary]:
        name, where = str(given), Where("vary", None, str(given))
        _check_name(name, where)
        if isinstance(values, str):
            values = values_of_text(values, where)
        elif isinstance(values, dict):
            reader = Reader(Map(values, where=where), VALUES)
            values = _values_of_section(reader)
            reader.finish()
        else:
            values = _listed_values(values, where)
        yield Parameter(name, "", values, True, where)


def _parameters(value: Any, where: Where) -> tuple[Parameter, ...]:
    node, found = mapping(value, where), []
    for name, item in node.items():
        reader, place = Reader(mapping(item, node.at(name)), PARAMETER), node.at(name)
        _check_name(str(name), place)
        path = reader.read("path")
        values = _values_of_section(reader)
        reader.finish(f' of the parameter "{name}" ({FORMS})')
        found.append(Parameter(str(name), path, values, False, reader.at("path") if path else place))
    return tuple(found)


def _check_name(name: str, where: Where) -> None:
    """Raises SpecError for a name that expressions cannot use."""
    if not name.isidentifier() or keyword.iskeyword(name) or name in CONSTANTS or name in FUNCTIONS:
        raise where.error(f'the parameter is named "{name}"', "a name of letters, digits and underscores that is no "
                          "function or constant of expressions")


def _limits(value: Any, where: Where) -> dict[str, tuple[float, Where]]:
    """Greatest value and place of every limit by name."""
    node = mapping(value, where)
    return {str(name): (number(item, node.at(name)), node.at(name)) for name, item in node.items()}


def _check(space: DesignSpace, limit_places: Mapping[str, Where], section: Where) -> None:
    """Raises SpecError for invalid names, paths and expressions, all in one message, then for the designs.

    Single designs of a space may be invalid, and are then infeasible in a search. But the least, a middle or the
    greatest design must be a valid architecture; else the errors of the first one are raised.
    """
    names = [parameter.name for parameter in space.parameters]
    if not names:
        raise section.error("there are no parameters", "design_space: with parameters:, or --vary NAME=RANGE")
    mistakes, used = list[str](), set[str]()
    for tie in space.ties.values():
        with noted(mistakes):
            used |= _names_in(tie.expression, names, tie.where)
    for name, place in limit_places.items():
        with noted(mistakes):
            if name not in MACHINE_LIMITS:
                _names_in(name, names, place, tuple(MACHINE_LIMITS))
    for parameter in space.parameters:
        with noted(mistakes):
            if names.count(parameter.name) > 1:
                raise parameter.where.error(f'the parameter "{parameter.name}" is given twice', "different names")
            if parameter.path:
                find_entry(space.document, parameter.path, parameter.where)
                same = next(other for other in space.parameters if other.path == parameter.path)
                if same is not parameter:
                    raise parameter.where.error(f'the parameters "{same.name}" and "{parameter.name}" have one path',
                                                "different paths")
            elif not parameter.template and parameter.name not in used:
                raise parameter.where.error(f'the parameter "{parameter.name}" changes nothing', "a path, or ties that "
                                            "read it (a variable of templates: --vary NAME=RANGE)")
    for path, tie in space.ties.items():
        with noted(mistakes):
            find_entry(space.document, path, tie.where)
            for parameter in space.parameters:
                if parameter.path == path:
                    raise tie.where.error(f'the parameter "{parameter.name}" has this path already',
                                          "a path of its own")
    if mistakes:
        raise SpecError(*mistakes)
    first: SpecError | None = None
    for index_of in (lambda count: 0, lambda count: count // 2, lambda count: count - 1):
        try:
            design_architecture(space, tuple(index_of(len(parameter.values)) for parameter in space.parameters))
            return
        except SpecError as error:
            first = first or error
    assert first is not None
    raise first


def _names_in(expression: str, names: Sequence[str], where: Where, besides: Sequence[str] = ()) -> frozenset[str]:
    """The parameters that an expression reads. Raises SpecError for an invalid expression or an unknown name."""
    try:
        tree = syntax_tree(expression)
    except FadiffError as error:
        raise where.error(str(error), f"an expression over {listed(names)}") from None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in sorted(read - called - {*names, *CONSTANTS}):
        known = [*names, *besides]
        raise where.error(f'"{name}" is no parameter{nearest(name, known)}', listed(known))
    for name in sorted(called - {*FUNCTIONS}):
        raise where.error(f'there is no function "{name}"{nearest(name, sorted(FUNCTIONS))}', listed(sorted(FUNCTIONS)))
    return frozenset(read & set(names))
