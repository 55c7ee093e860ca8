"""One discrete draw of all tiling factors with its straight-through gradient (FADiff, eqs. 1-3), factor by factor.

Each draw depends on what the ones before it left, which is why this is a loop; numba runs it ten times as fast as
tensor operations over all divisors, of which few are allowed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from fadiff_mapper.base.numba_jit import compiled

ALPHA = 2.0
"""Sharpness of the logits, per (octave of a factor)^2."""

NO_NOISE = np.empty((0, 0, 0, 0), dtype=np.float32)


class StraightThrough(torch.autograd.Function):
    """Forward the divisors that are drawn, backward their expectation under the softmax."""

    @staticmethod
    def forward(ctx: Any, theta: torch.Tensor, noise: np.ndarray, temperature: float, problem: np.ndarray,
                divisor: np.ndarray, completable: np.ndarray, left: np.ndarray, start: np.ndarray) -> torch.Tensor:
        """Integers [K, D, B]; theta, noise and temperature as in `gumbel_softmax.draw`, the tables as in
        `draw_columns`."""
        hard, slope = np.empty(theta.shape), np.empty(theta.shape)
        draw_columns(theta.detach().numpy(), noise, temperature, problem, divisor, completable, left, start, hard,
                     slope)
        ctx.save_for_backward(torch.from_numpy(slope))
        return torch.from_numpy(hard)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        slope, = ctx.saved_tensors
        return gradient * slope, *(None for _ in ctx.needs_input_grad[1:])


@compiled
def draw_columns(theta: np.ndarray, noise: np.ndarray, temperature: float, problem: np.ndarray, divisor: np.ndarray,
                 completable: np.ndarray, left: np.ndarray, start: np.ndarray, hard: np.ndarray,
                 slope: np.ndarray) -> None:
    """Fills in the divisors drawn and the derivatives of their expectations by theta, [K, D, B].

    problem [B] is the problem of every column, the other tables are those of `gumbel_softmax.Slots`.
    """
    slots, dims, batch = theta.shape
    width = divisor.shape[2]
    logit, octaves = np.empty(width), np.log2(divisor)
    for b in range(batch):
        w = problem[b]
        for d in range(dims):
            rest = start[w, d]
            for k in range(slots):
                top, pick = -np.inf, 0
                for j in range(width):
                    if completable[w, k, d, rest, j]:
                        logit[j] = -ALPHA * (theta[k, d, b] - octaves[w, d, j]) ** 2 / temperature  # eq. (1)
                        if noise.size:
                            logit[j] += noise[k, d, b, j]
                        if logit[j] > top:
                            top, pick = logit[j], j
                total, mean, moved, drift = 0.0, 0.0, 0.0, 0.0
                for j in range(width):
                    if completable[w, k, d, rest, j]:
                        share = np.exp(logit[j] - top)  # eq. (2)
                        pull = -2 * ALPHA * (theta[k, d, b] - octaves[w, d, j]) / temperature
                        total += share
                        mean += share * divisor[w, d, j]  # eq. (3)
                        moved += share * divisor[w, d, j] * pull
                        drift += share * pull
                hard[k, d, b] = divisor[w, d, pick]
                slope[k, d, b] = (moved - mean / total * drift) / total
                rest = left[w, d, rest, pick]
