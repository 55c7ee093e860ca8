"""A network on a design as the learning methods see it: embeddings of operators, and how shapes suit the design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from benchmarks.agatf.fusion_space import FusionSpace, Nodes
from fadiff_mapper.spec.arch import Architecture


@dataclass(frozen=True)
class EmbeddedSpace:
    """A space with what the learning methods see of it.

    Attributes:
        space: The space.
        arch: The design.
        embeddings: By operator, [EMBEDDED].
    """

    space: FusionSpace
    arch: Architecture
    embeddings: Mapping[str, np.ndarray]


def shape_penalties(seen: EmbeddedSpace, nodes: Nodes) -> list[float]:
    """Logarithms of what a group needs beyond the design: words beyond its largest buffer, and idle lanes.

    Args:
        seen: The space.
        nodes: Layers of the group.
    """
    layers = {node.name: node.layer for node in seen.space.workload.layers if node.layer}
    problems = [layers[name].problem for name in nodes]
    held = sum(layers[name].problem.tensor_size(layers[name].dataspace("Weights")) for name in nodes)
    idle = sum(log2(_rounded_up(problem.bounds, lanes(seen.arch))) for problem in problems) / len(problems)
    return [max(log2(held / capacity(seen.arch)), 0.0), idle]


def capacity(arch: Architecture) -> int:
    """Words of the largest buffer on the chip, all instances together."""
    return max((level.usable * level.instances for level in arch.levels[:-1] if level.usable), default=1)


def lanes(arch: Architecture) -> int:
    """Lanes along one side of the array, taken for square."""
    return max(round(arch.arithmetic.instances ** 0.5), 1)


def _rounded_up(bounds: Mapping[str, int], side: int) -> float:
    """Lanes that channels take over channels, both kinds together."""
    used = 1.0
    for dim in ("M", "C"):
        bound = bounds.get(dim, 1)
        used *= ceil(bound / side) * side / bound
    return used
