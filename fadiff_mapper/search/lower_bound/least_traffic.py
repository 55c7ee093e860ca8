"""The least traffic between levels, weighted by price: every joint tile of a level is tried.

Why these are bounds. Let T be the joint tile of a level, V the product of all temporal loops outside the tile, and d
the innermost of these loops that runs more than once. A data space that d moves by itself (in a rank of its own)
touches other words at every step of d and of all loops outside d, so all words of the joint tile are sent V times. The
same holds for a data space kept at a level further in, if the instances of that level together cannot hold the words
that the joint tile touches: then a loop inside the tile moves the data space, and Timeloop sends it again for every
loop outside that loop. In all other cases each distinct word is sent at least once. All data spaces share the innermost
loop and the tile, which must hold all data spaces that the level keeps. This trade-off underlies the bounds of Hong and
Kung (1981); here the minimum is taken over the tiles themselves, so that no constant is lost.

Neighbouring windows: the calls of a window deliver at least the union of its tiles, by induction over the loops. Loop s
repeats the loops inside it n - 1 times, each time delivering the tile minus the delivery of the call before, and the
union of the shifted tiles has at most that many new words. Links between neighbours only move words that some call
before delivered. Where d slides a window, a share of the tile is new at every step (see `_new_share`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fadiff_mapper.inputs.spec.problem import DataSpace, extent_along
from fadiff_mapper.model.prepared_layer import PreparedLayer, element_shares
from fadiff_mapper.search.lower_bound.parallel import Parallelism, Spread, spread_of
from fadiff_mapper.search.mapspace.build import MapSpace, reachable

# The traffic of a map space is known before prices are: each metric and each bandwidth weighs it anew. So alternatives
# are pruned once, and every price only looks at the front.

MOST_PASSES = 48
"""Most alternatives that are compared with all others; all later ones stay, dominated or not. A limit on time that
costs no exactness, set by hand."""


def undominated(points: np.ndarray) -> np.ndarray:
    """Leaves out the columns that another column undercuts or equals in every row.

    A cost that does not fall in any row is least on one of the remaining columns.

    From columns `points` [C, N] to F of them, [C, F]; a few dominated ones may remain.
    """
    least = points.min(axis=1, keepdims=True)
    rest, front = points, list[np.ndarray]()
    # no column dominates the one with the least sum, which dominates many
    total = (points / np.maximum(least, 1.0)).sum(axis=0)
    while rest.shape[1] and len(front) < MOST_PASSES:
        best = rest[:, [int(total.argmin())]]
        front.append(best)
        left = (rest < best).any(axis=0)
        rest, total = rest.compress(left, axis=1), total.compress(left)
    return np.concatenate([*front, rest], axis=1)


# A *joint tile* of a level is the set of iterations in one step of the temporal loops outside the level: the level's
# tile times all spatial loops outside. In every dimension the number of its points divides the bound. Points need not
# be neighbours, because spatial loops of outer levels come between them; so words are counted that any set of so many
# points must touch.

MOST_TILES = 30_000
"""Most joint tiles of a level that are tried; beyond it neighbouring tiles form groups. Larger numbers would make
bounds take longer than the search of the layer."""

REMEMBERED = 2048
"""Dimensions whose extents are cached, as layers of a network share most. A limit on memory, set by hand."""


@dataclass(frozen=True)
class JointTiles:
    """All joint tiles of one level, N of them or groups of them."""

    words: np.ndarray              # Least distinct words of each data space that a tile touches, [T, N]
    visits: np.ndarray             # Least iterations of the temporal loops outside, all dimensions together, [N]
    runs: np.ndarray               # Whether the loops over a dimension outside run more than once, [D, N]; false if the
                                   # tile spans the whole dimension
    steps: tuple[np.ndarray, ...]  # Iterations of the loops over each dimension outside, [n_d] for its extents
    extents: np.ndarray            # The number of each tile's extent in a grid over all dimensions, [N], the last
                                   # dimension innermost
    single: bool = True            # Whether each is a single tile, not a group, so that the steps are exact


def joint_tiles(space: MapSpace, extents: tuple[tuple[int, ...], ...]) -> JointTiles | None:
    """The joint tiles of the given numbers of points in each dimension, ascending; None if groups are still too many.

    If there are too many tiles, neighbouring extents of a dimension form groups with a least and a most number of
    points. Tiles of a group touch at least the words of the least points, and the loops outside take at least the steps
    of the most points; so a bound by groups holds, but the looser the wider they are. The groups of the longest
    dimension are paired until tiles are few enough. The last extent, perhaps the whole dimension, stays by itself.
    """
    groups = [[(points, points) for points in choices] for choices in extents]
    while math.prod(map(len, groups)) > MOST_TILES:
        longest = max(range(len(groups)), key=lambda d: len(groups[d]))
        *inner, last = groups[longest]
        if len(inner) < 2:
            return None
        pairs = [inner[i:i + 2] for i in range(0, len(inner), 2)]
        groups[longest] = [*((pair[0][0], pair[-1][1]) for pair in pairs), last]
    shape = tuple(map(len, groups))
    least, most = (np.ix_(*(np.array(ends, dtype=np.float64) for ends in side))
                   for side in zip(*(zip(*group, strict=True) for group in groups), strict=True))
    steps = [bound / points for bound, points in zip(space.problem.bounds.values(), most, strict=True)]
    by_name = dict(zip(space.problem.dimensions, least, strict=True))
    words = np.empty((len(space.problem.dataspaces), *shape))
    runs = np.empty((len(steps), *shape), dtype=np.bool_)
    for row, dataspace in zip(words, space.problem.dataspaces, strict=True):
        row[:] = touched_words(dataspace, by_name, box=False)
    for row, each in zip(runs, steps, strict=True):
        row[:] = each > 1
    return JointTiles(words.reshape(len(words), -1), math.prod(steps[1:], start=steps[0]).ravel(),
                      runs.reshape(len(runs), -1), tuple(each.ravel() for each in steps), np.arange(math.prod(shape)),
                      all(len(group) == len(choices) for group, choices in zip(groups, extents, strict=True)))


@lru_cache(maxsize=REMEMBERED)
def _extents(bound: int, spatial: tuple[tuple[int, ...], ...],
             temporal: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The numbers of points that a joint tile of each level can have in one dimension.

    These are products of the temporal loops up to the level and all spatial loops that the temporal loops outside can
    complete to the bound.
    """
    levels = range(1, len(temporal) + 1)
    inside = (reachable(bound, (*spatial, *temporal[:level])) for level in levels)
    outside = (reachable(bound, temporal[level:]) for level in levels)
    return tuple(tuple(sorted(points for points in here if bound // points in there))
                 for here, there in zip(inside, outside, strict=True))


def touched_words(dataspace: DataSpace, points: Mapping[str, Any], box: bool = True) -> Any:
    """Least distinct words that a set of iterations touches, by its number of points in each dimension.

    Coordinates that differ in one rank belong to different words, so ranks' extents multiply to distinct words if each
    dimension counts only in the first of its ranks. Points need not be neighbours: sums of two sets of a and b numbers
    have at least a + b - 1 values.

    In a `box` points are neighbours, and words are counted without the holes of strides: dimensions of a rank are added
    by ascending coefficient. While a coefficient is at most the extent so far, no hole opens and the extent
    grows by coefficient * (points - 1). The first greater coefficient makes disjoint copies; after it each dimension
    adds only points - 1 certain words.

    Except in a box, `points` may be arrays that broadcast against each other, to the shape of the words.
    """
    result, used = 1.0, set[str]()
    for rank in dataspace.ranks:
        terms: dict[str, int] = {}
        for term in rank:
            if term.dimension not in used:
                terms[term.dimension] = terms.get(term.dimension, 0) + term.coefficient
        used |= terms.keys()
        count, whole = 1.0, box
        for coefficient, name in sorted((abs(sum_), name) for name, sum_ in terms.items() if sum_):
            further = points[name] - 1
            if whole and coefficient <= count:
                count = count + coefficient * further
            elif whole and further > 0:
                count, whole = count * points[name], False
            else:
                count = count + further
        result = result * count
    return result


Keepers = tuple[tuple[int, ...], ...]
"""For each data space the levels that keep it, innermost first; empty for one left out of the bound."""

States = Callable[[tuple[int, ...]], Parallelism]
"""The states of parallelism, by the innermost level that keeps each data space."""


@dataclass(frozen=True)
class BoundInputs:
    """Quantities of one map space from which all its traffic bounds start."""

    space: MapSpace                       # The map space
    touched: np.ndarray                   # Least distinct words of each data space that the problem touches, [T]
    capacity: np.ndarray                  # Words that the instances of each level in use can hold together, infinite
                                          # without a limit, [L]
    moving: tuple[frozenset[int], ...]    # For each data space the indices of the dimensions that move it by themselves
                                          # (in a rank of their own)
    windowed: tuple[bool, ...]            # For each data space whether several dimensions of bounds above 1 share a
                                          # rank
    lost: np.ndarray                      # Most words of each data space that rounding takes at each level, [T, L]:
                                          # Timeloop averages windows that overlap over their receivers
    tiles: tuple[JointTiles | None, ...]  # For each level its joint tiles; None where there are too many, or where the
                                          # level has no capacity
    spread: Spread                        # The reach of the spatial loops
    share: np.ndarray                     # Words of each level that an element of a tile takes, [L, T]


def bound_inputs(space: MapSpace, tiled: bool = True, in_steps: bool = False) -> BoundInputs:
    """The quantities of a map space that its traffic bounds start from, without joint tiles unless `tiled`.

    `in_steps`: the problem runs in any number of parts with separate rounding, which may lose windows that spatial
    loops divide altogether.
    """
    problem = space.problem
    index = {name: d for d, name in enumerate(problem.dimensions)}
    ranks = [[[term.dimension for term in rank if problem.bounds[term.dimension] > 1] for rank in ds.ranks]
             for ds in problem.dataspaces]
    bounded = [tiled and level.usable is not None for level in space.architecture.levels]
    # for each level the extents of its joint tiles in every dimension; levels with equal choices share the tiles
    extents = [()] * len(bounded) if not any(bounded) else list(zip(*(
        _extents(bound, tuple(here.spatial.choices[name] for here in space.levels),
                 tuple(here.temporal.choices[name] for here in space.levels))
        for name, bound in problem.bounds.items()), strict=True))
    tiles = {choices: joint_tiles(space, choices) for choices in set(itertools.compress(extents, bounded))}
    windowed, spread = tuple(any(len(rank) > 1 for rank in own) for own in ranks), spread_of(space)
    instances = spread.instances
    divided = [any(widest[name] > 1 for widest in spread.widest for rank in own if len(rank) > 1 for name in rank)
               for own in ranks]
    lost = np.array([instances * (np.inf if in_steps and apart else 1.0) if own else 0 * instances
                     for own, apart in zip(windowed, divided, strict=True)])
    return BoundInputs(
        space, np.array([touched_words(ds, problem.bounds) for ds in problem.dataspaces]),
        instances * np.array([np.inf if level.usable is None else level.usable for level in space.architecture.levels]),
        tuple(frozenset(index[rank[0]] for rank in own if len(rank) == 1) for own in ranks), windowed, lost,
        tuple(tiles[choices] if limited else None for choices, limited in zip(extents, bounded, strict=True)),
        spread, element_shares(space.architecture, problem)[1])


@dataclass(frozen=True)
class KeepChoice:
    """One choice of the levels that keep each data space, with the parallelism and the least traffic under it.

    A crossing is one data space between two consecutive levels that keep it. For every legal mapping some column of
    `words` is at most its traffic in every row, so the cheapest column is a lower bound.
    """

    keepers: Keepers               # For each data space the levels that keep it; empty for a data space left out of the
                                   # bound
    states: Parallelism            # States of parallelism
    tensor: np.ndarray             # The data space of each of C crossings, the innermost receiver first, [C]
    inner: np.ndarray              # The level that receives it, [C]
    outer: np.ndarray              # The level that sends it, [C]
    ends: tuple[int, ...]          # For each receiving level, innermost first, the number of crossings
                                   # that lie at or within it
    words: tuple[np.ndarray, ...]  # For each such level the words of those crossings in F alternatives, [c, F]
                                   # with c from `ends`
    once: np.ndarray               # Words of the crossing's data space that the problem touches, [C]
    unshared: np.ndarray           # The factor by which neighbouring windows may shrink the words, [C]


def keep_choice(inputs: BoundInputs, states: States, keepers: Keepers) -> KeepChoice:
    """One choice, with the alternatives of its crossings on the joint tiles of every level."""
    rows = sorted((inner, t, outer) for t, kept in enumerate(keepers) for inner, outer in itertools.pairwise(kept))
    tops = sorted({inner for inner, _, _ in rows})
    ends = tuple(sum(inner <= top for inner, _, _ in rows) for top in tops)
    words = tuple(_alternatives(inputs, keepers, [(t, inner) for inner, t, _ in rows[:end]], top)
                  for top, end in zip(tops, ends, strict=True))
    inner, tensor, outer = np.array(rows, dtype=np.intp).reshape(-1, 3).T
    return KeepChoice(keepers, states(tuple(kept[0] if kept else -1 for kept in keepers)), tensor, inner, outer, ends,
                      words, inputs.touched[tensor],
                      np.array([unshared(inputs, t, level, above) for level, t, above in rows]))


def cheapest(choice: KeepChoice, cost: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Words of every crossing such that the sum of their costs is a lower bound for every mapping.

    The alternatives of one level's joint tiles bound the crossings at and within that level together. Crossings of
    disjoint runs of levels may be bounded separately, each run on the tiles of its outermost level; the sums are added.
    The division into runs with the highest sum is found by dynamic programming over the levels.

    `cost`: from words [c, F] of the first c crossings to their costs, of the same shape; more words never cost less.
    Returns words, [C]; a single entry is no bound by itself.
    """
    starts = (0, *choice.ends)
    sums, picks = [0.0], list[tuple[int, int]]()  # by the end of a run: its start and the column of its alternatives
    for end, words in enumerate(choice.words):
        costs, options = cost(words), []
        for start in range(end + 1):
            total = costs[starts[start]:].sum(axis=0)
            at = int(total.argmin())
            options.append((sums[start] + float(total[at]), start, at))
        most, start, at = max(options, key=lambda option: option[0])
        sums.append(most)
        picks.append((start, at))
    result, end = np.empty(len(choice.tensor)), len(picks)
    while end:
        start, at = picks[end - 1]
        result[starts[start]:starts[end]] = choice.words[end - 1][starts[start]:, at]
        end = start
    return result


def _alternatives(inputs: BoundInputs, keepers: Keepers, keys: Sequence[tuple[int, int]], top: int) -> np.ndarray:
    """Words of some crossings for the joint tiles of a level and the innermost loop outside them.

    `keys`: data space and receiving level of each of c crossings, all at or within `top`, the level whose joint tiles
    are tried. Returns words, [c, F], without alternatives that need at least as many words as another one in every row.
    """
    once = np.array([[inputs.touched[t]] for t, _ in keys])
    tiles = inputs.tiles[top]
    if tiles is None:
        return once
    kept = [t for t, levels in enumerate(keepers) if top in levels]
    fits = (tiles.words[kept] * inputs.share[top, kept, None]).sum(axis=0) <= inputs.capacity[top] * (1 + 1e-12)
    if not fits.any() or (fits & (tiles.visits == 1)).any():  # no tile fits, or the whole problem does
        return once
    fitting = np.flatnonzero(fits)
    tiles = replace(tiles, words=tiles.words.take(fitting, axis=1), visits=tiles.visits.take(fitting),
                    runs=tiles.runs.take(fitting, axis=1), extents=tiles.extents.take(fitting))
    by_tensor = {t: np.maximum(tiles.words[t] * tiles.visits, inputs.touched[t]) for t in {t for t, _ in keys}}
    moved = [by_tensor[t] for t, _ in keys]
    # If the innermost loop outside does not move a data space, every word is sent once; but as if it moved where a
    # level further in cannot hold the words that the joint tile touches.
    stationary = [float(inputs.touched[t]) if level == top or inputs.windowed[t] else
                  np.where(tiles.words[t] * inputs.share[level, t] > inputs.capacity[level], row, inputs.touched[t])
                  for (t, level), row in zip(keys, moved, strict=True)]
    # Candidates for the innermost loop of several iterations outside, with the joint tiles that allow them, [N]. Loops
    # that move the same data spaces and slide no window bring equal words; the first one represents all of them.
    alike: dict[tuple[object, ...], tuple[int, np.ndarray]] = {}
    for d, runs in enumerate(tiles.runs):
        moves = tuple(d in inputs.moving[t] for t, _ in keys)
        slides = any(level == top and inputs.windowed[t] and not moving
                     for (t, level), moving in zip(keys, moves, strict=True))
        kind = (*moves, d if slides else None)
        first, others = alike.get(kind, (d, runs))
        alike[kind] = first, others | runs
    alternatives = []
    for d, runs in alike.values():
        chosen = np.flatnonzero(runs)
        if len(chosen):
            rows = np.empty((len(keys), len(chosen)))
            for row, (t, level), far, near in zip(rows, keys, moved, stationary, strict=True):
                if d in inputs.moving[t]:
                    far.take(chosen, out=row, mode="clip")  # other modes copy once more
                elif level == top and inputs.windowed[t]:
                    # The first step sends the whole tile, every later step at least the new share.
                    new = _new_share(inputs, tiles, t, level, d, chosen)
                    sent = tiles.words[t, chosen] * (1 + (tiles.visits[chosen] - 1) * new)
                    row[:] = np.maximum(sent, inputs.touched[t])
                else:
                    row[:] = near if isinstance(near, float) else near.take(chosen)
            alternatives.append(undominated(rows))
    return undominated(np.concatenate(alternatives, axis=1))


def _new_share(inputs: BoundInputs, tiles: JointTiles, tensor: int, level: int, d: int,
               chosen: np.ndarray) -> np.ndarray:
    """The least share of a tile that is new at every step where loop `d` slides a window.

    It is proven only if no spatial loop cuts the window. Every call by loop `d` finds the window one step further on;
    such calls are at least half of all calls, so half of the share is certain. The whole share is certain if no other
    loop outside moves the window's rank: then each other call, too, finds the window at least one step of `d` away from
    its place in the call before.

    `chosen`: the joint tiles in question, [N]. Returns shares, [N]; 0 where none is proven, and for groups of tiles,
    whose points are not known.
    """
    space = inputs.space
    names, bounds = space.problem.dimensions, space.problem.bounds
    ranks = [rank for rank in space.problem.dataspaces[tensor].ranks if names[d] in {term.dimension for term in rank}]
    terms = {term.dimension: term.coefficient for rank in ranks for term in rank if bounds[term.dimension] > 1}
    whole = all(widest[name] == 1 for widest in inputs.spread.widest[level + 1:] for name in terms)
    once_each = sum(bounds[term.dimension] > 1 for rank in ranks for term in rank) == len(terms)
    if not tiles.single or len(ranks) != 1 or names[d] not in terms or not once_each or not whole:
        return np.zeros(len(chosen))
    points = {}
    for d_term, steps in ((names.index(name), tiles.steps[names.index(name)]) for name in terms):
        inside = math.prod(map(len, tiles.steps[d_term + 1:]))
        points[names[d_term]] = bounds[names[d_term]] / steps.take(tiles.extents.take(chosen) // inside % len(steps))
    extent = extent_along([term for term in ranks[0] if term.dimension in terms], points)
    alone = np.all([points[name] == bounds[name] for name in terms if name != names[d]], axis=0)
    result: np.ndarray = np.minimum(1.0, terms[names[d]] * points[names[d]] / extent) * np.where(alone, 1.0, 0.5)
    return result


def unshared(inputs: BoundInputs, tensor: int, level: int, outer: int) -> float:
    """The factor by which neighbouring windows may shrink the words that one level sends to another.

    Receivers whose windows overlap share words. The bound then divides by the whole width of the fan-outs in between
    that pass the traffic on and spread several dimensions of one rank.

    Level -1 receives for the arithmetic. Returns at least 1; 1 for a data space without windows.
    """
    if not inputs.windowed[tensor]:
        return 1.0
    shrink = 1
    for between in range(level + 2, outer + 1):
        widest, apart = inputs.spread.widest[between], inputs.spread.apart[between][tensor]
        for name in inputs.space.problem.dataspaces[tensor].dimensions - apart:
            shrink *= widest[name]
    return float(shrink)


# One function serves every metric. Prices are energies per word for access energy, cycles per word of one level's
# bandwidth for the delay, and 1 for each word of the outermost level for its accesses.

@dataclass(frozen=True)
class AccessPrices:
    """Prices per word of each action, all instances together, in the unit of the bound."""

    read: np.ndarray    # Price of a word read, [L, T]
    fill: np.ndarray    # Price of a word filled, [L, T]
    update: np.ndarray  # Price of a word updated, [L, T]
    sums: np.ndarray    # Price of an update in a level that updates words more than once, [L, T]; no less than `update`


@dataclass(frozen=True)
class Addend:
    """One addend of a bound."""

    where: str         # The level, the data space or the two levels of the addend, in words
    value: np.ndarray  # The addend for each state of parallelism, [S]
    source: str        # Why no mapping can have less, in words


def least_total(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """The least sum of price * accesses under one choice of the data spaces kept.

    The arithmetic accesses the innermost level that keeps each data space, a word per MAC and multicast; outputs are
    updated once per such access, and read back (partial sums) except at the first time of every word. Words between
    consecutive keepers are filled inside and read outside, outputs updated outside too. Returns addends; for each
    state of parallelism no mapping can undercut their sum.
    """
    result = []
    for t, kept in enumerate(choice.keepers):
        if not kept:
            continue
        level, name = kept[0], layer.problem.dataspaces[t].name
        where = f"{layer.arch.levels[level].name} {name}"
        words = layer.problem.computes / choice.states.sharing[:, t]
        source = "one word per multiply-accumulate and multicast"
        if inputs.spread.below[0] > 1:
            # Operands may come over links from a neighbouring unit, all but the first time.
            words = np.full_like(words, inputs.touched[t] / unshared(inputs, t, -1, level))
            source = "every word once, as units may pass operands on"
        if layer.projection.read_write[t]:
            # Each instance that can hold partial sums of a word writes it a first time, without reading it back.
            copies = 1
            for outer in range(level + 1, len(inputs.space.levels)):
                apart = inputs.spread.apart[outer][t]
                copies *= math.prod(most for space, most in inputs.spread.widest[outer].items() if space not in apart)
            first = inputs.touched[t] * min(copies, inputs.spread.instances[level])
            update = np.where(words > first * (1 + 1e-9), prices.sums[level, t], prices.update[level, t])
            value = update * words + prices.read[level, t] * np.maximum(words - first, 0)
        else:
            value = prices.read[level, t] * np.maximum(words - 0.5 * inputs.lost[t, level], 0)
        result.append(Addend(where, value, source))
    tensor, receiver, sender = choice.tensor[:, None], choice.inner[:, None], choice.outer[:, None]
    fill, read = prices.fill[receiver, tensor], prices.read[sender, tensor]
    written = np.array(layer.projection.read_write)[tensor]
    update, sums = prices.update[sender, tensor] * written, prices.sums[sender, tensor] * written
    if not (fill.any() or read.any() or update.any()):
        return result
    once, fewer = choice.once[:, None], choice.unshared[:, None]
    # Partial sums are not read back at the first time. Elsewhere rounding may lose words of both where windows overlap.
    no_fill = np.where(written, once, inputs.lost[tensor, receiver])
    no_read = np.where(written, once, 0.5 * inputs.lost[tensor, sender])

    def cost(words: np.ndarray) -> np.ndarray:  # of the first len(words) crossings, in any number of alternatives
        c = len(words)
        return np.asarray(np.where(words > once[:c] * (1 + 1e-9), sums[:c], update[:c]) * words
                          + fill[:c] * np.maximum(words - no_fill[:c], 0)
                          + read[:c] * np.maximum(words / fewer[:c] - no_read[:c], 0))

    words = cheapest(choice, cost) if any(inputs.tiles) else choice.once
    values = cost(words[:, None])[:, 0]
    states = np.ones_like(choice.states.macs)
    for t, inner, outer, sent, value in zip(choice.tensor, choice.inner, choice.outer, words, values, strict=True):
        names = [layer.arch.levels[level].name for level in (inner, outer)]
        source = ("every word once" if sent <= inputs.touched[t] else
                  f"{sent:.6g} words, {sent / inputs.touched[t]:.3g} times each, as {names[0]} cannot hold more")
        where = f"{names[1]} -> {names[0]} {layer.problem.dataspaces[t].name}"
        result.append(Addend(where, value * states, source))
    return result
