"""Constraints as written in v0.4: inline under a node, or as top-level targets; read, combined, written out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, noted
from fadiff_mapper.inputs.native.mapping import (
    SEPARATOR,
    LoopFactor,
    known_spaces,
    parse_factors,
    parse_permutation,
    permutation_text,
)
from fadiff_mapper.inputs.spec.keys import (
    DIMENSIONS,
    FACTORS,
    NODE_CONSTRAINTS,
    ORDER,
    SPACES,
    V04_CONSTRAINTS,
    V04_TARGET,
    V04_TARGETS,
    picked,
)
from fadiff_mapper.inputs.spec.problem import Problem, single_letter
from fadiff_mapper.inputs.v04.nodes import (
    FAN_OUT,
    BranchNode,
    LeafNode,
    Names,
    NativeLevel,
    leaves,
    without_ignored,
)
from fadiff_mapper.inputs.yaml.located import (
    Check,
    Kind,
    Map,
    Reader,
    Seq,
    kind_of,
    known,
    mapping,
    one_of,
    placed_list,
    sequence,
)
from fadiff_mapper.inputs.yaml.place import Leniency, Where

KINDS = ("spatial", "temporal", "dataspace")
"""Kinds of constraints of a node, in the order in which the front end writes the ones that it does not mention."""
JOINED = ("keep", "bypass", "no_reuse", "no_link_transfer")
"""Lists that, like factors, are joined when two constraints are about the same node. Other keys may be given once."""
ONLY = ("factors_only", "must_iterate_over_dataspaces", "keep_only", "bypass_only")
"""Entries that count when they are empty, too: an empty `keep_only` keeps nothing."""
NOTHING: tuple[Any, ...] = ((), ((), ()))  # an empty list, and an empty order
LOOP_MACROS = ("factors_only", "no_iteration_over_dataspaces", "must_iterate_over_dataspaces")
MACROS = (*LOOP_MACROS, "keep_only", "bypass_only")  # written out as factors, and as data spaces kept and bypassed
MAPPING_ENTRIES = ("factors", "permutation", "split", "keep", "bypass", "no_reuse", "no_link_transfer",
                   "rmw_first_update", "no_coalesce")
"""Entries that a mapping can have; limits on factors only concern the map space."""
ABOUT = {"container": ("spatial",), "network": ("spatial",), "nothing": ("dataspace",)}
"""Role of a node that is no level -> the constraints that it can have. A spatial one is about the fan-out."""


Group = dict[str, Map]
"""The constraints of one node by kind ("utilization", too, for a target of that type), in the order in which they are
written out. Their values are checked: tuples of `LoopFactor` or of names, an `Order`, numbers."""


@dataclass(frozen=True)
class ExpressionScope:
    """The names that constraints can use, and the leniency with which they are read."""

    problem: Problem  # the problem, whose dimensions and data spaces they name
    names: Names  # values that expressions can use
    leniency: Leniency  # about factors above their dimension, which count in the front end and not in Timeloop


def read_constraints(tree: BranchNode, targets: Sequence[Map], scope: ExpressionScope) -> dict[str, Group]:
    """All constraints of a design by node as they are written: inline ones and targets combined.

    Raises SpecError for unknown targets and contradictions.
    """
    groups: dict[str, Group] = {leaf.name: {} for leaf in leaves(tree)}
    mistakes: list[str] = []
    for leaf in leaves(tree):
        with noted(mistakes):
            reader = Reader(leaf.constraints, NODE_CONSTRAINTS)
            reader.refuse("max_overbooked_proportion", "overbooking is not modelled")
            kinds = dict.fromkeys([*(kind for kind in leaf.constraints if kind in KINDS), *KINDS])
            group = {kind: _checked(kind, reader.read(kind, Map(where=leaf.constraints.where)), scope)
                     for kind in kinds}
            reader.finish(" in the constraints of a node")
            groups[leaf.name] = group
    for target in targets:
        with noted(mistakes):
            _attach(groups, target, scope)
    if mistakes:
        raise SpecError(*mistakes)
    return groups


def expanded_constraints(tree: BranchNode, written: dict[str, Group], problem: Problem) -> dict[str, Group]:
    """Written constraints by node -> the same with macros and !Parallel written out, in the front end's order.

    `maximize_dims` takes from the iterations that fixed factors leave over, spatial loops first, the last leaves first.
    Spatial constraints on a node without a fan-out are dropped, unless they demand a factor above 1. Raises SpecError
    for constraints that a node cannot obey.
    """
    nodes = list(leaves(tree))
    groups = {name: {kind: _without_macros(kind, said, problem) for kind, said in group.items()}
              for name, group in written.items()}
    left = dict(problem.bounds)  # iterations of each dimension that all fixed factors leave over
    for said in (said for group in groups.values() for said in group.values()):
        for factor in said.get("factors", ()):
            if factor.operator == "=":
                left[factor.dimension] = math.ceil(left[factor.dimension] / factor.value)
    for kind in ("spatial", "temporal"):
        for leaf in reversed(nodes):
            said = groups[leaf.name][kind]
            others = {key: value for key, value in said.items() if not key.startswith("maximize_dims")}
            groups[leaf.name][kind] = said.having(others)
            if "maximize_dims" in said:
                where, factors = said.at("maximize_dims"), said.get("factors", ())
                capacity = said.get("maximize_dims_capacity", leaf.fanout if kind == "spatial" else None)
                if capacity is None:
                    raise where.error('"maximize_dims" over temporal loops has no capacity',
                                      "maximize_dims_capacity beside it")
                for dimensions in said["maximize_dims"]:
                    named = {factor.dimension: factor for factor in factors}
                    for dimension in dimensions:
                        if dimension in named:
                            raise where.error(f'cannot maximize "{dimension}": it is constrained to '
                                              f'"{named[dimension]}"', "dimensions without a factor")
                    room = capacity
                    for factor in {one.dimension: one for one in factors if one.operator in ("=", ">=")}.values():
                        room //= factor.value
                    chosen = fill_greedily({dimension: left[dimension] for dimension in dimensions}, room)
                    for dimension, value in chosen.items():
                        factors = (*factors, LoopFactor(dimension, "=", value, where))
                        left[dimension] = math.ceil(left[dimension] / value)
                groups[leaf.name][kind] = Map({**others, "factors": factors}, where=said.where,
                                              places={"factors": said.where, **said.places})
    for leaf in nodes:
        for kind, said in groups[leaf.name].items() if leaf.role in ABOUT else ():
            if kind not in ABOUT[leaf.role] and said:
                raise said.where.error(f'the {leaf.role} "{leaf.name}" has a {kind} constraint',
                                       f"{listed(ABOUT[leaf.role])} constraints there")
            for factor in said.get("factors", ()) if leaf.fanout == 1 else ():
                if factor.operator != "<=" and factor.value > 1:
                    raise factor.where.error(f'"{factor}" is spatial, but "{leaf.name}" has no fan-out',
                                             "spatial: {meshX: ..., meshY: ...}")
    _split_parallel(tree, problem.dataspace_names(), groups, problem)
    # Loops of factor 1, by a constraint or by the problem, are innermost in a permutation that does not mention them. A
    # `split` keeps its number, and thus counts the loops that were put in.
    for leaf in nodes:
        for kind in ["temporal"] * (leaf.role == "storage") + ["spatial"] * (leaf.fanout > 1):
            said = groups[leaf.name][kind]
            inner, outer = said.get("permutation", ((), ()))
            units = [factor.dimension for factor in said.get("factors", ()) if factor.value == 1]
            for dimension in (*units, *(name for name, bound in problem.bounds.items() if bound == 1)):
                if dimension not in (*inner, *outer):
                    inner = (dimension, *inner)
            if inner or outer:
                groups[leaf.name][kind] = Map({**said, "permutation": (inner, outer)}, where=said.where,
                                              places={"permutation": said.where, **said.places})
    return groups


# From the text to checked values.

def target_entries(value: object, where: Where) -> list[Map]:
    """The entries of one top-level section of constraints: a list, or a mapping with the list under `targets`."""
    if isinstance(value, dict):
        reader = Reader(without_ignored(mapping(value, where)), V04_TARGETS)
        reader.read("version")
        entries = reader.read("targets", Seq(where=where))
        reader.finish(" in the constraints")
    elif isinstance(value, list):
        entries = sequence(value, where)
    else:
        raise where.error(f"found {kind_of(value)}", "a list of constraints, or a mapping with the list as targets")
    return [mapping(entry, at) for entry, at in entries.placed()]


def _attach(groups: dict[str, Group], node: Map, scope: ExpressionScope) -> None:
    """Adds one entry of a top-level list to the constraints of its node, which it must not contradict."""
    node = without_ignored(node)
    reader = Reader(node, V04_TARGET)
    target, kind = map(reader.read, V04_TARGET)
    if kind == "max_overbooked_proportion":
        raise reader.at("type").error('"max_overbooked_proportion" is not supported: overbooking is not modelled')
    rest = Map({key: value for key, value in node.items() if key not in ("target", "type")},
               where=node.where, places={**node.places, "target": reader.at("target")})
    said = _checked(kind, rest, scope)
    before = groups[known(target, said.at("target"), groups, "target")].get(kind)
    groups[target][kind] = said if before is None else combine(before, said)


def _checked(kind: str, node: Map, scope: ExpressionScope) -> Map:
    """The constraints of one kind on a node with checked values; empty lists count only for the keys in `ONLY`."""
    problem = scope.problem

    def spaces(value: Any, where: Where) -> tuple[str, ...]:
        """Names of data spaces; "*" adds all of them."""
        names = known_spaces(sequence(value, where), problem, "*")
        every = problem.dataspace_names() if "*" in names else ()
        return tuple(dict.fromkeys([*(name for name in names if name != "*"), *every]))

    def dimensions(value: Any, where: Where) -> tuple[tuple[str, ...], ...]:
        """A list of dimensions, or a list of such lists."""
        lists = sequence(value, where)
        if lists and all(not isinstance(item, list) for item in lists):
            lists = placed_list([(lists, where)], where)
        return tuple(sum(parse_permutation(sequence(item, at), at, problem.dimensions), ())
                     for item, at in lists.placed())

    checks: dict[Kind, Check[Any]] = {
        FACTORS: lambda value, where: parse_factors(value, where, problem.bounds, bounded=scope.leniency.strict),
        ORDER: lambda value, where: parse_permutation(value, where, problem.dimensions, commas=True),
        SPACES: spaces, DIMENSIONS: dimensions}
    table, said = V04_CONSTRAINTS[kind], dict[str, Any]()
    reader = Reader(without_ignored(node), {**table, **(picked("type") if kind in KINDS else {})}, names=scope.names)
    for key, accepted in table.items():  # names and factors of the problem, or a number
        value = reader.read(key, None, check=checks.get(accepted.kind))
        if value is not None and (key in ONLY or value not in NOTHING):
            said[key] = value
    if kind in KINDS:
        reader.read("type", None, check=one_of(kind))
    reader.finish(f" in a {kind} constraint")
    return combine(Map(where=node.where), node.having(said))


def combine(first: Map, second: Map) -> Map:
    """Combines two constraints of one kind on the same node. Raises SpecError where they contradict each other."""
    both = first.having(first) if first else second.having(())
    for key, value in second.items():
        before = both.get(key)
        if key not in both:
            both.places[key] = second.at(key)
        if key in ("factors", "factors_only"):
            value = add_factors(before or (), value)
        elif before is not None and key in JOINED:
            value = tuple(dict.fromkeys((*before, *value)))
        elif before is not None and before != value:
            raise second.at(key).error(f'"{key}" is given a second time (first at {both.at(key)})', "one of them")
        both[key] = value
    for name in both.get("keep", ()):
        if name in both.get("bypass", ()):
            raise both.at("keep").error(f'the data space "{name}" is kept here and bypassed at {both.at("bypass")}',
                                        "one of them")
    return both


def add_factors(first: Iterable[LoopFactor], second: Iterable[LoopFactor]) -> tuple[LoopFactor, ...]:
    """Joins two lists, each factor once. A contradiction is a SpecError; a minimum may lie beside a maximum."""
    both = list(first)
    for factor in second:
        same = [other for other in both if other.dimension == factor.dimension]
        for other in same:
            if other.value != factor.value and {other.operator, factor.operator} != {"<=", ">="}:
                raise factor.where.error(f'"{factor}" contradicts "{other}" at {other.where}', "one of them")
        if str(factor) not in map(str, same):
            both.append(factor)
    return tuple(both)


# Macros. All but `maximize_dims`, which depends on the iterations that the other nodes leave over, are about one node.

def _without_macros(kind: str, said: Map, problem: Problem) -> Map:
    """Constraints of one kind on a node with all macros but `maximize_dims` written out."""
    plain = said.having({key: value for key, value in said.items() if key not in MACROS})
    if kind == "dataspace":  # the data spaces that are not named get the opposite
        for macro, listed_key, other_key in (("keep_only", "keep", "bypass"), ("bypass_only", "bypass", "keep")):
            if macro in said:
                others = tuple(name for name in problem.dataspace_names() if name not in said[macro])
                plain = combine(plain, Map({listed_key: said[macro], other_key: others}, where=said.at(macro),
                                           places=dict.fromkeys((listed_key, other_key), said.at(macro))))
        return plain
    factors = said.get("factors", ())
    for macro in LOOP_MACROS:  # each sets the factors of some dimensions to 1
        if macro in said:
            if macro == "factors_only":
                factors = add_factors(factors, said[macro])
                named = dict.fromkeys(factor.dimension for factor in factors)
            else:
                named = dict.fromkeys(term.dimension for space in problem.dataspaces if space.name in said[macro]
                                      for rank in space.ranks for term in rank)
            units = named if macro.startswith("no_") else [name for name in problem.dimensions if name not in named]
            factors = add_factors(factors, (LoopFactor(name, "=", 1, said.at(macro)) for name in units))
    return plain if not factors else Map({**plain, "factors": factors}, where=said.where,
                                         places={"factors": said.where, **said.places})


def fill_greedily(bounds: Mapping[str, int], capacity: int) -> dict[str, int]:
    """Factors by dimension whose product uses as much of a capacity as possible, as the front end picks them.

    The search takes one prime factor after the other, or a last imperfect factor where a dimension is larger than the
    room left; the first of equally good choices wins. `bounds`: iterations left by dimension.
    """
    names = list(bounds)

    @cache
    def best(left: tuple[int, ...], room: int) -> tuple[tuple[tuple[int, int], ...], float]:
        choice: tuple[tuple[int, int], ...] = ()
        use = 1.0
        for i, bound in enumerate(left if room > 1 else ()):
            if bound > room:
                rounds = math.ceil(bound / room)
                share = math.ceil(bound / rounds)
                mean = (share * (rounds - 1) + bound % share) / rounds
                if mean > use:
                    choice, use = ((i, share),), mean
            for prime in _primes(bound):
                if prime <= room:
                    rest = tuple(b // prime if j == i else b for j, b in enumerate(left))
                    inner, inner_use = best(rest, room // prime)
                    if inner_use * prime > use:
                        choice, use = ((i, prime), *inner), inner_use * prime
        return choice, use

    chosen: dict[str, int] = {}
    for i, factor in best(tuple(bounds.values()), capacity)[0]:
        chosen[names[i]] = chosen.get(names[i], 1) * factor
    return chosen | {name: 1 for name in names if name not in chosen}


def _primes(number: int) -> list[int]:
    """The prime factors of a number, each once, ascending."""
    primes, candidate = [], 2
    while candidate * candidate <= number:
        if number % candidate == 0:
            primes.append(candidate)
            while number % candidate == 0:
                number //= candidate
        candidate += 1
    return [*primes, number] if number > 1 else primes


def _split_parallel(branch: BranchNode, passing: Sequence[str], groups: dict[str, Group], problem: Problem) -> None:
    """Writes out `!Parallel`: every data space goes through the branch that keeps it and bypasses the others.

    `passing` are the data spaces that reach the branch; the bypasses that follow are added to the constraints by node.
    """
    inside = {id(node): [node] if isinstance(node, LeafNode) else list(leaves(node)) for node in branch.nodes}
    kept = [{name for leaf in inside[id(node)] for name in groups[leaf.name]["dataspace"].get("keep", ())}
            for node in branch.nodes]
    for name in passing if branch.parallel else ():
        keepers = [node for node, keep in zip(branch.nodes, kept, strict=True) if name in keep]
        if len(keepers) > 1:
            raise branch.where.error(f'the data space "{name}" is kept in {len(keepers)} branches of a !Parallel '
                                     f"(at {listed(str(node.where) for node in keepers)})", "one branch each")
        if not keepers:
            raise branch.where.error(
                f'no branch of this !Parallel keeps the data space "{name}"',
                f"`keep: [{name}]` in one branch, such as !Nothing {{constraints: {{dataspace: {{keep: [{name}]}}}}}}")
    for node, keep in zip(branch.nodes, kept, strict=True):
        here = [name for name in problem.dataspace_names() if name in keep] if branch.parallel else passing
        if branch.parallel:
            bypass = Map({"bypass": tuple(name for name in problem.dataspace_names() if name not in keep)},
                         where=branch.where, places={"bypass": branch.where})
            for leaf in inside[id(node)]:
                groups[leaf.name]["dataspace"] = combine(groups[leaf.name]["dataspace"], bypass)
        if isinstance(node, BranchNode):
            _split_parallel(node, here, groups, problem)


# From checked values to the native dialect.

def native_targets(levels: Sequence[NativeLevel], groups: dict[str, Group], problem: Problem, where: Where) -> Seq:
    """The native list of directives, level by level, from the outside in; macros are written out in `groups`.

    A dummy level takes the spatial constraints of its node, has no temporal loops and bypasses every data space.
    Factors and orders are strings; an order of longer names stays a list.
    """
    native = []
    for level in levels:
        group, leaf = groups[level.leaf.name], level.leaf.where
        if level.role == FAN_OUT:
            group = {"spatial": group["spatial"],
                     "temporal": Map({"factors": tuple(LoopFactor(name, "=", 1, leaf) for name in problem.dimensions),
                                      "permutation": (problem.dimensions, ())}, where=leaf),
                     "dataspace": Map({"bypass": problem.dataspace_names()}, where=leaf)}
        for kind, said in group.items():
            if kind == "spatial" and level.role != FAN_OUT and level.leaf.fanout != 1:
                continue  # the dummy level takes the spatial constraints
            directive: dict[str, Any] = {"target": level.name, "type": "bypass" if kind == "dataspace" else kind}
            for key, value in said.items():
                at = said.places.get(key, said.where)
                if value in NOTHING:
                    continue
                if key == "factors":
                    value = ",".join(map(str, value))
                elif key == "permutation" and single_letter(problem.dimensions):
                    value = permutation_text(*value)
                elif key == "permutation":
                    inner, outer = value
                    value = Seq([*inner, SEPARATOR, *outer] if outer else inner, where=at)
                elif isinstance(value, tuple):
                    value = placed_list(((name, at) for name in value), at)
                directive[key] = value
            if len(directive) > 2:
                native.append(said.having(directive))
    return Seq(native, where=where)


def native_mapping(
    entries: Seq, tree: BranchNode, levels: Sequence[NativeLevel], written: dict[str, Group], scope: ExpressionScope
) -> Seq:
    """A mapping in the native dialect.

    A v0.4 mapping lies on top of the design's constraints (`written`, by node), which supply the factors, orders and
    data spaces that it leaves open; macros are written out for both together. A list that already names dummy levels or
    native types is returned as it is.
    """
    nodes = [mapping(entry, at) for entry, at in entries.placed()]
    dummies = [level.name for level in levels if level.role == FAN_OUT]
    if any(node.get("target") in dummies or node.get("type") in ("bypass", "bypassing", "datatype") for node in nodes):
        return entries
    given: dict[str, Group] = {name: {} for name in written}
    for node in nodes:
        _attach(given, node, scope)

    def on_top(kind: str, design: Map, said: Map) -> Map:
        """The design's constraints with the entries of a mapping about the same loops or data spaces on top."""
        base = _without_macros(kind, design.having({key: value for key, value in design.items()
                                                    if key != "factors_only"}), scope.problem)
        mine = said if kind != "dataspace" else _without_macros(kind, said, scope.problem)
        both = {**base, **mine}
        named = {factor.dimension for factor in (*mine.get("factors", ()), *mine.get("factors_only", ()))}
        both["factors"] = (*mine.get("factors", ()), *(
            factor for factor in base.get("factors", ())
            if factor.operator == "=" and factor.dimension not in named))
        if "factors_only" in design:
            both["factors_only"] = (*mine.get("factors_only", ()), *(
                factor for factor in design["factors_only"] if factor.dimension not in named))
        if "maximize_dims" in base and "maximize_dims" not in mine:
            both["maximize_dims"] = tuple(tuple(name for name in dimensions if name not in named)
                                          for dimensions in base["maximize_dims"])
        for key, other in (("keep", "bypass"), ("bypass", "keep")):
            rest = (name for name in base.get(key, ()) if name not in mine.get(other, ()))
            both[key] = tuple(dict.fromkeys((*mine.get(key, ()), *rest)))
        return Map({key: value for key, value in both.items() if key in ONLY or value not in NOTHING},
                   where=said.where if mine else design.where, places={**design.places, **said.places})

    merged = {name: {kind: on_top(kind, design, given[name].get(kind, Map(where=design.where)))
                     for kind, design in group.items()} for name, group in written.items()}
    final = {name: {kind: said.having({key: said[key] for key in MAPPING_ENTRIES if key in said})
                    for kind, said in group.items()}
             for name, group in expanded_constraints(tree, merged, scope.problem).items()}
    return native_targets(levels, final, scope.problem, entries.where)
