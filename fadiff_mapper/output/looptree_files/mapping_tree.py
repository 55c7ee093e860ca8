"""The loops and storage of a fused group as LoopTree's tree: a trunk of shared loops, and one branch per layer.

In the trunk a tensor's storage node stands right below the outermost loop along which its words survive: LoopTree keeps
what two steps of the loop above a node share, and everything that the loops below it need. Inside a branch all spatial
loops stand directly above the arithmetic, where LoopTree multicasts and reduces over them; the instances of a level
are therefore one unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, Hardware, Shape, Stay, TileLoop
from fadiff_mapper.fusion.groups.step_evaluation import fused_mapping
from fadiff_mapper.fusion.groups.tile_steps import layer_steps, step_classes
from fadiff_mapper.output.looptree_files.einsums import einsum_name, rank_name, tensor_name
from fadiff_mapper.spec.mapping import Mapping


@dataclass(frozen=True)
class Kept:
    """A storage node: the level counted from the outermost one that stores anything, and data spaces of the layer."""

    target: int
    spaces: tuple[str, ...]


@dataclass(frozen=True)
class TreeLoop:
    """A loop over a dimension of the layer, in tiles of `tile` points."""

    dim: str
    tile: int
    spatial: bool


Branch: TypeAlias = tuple[Kept | TreeLoop, ...]


def stored_levels(hardware: Hardware) -> list[int]:
    """The levels that store anything, outermost first; `target` counts them from 0."""
    levels = hardware.arch.levels
    return [k for k in reversed(range(len(levels))) if not levels[k].is_dummy]


def depth(loops: Sequence[TileLoop], stay: Stay) -> int:
    """How many of the loops stand above the node of a tensor that stays."""
    along = [place for place, loop in enumerate(loops) if loop.dim in stay.across]
    return along[0] + 1 if along else len(loops)


def looptree_mapping(group: FusedGroup, hardware: Hardware) -> dict[str, Any]:
    """The tree of a group that LoopTree can express."""
    loops, count = group.loops, len(group.layers)
    trunk = _trunk(group, hardware)
    nodes = [_stored(0, _outside(group))]
    for place in range(len(loops) + 1):
        for target in sorted({target for where, target, _ in trunk if where == place}):
            nodes.append(_stored(target, [name for *at, name in trunk if at == [place, target]]))
        nodes += [_loop(loop.dim, count - 1, loop.tile, False) for loop in loops[place:place + 1]]
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
    """(loops above, target, tensor) of everything that stands above the branches."""
    loops, targets = group.loops, stored_levels(hardware)
    found = []
    for index in range(len(group.layers)):
        for space, stay in trunk_stays(group, index).items():
            home = targets.index(hardware.arch.level_names().index(stay.level))
            if not (index and space == group.links[index - 1].tensor):
                found.append((depth(loops, stay), home, tensor_name(group, index, space)))
    sums = [place for place, loop in enumerate(loops) if adds(group, loop)]
    if sums and not group.spilled:
        output = group.layers[-1].problem.output.name
        held = fused_mapping(hardware, group, len(group.layers) - 1, _any_mapping(group))
        found += [(sums[0], target, tensor_name(group, len(group.layers) - 1, output))
                  for target, level in enumerate(targets) if target and output in held.levels[level].keep]
    return found


def trunk_stays(group: FusedGroup, index: int) -> dict[str, Stay]:
    """Data spaces of a layer that survive a step, and how."""
    stays = dict(group.layers[index].operands)
    if index:
        stays[group.links[index - 1].tensor] = group.links[index - 1].stay
    if index < len(group.links):
        stays[group.layers[index].problem.output.name] = group.links[index].stay
    return stays


def adds(group: FusedGroup, loop: TileLoop) -> bool:
    """Whether the steps of a shared loop add to the same outputs."""
    return loop.dim not in group.layers[-1].problem.output.dimensions


def _any_mapping(group: FusedGroup) -> Mapping:
    return next(iter(group.layers[-1].mappings.values()))


def branches_by_shape(group: FusedGroup, hardware: Hardware, index: int) -> dict[Shape, Branch]:
    """The loop nest of every tile of a layer, the largest tile first."""
    layer = group.layers[index]
    shapes = {kind.shape for kind in step_classes(group, layer, layer_steps(group)[index])}
    ordered = sorted(shapes, key=lambda shape: (sum(shape), shape), reverse=True)
    return {shape: _branch(group, hardware, index, shape) for shape in ordered}


def _branch(group: FusedGroup, hardware: Hardware, index: int, shape: Shape) -> Branch:
    layer, targets = group.layers[index], stored_levels(hardware)
    mapping = fused_mapping(hardware, group, index, layer.mappings[shape])
    above = {space: targets.index(hardware.arch.level_names().index(stay.level))
             for space, stay in trunk_stays(group, index).items()}
    if index == len(group.layers) - 1 and not group.spilled and any(adds(group, loop) for loop in group.loops):
        above[layer.problem.output.name] = len(targets)
    left = dict(zip(layer.problem.dimensions, shape, strict=True))
    nodes: list[Kept | TreeLoop] = []
    for k in reversed(range(len(mapping.levels))):
        level = mapping.levels[k]
        if k in targets and targets.index(k):
            kept = tuple(space for space in layer.problem.dataspace_names()
                         if space in level.keep and targets.index(k) > above.get(space, 0))
            nodes += [Kept(targets.index(k), kept)] if kept else []
        nodes += _cuts(((dim, level.temporal[dim]) for dim in reversed(level.order)), left, spatial=False)
    side_by_side = [(dim, level.spatial[dim]) for level in reversed(mapping.levels)
                    for dim in reversed(level.spatial_order)]
    return (*nodes, *_cuts(_merged(side_by_side), left, spatial=True))


def _cuts(factors: Iterable[tuple[str, int]], left: dict[str, int], *, spatial: bool) -> list[TreeLoop]:
    """Loops with these factors, outermost first; `left` is what remains of every dimension."""
    found = []
    for dim, factor in factors:
        if factor > 1:
            left[dim] //= factor
            found.append(TreeLoop(dim, left[dim], spatial))
    return found


def _merged(factors: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    """One spatial loop per dimension."""
    whole: dict[str, int] = {}
    for dim, factor in factors:
        whole[dim] = whole.get(dim, 1) * factor
    return list(whole.items())


def _branch_nodes(group: FusedGroup, hardware: Hardware, index: int) -> list[dict[str, Any]]:
    branch = next(iter(branches_by_shape(group, hardware, index).values()))
    nodes = [_stored(node.target, [tensor_name(group, index, space) for space in node.spaces])
             if isinstance(node, Kept) else _loop(node.dim, index, node.tile, node.spatial) for node in branch]
    return [*nodes, {"type": "compute", "einsum": einsum_name(index), "target": len(stored_levels(hardware))}]


def _stored(target: int, tensors: Sequence[str]) -> dict[str, Any]:
    return {"type": "storage", "target": target, "dspace": list(tensors)}


def _loop(dim: str, index: int, tile: int, spatial: bool) -> dict[str, Any]:
    return {"type": "spatial" if spatial else "temporal", "rank": rank_name(dim, index), "tile_shape": tile}
