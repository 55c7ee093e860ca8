"""Obstacles: the reasons why two operators cannot share tiles, each under one name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Obstacle:
    """The reason why two operators cannot share tiles.

    Attributes:
        name: a key of `OBSTACLES`.
        sentence: the same for a reader, with the node at fault.
    """

    name: str
    sentence: str


OBSTACLES = {
    "not_understood": "an operator in between is not understood",
    "picked": "elements are picked by an index that is computed, or by one that is not stated",
    "placed": "elements are put at places that an index names",
    "sorted": "the order of the elements depends on their values",
    "in_turn": "its steps run one after the other, each with the result of the one before",
    "untold": "the way in which its elements hang together with those of its operands is not known",
    "no_shape": "its shape is not known",
    "mixed": "a part is taken, or a pool is formed, along an axis on which several tensors stand, where is not stated",
    "sums": "a rank of its output is a sum of dimensions",
    "window": "a pooling window in between is not stated",
    "far": "too many operators lie in between",
}
"""Names of obstacles, and their sentences."""
