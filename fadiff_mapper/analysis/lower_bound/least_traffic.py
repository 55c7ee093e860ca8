"""The least traffic between levels, weighted by price: every joint tile of a level is tried.

Why these are bounds. Let T be the joint tile of a level, V the product of all temporal loops outside it, and d the
innermost of these loops that runs more than once. A data space that d moves by itself (in a rank of its own) touches
other words at every step, of this loop and of all outside it; so all words of the joint tile are sent V times. So
are those of a data space that is kept at a level further in whose instances together cannot hold what the joint
tile touches: then a loop inside the tile moves it, and Timeloop sends it again for every loop outside that one. In
all other cases each distinct word is sent at least once. The innermost loop is common to all data spaces, and so
is the tile, which must hold all that the level keeps. This trade-off underlies the bounds of Hong and Kung (1981);
here the minimum is taken over the tiles themselves, so that no constant is lost.

Neighbouring windows: the calls of a window deliver at least the union of its tiles. By induction over the loops:
loop s repeats what is inside it n - 1 times, each time delivering the tile minus what the call before delivered, and
the union of the shifted tiles has at most that many new words. Links between neighbours only move words that some
call before delivered. Where d slides a window, a share of the tile is new at every step (see `_new_share`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fadiff_mapper.analysis.lower_bound.frontier import merged, undominated
from fadiff_mapper.analysis.lower_bound.parallel import Spread, most_instances, spread_of
from fadiff_mapper.analysis.lower_bound.tiles import JointTiles, joint_tiles, touched_words
from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.spec.problem import extent_along

Keepers = tuple[tuple[int, ...], ...]
"""For each data space the levels that keep it, innermost first; none for one that is left out of the bound."""


@dataclass(frozen=True)
class BoundInputs:
    """Quantities of one map space that all its traffic bounds start from, computed once.

    Attributes:
        space: The map space.
        touched: Distinct words of each data space that the problem touches at least, [T].
        instances: Instances of each level that can be in use, [L].
        moving: For each data space the indices of the dimensions that move it by themselves (in a rank of their own).
        windowed: For each data space whether several dimensions of bounds above 1 share a rank.
        tiles: For each level its joint tiles; None where there are too many, or where the level has no capacity.
        spread: The reach of the spatial loops.
    """

    space: MapSpace
    touched: np.ndarray
    instances: np.ndarray
    moving: tuple[frozenset[int], ...]
    windowed: tuple[bool, ...]
    tiles: tuple[JointTiles | None, ...]
    spread: Spread


def bound_inputs(space: MapSpace, tiled: bool = True) -> BoundInputs:
    """The quantities of a map space that its traffic bounds start from, without joint tiles unless `tiled`."""
    problem = space.problem
    levels = range(len(space.levels))
    index = {name: d for d, name in enumerate(problem.dimensions)}
    ranks = [[[term.dimension for term in rank if problem.bounds[term.dimension] > 1] for rank in ds.ranks]
             for ds in problem.dataspaces]
    bounded = [tiled and space.architecture.levels[level].usable is not None for level in levels]
    return BoundInputs(
        space, np.array([touched_words(ds, problem.bounds) for ds in problem.dataspaces]),
        np.array([most_instances(space, level) for level in levels], dtype=np.float64),
        tuple(frozenset(index[rank[0]] for rank in own if len(rank) == 1) for own in ranks),
        tuple(any(len(rank) > 1 for rank in own) for own in ranks),
        tuple(tiles if limited else None for tiles, limited in zip(joint_tiles(space), bounded, strict=True))
        if tiled else (None,) * len(bounded),
        spread_of(space))


def capacity(inputs: BoundInputs, level: int) -> float:
    """Words that all instances of a level can hold together; infinite where the level has no capacity."""
    usable = inputs.space.architecture.levels[level].usable
    return float("inf") if usable is None else usable * float(inputs.instances[level])


@dataclass(frozen=True)
class BoundaryTraffic:
    """The least traffic between levels under one choice of the data spaces kept, as alternatives.

    A crossing is one data space between two levels that keep it, with none between them that does. For every legal
    mapping some column of `words` is component-wise at most what it sends, so the cheapest column is a lower bound.

    Attributes:
        tensor: The data space of each of C crossings, the innermost receiver first, [C].
        inner: The level that receives it, [C].
        outer: The level that sends it, [C].
        tops: The levels that receive anything, innermost first.
        ends: For each of them the number of crossings that lie at or within it.
        words: For each of them the words received by those crossings in F alternatives, [c, F] with c from `ends`.
        once: Words of the crossing's data space that the problem touches, [C].
        unshared: The factor by which neighbouring windows may shrink the words, [C].
    """

    tensor: np.ndarray
    inner: np.ndarray
    outer: np.ndarray
    tops: tuple[int, ...]
    ends: tuple[int, ...]
    words: tuple[np.ndarray, ...]
    once: np.ndarray
    unshared: np.ndarray


def crossings_of(inputs: BoundInputs, keepers: Keepers) -> BoundaryTraffic:
    """The crossings of a choice of the data spaces kept, with their alternatives on the joint tiles of every level."""
    rows = sorted((inner, t, outer) for t, kept in enumerate(keepers) for inner, outer in pairwise(kept))
    tops = sorted({inner for inner, _, _ in rows})
    ends = [sum(inner <= top for inner, _, _ in rows) for top in tops]
    words = tuple(_alternatives(inputs, keepers, [(t, inner) for inner, t, _ in rows[:end]], top)
                  for top, end in zip(tops, ends, strict=True))
    inner, tensor, outer = np.array(rows, dtype=np.intp).reshape(-1, 3).T
    return BoundaryTraffic(tensor, inner, outer, tuple(tops), tuple(ends), words, inputs.touched[tensor],
                           np.array([unshared(inputs, t, level, above) for level, t, above in rows]))


def cheapest(crossings: BoundaryTraffic, cost: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Words of every crossing such that the sum of their costs is a lower bound for every mapping.

    The alternatives of one level's joint tiles bound the crossings at and within that level together. Crossings of
    disjoint runs of levels may be bounded apart, each run on the tiles of its outermost level, and the sums added;
    the division into runs with the highest sum is taken, found by dynamic programming over the levels.

    Args:
        crossings: The crossings and their alternatives.
        cost: From words [c, F] of the first c crossings to their costs, of the same shape; more words never cost less.

    Returns:
        Words, [C]; a single entry is no bound by itself.
    """
    starts = (0, *crossings.ends)
    sums, picks = [0.0], list[tuple[int, int]]()  # by the end of a run: its start and the column of its alternatives
    for end, words in enumerate(crossings.words):
        costs, options = cost(words), []
        for start in range(end + 1):
            total = costs[starts[start]:].sum(axis=0)
            at = int(total.argmin())
            options.append((sums[start] + float(total[at]), start, at))
        most, start, at = max(options, key=lambda option: option[0])
        sums.append(most)
        picks.append((start, at))
    result, end = np.empty(len(crossings.tensor)), len(picks)
    while end:
        start, at = picks[end - 1]
        result[starts[start]:starts[end]] = crossings.words[end - 1][starts[start]:, at]
        end = start
    return result


def _alternatives(inputs: BoundInputs, keepers: Keepers, keys: Sequence[tuple[int, int]], top: int) -> np.ndarray:
    """Words of some crossings for the joint tiles of a level and the innermost loop outside them.

    Args:
        inputs: The quantities of the map space.
        keepers: The levels that keep each data space.
        keys: Data space and receiving level of each of c crossings, all at or within `top`.
        top: The level whose joint tiles are tried.

    Returns:
        Words, [c, F]; alternatives that need at least as many as another one in every row are left out.
    """
    once = np.array([[inputs.touched[t]] for t, _ in keys])
    tiles = inputs.tiles[top]
    if tiles is None:
        return once
    kept = [t for t, levels in enumerate(keepers) if top in levels]
    fits = tiles.words[kept].sum(axis=0) <= capacity(inputs, top) * (1 + 1e-12)
    if not fits.any() or (fits & (tiles.visits == 1)).any():  # nothing is known, or everything fits at once
        return once
    tiles = tiles.take(np.flatnonzero(fits))
    by_tensor = {t: np.maximum(tiles.words[t] * tiles.visits, inputs.touched[t]) for t in {t for t, _ in keys}}
    moved = [by_tensor[t] for t, _ in keys]
    stationary = [_stationary(inputs, tiles, key, top, row) for key, row in zip(keys, moved, strict=True)]
    alternatives = []
    for d, runs in _innermost_loops(inputs, tiles, keys, top):
        chosen = np.flatnonzero(runs)
        if len(chosen):
            rows = np.empty((len(keys), len(chosen)))
            for row, (t, level), far, near in zip(rows, keys, moved, stationary, strict=True):
                if d in inputs.moving[t]:
                    far.take(chosen, out=row, mode="clip")  # other modes copy once more
                elif level == top and inputs.windowed[t]:
                    row[:] = _sliding(inputs, tiles, t, level, d, chosen)
                else:
                    row[:] = near if isinstance(near, float) else near.take(chosen)
            alternatives.append(undominated(rows))
    return undominated(merged(np.concatenate([merged(each) for each in alternatives], axis=1)))


def _innermost_loops(inputs: BoundInputs, tiles: JointTiles, keys: Sequence[tuple[int, int]],
                     top: int) -> list[tuple[int, np.ndarray]]:
    """Loops that may be the innermost one of several iterations outside a level's joint tiles.

    Returns:
        Dimensions, and for which joint tiles the loop may be that one, [N]. Loops that move the same data spaces and
        slide none bring equal words; the first one stands for all of them.
    """
    alike: dict[tuple[object, ...], tuple[int, np.ndarray]] = {}
    for d, runs in enumerate(tiles.runs):
        moves = tuple(d in inputs.moving[t] for t, _ in keys)
        slides = any(level == top and inputs.windowed[t] and not moving
                     for (t, level), moving in zip(keys, moves, strict=True))
        kind = (*moves, d if slides else None)
        first, others = alike.get(kind, (d, runs))
        alike[kind] = first, others | runs
    return list(alike.values())


def _stationary(inputs: BoundInputs, tiles: JointTiles, key: tuple[int, int], top: int,
                moved: np.ndarray) -> np.ndarray | float:
    """Words of one data space sent to one level where the innermost loop outside the joint tile does not move it.

    Every word once; or as if it moved (`moved` [N]), where a level further in cannot hold what the joint tile touches.

    Returns:
        A number for all tiles, or one for each, [N].
    """
    tensor, level = key
    once = float(inputs.touched[tensor])
    if level == top or inputs.windowed[tensor]:
        return once
    return np.where(tiles.words[tensor] > capacity(inputs, level), moved, once)


def _sliding(inputs: BoundInputs, tiles: JointTiles, tensor: int, level: int, d: int,
             chosen: np.ndarray) -> np.ndarray:
    """Words of one data space sent to a level, for some of its joint tiles, where loop `d` outside may slide it.

    The first step sends the whole tile, each other one at least the share of it that is new.
    """
    new = _new_share(inputs, tiles, tensor, level, d, chosen)
    sent = tiles.words[tensor, chosen] * (1 + (tiles.visits[chosen] - 1) * new)
    result: np.ndarray = np.maximum(sent, inputs.touched[tensor])
    return result


def _new_share(inputs: BoundInputs, tiles: JointTiles, tensor: int, level: int, d: int,
               chosen: np.ndarray) -> np.ndarray:
    """The least share of a tile that is new at every step where loop `d` slides a window.

    Only where no spatial loop cuts the window up. Every call that loop `d` makes finds the window one step further
    on; such calls are at least half of all, so half of the share is certain. All of it is where no other loop
    outside moves the window's rank: each other call, too, finds the window at least one step of `d` away from where
    the call before left it.

    Args:
        inputs: The quantities of the map space.
        tiles: The joint tiles of the level.
        tensor: The data space.
        level: The level that receives it.
        d: The dimension of the innermost loop outside.
        chosen: The joint tiles asked about, [N].

    Returns:
        Shares, [N]; 0 where none is proven, and where tiles stand in groups, whose points are not known.
    """
    space = inputs.space
    names, bounds = space.problem.dimensions, space.problem.bounds
    ranks = [rank for rank in space.problem.dataspaces[tensor].ranks if names[d] in {term.dimension for term in rank}]
    terms = {term.dimension: term.coefficient for rank in ranks for term in rank if bounds[term.dimension] > 1}
    whole = all(widest[name] == 1 for widest in inputs.spread.widest[level + 1:] for name in terms)
    once_each = sum(bounds[term.dimension] > 1 for rank in ranks for term in rank) == len(terms)
    if not tiles.single or len(ranks) != 1 or names[d] not in terms or not once_each or not whole:
        return np.zeros(len(chosen))
    points = {name: bounds[name] / tiles.steps_along(names.index(name), chosen) for name in terms}
    extent = extent_along([term for term in ranks[0] if term.dimension in terms], points)
    alone = np.all([points[name] == bounds[name] for name in terms if name != names[d]], axis=0)
    result: np.ndarray = np.minimum(1.0, terms[names[d]] * points[names[d]] / extent) * np.where(alone, 1.0, 0.5)
    return result


def unshared(inputs: BoundInputs, tensor: int, level: int, outer: int) -> float:
    """The factor by which neighbouring windows may shrink the words that one level sends to another.

    Receivers whose windows overlap share words. The bound then divides by the whole width of the fan-outs in between
    that hand the traffic on and spread several dimensions of one rank.

    Args:
        inputs: The quantities of the map space.
        tensor: The data space.
        level: The level that receives; -1 is the arithmetic.
        outer: The level that sends.

    Returns:
        At least 1; 1 for a data space without windows.
    """
    if not inputs.windowed[tensor]:
        return 1.0
    shrink = 1
    for between in range(level + 2, outer + 1):
        widest, apart = inputs.spread.widest[between], inputs.spread.apart[between][tensor]
        for name in inputs.space.problem.dataspaces[tensor].dimensions - apart:
            shrink *= widest[name]
    return float(shrink)
