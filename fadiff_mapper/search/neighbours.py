"""The neighbourhood of a mapping: all mappings that are one shift of a divisor, or one other decision, away.

The last stage of a search descends in this neighbourhood (`refinement.polish`), so that a search which ends there can
say that no neighbour is better. Axes: Q movable loops, B mappings, P factor places, N divisors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fadiff_mapper.model.loop_nest import joined
from fadiff_mapper.relaxation.layer_batch import LayerFamily
from fadiff_mapper.search.family_decisions import DecisionKind, OpenDecision, decisions_of
from fadiff_mapper.search.population import Population, with_numbers

LAYOUTS_TRIED = 12
"""Layouts of one level's spatial loops that count as neighbours of a mapping: a random sample, as a level has up to
`discrete_decisions.LAYOUTS`. A limit on time; nothing was measured."""


def neighbours(family: LayerFamily, population: Population, rng: np.random.Generator,
               orders: bool = True) -> tuple[Population, np.ndarray]:
    """All mappings that are one shift or one decision away; of the layouts a sample.

    Args:
        family: The layers that the mappings are of.
        population: B mappings.
        rng: Draws the sample of layouts.
        orders: Whether loop orders may change.

    Returns:
        The neighbours, and for each the row of the population that it is a neighbour of.
    """
    parts = [_all_shifts(family, population)]
    every_row = np.arange(len(population.member))
    for decision in decisions_of(family, orders):
        parts += [(changed, every_row) for changed in _all_candidates(family, decision, population, rng)]
    populations, rows = zip(*parts, strict=True)
    member, number = (np.concatenate([getattr(part, name) for part in populations], axis=-1)
                      for name in ("member", "number"))
    return Population(member, number, joined([part.nest for part in populations])), np.concatenate(rows)


def _all_shifts(family: LayerFamily, population: Population) -> tuple[Population, np.ndarray]:
    """Every mapping in which one loop gives one divisor (above 1) to another loop of the same dimension."""
    tables, member, number = family.factors, population.member, population.number
    places, dims = np.nonzero(tables.movable.any(axis=0))
    giver = number[places, dims]                                                         # [Q, B]
    source, dim = places[:, None, None], dims[:, None, None]
    left = tables.quotient[member, dims[:, None], giver]                                      # [Q, B, N]
    gives = (left > -1) & tables.allowed[member[:, None], source, dim, left]
    gives[..., 0] = False  # the divisor 1: nothing would move
    more = tables.product[member, dims[:, None], number[:, dims]]                        # [P, Q, B, N]
    receiver = np.arange(len(number))[:, None, None, None]
    takes = (more > -1) & tables.allowed[member[:, None], receiver, dim, more] & (receiver != source)
    target, loop, row, part = np.nonzero(gives & takes)
    changed, column = number[..., row], np.arange(len(row))
    changed[places[loop], dims[loop], column] = left[loop, row, part]
    changed[target, dims[loop], column] = more[target, loop, row, part]
    return with_numbers(population.take(row), changed, tables.divisor), row


def _all_candidates(family: LayerFamily, decision: OpenDecision, population: Population,
                    rng: np.random.Generator) -> list[Population]:
    """The population once for each candidate of one decision, decided so in every row."""
    nest, member, level, changes = population.nest, population.member, decision.level, []
    if decision.kind == DecisionKind.ORDER:
        for pick in range(family.orders[level].shape[1]):
            order = nest.order.copy()
            order[level] = family.orders[level][member, pick].T
            changes.append(replace(nest, order=order))
    elif decision.kind == DecisionKind.KEEP:
        keep = nest.keep.copy()
        keep[level, decision.tensor] ^= True
        changes.append(replace(nest, keep=keep))
    else:
        layout = family.layouts[level]
        for pick in rng.permutation(layout.order.shape[1])[:LAYOUTS_TRIED]:
            spatial_order, on_y = nest.spatial_order.copy(), nest.on_y.copy()
            spatial_order[level], on_y[level] = layout.order[member, pick].T, layout.on_y[member, pick].T
            changes.append(replace(nest, spatial_order=spatial_order, on_y=on_y))
    return [replace(population, nest=changed) for changed in changes]
