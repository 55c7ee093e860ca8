"""Operations of every layer that run at each step of a fused mapping.

Loops above a split cut the last layer of the group; the earlier layers make in the same step the words that are needed
of their outputs and are not there yet. As in LoopTree, "there yet" depends on the tensor's outermost storage node: all
words made by earlier steps of the loops inside that node are still there, and of the loop right outside it the words of
the step before. Words needed again later are made again: recomputation.

Method. Operations are listed one by one, each with its step. Going backwards from the last layer (`_infer`), every
reader's (step, word) pairs, less the pairs that are there already (`_needed`), select the operations of the writer that
make these words (`_producing`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.fusion.looptree.affine import Affine
from fadiff_mapper.fusion.looptree.boxes import MOST_ROWS, Box, all_rows, box_around, box_of, paired
from fadiff_mapper.fusion.looptree.chain import (
    Access,
    Chain,
    Compute,
    Einsum,
    Loop,
    Split,
    Storage,
    TreeNode,
    layers_below,
)


@dataclass(frozen=True)
class Tiling:
    """Operations of a layer, each with the step at which it runs; an operation that is recomputed is there repeatedly.

    Attributes:
        steps: [N, K], one column for every loop and split on the layer's path, outermost first.
        operations: [N, ranks], values of the layer's ranks.
    """

    steps: np.ndarray
    operations: np.ndarray


def tilings(chain: Chain, nodes: tuple[TreeNode, ...]) -> dict[str, Tiling]:
    """The tiling of every layer of a mapping.

    Args:
        chain: the layers.
        nodes: the mapping tree.

    Returns:
        Name of the layer -> its operations with their steps.

    Raises:
        FadiffError: a layer has too many operations, layers below one node share an input without handing tensors on,
            or a loop cuts no rank of the last layer below it.
    """
    start = {}
    for name in layers_below(nodes):
        operations = all_rows(box_of(list(chain.einsum(name).ranks.values())), f"the layer {name}")
        start[name] = Tiling(np.zeros((len(operations), 0), dtype=np.int64), operations)
    return _descend(chain, nodes, start, {})


def words(access: Access, einsum: Einsum, operations: np.ndarray) -> np.ndarray:
    """The word of a tensor that each operation touches.

    Args:
        access: the layer's use of the tensor.
        einsum: the layer.
        operations: [N, ranks].

    Returns:
        Indices [N, axes of the tensor].
    """
    column = {rank: operations[:, k] for k, rank in enumerate(einsum.ranks)}
    result = np.empty((len(operations), len(access.axes)), dtype=np.int64)
    for k, axis in enumerate(access.axes):
        result[:, k] = axis.constant
        for rank, coefficient in axis.terms.items():
            result[:, k] += coefficient * column[rank]
    return result


def tensor_box(chain: Chain, tensor: str) -> Box:
    """The smallest box around all words of a tensor that any layer touches."""
    boxes = [[_reach(axis, einsum) for axis in access.axes]
             for einsum in chain.einsums if (access := einsum.access(tensor))]
    return box_of([range(min(axis.start for axis in axes), max(axis.stop for axis in axes))
                   for axes in zip(*boxes, strict=True)])


def _reach(axis: Affine, einsum: Einsum) -> range:
    """All values between the smallest and the largest one of an affine expression."""
    ends = [sorted((coefficient * einsum.ranks[rank][0], coefficient * einsum.ranks[rank][-1]))
            for rank, coefficient in axis.terms.items()]
    return range(axis.constant + sum(low for low, _ in ends), axis.constant + sum(high for _, high in ends) + 1)


def _descend(chain: Chain, nodes: tuple[TreeNode, ...], group: dict[str, Tiling],
             stored_at: Mapping[str, int]) -> dict[str, Tiling]:
    """Cuts the layers below some nodes by the loops among them, and by the nodes of their branches.

    `group` holds the layers' tilings so far, `stored_at` how many loops and splits surround each tensor's outermost
    storage node.
    """
    last = _last_layer(chain, group)
    stored = dict(stored_at)
    for node in nodes:
        match node:
            case Storage(tensors=tensors):
                for tensor in tensors:
                    stored.setdefault(tensor, group[last].steps.shape[1])
            case Loop():
                group[last] = _cut(group[last], _rank_of(chain.einsum(last), node, group), node.tile)
            case Compute():
                return group
            case Split(branches=branches):
                _infer(chain, group, last, stored)
                result: dict[str, Tiling] = {}
                for index, branch in enumerate(branches):
                    below = {name: _with_column(group[name], index) for name in layers_below(branch)}
                    result |= _descend(chain, branch, below, stored)
                return result
    raise AssertionError("a branch ends in a split or a compute node")


def _last_layer(chain: Chain, group: Mapping[str, Tiling]) -> str:
    """The layer whose output nobody else in the group reads."""
    last = [name for name in group
            if not any(reader.name in group for write in chain.einsum(name).writes
                       for reader in chain.readers(write.tensor))]
    if len(last) != 1:
        raise FadiffError(f"input: mapping.nodes: the layers {listed(group)} run below one node, but {listed(last)} "
                          "are read by none of them; accepted: one last layer")
    return last[0]


def _rank_of(last: Einsum, loop: Loop, group: Mapping[str, Tiling]) -> int:
    """Position of the rank of the last layer that a loop cuts."""
    if loop.rank not in last.ranks:
        raise FadiffError(f"input: mapping.nodes: the loop over {loop.rank} stands above the layers {listed(group)}; "
                          f"accepted: ranks of {last.name}, the last of them: {listed(last.ranks)}")
    return list(last.ranks).index(loop.rank)


def _with_column(tiling: Tiling, index: int) -> Tiling:
    """The tiling inside branch `index` of a split, which adds an axis to the steps."""
    column = np.full((len(tiling.steps), 1), index, dtype=np.int64)
    return Tiling(np.hstack([tiling.steps, column]), tiling.operations)


def _cut(tiling: Tiling, rank: int, tile: int) -> Tiling:
    """A further loop: tiles are counted from the smallest value of the rank at each step."""
    values = tiling.operations[:, rank]
    code = box_around(tiling.steps).encode(tiling.steps)
    _, group = np.unique(code, return_inverse=True)
    first = np.full(len(values), np.iinfo(np.int64).max)
    np.minimum.at(first, group, values)
    return Tiling(np.hstack([tiling.steps, ((values - first[group]) // tile)[:, None]]), tiling.operations)


def _infer(chain: Chain, group: dict[str, Tiling], last: str, stored_at: Mapping[str, int]) -> None:
    """Replaces the tilings of all layers before `last` by what their readers need of them."""
    _refuse_shared_input(chain, group)
    steps = box_around(group[last].steps)
    waiting = deque([chain.einsum(last)])
    while waiting:
        reader = waiting.popleft()
        for access in reader.reads:
            writer = chain.writer(access.tensor)
            if writer is None or writer.name not in group:
                continue
            needed = _needed(group[reader.name], access, reader, steps, tensor_box(chain, access.tensor),
                             stored_at.get(access.tensor))
            group[writer.name] = _producing(group[writer.name], writer, access.tensor, needed,
                                            tensor_box(chain, access.tensor), steps)
            waiting.append(writer)


def _refuse_shared_input(chain: Chain, group: Mapping[str, Tiling]) -> None:
    """Raises FadiffError where all layers of a group read one tensor: tiles that follow from it are not supported."""
    if len(group) > 1:
        everywhere = [tensor for tensor in chain.tensors()
                      if set(group) <= {reader.name for reader in chain.readers(tensor)}]
        if len(everywhere) == 1:
            raise FadiffError(f"input: problem: all of the layers {listed(group)} read {everywhere[0]}: tiles that "
                              "follow from a shared input are not supported; accepted: layers that hand tensors on")


def _needed(tiling: Tiling, access: Access, reader: Einsum, steps: Box, tensor: Box,
            stored_at: int | None) -> np.ndarray:
    """Codes [N] of the (step, word) pairs that must be made: touched by the reader and not there from earlier.

    `stored_at` loops and splits lie outside the node that keeps the tensor; None keeps nothing.
    """
    read = tensor.encode(words(access, reader, tiling.operations))
    pair = np.unique(paired(steps, tiling.steps, read, tensor.points))
    if stored_at is None:
        return pair
    step, word = np.divmod(pair, tensor.points)
    rows = steps.decode(step)
    outer = steps.take(range(stored_at))
    stored = paired(outer, rows[:, :stored_at], word, tensor.points)    # (step of the storage node, word)
    there = np.zeros(len(pair), dtype=bool)
    if stored_at < rows.shape[1]:     # made in an earlier step of the loops inside the place
        _, first = np.unique(stored, return_index=True)  # pairs are sorted: the first one is the earliest step
        there[:] = True
        there[first] = False
    if stored_at > 0:                 # needed in the step before of the loop right outside it
        before = rows[:, :stored_at].copy()
        before[:, -1] -= 1
        inside = before[:, -1] >= outer.low[-1]
        there |= inside & np.isin(paired(outer, before, word, tensor.points), stored)
    return pair[~there]


def _producing(tiling: Tiling, writer: Einsum, tensor: str, needed: np.ndarray, grid: Box, steps: Box) -> Tiling:
    """The operations that make the needed (step, word) pairs, among the writer's operations in `tiling`."""
    access = writer.access(tensor)
    assert access is not None
    ranks = box_of(list(writer.ranks.values()))
    operations = all_rows(ranks, f"the layer {writer.name}")
    made = grid.encode(words(access, writer, operations))
    order = np.argsort(made, kind="stable")     # operations that make one word lie side by side
    step, word = np.divmod(needed, grid.points)
    first, end = (np.searchsorted(made[order], word, side=side) for side in ("left", "right"))
    count = end - first
    if count.sum() > MOST_ROWS:
        raise FadiffError(f"the layer {writer.name} has {count.sum()} operations with recomputation; "
                          f"accepted: at most {MOST_ROWS}")
    chosen = np.repeat(first - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    producing = Tiling(steps.decode(np.repeat(step, count)), operations[order[chosen]])
    return _within(producing, tiling, steps, ranks)


def _within(tiling: Tiling, allowed: Tiling, steps: Box, ranks: Box) -> Tiling:
    """The rows of `tiling` that `allowed`, which may know fewer loops, has too."""
    axes = range(allowed.steps.shape[1])
    outer = steps.take(axes)
    inside = ((allowed.steps >= outer.low) & (allowed.steps < np.add(outer.low, outer.size))).all(axis=1)
    code = paired(outer, tiling.steps[:, axes], ranks.encode(tiling.operations), ranks.points)
    wanted = paired(outer, allowed.steps[inside], ranks.encode(allowed.operations[inside]), ranks.points)
    keep = np.isin(code, wanted)
    return Tiling(tiling.steps[keep], tiling.operations[keep])
