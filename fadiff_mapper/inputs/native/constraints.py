"""Constraints on the map space: native sections -> values.

Every constraint is first taken apart into statements, each about one property of one level ("temporal factor C=2 at
Buf"). A statement given twice is an error that names both places, as in Timeloop's parser of constraints; the others
are put together level by level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.native.mapping import factors_text, parse_factors, parse_permutation, permutation_text
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency
from fadiff_mapper.inputs.yaml.located import (
    Check,
    Map,
    Reader,
    Seq,
    integer,
    kind_of,
    mapping,
    number,
    one_of,
    plain,
    sequence,
    text,
)
from fadiff_mapper.inputs.yaml.place import Where

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


LIMITS = {"=": "fixed", "<=": "maximum", ">=": "minimum"}
"""Operator of a factor -> field of `LoopConstraint`."""
REUSE_SWITCHES = {
    "spatial": (("no_reuse", "no_reuse"), ("no_multicast_no_reduction", "no_reuse"),
                ("no_link_transfer", "no_link_transfer")),
    "temporal": (("no_reuse", "no_reuse"), ("no_temporal_reuse", "no_reuse"),
                 ("rmw_first_update", "rmw_first_update")),
}
"""Kind of loops -> the keys that list data spaces without some reuse, each with the part that it gives."""
SWITCHES = ("no_reuse", "no_link_transfer", "rmw_first_update", "no_coalesce")
"""Parts that switch reuse off."""


@dataclass(frozen=True)
class ConstraintStatement:
    """One property of one level.

    Attributes:
        level: Number of the storage level.
        kind: "temporal", "spatial", "dataspace" or "parallelism".
        part: For loops "fixed.C", "minimum.C", "maximum.C" (C: a dimension), "order", "split" or a switch of reuse; for
            data spaces the name of one, or "no_coalesce"; for parallelism "min".
        value: A number, an order (inner, outer), a set of data spaces, or whether a data space is kept.
        where: Place of the statement.
    """

    level: int
    kind: str
    part: str
    value: Any
    where: Where


@dataclass(frozen=True)
class ConstraintScope:
    """Levels and problem that constraints can name.

    Attributes:
        levels: Names of the storage levels, innermost first.
        fanouts: Fan-outs (X, Y) below them.
        problem: The problem.
        leniency: Decides about keys and factors that Timeloop ignores.
    """

    levels: tuple[str, ...]
    fanouts: tuple[tuple[int, int], ...]
    problem: Problem
    leniency: Leniency


def read_constraints(
    document: Map, levels: Sequence[StorageLevel], fanouts: Sequence[tuple[int, int]], problem: Problem,
    leniency: Leniency = STRICT
) -> Constraints:
    """Reads the constraints of a document; architecture and map-space sections count alike, as in Timeloop.

    A partial permutation fixes loops on the inside, and after `_` on the outside; the other loops lie in between
    in any order. Factors of 1 are no loops, so they stand anywhere. `split` counts every dimension of the full
    spatial permutation, those with factor 1 too.

    Args:
        document: The merged input in the native dialect.
        levels: Storage levels, innermost first.
        fanouts: Fan-out (X, Y) below each level.
        problem: The problem.
        leniency: Decides about keys and factors that Timeloop ignores.

    Returns:
        The limits per level; `native` holds them as plain lists with every factor and permutation as a string.

    Raises:
        SpecError: All mistakes at once.
    """
    scope = ConstraintScope(tuple(level.name for level in levels), tuple(fanouts), problem, leniency)
    statements: list[ConstraintStatement] = []
    native: dict[str, list[dict[str, Any]]] = {}
    mistakes: list[str] = []
    for constraint in find_constraints(underscored(document), leniency):
        try:
            entry = open_entry(constraint, leniency)
            statements += _statements(entry, scope)
            native.setdefault(entry.section, []).append(_native(entry, problem))
        except SpecError as error:
            mistakes += error.problems
    mistakes += _repetitions(statements, scope)
    if mistakes:
        raise SpecError(*mistakes)
    return Constraints(
        levels=tuple(_level([s for s in statements if s.level == i]) for i in range(len(levels))),
        min_parallelism=next((s.value for s in statements if s.kind == "parallelism"), 0.0),
        native={section: {"targets": targets} for section, targets in native.items()},
    )


# From one constraint to its statements.

def _statements(entry: ConstraintEntry, scope: ConstraintScope) -> list[ConstraintStatement]:
    """The statements of one constraint. Raises SpecError."""
    one_of(*scope.levels)(entry.target, entry.target_where)
    level = scope.levels.index(entry.target)
    read = {"temporal": _loop_parts, "spatial": _loop_parts, "dataspace": _dataspace_parts,
            "parallelism": _parallelism_parts, "overbooking": _overbooking_parts}[entry.kind]
    if entry.kind == "spatial":
        _check_fanout(entry, level, scope)
    if entry.kind == "parallelism" and level != 0:
        raise entry.target_where.error(f'found "{entry.target}"',
                                       f"the innermost storage level, {scope.levels[0]}, for {entry.type}")
    statements = [ConstraintStatement(level, entry.kind, part, value, where)
                  for part, value, where in read(entry, scope)]
    entry.finish()
    return statements


def _check_fanout(entry: ConstraintEntry, level: int, scope: ConstraintScope) -> None:
    """Raises SpecError for a spatial constraint on a level without a fan-out."""
    x, y = scope.fanouts[level]
    if x * y == 1:
        inner = f'the next level inwards ("{scope.levels[level - 1]}")' if level else "the arithmetic"
        spatial = [name for name, (x, y) in zip(scope.levels, scope.fanouts, strict=True) if x * y > 1]
        raise entry.target_where.error(
            f'"{entry.target}" has no fan-out: {inner} has as many instances, so there are no spatial loops',
            f"levels with a fan-out: {listed(spatial)}")


Part = tuple[str, Any, Where]
"""Part, value and place of a `ConstraintStatement`."""


def _loop_parts(entry: ConstraintEntry, scope: ConstraintScope) -> Iterator[Part]:
    yield from _factor_parts(entry.attributes, scope)
    permutation = entry.attributes.take("permutation", _permutation(scope.problem), ((), ()))
    if any(permutation):
        yield "order", permutation, entry.attributes.at("permutation")
    if entry.kind == "spatial":
        split = entry.own.take("split", integer(0), None)
        if split is not None:
            yield "split", split, entry.own.at("split")
    for switch, part in REUSE_SWITCHES[entry.kind]:
        yield from _switch_parts(entry, switch, part, scope)
    if entry.own.take("remainders", integer(0), 1) > 1:
        raise entry.own.at("remainders").error('"remainders" above 1 (imperfect factors) is not supported', "1")


def _factor_parts(attributes: Reader, scope: ConstraintScope) -> Iterator[Part]:
    """Limits on factors; a default holds for the dimensions without a limit of the same direction."""
    problem = scope.problem
    factors = attributes.take("factors", lambda value, where: parse_factors(
        value, where, problem.bounds, leniency=scope.leniency), ())
    for factor in factors:
        yield f"{LIMITS[factor.operator]}.{factor.dimension}", factor.value, factor.where
    for operator, key in (("<=", "default_max_factor"), (">=", "default_min_factor")):
        limit = attributes.take(key, integer(1), None)
        named = [factor.dimension for factor in factors if factor.operator == operator]
        for dimension in problem.dimensions if limit is not None else ():
            if dimension not in named:
                yield f"{LIMITS[operator]}.{dimension}", limit, attributes.at(key)


def _permutation(problem: Problem) -> Check[tuple[tuple[str, ...], tuple[str, ...]]]:
    return lambda value, where: parse_permutation(value, where, problem.dimensions, commas=True)


def _dataspace_parts(entry: ConstraintEntry, scope: ConstraintScope) -> Iterator[Part]:
    for key, kept in (("keep", True), ("bypass", False)):
        names = entry.attributes.take(key, sequence, None)
        if names:
            for i, name in enumerate(_dataspaces(names, scope.problem)):
                yield name, kept, names.at(i)
    yield from _switch_parts(entry, "no_coalesce", "no_coalesce", scope)


def _switch_parts(entry: ConstraintEntry, switch: str, part: str, scope: ConstraintScope) -> Iterator[Part]:
    """A switch of reuse that names data spaces; an empty list says nothing."""
    names = entry.own.take(switch, sequence, None)
    if names:
        yield part, frozenset(_dataspaces(names, scope.problem)), entry.own.at(switch)


def _parallelism_parts(entry: ConstraintEntry, scope: ConstraintScope) -> Iterator[Part]:
    yield "min", entry.attributes.take("min", number(0)), entry.attributes.at("min")


def _overbooking_parts(entry: ConstraintEntry, scope: ConstraintScope) -> Iterator[Part]:
    if entry.own.take("proportion", number(0), 0) > 0:
        raise entry.own.at("proportion").error("overbooking (max_overbooked_proportion) is not supported", "0")
    yield from ()


def _dataspaces(names: Seq, problem: Problem) -> list[str]:
    """The names in a list of data spaces. Raises SpecError for an unknown or repeated one."""
    accepted = problem.dataspace_names()
    written = [text(name, names.at(i)) for i, name in enumerate(names)]
    for i, name in enumerate(written):
        if name not in accepted:
            raise names.at(i).error(f'unknown data space "{name}"{nearest(name, accepted)}', listed(accepted))
        if name in written[:i]:
            raise names.at(i).error(f'the data space "{name}" stands twice in the list', "each data space once")
    return written


def _native(entry: ConstraintEntry, problem: Problem) -> dict[str, Any]:
    """The constraint with its keys side by side and without lists that Timeloop does not read."""
    keys = plain(entry.keys())
    if keys.get("factors"):
        keys["factors"] = factors_text(parse_factors(keys["factors"], entry.where, problem.bounds,
                                                     leniency=Leniency(strict=False)))
    if keys.get("permutation"):
        keys["permutation"] = permutation_text(*_permutation(problem)(keys["permutation"], entry.where))
    return {"target": entry.target, "type": entry.type} | {key: value for key, value in keys.items() if value != []}


# From statements to values.

def _repetitions(statements: Sequence[ConstraintStatement], scope: ConstraintScope) -> Iterator[str]:
    """A message for every statement given twice; like Timeloop, the outermost level's keeps may be repeated."""
    said: dict[tuple[int, str, str], ConstraintStatement] = {}
    outermost = len(scope.levels) - 1
    for statement in statements:
        first = said.setdefault((statement.level, statement.kind, statement.part), statement)
        harmless = statement.kind == "dataspace" and statement.level == outermost and statement.value == first.value
        if first is not statement and not harmless:
            yield (f"{statement.where}: {_subject(statement)} at {scope.levels[statement.level]} is already "
                   f"constrained at {first.where}; accepted: one constraint for each")


def _subject(statement: ConstraintStatement) -> str:
    """The property that a statement is about, in words."""
    if statement.kind == "dataspace" and statement.part != "no_coalesce":
        return f"the data space {statement.part}"
    names = {"fixed": "factor of", "maximum": "maximum factor of", "minimum": "minimum factor of",
             "order": "permutation", **{part: f"{part} list" for part in SWITCHES}}
    head, _, dimension = statement.part.partition(".")
    return f"the {statement.kind} {names.get(head, head)} {dimension}".rstrip()


def _level(statements: Sequence[ConstraintStatement]) -> LevelConstraints:
    """All statements about one level as a value."""
    passing = frozenset[str]().union(*(s.value for s in statements if s.part == "no_coalesce"))
    spaces = [s for s in statements if s.kind == "dataspace" and s.part != "no_coalesce"]
    return LevelConstraints(
        temporal=_loops(s for s in statements if s.kind == "temporal"),
        spatial=_loops(s for s in statements if s.kind == "spatial"),
        keep=frozenset(s.part for s in spaces if s.value),
        bypass=frozenset(s.part for s in spaces if not s.value),
        no_coalesce=passing,
        sources={_source_key(s): str(s.where) for s in [*spaces, *(s for s in statements if s.kind == "parallelism")]},
    )


def _source_key(statement: ConstraintStatement) -> str:
    """The key of a statement in `LevelConstraints.sources`."""
    if statement.kind == "parallelism":
        return "min_parallelism"
    return f"{'keep' if statement.value else 'bypass'}.{statement.part}"


def _loops(statements: Iterable[ConstraintStatement]) -> LoopConstraint:
    """All statements about a level's temporal (or spatial) loops as a value."""
    by_part = {s.part: s for s in statements}

    def limits(which: str) -> dict[str, int]:
        return {part.split(".")[1]: s.value for part, s in by_part.items() if part.startswith(which + ".")}

    def value(part: str, default: Any) -> Any:
        return by_part[part].value if part in by_part else default

    inner, outer = value("order", ((), ()))
    return LoopConstraint(
        fixed=limits("fixed"), minimum=limits("minimum"), maximum=limits("maximum"),
        inner=inner, outer=outer, split=value("split", None),
        no_reuse=value("no_reuse", frozenset()), no_link_transfer=value("no_link_transfer", frozenset()),
        rmw_first_update=value("rmw_first_update", frozenset()),
        sources={part: str(s.where) for part, s in by_part.items()},
    )
