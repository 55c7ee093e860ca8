"""Files -> `DesignSpace`: an architecture with the section `design_space`, in the same file or in one beside it."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError, SpecError, listed, nearest
from fadiff_mapper.design.space.design_document import SECTION, design_architecture, without_section
from fadiff_mapper.design.space.design_space import (
    MACHINE_LIMITS,
    DesignSpace,
    Limit,
    Parameter,
    Point,
    Tie,
)
from fadiff_mapper.design.space.node_paths import find_entry
from fadiff_mapper.design.space.value_ranges import FORMS, TEXT_FORMS, take_values, values_of
from fadiff_mapper.energy.source_names import CHOICES
from fadiff_mapper.inputs.load import Source, read_document, source_files
from fadiff_mapper.spec.v04 import is_v04
from fadiff_mapper.yaml.expressions import CONSTANT_NAMES, FUNCTION_NAMES, syntax_tree
from fadiff_mapper.yaml.located import Map, Reader, mapping, number, one_of, text
from fadiff_mapper.yaml.place import Where

VERSION = "0.1"
"""Version of the section, which it states."""

Vary = Mapping[str, Any] | Sequence[str]
"""Template variables that are parameters: ranges by name, or texts "NAME=RANGE"."""


def is_space(document: Map) -> bool:
    """Whether a document has the section that makes a space of an architecture."""
    return SECTION in document


def read_space(*sources: Source, jinja_data: Mapping[str, Any] | None = None, vary: Vary = (),
               limits: Mapping[str, float] | None = None, strict: bool = True) -> DesignSpace:
    """Reads a space of designs.

    Args:
        *sources: Files (or one dict) with an architecture in the v0.4 dialect and the section `design_space`.
        jinja_data: Fixed variables of the files' Jinja2 templates.
        vary: Variables of the templates that are parameters of the space: texts such as "side=8:64:x2", or a mapping
            from names to such ranges, lists of values, or mappings as under `parameters`.
        limits: Greatest values by name, besides those in the section; the same name takes the section's place.
        strict: Whether input of the designs that Timeloop ignores is an error.

    Returns:
        The space, of which every path, expression and value has been checked.

    Raises:
        SpecError: Bad input, with file, line and YAML path.
        FadiffError: There is no bundled file of a name.
    """
    data = dict(jinja_data or {})
    varied = tuple(_varied(vary))
    first = {parameter.name: parameter.values[0] for parameter in varied}
    document = read_document(*sources, jinja_data={**data, **first})
    if not is_v04(document):
        raise document.where.error("the architecture of a design space is no tree of nodes",
                                   "architecture: with nodes:, the v0.4 dialect")
    section = Reader(mapping(document.get(SECTION) or Map(where=document.where), document.at(SECTION)))
    parameters = (*section.take("parameters", _parameters, ()), *varied)
    ties = section.take("ties", _ties, {})
    bounds = section.take("limits", _limits, {}) | _limits(dict(limits or {}), Where("limits"))
    energy = section.take("energy", one_of(*CHOICES), None)
    _check_version(section)
    section.finish(" of the design space")
    files = source_files(sources)
    space = DesignSpace(Path(files[0]).stem if files else "space", parameters, ties,
                        tuple(Limit(name, most) for name, (most, _) in bounds.items()), without_section(document),
                        energy, files, sources, data, strict)
    _check(space, {name: place for name, (_, place) in bounds.items()}, document.at(SECTION))
    return space


def _check_version(section: Reader) -> None:
    """Raises SpecError for a section of another version, or without one."""
    if section.node:
        found = section.take("version", text)
        if found != VERSION:
            raise section.at("version").error(f"found version {found}", VERSION)


def _varied(vary: Vary) -> list[Parameter]:
    """The parameters among the variables of templates."""
    given = vary.items() if isinstance(vary, Mapping) else [_name_and_range(entry) for entry in vary]
    result = []
    for name, ranges in given:
        where = Where("vary", None, str(name))
        _check_name(str(name), where)
        result.append(Parameter(str(name), "", values_of(ranges, where), True, where))
    return result


def _name_and_range(entry: str) -> tuple[str, str]:
    name, sign, ranges = entry.partition("=")
    if not sign:
        raise Where("vary").error(f'found "{entry}"', f"NAME=RANGE, where RANGE is {TEXT_FORMS}")
    return name, ranges


def _parameters(value: Any, where: Where) -> tuple[Parameter, ...]:
    """The parameters of a section."""
    node = mapping(value, where)
    return tuple(_parameter(str(name), mapping(item, node.at(name)), node.at(name)) for name, item in node.items())


def _parameter(name: str, node: Map, where: Where) -> Parameter:
    _check_name(name, where)
    reader = Reader(node)
    path = reader.take("path", text, "")
    values = take_values(reader)
    reader.finish(f' of the parameter "{name}" ({FORMS})')
    return Parameter(name, path, values, False, reader.at("path") if path else where)


def _check_name(name: str, where: Where) -> None:
    """Raises SpecError for a name that expressions cannot use."""
    if not name.isidentifier() or keyword.iskeyword(name) or name in CONSTANT_NAMES or name in FUNCTION_NAMES:
        raise where.error(f'the parameter is named "{name}"', "a name of letters, digits and underscores that is no "
                          "function or constant of expressions")


def _ties(value: Any, where: Where) -> dict[str, Tie]:
    """The ties of a section by path; a bare number is an expression, too."""
    node = mapping(value, where)
    return {str(path): Tie(str(path), text(item, node.at(path)), node.at(path)) for path, item in node.items()}


def _limits(value: Any, where: Where) -> dict[str, tuple[float, Where]]:
    """Greatest value and place of every limit by name."""
    node = mapping(value, where)
    return {str(name): (number()(item, node.at(name)), node.at(name)) for name, item in node.items()}


def _check(space: DesignSpace, limit_places: Mapping[str, Where], section: Where) -> None:
    """Raises SpecError for names, paths and expressions that cannot be, all of them in one."""
    names = [parameter.name for parameter in space.parameters]
    if not names:
        raise section.error("there are no parameters", "design_space: with parameters:, or --vary NAME=RANGE")
    mistakes: list[str] = []

    def met(check: Any, *arguments: Any) -> Any:
        try:
            return check(*arguments)
        except SpecError as error:
            mistakes.extend(error.problems)
            return frozenset()

    used = {name for tie in space.ties.values() for name in met(_names_in, tie.expression, names, tie.where)}
    for name, place in limit_places.items():
        if name not in MACHINE_LIMITS:
            met(_names_in, name, names, place, MACHINE_LIMITS)
    for parameter in space.parameters:
        met(_check_parameter, parameter, names, used, space)
    for tie in space.ties.values():
        met(_check_tie, tie, space)
    if mistakes:
        raise SpecError(*mistakes)
    _check_designs(space)


def _names_in(expression: str, names: Sequence[str], where: Where, besides: Sequence[str] = ()) -> frozenset[str]:
    """The parameters that an expression reads. Raises SpecError for one that is none, or reads another name."""
    try:
        tree = syntax_tree(expression)
    except FadiffError as error:
        raise where.error(str(error), f"an expression over {listed(names)}") from None
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    for name in sorted(read - called - {*names, *CONSTANT_NAMES}):
        known = [*names, *besides]
        raise where.error(f'"{name}" is no parameter{nearest(name, known)}', listed(known))
    for name in sorted(called - FUNCTION_NAMES):
        raise where.error(f'there is no function "{name}"{nearest(name, sorted(FUNCTION_NAMES))}',
                          listed(sorted(FUNCTION_NAMES)))
    return frozenset(read & set(names))


def _check_parameter(parameter: Parameter, names: Sequence[str], used: set[str], space: DesignSpace) -> None:
    """Raises SpecError for a parameter of a name or path given twice, of no such path, or that changes nothing."""
    if names.count(parameter.name) > 1:
        raise parameter.where.error(f'the parameter "{parameter.name}" is given twice', "different names")
    if parameter.path:
        find_entry(space.document, parameter.path, parameter.where)
        same = next(other for other in space.parameters if other.path == parameter.path)
        if same is not parameter:
            raise parameter.where.error(f'the parameters "{same.name}" and "{parameter.name}" have one path',
                                        "different paths")
    elif not parameter.template and parameter.name not in used:
        raise parameter.where.error(f'the parameter "{parameter.name}" changes nothing',
                                    "a path, or ties that read it (a variable of templates: --vary NAME=RANGE)")


def _check_tie(tie: Tie, space: DesignSpace) -> None:
    """Raises SpecError for a tie of no such path, or of a parameter's."""
    find_entry(space.document, tie.path, tie.where)
    for parameter in space.parameters:
        if parameter.path == tie.path:
            raise tie.where.error(f'the parameter "{parameter.name}" has this path already', "a path of its own")


def _check_designs(space: DesignSpace) -> None:
    """Reads three designs: of the least, of middling and of the greatest values.

    Single designs of a space may be impossible, and are then infeasible in a search.

    Raises:
        SpecError: None of them is an architecture; the mistakes of the first are told.
    """
    ends: list[Point] = [tuple(0 for _ in space.parameters),
                         tuple(len(parameter.values) // 2 for parameter in space.parameters),
                         tuple(len(parameter.values) - 1 for parameter in space.parameters)]
    first: SpecError | None = None
    for point in ends:
        try:
            design_architecture(space, point)
            return
        except SpecError as error:
            first = first or error
    assert first is not None
    raise first
