"""AGATF's view of an operator as numbers: shape, data types and dependencies."""

from __future__ import annotations

from itertools import pairwise
from math import log2

import numpy as np

from fadiff_mapper.fusion.segments import chains
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.workload import Node, Operator, Workload

DIMENSIONS = ("N", "M", "C", "P", "Q", "R", "S", "G")
"""Dimensions of the bundled problems; an operator without one has 1 there."""

SCALE = 16.0
"""Logarithms of two are divided by it, so that features lie about between 0 and 1."""


def operator_features(workload: Workload, arch: Architecture) -> dict[str, np.ndarray]:
    """Features of every operator of a network.

    Network files carry no data types; words are as wide as the design's.

    Args:
        workload: The network.
        arch: The design.

    Returns:
        By name: logarithms of dimensions, strides, words of the three tensors and multiply-accumulates, bits of words,
        then whether tiles come from the operator before and go to the next one, and numbers of further readers, of
        joined tensors and of nodes between, [F].
    """
    dependencies: dict[str, list[float]] = {node.name: [0.0] * 5 for node in workload.layers}
    for names, links in chains(workload):
        for (before, after), link in zip(pairwise(names), links, strict=True):
            dependencies[after][0] = dependencies[before][1] = 1.0
            dependencies[before][2:] = [log2(1 + len(link.also_read_by)) / 4, log2(1 + len(link.joins)) / 4,
                                        log2(1 + len(link.through)) / 4]
    bits = [arch.levels[-1].word_bits / 32, arch.arithmetic.word_bits / 32]
    return {node.name: np.array([*_shape(_operator(node)), *bits, *dependencies[node.name]])
            for node in workload.layers}


def _operator(node: Node) -> Operator:
    assert node.layer is not None
    return node.layer


def _shape(layer: Operator) -> list[float]:
    """Logarithms of dimensions, strides, words of tensors and multiply-accumulates."""
    problem = layer.problem
    strides = (*layer.strides, 1, 1)[:2]
    words = sorted(problem.tensor_size(space) for space in problem.dataspaces if space.name != problem.output.name)
    sizes = [*words[:1], *words[-1:], problem.tensor_size(problem.output), _macs(layer)]
    return [log2(size) / SCALE for size in (*(problem.bounds.get(dim, 1) for dim in DIMENSIONS), *strides, *sizes)]


def _macs(layer: Operator) -> int:
    """Multiply-accumulates of all runs."""
    macs = layer.repeat
    for bound in layer.problem.bounds.values():
        macs *= bound
    return macs
