"""The layers of a fused group as LoopTree's Einsums: ranks, tensors and how the one index the other."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLink
from fadiff_mapper.spec.problem import DataSpace, Problem, Term


def rank_name(dim: str, index: int) -> str:
    """A dimension of layer `index` (from 0): LoopTree wants ranks to be unique over all layers."""
    return f"{dim}_{index + 1}"


def tensor_name(group: FusedGroup, index: int, space: str) -> str:
    """A data space of layer `index`; an intermediate has the name of its writer's output."""
    if index and group.links[index - 1].tensor == space:
        return f"{group.layers[index - 1].problem.output.name}_{index}"
    return f"{space}_{index + 1}"


def einsum_name(index: int) -> str:
    return f"E{index + 1}"


def looptree_problem(group: FusedGroup) -> list[dict[str, Any]]:
    """One entry for each layer, first to last."""
    return [_einsum(group, index) for index in range(len(group.layers))]


def _einsum(group: FusedGroup, index: int) -> dict[str, Any]:
    problem = group.layers[index].problem
    spaces = []
    for space in problem.dataspaces:
        axes, name = _axes(group, index, space), tensor_name(group, index, space.name)
        entry: dict[str, Any] = {"name": name, "dimensions": [f"{name}_{k}" for k in range(len(axes))],
                                 "projection": f"[ {', '.join(axes)} ]"}
        spaces.append(entry | ({"read_write": True} if space.read_write else {}))
    bounds = " and ".join(f"0 <= {rank_name(dim, index)} < {bound}" for dim, bound in problem.bounds.items())
    return {"shape": {"name": einsum_name(index), "dimensions": [rank_name(dim, index) for dim in problem.dimensions],
                      "data_spaces": spaces}, "instance": bounds}


def _axes(group: FusedGroup, index: int, space: DataSpace) -> list[str]:
    """The affine expression of every axis; writer and reader of an intermediate have the same axes."""
    if index and group.links[index - 1].tensor == space.name:
        link = group.links[index - 1]
        return [_affine(rank, index, -_padding(link, rank)) for rank in space.ranks if handed_on(link, rank)]
    if index < len(group.links) and space.read_write:
        link, after = group.links[index], group.layers[index + 1].problem
        return [rank_name(own, index) for rank in read_ranks(link, after) for own in handed_on(link, rank)]
    return [_affine(rank, index, 0) for rank in space.ranks]


def read_ranks(link: FusedLink, after: Problem) -> tuple[tuple[Term, ...], ...]:
    """The ranks of the tensor that the next layer reads."""
    return next(space.ranks for space in after.dataspaces if space.name == link.tensor)


def handed_on(link: FusedLink, rank: tuple[Term, ...]) -> list[str]:
    """Dimensions of the writer's output that lead to this rank of the reader."""
    names = {term.dimension for term in rank}
    return [own for own, theirs in link.dims.items() if theirs in names]


def _padding(link: FusedLink, rank: tuple[Term, ...]) -> int:
    return max((link.padding.get(term.dimension, 0) for term in rank), default=0)


def _affine(rank: tuple[Term, ...], index: int, constant: int) -> str:
    terms = [(f"{term.coefficient}*" if term.coefficient != 1 else "") + rank_name(term.dimension, index)
             for term in rank]
    return " + ".join(terms) + (f" - {-constant}" if constant else "")
