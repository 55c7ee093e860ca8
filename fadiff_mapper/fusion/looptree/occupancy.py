"""What a storage node holds at every step, and what has to move for it.

As in LoopTree: a node holds the words of its tensor that the operations below it touch until its outer loops
advance. A loop that changes nothing of what is held leaves it there. Beyond that, only the step just before is
remembered. Units side by side share what comes from the parent, and take from a neighbour what it held one step
earlier.
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
    """How the steps of one loop or split follow one another."""

    TEMPORAL = "temporal"
    SEQUENTIAL = "sequential"
    PIPELINE = "pipeline"
    SPATIAL = "spatial"

    @property
    def in_time(self) -> bool:
        return self in (StepOrder.TEMPORAL, StepOrder.SEQUENTIAL)


@dataclass(frozen=True)
class PathAxis:
    """One loop or split on a path. `feeds` is the level whose units a spatial loop lays out, else None."""

    kind: StepOrder
    feeds: int | None = None


@dataclass(frozen=True)
class HeldWords:
    """Pairs of a step [N, axes] and a word [N] (a code below `words`), each once."""

    axes: tuple[PathAxis, ...]
    steps: np.ndarray
    word: np.ndarray
    words: int


@dataclass(frozen=True)
class Movement:
    """Totals in words over the whole run.

    peak: largest number held by one unit. fills: words that arrive at all units. parent_reads: words read from
    the parent, each once for all units that get it in the same step. peer_reads: words taken from a neighbour.
    """

    peak: int
    fills: int
    parent_reads: int
    peer_reads: int


def axes_of(path: Path) -> tuple[PathAxis, ...]:
    """The loops and splits of a path. A spatial loop lays out the units of the next level below it."""
    result = []
    for place, node in enumerate(path):
        if isinstance(node, Split):
            result.append(PathAxis(StepOrder.PIPELINE if node.pipelined else StepOrder.SEQUENTIAL))
        elif isinstance(node, Loop) and node.spatial:
            feeds = next(below.level for below in path[place:] if isinstance(below, Storage | Compute))
            result.append(PathAxis(StepOrder.SPATIAL, feeds))
        elif isinstance(node, Loop):
            result.append(PathAxis(StepOrder.TEMPORAL))
    return tuple(result)


def outer_axes(path: Path, level: int, tensor: str) -> list[int]:
    """Positions among `axes_of(path)` that tell apart what the node of a tensor in a level holds.

    Temporal loops below the node are inside one of its steps. Spatial loops and splits count until the level's last
    node on the path is passed.
    """
    last = max(place for place, node in enumerate(path) if isinstance(node, Storage) and node.level == level)
    own = next(place for place, node in enumerate(path)
               if isinstance(node, Storage) and node.level == level and tensor in node.tensors)
    result = []
    for axis, place in enumerate(place for place, node in enumerate(path) if isinstance(node, Loop | Split)):
        node = path[place]
        temporal = isinstance(node, Loop) and not node.spatial
        if place < (own if temporal else last):
            result.append(axis)
    return result


def held(axes: tuple[PathAxis, ...], kept: Sequence[int], steps: np.ndarray, word: np.ndarray, words: int) -> HeldWords:
    """The pairs that remain of (step, word) when only the axes in `kept` tell steps apart."""
    outer = HeldWords(tuple(axes[k] for k in kept), steps[:, kept], word, words)
    return _distinct(outer)


def movement(occupancy: HeldWords, level: int, *, reuse: bool = True) -> Movement:
    """What the node of a level moves; without `reuse` (the arithmetic) every word comes anew at every step."""
    lasting = _without_idle_axes(occupancy) if reuse else occupancy
    fill = _arriving(lasting) if reuse else lasting
    from_peers = _at_a_neighbour(fill, lasting, level)
    from_parent = HeldWords(fill.axes, fill.steps[~from_peers], fill.word[~from_peers], fill.words)
    shared = [k for k, axis in enumerate(fill.axes) if not (axis.kind is StepOrder.SPATIAL and axis.feeds == level)]
    peer_reads = int(from_peers.sum())
    return Movement(peak=_largest(lasting), fills=len(fill.word), peer_reads=peer_reads,
                    parent_reads=len(held(fill.axes, shared, from_parent.steps, from_parent.word, fill.words).word))


def _codes(pairs: HeldWords) -> np.ndarray:
    """The code of each (step, word) pair."""
    return paired(box_around(pairs.steps), pairs.steps, pairs.word, pairs.words)


def _distinct(pairs: HeldWords) -> HeldWords:
    if len(pairs.word) == 0:
        return pairs
    _, first = np.unique(_codes(pairs), return_index=True)
    return HeldWords(pairs.axes, pairs.steps[first], pairs.word[first], pairs.words)


def _without_idle_axes(pairs: HeldWords) -> HeldWords:
    """Drops the inner axes in time along which the same words are held at every step there is."""
    for k in reversed(range(len(pairs.axes))):
        if not pairs.axes[k].kind.in_time:
            continue
        others = [axis for axis in range(len(pairs.axes)) if axis != k]
        merged = held(pairs.axes, others, pairs.steps, pairs.word, pairs.words)
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
    """The pairs whose word the same unit did not hold in the step before."""
    in_time = [k for k, axis in enumerate(pairs.axes) if axis.kind.in_time]
    if not in_time:
        return pairs
    beside = [k for k in range(len(pairs.axes)) if k not in in_time]
    around = box_around(pairs.steps)
    _, moment = np.unique(around.take(in_time).encode(pairs.steps[:, in_time]), return_inverse=True)
    unit = around.take(beside)
    code = moment * unit.points * pairs.words + paired(unit, pairs.steps[:, beside], pairs.word, pairs.words)
    new = ~np.isin(code - unit.points * pairs.words, code)
    return HeldWords(pairs.axes, pairs.steps[new], pairs.word[new], pairs.words)


def _at_a_neighbour(fill: HeldWords, occupancy: HeldWords, level: int) -> np.ndarray:
    """Whether a unit next to the receiver held the word one step of the innermost other axis earlier, [N]."""
    found = np.zeros(len(fill.word), dtype=bool)
    spatial = [k for k, axis in enumerate(fill.axes) if axis.kind is StepOrder.SPATIAL and axis.feeds == level]
    others = [k for k in range(len(fill.axes)) if k not in spatial]
    if not spatial or not any(axis.kind is StepOrder.TEMPORAL for axis in fill.axes) or not len(fill.word):
        return found
    if len(spatial) > 2:
        raise FadiffError(f"{len(spatial)} spatial loops lay out the units of level {level}; accepted: at most 2")
    around = box_around(occupancy.steps)
    there = _codes(occupancy)
    for axis, way in product(spatial, (-1, 1)):
        sender = fill.steps.copy()
        sender[:, axis] += way
        sender[:, others[-1]] -= 1
        inside = ((sender >= around.low) & (sender < np.add(around.low, around.size))).all(axis=1)
        found |= inside & np.isin(paired(around, sender, fill.word, fill.words), there)
    return found


def _largest(pairs: HeldWords) -> int:
    """Most words in one step."""
    if not len(pairs.word):
        return 0
    _, count = np.unique(box_around(pairs.steps).encode(pairs.steps), return_counts=True)
    return int(count.max())
