"""Several layers that hand tensors to one another, and the tree of loops that runs them, in LoopTree's terms.

A layer is an Einsum: a box of operations, each of which touches one word of every tensor. A mapping is a tree whose
trunk is shared by all layers; a split gives each of them a branch of its own. Two layers fused over rows of the second:

    Storage 0 [all tensors]                  level 0, the outermost, holds everything
    Loop P2, tile 2                          shared: cuts the last layer; the first one's tiles follow
    Storage 1 [F2]                           from here on the intermediate is held in level 1
    Split (sequential)
        Loop ... Compute E1                  branch of the first layer
        Loop ... Compute E2                  branch of the second
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fadiff_mapper.fusion.looptree.affine import Affine


@dataclass(frozen=True)
class Access:
    """A layer's use of a tensor.

    Attributes:
        tensor: name of the tensor, common to all layers that use it.
        axes: per axis of the tensor, its index as an affine expression of the layer's ranks.
        written: True if the layer writes the tensor (and reads its partial sums back).
    """

    tensor: str
    axes: tuple[Affine, ...]
    written: bool


@dataclass(frozen=True)
class Einsum:
    """A layer.

    Attributes:
        name: name of the layer.
        ranks: the values of each of its dimensions; rank names are unique over the whole chain.
        accesses: its tensors; exactly one is written.
    """

    name: str
    ranks: Mapping[str, range]
    accesses: tuple[Access, ...]

    @property
    def reads(self) -> tuple[Access, ...]:
        """The tensors that the layer reads only."""
        return tuple(access for access in self.accesses if not access.written)

    @property
    def writes(self) -> tuple[Access, ...]:
        """The tensor that the layer writes."""
        return tuple(access for access in self.accesses if access.written)

    def access(self, tensor: str) -> Access | None:
        """The layer's use of a tensor; None where it does not use it."""
        return next((access for access in self.accesses if access.tensor == tensor), None)


@dataclass(frozen=True)
class Chain:
    """Layers that hand tensors to one another.

    Attributes:
        einsums: the layers in the order of the input. A tensor that one layer writes and another reads ties them
            together.
    """

    einsums: tuple[Einsum, ...]

    def einsum(self, name: str) -> Einsum:
        """A layer by its name."""
        return next(einsum for einsum in self.einsums if einsum.name == name)

    def writer(self, tensor: str) -> Einsum | None:
        """The layer that writes a tensor; None for inputs of the chain."""
        return next((einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.writes)), None)

    def readers(self, tensor: str) -> tuple[Einsum, ...]:
        """The layers that read a tensor."""
        return tuple(einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.reads))

    def tensors(self) -> tuple[str, ...]:
        """All tensors, in the order of their first use."""
        return tuple(dict.fromkeys(access.tensor for einsum in self.einsums for access in einsum.accesses))


@dataclass(frozen=True)
class Storage:
    """A storage node: from here on, tensors are held in a level.

    Attributes:
        level: index of the level; 0 is the outermost, unlike in the rest of the package.
        tensors: names of the tensors.
    """

    level: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """A loop over tiles of a rank.

    Attributes:
        rank: a rank of the layer below, or above a split of the last layer below.
        tile: points per tile; the last tile may be smaller.
        spatial: True if the tiles run side by side, False if one after the other.
    """

    rank: str
    tile: int
    spatial: bool


@dataclass(frozen=True)
class Compute:
    """The end of a branch: all operations of one layer that are left at this point, in one step.

    Attributes:
        einsum: name of the layer.
        level: index of the arithmetic, the last component.
    """

    einsum: str
    level: int


@dataclass(frozen=True)
class Split:
    """The end of a trunk: one branch per layer or group of layers.

    Attributes:
        pipelined: True if the branches run as stages of a pipeline, False if one after the other.
        branches: the nodes of each branch.
    """

    pipelined: bool
    branches: tuple[tuple[TreeNode, ...], ...]


TreeNode: TypeAlias = Storage | Loop | Compute | Split
Path: TypeAlias = tuple[TreeNode, ...]
"""The nodes from the root to one `Compute`; a `Split` on it stands for its own step."""


def paths(nodes: tuple[TreeNode, ...]) -> Iterator[Path]:
    """Every path from the root to a leaf.

    Args:
        nodes: a branch, whose last node is a split or a compute node.

    Yields:
        Paths in the order of the branches.
    """
    *trunk, last = nodes
    if isinstance(last, Split):
        for branch in last.branches:
            for rest in paths(branch):
                yield (*trunk, last, *rest)
    else:
        yield nodes


def leaf(path: Path) -> Compute:
    """The compute node at the end of a path."""
    last = path[-1]
    assert isinstance(last, Compute)
    return last


def layers_below(nodes: tuple[TreeNode, ...]) -> tuple[str, ...]:
    """Names of the layers that run below these nodes, in the order of the branches."""
    return tuple(leaf(path).einsum for path in paths(nodes))
