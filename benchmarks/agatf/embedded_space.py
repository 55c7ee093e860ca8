"""A network on a design as the learning methods see it: embeddings of operators, and how shapes suit the design."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, isqrt, log2

import numpy as np

from benchmarks.agatf.autoencoder import Embedding
from benchmarks.agatf.fusion_space import FusionSpace, Nodes
from benchmarks.agatf.import_networks import INPUTS, network
from benchmarks.agatf.operator_features import operator_features
from fadiff_mapper import load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.network.one_design import specs_of


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
    return max(isqrt(arch.arithmetic.instances), 1)


def _rounded_up(bounds: Mapping[str, int], side: int) -> float:
    """Lanes that channels take over channels, both kinds together."""
    used = 1.0
    for dim in ("M", "C"):
        bound = bounds.get(dim, 1)
        used *= ceil(bound / side) * side / bound
    return used


def embedded(space: FusionSpace, embedding: Embedding) -> EmbeddedSpace:
    """A space with the embeddings of its operators."""
    arch = architecture(space.design)
    return EmbeddedSpace(space, arch, embedding(operator_features(space.workload, arch)))


def distinct_features(spaces: Sequence[FusionSpace], others: Sequence[str]) -> np.ndarray:
    """Features of all distinct operators of the spaces, and of other bundled or imported networks, [O, F]."""
    arch = architecture(spaces[0].design)
    networks = [space.workload for space in spaces] + [
        network(name) if name in INPUTS else load_network(f"bundled:networks/{name}") for name in others]
    rows = np.array([row for one in networks for row in operator_features(one, arch).values()])
    return np.unique(rows, axis=0)


@cache
def architecture(design: str) -> Architecture:
    """A bundled design; it is read with a problem, which plays no role."""
    return specs_of(load_network("bundled:networks/vgg16"), bundled_files.find(f"arch/{design}"))[0].arch
