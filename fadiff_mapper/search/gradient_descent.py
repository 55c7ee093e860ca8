"""Gradient descent on the relaxed model: eq. (20) of FADiff, in many restarts of many problems at once."""

from __future__ import annotations

import numpy as np
import torch

from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.model.smooth.evaluate import evaluate_smooth
from fadiff_mapper.model.smooth.fadiff_as_printed import evaluate_paper
from fadiff_mapper.relaxation.adam import adam_step, one_torch_thread
from fadiff_mapper.relaxation.annealing import geometric
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import (
    FactorPlaces,
    decode,
    draw,
    drawable_parts,
    gumbel,
    places_of,
    torch_nest,
)
from fadiff_mapper.relaxation.layer_batch import random_decisions
from fadiff_mapper.relaxation.objective import smooth_value
from fadiff_mapper.relaxation.penalty import penalty
from fadiff_mapper.search.best_so_far import SearchState

TRIED = 4
"""Loop orders per level that one look at the orders tries, besides the present one."""


def descend(state: SearchState, restarts: int, rng: np.random.Generator) -> Nest:
    """The best integer nest of every restart, `restarts` columns for every member of the family.

    Without the gradient these are random nests.
    """
    options, family = state.options, state.family
    model = evaluate_paper if options.model == "paper" else evaluate_smooth
    generator = torch.Generator().manual_seed(options.seed)
    slots = places_of(family.spaces, family.factors)
    batch = restarts * slots.problems
    member, choices = family.member_of(batch), random_decisions(family, batch, rng)
    theta = first_theta(slots, restarts, generator).requires_grad_(True)
    best = decode(draw(slots, theta, None, options.draw_temperature_end), choices)
    values = state.value(best, member, "start")
    with one_torch_thread():
        step_by_adam = adam_step(theta, options.learning_rate)
        for step in range(options.steps if options.gradient else 0):
            if state.out_of_time():
                break
            ratio = step / max(options.steps - 1, 1)
            temperature = geometric(options.draw_temperature_start, options.draw_temperature_end, ratio)
            weight = geometric(options.penalty_weight_start, options.penalty_weight_end, ratio)
            factors = draw(slots, theta, gumbel(slots, batch, generator), temperature)
            drawn = decode(factors, choices)
            found = state.value(drawn, member, "descent")
            better = found < values
            best, values = _either(better, drawn, best), np.where(better, found, values)
            nest = torch_nest(factors, choices)
            smooth = model(family.layer, nest, drawable_parts(slots, choices))
            loss = smooth_value(smooth, options.priorities) + weight * penalty(
                family.layer, slots, theta, nest, smooth, family.spaces[0].constraints.min_parallelism)
            loss.sum().backward()
            step_by_adam()
            if (step + 1) % options.reorder_every == 0:
                choices = _redecided(state, member, drawn, choices, rng)
    return best


def first_theta(slots: FactorPlaces, restarts: int, generator: torch.Generator) -> torch.Tensor:
    """Random shares of each dimension's octaves over its slots, [K, D, B].

    The first restart of every problem leaves all to the outermost slot.
    """
    shape = (len(slots.level), slots.bound.shape[1], slots.problems, restarts)
    weights = torch.rand(shape, generator=generator, dtype=torch.float64) ** 2
    theta = weights / weights.sum(dim=0, keepdim=True) * torch.log2(slots.bound).T[..., None]
    theta[..., 0] = 0
    return theta.flatten(start_dim=2)


def _either(first: np.ndarray, one: Nest, other: Nest) -> Nest:
    """The columns of one nest where `first` is set, else those of the other."""
    return Nest(*(np.where(first, getattr(one, name), getattr(other, name)) for name in Nest.__dataclass_fields__))


def _redecided(state: SearchState, member: np.ndarray, nest: Nest, choices: DiscreteDecisions,
               rng: np.random.Generator) -> DiscreteDecisions:
    """For the factors just drawn, the best of some loop orders of each level in turn, and keep or bypass."""
    for level, candidates in enumerate(state.family.orders if state.options.orders else ()):
        if candidates.shape[1] > 1:
            ways = [choices.order]
            for _ in range(TRIED):
                order = choices.order.copy()
                order[level] = candidates[member, rng.integers(0, candidates.shape[1], nest.batch)].T
                ways.append(order)
            pick = _best_way(state, member, [_with(nest, order, choices.keep) for order in ways])
            choices = DiscreteDecisions(_picked(ways, pick), choices.keep, choices.on_y, choices.spatial_order)
    for level, tensor in state.family.keeps:
        ways = [choices.keep, choices.keep.copy()]
        ways[1][level, tensor] ^= True
        pick = _best_way(state, member, [_with(nest, choices.order, keep) for keep in ways])
        choices = DiscreteDecisions(choices.order, _picked(ways, pick), choices.on_y, choices.spatial_order)
    return choices


def _with(nest: Nest, order: np.ndarray, keep: np.ndarray) -> Nest:
    return Nest(nest.temporal, nest.spatial, order, keep, nest.on_y, nest.spatial_order)


def _best_way(state: SearchState, member: np.ndarray, ways: list[Nest]) -> np.ndarray:
    """Which of several nests is best in each column, [B]."""
    values = state.value(joined(ways), np.tile(member, len(ways)), "orders").reshape(len(ways), -1)
    pick: np.ndarray = values.argmin(axis=0)
    return pick


def _picked(ways: list[np.ndarray], pick: np.ndarray) -> np.ndarray:
    """From each column's best way its array, [..., B]."""
    chosen: np.ndarray = np.take_along_axis(np.stack(ways), pick[None, None, None], axis=0)[0]
    return chosen
