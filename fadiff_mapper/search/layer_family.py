"""Families of layers that are searched side by side, and the decisions of a mapping besides its factors.

Layers that differ in the bounds of their dimensions only are evaluated in one batch: equally many columns of each
member, one member after the other. Axes: W (members), L, D, T, B as in `loop_nest.py`.

The decisions without a gradient are loop orders, where spatial loops lie, and what a level keeps. Orders are drawn from
the few that can matter. A level's order decides which data spaces stay in place during its innermost loops; so for
every ranking of the data spaces there is a candidate in which the loops that leave the first data space in place come
innermost, among these the loops that leave the second in place, and so on. Among equals each dimension that slides a
window is tried innermost, because only the innermost loop brings new words alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from itertools import permutations, product
from typing import TypeAlias

import numpy as np

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Nest, Projection
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.mapspace import FactorTables, MapSpace, factor_tables

MOST_ORDERS = 5040
"""Candidate orders of one level: those for all rankings of seven data spaces. With more, so many are drawn at
random. A plain limit that keeps the tables small; nothing was measured to choose it."""

LAYOUTS = 256
"""Samples of the placement of spatial loops of one level with a two-dimensional fan-out, equal ones merged. A plain
limit that keeps the tables small; nothing was measured to choose it."""

REMEMBERED = 4096
"""Candidate orders and layouts that are kept, of levels with equal constraints: the layers of a network and the tiles
of its groups share nearly all of theirs. Of the time of 700 searches of small tiles they took a third before."""

Dimensions: TypeAlias = tuple[int, ...]
"""Indices of dimensions, innermost first."""


@dataclass(frozen=True)
class DiscreteDecisions:
    """The decisions that have no gradient, one column per mapping; arrays as in `Nest`.

    Attributes:
        order: [L, D, B]. Dimension indices of the temporal loops, innermost first.
        keep: [L, T, B]. Whether the level keeps the data space.
        on_y: [L, D, B]. Whether the spatial factor of a dimension lies on the Y axis.
        spatial_order: [L, D, B]. Dimension indices of the spatial loops, innermost first.
    """

    order: np.ndarray
    keep: np.ndarray
    on_y: np.ndarray
    spatial_order: np.ndarray


def temporal_orders(space: MapSpace, projection: Projection, level: int, looping: Sequence[bool]) -> np.ndarray:
    """Candidate orders of one level's temporal loops within the constraints.

    Args:
        space: The map space.
        projection: Tells the dimensions that move each data space.
        level: Index of the level.
        looping: [D]. Whether the dimension can have a loop at this level at all; the position of the others does
            not matter.

    Returns:
        [n, D]. Distinct orders as dimension indices, innermost first.
    """
    loops = space.levels[level].temporal
    return _orders(space.problem.dimensions, loops.inner, loops.between, loops.outer, tuple(looping),
                   projection.relevance, projection.shared)


@lru_cache(maxsize=REMEMBERED)
def _orders(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...], outer: tuple[str, ...],
            looping: tuple[bool, ...], relevant: tuple[tuple[bool, ...], ...], shared: frozenset[int]) -> np.ndarray:
    """`temporal_orders` from all that it depends on, which many layers share; not to be written to."""
    innermost, free, outermost = (_indices(part, dimensions) for part in (inner, between, outer))
    movable, fixed = [d for d in free if looping[d]], [d for d in free if not looping[d]]
    leading = [None, *(d for d in movable if d in shared)]
    moved = dict.fromkeys(tuple(row[d] for d in movable) for row in relevant)
    telling = [row for row in moved if len(set(row)) > 1]
    orders: dict[Dimensions, None] = {}
    for ranking, first in _rankings(telling, leading):
        told = dict(zip(movable, zip(*ranking, strict=True), strict=False))
        ordered = sorted(movable, key=lambda d: (told.get(d, ()), d != first))
        orders[(*innermost, *fixed, *ordered, *outermost)] = None
    return np.array(list(orders))


def _rankings(telling: list[tuple[bool, ...]], leading: list[int | None]) -> Iterator[
        tuple[Sequence[tuple[bool, ...]], int | None]]:
    """Rankings of data spaces, each with a dimension to be tried innermost: all, or `MOST_ORDERS` drawn at random."""
    if math.factorial(len(telling)) * len(leading) <= MOST_ORDERS:
        yield from product(permutations(telling), leading)
        return
    rng = np.random.default_rng(0)
    for _ in range(MOST_ORDERS):
        yield [telling[row] for row in rng.permutation(len(telling))], leading[rng.integers(len(leading))]


def _indices(names: tuple[str, ...], dimensions: tuple[str, ...]) -> Dimensions:
    """Indices of some dimensions."""
    return tuple(dimensions.index(name) for name in names)


def _random_layout(inner: Dimensions, between: Dimensions, outer: Dimensions, fanout: tuple[int, int],
                   split: int | None, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A random placement of spatial loops: their order from the innermost, and whether each dimension lies on Y."""
    order = np.array([*inner, *rng.permutation(between).astype(np.int64), *outer], dtype=np.int64)
    if split is None:
        x, y = fanout
        split = len(order) if y == 1 else 0 if x == 1 else int(rng.integers(0, len(order) + 1))
    on_y = np.ones(len(order), dtype=bool)
    on_y[order[:split]] = False
    return order, on_y


@dataclass(frozen=True)
class SpatialLayouts:
    """Candidate placements of one level's spatial loops; of a family of W members, [W, n, D] each.

    Attributes:
        order: [n, D]. Dimension indices from the innermost loop.
        on_y: [n, D]. Whether each dimension lies on the Y axis, by dimension.
    """

    order: np.ndarray
    on_y: np.ndarray


def layouts(space: MapSpace, level: int) -> SpatialLayouts:
    """Placements of one level's spatial loops that the constraints allow.

    Args:
        space: The map space.
        level: Index of the level, which is also the seed: the sample is always the same.

    Returns:
        One placement where the fan-out has one axis, else the distinct ones of `LAYOUTS` random ones.
    """
    here = space.levels[level]
    return _layouts(space.problem.dimensions, here.spatial.inner, here.spatial.between, here.spatial.outer,
                    here.fanout, space.constraints.levels[level].spatial.split, level)


@lru_cache(maxsize=REMEMBERED)
def _layouts(dimensions: tuple[str, ...], inner: tuple[str, ...], between: tuple[str, ...], outer: tuple[str, ...],
             fanout: tuple[int, int], split: int | None, seed: int) -> SpatialLayouts:
    """`layouts` from all that it depends on, which many layers share; not to be written to."""
    rng = np.random.default_rng(seed)
    innermost, free, outermost = (_indices(part, dimensions) for part in (inner, between, outer))
    count = LAYOUTS if min(fanout) > 1 else 1
    order, on_y = (np.stack(part) for part in zip(*(
        _random_layout(innermost, free, outermost, fanout, split, rng) for _ in range(count)), strict=True))
    _, distinct = np.unique(np.concatenate([order, on_y], axis=1), axis=0, return_index=True)
    return SpatialLayouts(order[np.sort(distinct)], on_y[np.sort(distinct)])


def open_keeps(space: MapSpace) -> list[tuple[int, int]]:
    """(level, index of the data space) of every keep-or-bypass decision that the constraints leave open."""
    return [(level, t) for level, here in enumerate(space.levels)
            for t, name in enumerate(space.problem.dataspace_names()) if name in here.open]


KEPT = 0.7
"""Probability that a random mapping keeps a data space where it may. A plain choice; no measurement of it is kept."""


@dataclass(frozen=True)
class OpenChoices:
    """How many candidates the decisions of a family have.

    Attributes:
        members: W, the members of the family.
        orders: Of the temporal loops of each level.
        layouts: Of the spatial loops of each level.
        keeps: (level, index of the data space) of each decision to keep or bypass.
    """

    members: int
    orders: tuple[int, ...]
    layouts: tuple[int, ...]
    keeps: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Draws:
    """Candidates picked at random, one of every decision for each column of a batch; not to be written to.

    Attributes:
        order: [L, B]. Rows of the candidate orders: of all levels, and in a level of all members, one after the other.
        layout: [L, B]. The same for layouts.
        keep: For each decision to keep or bypass whether the data space is kept, [B].
    """

    order: np.ndarray
    layout: np.ndarray
    keep: tuple[np.ndarray, ...]


@dataclass(frozen=True)
class LayerFamily:
    """W map spaces over one design and one shape of problem, with the candidates of their decisions.

    Attributes:
        layer: The prepared layer of any member.
        spaces: [W]. Map spaces of the members.
        factors: Divisors and constraints of all members as tables.
        orders: For each level candidate orders of its temporal loops, [W, n, D].
        layouts: For each level candidate placements of its spatial loops, [W, n, D] each.
        keeps: (level, index of the data space) of the open keep-or-bypass decisions.
    """

    layer: PreparedLayer
    spaces: tuple[MapSpace, ...]
    factors: FactorTables
    orders: tuple[np.ndarray, ...]
    layouts: tuple[SpatialLayouts, ...]
    keeps: tuple[tuple[int, int], ...]

    def member_of(self, batch: int) -> np.ndarray:
        """The member that every column of a batch belongs to, [B], as in `FactorPlaces.member_of`."""
        return np.arange(batch) // (batch // len(self.spaces))

    @property
    def open_choices(self) -> OpenChoices:
        """How many candidates the decisions have."""
        return OpenChoices(len(self.spaces), tuple(orders.shape[1] for orders in self.orders),
                           tuple(placed.order.shape[1] for placed in self.layouts), self.keeps)


def family_of(layer: PreparedLayer, spaces: Sequence[MapSpace]) -> LayerFamily:
    """The family of some map spaces.

    Args:
        layer: The prepared layer of any member.
        spaces: Map spaces of the members, all with the same `kin`.

    Returns:
        The family, with members in the order of `spaces`.
    """
    tables = factor_tables(spaces)
    looping = tables.looping[:, 1::2].tolist()  # of the temporal loops, [W][L][D]
    orders, placed = [], []
    for level in range(len(spaces[0].levels)):
        orders.append(_side_by_side([temporal_orders(space, layer.projection, level, own[level])
                                     for space, own in zip(spaces, looping, strict=True)]))
        candidates = [layouts(space, level) for space in spaces]
        placed.append(SpatialLayouts(_side_by_side([layout.order for layout in candidates]),
                                     _side_by_side([layout.on_y for layout in candidates])))
    return LayerFamily(layer, tuple(spaces), tables, tuple(orders), tuple(placed), tuple(open_keeps(spaces[0])))


def _side_by_side(candidates: Sequence[np.ndarray]) -> np.ndarray:
    """The members' candidates [n_w, D] as [W, n, D], those of members with fewer repeated."""
    if len(candidates) == 1:
        return candidates[0][None]
    most = max(map(len, candidates))
    return np.stack([own[np.arange(most) % len(own)] for own in candidates])


def random_decisions(family: LayerFamily, batch: int, rng: np.random.Generator) -> DiscreteDecisions:
    """One random set of decisions per column.

    Args:
        family: The family.
        batch: Number of columns, B, a multiple of the members.
        rng: Source of randomness.

    Returns:
        Decisions. The first column of each member keeps every data space where it may, the second bypasses them
        wherever it may inside the outermost level, the others keep at random.
    """
    return decided(family, draws(family.open_choices, batch, rng))


def draws(choices: OpenChoices, batch: int, rng: np.random.Generator) -> Draws:
    """The random part of `random_decisions`, for which the candidates themselves play no role.

    Args:
        choices: How many candidates there are.
        batch: Number of columns, B, a multiple of the members.
        rng: Source of randomness.

    Returns:
        A candidate of each decision for every column.
    """
    member, column = np.divmod(np.arange(batch), batch // choices.members)
    order, layout = np.empty((2, len(choices.orders), batch), dtype=np.int64)
    orders_before = layouts_before = 0
    for level, (orders, placed) in enumerate(zip(choices.orders, choices.layouts, strict=True)):
        order[level] = orders_before + member * orders + rng.integers(0, orders, batch)
        layout[level] = layouts_before + member * placed + rng.integers(0, placed, batch)
        orders_before, layouts_before = (orders_before + choices.members * orders,
                                         layouts_before + choices.members * placed)
    outermost = len(choices.orders) - 1
    keep = [np.select([column == 0, column == 1], [True, level == outermost], rng.random(batch) < KEPT)
            for level, _ in choices.keeps]
    return Draws(order, layout, tuple(keep))


def decided(family: LayerFamily, picked: Draws) -> DiscreteDecisions:
    """The decisions of a batch.

    Args:
        family: The family.
        picked: Candidates of all decisions, drawn for `LayerFamily.open_choices`.
    """
    space, names = family.spaces[0], family.spaces[0].problem.dataspace_names()
    keep = np.array([[name in here.keep for name in names] for here in space.levels])
    keep = keep[..., None].repeat(picked.order.shape[1], axis=-1)
    for (level, t), kept in zip(family.keeps, picked.keep, strict=True):
        keep[level, t] = kept
    return DiscreteDecisions(_rows(family.orders, picked.order), keep,
                             _rows([placed.on_y for placed in family.layouts], picked.layout),
                             _rows([placed.order for placed in family.layouts], picked.layout))


def _rows(candidates: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
    """[L, D, B] from the candidates [W, n, D] of each level and rows [L, B] as in `Draws`."""
    dims = candidates[0].shape[-1]
    table = np.concatenate([level.reshape(-1, dims) for level in candidates])
    return np.ascontiguousarray(table[rows].swapaxes(1, 2))


UNEVEN = 3
"""Exponent of the random shares of a dimension's octaves in `random_nests`: the greater, the more often one loop takes
them all. Nothing was measured; validation wants both even and lopsided mappings."""


def random_nests(layer: PreparedLayer, space: MapSpace, batch: int, seed: int = 0) -> Nest:
    """Random mappings within the constraints, always the same for a seed: random octaves, rounded to divisors.

    Args:
        layer: The problem on its architecture.
        space: Its map space.
        batch: How many mappings.
        seed: Seed of every random number.

    Returns:
        The nests; they may still exceed a capacity or a fan-out.
    """
    family, rng = family_of(layer, [space]), np.random.default_rng(seed)
    tables = family.factors
    weight = rng.random((*tables.looping.shape[1:], batch)) ** UNEVEN * tables.looping[0].any(axis=1)[:, None, None]
    bounds = np.array(list(space.problem.bounds.values()))
    octaves = weight / weight.sum(axis=0).clip(min=1e-9) * np.log2(bounds)[:, None]
    factors, slopes = np.empty_like(octaves), np.empty_like(octaves)
    _kernel.draw_columns(octaves, None, 1.0, 1.0, np.zeros(batch, dtype=np.int64), tables.divisor, tables.completable,
                         tables.quotient.astype(np.int64), tables.bound, factors, slopes)
    choices = random_decisions(family, batch, rng)
    return Nest(factors[1::2].copy(), factors[0::2].copy(), choices.order, choices.keep, choices.on_y,
                choices.spatial_order)


def kin(space: MapSpace, projection: Projection) -> tuple[object, ...]:
    """A key that two map spaces of one architecture share if they can be searched as one family.

    The bounds of dimensions are not part of it, nor are limits on factors: these are tables of each member.

    Args:
        space: The map space.
        projection: Projection of its problem.
    """
    constraints = space.constraints
    levels = tuple((here.keep, here.bypass, here.open, level.temporal.no_reuse, level.spatial.no_reuse,
                    level.spatial.no_link_transfer, level.temporal.rmw_first_update, level.no_coalesce)
                   for here, level in zip(space.levels, constraints.levels, strict=True))
    return (space.problem.dimensions, space.problem.dataspace_names(), projection.ranks, projection.read_write, levels,
            constraints.min_parallelism)


class DecisionKind(IntEnum):
    """The kinds of decisions without a gradient; whole numbers, because compiled code compares them.

    Attributes:
        ORDER: The order of one level's temporal loops.
        LAYOUT: The order of one level's spatial loops and the axis, X or Y, of each.
        KEEP: Whether one level keeps or bypasses one data space.
    """

    ORDER = 0
    LAYOUT = 1
    KEEP = 2


@dataclass(frozen=True)
class OpenDecision:
    """One decision with more than one candidate.

    Attributes:
        kind: The kind of decision.
        level: The storage level whose decision it is, counted from the innermost.
        tensor: The data space, for `DecisionKind.KEEP` alone.
    """

    kind: DecisionKind
    level: int
    tensor: int = 0


def decisions_of(family: LayerFamily) -> list[OpenDecision]:
    """The open decisions of a family: orders first, then layouts, then keep or bypass, each by level.

    Args:
        family: The layers that are searched side by side; all share their open decisions.
    """
    ordered = [OpenDecision(DecisionKind.ORDER, level) for level, candidates in enumerate(family.orders)
               if candidates.shape[1] > 1]
    laid_out = [OpenDecision(DecisionKind.LAYOUT, level) for level, candidates in enumerate(family.layouts)
                if candidates.order.shape[1] > 1]
    return ordered + laid_out + [OpenDecision(DecisionKind.KEEP, *pair) for pair in family.keeps]
