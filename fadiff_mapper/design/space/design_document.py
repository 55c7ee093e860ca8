"""The ordinary v0.4 document of one design: the space's document with the values of a point in place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.space.design_space import DesignSpace, Point, Tie, Value, parameter_values
from fadiff_mapper.design.space.node_paths import find_entry, put
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.arch import read_architecture
from fadiff_mapper.spec.v04 import translated_architecture
from fadiff_mapper.yaml.expressions import Literal, evaluate
from fadiff_mapper.yaml.leniency import Leniency
from fadiff_mapper.yaml.located import LARGEST_WHOLE, Map

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
