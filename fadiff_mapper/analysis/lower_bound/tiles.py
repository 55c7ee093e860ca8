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

import numpy as np

from fadiff_mapper.mapspace import MapSpace, reachable
from fadiff_mapper.spec.problem import DataSpace

MOST_TILES = 30_000
"""Joint tiles of a level that are tried; where there are more, neighbours stand together. All tiles of the bundled
layers on the bundled designs are tried (28,224 at most). With 230,000 tiles each a bound took 5 s, a hundred times the
search of a layer."""


@dataclass(frozen=True)
class JointTiles:
    """All joint tiles of one level, N of them or groups of them.

    Attributes:
        words: Distinct words of each data space that a tile touches at least, [T, N].
        steps: Iterations of the temporal loops outside at least, by dimension, [D, N]; 1 only for the whole dimension.
        visits: Their product, [N].
        single: Whether each stands for itself, so that the steps are those of the tile and not of a larger one.
    """

    words: np.ndarray
    steps: np.ndarray
    visits: np.ndarray
    single: bool = True


def joint_tiles(space: MapSpace) -> list[JointTiles | None]:
    """For each level every joint tile that the divisors and the factor constraints allow, in groups where too many.

    Levels with equal choices share the arrays.
    """
    extents = [tuple(_extents(space, level, name) for name in space.problem.dimensions)
               for level in range(len(space.levels))]
    tiles = {choices: _tiles(space, choices) for choices in set(extents)}
    return [tiles[choices] for choices in extents]


def _tiles(space: MapSpace, extents: tuple[tuple[int, ...], ...]) -> JointTiles | None:
    """The joint tiles of the given numbers of points in each dimension; None where no groups are few enough."""
    groups = _groups(extents)
    if groups is None:
        return None
    names = space.problem.dimensions
    least, most = (np.array(np.meshgrid(*ends, indexing="ij"), dtype=np.float64).reshape(len(names), -1)
                   for ends in zip(*(zip(*group, strict=True) for group in groups), strict=True))
    bounds = np.array([space.problem.bounds[name] for name in names], dtype=np.float64)
    steps = bounds[:, None] / most
    by_name = dict(zip(names, least, strict=True))
    words = np.stack([scattered_words(ds, by_name) for ds in space.problem.dataspaces])
    return JointTiles(words, steps, steps.prod(axis=0), all(len(group) == len(choices) for group, choices
                                                            in zip(groups, extents, strict=True)))


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


def _extents(space: MapSpace, level: int, name: str) -> tuple[int, ...]:
    """The numbers of points that a joint tile of a level can have in one dimension.

    They are the products of the temporal loops up to the level and all spatial loops that the temporal loops outside
    can complete to the bound.
    """
    bound = space.problem.bounds[name]
    temporal = [here.temporal.choices[name] for here in space.levels]
    inside = reachable(bound, [*(here.spatial.choices[name] for here in space.levels), *temporal[:level + 1]])
    outside = reachable(bound, temporal[level + 1:])
    return tuple(sorted(points for points in inside if bound // points in outside))


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
        points: Numbers of points by dimension, equally shaped arrays.

    Returns:
        Words, an array of that shape.
    """
    result = np.ones_like(next(iter(points.values())))
    for terms in own_terms(dataspace):
        result = result * (1 + sum((points[name] - 1 for name in terms), np.zeros_like(result)))
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
