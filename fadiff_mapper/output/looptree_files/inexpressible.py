"""Reasons why a fused group cannot be written as a tree of LoopTree, one phrase each.

Of a tensor LoopTree keeps the words that two steps of the loop right above its storage node share, and forgets all
others. A tree has one loop nest per layer and keeps an intermediate in one level. LoopTree counts words that are
touched, where Timeloop's tiles also hold the words that a stride or dilation leaves out. Each generator below finds the
departures of a group from one of these rules.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fadiff_mapper.fusion.fused_group import FusedGroup, Hardware, Shape, Stay
from fadiff_mapper.fusion.tile_steps import LayerSteps, layer_steps, moved_rank, touched_points
from fadiff_mapper.output.looptree_files.einsums import handed_on, read_ranks
from fadiff_mapper.output.looptree_files.mapping_tree import (
    Branch,
    Kept,
    TreeLoop,
    adds,
    branches_by_shape,
    depth,
    stored_levels,
    trunk_stays,
)
from fadiff_mapper.spec.problem import DataSpace, Problem, Term

MOST_SIDE_BY_SIDE = 2
"""Spatial loops per branch: as many as `evaluate_fused` accepts over the units of one level, which lie in a plane."""


def beyond_looptree(group: FusedGroup, hardware: Hardware, alike: bool) -> list[str]:
    """All reasons against writing a legal group as a tree.

    Args:
        group: A group without violations.
        hardware: The architecture on which it runs.
        alike: Whether tiles of different shapes of a layer must have the same loops.

    Returns:
        A phrase per reason that names the layer; empty where LoopTree can express the group.
    """
    reasons: list[str] = []
    for index, steps in enumerate(layer_steps(group)):
        name = f"layer {index + 1} ({group.layers[index].problem.name})"
        for phrases in (_names(group, index), _link(group, index), _kept(group, hardware, index, steps),
                        _nests(group, hardware, index, alike)):
            reasons += [f"{name}: {phrase}" for phrase in phrases]
    return reasons + list(_spilled(group)) + [
        f"layer {read.first + 1} ({group.layers[read.first].problem.name}): {read.tensor} is added to the output of "
        f"layer {read.behind + 1}, too; LoopTree has no layers without multiply-accumulates"
        for read in group.second_reads]


def _spilled(group: FusedGroup) -> Iterator[str]:
    """Spilled sums that LoopTree would keep: the innermost running loop adds to the same outputs in each step."""
    extents = group.layers[-1].problem.bounds
    running = [loop for loop in group.loops if loop.tile < extents[loop.dim]]
    if group.spilled and running and adds(group, running[-1]):
        yield f"sums leave the chip in every step along {running[-1].dim}, where LoopTree keeps them"


def _names(group: FusedGroup, index: int) -> Iterator[str]:
    """Names that isl, which reads LoopTree's bounds and projections, does not take."""
    problem = group.layers[index].problem
    for name in (*problem.dimensions, *problem.dataspace_names()):
        if not (name.isascii() and name.isidentifier()):
            yield f'"{name}" is no name in isl; accepted: letters, digits and underscores'


def _link(group: FusedGroup, index: int) -> Iterator[str]:
    """The link to the next layer: unpooled, kept in one level, an axis of the intermediate per rank that reads it."""
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
    for rank in read_ranks(link, after):
        if len(handed_on(link, rank)) > 1:
            yield f"several of its dimensions ({', '.join(handed_on(link, rank))}) make one axis of {link.tensor}"
    for rank in problem.output.ranks:
        if len(rank) > 1 or rank[0].coefficient != 1:
            yield "an axis of its output is a sum of dimensions"


def _kept(group: FusedGroup, hardware: Hardware, index: int, steps: LayerSteps) -> Iterator[str]:
    """Tensors that a tree would keep along other loops, or in other amounts, than the group does."""
    problem, stays = group.layers[index].problem, trunk_stays(group, index)
    nests = list(branches_by_shape(group, hardware, index).values())
    for space in problem.dataspaces:
        if index and space.name == group.links[index - 1].tensor:
            continue                        # checked for the layer that writes it
        if space.read_write and index == len(group.links):
            continue                        # the group's output: no words of it are fetched
        if space.name not in stays and all(_turned_over(space, branch) for branch in nests):
            continue                        # the tile's own loops have replaced its words when the next step begins
        stay = stays.get(space.name, Stay(""))
        if stay.lines:
            yield f"{space.name} stays in line buffers; LoopTree takes room for all that the loops inside walk through"
        yield from _along(group, space, stay, problem, steps)
        if space.name in group.layers[index].operands:
            yield from _one_parent(group, hardware, index, space.name, stay)


def _along(group: FusedGroup, space: DataSpace, stay: Stay, problem: Problem, steps: LayerSteps) -> Iterator[str]:
    """Loops along which a tree keeps shared words and the group does not.

    LoopTree keeps words along the loop right above the node, or the next loop outside that has several steps, and along
    all loops inside.
    """
    windows = [_windows(space, problem, steps, loop) for loop in range(len(group.loops))]
    first = max(depth(group.loops, stay) - 1, 0)
    while first and len(windows[first]) < 2:
        first -= 1
    for loop, touched in list(zip(group.loops, windows, strict=True))[first:]:
        if loop.dim not in stay.across and _shares(touched):
            yield (f"{space.name} is {'computed' if space.read_write else 'fetched'} again in the steps along "
                   f"{loop.dim}, where LoopTree keeps what two steps share")
    outside = next((touched for touched in reversed(windows[:first]) if len(touched) > 1), [])
    if not space.read_write and _shares(outside) and _meet(windows[first][0], windows[first][-1]):
        yield (f"the last step along {group.loops[first].dim} and the first one share words of {space.name}, which "
               "LoopTree keeps from one to the other")


def _turned_over(space: DataSpace, branch: Branch) -> bool:
    """Whether a loop of the branch, outside the tensor's node, goes from one part of it to another without overlap."""
    steady = {rank[0].dimension for rank in space.ranks if len(rank) == 1}
    storage = next((at for at, node in enumerate(branch) if isinstance(node, Kept) and space.name in node.spaces), 0)
    return any(isinstance(node, TreeLoop) and not node.spatial and node.dim in steady for node in branch[:storage])


def _windows(space: DataSpace, problem: Problem, steps: LayerSteps, loop: int) -> list[range]:
    """Points of a tensor that each working step of a shared loop touches, along the rank that the loop moves.

    Outputs: the points that the next layer needs. A loop that moves no rank touches the same single point every time.
    """
    cut, spans = steps.cut[loop], steps.spans[loop]
    if space.read_write:
        return [span.needed for span in spans if len(span.needed)]
    if cut is None or cut not in space.dimensions:
        return [range(1) for span in spans if len(span.done)]
    rank = moved_rank(space, cut)[1]
    return [touched_points(rank, problem, cut, span.done) for span in spans if len(span.done)]


def _shares(windows: Sequence[range]) -> bool:
    """Whether any two successive steps touch the same points."""
    return any(_meet(step, following) for step, following in pairwise(windows))


def _meet(first: range, second: range) -> bool:
    """Whether two ranges have a point in common."""
    return max(first.start, second.start) < min(first.stop, second.stop)


def _one_parent(group: FusedGroup, hardware: Hardware, index: int, name: str, stay: Stay) -> Iterator[str]:
    """Levels between the outermost one and the home level of a resident operand that keep the operand, too."""
    names = hardware.arch.level_names()
    between = [level for level in stored_levels(hardware)[1:] if level > names.index(stay.level)]
    for level in between:
        if any(name in mapping.levels[level].keep for mapping in group.layers[index].mappings.values()):
            yield f"{name} stays in {stay.level} and passes through {names[level]}, which is filled in every step"


def _nests(group: FusedGroup, hardware: Hardware, index: int, alike: bool) -> Iterator[str]:
    """Loop nests that no branch can be: too many spatial loops, tiles with holes, or (`alike`) a nest per shape."""
    problem = group.layers[index].problem
    nests = branches_by_shape(group, hardware, index)
    largest, branch = next(iter(nests.items()))
    if len([node for node in branch if isinstance(node, TreeLoop) and node.spatial]) > MOST_SIDE_BY_SIDE:
        yield "more than two dimensions run side by side"
    for space in problem.dataspaces:
        for rank in space.ranks:
            if _has_holes(rank, dict(zip(problem.dimensions, largest, strict=True))):
                yield f"the tile of {space.name} has words that nobody touches, which Timeloop counts"
    for shape, other in nests.items():
        if alike and _fitted(branch, problem.dimensions, shape) != other:
            yield (f"tiles of {_written(problem, largest)} and {_written(problem, shape)} have different loops; "
                   "LoopTree has one nest per layer")


def _has_holes(rank: Sequence[Term], extents: dict[str, int]) -> bool:
    """Whether a tile leaves points of a rank untouched: a stride or dilation wider than the terms inside it reach."""
    reach = 1
    for term in sorted(rank, key=lambda term: term.coefficient):
        if extents[term.dimension] > 1 and term.coefficient > reach:
            return True
        reach += term.coefficient * (extents[term.dimension] - 1)
    return False


def _fitted(branch: Branch, dims: tuple[str, ...], shape: Shape) -> Branch:
    """The nest of a larger tile as it runs on a smaller one: loops with a single step left out."""
    left = dict(zip(dims, shape, strict=True))
    nodes = []
    for node in branch:
        if isinstance(node, TreeLoop):
            if node.tile >= left[node.dim]:
                continue
            left[node.dim] = node.tile
        nodes.append(node)
    return tuple(nodes)


def _written(problem: Problem, shape: Shape) -> str:
    """A tile's extents above 1 as text."""
    return " ".join(f"{dim}={points}" for dim, points in zip(problem.dimensions, shape, strict=True) if points > 1)
