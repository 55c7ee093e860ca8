"""From the constraints of nodes to lists of native directives: `architecture_constraints` and `mapping`."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import SpecError, listed
from fadiff_mapper.spec.native.factors import factor_text
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.v04.attributes import version, without_ignored
from fadiff_mapper.spec.v04.branches import place_unit_loops, split_parallel
from fadiff_mapper.spec.v04.constraints import (
    Directive,
    ExpressionScope,
    Group,
    attach,
    native_directive,
    read_group,
    read_target,
)
from fadiff_mapper.spec.v04.levels import NativeLevel
from fadiff_mapper.spec.v04.macros import expand, ones
from fadiff_mapper.spec.v04.nodes import BranchNode, LeafNode, leaves
from fadiff_mapper.yaml.located import Map, Reader, Seq, kind_of, mapping, sequence
from fadiff_mapper.yaml.place import Where

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
                    raise factor.where.error(f'"{factor_text(factor)}" is spatial, but "{leaf.name}" has no fan-out',
                                             "spatial: {meshX: ..., meshY: ...}")
