"""Small changes of mappings: drawn at random, or all of them.

A *shift* takes a divisor of the factor of one loop and gives it to another loop of the same dimension. An *exchange*
is two shifts between the same two places in opposite directions, of two dimensions: it changes the shape of a tile
and keeps its size. The other decisions (loop order, keep or bypass, layout of spatial loops) change one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.family import Family
from fadiff_mapper.nest import joined
from fadiff_mapper.search.population import Population, with_numbers
from fadiff_mapper.search.shift import Sites, shifted

DECISION, SHIFT_TWICE, EXCHANGE, BOTH = 0.3, 0.8, 0.5, 0.1
"""Shares of random moves: that change a decision and no factor; of the others, those with a second shift, of which so
many are exchanges; and those that change a decision too."""

LAYOUTS_TRIED = 12
"""How many layouts of the spatial loops of one level count as neighbours of a mapping."""


def proposed(family: Family, sites: Sites, population: Population, rng: np.random.Generator,
             orders: bool = True) -> tuple[Population, np.ndarray]:
    """Mappings after one random move each, and the row each came from. Rows whose move changes nothing are left out."""
    batch = len(population.member)
    uniform = rng.random((10, batch))
    decisions = decisions_of(family, orders)
    moving = (uniform[0] >= DECISION) if decisions else np.ones(batch, dtype=bool)
    number = population.number.copy()
    first = shifted(family.factors, sites, population.member, number, moving, uniform[1:4])
    again = (first.source >= 0) & (uniform[5] < SHIFT_TWICE)
    shifted(family.factors, sites, population.member, number, again, uniform[6:9], first, uniform[4] < EXCHANGE)
    changed = (number != population.number).any(axis=(0, 1))
    new = fitted(family, with_numbers(population, number, family.factors), rng)
    if decisions:
        new, decided = redecided(family, decisions, new, ~moving | (uniform[9] < BOTH), rng)
        changed |= decided
    rows = np.flatnonzero(changed)
    return new.take(rows), rows


def fitted(family: Family, population: Population, rng: np.random.Generator) -> Population:
    """The population with spatial loops placed anew, at random, where one axis is too short for those that it has.

    A loop that grows in a full array often fits only if another one changes its axis.
    """
    nest, member = population.nest, population.member
    spatial_order, on_y = nest.spatial_order.copy(), nest.on_y.copy()
    for level in [level for level, layout in enumerate(family.layouts) if layout.order.shape[1] > 1]:
        layout, fanout = family.layouts[level], family.spaces[0].levels[level].fanout
        rows = np.flatnonzero(~_fit(nest.spatial[level], on_y[level], fanout))
        drawn = rng.integers(0, layout.order.shape[1], (LAYOUTS_TRIED, len(rows)))
        drawn_on_y = layout.on_y[member[rows], drawn].transpose(2, 0, 1)                           # [D, n, R]
        fits = _fit(nest.spatial[level][:, None, rows], drawn_on_y, fanout)
        taken = np.flatnonzero(fits.any(axis=0))
        rows, pick = rows[taken], drawn[fits[:, taken].argmax(axis=0), taken]
        spatial_order[level][:, rows] = layout.order[member[rows], pick].T
        on_y[level][:, rows] = layout.on_y[member[rows], pick].T
    return replace(population, nest=replace(nest, spatial_order=spatial_order, on_y=on_y))


def _fit(factors: np.ndarray, on_y: np.ndarray, fanout: tuple[int, int]) -> np.ndarray:
    """Whether spatial loops [D, ...] are no more than a fan-out has units, on either axis."""
    x, y = np.where(on_y, 1, factors).prod(axis=0), np.where(on_y, factors, 1).prod(axis=0)
    fits: np.ndarray = (x <= fanout[0]) & (y <= fanout[1])
    return fits


@dataclass(frozen=True)
class Decision:
    """Something other than a factor that can be decided anew: "order" or "layout" of a level, or "keep"."""

    kind: str
    level: int
    tensor: int = 0


def decisions_of(family: Family, orders: bool = True) -> list[Decision]:
    """Everything that is open. Orders come twice: there are more of them."""
    ordered = [Decision("order", level) for level, found in enumerate(family.orders) if found.shape[1] > 1 and orders]
    placed = [Decision("layout", level) for level, found in enumerate(family.layouts) if found.order.shape[1] > 1]
    return ordered + ordered + placed + [Decision("keep", *pair) for pair in family.keeps]


def redecided(family: Family, decisions: list[Decision], population: Population, where: np.ndarray,
              rng: np.random.Generator) -> tuple[Population, np.ndarray]:
    """The population with one random decision taken anew in every column where `where` says so.

    Also, [B], whether that changes anything: loops of one iteration may stand anywhere.
    """
    nest, member = population.nest, population.member
    order, keep, on_y, spatial_order = (array.copy() for array in (nest.order, nest.keep, nest.on_y,
                                                                   nest.spatial_order))
    different = list(dict.fromkeys(decisions))
    which = np.array([different.index(decision) for decision in decisions])
    pick = np.where(where, which[rng.integers(0, len(decisions), len(where))], -1)
    changed = np.zeros(len(where), dtype=bool)
    for index, decision in enumerate(different):
        rows, level = np.flatnonzero(pick == index), decision.level
        if decision.kind == "order":
            orders, factors = family.orders[level], nest.temporal[level][:, rows]
            before, after = order[level][:, rows], orders[member[rows], rng.integers(0, orders.shape[1], len(rows))].T
            order[level][:, rows] = after
            changed[rows] = _sequence(before, factors) != _sequence(after, factors)
        elif decision.kind == "layout":
            layout, factors = family.layouts[level], nest.spatial[level][:, rows]
            before = _sequence(spatial_order[level][:, rows], factors, on_y[level][:, rows])
            taken = member[rows], rng.integers(0, layout.order.shape[1], len(rows))
            spatial_order[level][:, rows], on_y[level][:, rows] = layout.order[taken].T, layout.on_y[taken].T
            changed[rows] = before != _sequence(layout.order[taken].T, factors, layout.on_y[taken].T)
        else:
            keep[level, decision.tensor, rows] ^= True
            changed[rows] = True
    return replace(population, nest=replace(nest, order=order, keep=keep, on_y=on_y,
                                            spatial_order=spatial_order)), changed


def _sequence(order: np.ndarray, factors: np.ndarray, on_y: np.ndarray | None = None) -> np.ndarray:
    """The loops of several iterations in their order (of spatial ones: with their axes), as one number, [B]."""
    digit = np.arange(1, len(order) + 1)[:, None] + (0 if on_y is None else len(order) * on_y)
    digit = np.take_along_axis(np.where(factors > 1, digit, 0), order, axis=0)                     # [D, B]
    place = np.cumsum(digit > 0, axis=0)
    code: np.ndarray = (digit << place * (2 * len(order)).bit_length()).sum(axis=0)
    return code


def neighbours(family: Family, sites: Sites, population: Population, rng: np.random.Generator,
               orders: bool = True) -> tuple[Population, np.ndarray]:
    """All mappings one shift or one decision away (a sample of the layouts), and the row each came from."""
    found = [_all_shifts(family, sites, population)]
    every = np.arange(len(population.member))
    for decision in dict.fromkeys(decisions_of(family, orders)):
        found += [(changed, every) for changed in _all_ways(family, decision, population, rng)]
    parts, rows = zip(*found, strict=True)
    member, number = (np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in ("member", "number"))
    return Population(member, number, joined([part.nest for part in parts])), np.concatenate(rows)


def _all_shifts(family: Family, sites: Sites, population: Population) -> tuple[Population, np.ndarray]:
    tables, member, number = family.factors, population.member, population.number
    here = number[sites.place, sites.dim]                                                          # [Q, B]
    source, dim = sites.place[:, None, None], sites.dim[:, None, None]
    left = tables.quotient[member, sites.dim[:, None], here]                                       # [Q, B, N]
    gives = (left > -1) & tables.allowed[member[:, None], source, dim, left]
    gives[..., 0] = False
    more = tables.product[member, sites.dim[:, None], number[:, sites.dim]]                        # [P, Q, B, N]
    place = np.arange(len(number))[:, None, None, None]
    takes = (more > -1) & tables.allowed[member[:, None], place, dim, more] & (place != source)
    target, site, row, part = np.nonzero(gives & takes)
    changed, column = number[..., row], np.arange(len(row))
    changed[sites.place[site], sites.dim[site], column] = left[site, row, part]
    changed[target, sites.dim[site], column] = more[target, site, row, part]
    return with_numbers(population.take(row), changed, tables), row


def _all_ways(family: Family, decision: Decision, population: Population,
              rng: np.random.Generator) -> list[Population]:
    nest, member, level, found = population.nest, population.member, decision.level, []
    if decision.kind == "order":
        for pick in range(family.orders[level].shape[1]):
            order = nest.order.copy()
            order[level] = family.orders[level][member, pick].T
            found.append(replace(nest, order=order))
    elif decision.kind == "keep":
        keep = nest.keep.copy()
        keep[level, decision.tensor] ^= True
        found.append(replace(nest, keep=keep))
    else:
        layout = family.layouts[level]
        for pick in rng.permutation(layout.order.shape[1])[:LAYOUTS_TRIED]:
            spatial_order, on_y = nest.spatial_order.copy(), nest.on_y.copy()
            spatial_order[level], on_y[level] = layout.order[member, pick].T, layout.on_y[member, pick].T
            found.append(replace(nest, spatial_order=spatial_order, on_y=on_y))
    return [replace(population, nest=changed) for changed in found]
