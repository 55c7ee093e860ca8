"""What the tree itself says about data spaces and loops, beyond the constraints that users write."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import listed
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.v04.constraints import Directive, Group, combine
from fadiff_mapper.spec.v04.nodes import BranchNode, LeafNode, leaves


def split_parallel(tree: BranchNode, groups: dict[str, Group], problem: Problem) -> dict[str, Group]:
    """Every data space goes through one branch of each !Parallel (the one that keeps it) and bypasses the others.

    Raises SpecError where two branches keep the same data space, or none does.
    """
    return _split(tree, problem.dataspace_names(), groups, problem)


def place_unit_loops(groups: dict[str, Group], nodes: Sequence[LeafNode], problem: Problem) -> dict[str, Group]:
    """Loops that are 1 by a factor or by the problem go innermost in a permutation that does not mention them.

    As the front end does, for the temporal loops of memories and the spatial loops of fan-outs. `split` keeps its
    number, and thus counts the loops that were put in.
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
    kept = {name for leaf in _leaves_of(node) for name in groups[leaf.name]["dataspace"].entries.get("keep", ())}
    return tuple(name for name in problem.dataspace_names() if name in kept)


def _check_shares(branch: BranchNode, passing: Sequence[str], kept: Sequence[tuple[str, ...]]) -> None:
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
    inner, outer = directive.entries.get("permutation", ((), ()))
    units = [factor.dimension for factor in directive.entries.get("factors", ()) if factor.value == 1]
    units += [dimension for dimension, bound in problem.bounds.items() if bound == 1]
    for dimension in units:
        if dimension not in (*inner, *outer):
            inner = (dimension, *inner)
    return directive.with_entry("permutation", (inner, outer)) if inner or outer else directive
