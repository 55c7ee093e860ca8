"""One discrete draw of all tiling factors with its straight-through gradient (FADiff eqs. (1)-(3)), factor by factor.

The estimator is that of Bengio et al. (2013): forward a discrete choice, backward the derivative of a smooth stand-in,
here the expectation of eq. (3) under the softmax of eq. (2). Each draw depends on what the places further in left, so
this is a loop; numba runs it ten times as fast as tensor operations over all divisors, few of which are allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fadiff_mapper.base.numba_jit import compiled

ALPHA = 2.0
"""Sharpness of the logits, alpha of eq. (1), per (octave of a factor)^2. A plain choice of which no measurement is
kept; the temperature schedule scales it."""

NO_NOISE = np.empty((0, 0, 0, 0), dtype=np.float32)
"""Stands for the noise of a draw without noise; compiled code takes no None."""


class StraightThrough(torch.autograd.Function):
    """Forward the divisors that are drawn, backward the derivative of their expectation under the softmax."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, noise: np.ndarray, temperature: float, member: np.ndarray,
                divisor: np.ndarray, completable: np.ndarray, left: np.ndarray, start: np.ndarray) -> torch.Tensor:
        """The divisors drawn, [P, D, B]; arguments as in `draw_columns`, `noise` empty for none."""
        hard, slope = np.empty(theta.shape), np.empty(theta.shape)
        draw_columns(theta.detach().numpy(), noise, temperature, member, divisor, completable, left, start, hard,
                     slope)
        ctx.save_for_backward(torch.from_numpy(slope))
        return torch.from_numpy(hard)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """The gradient times the derivative of each expectation by its own theta; no other argument has one."""
        slope, = ctx.saved_tensors
        return gradient * slope, *(None for _ in ctx.needs_input_grad[1:])


@compiled
def draw_columns(theta: np.ndarray, noise: np.ndarray, temperature: float, member: np.ndarray, divisor: np.ndarray,
                 completable: np.ndarray, left: np.ndarray, start: np.ndarray, hard: np.ndarray,
                 slope: np.ndarray) -> None:
    """Draws all factors and differentiates their expectations.

    With logits l_j, weights w_j = exp(l_j) and pulls l_j' (derivatives by theta) the expectation is sum(w d) / sum(w),
    and its derivative (sum(w d l') - sum(w d) / sum(w) * sum(w l')) / sum(w).

    Args:
        theta: [P, D, B]. log2 of the continuous factors.
        noise: [P, D, B, N]. Gumbel noise; empty for none.
        temperature: tau of eq. (2).
        member: [B]. Member of every column.
        divisor: [W, D, N]. Divisors; this table and the following ones as in `gumbel_softmax.FactorPlaces`.
        completable: [W, P, D, N, N].
        left: [W, D, N, N].
        start: [W, D].
        hard: [P, D, B]. Result: the divisors drawn.
        slope: [P, D, B]. Result: derivatives of the expectations by theta.
    """
    places, dims, batch = theta.shape
    width = divisor.shape[2]
    logit, octaves = np.empty(width), np.log2(divisor)
    for b in range(batch):
        w = member[b]
        for d in range(dims):
            rest = start[w, d]
            for p in range(places):
                top, pick = -np.inf, 0
                for j in range(width):
                    if completable[w, p, d, rest, j]:
                        logit[j] = -ALPHA * (theta[p, d, b] - octaves[w, d, j]) ** 2 / temperature  # eq. (1)
                        if noise.size:
                            logit[j] += noise[p, d, b, j]
                        if logit[j] > top:
                            top, pick = logit[j], j
                total, mean, moved, drift = 0.0, 0.0, 0.0, 0.0
                for j in range(width):
                    if completable[w, p, d, rest, j]:
                        share = np.exp(logit[j] - top)  # eq. (2), less the largest logit so that nothing overflows
                        pull = -2 * ALPHA * (theta[p, d, b] - octaves[w, d, j]) / temperature
                        total += share
                        mean += share * divisor[w, d, j]  # eq. (3)
                        moved += share * divisor[w, d, j] * pull
                        drift += share * pull
                hard[p, d, b] = divisor[w, d, pick]
                slope[p, d, b] = (moved - mean / total * drift) / total
                rest = left[w, d, rest, pick]
