"""Constraints on the map space: native sections -> values.

Every constraint is first taken apart into statements, each about one property of one level ("temporal factor C=2 at
Buf"). A statement given twice is an error that names both places, as in Timeloop's parser of constraints; the others
are put together level by level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fadiff_mapper.base.errors import SpecError, listed
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.native.mapping import Order, factors_text, parse_factors, parse_permutation, permutation_text
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.keys import CONSTRAINT, CONSTRAINT_TYPES, NATIVE_CONSTRAINTS, picked
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, kind_of, known, mapping, one_of, plain, sequence, text
from fadiff_mapper.inputs.yaml.place import Where

ARCHITECTURE, MAPSPACE = "architecture_constraints", "mapspace_constraints"
"""The sections by the names under which they are written out again."""
LIMITS = {"=": "fixed", "<=": "maximum", ">=": "minimum"}
"""Operator of a factor -> field of `LoopConstraint`."""
SWITCHES = {"no_reuse": "no_reuse", "no_multicast_no_reduction": "no_reuse", "no_temporal_reuse": "no_reuse",
            "no_link_transfer": "no_link_transfer", "rmw_first_update": "rmw_first_update",
            "no_coalesce": "no_coalesce"}
"""Keys that list data spaces without some reuse -> the part that each gives."""
PARTS = {"fixed": "factor of", "maximum": "maximum factor of", "minimum": "minimum factor of",
         "order": "permutation", **{part: f"{part} list" for part in SWITCHES.values()}}
"""Part of a statement -> its name in messages."""


@dataclass(frozen=True)
class ConstraintStatement:
    """One property of one level."""

    level: int  # number of the storage level
    kind: str  # "temporal", "spatial", "dataspace" or "parallelism"
    # For loops "fixed.C", "minimum.C", "maximum.C" (C: a dimension), "order", "split" or a switch of reuse; for data
    # spaces the name of one, or "no_coalesce"; for parallelism "min".
    part: str
    value: Any  # a number, an `Order`, a set of data spaces, or whether a data space is kept
    where: Where  # place of the statement

    @property
    def about_keeping(self) -> bool:
        """Whether it says that a data space is kept or bypassed."""
        return self.kind == "dataspace" and self.part != "no_coalesce"


def read_constraints(
    document: Map, levels: Sequence[StorageLevel], fanouts: Sequence[tuple[int, int]], problem: Problem,
    leniency: Leniency = STRICT
) -> Constraints:
    """Reads the constraints of a native document; architecture and map-space sections count alike, as in Timeloop.

    A partial permutation fixes loops on the inside, and after `_` on the outside; the other loops lie in between in any
    order. Factors of 1 are no loops, so their place does not matter. `split` counts every dimension of the full spatial
    permutation, those with factor 1 too. Levels and fan-outs (X, Y) below them are innermost first. `native` holds the
    limits as plain lists with every factor and permutation as a string. Raises SpecError with all mistakes at once.
    """
    names = [level.name for level in levels]
    statements: list[ConstraintStatement] = []
    native: dict[str, list[dict[str, Any]]] = {}
    mistakes: list[str] = []
    for found in _found(underscored(document), leniency):
        try:
            entry = _Entry(found, problem, leniency)
            one_of(*names)(entry.target, entry.target_where)
            level = names.index(entry.target)
            if entry.kind == "spatial" and fanouts[level] == (1, 1):
                inner = f'the next level inwards ("{names[level - 1]}")' if level else "the arithmetic"
                raise entry.target_where.error(
                    f'"{entry.target}" has no fan-out: {inner} has as many instances, so there are no spatial loops',
                    "levels with a fan-out: " + listed(
                        name for name, (x, y) in zip(names, fanouts, strict=True) if x * y > 1))
            if entry.kind == "parallelism" and level != 0:
                raise entry.target_where.error(f'found "{entry.target}"',
                                               f"the innermost storage level, {names[0]}, for {entry.type}")
            statements += [ConstraintStatement(level, entry.kind, *part) for part in entry.parts()]
            entry.own.finish(f" in a {entry.kind} constraint")
            entry.attributes.finish(f" in a {entry.kind} constraint")
            native.setdefault(found.section, []).append(entry.native())
        except SpecError as error:
            mistakes += error.problems
    said: dict[tuple[int, str, str], ConstraintStatement] = {}
    for one in statements:  # like Timeloop, the outermost level's keeps may be repeated
        first = said.setdefault((one.level, one.kind, one.part), one)
        if first is not one and not (one.kind == "dataspace" and one.level == len(levels) - 1
                                     and one.value == first.value):
            head, _, dimension = one.part.partition(".")
            subject = (f"the data space {one.part}" if one.about_keeping
                       else f"the {one.kind} {PARTS.get(head, head)} {dimension}".rstrip())
            mistakes.append(f"{one.where}: {subject} at {names[one.level]} is already constrained at {first.where}; "
                            "accepted: one constraint for each")
    if mistakes:
        raise SpecError(*mistakes)
    return Constraints(
        levels=tuple(_level([one for one in statements if one.level == i]) for i in range(len(levels))),
        min_parallelism=next((one.value for one in statements if one.kind == "parallelism"), 0.0),
        native={section: {"targets": targets} for section, targets in native.items()},
    )


# From the document to single constraints.

class _Found(NamedTuple):
    """A constraint before it is read: its section, the node that names its level (several may share it), itself."""

    section: str
    target: Map
    node: Map


def _found(document: Map, leniency: Leniency) -> Iterator[_Found]:
    """Every single constraint of a document, in the order of the text, architecture sections first.

    Read are `constraints` inside the architecture, `arch_constraints`, `architecture_constraints` or
    `constraints` (one of them), and `mapspace` or `mapspace_constraints` (one of them). Timeloop reads the first
    it finds of the former without a word on the others; here two of them are an error.
    """
    trees = {key: document[key] for key in ("architecture", "arch") if isinstance(document.get(key), Map)}
    places = {ARCHITECTURE: [*((f"{key}.constraints", tree, "constraints") for key, tree in trees.items()),
                             *((key, document, key) for key in ("arch_constraints", ARCHITECTURE, "constraints"))],
              MAPSPACE: [(key, document, key) for key in ("mapspace", MAPSPACE)]}
    for section, candidates in places.items():
        written = [(name, node.at(key), node[key]) for name, node, key in candidates if node.get(key) is not None]
        if len(written) > 1:
            (first, first_where, _), (second, second_where, _) = written[:2]
            raise second_where.error(f'found "{second}" besides "{first}" ({first_where})', "one of these sections")
        for _, where, value in written:
            yield from _section(section, value, where, leniency)


def _section(section: str, value: Any, where: Where, leniency: Leniency) -> Iterator[_Found]:
    """A section is a list of constraints, or a mapping with such a list under `targets` or `constraints`."""
    if isinstance(value, dict):
        yield from _named_list(section, mapping(value, where), leniency)
        return
    if not isinstance(value, list):
        raise where.error(f"found {kind_of(value)}", "a list of constraints, or a mapping with such a list as targets")
    entries = sequence(value, where)
    for i, entry in enumerate(entries):
        node = mapping(entry, entries.at(i))
        if "constraints" not in node:
            yield _Found(section, node, node)
            continue
        reader = Reader(node, leniency)  # several, listed under their common target
        reader.take(("target", "name"), text)
        constraints = reader.take("constraints", sequence)
        reader.finish()
        for j, constraint in enumerate(constraints):
            yield _Found(section, node, mapping(constraint, constraints.at(j)))


def _named_list(section: str, node: Map, leniency: Leniency) -> Iterator[_Found]:
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
        yield from _section(section, constraints, reader.at(key), leniency)


# From one constraint to its statements.

Part = tuple[str, Any, Where]
"""Part, value and place of a `ConstraintStatement`."""


class _Entry:
    """One constraint, its target and type read. Timeloop takes some keys from its `attributes`, where it has them."""

    def __init__(self, found: _Found, problem: Problem, leniency: Leniency):
        shared = found.target is not found.node
        self.own = Reader(found.node, leniency, picked("type attributes") if shared else
                          picked("target type attributes"))
        named = Reader(found.target, table=CONSTRAINT) if shared else self.own
        self.target: str = named.read("target")
        self.target_where = named.at("target" if found.target.get("target") is not None else "name")
        self.type: str = self.own.read("type")
        self.kind = CONSTRAINT_TYPES[self.type]
        nested = self.own.read("attributes")
        in_attributes, others = NATIVE_CONSTRAINTS[self.kind]
        if nested is None:
            self.own.table = {**self.own.table, **in_attributes, **others}
            self.attributes = self.own
        else:
            self.own.table = {**self.own.table, **others}
            self.attributes = Reader(nested, leniency, in_attributes)
        self.problem, self.leniency = problem, leniency

    def order(self, value: Any, where: Where) -> Order:
        """Reads a permutation."""
        return parse_permutation(value, where, self.problem.dimensions, commas=True)

    def parts(self) -> Iterator[Part]:
        """Its statements. Raises SpecError."""
        own, attributes, (in_attributes, others) = self.own, self.attributes, NATIVE_CONSTRAINTS[self.kind]
        if "factors" in in_attributes:
            yield from self._loops()
        for key, kept in (("keep", True), ("bypass", False)) if "keep" in in_attributes else ():
            names = attributes.read(key)
            for i, name in enumerate(self._dataspaces(names) if names else ()):
                yield name, kept, names.at(i)
        for key in others:
            if key == "split" and own.read(key) is not None:
                yield key, own.read(key), own.at(key)
            elif key in SWITCHES and (names := own.read(key)):  # an empty list says nothing
                yield SWITCHES[key], frozenset(self._dataspaces(names)), own.at(key)
        if "min" in in_attributes:
            yield "min", attributes.read("min"), attributes.at("min")
        if "remainders" in others and own.read("remainders") > 1:
            raise own.at("remainders").error('"remainders" above 1 (imperfect factors) is not supported', "1")
        if "proportion" in others and own.read("proportion") > 0:
            raise own.at("proportion").error("overbooking (max_overbooked_proportion) is not supported", "0")

    def _loops(self) -> Iterator[Part]:
        """Limits on factors, and an order; a default holds for the dimensions without a limit of the same direction."""
        attributes, problem = self.attributes, self.problem
        factors = attributes.take("factors", lambda value, where: parse_factors(
            value, where, problem.bounds, leniency=self.leniency), ())
        for factor in factors:
            yield f"{LIMITS[factor.operator]}.{factor.dimension}", factor.value, factor.where
        for operator, key in (("<=", "default_max_factor"), (">=", "default_min_factor")):
            limit = attributes.read(key)
            named = [factor.dimension for factor in factors if factor.operator == operator]
            for dimension in problem.dimensions if limit is not None else ():
                if dimension not in named:
                    yield f"{LIMITS[operator]}.{dimension}", limit, attributes.at(key)
        permutation = attributes.take("permutation", self.order, ((), ()))
        if any(permutation):
            yield "order", permutation, attributes.at("permutation")

    def _dataspaces(self, names: Seq) -> list[str]:
        """The names in a list of data spaces. Raises SpecError for an unknown or repeated one."""
        accepted = self.problem.dataspace_names()
        written = [text(name, names.at(i)) for i, name in enumerate(names)]
        for i, name in enumerate(written):
            if known(name, accepted, names.at(i), "data space") in written[:i]:
                raise names.at(i).error(f'the data space "{name}" stands twice in the list', "each data space once")
        return written

    def native(self) -> dict[str, Any]:
        """The constraint with its keys side by side and without lists that Timeloop does not read."""
        keys = plain({key: value for node in (self.own.node, self.attributes.node) for key, value in node.items()
                      if key not in ("target", "name", "type", "attributes")})
        where = self.own.node.where
        if keys.get("factors"):
            keys["factors"] = factors_text(parse_factors(keys["factors"], where, self.problem.bounds,
                                                         leniency=Leniency(strict=False)))
        if keys.get("permutation"):
            keys["permutation"] = permutation_text(*self.order(keys["permutation"], where))
        return {"target": self.target, "type": self.type} | {key: value for key, value in keys.items() if value != []}


# From statements to values.

def _level(statements: Sequence[ConstraintStatement]) -> LevelConstraints:
    def loops(kind: str) -> LoopConstraint:
        by_part = {one.part: one for one in statements if one.kind == kind}
        values: dict[str, Any] = {which: {} for which in LIMITS.values()}
        for part, one in by_part.items():
            which, _, dimension = part.partition(".")
            if part == "order":
                values["inner"], values["outer"] = one.value
            elif dimension:
                values[which][dimension] = one.value
            else:
                values[part] = one.value
        return LoopConstraint(**values, sources={part: str(one.where) for part, one in by_part.items()})

    spaces = [one for one in statements if one.about_keeping]
    return LevelConstraints(
        temporal=loops("temporal"), spatial=loops("spatial"),
        keep=frozenset(one.part for one in spaces if one.value),
        bypass=frozenset(one.part for one in spaces if not one.value),
        no_coalesce=frozenset[str]().union(*(one.value for one in statements if one.part == "no_coalesce")),
        sources={"min_parallelism" if one.kind == "parallelism" else
                 f"{'keep' if one.value else 'bypass'}.{one.part}": str(one.where)
                 for one in [*spaces, *(one for one in statements if one.kind == "parallelism")]},
    )
