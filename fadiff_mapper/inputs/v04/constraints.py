"""Constraints as written in v0.4: inline under a node, or as top-level targets; read, combined, written out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.mapping import (
    SEPARATOR,
    LoopFactor,
    factors_text,
    parse_factors,
    parse_permutation,
    permutation_text,
)
from fadiff_mapper.inputs.spec.problem import Problem, single_letter
from fadiff_mapper.inputs.v04.nodes import (
    BranchNode,
    LeafNode,
    Names,
    NativeLevel,
    expression_of,
    leaves,
    version,
    without_ignored,
)
from fadiff_mapper.inputs.yaml.leniency import Leniency
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
    sequence,
    text,
)
from fadiff_mapper.inputs.yaml.place import Where

# `factors_only`, `no_iteration_over_dataspaces`, `must_iterate_over_dataspaces`, `keep_only` and `bypass_only` are
# about one node each; `maximize_dims` depends on the iterations that the other nodes leave over.

def expand(groups: dict[str, Group], leaves: Sequence[LeafNode], problem: Problem) -> dict[str, Group]:
    """Writes out all macros of all nodes, in the front end's order.

    Args:
        groups: Constraints by node.
        leaves: All leaves of the tree, in whose order `maximize_dims` takes iterations.
        problem: The problem.

    Raises:
        SpecError: A macro contradicts a constraint beside it, or a `maximize_dims` over temporal loops has no
            `maximize_dims_capacity`.
    """
    plain = {name: {kind: _expand_one(directive, problem) for kind, directive in group.items()}
             for name, group in groups.items()}
    return _maximize(plain, leaves, problem)


def ones(dimensions: Iterable[str], where: Where) -> tuple[LoopFactor, ...]:
    """A factor of 1 for each dimension."""
    return tuple(LoopFactor(dimension, "=", 1, where) for dimension in dimensions)


def _expand_one(directive: Directive, problem: Problem) -> Directive:
    """All macros of one directive but `maximize_dims`."""
    expand_entries = _expand_dataspaces if directive.kind == "dataspace" else _expand_loops
    return expand_entries(directive, problem)


def _expand_loops(directive: Directive, problem: Problem) -> Directive:
    """Macros of loops: each sets the factors of some dimensions to 1."""
    entries = directive.entries
    factors: tuple[LoopFactor, ...] = entries.get("factors", ())
    if "factors_only" in entries:
        factors = add_factors(factors, entries["factors_only"])
        named = {factor.dimension for factor in factors}
        rest = [dimension for dimension in problem.dimensions if dimension not in named]
        factors = add_factors(factors, ones(rest, directive.at("factors_only")))
    if "no_iteration_over_dataspaces" in entries:
        relevant = _dimensions(entries["no_iteration_over_dataspaces"], problem)
        factors = add_factors(factors, ones(relevant, directive.at("no_iteration_over_dataspaces")))
    if "must_iterate_over_dataspaces" in entries:
        relevant = _dimensions(entries["must_iterate_over_dataspaces"], problem)
        others = [dimension for dimension in problem.dimensions if dimension not in relevant]
        factors = add_factors(factors, ones(others, directive.at("must_iterate_over_dataspaces")))
    plain = directive.without("factors_only", "no_iteration_over_dataspaces", "must_iterate_over_dataspaces")
    return plain.with_entry("factors", factors) if factors else plain


def _expand_dataspaces(directive: Directive, problem: Problem) -> Directive:
    """Macros of data spaces: the ones that are not named get the opposite."""
    expanded = directive.without("keep_only", "bypass_only")
    for macro, listed_key, other_key in (("keep_only", "keep", "bypass"), ("bypass_only", "bypass", "keep")):
        if macro in directive.entries:
            names = directive.entries[macro]
            others = tuple(name for name in problem.dataspace_names() if name not in names)
            where = directive.at(macro)
            expanded = combine(expanded, Directive("dataspace", where, {listed_key: names, other_key: others}))
    return expanded


def _dimensions(dataspaces: Iterable[str], problem: Problem) -> list[str]:
    """The dimensions of these data spaces, as they appear in their projections."""
    terms = (term.dimension for ds in problem.dataspaces if ds.name in set(dataspaces)
             for rank in ds.ranks for term in rank)
    return list(dict.fromkeys(terms))


def _maximize(groups: dict[str, Group], leaves: Sequence[LeafNode], problem: Problem) -> dict[str, Group]:
    """`maximize_dims`, spatial loops first, the last leaves first; each takes from what is left of the dimensions."""
    left = _unconstrained(groups, problem)
    inwards_out = list(reversed(leaves))
    for kind in ("spatial", "temporal"):
        for leaf in inwards_out:
            directive = groups[leaf.name][kind]
            if "maximize_dims" in directive.entries:
                directive, left = _maximize_one(directive, leaf, left)
            plain = directive.without("maximize_dims", "maximize_dims_capacity")
            groups = {**groups, leaf.name: {**groups[leaf.name], kind: plain}}
    return groups


def _unconstrained(groups: Mapping[str, Group], problem: Problem) -> dict[str, int]:
    """Iterations of each dimension that all fixed factors leave over."""
    left = dict(problem.bounds)
    for group in groups.values():
        for directive in group.values():
            for factor in directive.entries.get("factors", ()):
                if factor.operator == "=":
                    left[factor.dimension] = math.ceil(left[factor.dimension] / factor.value)
    return left


def _maximize_one(directive: Directive, leaf: LeafNode, left: dict[str, int]) -> tuple[Directive, dict[str, int]]:
    """(the directive with the factors of its `maximize_dims`, the iterations left over then)."""
    where = directive.at("maximize_dims")
    capacity = directive.entries.get("maximize_dims_capacity", leaf.fanout if directive.kind == "spatial" else None)
    if capacity is None:
        raise where.error('"maximize_dims" over temporal loops has no capacity', "maximize_dims_capacity beside it")
    factors: tuple[LoopFactor, ...] = directive.entries.get("factors", ())
    for dimensions in directive.entries["maximize_dims"]:
        named = {factor.dimension: factor for factor in factors}
        for dimension in dimensions:
            if dimension in named:
                raise where.error(f'cannot maximize "{dimension}": it is constrained to '
                                  f'"{named[dimension]}"', "dimensions without a factor")
        taken = {factor.dimension: factor.value for factor in factors if factor.operator in ("=", ">=")}
        room = capacity
        for value in taken.values():
            room //= value
        chosen = fill_greedily({dimension: left[dimension] for dimension in dimensions}, room)
        factors = (*factors, *(LoopFactor(dimension, "=", value, where) for dimension, value in chosen.items()))
        left = left | {dimension: math.ceil(left[dimension] / value) for dimension, value in chosen.items()}
    return directive.with_entry("factors", factors), left


def fill_greedily(bounds: Mapping[str, int], capacity: int) -> dict[str, int]:
    """Factors of some dimensions whose product uses as much of a capacity as possible, as the front end picks them.

    The search takes one prime factor after the other, or a last imperfect factor where a dimension is larger than the
    room left; the first of equally good choices wins.

    Args:
        bounds: Iterations left by dimension.
        capacity: Largest product.

    Returns:
        Factor by dimension, 1 where a dimension gets nothing.
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


def split_parallel(tree: BranchNode, groups: dict[str, Group], problem: Problem) -> dict[str, Group]:
    """Writes out `!Parallel`: every data space goes through the branch that keeps it and bypasses the others.

    Args:
        tree: The architecture.
        groups: Constraints by node.
        problem: The problem, whose data spaces are shared out.

    Returns:
        The constraints, with the bypasses that follow.

    Raises:
        SpecError: Several branches keep the same data space, or none does.
    """
    return _split(tree, problem.dataspace_names(), groups, problem)


def place_unit_loops(groups: dict[str, Group], nodes: Sequence[LeafNode], problem: Problem) -> dict[str, Group]:
    """Puts loops of factor 1 innermost in permutations that do not mention them, as the front end does.

    Such loops are 1 by a constraint or by the problem. Touched are temporal loops of memories and spatial loops of
    fan-outs. A `split` keeps its number, and thus counts the loops that were put in.

    Args:
        groups: Constraints by node.
        nodes: All leaves of the tree.
        problem: The problem.
    """
    for leaf in nodes:
        kinds = ["temporal"] * (leaf.role == "storage") + ["spatial"] * (leaf.fanout > 1)
        ordered = {kind: _ordered(groups[leaf.name][kind], problem) for kind in kinds}
        groups = {**groups, leaf.name: {**groups[leaf.name], **ordered}}
    return groups


def _split(branch: BranchNode, passing: Sequence[str], groups: dict[str, Group], problem: Problem) -> dict[str, Group]:
    if not branch.parallel:
        for node in branch.nodes:
            groups = _split(node, passing, groups, problem) if isinstance(node, BranchNode) else groups
        return groups
    kept = [_kept(node, groups, problem) for node in branch.nodes]
    _check_shares(branch, passing, kept)
    for node, keep in zip(branch.nodes, kept, strict=True):
        bypass = tuple(name for name in problem.dataspace_names() if name not in keep)
        for leaf in _leaves_of(node):
            before = groups[leaf.name]["dataspace"]
            after = combine(before, Directive("dataspace", branch.where, {"bypass": bypass}))
            groups = {**groups, leaf.name: {**groups[leaf.name], "dataspace": after}}
        groups = _split(node, keep, groups, problem) if isinstance(node, BranchNode) else groups
    return groups


def _kept(node: LeafNode | BranchNode, groups: dict[str, Group], problem: Problem) -> tuple[str, ...]:
    """Data spaces that the leaves of a node keep."""
    kept = {name for leaf in _leaves_of(node) for name in groups[leaf.name]["dataspace"].entries.get("keep", ())}
    return tuple(name for name in problem.dataspace_names() if name in kept)


def _check_shares(branch: BranchNode, passing: Sequence[str], kept: Sequence[tuple[str, ...]]) -> None:
    """Raises SpecError unless exactly one node of a !Parallel keeps each data space that reaches it."""
    for name in passing:
        keepers = [node for node, keep in zip(branch.nodes, kept, strict=True) if name in keep]
        if len(keepers) > 1:
            raise branch.where.error(f'the data space "{name}" is kept in {len(keepers)} branches of a !Parallel '
                                     f"(at {listed(str(node.where) for node in keepers)})", "one branch each")
        if not keepers:
            raise branch.where.error(
                f'no branch of this !Parallel keeps the data space "{name}"',
                f"`keep: [{name}]` in one branch, such as !Nothing {{constraints: {{dataspace: {{keep: [{name}]}}}}}}")


def _leaves_of(node: LeafNode | BranchNode) -> list[LeafNode]:
    return [node] if isinstance(node, LeafNode) else list(leaves(node))


def _ordered(directive: Directive, problem: Problem) -> Directive:
    """The directive with its unit loops in its permutation; without a permutation it stays."""
    inner, outer = directive.entries.get("permutation", ((), ()))
    units = [factor.dimension for factor in directive.entries.get("factors", ()) if factor.value == 1]
    units += [dimension for dimension, bound in problem.bounds.items() if bound == 1]
    for dimension in units:
        if dimension not in (*inner, *outer):
            inner = (dimension, *inner)
    return directive.with_entry("permutation", (inner, outer)) if inner or outer else directive


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
                raise factor.where.error(f'"{factor}" contradicts "{other}" at {other.where}',
                                         "one of them")
        if str(factor) not in map(str, same):
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


MAPPING_ENTRIES = ("factors", "permutation", "split", "keep", "bypass", "no_reuse", "no_link_transfer",
                   "rmw_first_update", "no_coalesce")
"""Entries that a mapping can have; limits on factors are for the map space alone."""
ABOUT = {"container": ("spatial",), "network": ("spatial",), "nothing": ("dataspace",)}
"""Role of a node that is no level -> the constraints that it can have. A spatial one is about the fan-out."""


def target_entries(value: object, where: Where) -> list[Map]:
    """The entries of one top-level section of constraints: a list, or a mapping with the list under `targets`."""
    if isinstance(value, dict):
        reader = Reader(without_ignored(mapping(value, where)))
        reader.take("version", version, None)
        entries = reader.take("targets", sequence, Seq(where=where))
        reader.finish(" in the constraints")
    elif isinstance(value, list):
        entries = sequence(value, where)
    else:
        raise where.error(f"found {kind_of(value)}", "a list of constraints, or a mapping with the list as targets")
    return [mapping(entry, entries.at(i)) for i, entry in enumerate(entries)]


def design_constraints(tree: BranchNode, targets: Sequence[Map], scope: ExpressionScope) -> dict[str, Group]:
    """All constraints of a design by node: inline ones and targets combined, macros and !Parallel written out.

    Args:
        tree: The architecture.
        targets: Entries of the top-level sections.
        scope: Problem and names.

    Raises:
        SpecError: Unknown targets, contradictions, and constraints that a node cannot obey.
    """
    nodes = list(leaves(tree))
    groups = expand(_read_all(nodes, targets, scope), nodes, scope.problem)
    _check_subjects(nodes, groups)
    groups = split_parallel(tree, groups, scope.problem)
    return place_unit_loops(groups, nodes, scope.problem)


def _read_all(nodes: Sequence[LeafNode], targets: Sequence[Map], scope: ExpressionScope) -> dict[str, Group]:
    """The constraints of all nodes. SpecError lists the mistakes of all."""
    groups: dict[str, Group] = {leaf.name: {} for leaf in nodes}
    mistakes: list[str] = []
    for leaf in nodes:
        try:
            groups[leaf.name] = read_group(leaf.constraints, scope)
        except SpecError as error:
            mistakes += error.problems
    for target in targets:
        try:
            groups = attach(groups, *read_target(target, scope))
        except SpecError as error:
            mistakes += error.problems
    if mistakes:
        raise SpecError(*mistakes)
    return groups


def native_targets(levels: Sequence[NativeLevel], groups: dict[str, Group], problem: Problem, where: Where) -> Seq:
    """The native list of directives.

    A dummy level takes the spatial constraints of its node, has no temporal loops and bypasses every data space.

    Args:
        levels: The levels, from the outside in.
        groups: Directives by node, with macros written out.
        problem: The problem.
        where: Place of the list.

    Returns:
        The directives level by level, from the outside in.
    """
    native: list[Map | None] = []
    for level in levels:
        group = groups[level.leaf.name]
        if level.dummy:
            directives = [group["spatial"], *_pass_through(level.leaf.where, problem)]
        else:
            spatial_is_outside = level.leaf.fanout != 1
            directives = [d for kind, d in group.items() if kind != "spatial" or not spatial_is_outside]
        native += [native_directive(directive, level.name, problem) for directive in directives]
    return Seq([node for node in native if node is not None], where=where)


def native_mapping(
    entries: Seq, tree: BranchNode, levels: Sequence[NativeLevel], groups: dict[str, Group], scope: ExpressionScope
) -> Seq:
    """A mapping in the native dialect.

    A v0.4 mapping lies on top of the design's constraints, which supply the factors, orders and data spaces that it
    leaves open. A list that already names dummy levels or native types is returned as it is.

    Args:
        entries: The mapping section.
        tree: The architecture.
        levels: Its levels.
        groups: Its constraints by node, see `design_constraints`.
        scope: Problem and names.

    Raises:
        SpecError: As for constraints.
    """
    nodes = [mapping(entry, entries.at(i)) for i, entry in enumerate(entries)]
    if any(_is_native(node, levels) for node in nodes):
        return entries
    said: dict[str, Group] = {name: {} for name in groups}
    for node in nodes:
        said = attach(said, *read_target(node, scope))
    said = {name: {kind: Directive(kind, groups[name][kind].where) for kind in groups[name]} | group
            for name, group in said.items()}
    said = expand(said, list(leaves(tree)), scope.problem)
    _check_subjects(list(leaves(tree)), said)
    merged = {name: {kind: _on_top(directive, said[name].get(kind)) for kind, directive in group.items()}
              for name, group in groups.items()}
    return native_targets(levels, merged, scope.problem, entries.where)


def _is_native(node: Map, levels: Sequence[NativeLevel]) -> bool:
    dummies = [level.name for level in levels if level.dummy]
    return node.get("target") in dummies or node.get("type") in ("bypass", "bypassing", "datatype")


def _on_top(design: Directive, said: Directive | None) -> Directive:
    """The design's directive with the entries of a mapping about the same loops or data spaces on top."""
    mine = said.entries if said else {}
    entries = {**design.entries, **mine}
    factors = tuple(factor for factor in design.entries.get("factors", ()) if factor.operator == "=")
    named = {factor.dimension for factor in mine.get("factors", ())}
    entries["factors"] = (*mine.get("factors", ()), *(f for f in factors if f.dimension not in named))
    for key, other in (("keep", "bypass"), ("bypass", "keep")):
        rest = (name for name in design.entries.get(key, ()) if name not in mine.get(other, ()))
        entries[key] = tuple(dict.fromkeys((*mine.get(key, ()), *rest)))
    where = said.where if said and said.entries else design.where
    places = {**design.places, **(said.places if said else {})}
    return Directive(design.kind, where, {key: entries[key] for key in MAPPING_ENTRIES if key in entries}, places)


def _pass_through(where: Where, problem: Problem) -> tuple[Directive, Directive]:
    """The constraints of a dummy level: no temporal loops and no data."""
    loops = {"factors": ones(problem.dimensions, where), "permutation": (problem.dimensions, ())}
    return (Directive("temporal", where, loops),
            Directive("dataspace", where, {"bypass": problem.dataspace_names()}))


def _check_subjects(nodes: Sequence[LeafNode], groups: dict[str, Group]) -> None:
    """Raises SpecError for constraints that a container or !Nothing cannot obey.

    Spatial constraints of a container without a fan-out are dropped, as all loops are 1 there, unless they
    demand a larger one.
    """
    for leaf in nodes:
        for kind, directive in groups[leaf.name].items() if leaf.role in ABOUT else ():
            if kind not in ABOUT[leaf.role] and directive.entries:
                raise directive.where.error(f'the {leaf.role} "{leaf.name}" has a {kind} constraint',
                                            f"{listed(ABOUT[leaf.role])} constraints there")
            for factor in directive.entries.get("factors", ()) if leaf.fanout == 1 else ():
                if factor.operator != "<=" and factor.value > 1:
                    raise factor.where.error(f'"{factor}" is spatial, but "{leaf.name}" has no fan-out',
                                             "spatial: {meshX: ..., meshY: ...}")
