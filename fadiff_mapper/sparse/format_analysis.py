"""Whether a mapping suits the formats of the levels, and the fiber trees that follow, with Timeloop's rejections."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.sparse.complete_nest import CompleteNest, Ranks
from fadiff_mapper.sparse.fiber_tree import FiberTree, TileLoops, TooFewRanks, fiber_tree
from fadiff_mapper.sparse.stored_tiles import Column, StoredTile, plain_column
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.sparse_optimizations import Representation, SparseOptimizations


def check_formats(arch: Architecture, problem: Problem, sparse: SparseOptimizations, mapping: Mapping) -> None:
    """Timeloop's first check: whether levels can do the (de)compression that formats on both sides ask for.

    Raises:
        InvalidMapping: A level would have to compress or decompress and cannot, or its parent has too few ranks.
    """
    if not sparse.formatted:
        return
    for space in problem.dataspaces:
        kept = [level for level in reversed(range(len(arch.levels))) if space.name in mapping.levels[level].keep]
        for outer, inner in pairwise(kept):
            parent = sparse.levels[outer].formats.get(space.name)
            own = sparse.levels[inner].formats.get(space.name)
            _check_pair(arch, outer, inner, _ranks(parent), _ranks(own), written=space.read_write)


def _ranks(representation: Representation | None) -> int:
    """Ranks of a compressed format; 0 for plain data and formats that keep zeros."""
    return len(representation.ranks) if representation and representation.compressed else 0


def _check_pair(arch: Architecture, outer: int, inner: int, parent: int, own: int, *, written: bool) -> None:
    level = arch.levels[inner]
    if parent and not own and not level.decompresses:
        raise InvalidMapping(level.name, "decompression (from parent level) needed but not supported")
    if written and parent and not own and not level.compresses:
        raise InvalidMapping(level.name, "compression (to parent level) needed but not supported")
    if own and parent < own and parent:
        raise InvalidMapping(arch.levels[outer].name,
                             "runtime partition needed but not supported (NOT IMPLEMENTED YET)")


def stored_columns(arch: Architecture, problem: Problem, sparse: SparseOptimizations, mapping: Mapping,
                   nest: CompleteNest) -> list[Column]:
    """The tiles of every data space, with fiber trees where some level has a format.

    Args:
        arch: The architecture.
        problem: The layer.
        sparse: The formats.
        mapping: A mapping that passes `check_formats`.
        nest: All its loops.

    Returns:
        One column per data space.

    Raises:
        InvalidMapping: The loops of a tile do not fit the ranks of its format.
    """
    index = {name: i for i, name in enumerate(problem.dimensions)}
    columns = []
    for space in problem.dataspaces:
        ranks: Ranks = tuple(tuple((index[term.dimension], term.coefficient) for term in rank) for rank in space.ranks)
        kept = [level for level in range(len(arch.levels)) if space.name in mapping.levels[level].keep]
        representations = {level: options.formats[space.name] for level, options in enumerate(sparse.levels)
                           if space.name in options.formats}
        column = plain_column(kept, nest, ranks, representations)
        columns.append(_with_trees(arch, problem, space.name, column, nest, ranks) if sparse.formatted else column)
    return columns


def _with_trees(arch: Architecture, problem: Problem, name: str, column: Column, nest: CompleteNest,
                ranks: Ranks) -> Column:
    result: Column = {}
    for level, tile in column.items():
        child = None if tile.child is None else result[tile.child]
        tiled_by = _pretiling_child(arch, name, level, tile, child)
        source = TileLoops(nest, ranks, level, tile.child, problem.dimensions)
        try:
            result[level] = replace(tile, tree=fiber_tree(source, tile.representation, tiled_by))
        except TooFewRanks:
            raise InvalidMapping(arch.levels[level].name, "more compression ranks needed than supported in hardware. "
                                 f"dataspace name: {name}") from None
    return result


def _pretiling_child(arch: Architecture, name: str, level: int, tile: StoredTile,
                     child: StoredTile | None) -> FiberTree | None:
    """The child's tree where a compressed tile must consist of its child's tiles; None where it need not.

    Raises:
        InvalidMapping: The formats of the inner ranks are not those of the child.
    """
    if not tile.compressed or child is None or tile.child is None or child.words <= 1:
        return None
    assert tile.representation is not None and child.tree is not None
    own = [rank.kind for rank in tile.representation.ranks]
    inner = [rank.kind for rank in child.representation.ranks] if child.representation else [""]
    if len(inner) > len(own) or (child.compressed and inner != own[:len(inner)]):
        raise InvalidMapping(arch.levels[level].name,
                             f"pretiling for {name}required but level compression format does not align: "
                             f"{arch.levels[level].name} {arch.levels[tile.child].name}")
    return child.tree
