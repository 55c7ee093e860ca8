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
from fadiff_mapper.spec.arch import StorageLevel
from fadiff_mapper.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.spec.native.constraint_sections import ConstraintEntry, find_constraints, open_entry
from fadiff_mapper.spec.native.factors import factors_text, parse_factors
from fadiff_mapper.spec.native.hyphens import underscored
from fadiff_mapper.spec.native.permutation import parse_permutation, permutation_text
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.yaml.leniency import STRICT, Leniency
from fadiff_mapper.yaml.located import Check, Map, Reader, Seq, integer, number, one_of, plain, sequence, text
from fadiff_mapper.yaml.place import Where

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
