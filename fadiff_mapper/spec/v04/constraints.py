"""Constraints as written in v0.4: inline under a node, or as top-level targets; read, combined, written out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.spec.native.factors import LoopFactor, factor_text, factors_text, parse_factors
from fadiff_mapper.spec.native.permutation import SEPARATOR, parse_permutation, permutation_text
from fadiff_mapper.spec.problem import Problem, single_letter
from fadiff_mapper.spec.v04.attributes import Names, expression_of, without_ignored
from fadiff_mapper.yaml.leniency import Leniency
from fadiff_mapper.yaml.located import Check, Map, Reader, Seq, integer, mapping, number, one_of, sequence, text
from fadiff_mapper.yaml.place import Where

KINDS = ("spatial", "temporal", "dataspace")
"""Kinds of constraints of a node, in the order in which the front end writes the ones that it does not mention."""
FACTORS = ("factors", "factors_only")
"""Lists of factors; two of them add up unless they contradict each other."""
JOINED = ("keep", "bypass", "no_reuse", "no_link_transfer")
"""Lists that, like factors, add up when two constraints are about the same node. Others may be given once."""
ONLY = ("factors_only", "must_iterate_over_dataspaces", "keep_only", "bypass_only")
"""Entries that count when they are empty, too: an empty `keep_only` keeps nothing."""
NOTHING: tuple[Any, ...] = ((), ((), ()))
"""An empty list, and an empty order."""


@dataclass(frozen=True)
class Directive:
    """The constraints of one kind on one node.

    Attributes:
        kind: "spatial", "temporal" or "dataspace"; "utilization" for a target of that type.
        where: Place of the constraint.
        entries: Checked values by key: tuples of `LoopFactor` or of names, an order (inner, outer), numbers.
        places: Place of each entry.
    """

    kind: str
    where: Where
    entries: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Where] = field(default_factory=dict)

    def at(self, key: str) -> Where:
        """Place of an entry."""
        return self.places.get(key, self.where)

    def with_entry(self, key: str, value: Any, where: Where | None = None) -> Directive:
        """The directive with one entry set; without a place the entry keeps the one it has."""
        return replace(self, entries={**self.entries, key: value}, places={**self.places, key: where or self.at(key)})

    def without(self, *keys: str) -> Directive:
        """The directive without some entries."""
        return replace(self, entries={key: value for key, value in self.entries.items() if key not in keys})


Group = dict[str, Directive]
"""The directives of one node by kind, in the order in which they are written out."""


@dataclass(frozen=True)
class ExpressionScope:
    """The surroundings in which constraints are read.

    Attributes:
        problem: The problem, whose dimensions and data spaces they name.
        names: Values that expressions can use.
        leniency: Decides about factors above their dimension, which the front end counts with and Timeloop ignores.
    """

    problem: Problem
    names: Names
    leniency: Leniency


def read_group(node: Map, scope: ExpressionScope) -> Group:
    """Reads the inline `constraints:` of one node.

    Args:
        node: The mapping under `constraints:`.
        scope: Problem and names.

    Returns:
        A directive of every kind, those without a constraint empty.

    Raises:
        SpecError: An unknown key, or one that is not modelled.
    """
    reader = Reader(node)
    reader.refuse("max_overbooked_proportion", "overbooking is not modelled")
    kinds = dict.fromkeys([*(kind for kind in node if kind in KINDS), *KINDS])
    group = {kind: _read_directive(kind, reader.take(kind, mapping, Map(where=node.where)), scope) for kind in kinds}
    reader.finish(" in the constraints of a node")
    return group


def read_target(node: Map, scope: ExpressionScope) -> tuple[str, Directive]:
    """Reads one entry of a top-level list of constraints.

    Args:
        node: The entry.
        scope: Problem and names.

    Returns:
        (name of its node, the constraint)

    Raises:
        SpecError: An unknown key or type, or one that is not modelled.
    """
    node = without_ignored(node)
    reader = Reader(node)
    target = reader.take("target", text)
    kind = reader.take("type", one_of(*KINDS, "utilization", "max_overbooked_proportion"))
    if kind == "max_overbooked_proportion":
        raise reader.at("type").error('"max_overbooked_proportion" is not supported: overbooking is not modelled')
    rest = Map({key: value for key, value in node.items() if key not in ("target", "type")},
               where=node.where, places={**node.places, "target": reader.at("target")})
    return target, _read_directive(kind, rest, scope)


def attach(groups: dict[str, Group], name: str, directive: Directive) -> dict[str, Group]:
    """Adds a directive to those of a node.

    Args:
        groups: Directives by node.
        name: The node.
        directive: The directive to add.

    Raises:
        SpecError: There is no such node, or the directive contradicts an earlier one.
    """
    if name not in groups:
        raise directive.at("target").error(f'unknown target "{name}"{nearest(name, list(groups))}', listed(groups))
    group = groups[name]
    before = group.get(directive.kind)
    return {**groups, name: {**group, directive.kind: combine(before, directive) if before else directive}}


def combine(first: Directive, second: Directive) -> Directive:
    """Both constraints of one kind on the same node in one. Raises SpecError where they contradict each other."""
    both = first if first.entries else replace(first, where=second.where)
    for key, value in second.entries.items():
        if key not in both.entries:
            both = both.with_entry(key, value, second.at(key))
        elif key in FACTORS:
            both = both.with_entry(key, add_factors(both.entries[key], value))
        elif key in JOINED:
            both = both.with_entry(key, tuple(dict.fromkeys((*both.entries[key], *value))))
        elif both.entries[key] != value:
            raise second.at(key).error(f'"{key}" is given a second time (first at {both.at(key)})', "one of them")
    check_dataspaces(both)
    return both


def add_factors(first: Iterable[LoopFactor], second: Iterable[LoopFactor]) -> tuple[LoopFactor, ...]:
    """Both lists in one, without repetitions.

    Raises:
        SpecError: Two factors of one dimension contradict each other. A minimum and a maximum do not.
    """
    both = list(first)
    for factor in second:
        same = [other for other in both if other.dimension == factor.dimension]
        for other in same:
            range_of_two = {other.operator, factor.operator} == {"<=", ">="}
            if other.value != factor.value and not range_of_two:
                raise factor.where.error(f'"{factor_text(factor)}" contradicts "{factor_text(other)}" at {other.where}',
                                         "one of them")
        if factor_text(factor) not in map(factor_text, same):
            both.append(factor)
    return tuple(both)


def check_dataspaces(directive: Directive) -> None:
    """Raises SpecError where a data space is both kept and bypassed."""
    for name in directive.entries.get("keep", ()):
        if name in directive.entries.get("bypass", ()):
            raise directive.at("keep").error(f'the data space "{name}" is kept here and bypassed at '
                                             f'{directive.at("bypass")}', "one of them")


def native_directive(directive: Directive, target: str, problem: Problem) -> Map | None:
    """A directive in the native dialect.

    Args:
        directive: The directive, with macros written out.
        target: Name of its native level.
        problem: The problem.

    Returns:
        The native entry, None for a directive without entries. Factors and orders become strings; an order stays a
        list where a dimension has more than one letter.
    """
    entries = {key: value for key, value in directive.entries.items() if value not in NOTHING}
    if not entries:
        return None
    node = Map({"target": target, "type": "bypass" if directive.kind == "dataspace" else directive.kind},
               where=directive.where, places=directive.places)
    for key, value in entries.items():
        if key == "factors":
            node[key] = factors_text(value)
        elif key == "permutation":
            node[key] = _order_value(value, directive.at(key), problem)
        else:
            place = directive.at(key)
            node[key] = Seq(value, where=place, places=[place] * len(value)) if isinstance(value, tuple) else value
    return node


def _order_value(order: tuple[tuple[str, ...], tuple[str, ...]], where: Where, problem: Problem) -> str | Seq:
    inner, outer = order
    if single_letter(problem.dimensions):
        return permutation_text(inner, outer)
    return Seq([*inner, SEPARATOR, *outer] if outer else inner, where=where)


def _read_directive(kind: str, node: Map, scope: ExpressionScope) -> Directive:
    """One directive from its keys; empty lists count only for the keys in `ONLY`."""
    reader = Reader(without_ignored(node))
    entries = {key: reader.take(key, check, None) for key, check in _checks(kind, scope).items()}
    if kind in KINDS:
        reader.take("type", one_of(kind), None)
    reader.finish(f" in a {kind} constraint")
    said = {key: value for key, value in entries.items()
            if value is not None and (key in ONLY or value not in NOTHING)}
    directive = Directive(kind, node.where, said, node.places)
    if "factors" in directive.entries:
        directive = directive.with_entry("factors", add_factors((), directive.entries["factors"]))
    check_dataspaces(directive)
    return directive


def _checks(kind: str, scope: ExpressionScope) -> dict[str, Check[Any]]:
    """The keys of one kind of constraint, and how each is read."""
    def factors(value: Any, where: Where) -> tuple[LoopFactor, ...]:
        return parse_factors(value, where, scope.problem.bounds, bounded=scope.leniency.strict)

    def order(value: Any, where: Where) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return parse_permutation(value, where, scope.problem.dimensions, commas=True)

    def spaces(value: Any, where: Where) -> tuple[str, ...]:
        return _dataspaces(value, where, scope.problem)

    def whole(minimum: int) -> Check[int]:
        return expression_of(integer(minimum), scope.names)

    loops: dict[str, Check[Any]] = {
        "factors": factors, "permutation": order, "default_max_factor": whole(1), "default_min_factor": whole(1),
        "remainders": whole(1), "no_reuse": spaces, "factors_only": factors, "no_iteration_over_dataspaces": spaces,
        "must_iterate_over_dataspaces": spaces, "maximize_dims_capacity": whole(1),
        "maximize_dims": lambda value, where: _dimension_lists(value, where, scope.problem)}
    kinds: dict[str, dict[str, Check[Any]]] = {
        "spatial": {**loops, "no_link_transfer": spaces, "split": whole(0)},
        "temporal": {**loops, "rmw_first_update": spaces},
        "dataspace": dict.fromkeys(("keep", "bypass", "no_coalesce", "keep_only", "bypass_only"), spaces),
        "utilization": {"min": expression_of(number(0), scope.names)}}
    return kinds[kind]


def _dataspaces(value: Any, where: Where, problem: Problem) -> tuple[str, ...]:
    """Names of data spaces; "*" adds all of them."""
    names = sequence(value, where)
    accepted = problem.dataspace_names()
    for i, name in enumerate(names):
        if name != "*" and name not in accepted:
            raise names.at(i).error(f'unknown data space "{name}"{nearest(str(name), accepted)}',
                                    f"{listed(accepted)}, *")
    every = accepted if "*" in names else ()
    return tuple(dict.fromkeys([*(name for name in names if name != "*"), *every]))


def _dimension_lists(value: Any, where: Where, problem: Problem) -> tuple[tuple[str, ...], ...]:
    """A list of dimensions, or a list of such lists."""
    lists = sequence(value, where)
    if lists and all(not isinstance(item, list) for item in lists):
        lists = Seq([lists], where=where, places=[where])
    return tuple(sum(parse_permutation(sequence(item, lists.at(i)), lists.at(i), problem.dimensions), ())
                 for i, item in enumerate(lists))
