"""Constraints that follow from the tree itself: paths of data spaces through branches, and places of unit loops."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import listed
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.v04.constraints import Directive, Group, combine
from fadiff_mapper.spec.v04.nodes import BranchNode, LeafNode, leaves


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
