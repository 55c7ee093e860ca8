"""The tiles that a level can hold, all instances together, and how many words of each data space they touch.

A *joint tile* of a level is the set of iterations that one step of the temporal loops outside it covers: the tile of
the level times all spatial loops outside it. In every dimension the number of its points divides the bound. The points
need not be neighbours, because spatial loops of outer levels stand between them; so words are counted by what any set
of so many points must touch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fadiff_mapper.mapspace import MapSpace, reachable
from fadiff_mapper.spec.problem import DataSpace

MOST_TILES = 30_000
"""Joint tiles of a level that are tried; where there are more, neighbours stand together. All tiles of the bundled
layers on the bundled designs are tried (28,224 at most). With 230,000 tiles each a bound took 5 s, a hundred times the
search of a layer."""

REMEMBERED = 2048
"""Dimensions whose extents are kept: layers of a network share most. A plain limit on memory."""


@dataclass(frozen=True)
class JointTiles:
    """All joint tiles of one level, N of them or groups of them.

    Attributes:
        words: Distinct words of each data space that a tile touches at least, [T, N].
        visits: Iterations of the temporal loops outside at least, all dimensions together, [N].
        runs: Whether the loops over a dimension outside run more than once, [D, N]; not for the whole dimension alone.
        steps: Iterations of the loops over each dimension outside, [n_d] for its extents.
        extents: The number of each tile's extent in a grid over all dimensions, [N], the last dimension innermost.
        single: Whether each stands for itself, so that the steps are those of the tile and not of a larger one.
    """

    words: np.ndarray
    visits: np.ndarray
    runs: np.ndarray
    steps: tuple[np.ndarray, ...]
    extents: np.ndarray
    single: bool = True

    def take(self, chosen: np.ndarray) -> JointTiles:
        """Some of the tiles, by their numbers."""
        return JointTiles(self.words.take(chosen, axis=1), self.visits.take(chosen), self.runs.take(chosen, axis=1),
                          self.steps, self.extents.take(chosen), self.single)

    def steps_along(self, d: int, chosen: np.ndarray) -> np.ndarray:
        """Iterations of the loops over one dimension outside some of the tiles, at least."""
        inside = math.prod(map(len, self.steps[d + 1:]))
        steps: np.ndarray = self.steps[d].take(self.extents.take(chosen) // inside % len(self.steps[d]))
        return steps


def joint_tiles(space: MapSpace) -> list[JointTiles | None]:
    """For each level every joint tile that the divisors and the factor constraints allow, in groups where too many.

    Levels with equal choices share the arrays.
    """
    levels = space.levels
    along = [_extents(bound, tuple(here.spatial.choices[name] for here in levels),
                      tuple(here.temporal.choices[name] for here in levels))
             for name, bound in space.problem.bounds.items()]
    extents = list(zip(*along, strict=True))
    tiles = {choices: _tiles(space, choices) for choices in set(extents)}
    return [tiles[choices] for choices in extents]


def _tiles(space: MapSpace, extents: tuple[tuple[int, ...], ...]) -> JointTiles | None:
    """The joint tiles of the given numbers of points in each dimension; None where no groups are few enough."""
    groups = _groups(extents)
    if groups is None:
        return None
    shape = tuple(map(len, groups))
    number = math.prod(shape)

    def spread(along: np.ndarray) -> np.ndarray:  # from a part of the grid to all tiles
        return np.broadcast_to(along, shape).reshape(number)

    least, most = (np.ix_(*(np.array(ends, dtype=np.float64) for ends in side))
                   for side in zip(*(zip(*group, strict=True) for group in groups), strict=True))
    steps = [bound / points for bound, points in zip(space.problem.bounds.values(), most, strict=True)]
    by_name = dict(zip(space.problem.dimensions, least, strict=True))
    return JointTiles(np.stack([spread(scattered_words(ds, by_name)) for ds in space.problem.dataspaces]),
                      spread(math.prod(steps[1:], start=steps[0])),
                      np.stack([spread(each > 1) for each in steps]), tuple(each.ravel() for each in steps),
                      np.arange(number),
                      all(len(group) == len(choices) for group, choices in zip(groups, extents, strict=True)))


def _groups(extents: tuple[tuple[int, ...], ...]) -> list[list[tuple[int, int]]] | None:
    """The least and the most points of neighbouring extents in each dimension, so that tiles are few enough.

    A tile of a group touches no fewer words than the least points do, and the loops outside take no fewer steps than
    with the most; so a bound by groups holds, and is the looser the wider they are. The longest dimension's groups are
    paired until tiles are few enough. The last extent, which may be the whole dimension, stays by itself.

    Args:
        extents: The numbers of points in each dimension, ascending.

    Returns:
        Groups by dimension; None where not even the widest are few enough.
    """
    groups = [[(points, points) for points in choices] for choices in extents]
    while math.prod(map(len, groups)) > MOST_TILES:
        longest = max(range(len(groups)), key=lambda d: len(groups[d]))
        *inner, last = groups[longest]
        if len(inner) < 2:
            return None
        pairs = [inner[i:i + 2] for i in range(0, len(inner), 2)]
        groups[longest] = [*((pair[0][0], pair[-1][1]) for pair in pairs), last]
    return groups


@lru_cache(maxsize=REMEMBERED)
def _extents(bound: int, spatial: tuple[tuple[int, ...], ...],
             temporal: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    """The numbers of points that a joint tile of each level can have in one dimension.

    They are the products of the temporal loops up to the level and all spatial loops that the temporal loops outside
    can complete to the bound.

    Args:
        bound: The dimension's bound.
        spatial: The factors that the spatial loops of every level may have.
        temporal: The same for temporal loops.
    """
    levels = range(1, len(temporal) + 1)
    inside = (reachable(bound, (*spatial, *temporal[:level])) for level in levels)
    outside = (reachable(bound, temporal[level:]) for level in levels)
    return tuple(tuple(sorted(points for points in here if bound // points in there))
                 for here, there in zip(inside, outside, strict=True))


def own_terms(dataspace: DataSpace) -> list[dict[str, int]]:
    """For each rank its dimensions with their coefficients; a dimension counts in the first of its ranks only.

    Coordinates that differ in one rank belong to different words, so the ranks' extents multiply to distinct words
    once no dimension is counted twice.
    """
    used: set[str] = set()
    ranks = []
    for rank in dataspace.ranks:
        terms: dict[str, int] = {}
        for term in rank:
            if term.dimension not in used:
                terms[term.dimension] = terms.get(term.dimension, 0) + term.coefficient
        used |= {term.dimension for term in rank}
        ranks.append({name: abs(coefficient) for name, coefficient in terms.items() if coefficient})
    return ranks


def scattered_words(dataspace: DataSpace, points: Mapping[str, np.ndarray]) -> np.ndarray:
    """Distinct words that a set of iterations touches at least, by its number of points in each dimension.

    The points need not be neighbours: the sums of two sets of a and b numbers have a + b - 1 values at least.

    Args:
        dataspace: The data space.
        points: Numbers of points by dimension, arrays that broadcast against each other.

    Returns:
        Words, an array of the shape that those of the data space's dimensions broadcast to.
    """
    result = np.ones(())
    for terms in own_terms(dataspace):
        result = result * (1 + sum((points[name] - 1 for name in terms), np.zeros(())))
    return result


def touched_words(dataspace: DataSpace, bounds: Mapping[str, int]) -> float:
    """Distinct words that the whole problem touches at least: all of a data space but the holes of its strides.

    Dimensions of a rank are added by ascending coefficient. As long as a coefficient is no greater than the extent so
    far, no hole opens and the extent grows by coefficient * (points - 1). The first greater one lays out disjoint
    copies; after that only points - 1 more words are certain for each dimension.

    Args:
        dataspace: The data space.
        bounds: Extents of the problem by dimension.
    """
    result = 1
    for terms in own_terms(dataspace):
        count, whole = 1, True
        for coefficient, points in sorted((coefficient, bounds[name]) for name, coefficient in terms.items()):
            if whole and coefficient <= count:
                count += coefficient * (points - 1)
            elif whole and points > 1:
                count, whole = count * points, False
            else:
                count += points - 1
        result *= count
    return float(result)
