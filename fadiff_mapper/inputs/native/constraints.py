"""Constraints on the map space: native sections -> values.

Every constraint is first taken apart into statements, each about one property of one level ("temporal factor C=2 at
Buf"). As in Timeloop, a statement given twice is an error that names both places. Others are put together by level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.native.mapping import (
    LoopFactor,
    Order,
    known_spaces,
    parse_factors,
    parse_permutation,
    permutation_text,
)
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.keys import CONSTRAINT, CONSTRAINT_SECTION, CONSTRAINT_TYPES, NATIVE_CONSTRAINTS, picked
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.yaml.located import (
    REQUIRED,
    Map,
    Reader,
    Seq,
    kind_of,
    known,
    mapping,
    one_of,
    plain,
    sequence,
)
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Where

ARCHITECTURE, MAPSPACE = "architecture_constraints", "mapspace_constraints"  # sections as they are written out
LIMITS = {"=": "fixed", "<=": "maximum", ">=": "minimum"}  # operator of a factor -> field of `LoopConstraint`
SWITCHES = {"no_reuse": "no_reuse", "no_multicast_no_reduction": "no_reuse", "no_temporal_reuse": "no_reuse",
            "no_link_transfer": "no_link_transfer", "rmw_first_update": "rmw_first_update",
            "no_coalesce": "no_coalesce"}
"""Keys that list data spaces without some kind of reuse -> the property of the statement that each key makes."""
PARTS = {"fixed": "factor of", "maximum": "maximum factor of", "minimum": "minimum factor of",
         "order": "permutation", **{part: f"{part} list" for part in SWITCHES.values()}}
"""Property of a statement -> its name in messages."""


Statement = tuple[str, str, str]
"""Kind, property and item of a statement about one level.

The kind is "temporal", "spatial", "dataspace" or "parallelism". Loops have the properties "fixed", "minimum" and
"maximum" of a dimension, "order", "split" and the switches of reuse; data spaces "kept" (of one) and "no_coalesce";
parallelism "min". The value is a number, an `Order`, a set of data spaces, or whether the data space is kept."""


def read_constraints(
    document: Map, levels: Sequence[StorageLevel], fanouts: Sequence[tuple[int, int]], problem: Problem,
    leniency: Leniency = STRICT
) -> Constraints:
    """Reads the constraints of a native document; architecture and map-space sections count alike, as in Timeloop.

    Read are `constraints` inside the architecture, `arch_constraints`, `architecture_constraints` or `constraints` (one
    of them), and `mapspace` or `mapspace_constraints` (one of them). Of the former, Timeloop silently reads only the
    first that it finds; here two of them are an error.

    A partial permutation fixes loops on the inside, and after `_` on the outside; the other loops lie in between in any
    order. Factors of 1 are no loops, so their place does not matter. `split` counts every dimension of the full spatial
    permutation, those with factor 1 too. Levels and fan-outs (X, Y) below them are innermost first. `native` holds the
    limits as plain lists with every factor and permutation as a string. Raises SpecError with all mistakes at once.
    """
    names = [level.name for level in levels]
    said: list[dict[Statement, tuple[Any, Where]]] = [{} for _ in levels]
    native: dict[str, list[dict[str, Any]]] = {}
    mistakes: list[str] = []
    repeated: list[str] = []
    document = underscored(document)
    trees = {key: document[key] for key in ("architecture", "arch") if isinstance(document.get(key), Map)}
    places = {ARCHITECTURE: [*((f"{key}.constraints", tree, "constraints") for key, tree in trees.items()),
                             *((key, document, key) for key in ("arch_constraints", ARCHITECTURE, "constraints"))],
              MAPSPACE: [(key, document, key) for key in ("mapspace", MAPSPACE)]}
    for section, candidates in places.items():
        written = [(name, node.at(key), node[key]) for name, node, key in candidates if node.get(key) is not None]
        if len(written) > 1:
            (name, where, _), (second, second_where, _) = written[:2]
            raise second_where.error(f'found "{second}" besides "{name}" ({where})', "one of these sections")
        for _, where, value in written:
            for target, node in _listed(value, where, leniency):
                try:
                    level, kind, found, literal = _statements(target, node, names, fanouts, problem, leniency)
                except SpecError as error:
                    mistakes += error.problems
                    continue
                native.setdefault(section, []).append(literal)
                for part, item, stated, place in found:
                    first, first_place = said[level].get((kind, part, item), (None, None))
                    said[level].setdefault((kind, part, item), (stated, place))
                    if first_place is None or (kind == "dataspace" and level == len(levels) - 1 and stated == first):
                        continue  # like Timeloop, the outermost level's keeps may be repeated
                    subject = (f"the data space {item}" if part == "kept" else
                               f"the {kind} {PARTS.get(part, part)} {item}".rstrip())
                    repeated.append(f"{place}: {subject} at {names[level]} is already constrained at {first_place}; "
                                    "accepted: one constraint for each")
    if mistakes or repeated:
        raise SpecError(*mistakes, *repeated)
    return Constraints(
        levels=tuple(map(_level, said)), min_parallelism=said[0].get(("parallelism", "min", ""), (0.0, None))[0],
        native={section: {"targets": targets} for section, targets in native.items()})


def _listed(value: Any, where: Where, leniency: Leniency) -> Iterator[tuple[Map, Map]]:
    """The constraints of a section, each with the node that names its level, which several may share.

    A section is a list, or a mapping with one under `targets`, `constraints`, or, where named, `constraints_NAME`.
    """
    if isinstance(value, dict):
        reader = Reader(mapping(value, where), CONSTRAINT_SECTION, leniency)
        reader.read("version")
        if reader.read("template") == "ruby":
            raise reader.at("template").error('the template "ruby" (imperfect factors) is not supported', "uber")
        alternatives = [str(key) for key in reader.node if str(key).startswith("constraints_")]
        reader.asked += alternatives
        if "constraints" in reader.node and "targets" in reader.node:
            raise reader.at("targets").error('found "targets" besides "constraints"', "one of them")
        key = "constraints" if "constraints" in reader.node else "targets"
        if isinstance(reader.node.get("constraints"), str):
            names = [alternative.removeprefix("constraints_") for alternative in alternatives]
            key = f"constraints_{reader.read('constraints', check=one_of(*names))}"
        constraints = reader.node.get(key)
        reader.finish()
        if constraints is not None:
            yield from _listed(sequence(constraints, reader.at(key)), reader.at(key), leniency)
    elif isinstance(value, list):
        for entry, at in sequence(value, where).placed():
            node = mapping(entry, at)
            if "constraints" not in node:
                yield node, node
                continue
            reader = Reader(node, picked("target constraints"), leniency)  # several, listed under their common target
            reader.read("target")
            constraints = reader.read("constraints", REQUIRED)
            reader.finish()
            for constraint, place in constraints.placed():
                yield node, mapping(constraint, place)
    else:
        raise where.error(f"found {kind_of(value)}", "a list of constraints, or a mapping with such a list as targets")


def _statements(target: Map, node: Map, names: Sequence[str], fanouts: Sequence[tuple[int, int]], problem: Problem,
                leniency: Leniency) -> tuple[int, str, list[tuple[str, str, Any, Where]], dict[str, Any]]:
    """Takes a constraint apart: its level, its kind, its statements (property, item, value, place), its native form.

    `target` names the level, one of `names`. As in Timeloop, some keys may lie in `attributes`; the native form has all
    keys side by side, without empty lists.
    """
    own = Reader(node, picked("target type attributes" if target is node else "type attributes"), leniency)
    named = own if target is node else Reader(target, CONSTRAINT)
    name, at = named.read("target"), named.at("target" if target.get("target") is not None else "name")
    spelling = own.read("type")
    kind, nested = CONSTRAINT_TYPES[spelling], own.read("attributes")
    in_attributes, others = NATIVE_CONSTRAINTS[kind]
    own.table = {**own.table, **(in_attributes if nested is None else {}), **others}
    attributes = own if nested is None else Reader(nested, in_attributes, leniency)
    known(name, at, names)
    level = names.index(name)
    if kind == "spatial" and fanouts[level] == (1, 1):
        inner = f'the next level inwards ("{names[level - 1]}")' if level else "the arithmetic"
        raise at.error(f'"{name}" has no fan-out: {inner} has as many instances, so there are no spatial loops',
                       "levels with a fan-out: " + listed(
                           level for level, (x, y) in zip(names, fanouts, strict=True) if x * y > 1))
    if kind == "parallelism" and level != 0:
        raise at.error(f'found "{name}"', f"the innermost storage level, {names[0]}, for {spelling}")
    found: list[tuple[str, str, Any, Where]] = []  # property, item, value, place
    factors: tuple[LoopFactor, ...] = ()
    permutation: Order = ((), ())

    def dataspaces(names: Seq) -> list[str]:
        """The names in a list of data spaces. Raises SpecError for an unknown or repeated one."""
        written = known_spaces(names, problem)
        for i, space in enumerate(written):
            if space in written[:i]:
                raise names.at(i).error(f'the data space "{space}" stands twice in the list', "each data space once")
        return written

    if "factors" in in_attributes:
        factors = attributes.read("factors", (), check=lambda value, where: parse_factors(
            value, where, problem.bounds, leniency=leniency))
        found += [(LIMITS[factor.operator], factor.dimension, factor.value, factor.where) for factor in factors]
        # A default holds for the dimensions that have no limit of the same direction.
        for operator, key in (("<=", "default_max_factor"), (">=", "default_min_factor")):
            limit = attributes.read(key)
            limited = [factor.dimension for factor in factors if factor.operator == operator]
            found += [(LIMITS[operator], dimension, limit, attributes.at(key))
                      for dimension in problem.dimensions if limit is not None and dimension not in limited]
        permutation = attributes.read("permutation", permutation, check=lambda value, where: parse_permutation(
            value, where, problem.dimensions, commas=True))
        if any(permutation):
            found.append(("order", "", permutation, attributes.at("permutation")))
    for key, kept in (("keep", True), ("bypass", False)) if "keep" in in_attributes else ():
        if spaces := attributes.read(key):
            found += [("kept", space, kept, spaces.at(i)) for i, space in enumerate(dataspaces(spaces))]
    for key in others:
        if key == "split" and own.read(key) is not None:
            found.append((key, "", own.read(key), own.at(key)))
        elif key in SWITCHES and (spaces := own.read(key)):  # an empty list says nothing
            found.append((SWITCHES[key], "", frozenset(dataspaces(spaces)), own.at(key)))
    if "min" in in_attributes:
        found.append(("min", "", attributes.read("min"), attributes.at("min")))
    if "remainders" in others and own.read("remainders") > 1:
        raise own.at("remainders").error('"remainders" above 1 (imperfect factors) is not supported', "1")
    if "proportion" in others and own.read("proportion") > 0:
        raise own.at("proportion").error("overbooking (max_overbooked_proportion) is not supported", "0")
    own.finish(f" in a {kind} constraint")
    attributes.finish(f" in a {kind} constraint")
    literal = {"target": name, "type": spelling} | {
        key: value for reader in (own, attributes) for key, value in plain(reader.node).items()
        if key not in ("target", "name", "type", "attributes")}
    if literal.get("factors"):
        literal["factors"] = ",".join(map(str, factors))
    if literal.get("permutation"):
        literal["permutation"] = permutation_text(*permutation)
    return level, kind, found, {key: value for key, value in literal.items() if value != []}


def _level(said: dict[Statement, tuple[Any, Where]]) -> LevelConstraints:
    loops: dict[str, dict[str, Any]] = {kind: {"sources": {}} for kind in ("temporal", "spatial")}
    spaces: dict[bool, set[str]] = {True: set(), False: set()}  # data spaces that are kept, and not
    sources: dict[str, str] = {}
    for (kind, part, item), (value, where) in said.items():
        if kind in loops:
            loops[kind]["sources"][f"{part}.{item}" if item else part] = str(where)
            if part == "order":
                loops[kind]["inner"], loops[kind]["outer"] = value
            elif item:
                loops[kind].setdefault(part, {})[item] = value
            else:
                loops[kind][part] = value
        elif part == "min":
            sources["min_parallelism"] = str(where)
        elif part == "kept":
            spaces[value].add(item)
            sources[f"{'keep' if value else 'bypass'}.{item}"] = str(where)
    temporal, spatial = (LoopConstraint(**values) for values in loops.values())
    passing = said.get(("dataspace", "no_coalesce", ""), (frozenset[str](), None))[0]
    return LevelConstraints(temporal, spatial, frozenset(spaces[True]), frozenset(spaces[False]), passing, sources)
