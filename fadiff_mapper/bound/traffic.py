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

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fadiff_mapper.bound.parallel import most_instances, separating
from fadiff_mapper.bound.tiles import JointTiles, joint_tiles, touched_words
from fadiff_mapper.mapspace import MapSpace

Keepers = tuple[tuple[int, ...], ...]
"""For each data space the levels that keep it, innermost first."""


@dataclass(frozen=True)
class Ground:
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


def ground_of(space: MapSpace) -> Ground:
    """Tiles and words of a map space."""
    problem = space.problem
    levels = range(len(space.levels))
    index = {name: d for d, name in enumerate(problem.dimensions)}
    ranks = [[[term.dimension for term in rank if problem.bounds[term.dimension] > 1] for rank in ds.ranks]
             for ds in problem.dataspaces]
    bounded = [space.architecture.levels[level].usable is not None for level in levels]
    return Ground(
        space, np.array([touched_words(ds, problem.bounds) for ds in problem.dataspaces]),
        np.array([most_instances(space, level) for level in levels], dtype=np.float64),
        tuple(frozenset(index[rank[0]] for rank in some if len(rank) == 1) for some in ranks),
        tuple(any(len(rank) > 1 for rank in some) for some in ranks),
        tuple(joint_tiles(space, level) if bounded[level] else None for level in levels))


def capacity(ground: Ground, level: int) -> float:
    """Words that all instances of a level can hold together."""
    usable = ground.space.architecture.levels[level].usable
    return float("inf") if usable is None else usable * float(ground.instances[level])


def least_traffic(ground: Ground, keepers: Keepers, price: np.ndarray) -> dict[tuple[int, int], float]:
    """Words sent to each level that keeps a data space from the next one further out: (tensor, level) -> words.

    `price` [T, L] says what a word costs; the sum of price * words over the result is a lower bound of that sum
    for every mapping, though a single entry need not be one. Levels are taken together in runs, each priced on the
    joint tiles of its outermost level; the best division into runs counts.
    """
    crossings = [(t, level) for t, kept in enumerate(keepers) for level, _ in pairwise(kept)]
    levels = sorted({level for _, level in crossings})
    best: list[tuple[float, dict[tuple[int, int], float]]] = [(0.0, {})]
    for end, top in enumerate(levels):
        options = []
        for start in range(end + 1):
            run = [(t, level) for t, level in crossings if level in levels[start:end + 1]]
            before = best[start]
            words = _on_tiles(ground, keepers, run, top, price)
            options.append((before[0] + sum(price[key] * value for key, value in words.items()), before[1] | words))
        best.append(max(options, key=lambda option: option[0]))
    return best[-1][1]


def _on_tiles(ground: Ground, keepers: Keepers, run: Sequence[tuple[int, int]], top: int,
              price: np.ndarray) -> dict[tuple[int, int], float]:
    """The traffic of a run of levels for the joint tile of its outermost level `top` that costs least."""
    compulsory = {key: float(ground.touched[key[0]]) for key in run}
    tiles = ground.tiles[top]
    if tiles is None:
        return compulsory
    kept = [t for t, levels in enumerate(keepers) if top in levels]
    fits = tiles.words[kept].sum(axis=0) <= capacity(ground, top) * (1 + 1e-12)
    lowest, answer = np.inf, compulsory
    for d in range(len(tiles.steps)):
        possible = np.flatnonzero(fits & ((tiles.steps[d] > 1) | (tiles.visits == 1)))
        if not len(possible):
            continue
        words = {key: _sent(ground, tiles, key, top, d, possible) for key in run}
        cost = sum((price[key] * value for key, value in words.items()), np.zeros(len(possible)))
        at = int(cost.argmin())
        if cost[at] < lowest:
            lowest, answer = float(cost[at]), {key: float(value[at]) for key, value in words.items()}
    return answer


def _sent(ground: Ground, tiles: JointTiles, key: tuple[int, int], top: int, d: int, chosen: np.ndarray) -> np.ndarray:
    """Words of one data space sent to one level, for some joint tiles of `top` around which loop `d` is innermost."""
    tensor, level = key
    inside, once = tiles.words[tensor, chosen], ground.touched[tensor]
    if d in ground.moving[tensor]:
        new = np.ones(len(chosen))
    elif level < top and not ground.windowed[tensor]:
        new = (inside > capacity(ground, level)).astype(np.float64)
    elif level == top:
        new = _new_share(ground, tiles, tensor, level, d, chosen)
    else:
        new = np.zeros(len(chosen))
    result: np.ndarray = np.maximum(inside * (1 + (tiles.visits[chosen] - 1) * new), once)
    return result


def _new_share(ground: Ground, tiles: JointTiles, tensor: int, level: int, d: int, chosen: np.ndarray) -> np.ndarray:
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


def unshared(ground: Ground, tensor: int, level: int, outer: int) -> float:
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
