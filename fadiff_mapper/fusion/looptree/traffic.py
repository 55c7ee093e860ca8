"""Accesses of every level of a fused mapping: what moves between storage nodes, counted as reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.fusion.looptree.boxes import all_rows, box_of
from fadiff_mapper.fusion.looptree.chain import Chain, Path, Split, Storage, TreeNode, layers_below, leaf, paths
from fadiff_mapper.fusion.looptree.occupancy import Movement, axes_of, held, movement, outer_axes
from fadiff_mapper.fusion.looptree.tiling import Tiling, tensor_box, words


@dataclass(frozen=True)
class StoredPlace:
    """A tensor in a level, as one layer uses it."""

    level: int
    tensor: str
    einsum: str


@dataclass(frozen=True)
class LevelAccesses:
    """Words read and written over the whole run."""

    reads: int = 0
    writes: int = 0


def stored_places(path: Path, chain: Chain) -> list[StoredPlace]:
    """The storage nodes of the tensors that the path's layer uses, outermost first."""
    einsum = chain.einsum(leaf(path).einsum)
    return [StoredPlace(node.level, tensor, einsum.name) for node in path if isinstance(node, Storage)
            for tensor in node.tensors if einsum.access(tensor)]


def movements(chain: Chain, nodes: tuple[TreeNode, ...], tiles: Mapping[str, Tiling]) -> dict[StoredPlace, Movement]:
    """What every storage node, and the arithmetic, moves for each layer."""
    result = {}
    for path in paths(nodes):
        einsum, compute = chain.einsum(leaf(path).einsum), leaf(path).level
        tile, axes = tiles[einsum.name], axes_of(path)
        for access in einsum.accesses:
            grid = tensor_box(chain, access.tensor)
            word = grid.encode(words(access, einsum, tile.operations))
            for place in stored_places(path, chain):
                if place.tensor == access.tensor:
                    occupancy = held(axes, outer_axes(path, place.level, place.tensor), tile.steps, word, grid.points)
                    result[place] = movement(occupancy, place.level)
            all_steps = held(axes, range(len(axes)), tile.steps, word, grid.points)
            result[StoredPlace(compute, access.tensor, einsum.name)] = movement(all_steps, compute, reuse=False)
    return result


def accesses(chain: Chain, nodes: tuple[TreeNode, ...], moved: Mapping[StoredPlace, Movement]) -> dict[StoredPlace,
                                                                                                       LevelAccesses]:
    """Reads and writes at every storage node.

    A fill is a read of the parent and a write here. What a layer writes is also read and written back where it
    comes as a partial sum; the first time there is nothing to read yet, which is left out once per word of the
    tensor. The outermost node of a tensor has no parent.
    """
    found: dict[StoredPlace, LevelAccesses] = {}

    def add(place: StoredPlace, reads: int, writes: int) -> None:
        before = found.get(place, LevelAccesses())
        found[place] = LevelAccesses(before.reads + reads, before.writes + writes)

    for path in paths(nodes):
        einsum = chain.einsum(leaf(path).einsum)
        places = stored_places(path, chain)
        for access in einsum.accesses:
            own = [place for place in places if place.tensor == access.tensor]
            first_reads = volume(chain, access.tensor) if access.written else 0
            compute = StoredPlace(leaf(path).level, access.tensor, einsum.name)
            for place in own:
                add(place, moved[place].peer_reads, 0)
            for parent, place in zip(own, [*own[1:], compute], strict=True):
                sent = moved[place].parent_reads
                add(parent, sent - first_reads, sent if access.written else 0)
                if place is not compute:
                    add(place, 0, moved[place].fills - first_reads)
    return found


def volume(chain: Chain, tensor: str) -> int:
    """Words of a tensor that are in use: written by its writer and, where somebody reads it, read by one."""
    grid = tensor_box(chain, tensor)

    def touched(name: str) -> np.ndarray:
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


def peak_words(nodes: tuple[TreeNode, ...], moved: Mapping[StoredPlace, Movement]) -> dict[int, int]:
    """Words that every level must hold, with each tensor at its largest.

    A tensor that several layers use counts once, with the largest of them. Branches that run one after the other
    need the largest of what each needs, stages of a pipeline the sum.
    """
    need: dict[int, int] = {}
    for node in nodes:
        if isinstance(node, Storage):
            for tensor in node.tensors:
                used = [moved[place].peak for einsum in layers_below(nodes)
                        if (place := StoredPlace(node.level, tensor, einsum)) in moved]
                need[node.level] = need.get(node.level, 0) + max(used, default=0)
        elif isinstance(node, Split):
            below = [peak_words(branch, moved) for branch in node.branches]
            for level in {level for part in below for level in part}:
                parts = [part.get(level, 0) for part in below]
                need[level] = need.get(level, 0) + (sum(parts) if node.pipelined else max(parts))
    return need
