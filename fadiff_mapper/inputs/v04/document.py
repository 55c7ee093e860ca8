"""A whole v0.4 document -> the equivalent native one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.native.problem import ReadProblem, read_problem
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.v04 import constraints, nodes
from fadiff_mapper.inputs.yaml.expressions import resolve
from fadiff_mapper.inputs.yaml.load import combined
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, mapping, placed_list, sequence
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

CONSTRAINTS, COMPONENTS, MAPPING = "constraints", "components", "mapping"
"""Every top-level key that contains one of these words is such a section (the front end's rule)."""
PLAIN = re.compile(r"\(.*\)$|[-+.\deE]+$")  # density texts that Timeloop reads as intended: (...), or a number
HARMLESS_VARIABLES = ("TIMELOOP_HIDE_INCONSEQUENTIAL_STATS",)
"""The environment variables of Timeloop that change the printed output, but no result."""


def is_v04(document: Map) -> bool:
    """Whether the architecture is a `nodes:` tree, as only the v0.4 dialect has it."""
    architecture = document.get("architecture")
    return isinstance(architecture, dict) and "nodes" in architecture


def translate(document: Map, leniency: Leniency = STRICT) -> tuple[Map, ReadProblem]:
    """Translates a document as Timeloop's Python front end would hand it to the binaries.

    Every fan-out X becomes a `dummy_storage` level `inter_X_spatial`; container attributes are handed inwards;
    constraints and mapping become flat lists of directives with strings. Every entry of the native document keeps its
    place in the user's files. The read problem is returned, too, as constraints name its dimensions and data spaces.
    `leniency` decides about input that the front end accepts and Timeloop then ignores.
    """
    sections = nodes.without_ignored(document)
    named = {part: [key for key in map(str, sections) if part in key] for part in (CONSTRAINTS, COMPONENTS, MAPPING)}
    named[MAPPING] = [key for key in named[MAPPING] if CONSTRAINTS not in key and COMPONENTS not in key]
    for second in named[MAPPING][1:]:
        raise sections.at(second).error(f'found "{second}" besides "{named[MAPPING][0]}"', "one mapping")
    reader = Reader(sections, keys.V04_DOCUMENT | {
        key: replace(keys.V04_DOCUMENT[part], spellings=(key,)) for part, found in named.items() for key in found})
    shared = _globals(reader)
    variables, problem_node, names = _named_values(reader, leniency)
    read = read_problem(problem_node, problem_node.where, STRICT, leniency)
    problem = read.problem
    units: list[Map] = []
    tree = nodes.without_units(nodes.read_tree(reader.read("architecture"), names), units)
    for leaf in nodes.leaves(tree):  # the front end refuses hyphens in the attributes of memories that it knows
        for key in leaf.attributes if leaf.role == "storage" else ():
            spelling = str(key).replace("-", "_")
            if spelling != key and spelling in nodes.DECLARED:
                raise leaf.attributes.at(key).error(
                    f'the attribute "{key}" is refused by Timeloop (did you mean "{spelling}"?)', f'"{spelling}"')
    placed = nodes.place_levels(tree)
    levels = tuple(level for level in placed if level.role != "network")
    scope = constraints.ExpressionScope(problem, names, leniency)
    targets = [target for key in named[CONSTRAINTS]
               for target in reader.read(key, [], check=constraints.target_entries)]
    written = constraints.read_constraints(tree, targets, scope)
    groups = constraints.expanded_constraints(tree, written, problem)
    items: dict[str, Any] = {
        "architecture": nodes.native_architecture(tree, placed, variables, leniency),
        "architecture_constraints": Map({"targets": constraints.native_targets(levels, groups, problem, tree.where)},
                                        where=tree.where),
        "problem": problem_node}
    if units:
        items["units"] = placed_list(((unit, unit.where) for unit in units), tree.where)
    entries = reader.read(named[MAPPING][0]) if named[MAPPING] else None
    if entries is not None:
        items["mapping"] = constraints.native_mapping(entries, tree, levels, written, scope)
    items["globals"] = shared
    # Sections that are handed on as they are, and those that are not modelled.
    reader.refuse("layout", "data layouts are not modelled")
    reader.refuse("design_space", "this is a space of designs, for the command `design`; one of its designs is wanted")
    mapspace = Reader(nodes.without_ignored(reader.read("mapspace", Map(where=reader.node.where))), keys.MAPSPACE)
    mapspace.read("version")
    if mapspace.read("template") == "ruby":
        raise mapspace.at("template").error('the template "ruby" (imperfect factors) is not supported',
                                            "uber, and the option --imperfect of map")
    mapspace.finish(" in the map space")
    items |= {key: reader.read(key) for key in ("ERT", "ART")}
    mapper = reader.read("mapper")
    items["mapper"] = None if mapper is None else nodes.without_ignored(mapper)
    items["compound_components"] = _components(reader, named[COMPONENTS])
    # The treatment of zeros in a section of its own and in the nodes, as one native section.
    section = nodes.without_ignored(reader.read("sparse_optimizations", Map(where=reader.node.where)))
    entries = Reader(section, keys.SPARSE).read("targets", Seq(where=section.where))
    found = {level.name: level.leaf.sparse for level in levels if level.leaf.sparse and level.role != nodes.FAN_OUT}
    for value, at in entries.placed():
        entry = mapping(value, at)
        key = "target" if "target" in entry else "name"  # of the front end, and of the native dialect
        name = Reader(entry, keys.V04_SPARSE_TARGET).read("target")
        rest = Map({other: item for other, item in entry.items() if other != key}, where=at,
                   places={**entry.places, "name": entry.at(key)})
        found[name] = combined([found[name], rest]) if name in found else rest
    if found or "targets" in section:
        listed_parts = placed_list(((part.having({**part, "name": name}), part.where) for name, part in found.items()),
                                   section.where)
        items["sparse_optimizations"] = section.having({**section, "targets": listed_parts})
    reader.finish()
    return Map({key: value for key, value in items.items() if value is not None}, where=document.where,
               places=document.places), read


def translated_architecture(document: Map, leniency: Leniency = STRICT) -> Map:
    """The `architecture` section of `translate`; constraints, mapping and the problem's values are not read."""
    reader = Reader(nodes.without_ignored(document), keys.V04_DOCUMENT)
    variables, _, names = _named_values(reader, leniency)
    tree = nodes.without_units(nodes.read_tree(reader.read("architecture"), names), [])
    return nodes.native_architecture(tree, nodes.place_levels(tree), variables, leniency)


def _named_values(reader: Reader, leniency: Leniency) -> tuple[Map, Map, nodes.Names]:
    """The computed variables and problem section, and the values that expressions in the architecture can read.

    The front end combines a list of variables into one mapping, whose common keys must agree. In
    `len(spec.problem.instance)` it counts the densities, empty or not. It evaluates the text of a `density` only in
    parentheses; Timeloop reads other text as 0.
    """
    def one_mapping(value: Any, where: Where) -> Map:
        if not isinstance(value, list):
            return mapping(value, where)
        leniency.meet([Oddity(where, "list", "found a list", "a mapping", "its mappings count as one")])
        return combined([Map(where=where), *(mapping(item, at) for item, at in sequence(value, where).placed())])

    def densities(value: Any, where: Where) -> Any:
        """Densities with the expressions of their numbers worked out; names of distributions stay."""
        if not isinstance(value, Map):
            return resolve(value, where, known)
        items: dict[Any, Any] = {}
        for key, item in value.items():
            items[key] = item if key == "distribution" else densities(item, value.at(key))
            if key == "density" and isinstance(item, str) and isinstance(items[key], int | float) and (
                    not PLAIN.match(item)):
                leniency.meet([Oddity(value.at(key), f"density {item}", f'found the text "{item}"', f'"({item})"',
                                      "Timeloop reads 0")])
                items[key] = 0.0
        return value.having(items)

    given = reader.read("variables", Map(where=reader.node.where), check=one_mapping)
    variables = Map({"version": keys.V04}, where=given.where, places=given.places)
    variables.update(nodes.resolve_map(given, {"spec": {"problem": reader.node.get("problem")}}))
    variables["version"] = keys.v04_version(variables["version"], variables.at("version"))
    problem = nodes.without_ignored(reader.read("problem"))
    instance: Map | dict[str, Any] = {}
    if isinstance(written := problem.get("instance"), Map):
        names = {**variables, "variables": variables, "spec": {"variables": variables, "problem": problem}}
        instance = nodes.without_empty(nodes.resolve_map(
            written.having({key: value for key, value in written.items() if key not in keys.INSTANCE}), names))
        known = {**names, **instance}
        instance.update({key: densities(written[key], written.at(key))
                         for key in ("densities", "commonDensity", "bits") if written.get(key) not in (None, {})})
        problem = problem.having({**problem, "instance": instance})
    document = {"variables": variables, "problem": {**problem, "instance": {"densities": {}, **instance}}}
    return variables, problem, {**variables, "variables": variables, "spec": document}


def _globals(reader: Reader) -> Map | None:
    """The globals, for Accelergy. Code from files and switches that change Timeloop's results are refused.

    They are read first: an expression that calls such code would otherwise report an unknown name.
    """
    node: Map | None = reader.read("globals")
    if node is None:
        return None
    inner = Reader(nodes.without_ignored(node), keys.GLOBALS)
    inner.read("version")
    inner.read("accelergy_plug_ins")
    files, variables = inner.read("expression_custom_functions"), inner.read("environment_variables")
    if files:
        raise inner.at("expression_custom_functions").error(
            f'"expression_custom_functions" is not supported: expressions call no code from files ({listed(files)})',
            "the Specification that Timeloop's front end makes of this input, given to fadiff_mapper.call_mapper")
    for name in variables or ():
        if str(name).startswith("TIMELOOP_") and name not in HARMLESS_VARIABLES:
            raise variables.at(name).error(f'the environment variable "{name}" is not supported: it can change results')
    inner.finish(" in the globals")
    return node


def _components(reader: Reader, sections: Sequence[str]) -> Map | None:
    """The classes of compound components under some keys of the document, as one section."""
    def classes(value: Any, where: Where) -> list[tuple[Any, Where]]:
        section = Reader(nodes.without_ignored(mapping(value, where)), keys.COMPONENTS)
        section.read("version")
        entries = section.read("classes", Seq(where=where))
        section.finish(" in the components")
        return list(flat(entries, where))

    def flat(value: Any, where: Where) -> Iterator[tuple[Any, Where]]:
        """The entries of nested lists with their places."""
        if not isinstance(value, list):
            yield value, where
        else:
            for entry, at in sequence(value, where).placed():
                yield from flat(entry, at)

    found = [item for key in sections for item in reader.read(key, [], check=classes)]
    where = reader.at(sections[0]) if sections else reader.node.where
    return Map({"version": keys.V04, "classes": placed_list(found, where)}, where=where) if sections else None
