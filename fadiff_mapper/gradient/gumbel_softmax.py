"""From free parameters to loop nests: tiling factors relaxed by Gumbel-Softmax over divisors (FADiff, eqs. (1)-(3)).

Every factor has a *place*: the spatial or the temporal loops of one level, for one dimension. Its parameter theta is
the log2 of a continuous tiling factor T. The relaxation is Gumbel-Softmax (Jang et al. 2017) with the straight-through
estimator (Bengio et al. 2013): forward the draw is discrete, backward it is the expectation of eq. (3).

Where this differs from the paper:

    logits     -alpha (log2 T - log2 d)^2 of a divisor d, not -alpha (T - d)^2 (eq. (1)): factors multiply, so their
               distance is measured in octaves
    noise      scaled with the temperature, (l + tau g) / tau in eq. (2), so that the draw converges to the nearest
               divisor as tau goes to 0 (with unscaled noise the largest l + g stays random)
    validity   places are drawn from the innermost outwards, each among the divisors that the places further out can
               still complete to the problem's bound within the constraints: every draw is a legal factorization

The outermost free place of each dimension takes the factor that the other places leave, whatever its theta. Several
problems are drawn side by side: the batch holds equally many columns of each, one problem after the other.

Axes: W (members: problems drawn side by side), P (free places, innermost first), D (dimensions), N (divisors), L
(levels), B (columns of the batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Active, Nest, nest_arrays
from fadiff_mapper.search.layer_family import DiscreteDecisions
from fadiff_mapper.search.mapspace.build import FactorTables, MapSpace, factor_tables

ALPHA = 2.0
"""Sharpness of the logits, alpha of eq. (1), per (octave of a factor)^2; the temperature schedule scales it."""


class StraightThrough(torch.autograd.Function):
    """Forward the drawn divisors, backward the derivative of their expectation under the softmax."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, noise: torch.Tensor | None, temperature: float,
                places: FactorPlaces) -> torch.Tensor:
        """Draws the divisors as `draw` does, [P, D, B]; `ctx` keeps the derivatives for `backward`."""
        hard, slope = np.empty(theta.shape), np.empty(theta.shape)
        _kernel.draw_columns(np.ascontiguousarray(theta.detach().numpy()), None if noise is None else noise.numpy(),
                             ALPHA, temperature, places.member_of(theta.shape[-1]).numpy(), places.divisor,
                             places.completable, places.left, places.start, hard, slope)
        ctx.save_for_backward(torch.from_numpy(slope))
        return torch.from_numpy(hard)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradient times the derivative of each expectation by its own theta; no other argument has one."""
        slope, = ctx.saved_tensors
        return gradient * slope, *(None for _ in ctx.needs_input_grad[1:])


@dataclass(frozen=True)
class FactorPlaces:
    """The free places of W map spaces and their tables (see `mapspace.build`)."""

    level: tuple[int, ...]     # [P]. Level of each place
    spatial: tuple[bool, ...]  # [P]. Whether the place holds spatial loops
    levels: int                # Number of levels, L
    divisor: np.ndarray        # [W, D, N]. Divisors of each bound, ascending
    completable: np.ndarray    # [W, P, D, N, N]. Whether place p may take divisor j where divisor i is left to
                               # distribute
    left: np.ndarray           # [W, D, N, N]. Number of the divisor that is then left
    bound: torch.Tensor        # [W, D]. Bound of each dimension
    start: np.ndarray          # [W, D]. Number of the bound among its divisors
    residual: torch.Tensor     # [W, P, D]. 1 for the outermost free place of a dimension, whose factor is what the
                               # others leave
    looping: np.ndarray        # [P, D]. Whether the factor can be other than 1 in any of the map spaces

    @property
    def problems(self) -> int:
        """Number of members, W."""
        return len(self.divisor)

    def member_of(self, batch: int) -> torch.Tensor:
        """The member that every column of a batch belongs to, [B]."""
        return torch.arange(batch) // (batch // self.problems)


def places_of(spaces: Sequence[MapSpace], tables: FactorTables | None = None) -> FactorPlaces:
    """The places where some dimension of some map space can have a loop, at least one.

    The map spaces share levels and dimensions; `tables` are their tables if already built.
    """
    tables = tables or factor_tables(spaces)
    looping: np.ndarray = np.any(tables.allowed[..., 1:], axis=(0, -1))  # [P, D]
    used = [int(place) for place in np.flatnonzero(looping.any(axis=1))] or [looping.shape[0] - 1]
    free = (tables.allowed.sum(axis=-1) > 1)[:, used]  # [W, P, D]
    # the last True along axis P is the first of the reversed axis, which argmax finds
    last = free.shape[1] - 1 - free[:, ::-1].argmax(axis=1)
    residual = free & (np.arange(free.shape[1])[:, None] == last[:, None])
    bound = np.take_along_axis(tables.divisor, tables.bound[..., None], axis=-1)[..., 0]
    return FactorPlaces(tuple(place // 2 for place in used), tuple(place % 2 == 0 for place in used),
                        len(spaces[0].levels), tables.divisor, tables.completable[:, used],
                        tables.quotient.astype(np.int64), torch.from_numpy(bound), tables.bound,
                        torch.from_numpy(residual.astype(np.float64)), looping[used])


def gumbel(places: FactorPlaces, batch: int, generator: torch.Generator) -> torch.Tensor:
    """Standard Gumbel noise -log(-log(u)) for one draw of B columns (FADiff eq. (2)), [P, D, B, N] in float32.

    u is kept off 0 and 1, so that all values are finite.
    """
    _, dims, width = places.divisor.shape
    uniform = torch.rand((len(places.level), dims, batch, width), generator=generator)
    return uniform.clamp_(1e-7, 1 - 1e-7).log_().neg_().log_().neg_()


def draw(places: FactorPlaces, theta: torch.Tensor, noise: torch.Tensor | None, temperature: float,
         choices: DiscreteDecisions) -> Nest:
    """The nests of one draw of all factors (FADiff eqs. (1)-(3)), whose product is every dimension's bound.

    `theta` [P, D, B] is the log2 of the continuous factors; without Gumbel noise [P, D, B, N] every place takes its
    most likely divisor. Returns torch tensors with the decisions as given; the factors are integers forward,
    differentiable in theta backward.
    """
    member = places.member_of(theta.shape[-1])
    passed: torch.Tensor = StraightThrough.apply(theta, noise, temperature, places)  # type: ignore[no-untyped-call]
    # The residual factor is a quotient: its gradient follows from the product being equal to the bound.
    residual = places.residual[member].permute(1, 2, 0) > 0
    others = torch.where(residual, torch.ones_like(passed), passed).prod(dim=0)
    factor = torch.where(residual, places.bound[member].T / others, passed)
    ones = torch.ones_like(factor[0])   # levels without a free place
    temporal, spatial = [ones] * places.levels, [ones] * places.levels
    for p, (level, is_spatial) in enumerate(zip(places.level, places.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] = factor[p]
    return Nest(torch.stack(temporal), torch.stack(spatial), *map(torch.from_numpy, choices))


def drawable_parts(places: FactorPlaces, nest: Nest) -> Active:
    """Loops that can exceed 1, and data spaces that some column keeps: the smooth model may skip all others."""
    temporal, spatial = (np.zeros((places.levels, places.looping.shape[1]), dtype=bool) for _ in range(2))
    for p, (level, is_spatial) in enumerate(zip(places.level, places.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] |= places.looping[p]
    return Active(temporal, spatial, nest.keep.any(dim=-1).numpy())


def decode(drawn: Nest) -> Nest:
    """The nests of a draw as whole numbers in NumPy, for the exact evaluation."""
    temporal, spatial, *decisions = (array.detach().numpy() for array in nest_arrays(drawn))
    return Nest(np.rint(temporal), np.rint(spatial), *decisions)
