"""First weights of small networks, and Adam's steps on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.optim.adam import adam


def seed_weights(network: torch.nn.Module, generator: torch.Generator) -> None:
    """Draws the weights of all linear layers from a generator, so that no global state plays a role.

    Args:
        network: Changed in place; widths as `torch.nn.Linear` has them, biases zero.
        generator: The source of random numbers.
    """
    with torch.no_grad():
        for layer in network.modules():
            if isinstance(layer, torch.nn.Linear):
                width = layer.in_features ** -0.5
                layer.weight.uniform_(-width, width, generator=generator)
                layer.bias.zero_()


def adam_step(network: torch.nn.Module, rate: float, fused: bool = False) -> Callable[[torch.Tensor], None]:
    """A step function of Adam (Kingma and Ba 2015) with torch's default betas and epsilon.

    `torch.optim.Adam` gives the same numbers, but making one loads torch's compiler, which takes 3 s.

    Args:
        network: Its weights are moved in place.
        rate: Learning rate.
        fused: One operation for all weights, which is faster for many small steps and rounds otherwise.

    Returns:
        A function of a loss that moves the weights once against its gradient.
    """
    weights = list(network.parameters())
    means, squares = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    counts = [torch.zeros(()) for _ in weights]

    def step(loss: torch.Tensor) -> None:
        gradients = list(torch.autograd.grad(loss, weights))
        with torch.no_grad():
            adam(weights, gradients, means, squares, [], counts, foreach=False, fused=fused, amsgrad=False, beta1=0.9,
                 beta2=0.999, lr=rate, weight_decay=0.0, eps=1e-8, maximize=False)
    return step
