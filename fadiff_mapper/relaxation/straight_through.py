"""One discrete draw of all tiling factors with its straight-through gradient (FADiff eqs. (1)-(3)), factor by factor.

The estimator is that of Bengio et al. (2013): forward a discrete choice, backward the derivative of a smooth stand-in,
here the expectation of eq. (3) under the softmax of eq. (2). Each draw depends on what the places further in left, so
this is a loop, which the compiled kernel (`kernel/straight_through.hpp`) runs ten times as fast as tensor operations
over all divisors, few of which are allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fadiff_mapper.kernel import _kernel

ALPHA = 2.0
"""Sharpness of the logits, alpha of eq. (1), per (octave of a factor)^2. A plain choice of which no measurement is
kept; the temperature schedule scales it."""


class StraightThrough(torch.autograd.Function):
    """Forward the divisors that are drawn, backward the derivative of their expectation under the softmax."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, noise: np.ndarray | None, temperature: float, member: np.ndarray,
                divisor: np.ndarray, completable: np.ndarray, left: np.ndarray, start: np.ndarray) -> torch.Tensor:
        """Draws all factors.

        Args:
            ctx: Keeps the derivatives for `backward`.
            theta: [P, D, B]. log2 of the continuous factors.
            noise: [P, D, B, N]. Gumbel noise in float32; None for none.
            temperature: tau of eq. (2).
            member: [B]. Member of every column.
            divisor: [W, D, N]. Divisors; this table and the following ones as in `gumbel_softmax.FactorPlaces`.
            completable: [W, P, D, N, N].
            left: [W, D, N, N].
            start: [W, D].

        Returns:
            The divisors drawn, [P, D, B].
        """
        hard, slope = np.empty(theta.shape), np.empty(theta.shape)
        _kernel.draw_columns(np.ascontiguousarray(theta.detach().numpy()), noise, ALPHA, temperature, member, divisor,
                             completable, left, start, hard, slope)
        ctx.save_for_backward(torch.from_numpy(slope))
        return torch.from_numpy(hard)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradient times the derivative of each expectation by its own theta; no other argument has one."""
        slope, = ctx.saved_tensors
        return gradient * slope, *(None for _ in ctx.needs_input_grad[1:])
