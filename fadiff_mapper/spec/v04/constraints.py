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
from fadiff_mapper.yaml.located import Check, Map, Reader, Seq, Where, integer, mapping, number, one_of, sequence, text

KINDS = ("spatial", "temporal", "dataspace")
"""The order in which the front end writes those that a node does not mention."""
FACTORS = ("factors", "factors_only")
JOINED = ("keep", "bypass", "no_reuse", "no_link_transfer")
"""Lists that, like factors, add up when two constraints speak of the same node. Others may be given once."""
ONLY = ("factors_only", "must_iterate_over_dataspaces", "keep_only", "bypass_only")
"""Entries that say something when they are empty, too: nothing else."""
NOTHING: tuple[Any, ...] = ((), ((), ()))
"""An empty list, and an empty order."""


@dataclass(frozen=True)
class Directive:
    """What is said about the spatial loops, temporal loops or data spaces of one node.

    `entries` holds checked values by key: tuples of `LoopFactor`, of data space names, an order (inner, outer),
    numbers. `places` says where each was written.
    """

    kind: str
    where: Where
    entries: dict[str, Any] = field(default_factory=dict)
    places: dict[str, Where] = field(default_factory=dict)

    def at(self, key: str) -> Where:
        return self.places.get(key, self.where)

    def with_entry(self, key: str, value: Any, where: Where | None = None) -> Directive:
        return replace(self, entries={**self.entries, key: value}, places={**self.places, key: where or self.at(key)})

    def without(self, *keys: str) -> Directive:
        return replace(self, entries={key: value for key, value in self.entries.items() if key not in keys})


Group = dict[str, Directive]
"""The directives of one node by kind, in the order in which they are written out."""


@dataclass(frozen=True)
class ExpressionScope:
    """What constraints can be about: the problem, and the names that expressions may use."""

    problem: Problem
    names: Names


def read_group(node: Map, scope: ExpressionScope) -> Group:
    """The inline `constraints:` of one node; every kind has an entry."""
    reader = Reader(node)
    reader.refuse("max_overbooked_proportion", "overbooking is not modelled")
    kinds = dict.fromkeys([*(kind for kind in node if kind in KINDS), *KINDS])
    found = {kind: _read_directive(kind, reader.take(kind, mapping, Map(where=node.where)), scope) for kind in kinds}
    reader.finish(" in the constraints of a node")
    return found


def read_target(node: Map, scope: ExpressionScope) -> tuple[str, Directive]:
    """One entry of a top-level list: the name of its node and what it says."""
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
    """The groups with one directive more. SpecError names the target that is not there, or what is said twice."""
    if name not in groups:
        raise directive.at("target").error(f'unknown target "{name}"{nearest(name, list(groups))}', listed(groups))
    group = groups[name]
    before = group.get(directive.kind)
    return {**groups, name: {**group, directive.kind: combine(before, directive) if before else directive}}


def combine(first: Directive, second: Directive) -> Directive:
    """Both constraints on the same node in one. SpecError where they contradict each other."""
    found = first if first.entries else replace(first, where=second.where)
    for key, value in second.entries.items():
        if key not in found.entries:
            found = found.with_entry(key, value, second.at(key))
        elif key in FACTORS:
            found = found.with_entry(key, add_factors(found.entries[key], value))
        elif key in JOINED:
            found = found.with_entry(key, tuple(dict.fromkeys((*found.entries[key], *value))))
        elif found.entries[key] != value:
            raise second.at(key).error(f'"{key}" is given a second time (first at {found.at(key)})', "one of them")
    check_dataspaces(found)
    return found


def add_factors(first: Iterable[LoopFactor], second: Iterable[LoopFactor]) -> tuple[LoopFactor, ...]:
    """Both lists in one, without repetitions. SpecError where they contradict each other."""
    found = list(first)
    for factor in second:
        same = [other for other in found if other.dimension == factor.dimension]
        for other in same:
            range_of_two = {other.operator, factor.operator} == {"<=", ">="}
            if other.value != factor.value and not range_of_two:
                raise factor.where.error(f'"{factor_text(factor)}" contradicts "{factor_text(other)}" at {other.where}',
                                         "one of them")
        if factor_text(factor) not in map(factor_text, same):
            found.append(factor)
    return tuple(found)


def check_dataspaces(directive: Directive) -> None:
    """SpecError where a data space is both kept and bypassed."""
    for name in directive.entries.get("keep", ()):
        if name in directive.entries.get("bypass", ()):
            raise directive.at("keep").error(f'the data space "{name}" is kept here and bypassed at '
                                             f'{directive.at("bypass")}', "one of them")


def native_directive(directive: Directive, target: str, problem: Problem) -> Map | None:
    """The directive in the native dialect; None where it says nothing.

    Factors and orders become strings; an order stays a list where a dimension has more than one letter.
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
        return parse_factors(value, where, scope.problem.bounds)

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
    found: list[str] = []
    for i, name in enumerate(names):
        if name != "*" and name not in accepted:
            raise names.at(i).error(f'unknown data space "{name}"{nearest(str(name), accepted)}',
                                    f"{listed(accepted)}, *")
        found.append(name)
    every = accepted if "*" in found else ()
    return tuple(dict.fromkeys([*(name for name in found if name != "*"), *every]))


def _dimension_lists(value: Any, where: Where, problem: Problem) -> tuple[tuple[str, ...], ...]:
    """A list of dimensions, or a list of such lists."""
    lists = sequence(value, where)
    if lists and all(not isinstance(item, list) for item in lists):
        lists = Seq([lists], where=where, places=[where])
    return tuple(sum(parse_permutation(sequence(item, lists.at(i)), lists.at(i), problem.dimensions), ())
                 for i, item in enumerate(lists))
