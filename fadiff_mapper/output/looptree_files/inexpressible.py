"""What a fused group has that LoopTree's trees cannot say, one phrase each; empty where all of it can be said.

LoopTree keeps, of a tensor, what two steps of the loop right above its node share, and forgets everything else; it has
one loop nest per layer, an intermediate in one place, and counts words that are touched, where Timeloop's tiles also
hold what a stride or dilation leaves out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, Hardware, Shape, Stay
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, layer_steps, moved_rank, touched_points
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


def beyond_looptree(group: FusedGroup, hardware: Hardware, alike: bool) -> list[str]:
    """What stands against writing a legal group as a tree; with `alike` the tiles of a layer must share one nest."""
    found: list[str] = []
    for index, steps in enumerate(layer_steps(group)):
        name = f"layer {index + 1} ({group.layers[index].problem.name})"
        for phrases in (_names(group, index), _link(group, index), _kept(group, hardware, index, steps),
                        _nests(group, hardware, index, alike)):
            found += [f"{name}: {phrase}" for phrase in phrases]
    return found + list(_spilled(group))


def _spilled(group: FusedGroup) -> Iterator[str]:
    """Sums that go out in every step: LoopTree keeps those of two steps between which no loop moves them."""
    extents = group.layers[-1].problem.bounds
    running = [loop for loop in group.loops if loop.tile < extents[loop.dim]]
    if group.spilled and running and adds(group, running[-1]):
        yield f"sums leave the chip in every step along {running[-1].dim}, where LoopTree keeps them"


def _names(group: FusedGroup, index: int) -> Iterator[str]:
    problem = group.layers[index].problem
    for name in (*problem.dimensions, *problem.dataspace_names()):
        if not (name.isascii() and name.isidentifier()):
            yield f'"{name}" is no name in isl; accepted: letters, digits and underscores'


def _link(group: FusedGroup, index: int) -> Iterator[str]:
    """The link to the next layer: one place, and one axis of the intermediate for each rank that reads it."""
    if index == len(group.links):
        return
    link, problem, after = group.links[index], group.layers[index].problem, group.layers[index + 1].problem
    if link.pooled:
        yield "its output is pooled on the way to the next layer; LoopTree has no layers without multiply-accumulates"
    if link.written:
        yield "its output goes on to the next layer and to the outermost level; LoopTree keeps it in one of them"
    for rank in read_ranks(link, after):
        if len(handed_on(link, rank)) > 1:
            yield f"several of its dimensions ({', '.join(handed_on(link, rank))}) make one axis of {link.tensor}"
    for rank in problem.output.ranks:
        if len(rank) > 1 or rank[0].coefficient != 1:
            yield "an axis of its output is a sum of dimensions"


def _kept(group: FusedGroup, hardware: Hardware, index: int, steps: LayerSteps) -> Iterator[str]:
    """Every tensor is kept along the loops along which LoopTree keeps it."""
    problem, stays = group.layers[index].problem, trunk_stays(group, index)
    nests = list(branches_by_shape(group, hardware, index).values())
    for space in problem.dataspaces:
        if index and space.name == group.links[index - 1].tensor:
            continue                        # looked at where it is written
        if space.read_write and index == len(group.links):
            continue                        # no words of it are fetched
        if space.name not in stays and all(_turned_over(space, branch) for branch in nests):
            continue                        # nothing of it is left when the next step begins
        stay = stays.get(space.name, Stay(""))
        if stay.lines:
            yield f"{space.name} stays in line buffers; LoopTree takes room for all that the loops inside walk through"
        yield from _along(group, space, stay, problem, steps)
        if space.name in group.layers[index].operands:
            yield from _one_parent(group, hardware, index, space.name, stay)


def _along(group: FusedGroup, space: DataSpace, stay: Stay, problem: Problem, steps: LayerSteps) -> Iterator[str]:
    """LoopTree keeps words along the loop right above the node, or the next one outside that has several steps, and
    along all loops inside."""
    windows = [_windows(space, problem, steps, place) for place in range(len(group.loops))]
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
    place = next((k for k, node in enumerate(branch) if isinstance(node, Kept) and space.name in node.spaces), 0)
    return any(isinstance(node, TreeLoop) and not node.spatial and node.dim in steady for node in branch[:place])


def _windows(space: DataSpace, problem: Problem, steps: LayerSteps, at: int) -> list[range]:
    """What each working step of one loop touches of a tensor along the rank that the loop moves; one point where it
    moves none."""
    cut, spans = steps.cut[at], steps.spans[at]
    if space.read_write:
        return [span.needed for span in spans if len(span.needed)]
    if cut is None or cut not in space.dimensions:
        return [range(1) for span in spans if len(span.done)]
    rank = moved_rank(space, cut)[1]
    return [touched_points(rank, problem, cut, span.done) for span in spans if len(span.done)]


def _shares(windows: Sequence[range]) -> bool:
    """Whether two steps in a row touch the same points."""
    return any(_meet(one, two) for one, two in pairwise(windows))


def _meet(one: range, two: range) -> bool:
    return max(one.start, two.start) < min(one.stop, two.stop)


def _one_parent(group: FusedGroup, hardware: Hardware, index: int, name: str, stay: Stay) -> Iterator[str]:
    """Nothing between the outermost level and the home of what stays."""
    names = hardware.arch.level_names()
    between = [k for k in stored_levels(hardware)[1:] if k > names.index(stay.level)]
    for k in between:
        if any(name in mapping.levels[k].keep for mapping in group.layers[index].mappings.values()):
            yield f"{name} stays in {stay.level} and passes through {names[k]}, which is filled in every step"


def _nests(group: FusedGroup, hardware: Hardware, index: int, alike: bool) -> Iterator[str]:
    """One nest for all tiles, without holes, with at most two dimensions side by side."""
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
    reach = 1
    for term in sorted(rank, key=lambda term: term.coefficient):
        if extents[term.dimension] > 1 and term.coefficient > reach:
            return True
        reach += term.coefficient * (extents[term.dimension] - 1)
    return False


def _fitted(branch: Branch, dims: tuple[str, ...], shape: Shape) -> Branch:
    """The nest of a larger tile as it runs on a smaller one: loops over what is left, those of one step left out."""
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
    return " ".join(f"{dim}={points}" for dim, points in zip(problem.dimensions, shape, strict=True) if points > 1)
