"""The loops and storage of a fused group as LoopTree's tree: a trunk of shared loops, and one branch per layer.

A storage node of LoopTree keeps the words that two steps of the loop right above it share, and all words that the loops
below it need. In the trunk a tensor's node therefore stands right below the outermost loop along which its words
survive (`Stay.across`). Inside a branch all spatial loops stand directly above the arithmetic, where LoopTree
multicasts and reduces over them; the instances of a level are therefore one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fadiff_mapper.fusion.fused_group import FusedGroup, Hardware, Shape, Stay, TileLoop
from fadiff_mapper.fusion.tile_evaluation import fused_mapping
from fadiff_mapper.fusion.tile_steps import layer_steps, step_classes
from fadiff_mapper.output.looptree_files.einsums import einsum_name, rank_name, tensor_name
from fadiff_mapper.spec.mapping import Mapping


@dataclass(frozen=True)
class Kept:
    """A storage node of a branch.

    Attributes:
        target: The level, counted from 0, the outermost one that stores anything (LoopTree's `target`).
        spaces: Names of the layer's data spaces that the node keeps.
    """

    target: int
    spaces: tuple[str, ...]


@dataclass(frozen=True)
class TreeLoop:
    """A loop of a branch.

    Attributes:
        dim: Dimension of the layer.
        tile: Points of the dimension in one iteration (LoopTree's `tile_shape`).
        spatial: Whether the iterations run side by side.
    """

    dim: str
    tile: int
    spatial: bool


Branch: TypeAlias = tuple[Kept | TreeLoop, ...]
"""The nest of one layer's tile below the shared loops, outermost node first."""


def stored_levels(hardware: Hardware) -> list[int]:
    """Indices of the levels that store anything, outermost first: the level with `target` t is entry t.

    Levels that stand for a fan-out alone hold no words and have no node in the tree.
    """
    levels = hardware.arch.levels
    return [index for index in reversed(range(len(levels))) if not levels[index].is_dummy]


def depth(loops: Sequence[TileLoop], stay: Stay) -> int:
    """How many of the shared loops stand above the node of a resident tensor.

    Args:
        loops: The shared loops, outermost first.
        stay: The tensor's residency.

    Returns:
        One more than the index of the outermost loop along which words are kept; all loops where none keeps any.
    """
    keeping = [index for index, loop in enumerate(loops) if loop.dim in stay.across]
    return keeping[0] + 1 if keeping else len(loops)


def looptree_mapping(group: FusedGroup, hardware: Hardware) -> dict[str, Any]:
    """The section `mapping` of LoopTree's input: the tree of a group.

    Args:
        group: A group for which `beyond_looptree` finds no reason against a tree.
        hardware: The architecture, whose levels the nodes name by number.

    Returns:
        Nodes of the trunk, outermost first, and last a `sequential` node with a branch per layer. The outermost level
        keeps the tensors that come from outside the group or leave it.
    """
    loops, count = group.loops, len(group.layers)
    trunk = _trunk(group, hardware)
    nodes = [_stored(0, _outside(group))]
    for loops_above in range(len(loops) + 1):
        for target in sorted({target for above, target, _ in trunk if above == loops_above}):
            nodes.append(_stored(target, [name for *at, name in trunk if at == [loops_above, target]]))
        nodes += [_loop(loop.dim, count - 1, loop.tile, False) for loop in loops[loops_above:loops_above + 1]]
    branches = [_branch_nodes(group, hardware, index) for index in range(count)]
    nodes += branches[0] if count == 1 else [{"type": "sequential", "branches": branches}]
    return {"type": "fused", "nodes": nodes}


def _outside(group: FusedGroup) -> list[str]:
    """Tensors that come from outside the group or leave it."""
    inner = {tensor_name(group, index, link.tensor) for index, link in enumerate(group.links, 1)}
    names = [tensor_name(group, index, space.name) for index, layer in enumerate(group.layers)
             for space in layer.problem.dataspaces]
    return [name for name in names if name not in inner]


def _trunk(group: FusedGroup, hardware: Hardware) -> list[tuple[int, int, str]]:
    """(loops above, target, tensor) of every tensor that survives a step of the shared loops.

    Sums to which later steps add survive as well, at every level inside the outermost one that keeps them.
    """
    loops, targets = group.loops, stored_levels(hardware)
    entries = []
    for index in range(len(group.layers)):
        for space, stay in trunk_stays(group, index).items():
            if not (index and space == group.links[index - 1].tensor):      # an intermediate is its writer's
                entries.append((depth(loops, stay), home_target(hardware, stay), tensor_name(group, index, space)))
    sums = [index for index, loop in enumerate(loops) if adds(group, loop)]
    if sums and not group.spilled:
        output = group.layers[-1].problem.output.name
        held = fused_mapping(hardware, group, len(group.layers) - 1, _any_mapping(group))
        entries += [(sums[0], target, tensor_name(group, len(group.layers) - 1, output))
                    for target, level in enumerate(targets) if target and output in held.levels[level].keep]
    return entries


def home_target(hardware: Hardware, stay: Stay) -> int:
    """LoopTree's `target` of the home level in which a tensor stays."""
    level = hardware.level(stay.level)
    assert level is not None      # a legal group names levels of its hardware
    return stored_levels(hardware).index(level)


def trunk_stays(group: FusedGroup, index: int) -> dict[str, Stay]:
    """Data spaces of a layer that survive a step, with their residency: operands, and intermediates on both sides.

    Args:
        group: The fused group.
        index: The layer, counted from 0.
    """
    stays = dict(group.layers[index].operands)
    if index:
        stays[group.links[index - 1].tensor] = group.links[index - 1].stay
    if index < len(group.links):
        stays[group.layers[index].problem.output.name] = group.links[index].stay
    return stays


def adds(group: FusedGroup, loop: TileLoop) -> bool:
    """Whether the steps of a shared loop add to the same outputs: the loop runs over a reduced dimension."""
    return loop.dim not in group.layers[-1].problem.output.dimensions


def _any_mapping(group: FusedGroup) -> Mapping:
    """A mapping of the last layer: the levels in which it keeps unfinished sums stand for those of all its tiles."""
    return next(iter(group.layers[-1].mappings.values()))


def branches_by_shape(group: FusedGroup, hardware: Hardware, index: int) -> dict[Shape, Branch]:
    """The loop nest of every tile of a layer, the largest tile first.

    Args:
        group: A legal group.
        hardware: The architecture.
        index: The layer, counted from 0.

    Returns:
        Extents of a tile, in the order of the layer's dimensions -> the nest of its mapping.
    """
    layer = group.layers[index]
    shapes = {step.shape for step in step_classes(group, layer, layer_steps(group)[index])}
    ordered = sorted(shapes, key=lambda shape: (sum(shape), shape), reverse=True)
    return {shape: _branch(group, hardware, index, shape) for shape in ordered}


def _branch(group: FusedGroup, hardware: Hardware, index: int, shape: Shape) -> Branch:
    """The nest of one tile: storage and temporal loops level by level, then one spatial loop per dimension.

    `above`: the innermost target at which the trunk has a tensor already; the branch keeps it further in only.
    """
    layer, targets = group.layers[index], stored_levels(hardware)
    mapping = fused_mapping(hardware, group, index, layer.mappings[shape])
    above = {space: home_target(hardware, stay) for space, stay in trunk_stays(group, index).items()}
    if index == len(group.layers) - 1 and not group.spilled and any(adds(group, loop) for loop in group.loops):
        above[layer.problem.output.name] = len(targets)
    left = dict(zip(layer.problem.dimensions, shape, strict=True))
    nodes: list[Kept | TreeLoop] = []
    for index_of_level, level in reversed(list(enumerate(mapping.levels))):
        target = targets.index(index_of_level) if index_of_level in targets else 0
        if target:      # the outermost level has its node at the root
            kept = tuple(space for space in layer.problem.dataspace_names()
                         if space in level.keep and target > above.get(space, 0))
            nodes += [Kept(target, kept)] if kept else []
        nodes += _cuts(((dim, level.temporal[dim]) for dim in reversed(level.order)), left, spatial=False)
    side_by_side = [(dim, level.spatial[dim]) for level in reversed(mapping.levels)
                    for dim in reversed(level.spatial_order)]
    return (*nodes, *_cuts(_merged(side_by_side), left, spatial=True))


def _cuts(factors: Iterable[tuple[str, int]], left: dict[str, int], *, spatial: bool) -> list[TreeLoop]:
    """Loops with these factors, outermost first; `left`, the points inside them of every dimension, is updated."""
    loops = []
    for dim, factor in factors:
        if factor > 1:
            left[dim] //= factor
            loops.append(TreeLoop(dim, left[dim], spatial))
    return loops


def _merged(factors: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """The product of a dimension's factors, dimensions in the order of their first one."""
    products: dict[str, int] = {}
    for dim, factor in factors:
        products[dim] = products.get(dim, 1) * factor
    return list(products.items())


def _branch_nodes(group: FusedGroup, hardware: Hardware, index: int) -> list[dict[str, Any]]:
    """A layer's branch in LoopTree's words: the nest of its largest tile, and the arithmetic below it."""
    branch = next(iter(branches_by_shape(group, hardware, index).values()))
    nodes = [_stored(node.target, [tensor_name(group, index, space) for space in node.spaces])
             if isinstance(node, Kept) else _loop(node.dim, index, node.tile, node.spatial) for node in branch]
    return [*nodes, {"type": "compute", "einsum": einsum_name(index), "target": len(stored_levels(hardware))}]


def _stored(target: int, tensors: Sequence[str]) -> dict[str, Any]:
    return {"type": "storage", "target": target, "dspace": list(tensors)}


def _loop(dim: str, index: int, tile: int, spatial: bool) -> dict[str, Any]:
    return {"type": "spatial" if spatial else "temporal", "rank": rank_name(dim, index), "tile_shape": tile}
