"""The least traffic between levels, weighted by price: every joint tile of a level is tried.

Why these are bounds. Let T be the joint tile of a level, V the product of all temporal loops outside it, and d the
innermost of these loops that runs more than once. A data space that d moves by itself (in a rank of its own) touches
other words at every step, of this loop and of all outside it; so all words of the joint tile are sent V times. So
are those of a data space that is kept at a level further in whose instances together cannot hold what the joint
tile touches: then a loop inside the tile moves it, and Timeloop sends it again for every loop outside that one. In
all other cases each distinct word is sent at least once. Which loop is innermost is common to all data spaces, and
so is the tile: it must hold what the level keeps. That is the trade-off behind the bounds of Hong and Kung (1981);
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

from fadiff_mapper.analysis.lower_bound.frontier import undominated
from fadiff_mapper.analysis.lower_bound.parallel import most_instances, separating
from fadiff_mapper.analysis.lower_bound.tiles import JointTiles, joint_tiles, touched_words
from fadiff_mapper.mapspace import MapSpace

Keepers = tuple[tuple[int, ...], ...]
"""For each data space the levels that keep it, innermost first."""


@dataclass(frozen=True)
class BoundGround:
    """What the traffic bounds of one map space need, computed once.

    touched [T]: distinct words of each data space; instances [L]: instances of each level that can be in use;
    moving [T]: dimension indices that move a data space by themselves; windowed [T]: whether several dimensions of
    bounds above 1 share a rank; tiles by level (None where there are too many).
    """

    space: MapSpace
    touched: np.ndarray
    instances: np.ndarray
    moving: tuple[frozenset[int], ...]
    windowed: tuple[bool, ...]
    tiles: tuple[JointTiles | None, ...]


def ground_of(space: MapSpace) -> BoundGround:
    """Tiles and words of a map space."""
    problem = space.problem
    levels = range(len(space.levels))
    index = {name: d for d, name in enumerate(problem.dimensions)}
    ranks = [[[term.dimension for term in rank if problem.bounds[term.dimension] > 1] for rank in ds.ranks]
             for ds in problem.dataspaces]
    bounded = [space.architecture.levels[level].usable is not None for level in levels]
    return BoundGround(
        space, np.array([touched_words(ds, problem.bounds) for ds in problem.dataspaces]),
        np.array([most_instances(space, level) for level in levels], dtype=np.float64),
        tuple(frozenset(index[rank[0]] for rank in some if len(rank) == 1) for some in ranks),
        tuple(any(len(rank) > 1 for rank in some) for some in ranks),
        tuple(tiles if there else None for tiles, there in zip(joint_tiles(space), bounded, strict=True)))


def capacity(ground: BoundGround, level: int) -> float:
    """Words that all instances of a level can hold together."""
    usable = ground.space.architecture.levels[level].usable
    return float("inf") if usable is None else usable * float(ground.instances[level])


@dataclass(frozen=True)
class BoundaryTraffic:
    """What travels between levels under one choice of what is kept, and every amount of it worth considering.

    K crossings, the innermost receiver first: data space, receiving and sending level [K]. `tops` are the levels that
    receive; `ends` [len(tops)]: how many of the crossings lie at or within each; `words` for each of them [k, F]:
    words received by those crossings, in F alternatives. Whatever a mapping sends, one of them is at most that.
    """

    tensor: np.ndarray
    inner: np.ndarray
    outer: np.ndarray
    tops: tuple[int, ...]
    ends: tuple[int, ...]
    words: tuple[np.ndarray, ...]


def crossings_of(ground: BoundGround, keepers: Keepers) -> BoundaryTraffic:
    """The crossings of a choice of what is kept, with their alternatives on the joint tiles of every level."""
    rows = sorted((inner, t, outer) for t, kept in enumerate(keepers) for inner, outer in pairwise(kept))
    tops = sorted({inner for inner, _, _ in rows})
    ends = [sum(inner <= top for inner, _, _ in rows) for top in tops]
    words = tuple(_alternatives(ground, keepers, [(t, inner) for inner, t, _ in rows[:end]], top)
                  for top, end in zip(tops, ends, strict=True))
    inner, tensor, outer = np.array(rows, dtype=np.intp).reshape(-1, 3).T
    return BoundaryTraffic(tensor, inner, outer, tuple(tops), tuple(ends), words)


def cheapest(crossings: BoundaryTraffic, cost: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Words of every crossing [K] such that the sum of their costs is a lower bound for every mapping.

    `cost` gives the cost of words [k, F] for the first k crossings; more words never cost less. Receiving levels are
    taken together in runs, each priced on the joint tiles of its outermost level; the best division into runs counts.
    A single entry of the result is no bound by itself.
    """
    starts = (0, *crossings.ends)
    best = [(0.0, np.zeros(0))]
    for end, words in enumerate(crossings.words):
        costs, options = cost(words), []
        for start in range(end + 1):
            total = costs[starts[start]:].sum(axis=0)
            at = int(total.argmin())
            before = best[start]
            options.append((before[0] + float(total[at]), np.append(before[1], words[starts[start]:, at])))
        best.append(max(options, key=lambda option: option[0]))
    return best[-1][1]


def _alternatives(ground: BoundGround, keepers: Keepers, keys: Sequence[tuple[int, int]], top: int) -> np.ndarray:
    """Words [K, F] of each (tensor, level) for the joint tiles of `top` and the loops around them; those that need at
    least as many as another in every row are left out."""
    once = np.array([[ground.touched[t]] for t, _ in keys])
    tiles = ground.tiles[top]
    if tiles is None:
        return once
    kept = [t for t, levels in enumerate(keepers) if top in levels]
    fits = tiles.words[kept].sum(axis=0) <= capacity(ground, top) * (1 + 1e-12)
    if not fits.any() or (fits & (tiles.visits == 1)).any():  # nothing is known, or everything fits at once
        return once
    tiles = JointTiles(tiles.words[:, fits], tiles.steps[:, fits], tiles.visits[fits])
    moved = np.stack([np.maximum(tiles.words[t] * tiles.visits, ground.touched[t]) for t, _ in keys])
    still = np.stack([_still(ground, tiles, key, top, row) for key, row in zip(keys, moved, strict=True)])
    found = []
    for d, steps in enumerate(tiles.steps):
        some = np.flatnonzero(steps > 1)
        if len(some):
            rows = [moved[k, some] if d in ground.moving[t] else
                    _slid(ground, tiles, t, level, d, some) if level == top and ground.windowed[t] else still[k, some]
                    for k, (t, level) in enumerate(keys)]
            found.append(undominated(np.stack(rows)))
    return undominated(np.concatenate(found, axis=1))


def _still(ground: BoundGround, tiles: JointTiles, key: tuple[int, int], top: int, moved: np.ndarray) -> np.ndarray:
    """Words of one data space sent to one level where the innermost loop outside the joint tile does not move it."""
    tensor, level = key
    once = np.full_like(moved, ground.touched[tensor])
    if level == top or ground.windowed[tensor]:
        return once
    return np.where(tiles.words[tensor] > capacity(ground, level), moved, once)


def _slid(ground: BoundGround, tiles: JointTiles, tensor: int, level: int, d: int, chosen: np.ndarray) -> np.ndarray:
    """Words of one data space sent to a level, for some of its joint tiles, where loop `d` outside may slide it."""
    new = _new_share(ground, tiles, tensor, level, d, chosen)
    sent = tiles.words[tensor, chosen] * (1 + (tiles.visits[chosen] - 1) * new)
    result: np.ndarray = np.maximum(sent, ground.touched[tensor])
    return result


def _new_share(ground: BoundGround, tiles: JointTiles, tensor: int, level: int, d: int,
               chosen: np.ndarray) -> np.ndarray:
    """The least share of a tile that is new at every step where loop `d` slides a window; 0 where none is proven.

    Only where no spatial loop cuts the window up. Every call that loop `d` makes finds the window one step further
    on; those are at least half of all. So do all others where no other loop outside moves the window's rank: it is
    then at least one step of `d` away from where the call before left it.
    """
    space = ground.space
    names, bounds = space.problem.dimensions, space.problem.bounds
    ranks = [rank for rank in space.problem.dataspaces[tensor].ranks if names[d] in {term.dimension for term in rank}]
    terms = {term.dimension: term.coefficient for rank in ranks for term in rank if bounds[term.dimension] > 1}
    whole = all(max(here.spatial.choices[name], default=1) == 1 for here in space.levels[level + 1:] for name in terms)
    once_each = sum(bounds[term.dimension] > 1 for rank in ranks for term in rank) == len(terms)
    if len(ranks) != 1 or names[d] not in terms or not once_each or not whole:
        return np.zeros(len(chosen))
    points = {name: bounds[name] / tiles.steps[names.index(name)][chosen] for name in terms}
    extent = 1 + sum((c * (points[name] - 1) for name, c in terms.items()), np.zeros(len(chosen)))
    alone = np.all([points[name] == bounds[name] for name in terms if name != names[d]], axis=0)
    result: np.ndarray = np.minimum(1.0, terms[names[d]] * points[names[d]] / extent) * np.where(alone, 1.0, 0.5)
    return result


def unshared(ground: BoundGround, tensor: int, level: int, outer: int) -> float:
    """By how much windows that lie next to each other in space may shrink the words that `outer` sends to `level`.

    1 unless a level in between, which hands the traffic on, spreads several dimensions of one rank.
    """
    if not ground.windowed[tensor]:
        return 1.0
    shrink = 1
    for between in range(level + 2, outer + 1):
        choices, apart = ground.space.levels[between].spatial.choices, separating(ground.space, between, tensor)
        for name in ground.space.problem.dataspaces[tensor].dimensions - apart:
            shrink *= max(choices[name], default=1)
    return float(shrink)
