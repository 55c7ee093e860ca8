"""The guide: a shape-aware model of the cost of groups, a random forest over embeddings plus penalties of shapes.

AGATF's C(F) = h(E(operators)) + penalties, with h a random forest. C is the logarithm of the price of a group over that
of its layers one by one: below 0 fusion pays. The same forest can correct our own estimates, C then being the logarithm
of the exact price over the estimated one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, log2
from typing import Any

import numpy as np
from scipy.optimize import nnls
from sklearn.ensemble import RandomForestRegressor

from benchmarks.agatf.embedded_space import EmbeddedSpace, capacity, lanes, shape_penalties
from benchmarks.agatf.fusion_space import FusionSpace, Nodes
from fadiff_mapper.fusion.prices import NetworkPrice
from fadiff_mapper.workload import OperatingPoint

TREES, LEAF = 40, 3
"""Trees of the forest, and samples of a leaf at least. Set by hand, not measured."""


@dataclass(frozen=True)
class Guide:
    """A fitted model.

    Attributes:
        corrects: Whether it predicts the exact price over the estimate, instead of over the layers one by one.
        weights: Weights of the penalties, [2].
        forest: The rest, from features.
    """

    corrects: bool
    weights: np.ndarray
    forest: Any

    def points(self, seen: EmbeddedSpace) -> dict[Nodes, OperatingPoint]:
        """Predicted energy and cycles of every segment of a space."""
        segments = list(seen.space.number)
        if not segments:
            return {}
        rows = np.array([_features(seen, nodes, self.corrects) for nodes in segments])
        penalties = np.array([shape_penalties(seen, nodes) for nodes in segments])
        costs = self.forest.predict(rows) + penalties @ self.weights
        return {nodes: _scaled(_reference(seen.space, nodes, self.corrects), exp(cost))
                for nodes, cost in zip(segments, costs, strict=True)}


def fitted_guide(seen: Sequence[EmbeddedSpace], seed: int, corrects: bool = False) -> Guide:
    """Fits the guide to all groups of some spaces that can run.

    Args:
        seen: The spaces.
        seed: Seed of the forest.
        corrects: As in `Guide`.
    """
    samples = [(one, nodes, point) for one in seen for nodes, point in first_of_equals(one.space) if point]
    rows = np.array([_features(one, nodes, corrects) for one, nodes, _ in samples])
    penalties = np.array([shape_penalties(one, nodes) for one, nodes, _ in samples])
    costs = np.array([_relative(one.space, point, _reference(one.space, nodes, corrects))
                      for one, nodes, point in samples])
    weights = np.zeros(penalties.shape[1]) if corrects else nnls(penalties - penalties.mean(0), costs - costs.mean())[0]
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, random_state=seed, n_jobs=1)
    return Guide(corrects, weights, forest.fit(rows, costs - penalties @ weights))


def first_of_equals(space: FusionSpace) -> list[tuple[Nodes, OperatingPoint | None]]:
    """A segment for every group of a space, with its exact cost."""
    first: dict[int, Nodes] = {}
    for nodes, number in space.number.items():
        first.setdefault(number, nodes)
    return [(nodes, space.groups[number].exact) for number, nodes in first.items()]


def _reference(space: FusionSpace, nodes: Nodes, corrects: bool) -> OperatingPoint:
    """The cost that predictions are relative to."""
    return space.group(nodes).estimate if corrects else space.layers_alone(nodes)


def _relative(space: FusionSpace, point: OperatingPoint, reference: OperatingPoint) -> float:
    """The logarithm of a price over another one, both in the network without groups."""
    price = NetworkPrice(space.unfused)
    return log(price(point) / price(reference))


def _features(seen: EmbeddedSpace, nodes: Nodes, corrects: bool) -> np.ndarray:
    """Mean and extremes of embeddings, the length, the design; for a correction the estimate as well."""
    rows = np.array([seen.embeddings[name] for name in nodes])
    own = [len(nodes) / 16, log2(capacity(seen.arch)) / 32, log2(lanes(seen.arch)) / 16,
           *shape_penalties(seen, nodes)]
    if corrects:
        own.append(_relative(seen.space, seen.space.group(nodes).estimate, seen.space.layers_alone(nodes)))
    return np.concatenate([rows.mean(0), rows.min(0), rows.max(0), rows[0], rows[-1], own])


def _scaled(point: OperatingPoint, factor: float) -> OperatingPoint:
    return OperatingPoint(point.energy_pj * factor, point.cycles * factor)
