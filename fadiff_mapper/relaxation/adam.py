"""Steps of Adam without the rest of torch's optimisers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.optim.adam import adam


def adam_step(theta: torch.Tensor, rate: float) -> Callable[..., None]:
    """A function that moves theta once by its gradient, at a part of the rate, and forgets the gradient.

    `torch.optim.Adam` does the same, but to make one loads torch's compiler, which takes seconds.
    """
    mean, square, count = torch.zeros_like(theta), torch.zeros_like(theta), torch.zeros(())

    def step(part: float = 1.0) -> None:
        assert theta.grad is not None
        with torch.no_grad():
            adam([theta], [theta.grad], [mean], [square], [], [count], foreach=False, amsgrad=False, beta1=0.9,
                 beta2=0.999, lr=part * rate, weight_decay=0.0, eps=1e-8, maximize=False)
        theta.grad = None
    return step


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """The tensors of a descent are small: threads would cost more than they bring. The caller's setting returns."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
