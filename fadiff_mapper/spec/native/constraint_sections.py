"""Where constraints stand in a document: the top-level sections, and the single constraints within them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.yaml.leniency import Leniency
from fadiff_mapper.yaml.located import Map, Reader, kind_of, mapping, one_of, sequence, text
from fadiff_mapper.yaml.place import Where

ARCHITECTURE, MAPSPACE = "architecture_constraints", "mapspace_constraints"
"""The sections by the names under which they are written out again."""

TYPES = {
    "temporal": "temporal", "spatial": "spatial",
    "datatype": "dataspace", "bypass": "dataspace", "bypassing": "dataspace", "dataspace": "dataspace",
    "utilization": "parallelism", "parallelism": "parallelism",
    "max_overbooked_proportion": "overbooking",
}
"""Every spelling of a constraint's type -> what it constrains."""


@dataclass(frozen=True)
class ConstraintEntry:
    """One constraint, ready to be read.

    Timeloop takes some keys from the constraint itself and some from its `attributes`, where it has them.

    Attributes:
        section: `ARCHITECTURE` or `MAPSPACE`.
        target: Name of its level.
        target_where: Place of that name.
        type: Its type as written.
        kind: The loops or data spaces that it constrains, a value of `TYPES`.
        own: Reader of the constraint itself.
        attributes: Reader of its `attributes`; without them the same as `own`.
    """

    section: str
    target: str
    target_where: Where
    type: str
    kind: str
    own: Reader
    attributes: Reader

    @property
    def where(self) -> Where:
        """Place of the constraint."""
        return self.own.node.where

    def keys(self) -> dict[Any, Any]:
        """The keys that constrain something, those of `attributes` included."""
        structure = ("target", "name", "type", "attributes")
        return {key: value for node in (self.own.node, self.attributes.node) for key, value in node.items()
                if key not in structure}

    def finish(self) -> None:
        """Refuses keys that were never asked for. Raises SpecError."""
        context = f" in a {self.kind} constraint"
        self.own.finish(context)
        if self.attributes is not self.own:
            self.attributes.finish(context)


@dataclass(frozen=True)
class FoundConstraint:
    """A constraint before it is read.

    Attributes:
        section: `ARCHITECTURE` or `MAPSPACE`.
        target: The node that names its level; several constraints of one target share it.
        node: The constraint itself.
    """

    section: str
    target: Map
    node: Map


def find_constraints(document: Map, leniency: Leniency) -> Iterator[FoundConstraint]:
    """Every single constraint of a document, in the order of the text, architecture sections first.

    Read are `constraints` inside the architecture, `arch_constraints`, `architecture_constraints` or
    `constraints` (one of them), and `mapspace` or `mapspace_constraints` (one of them). Timeloop reads the first
    it finds of the former without a word on the others; here two of them are an error.

    Args:
        document: The merged input in the native dialect.
        leniency: Decides about keys that Timeloop ignores.

    Raises:
        SpecError: Two sections of which Timeloop would read one, or a section that is no list of constraints.
    """
    sections = {ARCHITECTURE: _architecture_sections(document), MAPSPACE: _mapspace_sections(document)}
    for section, written in sections.items():
        if len(written) > 1:
            (first, first_where, _), (second, second_where, _) = written[:2]
            raise second_where.error(f'found "{second}" besides "{first}" ({first_where})', "one of these sections")
        for _, where, value in written:
            yield from _section_entries(section, value, where, leniency)


def open_entry(constraint: FoundConstraint, leniency: Leniency) -> ConstraintEntry:
    """Reads target and type of a constraint.

    Args:
        constraint: The constraint.
        leniency: Decides about keys that Timeloop ignores.

    Raises:
        SpecError: There is no target, or the type is unknown.
    """
    own = Reader(constraint.node, leniency)
    named = own if constraint.target is constraint.node else Reader(constraint.target)
    target = named.take(("target", "name"), text)
    target_where = named.at("target" if constraint.target.get("target") is not None else "name")
    kind = own.take("type", one_of(*TYPES))
    nested = own.take("attributes", mapping, None)
    attributes = own if nested is None else Reader(nested, leniency)
    return ConstraintEntry(constraint.section, target, target_where, kind, TYPES[kind], own, attributes)


def _architecture_sections(document: Map) -> list[tuple[str, Where, Any]]:
    """(key, place, value) of every section of architecture constraints that is there."""
    trees = [(key, document[key]) for key in ("architecture", "arch") if isinstance(document.get(key), Map)]
    inside = [(f"{key}.constraints", where, value) for key, tree in trees
              for _, where, value in _present(tree, "constraints")]
    return inside + _present(document, "arch_constraints", "architecture_constraints", "constraints")


def _mapspace_sections(document: Map) -> list[tuple[str, Where, Any]]:
    return _present(document, "mapspace", "mapspace_constraints")


def _present(document: Map, *keys: str) -> list[tuple[str, Where, Any]]:
    return [(key, document.at(key), document[key]) for key in keys if document.get(key) is not None]


def _section_entries(section: str, value: Any, where: Where, leniency: Leniency) -> Iterator[FoundConstraint]:
    """A section is a list of constraints, or a mapping with such a list under `targets` or `constraints`."""
    if isinstance(value, dict):
        yield from _named_list(section, mapping(value, where), leniency)
        return
    if not isinstance(value, list):
        raise where.error(f"found {kind_of(value)}", "a list of constraints, or a mapping with such a list as targets")
    entries = sequence(value, where)
    for i, entry in enumerate(entries):
        yield from _target_entries(section, mapping(entry, entries.at(i)), leniency)


def _named_list(section: str, node: Map, leniency: Leniency) -> Iterator[FoundConstraint]:
    """`targets: [...]`, `constraints: [...]`, or `constraints: NAME` with the list under `constraints_NAME`."""
    reader = Reader(node, leniency)
    reader.take("version", text, None)
    template = reader.take("template", one_of("uber", "ruby"), "uber")
    if template == "ruby":
        raise reader.at("template").error('the template "ruby" (imperfect factors) is not supported', "uber")
    alternatives = [str(key) for key in node if str(key).startswith("constraints_")]
    reader.asked += ["targets", "constraints", *alternatives]
    if reader.has("constraints") and reader.has("targets"):
        raise reader.at("targets").error('found "targets" besides "constraints"', "one of them")
    key = "constraints" if reader.has("constraints") else "targets"
    if isinstance(node.get("constraints"), str):
        names = [alternative.removeprefix("constraints_") for alternative in alternatives]
        key = f"constraints_{reader.take('constraints', one_of(*names))}"
    constraints = reader.take(key, sequence, [])
    reader.finish()
    if constraints:
        yield from _section_entries(section, constraints, reader.at(key), leniency)


def _target_entries(section: str, node: Map, leniency: Leniency) -> Iterator[FoundConstraint]:
    """One constraint, or several of them listed under the `constraints` of their common target."""
    if "constraints" not in node:
        yield FoundConstraint(section, node, node)
        return
    reader = Reader(node, leniency)
    reader.take(("target", "name"), text)
    constraints = reader.take("constraints", sequence)
    reader.finish()
    for i, constraint in enumerate(constraints):
        yield FoundConstraint(section, node, mapping(constraint, constraints.at(i)))
