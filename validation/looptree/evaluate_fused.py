"""The exact cost of a fused mapping, as LoopTree counts it: accesses, operations, occupancy, energy.

Energy is the number of actions times the energy of an action in the input's ERT, per word. LoopTree's latency is not
modelled: its memory part counts accesses that its own actions leave out.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed

from .fused_input import (
    Access,
    Affine,
    Chain,
    Compute,
    Einsum,
    FusedInput,
    Loop,
    Path,
    Split,
    Storage,
    TreeNode,
    layers_below,
    leaf,
    paths,
    read_fused,
)


@dataclass(frozen=True)
class FusedStats:
    """Results for a fused mapping over the whole run.

    Attributes:
        components: names of the levels, outermost first; the last one computes.
        accesses: storage node -> words read and written.
        operations: layer -> operations, recomputation included.
        compute_steps: layer -> steps, where operations that run side by side share one.
        peak: storage node -> the most words that one unit holds.
        peak_words: level -> words that it must hold for all tensors.
        energy_pj: component -> pJ.
    """

    components: tuple[str, ...]
    accesses: Mapping[StorageNode, LevelAccesses]
    operations: Mapping[str, int]
    compute_steps: Mapping[str, int]
    peak: Mapping[StorageNode, int]
    peak_words: Mapping[int, int]
    energy_pj: Mapping[str, float]

    @property
    def total_energy_pj(self) -> float:
        """pJ of all components."""
        return sum(self.energy_pj.values())

    def to_dict(self) -> dict[str, Any]:
        """All numbers as plain values.

        Returns:
            accesses["component/tensor/layer"] with reads and writes, actions[component] with read, write or compute,
            ops[layer] with recomputation, compute_steps[layer], occupancy_max["component/tensor/layer"],
            capacity_peak_words[component], energy_pJ with total and every component.
        """
        return {
            "accesses": {self._name(storage): {"reads": count.reads, "writes": count.writes}
                         for storage, count in self.accesses.items()},
            "actions": actions(self.components, self.accesses, self.operations),
            "ops": dict(self.operations), "compute_steps": dict(self.compute_steps),
            "occupancy_max": {self._name(storage): words for storage, words in self.peak.items()},
            "capacity_peak_words": {self.components[level]: words for level, words in self.peak_words.items()},
            "energy_pJ": {"total": self.total_energy_pj} | dict(self.energy_pj),
        }

    def _name(self, storage: StorageNode) -> str:
        """The key component/tensor/layer."""
        return f"{self.components[storage.level]}/{storage.tensor}/{storage.einsum}"


def evaluate_fused(document: Mapping[str, Any] | str) -> FusedStats:
    """Computes LoopTree's counts for a fused mapping.

    Args:
        document: a `v4fused` input (problem, mapping, architecture, ERT), as a dict or as YAML text. Operations are
            enumerated one by one, so layers of up to some two million are accepted.

    Returns:
        Accesses, operations, steps, occupancy and energy.

    Raises:
        SpecError: a mistake in the input, with its place.
        FadiffError: the mapping is too large, or of a form that is not supported.
    """
    given = read_fused(document)
    tiles = tilings(given.chain, given.nodes)
    moved = movements(given.chain, given.nodes, tiles)
    counted = accesses(given.chain, given.nodes, moved)
    operations = {name: len(tile.operations) for name, tile in tiles.items()}
    return FusedStats(
        components=given.components, accesses=counted, operations=operations,
        compute_steps=_compute_steps(given, tiles), peak=_stored_peaks(moved, counted),
        peak_words=peak_words(given.nodes, moved),
        energy_pj=_energies(given, actions(given.components, counted, operations)))


def actions(components: tuple[str, ...], counted: Mapping[StorageNode, LevelAccesses],
            operations: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Actions of every component over all layers.

    Args:
        components: names of the levels, outermost first; the last one computes.
        counted: storage node -> words read and written.
        operations: layer -> operations.

    Returns:
        component -> read, write or compute -> count.
    """
    result: dict[str, dict[str, int]] = {}
    for storage, count in counted.items():
        row = result.setdefault(components[storage.level], {"read": 0, "write": 0})
        row["read"] += count.reads
        row["write"] += count.writes
    return result | {components[-1]: {"compute": sum(operations.values())}}


def _stored_peaks(moved: Mapping[StorageNode, Movement],
                  counted: Mapping[StorageNode, LevelAccesses]) -> dict[StorageNode, int]:
    """The most words at each storage node, without the arithmetic."""
    return {storage: moved[storage].peak for storage in counted}


def _compute_steps(given: FusedInput, tiles: Mapping[str, Tiling]) -> dict[str, int]:
    """Steps of every layer; operations side by side share one step."""
    result = {}
    for path in paths(given.nodes):
        in_order = [k for k, axis in enumerate(axes_of(path)) if axis.order is not StepOrder.SPATIAL]
        steps = tiles[leaf(path).einsum].steps[:, in_order]
        result[leaf(path).einsum] = len(np.unique(steps, axis=0))
    return result


def _energies(given: FusedInput, counts: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """pJ of every component: actions times the energy of an action. Raises FadiffError where one is missing."""
    result = {}
    for component, row in counts.items():
        table = given.energies.get(component, {})
        missing = [action for action, count in row.items() if count and action not in table]
        if missing:
            raise FadiffError(f'input: ERT.tables: "{component}" has no energy for {listed(missing)}; '
                              "accepted: a table with read and write for every level and compute for the last one")
        result[component] = sum(count * table[action] for action, count in row.items() if count)
    return result


MOST_ROWS = 1 << 21
"""Operations of one layer that are enumerated at most: a plain safety limit on memory, for which nothing
was measured (rows of seven ranks then take 117 MB)."""

MOST_CODES = 1 << 62
"""Pairs of a step and a word that have different codes, so that codes and their differences fit into int64."""


@dataclass(frozen=True)
class Box:
    """The points x with low[k] <= x[k] < low[k] + size[k].

    Attributes:
        low: the smallest value of each of the K columns.
        size: the number of values of each column.
    """

    low: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def points(self) -> int:
        """Number of points."""
        return math.prod(self.size)

    def encode(self, rows: np.ndarray) -> np.ndarray:
        """The code of every row, [N], of rows [N, K] that lie in the box."""
        code = np.zeros(len(rows), dtype=np.int64)
        for k, (low, size) in enumerate(zip(self.low, self.size, strict=True)):
            code = code * size + (rows[:, k] - low)
        return code

    def decode(self, code: np.ndarray) -> np.ndarray:
        """The rows, [N, K], of codes [N]."""
        rows = np.empty((len(code), len(self.size)), dtype=np.int64)
        for k in reversed(range(len(self.size))):
            code, rest = np.divmod(code, self.size[k])
            rows[:, k] = rest + self.low[k]
        return rows

    def take(self, columns: Sequence[int]) -> Box:
        """The box of some columns, in the given order."""
        return Box(tuple(self.low[k] for k in columns), tuple(self.size[k] for k in columns))


def paired(box: Box, rows: np.ndarray, second: np.ndarray, count: int) -> np.ndarray:
    """A code for each row together with a second number; codes sort by the row first.

    Args:
        box: a box around the rows.
        rows: [N, K], such as steps.
        second: [N], whole numbers below `count`, such as codes of words.
        count: number of values of `second`.

    Returns:
        Codes [N], from which `divmod(code, count)` gives the row's code and the second number.

    Raises:
        FadiffError: there are more pairs than `MOST_CODES`.
    """
    if box.points * count > MOST_CODES:
        raise FadiffError(f"the fused mapping spans {box.points * count:.1e} pairs of a step and a word; "
                          f"accepted: at most {MOST_CODES:.1e}")
    codes: np.ndarray = box.encode(rows) * count + second
    return codes


def box_of(ranges: Sequence[range]) -> Box:
    """The box of all vectors over these ranges."""
    return Box(tuple(values.start for values in ranges), tuple(len(values) for values in ranges))


def box_around(rows: np.ndarray) -> Box:
    """The smallest box around rows [N, K]; one point where there is no row."""
    if not len(rows):
        return Box((0,) * rows.shape[1], (1,) * rows.shape[1])
    low = rows.min(axis=0)
    return Box(tuple(int(v) for v in low), tuple(int(v) for v in rows.max(axis=0) - low + 1))


def all_rows(box: Box, what: str) -> np.ndarray:
    """Every point of a box, in the order of the codes.

    Args:
        box: the box.
        what: the owner of the points, for the message.

    Returns:
        Rows [N, K].

    Raises:
        FadiffError: there are more points than `MOST_ROWS`.
    """
    if box.points > MOST_ROWS:
        raise FadiffError(f"{what} has {box.points} operations; accepted: at most {MOST_ROWS} per layer")
    return box.decode(np.arange(box.points, dtype=np.int64))


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


class StepOrder(Enum):
    """Order of the steps of one loop or split.

    Attributes:
        TEMPORAL: steps of a temporal loop, one after the other.
        SEQUENTIAL: branches of a split, one after the other.
        PIPELINE: branches of a split as stages, at the same time.
        SPATIAL: steps of a spatial loop, each on a unit of its own.
    """

    TEMPORAL = "temporal"
    SEQUENTIAL = "sequential"
    PIPELINE = "pipeline"
    SPATIAL = "spatial"

    @property
    def in_time(self) -> bool:
        """True if one step ends before the next begins."""
        return self in (StepOrder.TEMPORAL, StepOrder.SEQUENTIAL)


@dataclass(frozen=True)
class PathAxis:
    """A loop or split on a path, an axis of the space of steps.

    Attributes:
        order: order of its steps.
        feeds: the level whose units a spatial loop lays out; None for all others.
    """

    order: StepOrder
    feeds: int | None = None


@dataclass(frozen=True)
class HeldWords:
    """Pairs of a step and a word that is held during it, each once.

    Attributes:
        axes: the K loops and splits that tell steps apart.
        steps: [N, K], one row per pair.
        word: [N], codes of words (`Box.encode`).
        words: number of codes, all of which are below it.
    """

    axes: tuple[PathAxis, ...]
    steps: np.ndarray
    word: np.ndarray
    words: int


@dataclass(frozen=True)
class Movement:
    """Words that move at one storage node, over the whole run.

    Attributes:
        peak: the most words that one unit holds at once.
        fills: words that arrive at all units.
        parent_reads: words read from the parent, each once for all units that get it in the same step.
        peer_reads: words taken from a neighbour.
    """

    peak: int
    fills: int
    parent_reads: int
    peer_reads: int


def axes_of(path: Path) -> tuple[PathAxis, ...]:
    """The loops and splits of a path, outermost first; a spatial loop lays out the units of the next level below it."""
    result = []
    for position, node in enumerate(path):
        if isinstance(node, Split):
            result.append(PathAxis(StepOrder.PIPELINE if node.pipelined else StepOrder.SEQUENTIAL))
        elif isinstance(node, Loop) and node.spatial:
            feeds = next(below.level for below in path[position:] if isinstance(below, Storage | Compute))
            result.append(PathAxis(StepOrder.SPATIAL, feeds))
        elif isinstance(node, Loop):
            result.append(PathAxis(StepOrder.TEMPORAL))
    return tuple(result)


def outer_axes(path: Path, level: int, tensor: str) -> list[int]:
    """The axes outside a storage node, along which its contents change.

    Args:
        path: the path of a layer.
        level: a level.
        tensor: a tensor that the path stores there.

    Returns:
        Positions among `axes_of(path)`. Temporal loops below the node are inside one of its steps. Spatial loops and
        splits count until the level's last node on the path is passed, since all tensors of a level are held by the
        same units.
    """
    last = max(position for position, node in enumerate(path) if isinstance(node, Storage) and node.level == level)
    own = next(position for position, node in enumerate(path)
               if isinstance(node, Storage) and node.level == level and tensor in node.tensors)
    result = []
    for axis, position in enumerate(position for position, node in enumerate(path) if isinstance(node, Loop | Split)):
        node = path[position]
        temporal = isinstance(node, Loop) and not node.spatial
        if position < (own if temporal else last):
            result.append(axis)
    return result


def held(axes: tuple[PathAxis, ...], kept: Sequence[int], steps: np.ndarray, word: np.ndarray, words: int) -> HeldWords:
    """Pairs of a step and a word when only some axes tell steps apart.

    Args:
        axes: all K loops and splits.
        kept: positions of the axes that remain.
        steps: [N, K].
        word: [N], codes of words, in any order and more than once.
        words: number of codes.
    """
    outer = HeldWords(tuple(axes[k] for k in kept), steps[:, kept], word, words)
    return _distinct(outer)


def movement(occupancy: HeldWords, level: int, *, reuse: bool = True) -> Movement:
    """The words that move at a storage node.

    Args:
        occupancy: the words that it holds at every step.
        level: its level, whose units spatial loops lay out.
        reuse: False for the arithmetic, to which every word comes anew at every step.
    """
    lasting = _without_idle_axes(occupancy) if reuse else occupancy
    fill = _arriving(lasting) if reuse else lasting
    from_peers = _at_a_neighbour(fill, lasting, level)
    from_parent = HeldWords(fill.axes, fill.steps[~from_peers], fill.word[~from_peers], fill.words)
    shared = [k for k, axis in enumerate(fill.axes) if not (axis.order is StepOrder.SPATIAL and axis.feeds == level)]
    peer_reads = int(from_peers.sum())
    return Movement(peak=_largest(lasting), fills=len(fill.word), peer_reads=peer_reads,
                    parent_reads=len(held(fill.axes, shared, from_parent.steps, from_parent.word, fill.words).word))


def _codes(pairs: HeldWords) -> np.ndarray:
    """The code of each pair, [N]."""
    return paired(box_around(pairs.steps), pairs.steps, pairs.word, pairs.words)


def _distinct(pairs: HeldWords) -> HeldWords:
    """Each pair once, sorted by step and word."""
    if len(pairs.word) == 0:
        return pairs
    _, first = np.unique(_codes(pairs), return_index=True)
    return HeldWords(pairs.axes, pairs.steps[first], pairs.word[first], pairs.words)


def _without_idle_axes(pairs: HeldWords) -> HeldWords:
    """Drops axes in time, from the innermost on, as long as the same words are held at every step along them."""
    for k in reversed(range(len(pairs.axes))):
        if not pairs.axes[k].order.in_time:
            continue
        others = [axis for axis in range(len(pairs.axes)) if axis != k]
        merged = held(pairs.axes, others, pairs.steps, pairs.word, pairs.words)
        # `merged` is the union over the axis: every step holds all of it just when the products agree.
        if _steps_times_words(pairs, others, merged) != len(pairs.word):
            return pairs
        pairs = merged
    return pairs


def _steps_times_words(pairs: HeldWords, others: Sequence[int], merged: HeldWords) -> int:
    """Pairs there would be if every step held all that any step with the same other axes holds."""
    around = box_around(pairs.steps)
    steps = around.decode(np.unique(around.encode(pairs.steps)))[:, others]
    grid = around.take(others)
    step, count = np.unique(grid.encode(merged.steps), return_counts=True)
    return int(count[np.searchsorted(step, grid.encode(steps))].sum())


def _arriving(pairs: HeldWords) -> HeldWords:
    """The pairs whose word the same unit did not hold in the step before; words that have to come."""
    in_time = [k for k, axis in enumerate(pairs.axes) if axis.order.in_time]
    if not in_time:
        return pairs
    beside = [k for k in range(len(pairs.axes)) if k not in in_time]
    around = box_around(pairs.steps)
    # Moments are numbered without gaps, so that the step before has the number before even across loops.
    _, moment = np.unique(around.take(in_time).encode(pairs.steps[:, in_time]), return_inverse=True)
    unit = around.take(beside)
    code = moment * unit.points * pairs.words + paired(unit, pairs.steps[:, beside], pairs.word, pairs.words)
    new = ~np.isin(code - unit.points * pairs.words, code)
    return HeldWords(pairs.axes, pairs.steps[new], pairs.word[new], pairs.words)


def _at_a_neighbour(fill: HeldWords, occupancy: HeldWords, level: int) -> np.ndarray:
    """True where a unit next to the receiver held the word one step of the innermost other axis earlier, [N]."""
    at_neighbour = np.zeros(len(fill.word), dtype=bool)
    spatial = [k for k, axis in enumerate(fill.axes) if axis.order is StepOrder.SPATIAL and axis.feeds == level]
    others = [k for k in range(len(fill.axes)) if k not in spatial]
    if not spatial or not any(axis.order is StepOrder.TEMPORAL for axis in fill.axes) or not len(fill.word):
        return at_neighbour
    if len(spatial) > 2:
        raise FadiffError(f"{len(spatial)} spatial loops lay out the units of level {level}; accepted: at most 2")
    around = box_around(occupancy.steps)
    there = _codes(occupancy)
    for axis, direction in product(spatial, (-1, 1)):
        sender = fill.steps.copy()
        sender[:, axis] += direction
        sender[:, others[-1]] -= 1
        inside = ((sender >= around.low) & (sender < np.add(around.low, around.size))).all(axis=1)
        at_neighbour |= inside & np.isin(paired(around, sender, fill.word, fill.words), there)
    return at_neighbour


def _largest(pairs: HeldWords) -> int:
    """Most words that one unit holds in one step."""
    if not len(pairs.word):
        return 0
    _, count = np.unique(box_around(pairs.steps).encode(pairs.steps), return_counts=True)
    return int(count.max())


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
