"""Gradient descent on the relaxed model (FADiff, eq. 20), in many restarts of many problems at once.

Every step draws integer factors by Gumbel-Softmax (Jang, Gu and Poole 2017; FADiff, eqs. 1-3), takes the loss

    log(metric) + lambda (P_map + P_mem)

of the draw on the differentiable model, and moves the parameters by Adam through the straight-through estimator. The
logarithm replaces the metric of eq. (20), so that one lambda suits layers of any size; P_align applies to fused layers
only. The temperature falls and lambda rises geometrically. Each draw is a legal factorization, so it is also evaluated
exactly, and the descent returns the best draw of each restart. Decisions without a gradient (loop order, keep or
bypass) are tried on the exact model every few steps.

Axes: W problems, P places (free factors), D dimensions, B columns: `restarts` for each problem, one problem after the
other.
"""

from __future__ import annotations

import numpy as np
import torch

from fadiff_mapper.gradient.adam import adam_step, cooled, one_torch_thread
from fadiff_mapper.gradient.fadiff_as_printed import LAYER_MODELS
from fadiff_mapper.gradient.gumbel_softmax import (
    FactorPlaces,
    decode,
    draw,
    drawable_parts,
    gumbel,
    places_of,
)
from fadiff_mapper.gradient.loss import penalty, smooth_value
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays
from fadiff_mapper.search.best_so_far import SearchState
from fadiff_mapper.search.layer_family import DiscreteDecisions, random_decisions

TRIED = 4
"""Loop orders tried per level and trial, besides the present order; the refinement tries further orders."""


STEPS, RESTARTS = 12, 48
"""Steps of Adam, and restarts of each problem; more of them gain nothing after the refinement."""

REORDER_EVERY = 4
"""Steps between two trials of the decisions without a gradient."""

RATE = 0.3
"""Step size of Adam, in octaves of the tiling factors: large because steps are few."""

TEMPERATURES, WEIGHTS = (4.0, 0.05), (1.0, 8.0)
"""Gumbel-Softmax temperature (FADiff, eq. 2), and weight of the penalties (lambda of eq. 20), in the first and the last
step."""


def descend(state: SearchState, rng: np.random.Generator, model: str = "refined", restarts: int = RESTARTS,
            steps: int = STEPS, reorder_every: int = REORDER_EVERY) -> Nest:
    """Descends from random factors and decisions to the best integer nests: `restarts` columns per member in turn.

    `rng` draws the decisions; factors and Gumbel noise come from a generator with the options' seed.
    """
    options, family = state.options, state.family
    generator = torch.Generator().manual_seed(options.seed)
    places = places_of(family.spaces, family.factors)
    batch = restarts * places.problems
    member, choices = places.member_of(batch).numpy(), random_decisions(family, batch, rng)
    theta = first_theta(places, restarts, generator).requires_grad_(True)
    best = decode(draw(places, theta, None, TEMPERATURES[1], choices))
    values = state.value(best, member, "start")
    with one_torch_thread():
        step_by_adam = adam_step(theta, RATE)
        for step, (_, temperature, weight) in enumerate(cooled(steps, TEMPERATURES, WEIGHTS), 1):
            if state.out_of_time():
                break
            nest = draw(places, theta, gumbel(places, batch, generator), temperature, choices)
            drawn = decode(nest)
            drawn_values = state.value(drawn, member, "descent")
            better = drawn_values < values
            best = Nest(*(np.where(better, *pair) for pair in zip(nest_arrays(drawn), nest_arrays(best), strict=True)))
            values = np.where(better, drawn_values, values)
            smooth = LAYER_MODELS[model](family.layer, nest, drawable_parts(places, nest))
            loss = smooth_value(smooth, options.priorities) + weight * penalty(
                family.layer, places, theta, nest, smooth, family.spaces[0].constraints.min_parallelism)
            loss.sum().backward()  # type: ignore[no-untyped-call]
            step_by_adam()
            if step % reorder_every == 0:
                choices = _redecided(state, member, drawn, choices, rng)
    return best


def first_theta(places: FactorPlaces, restarts: int, generator: torch.Generator) -> torch.Tensor:
    """Initial parameters, [P, D, B]: random shares of each dimension's octaves for its places.

    Shares are squared uniform numbers, so that some places take much and most take little. The first restart of every
    problem gives each whole dimension to the outermost place, so that tiles are smallest.
    """
    shape = (len(places.level), places.bound.shape[1], places.problems, restarts)
    weights = torch.rand(shape, generator=generator, dtype=torch.float64) ** 2
    theta = weights / weights.sum(dim=0, keepdim=True) * torch.log2(places.bound).T[..., None]
    theta[..., 0] = 0
    return theta.flatten(start_dim=2)


def _redecided(state: SearchState, member: np.ndarray, nest: Nest, choices: DiscreteDecisions,
               rng: np.random.Generator) -> DiscreteDecisions:
    """The decisions for the factors just drawn: level by level the best of some orders, then keep or bypass."""
    def best(name: str, candidates: list[np.ndarray]) -> np.ndarray:
        """For each column the best of some arrays, [..., B] each, of one kind of decision."""
        tried = joined([Nest(nest.temporal, nest.spatial, *choices._replace(**{name: array})) for array in candidates])
        values = state.value(tried, np.tile(member, len(candidates)), "orders").reshape(len(candidates), -1)
        pick = values.argmin(axis=0)[None, None, None]
        picked: np.ndarray = np.take_along_axis(np.stack(candidates), pick, axis=0)[0]
        return picked

    for level, candidates in enumerate(state.family.orders):
        if candidates.shape[1] > 1:
            orders = [choices.order]
            for _ in range(TRIED):
                order = choices.order.copy()
                order[level] = candidates[member, rng.integers(0, candidates.shape[1], nest.batch)].T
                orders.append(order)
            choices = choices._replace(order=best("order", orders))
    for level, tensor in state.family.keeps:
        keeps = [choices.keep, choices.keep.copy()]
        keeps[1][level, tensor] ^= True
        choices = choices._replace(keep=best("keep", keeps))
    return choices
