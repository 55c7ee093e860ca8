"""Words that one storage node holds at every step, and the words that move for it.

LoopTree's rules. A node holds the words of its tensor that the operations below it touch until its outer loops advance.
A loop along which the same words are held at every step leaves them there. Beyond that, only the step just before is
remembered: a word held then is not fetched again, a word held two steps earlier is. Units side by side share each word
from the parent in one step (multicast), and take words from a neighbour that held them one step earlier.

Method. Occupancy is a relation between steps and words, one row per pair (`HeldWords`); the rules above are set
operations on codes of the pairs (`boxes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import product

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.looptree.boxes import box_around, paired
from fadiff_mapper.fusion.looptree.chain import Compute, Loop, Path, Split, Storage


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
