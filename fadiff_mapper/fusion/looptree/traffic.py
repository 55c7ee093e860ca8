"""Accesses of every level of a fused mapping: words that move between storage nodes, counted as reads and writes.

LoopTree's rules. A fill of a node is a read of its parent, the nearest node of the same tensor further out. An output
is written to the parent as often as it is read from there; the first reads of its words, for which there is nothing to
read yet, are left out, one volume of the tensor per node (also where a level holds several partial copies). Draining an
output to the parent is no read of the node that it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.fusion.looptree.boxes import all_rows, box_of
from fadiff_mapper.fusion.looptree.chain import Chain, Path, Split, Storage, TreeNode, layers_below, leaf, paths
from fadiff_mapper.fusion.looptree.occupancy import Movement, axes_of, held, movement, outer_axes
from fadiff_mapper.fusion.looptree.tiling import Tiling, tensor_box, words


@dataclass(frozen=True)
class StorageNode:
    """A tensor in a level, as one layer uses it.

    Attributes:
        level: index of the level, outermost first.
        tensor: name of the tensor.
        einsum: name of the layer.
    """

    level: int
    tensor: str
    einsum: str


@dataclass(frozen=True)
class LevelAccesses:
    """Words read and written at a storage node over the whole run."""

    reads: int = 0
    writes: int = 0


def storage_nodes(path: Path, chain: Chain) -> list[StorageNode]:
    """The storage nodes on a path of the tensors that its layer uses, outermost first."""
    einsum = chain.einsum(leaf(path).einsum)
    return [StorageNode(node.level, tensor, einsum.name) for node in path if isinstance(node, Storage)
            for tensor in node.tensors if einsum.access(tensor)]


def movements(chain: Chain, nodes: tuple[TreeNode, ...], tiles: Mapping[str, Tiling]) -> dict[StorageNode, Movement]:
    """Words held and moved by every storage node, and by the arithmetic, for each layer.

    Args:
        chain: the layers.
        nodes: the mapping tree.
        tiles: the layers' operations with their steps (`tiling.tilings`).

    Returns:
        A movement for each storage node of each layer's tensors; the arithmetic counts as the last level.
    """
    result = {}
    for path in paths(nodes):
        einsum, compute = chain.einsum(leaf(path).einsum), leaf(path).level
        tile, axes = tiles[einsum.name], axes_of(path)
        for access in einsum.accesses:
            grid = tensor_box(chain, access.tensor)
            word = grid.encode(words(access, einsum, tile.operations))
            for storage in storage_nodes(path, chain):
                if storage.tensor == access.tensor:
                    outer = outer_axes(path, storage.level, storage.tensor)
                    occupancy = held(axes, outer, tile.steps, word, grid.points)
                    result[storage] = movement(occupancy, storage.level)
            all_steps = held(axes, range(len(axes)), tile.steps, word, grid.points)
            result[StorageNode(compute, access.tensor, einsum.name)] = movement(all_steps, compute, reuse=False)
    return result


def accesses(chain: Chain, nodes: tuple[TreeNode, ...], moved: Mapping[StorageNode, Movement]) -> dict[StorageNode,
                                                                                                       LevelAccesses]:
    """Reads and writes at every storage node.

    Args:
        chain: the layers.
        nodes: the mapping tree.
        moved: words moved at each node (`movements`).

    Returns:
        Words over the whole run. A fill is a read of the parent and a write at the node. A tensor that a layer writes
        is also written back to the parent, and read from there where it comes as a partial sum; the first reads are
        left out, once per word of the tensor. The outermost node of a tensor has no parent.
    """
    counted: dict[StorageNode, LevelAccesses] = {}

    def add(storage: StorageNode, reads: int, writes: int) -> None:
        """Counts accesses of a storage node."""
        before = counted.get(storage, LevelAccesses())
        counted[storage] = LevelAccesses(before.reads + reads, before.writes + writes)

    for path in paths(nodes):
        einsum = chain.einsum(leaf(path).einsum)
        storages = storage_nodes(path, chain)
        for access in einsum.accesses:
            own = [storage for storage in storages if storage.tensor == access.tensor]
            first_reads = volume(chain, access.tensor) if access.written else 0
            compute = StorageNode(leaf(path).level, access.tensor, einsum.name)
            for storage in own:
                add(storage, moved[storage].peer_reads, 0)
            for parent, storage in zip(own, [*own[1:], compute], strict=True):
                sent = moved[storage].parent_reads
                add(parent, sent - first_reads, sent if access.written else 0)
                if storage is not compute:
                    add(storage, 0, moved[storage].fills - first_reads)
    return counted


def volume(chain: Chain, tensor: str) -> int:
    """Words of a tensor that are in use: made by its writer, if it has one, and read by a reader, if it has any."""
    grid = tensor_box(chain, tensor)

    def touched(name: str) -> np.ndarray:
        """Codes of the words that a layer touches, each once."""
        einsum = chain.einsum(name)
        access = einsum.access(tensor)
        assert access is not None
        every = all_rows(box_of(list(einsum.ranks.values())), f"the layer {name}")
        return np.unique(grid.encode(words(access, einsum, every)))

    writer, readers = chain.writer(tensor), chain.readers(tensor)
    read = np.unique(np.concatenate([touched(reader.name) for reader in readers])) if readers else None
    if writer is None:
        return 0 if read is None else len(read)
    made = touched(writer.name)
    return len(made) if read is None else len(np.intersect1d(made, read, assume_unique=True))


def peak_words(nodes: tuple[TreeNode, ...], moved: Mapping[StorageNode, Movement]) -> dict[int, int]:
    """Words that every level must hold, with each tensor at its largest.

    Args:
        nodes: the mapping tree, or a branch of it.
        moved: words held at each storage node (`movements`).

    Returns:
        Level -> words. A tensor that several layers use counts once, with its largest occupancy. Branches that run one
        after the other need the largest of their needs, stages of a pipeline the sum.
    """
    need: dict[int, int] = {}
    for node in nodes:
        if isinstance(node, Storage):
            for tensor in node.tensors:
                used = [moved[storage].peak for einsum in layers_below(nodes)
                        if (storage := StorageNode(node.level, tensor, einsum)) in moved]
                need[node.level] = need.get(node.level, 0) + max(used, default=0)
        elif isinstance(node, Split):
            below = [peak_words(branch, moved) for branch in node.branches]
            for level in {level for part in below for level in part}:
                parts = [part.get(level, 0) for part in below]
                need[level] = need.get(level, 0) + (sum(parts) if node.pipelined else max(parts))
    return need
