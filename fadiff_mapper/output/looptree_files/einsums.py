"""The layers of a fused group as LoopTree's Einsums: ranks, tensors, and the projection of the ones into the others.

LoopTree reads one problem per layer and joins them by the names of their tensors: an intermediate carries the same name
in the layer that writes it and in the layer that reads it. Ranks belong to one layer alone. `mapping_tree` takes both
kinds of names from here.
"""

from __future__ import annotations

from typing import Any

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLink
from fadiff_mapper.fusion.tile_steps import space_of
from fadiff_mapper.spec.problem import DataSpace, Problem, Term


def rank_name(dim: str, index: int) -> str:
    """LoopTree's rank for a dimension of layer `index`, counted from 0; LoopTree wants ranks unique over all layers."""
    return f"{dim}_{index + 1}"


def tensor_name(group: FusedGroup, index: int, space: str) -> str:
    """LoopTree's tensor for a data space of a layer; reader and writer of an intermediate give the same name.

    Args:
        group: The fused group.
        index: The layer, counted from 0.
        space: Name of one of the layer's data spaces.

    Returns:
        `<space>_<layer>` with layers counted from 1; for the intermediate that the layer reads, its writer's name.
    """
    if index and group.links[index - 1].tensor == space:
        return f"{group.layers[index - 1].problem.output.name}_{index}"
    return f"{space}_{index + 1}"


def einsum_name(index: int) -> str:
    """LoopTree's name for layer `index`, counted from 0."""
    return f"E{index + 1}"


def looptree_problem(group: FusedGroup) -> list[dict[str, Any]]:
    """The section `problem` of LoopTree's input: one Einsum per layer, first to last.

    Args:
        group: A group for which `beyond_looptree` finds no reason against a tree.

    Returns:
        For each layer its `shape` (name, dimensions, data spaces with projections) and its `instance`: the bounds as
        constraints of isl, `0 <= rank < bound`.
    """
    return [_einsum(group, index) for index in range(len(group.layers))]


def _einsum(group: FusedGroup, index: int) -> dict[str, Any]:
    problem = group.layers[index].problem
    spaces = []
    for space in problem.dataspaces:
        axes, name = _axes(group, index, space), tensor_name(group, index, space.name)
        entry: dict[str, Any] = {"name": name, "dimensions": [f"{name}_{axis}" for axis in range(len(axes))],
                                 "projection": f"[ {', '.join(axes)} ]"}
        spaces.append(entry | ({"read_write": True} if space.read_write else {}))
    bounds = " and ".join(f"0 <= {rank_name(dim, index)} < {bound}" for dim, bound in problem.bounds.items())
    return {"shape": {"name": einsum_name(index), "dimensions": [rank_name(dim, index) for dim in problem.dimensions],
                      "data_spaces": spaces}, "instance": bounds}


def _axes(group: FusedGroup, index: int, space: DataSpace) -> list[str]:
    """The affine expression of every axis of a data space in the layer's ranks.

    An intermediate has the axes that its reader gives it: its writer puts its own dimensions into the reader's order.
    """
    if index and group.links[index - 1].tensor == space.name:
        link = group.links[index - 1]
        return [_affine(rank, index, -_padding(link, rank)) for rank in space.ranks if handed_on(link, rank)]
    if index < len(group.links) and space.read_write:
        link, after = group.links[index], group.layers[index + 1].problem
        return [rank_name(own, index) for rank in read_ranks(link, after) for own in handed_on(link, rank)]
    return [_affine(rank, index, 0) for rank in space.ranks]


def read_ranks(link: FusedLink, after: Problem) -> tuple[tuple[Term, ...], ...]:
    """The ranks of the intermediate as the next layer, `after`, reads it."""
    return space_of(after, link.tensor).ranks


def handed_on(link: FusedLink, rank: tuple[Term, ...]) -> list[str]:
    """Dimensions of the writer's output that lead to a rank of the reader: more than one where an axis is flattened."""
    moving = {term.dimension for term in rank}
    return [own for own, theirs in link.dims.items() if theirs in moving]


def _padding(link: FusedLink, rank: tuple[Term, ...]) -> int:
    """Points of zeros before the first one of the intermediate along a rank of the reader."""
    return max((link.padding.get(term.dimension, 0) for term in rank), default=0)


def _affine(rank: tuple[Term, ...], index: int, constant: int) -> str:
    terms = [(f"{term.coefficient}*" if term.coefficient != 1 else "") + rank_name(term.dimension, index)
             for term in rank]
    return " + ".join(terms) + (f" - {-constant}" if constant else "")
