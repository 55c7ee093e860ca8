"""Files -> `DesignSpace`: an architecture with the section `design_space`, in the same file or in one beside it."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import FadiffError, SpecError, listed, nearest
from fadiff_mapper.design.space.design_space import (
    FORMS,
    MACHINE_LIMITS,
    TEXT_FORMS,
    DesignSpace,
    Limit,
    Parameter,
    Point,
    Tie,
    Value,
    parameter_values,
    take_values,
    values_of,
)
from fadiff_mapper.inputs.energy.source_names import CHOICES
from fadiff_mapper.inputs.load import Source, read_document, source_files
from fadiff_mapper.inputs.native.arch import LEVEL_ATTRIBUTES, read_architecture
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.v04 import is_v04, translated_architecture
from fadiff_mapper.inputs.v04.nodes import DECLARED
from fadiff_mapper.inputs.yaml.expressions import CONSTANT_NAMES, FUNCTION_NAMES, Literal, evaluate, syntax_tree
from fadiff_mapper.inputs.yaml.leniency import Leniency
from fadiff_mapper.inputs.yaml.located import LARGEST_WHOLE, Map, Reader, Seq, mapping, number, one_of, text
from fadiff_mapper.inputs.yaml.place import Where

Steps: TypeAlias = tuple[str | int, ...]
"""Keys and indices from the document's root to an entry."""

NODE_KEYS = ("class", "subclass", "enabled", "area_scale", "energy_scale")
"""Entries of a node besides its attributes and its mesh that a path may name."""
MESH = ("meshX", "meshY")
VARIABLES = "variables"
"""The section whose entries the expressions of an architecture read; a path may begin with it."""

UNWRITTEN = tuple(sorted({*LEVEL_ATTRIBUTES, *DECLARED} - {"instances", *MESH}))
"""Attributes that a path may name where the architecture does not write them: Timeloop knows these."""


def find_entry(document: Map, path: str, where: Where) -> Steps:
    """Finds the entry of an architecture that a path names.

    Args:
        document: A v0.4 document.
        path: NODE.attributes.NAME, NODE.spatial.meshX (or meshY), NODE.KEY with a key of `NODE_KEYS`, or
            variables.NAME. Nodes are found by name, at any depth of the tree.
        where: Place of the path, for messages.

    Returns:
        Keys and indices down to the entry; its last maps need not be written yet.

    Raises:
        SpecError: There is no such node or entry.
    """
    nodes = dict(_named_nodes(document["architecture"], ("architecture",)))
    owners = [name for name in nodes if path.startswith(f"{name}.")]
    if owners:
        name = max(owners, key=len)
        return nodes[name] + _below_node(_at(document, nodes[name]), name, path[len(name) + 1:], where)
    first, _, rest = path.partition(".")
    if first == VARIABLES and rest:
        return (VARIABLES, _known_key(rest, [str(key) for key in document.get(VARIABLES) or {}], "variable", where))
    known = [*nodes, *([VARIABLES] if document.get(VARIABLES) else [])]
    raise where.error(f'the architecture has no node "{first}"{nearest(first, known)}', listed(known))


def put(document: Map, steps: Steps, value: Any, where: Where) -> Map:
    """The document with one entry replaced; the given document stays as it is.

    Args:
        document: The document.
        steps: The entry, as from `find_entry`.
        value: Its new value.
        where: Place of the value, which later messages name.
    """
    result = _with_entry(document, steps, value, where)
    assert isinstance(result, Map)
    return result


def _with_entry(owner: Any, steps: Steps, value: Any, where: Where) -> Any:
    """A copy of a map or list with the entry below it replaced; maps that are not there are made."""
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if isinstance(owner, list):
        items = Seq(owner, where=_where(owner, where), tag=getattr(owner, "tag", None),
                    places=getattr(owner, "places", ()))
        items[int(step)] = _with_entry(owner[int(step)], rest, value, where)
        return items
    written = owner if isinstance(owner, dict) else {}
    result = Map(written, where=_where(owner, where), tag=getattr(owner, "tag", None),
                 places=dict(getattr(owner, "places", {})))
    result[step] = _with_entry(written.get(step), rest, value, where)
    if not rest:
        result.places[step] = where
    return result


def _where(owner: Any, where: Where) -> Where:
    """The place of a map or list; that of the new value where it is not there."""
    return owner.where if isinstance(owner, Map | Seq) else where


def _named_nodes(branch: Any, steps: Steps) -> Iterator[tuple[str, Steps]]:
    """Name and steps of every node below an architecture or a branch, nested branches included."""
    nodes = branch.get("nodes") if isinstance(branch, dict) else None
    for i, node in enumerate(nodes if isinstance(nodes, list) else ()):
        here = (*steps, "nodes", i)
        if isinstance(node, dict):
            if "nodes" in node:
                yield from _named_nodes(node, here)
            elif node.get("name"):
                yield str(node["name"]), here


def _at(document: Any, steps: Steps) -> Any:
    """The entry at the end of the steps."""
    for step in steps:
        document = document[step]
    return document


def _below_node(node: Map, name: str, rest: str, where: Where) -> Steps:
    """The steps from a node to the entry that the rest of a path names."""
    section, _, key = rest.partition(".")
    if section == "spatial" and key:
        return ("spatial", _known_key(key, MESH, f'entry of the spatial part of "{name}"', where))
    if section == "attributes" and key:
        return ("attributes", *_attribute(node.get("attributes") or {}, key, name, where))
    if section in NODE_KEYS and not key:
        return (section,)
    accepted = ["attributes.NAME", *(f"spatial.{axis}" for axis in MESH), *NODE_KEYS]
    raise where.error(f'"{name}" has no entry "{rest}"{nearest(rest, accepted)}', listed(accepted))


def _attribute(attributes: dict[Any, Any], key: str, name: str, where: Where) -> Steps:
    """The steps to an attribute, or to an entry of an attribute that is a mapping."""
    outer, _, inner = key.partition(".")
    if key not in attributes and inner and isinstance(attributes.get(outer), dict):
        entries = [str(entry) for entry in attributes[outer]]
        return (outer, _known_key(inner, entries, f'entry of the attribute "{outer}" of "{name}"', where))
    written = [str(entry) for entry in attributes]
    return (_known_key(key, [*written, *(entry for entry in UNWRITTEN if entry not in written)],
                       f'attribute of "{name}"', where),)


def _known_key(key: str, known: Sequence[str], what: str, where: Where) -> str:
    """The key, if it is known. Raises SpecError with the nearest one."""
    if key not in known:
        raise where.error(f'there is no {what} named "{key}"{nearest(key, known)}', listed(known))
    return key


SECTION = "design_space"
"""The section of a document that makes a space of an architecture."""


def design_document(space: DesignSpace, point: Point) -> Map:
    """The document of one design.

    Args:
        space: The space.
        point: The index of every parameter's value.

    Returns:
        An ordinary v0.4 document without the section on the space, in which every entry still knows its place; an
        entry that was put in has the place of its parameter or tie.

    Raises:
        SpecError: A tie cannot be computed, a template cannot be rendered with these values, or what it renders to
            has no entry of a path.
    """
    values = parameter_values(space, point)
    document = _rendered(space, values)
    for parameter in space.parameters:
        if parameter.path:
            steps = find_entry(document, parameter.path, parameter.where)
            document = put(document, steps, values[parameter.name], parameter.where)
    for path, value in tied_values(space, values).items():
        document = put(document, find_entry(document, path, space.ties[path].where), value, space.ties[path].where)
    return document


def design_architecture(space: DesignSpace, point: Point) -> Architecture:
    """The flat architecture of one design, read without a problem: constraints and mappings are left out.

    Args:
        space: The space.
        point: The index of every parameter's value.

    Raises:
        SpecError: As for `design_document`, or the document is no architecture.
    """
    document = design_document(space, point)
    with_problem = Map({"problem": Map(where=document.where), **document}, where=document.where,
                       places=document.places)
    leniency = Leniency(space.strict)
    native = translated_architecture(with_problem, leniency)
    return read_architecture(native, native.where, leniency=leniency)


def tied_values(space: DesignSpace, values: Mapping[str, Value]) -> dict[str, Any]:
    """The values of all ties by path.

    Args:
        space: The space.
        values: The value of every parameter.

    Raises:
        SpecError: A tie cannot be computed.
    """
    return {path: _tied(tie, values) for path, tie in space.ties.items()}


def _tied(tie: Tie, values: Mapping[str, Value]) -> Any:
    """The value of a tie; a whole number is an integer, as a depth must be, and a text is no further expression."""
    try:
        value = evaluate(tie.expression, values)
    except FadiffError as error:
        raise tie.where.error(str(error)) from None
    if isinstance(value, float) and abs(value) <= LARGEST_WHOLE and value == int(value):
        return int(value)
    return Literal(value) if isinstance(value, str) else value


def _rendered(space: DesignSpace, values: Mapping[str, Value]) -> Map:
    """The document with the parameters among the templates' variables at these values, without the section."""
    variables = {parameter.name: values[parameter.name] for parameter in space.parameters if parameter.template}
    if not variables:
        return space.document
    return without_section(read_document(*space.sources, jinja_data={**space.jinja_data, **variables}))


def without_section(document: Map) -> Map:
    """The document without the section that makes a space of it."""
    return Map({key: value for key, value in document.items() if key != SECTION}, where=document.where,
               tag=document.tag, places=document.places)


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
