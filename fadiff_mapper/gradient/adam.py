"""Steps of Adam (Kingma and Ba 2015), without torch's optimisers, and schedules of temperature and penalty weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.optim.adam import adam


def adam_step(theta: torch.Tensor, rate: float) -> Callable[..., None]:
    """A function that moves theta, in place, by one step of Adam with torch's default betas and epsilon.

    Its argument scales the learning rate `rate` (1 by default); the gradient must be set, and is cleared.
    `torch.optim.Adam` does the same, but loads torch's compiler for seconds.
    """
    mean, square, count = torch.zeros_like(theta), torch.zeros_like(theta), torch.zeros(())

    def step(part: float = 1.0) -> None:
        assert theta.grad is not None
        with torch.no_grad():
            adam([theta], [theta.grad], [mean], [square], [], [count], foreach=False, amsgrad=False, beta1=0.9,
                 beta2=0.999, lr=part * rate, weight_decay=0.0, eps=1e-8, maximize=False)
        theta.grad = None
    return step


def cooled(steps: int, temperatures: tuple[float, float],
           weights: tuple[float, float]) -> Iterator[tuple[float, float, float]]:
    """For each step of a descent: progress from 0 to 1, temperature, and weight of penalties.

    Temperature and weight change geometrically, from the first of their two numbers (above 0) to the second.
    """
    for step in range(steps):
        ratio = step / max(steps - 1, 1)
        temperature, weight = (start * (end / start) ** ratio for start, end in (temperatures, weights))
        yield ratio, temperature, weight


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Runs torch on one thread, then restores the caller's setting: the tensors of a descent are too small for more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
