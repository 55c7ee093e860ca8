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
