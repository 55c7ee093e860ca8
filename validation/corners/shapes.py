"""The shapes of corners: what their tensors' ranks are sums of."""

from __future__ import annotations

import random

from fadiff_mapper.inputs.spec.problem import DataSpace

from .drawing import tensor

Spaces = tuple[DataSpace, ...]


def product() -> Spaces:
    """A matrix product: no window anywhere."""
    return (tensor("A", "M", "K"), tensor("B", "K", "N"), tensor("Z", "M", "N", read_write=True))


def window(rng: random.Random) -> Spaces:
    """A convolution along one axis; the window is a sum of two or three dimensions with random coefficients."""
    step, dilation, third = rng.choice((1, 1, 1, 2, 3)), rng.choice((1, 1, 1, 2)), rng.choice((1, 1, 2, 3))
    rank = f"{step}P+{dilation}R" + (f"+{third}T" if rng.random() < 0.6 else "")
    taps = ("R", "T") if "T" in rank else ("R",)
    return (tensor("W", "K", "C", *taps), tensor("I", "C", rank), tensor("O", "K", "P", read_write=True))


def two_windows(rng: random.Random) -> Spaces:
    """A convolution along two axes."""
    step, dilation = rng.choice((1, 1, 2)), rng.choice((1, 1, 2))
    return (tensor("W", "C", "R", "S"), tensor("I", "C", f"{step}P+R", f"Q+{dilation}S"),
            tensor("O", "P", "Q", read_write=True))


def two_ranks(rng: random.Random) -> Spaces:
    """A tensor with one dimension in two of its ranks."""
    step = rng.choice((1, 2, 3))
    return (tensor("W", "K", "R"), tensor("I", "P+R", f"{step}P+R+T"), tensor("O", "K", "P", read_write=True))


def scattered(rng: random.Random) -> Spaces:
    """An output with a window, as of a transposed convolution: its sums overlap."""
    step = rng.choice((1, 1, 2))
    return (tensor("W", "K", "R"), tensor("I", "K", "P"), tensor("O", f"{step}P+R", read_write=True))


def any_window(rng: random.Random) -> Spaces:
    """One of the shapes with windows in an operand, the simple one most often."""
    return rng.choice((window, window, window, two_windows, two_ranks))(rng)


def windows_of(spaces: Spaces) -> tuple[tuple[tuple[str, int], ...], ...]:
    """The ranks of several terms: (dimension, coefficient) of each term."""
    return tuple(tuple((term.dimension, term.coefficient) for term in rank)
                 for space in spaces for rank in space.ranks if len(rank) > 1)
