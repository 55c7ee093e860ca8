"""Several layers that hand tensors to one another, and the tree of loops that runs them: LoopTree's terms.

A layer is an Einsum: a box of operations, each of which touches one word of every tensor. A mapping is a tree
whose trunk is shared by all layers; a split gives each of them a branch of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from fadiff_mapper.fusion.looptree.affine import Affine


@dataclass(frozen=True)
class Access:
    """How the operations of a layer index a tensor: one affine expression per axis."""

    tensor: str
    axes: tuple[Affine, ...]
    written: bool


@dataclass(frozen=True)
class Einsum:
    """One layer. `ranks` holds the values of each of its dimensions."""

    name: str
    ranks: Mapping[str, range]
    accesses: tuple[Access, ...]

    @property
    def reads(self) -> tuple[Access, ...]:
        return tuple(access for access in self.accesses if not access.written)

    @property
    def writes(self) -> tuple[Access, ...]:
        return tuple(access for access in self.accesses if access.written)

    def access(self, tensor: str) -> Access | None:
        """How this layer uses a tensor; None where it does not."""
        return next((access for access in self.accesses if access.tensor == tensor), None)


@dataclass(frozen=True)
class Chain:
    """The layers in the order of the input. A tensor that one writes and another reads ties them together."""

    einsums: tuple[Einsum, ...]

    def einsum(self, name: str) -> Einsum:
        return next(einsum for einsum in self.einsums if einsum.name == name)

    def writer(self, tensor: str) -> Einsum | None:
        return next((einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.writes)), None)

    def readers(self, tensor: str) -> tuple[Einsum, ...]:
        return tuple(einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.reads))

    def tensors(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(access.tensor for einsum in self.einsums for access in einsum.accesses))


@dataclass(frozen=True)
class Storage:
    """From here on `tensors` are held in a level (0 is the outermost)."""

    level: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """Cuts a rank into tiles of `tile` points, run one after the other or side by side."""

    rank: str
    tile: int
    spatial: bool


@dataclass(frozen=True)
class Compute:
    """The end of a branch: the operations of one layer on one unit."""

    einsum: str
    level: int


@dataclass(frozen=True)
class Split:
    """One branch per layer or group of layers, run one after the other or as stages of a pipeline."""

    pipelined: bool
    branches: tuple[tuple[TreeNode, ...], ...]


TreeNode: TypeAlias = Storage | Loop | Compute | Split
Path: TypeAlias = tuple[TreeNode, ...]
"""The nodes from the root to one `Compute`; a `Split` on it stands for its own step."""


def paths(nodes: tuple[TreeNode, ...]) -> Iterator[Path]:
    """Every way from the root to a leaf, in the order of the branches."""
    *trunk, last = nodes
    if isinstance(last, Split):
        for branch in last.branches:
            for rest in paths(branch):
                yield (*trunk, last, *rest)
    else:
        yield nodes


def leaf(path: Path) -> Compute:
    """The end of a path."""
    last = path[-1]
    assert isinstance(last, Compute)
    return last


def layers_below(nodes: tuple[TreeNode, ...]) -> tuple[str, ...]:
    """Names of the layers that run below these nodes."""
    return tuple(leaf(path).einsum for path in paths(nodes))
