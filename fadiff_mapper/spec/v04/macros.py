"""Constraint macros of the front end, written out in plain factors and lists.

`factors_only`, `no_iteration_over_dataspaces`, `must_iterate_over_dataspaces`, `keep_only` and `bypass_only` are about
one node each; `maximize_dims` depends on the iterations that the other nodes leave over.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from fadiff_mapper.spec.native.factors import LoopFactor, factor_text
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.v04.constraints import Directive, Group, add_factors, combine
from fadiff_mapper.spec.v04.nodes import LeafNode
from fadiff_mapper.yaml.place import Where


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
                                  f'"{factor_text(named[dimension])}"', "dimensions without a factor")
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
