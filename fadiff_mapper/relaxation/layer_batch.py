"""Families: layers that are searched side by side because they differ in the bounds of their dimensions only.

An evaluation depends on the bounds through the factors alone, so the mappings of a whole family lie in one batch:
equally many columns of each member, one member after the other. Axes: W (members), L, D, T, B as in `loop_nest.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.mapspace import FactorTables, MapSpace, factor_tables
from fadiff_mapper.model.loop_nest import Projection
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.relaxation.discrete_decisions import (
    DiscreteDecisions,
    SpatialLayouts,
    layouts,
    open_keeps,
    temporal_orders,
)

KEPT = 0.7
"""Probability that a random mapping keeps a data space where it may. A plain choice; no measurement of it is kept."""


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


def family_of(layer: PreparedLayer, spaces: Sequence[MapSpace]) -> LayerFamily:
    """The family of some map spaces.

    Args:
        layer: The prepared layer of any member.
        spaces: Map spaces of the members, all with the same `kin`.

    Returns:
        The family, with members in the order of `spaces`.
    """
    tables = factor_tables(spaces)
    orders, placed = [], []
    for level in range(len(spaces[0].levels)):
        orders.append(_side_by_side([temporal_orders(space, layer.projection, level, tables.looping[w, 2 * level + 1])
                                     for w, space in enumerate(spaces)]))
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
    order, spatial_order, on_y, member = [], [], [], family.member_of(batch)
    for orders, placed in zip(family.orders, family.layouts, strict=True):
        order.append(orders[member, rng.integers(0, orders.shape[1], batch)].T)
        pick = rng.integers(0, placed.order.shape[1], batch)
        spatial_order.append(placed.order[member, pick].T)
        on_y.append(placed.on_y[member, pick].T)
    space, names = family.spaces[0], family.spaces[0].problem.dataspace_names()
    keep = np.array([[name in here.keep for name in names] for here in space.levels])[..., None].repeat(batch, axis=-1)
    column = np.arange(batch) % (batch // len(family.spaces))
    for level, t in family.keeps:
        outermost = level == len(space.levels) - 1
        keep[level, t] = np.select([column == 0, column == 1], [True, outermost], rng.random(batch) < KEPT)
    return DiscreteDecisions(np.stack(order), keep, np.stack(on_y), np.stack(spatial_order))


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
