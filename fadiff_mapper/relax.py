"""From free parameters to loop nests: tiling factors relaxed by Gumbel-Softmax over divisors (FADiff, eqs. 1-3).

Every free factor is a *slot*: the spatial or temporal loops of one level, for one dimension. Its parameter theta is
the log2 of a continuous tiling factor T. The logit of a divisor d is -alpha (log2 T - log2 d)^2: eq. (1) measured on a
logarithmic scale, because factors multiply. Slots are drawn from the innermost outwards, each among the divisors
that the later slots can still complete to the problem's bound within the constraints, so that every draw is a legal
factorization. Forward the draw is discrete, backward it is the expectation of eq. (3) (straight-through).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.mapspace import MapSpace, divisors
from fadiff_mapper.nest import Active, Nest

ALPHA = 2.0
"""Sharpness of the logits, per (octave of a factor)^2."""


@dataclass(frozen=True)
class Slots:
    """The tables of one map space: K slots, D dimensions, N divisors at most (padded with 1).

    level, spatial [K]      which loops the slot is
    divisor   [D, N]        the divisors of each bound, ascending
    allowed   [K, D, N, N]  with the divisor `i` left to place, may slot k take divisor `j`?
    left      [D, N, N]     index of what is left after that
    bound     [D]           the dimension's extent; start [D] is its index among the divisors
    residual  [K, D]        1 for the outermost free slot of a dimension, whose factor is what the others leave
    looping   [K, D]        whether the factor can be other than 1
    """

    level: tuple[int, ...]
    spatial: tuple[bool, ...]
    levels: int
    divisor: torch.Tensor
    allowed: torch.Tensor
    left: torch.Tensor
    bound: torch.Tensor
    start: torch.Tensor
    residual: torch.Tensor
    looping: np.ndarray


def slots_of(space: MapSpace) -> Slots:
    """The tables of a map space; every table is consistent with the factors that constraints fix or bound."""
    level, spatial, choices = [], [], []
    for index, here in enumerate(space.levels):
        for is_spatial, loops in ((True, here.spatial), (False, here.temporal)):
            if any(options != (1,) for options in loops.choices.values()):
                level.append(index)
                spatial.append(is_spatial)
                choices.append(loops.choices)
    if not level:  # nothing to decide: one slot keeps the tables in shape
        level, spatial, choices = [len(space.levels) - 1], [False], [space.levels[-1].temporal.choices]
    names = space.problem.dimensions
    factors = [divisors(space.problem.bounds[name]) for name in names]
    width, count = max(map(len, factors)), len(level)
    divisor = np.ones((len(names), width))
    allowed = np.zeros((count, len(names), width, width), dtype=bool)
    left = np.zeros((len(names), width, width), dtype=np.int64)
    residual = np.zeros((count, len(names)))
    for d, name in enumerate(names):
        divisor[d, :len(factors[d])] = factors[d]
        index_of = {value: i for i, value in enumerate(factors[d])}
        for whole in factors[d]:
            for part in factors[d]:
                if whole % part == 0:
                    left[d, index_of[whole], index_of[part]] = index_of[whole // part]
        completable = {1}
        for k in reversed(range(count)):
            for whole in factors[d]:
                for part in choices[k][name]:
                    if whole % part == 0 and whole // part in completable:
                        allowed[k, d, index_of[whole], index_of[part]] = True
            completable = {a * b for a in completable for b in choices[k][name] if factors[d][-1] % (a * b) == 0}
        free = [k for k in range(count) if len(choices[k][name]) > 1]
        if free:
            residual[free[-1], d] = 1
    return Slots(tuple(level), tuple(spatial), len(space.levels), torch.from_numpy(divisor), torch.from_numpy(allowed),
                 torch.from_numpy(left), torch.tensor([float(f[-1]) for f in factors], dtype=torch.float64),
                 torch.tensor([len(f) - 1 for f in factors]), torch.from_numpy(residual),
                 np.array([[options[name] != (1,) for name in names] for options in choices]))


def gumbel(slots: Slots, batch: int, generator: torch.Generator) -> torch.Tensor:
    """Standard Gumbel noise for one draw, [K, D, N, B]."""
    shape = (len(slots.level), *slots.divisor.shape, batch)
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64)
    return -torch.log(-torch.log(uniform.clamp(1e-12, 1 - 1e-12)))


@dataclass(frozen=True)
class Factors:
    """Tiling factors per level and dimension, [L, D, B]: integers forward, differentiable in theta backward."""

    temporal: torch.Tensor
    spatial: torch.Tensor


def draw(slots: Slots, theta: torch.Tensor, noise: torch.Tensor, temperature: float) -> Factors:
    """One draw of all factors, eqs. (1)-(3) with the straight-through estimator.

    theta [K, D, B] is log2 of the continuous factors, noise [K, D, N, B] is Gumbel. The noise is scaled with the
    temperature, so that the draw converges to the nearest divisor as the temperature goes to 0.
    """
    batch = theta.shape[-1]
    dims = torch.arange(len(slots.bound))[:, None]
    log_divisor = torch.log2(slots.divisor)
    rest = slots.start[:, None].expand(-1, batch)
    hard, soft = [], []
    for k in range(len(slots.level)):
        allowed = slots.allowed[k][dims, rest]                                        # [D, B, N]
        logit = -ALPHA * (theta[k][..., None] - log_divisor[:, None]) ** 2 / temperature + noise[k].transpose(1, 2)
        share = torch.softmax(logit.masked_fill(~allowed, -torch.inf), dim=-1)
        pick = share.argmax(dim=-1)
        hard.append(slots.divisor[dims, pick])
        soft.append((share * slots.divisor[:, None]).sum(dim=-1))
        rest = slots.left[dims, rest, pick]
    discrete, expected = torch.stack(hard), torch.stack(soft)
    passed = discrete + (expected - expected.detach())  # exactly the discrete factors forward
    free = slots.residual[..., None]
    others = torch.where(free > 0, torch.ones_like(passed), passed).prod(dim=0)
    factor = torch.where(free > 0, slots.bound[:, None] / others, passed)
    return _by_level(slots, factor)


def _by_level(slots: Slots, factor: torch.Tensor) -> Factors:
    ones = torch.ones_like(factor[0])
    temporal, spatial = [ones] * slots.levels, [ones] * slots.levels
    for k, (level, is_spatial) in enumerate(zip(slots.level, slots.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] = factor[k]
    return Factors(torch.stack(temporal), torch.stack(spatial))


@dataclass(frozen=True)
class Choices:
    """The decisions that have no gradient, one column per restart; arrays as in `Nest`."""

    order: np.ndarray
    keep: np.ndarray
    on_y: np.ndarray
    spatial_order: np.ndarray


def drawable_parts(slots: Slots, choices: Choices) -> Active:
    """What any draw can make use of, so that the smooth model may leave out the rest."""
    temporal, spatial = (np.zeros((slots.levels, len(slots.bound)), dtype=bool) for _ in range(2))
    for k, (level, is_spatial) in enumerate(zip(slots.level, slots.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] |= slots.looping[k]
    return Active(temporal, spatial, np.asarray(choices.keep.any(axis=-1)))


def torch_nest(factors: Factors, choices: Choices) -> Nest:
    """The nests of one draw, for the differentiable model."""
    return Nest(factors.temporal, factors.spatial, torch.from_numpy(choices.order), torch.from_numpy(choices.keep),
                torch.from_numpy(choices.on_y), torch.from_numpy(choices.spatial_order))


def decode(factors: Factors, choices: Choices) -> Nest:
    """The same nests as integers for the exact evaluation: a draw is already a legal factorization."""
    return Nest(np.rint(factors.temporal.detach().numpy()), np.rint(factors.spatial.detach().numpy()),
                choices.order, choices.keep, choices.on_y, choices.spatial_order)
