"""All mappings that are one small change away: a shift of a divisor, or one other decision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fadiff_mapper.model.loop_nest import joined
from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.search.family_decisions import FamilyDecisions, decisions_of
from fadiff_mapper.search.population import Population, with_numbers

LAYOUTS_TRIED = 12
"""How many layouts of the spatial loops of one level count as neighbours of a mapping."""


def neighbours(family: LayerFamily, population: Population, rng: np.random.Generator,
               orders: bool = True) -> tuple[Population, np.ndarray]:
    """All mappings one shift or one decision away (a sample of the layouts), and the row each came from."""
    found = [_all_shifts(family, population)]
    every = np.arange(len(population.member))
    for decision in decisions_of(family, orders):
        found += [(changed, every) for changed in _all_ways(family, decision, population, rng)]
    parts, rows = zip(*found, strict=True)
    member, number = (np.concatenate([getattr(part, name) for part in parts], axis=-1) for name in ("member", "number"))
    return Population(member, number, joined([part.nest for part in parts])), np.concatenate(rows)


def _all_shifts(family: LayerFamily, population: Population) -> tuple[Population, np.ndarray]:
    tables, member, number = family.factors, population.member, population.number
    places, dims = np.nonzero(tables.movable.any(axis=0))
    here = number[places, dims]                                                          # [Q, B]
    source, dim = places[:, None, None], dims[:, None, None]
    left = tables.quotient[member, dims[:, None], here]                                       # [Q, B, N]
    gives = (left > -1) & tables.allowed[member[:, None], source, dim, left]
    gives[..., 0] = False
    more = tables.product[member, dims[:, None], number[:, dims]]                        # [P, Q, B, N]
    place = np.arange(len(number))[:, None, None, None]
    takes = (more > -1) & tables.allowed[member[:, None], place, dim, more] & (place != source)
    target, site, row, part = np.nonzero(gives & takes)
    changed, column = number[..., row], np.arange(len(row))
    changed[places[site], dims[site], column] = left[site, row, part]
    changed[target, dims[site], column] = more[target, site, row, part]
    return with_numbers(population.take(row), changed, tables.divisor), row


def _all_ways(family: LayerFamily, decision: FamilyDecisions, population: Population,
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
