"""A fused group as an input of LoopTree (`v4fused`): problem, mapping, architecture and energies.

LoopTree, Timeloop's model of fused layers, and `fadiff_validation.looptree.evaluate_fused` run the same input, so that
another program can judge a plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLink, Hardware, Shape, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import fused_mapping
from fadiff_mapper.fusion.tile_steps import LayerSteps, layer_steps, moved_rank, space_of, step_classes, touched_points
from fadiff_mapper.inputs.spec.problem import DataSpace, Term
from fadiff_mapper.inputs.spec.tables import compute_energy, storage_energy
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.inputs.yaml.place import Where

# LoopTree reads one problem per layer and joins them by the names of their tensors: an intermediate has the same name
# in the layer that writes it and in the layer that reads it. Ranks belong to one layer only. Layers are counted from 0
# here and from 1 in LoopTree's names.

def rank_name(dim: str, index: int) -> str:
    """LoopTree's rank for a dimension of layer `index`; LoopTree wants ranks unique over all layers."""
    return f"{dim}_{index + 1}"


def tensor_name(group: FusedGroup, index: int, space: str) -> str:
    """LoopTree's tensor `<space>_<layer>` for a data space; an intermediate has the name of its writer's output."""
    if index and group.links[index - 1].tensor == space:
        return f"{group.layers[index - 1].problem.output.name}_{index}"
    return f"{space}_{index + 1}"


def looptree_problem(group: FusedGroup) -> list[dict[str, Any]]:
    """The section `problem` of LoopTree's input: one Einsum per layer, first to last.

    The group must pass `beyond_looptree`. Each layer has its `shape` (name, dimensions, data spaces with projections)
    and its `instance`: the bounds as constraints of isl, `0 <= rank < bound`.
    """
    def affine(index: int, rank: tuple[Term, ...], zeros: int = 0) -> str:
        terms = [(f"{term.coefficient}*" if term.coefficient != 1 else "") + rank_name(term.dimension, index)
                 for term in rank]
        return " + ".join(terms) + (f" - {zeros}" if zeros else "")

    einsums = []
    for index, problem in enumerate(layer.problem for layer in group.layers):
        spaces = []
        for space in problem.dataspaces:
            # An intermediate has the axes of its reader, from the first point behind the padding; the writer's
            # dimensions are put into this order.
            if index and group.links[index - 1].tensor == space.name:
                link = group.links[index - 1]
                axes = [affine(index, rank, max((link.padding.get(term.dimension, 0) for term in rank), default=0))
                        for rank in space.ranks if handed_on(link, rank)]
            elif index < len(group.links) and space.read_write:
                link, after = group.links[index], group.layers[index + 1].problem
                axes = [rank_name(own, index) for rank in space_of(after, link.tensor).ranks
                        for own in handed_on(link, rank)]
            else:
                axes = [affine(index, rank) for rank in space.ranks]
            name = tensor_name(group, index, space.name)
            spaces.append({"name": name, "dimensions": [f"{name}_{axis}" for axis in range(len(axes))],
                           "projection": f"[ {', '.join(axes)} ]"} | ({"read_write": True} if space.read_write else {}))
        bounds = " and ".join(f"0 <= {rank_name(dim, index)} < {bound}" for dim, bound in problem.bounds.items())
        einsums.append({"shape": {"name": f"E{index + 1}",
                                  "dimensions": [rank_name(dim, index) for dim in problem.dimensions],
                                  "data_spaces": spaces}, "instance": bounds})
    return einsums


def handed_on(link: FusedLink, rank: tuple[Term, ...]) -> list[str]:
    """Dimensions of the writer's output that move a rank of the reader; several if an axis is flattened."""
    moving = {term.dimension for term in rank}
    return [own for own, theirs in link.dims.items() if theirs in moving]


# A storage node of LoopTree keeps the words that two steps of the loop directly above it share, and all words for the
# loops below it. In the trunk a tensor's node is therefore directly below the outermost loop along which its words
# survive (`Stay.across`). Inside a branch all spatial loops are directly above the arithmetic, where LoopTree
# multicasts and reduces over them; so the instances of a level are one unit.

@dataclass(frozen=True)
class Kept:
    """A storage node of a branch."""

    target: int  # level, counted from 0, the outermost storing level
    spaces: tuple[str, ...]  # the layer's data spaces that the node keeps


@dataclass(frozen=True)
class TreeLoop:
    """A loop of a branch."""

    dim: str
    tile: int  # points of the dimension in one iteration (LoopTree's `tile_shape`)
    spatial: bool  # whether the iterations run side by side


Branch: TypeAlias = tuple[Kept | TreeLoop, ...]
"""The nest of one layer's tile below the shared loops, outermost node first."""


def stored_levels(hardware: Hardware) -> list[int]:
    """Indices of the storing levels, outermost first: the level with `target` t is entry t.

    Fan-out-only levels hold no words and have no node in the tree.
    """
    levels = hardware.arch.levels
    return [index for index in reversed(range(len(levels))) if not levels[index].is_dummy]


def home_target(hardware: Hardware, stay: Stay) -> int:
    """LoopTree's `target` of a resident tensor's home level."""
    level = hardware.level(stay.level)
    assert level is not None      # a legal group names levels of its hardware
    return stored_levels(hardware).index(level)


def depth(loops: Sequence[TileLoop], stay: Stay) -> int:
    """The number of shared loops, outermost first, above the node of a resident tensor.

    One more than the index of the outermost loop along which words are kept; all loops if no words are kept.
    """
    return next((index + 1 for index, loop in enumerate(loops) if loop.dim in stay.across), len(loops))


def trunk_stays(group: FusedGroup, index: int) -> dict[str, Stay]:
    """Data spaces of a layer that outlast a step, with their residency: operands, its input and output intermediate."""
    stays = dict(group.layers[index].operands)
    if index:
        stays[group.links[index - 1].tensor] = group.links[index - 1].stay
    if index < len(group.links):
        stays[group.layers[index].problem.output.name] = group.links[index].stay
    return stays


def adds(group: FusedGroup, loop: TileLoop) -> bool:
    """Whether the steps of a shared loop add to the same outputs: the loop runs over a reduced dimension."""
    return loop.dim not in group.layers[-1].problem.output.dimensions


def looptree_mapping(group: FusedGroup, hardware: Hardware) -> dict[str, Any]:
    """The section `mapping` of LoopTree's input: the tree of a group that passes `beyond_looptree`.

    Nodes of the trunk come outermost first, the last is a `sequential` node with a branch per layer. The outermost
    level keeps the tensors that enter the group from outside or leave it.
    """
    def stored(target: int, tensors: list[str]) -> dict[str, Any]:
        return {"type": "storage", "target": target, "dspace": tensors}

    def loop_node(loop: TreeLoop | TileLoop, index: int, spatial: bool = False) -> dict[str, Any]:
        return {"type": "spatial" if spatial else "temporal", "rank": rank_name(loop.dim, index),
                "tile_shape": loop.tile}

    # (loops above, target, tensor) of every tensor that outlasts a step of the shared loops: intermediates at their
    # writer, and unfinished sums at every level inside the outermost one that keeps them
    loops, count = group.loops, len(group.layers)
    trunk = [(depth(loops, stay), home_target(hardware, stay), tensor_name(group, index, space))
             for index in range(count) for space, stay in trunk_stays(group, index).items()
             if not (index and space == group.links[index - 1].tensor)]
    sums = [index for index, loop in enumerate(loops) if adds(group, loop)]
    if sums and group.sums != hardware.arch.level_names()[-1]:
        layer = group.layers[-1]
        output, any_mapping = layer.problem.output.name, next(iter(layer.mappings.values()))
        held = fused_mapping(hardware, group, count - 1, any_mapping)    # the levels do not depend on the tile
        trunk += [(sums[0], target, tensor_name(group, count - 1, output))
                  for target, level in enumerate(stored_levels(hardware))
                  if target and output in held.levels[level].keep
                  and (not group.sums or level == hardware.level(group.sums))]
    inner = {tensor_name(group, index, link.tensor) for index, link in enumerate(group.links, 1)}
    names = [tensor_name(group, index, space.name) for index, layer in enumerate(group.layers)
             for space in layer.problem.dataspaces]
    nodes = [stored(0, [name for name in names if name not in inner])]
    for loops_above in range(len(loops) + 1):
        for target in sorted({target for above, target, _ in trunk if above == loops_above}):
            nodes.append(stored(target, [name for *at, name in trunk if at == [loops_above, target]]))
        nodes += [loop_node(loop, count - 1) for loop in loops[loops_above:loops_above + 1]]
    branches = []
    for index in range(count):
        branch = next(iter(branches_by_shape(group, hardware, index).values()))    # of the largest tile
        branches.append([*(stored(node.target, [tensor_name(group, index, space) for space in node.spaces])
                           if isinstance(node, Kept) else loop_node(node, index, node.spatial) for node in branch),
                         {"type": "compute", "einsum": f"E{index + 1}", "target": len(stored_levels(hardware))}])
    nodes += branches[0] if count == 1 else [{"type": "sequential", "branches": branches}]
    return {"type": "fused", "nodes": nodes}


def branches_by_shape(group: FusedGroup, hardware: Hardware, index: int) -> dict[Shape, Branch]:
    """The loop nest of every tile of a layer of a legal group by the tile's extents, the largest tile first.

    Storage and temporal loops level by level, then one spatial loop per dimension. The branch keeps a tensor only
    inside `above`, the innermost target at which the trunk has it.
    """
    layer, targets = group.layers[index], stored_levels(hardware)
    above = {space: home_target(hardware, stay) for space, stay in trunk_stays(group, index).items()}
    if index == len(group.layers) - 1 and any(adds(group, loop) for loop in group.loops):
        above[layer.problem.output.name] = targets.index(hardware.level(group.sums)) if group.sums else len(targets)
    shapes = {step.shape for step in step_classes(group, layer, layer_steps(group)[index])}
    branches: dict[Shape, Branch] = {}
    for shape in sorted(shapes, key=lambda shape: (sum(shape), shape), reverse=True):
        mapping = fused_mapping(hardware, group, index, layer.mappings[shape])
        left = dict(zip(layer.problem.dimensions, shape, strict=True))  # points of a dimension inside all loops so far
        nodes: list[Kept | TreeLoop] = []
        side_by_side: dict[str, int] = {}    # dimensions in the order of their first factor
        for index_of_level, level in reversed(list(enumerate(mapping.levels))):
            target = targets.index(index_of_level) if index_of_level in targets else 0
            kept = tuple(space for space in layer.problem.dataspace_names()
                         if space in level.keep and target > above.get(space, 0))
            nodes += [Kept(target, kept)] if target and kept else []    # the outermost level has its node at the root
            for dim in reversed(level.order):
                if level.temporal[dim] > 1:
                    left[dim] //= level.temporal[dim]
                    nodes.append(TreeLoop(dim, left[dim], spatial=False))
            for dim in reversed(level.spatial_order):
                side_by_side[dim] = side_by_side.get(dim, 1) * level.spatial[dim]
        for dim, factor in side_by_side.items():
            if factor > 1:
                left[dim] //= factor
                nodes.append(TreeLoop(dim, left[dim], spatial=True))
        branches[shape] = tuple(nodes)
    return branches


# LoopTree keeps the words of a tensor that two steps of the loop directly above its storage node share, and drops all
# other words. A tree has one loop nest per layer and keeps an intermediate in one level. LoopTree counts touched words,
# while Timeloop's tiles also hold the words that a stride or dilation skips. Each generator below yields the violations
# of one of these rules by a group.

MOST_SIDE_BY_SIDE = 2
"""Spatial loops per branch: `evaluate_fused` accepts two over the units of one level, which lie in a plane."""


def beyond_looptree(group: FusedGroup, hardware: Hardware, alike: bool) -> list[str]:
    """All reasons why a legal group cannot be written as a tree, each a phrase with the layer's name; empty if none.


    `alike`: whether tiles of different shapes of a layer must have the same loops.
    """
    reasons: list[str] = []
    if any(link.stay.shares for link in group.links):
        return ["instances of a level divide an intermediate among them"]
    if group.lasting_words:
        reasons.append("tensors stay on the chip from one group to another, and LoopTree has one group")
    if any(link.distance > 1 for link in group.links):
        return ["the layers are no chain: a layer reads what several others make, or shares an operand with another"]
    for index, steps in enumerate(layer_steps(group)):
        problem = group.layers[index].problem
        named = (f'"{name}" is no name in isl; accepted: letters, digits and underscores'
                 for name in (*problem.dimensions, *problem.dataspace_names())
                 if not (name.isascii() and name.isidentifier()))     # isl reads LoopTree's bounds and projections
        widths = (f"{space.name} has bits of its own, and LoopTree knows words alone" for space in problem.dataspaces
                  if space.bits)
        for phrases in (named, widths, _link(group, index), _kept(group, hardware, index, steps),
                        _nests(group, hardware, index, alike)):
            reasons += [f"layer {index + 1} ({problem.name}): {phrase}" for phrase in phrases]
    extents = group.layers[-1].problem.bounds
    running = [loop for loop in group.loops if loop.tile < extents[loop.dim]]
    if group.sums and running and adds(group, running[-1]):
        reasons.append(f"sums leave for {group.sums} in every step along {running[-1].dim}, where LoopTree keeps them")
    if group.one_pass:
        reasons.append("a softmax runs in one pass, which corrects the sums of the last layer; LoopTree has no such "
                       "corrections")
    return reasons + [
        f"layer {read.first + 1} ({group.layers[read.first].problem.name}): {read.tensor} is added to the output of "
        f"layer {read.behind + 1}, too; LoopTree has no layers without multiply-accumulates"
        for read in group.second_reads]


def _link(group: FusedGroup, index: int) -> Iterator[str]:
    """The link to the next layer must be unpooled, kept in one level, with an axis of the intermediate per reading
    rank."""
    if index == len(group.links):
        return
    link, problem, after = group.links[index], group.layers[index].problem, group.layers[index + 1].problem
    if link.pooled:
        yield "its output is pooled on the way to the next layer; LoopTree has no layers without multiply-accumulates"
    if link.between:
        yield "its output is padded, resized or cut up on the way to the next layer, which LoopTree does not follow"
    if link.whole:
        yield (f"its dimensions {', '.join(sorted(link.whole))} are rearranged on the way to the next layer, which "
               "LoopTree does not follow")
    if link.elsewhere:
        yield "its output is put together with other tensors, which LoopTree reads as one"
    if link.written:
        yield "its output goes on to the next layer and to the outermost level; LoopTree keeps it in one of them"
    for rank in space_of(after, link.tensor).ranks:
        if len(handed_on(link, rank)) > 1:
            yield f"several of its dimensions ({', '.join(handed_on(link, rank))}) make one axis of {link.tensor}"
    for rank in problem.output.ranks:
        if len(rank) > 1 or rank[0].coefficient != 1:
            yield "an axis of its output is a sum of dimensions"


def _kept(group: FusedGroup, hardware: Hardware, index: int, steps: LayerSteps) -> Iterator[str]:
    """Tensors that a tree would keep along other loops, in other amounts or in other levels than the group.

    LoopTree keeps words along the loop directly above the node, or the next outer loop with several steps, and along
    all inner loops.
    """
    def turned_over(space: DataSpace, branch: Branch) -> bool:
        """Whether a loop of the branch, outside the tensor's node, steps through disjoint parts of the tensor."""
        steady = {rank[0].dimension for rank in space.ranks if len(rank) == 1}
        kept = next((at for at, node in enumerate(branch) if isinstance(node, Kept) and space.name in node.spaces), 0)
        return any(isinstance(node, TreeLoop) and not node.spatial and node.dim in steady for node in branch[:kept])

    def windows_along(space: DataSpace, loop: int) -> list[range]:
        """Points of a tensor that each working step of a shared loop touches, along the rank that the loop moves.

        Outputs: the points that the next layer needs. A loop that moves no rank touches one and the same point.
        """
        cut, spans = steps.cut[loop], steps.spans[loop]
        if space.read_write:
            return [span.needed for span in spans if len(span.needed)]
        if cut is None or cut not in space.dimensions:
            return [range(1) for span in spans if len(span.done)]
        rank = moved_rank(space, cut)[1]
        return [touched_points(rank, problem, cut, span.done) for span in spans if len(span.done)]

    def meet(first: range, second: range) -> bool:
        return max(first.start, second.start) < min(first.stop, second.stop)

    def shares(windows: Sequence[range]) -> bool:
        return any(meet(step, following) for step, following in pairwise(windows))

    problem, stays, names = group.layers[index].problem, trunk_stays(group, index), hardware.arch.level_names()
    nests = list(branches_by_shape(group, hardware, index).values())
    for space in problem.dataspaces:
        if index and space.name == group.links[index - 1].tensor:
            continue                        # checked for the layer that writes it
        if space.read_write and index == len(group.links):
            continue                        # the group's output: no words of it are fetched
        if space.name not in stays and all(turned_over(space, branch) for branch in nests):
            continue                        # the tile's loops have replaced its words before the next step
        stay = stays.get(space.name, Stay(""))
        if stay.lines:
            yield f"{space.name} stays in line buffers; LoopTree takes room for all that the loops inside walk through"
        windows = [windows_along(space, loop) for loop in range(len(group.loops))]
        first = max(depth(group.loops, stay) - 1, 0)
        while first and len(windows[first]) < 2:
            first -= 1
        for loop, touched in list(zip(group.loops, windows, strict=True))[first:]:
            if loop.dim not in stay.across and shares(touched):
                yield (f"{space.name} is {'computed' if space.read_write else 'fetched'} again in the steps along "
                       f"{loop.dim}, where LoopTree keeps what two steps share")
        outside = next((touched for touched in reversed(windows[:first]) if len(touched) > 1), [])
        if not space.read_write and shares(outside) and meet(windows[first][0], windows[first][-1]):
            yield (f"the last step along {group.loops[first].dim} and the first one share words of {space.name}, which "
                   "LoopTree keeps from one to the other")
        for level in stored_levels(hardware)[1:] if space.name in group.layers[index].operands else ():
            if level > names.index(stay.level) and any(space.name in mapping.levels[level].keep for mapping in
                                                       group.layers[index].mappings.values()):
                yield (f"{space.name} stays in {stay.level} and passes through {names[level]}, which is filled in "
                       "every step")


def _nests(group: FusedGroup, hardware: Hardware, index: int, alike: bool) -> Iterator[str]:
    """Loop nests that no branch can express: too many spatial loops, tiles with holes, or (`alike`) a nest per
    shape."""
    problem = group.layers[index].problem
    nests = branches_by_shape(group, hardware, index)
    largest, branch = next(iter(nests.items()))
    extents = dict(zip(problem.dimensions, largest, strict=True))
    if len([node for node in branch if isinstance(node, TreeLoop) and node.spatial]) > MOST_SIDE_BY_SIDE:
        yield "more than two dimensions run side by side"
    for space in problem.dataspaces:
        for rank in space.ranks:
            reach = 1    # of the inner terms; a wider stride or dilation skips points of the rank
            for term in sorted(rank, key=lambda term: term.coefficient):
                if extents[term.dimension] > 1 and term.coefficient > reach:
                    yield f"the tile of {space.name} has words that nobody touches, which Timeloop counts"
                    break
                reach += term.coefficient * (extents[term.dimension] - 1)
    for shape, other in nests.items() if alike else ():
        left, fitted = dict(zip(problem.dimensions, shape, strict=True)), []
        for node in branch:     # on a smaller tile, loops with a single step are dropped
            if isinstance(node, TreeLoop):
                if node.tile >= left[node.dim]:
                    continue
                left[node.dim] = node.tile
            fitted.append(node)
        if tuple(fitted) != other:
            first, second = (" ".join(f"{dim}={points}" for dim, points in zip(problem.dimensions, tile, strict=True)
                                      if points > 1) for tile in (largest, shape))
            yield f"tiles of {first} and {second} have different loops; LoopTree has one nest per layer"


FIRST_LINE = ("# An input of LoopTree (v4fused), with tags such as !Component: read by timeloopfe.v4fused and "
              "fadiff_validation.looptree, refused by YAML readers that know no tags.\n")


def looptree_yaml(group: FusedGroup, hardware: Hardware, *, alike: bool = True) -> str:
    """The document of `to_looptree` as YAML text; its first line says which programs can read it."""
    return FIRST_LINE + dump(to_looptree(group, hardware, alike=alike))


def to_looptree(group: FusedGroup, hardware: Hardware, *, alike: bool = True) -> dict[str, Any]:
    """One run of a legal group as a document for LoopTree and `evaluate_fused`.

    Layer i, counted from 1, is `E<i>`, its dimension D `D_<i>`, its data space T `T_<i>`; an intermediate has its
    writer's name. DRAM traffic, operations and the occupancy of resident tensors are those of `group_cost`. Traffic
    inside a tile may differ: in LoopTree neighbouring units also pass on words, and words of inner levels outlive the
    steps of other layers.

    Args:
        group: A group without violations.
        hardware: Architecture and energies on which it runs.
        alike: LoopTree has one loop nest per layer. If true, a layer whose tiles of different shapes have different
            loops is refused; if false, the loops of the largest tile serve tiles of all shapes.

    Returns:
        The sections `problem`, `mapping`, `architecture` and `ERT` (pJ per word; LoopTree's writes take the price of
        Timeloop's fills, not of its updates). The architecture has the storing levels, outermost first, and the
        arithmetic; a level's depth is in blocks of all its instances, which the tree treats as one unit.

    Raises:
        FadiffError: LoopTree cannot express the group; the text gives the first reason.
    """
    reasons = beyond_looptree(group, hardware, alike)
    if reasons:
        raise FadiffError(f"LoopTree cannot express this group: {reasons[0]}")
    arithmetic, nodes, tables = hardware.arch.arithmetic, [], []

    def add(name: str, kind: str, attributes: dict[str, int], actions: dict[str, float]) -> None:
        nodes.append(Map({"name": name, "class": kind, "attributes": attributes}, where=Where("architecture"),
                         tag="!Component"))
        tables.append({"name": name, "actions": [{"name": action, "arguments": {}, "energy": energy}
                                                 for action, energy in actions.items()]})

    for level in (hardware.arch.levels[index] for index in stored_levels(hardware)):
        energy, block = storage_energy(level, hardware.tables), level.block_size
        blocks = {} if level.size is None else {"depth": level.size * level.instances // block}
        add(level.name, level.kind, {"datawidth": level.word_bits, "width": level.word_bits * block} | blocks,
            {"read": energy.read / block, "write": energy.fill / block})
    add(arithmetic.name, arithmetic.kind, {"datawidth": arithmetic.word_bits, "width": arithmetic.word_bits},
        {"compute": compute_energy(arithmetic, hardware.tables)[0]})
    return {"problem": looptree_problem(group), "mapping": looptree_mapping(group, hardware),
            "architecture": {"version": 0.4, "nodes": nodes}, "ERT": {"version": "0.4", "tables": tables}}
