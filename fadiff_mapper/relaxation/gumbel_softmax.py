"""From free parameters to loop nests: tiling factors relaxed by Gumbel-Softmax over divisors (FADiff, eqs. 1-3).

Every free factor is a *slot*: the spatial or temporal loops of one level, for one dimension. Its parameter theta is
the log2 of a continuous tiling factor T. The logit of a divisor d is -alpha (log2 T - log2 d)^2: eq. (1) measured on a
logarithmic scale, because factors multiply. Slots are drawn from the innermost outwards, each among the divisors
that the later slots can still complete to the problem's bound within the constraints, so that every draw is a legal
factorization. Forward the draw is discrete, backward it is the expectation of eq. (3) (straight-through).

Several problems are drawn side by side: the batch holds equally many columns of each, one problem after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.mapspace import FactorTables, MapSpace, factor_tables
from fadiff_mapper.model.loop_nest import Active, Nest
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.straight_through import NO_NOISE, StraightThrough


@dataclass(frozen=True)
class FactorPlaces:
    """The tables of W map spaces: K slots, D dimensions, N divisors at most (see `mapspace.tables`).

    level, spatial [K]         which loops the slot is
    divisor     [W, D, N]      the divisors of each bound, ascending
    completable [W, K, D, N, N]  with the divisor `i` left to place, may slot k take divisor `j`?
    left        [W, D, N, N]   number of what is left after that
    bound       [W, D]         the dimension's extent; start [W, D] is its number among the divisors
    residual    [W, K, D]      1 for the outermost free slot of a dimension, whose factor is what the others leave
    looping     [K, D]         whether the factor can be other than 1 in any of the map spaces
    """

    level: tuple[int, ...]
    spatial: tuple[bool, ...]
    levels: int
    divisor: torch.Tensor
    completable: torch.Tensor
    left: torch.Tensor
    bound: torch.Tensor
    start: torch.Tensor
    residual: torch.Tensor
    looping: np.ndarray

    @property
    def problems(self) -> int:
        """W."""
        return int(self.divisor.shape[0])

    def problem_of(self, batch: int) -> torch.Tensor:
        """The problem of every column of a batch, [B]."""
        return torch.arange(batch) // (batch // self.problems)


def places_of(spaces: Sequence[MapSpace], tables: FactorTables | None = None) -> FactorPlaces:
    """The slots of map spaces that share levels and dimensions; `tables` are theirs, where the caller has them."""
    tables = tables or factor_tables(spaces)
    looping: np.ndarray = np.any(tables.looping, axis=0)                                           # [P, D]
    used = [int(place) for place in np.flatnonzero(looping.any(axis=1))] or [looping.shape[0] - 1]
    free = tables.movable[:, used]                                                                 # [W, K, D]
    last = free.shape[1] - 1 - free[:, ::-1].argmax(axis=1)
    residual = free & (np.arange(free.shape[1])[:, None] == last[:, None])
    bound = np.take_along_axis(tables.divisor, tables.bound[..., None], axis=-1)[..., 0]
    return FactorPlaces(tuple(place // 2 for place in used), tuple(place % 2 == 0 for place in used),
                        len(spaces[0].levels), torch.from_numpy(tables.divisor),
                        torch.from_numpy(tables.completable[:, used]),
                        torch.from_numpy(tables.quotient.astype(np.int64)),
                        torch.from_numpy(bound), torch.from_numpy(tables.bound),
                        torch.from_numpy(residual.astype(np.float64)), looping[used])


def gumbel(slots: FactorPlaces, batch: int, generator: torch.Generator) -> torch.Tensor:
    """Standard Gumbel noise for one draw, [K, D, B, N]."""
    _, dims, width = slots.divisor.shape
    uniform = torch.rand((len(slots.level), dims, batch, width), generator=generator)
    return uniform.clamp_(1e-7, 1 - 1e-7).log_().neg_().log_().neg_()


@dataclass(frozen=True)
class RelaxedFactors:
    """Tiling factors per level and dimension, [L, D, B]: integers forward, differentiable in theta backward."""

    temporal: torch.Tensor
    spatial: torch.Tensor


def draw(slots: FactorPlaces, theta: torch.Tensor, noise: torch.Tensor | None, temperature: float) -> RelaxedFactors:
    """One draw of all factors, eqs. (1)-(3) with the straight-through estimator.

    theta [K, D, B] is log2 of the continuous factors, noise [K, D, B, N] is Gumbel; without noise every slot takes
    its most likely divisor. The noise is scaled with the temperature, so that the draw converges to the nearest
    divisor as the temperature goes to 0.
    """
    problem = slots.problem_of(theta.shape[-1])
    passed: torch.Tensor = StraightThrough.apply(  # type: ignore[no-untyped-call]
        theta, NO_NOISE if noise is None else noise.numpy(), temperature, problem.numpy(), slots.divisor.numpy(),
        slots.completable.numpy(), slots.left.numpy(), slots.start.numpy())
    free = slots.residual[problem].permute(1, 2, 0) > 0
    others = torch.where(free, torch.ones_like(passed), passed).prod(dim=0)
    factor = torch.where(free, slots.bound[problem].T / others, passed)
    return _by_level(slots, factor)


def _by_level(slots: FactorPlaces, factor: torch.Tensor) -> RelaxedFactors:
    ones = torch.ones_like(factor[0])
    temporal, spatial = [ones] * slots.levels, [ones] * slots.levels
    for k, (level, is_spatial) in enumerate(zip(slots.level, slots.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] = factor[k]
    return RelaxedFactors(torch.stack(temporal), torch.stack(spatial))


def drawable_parts(slots: FactorPlaces, choices: DiscreteDecisions) -> Active:
    """What any draw can make use of, so that the smooth model may leave out the rest."""
    temporal, spatial = (np.zeros((slots.levels, slots.looping.shape[1]), dtype=bool) for _ in range(2))
    for k, (level, is_spatial) in enumerate(zip(slots.level, slots.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] |= slots.looping[k]
    return Active(temporal, spatial, np.asarray(choices.keep.any(axis=-1)))


def torch_nest(factors: RelaxedFactors, choices: DiscreteDecisions) -> Nest:
    """The nests of one draw, for the differentiable model."""
    return Nest(factors.temporal, factors.spatial, torch.from_numpy(choices.order), torch.from_numpy(choices.keep),
                torch.from_numpy(choices.on_y), torch.from_numpy(choices.spatial_order))


def decode(factors: RelaxedFactors, choices: DiscreteDecisions) -> Nest:
    """The same nests as integers for the exact evaluation: a draw is already a legal factorization."""
    return Nest(np.rint(factors.temporal.detach().numpy()), np.rint(factors.spatial.detach().numpy()),
                choices.order, choices.keep, choices.on_y, choices.spatial_order)
