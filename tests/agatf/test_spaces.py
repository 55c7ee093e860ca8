"""A space has a group for every segment, and is cut by dynamic programming as well as can be."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.agatf.exact_groups import LONGEST, space
from benchmarks.agatf.fusion_space import FusionSpace, Nodes


@pytest.mark.slow
def test_every_segment_is_a_part_of_a_chain_and_no_cut_is_better_than_that_of_dynamic_programming() -> None:
    one = space("vgg16", "gemmini_large")
    parts = {chain[start:stop] for chain in one.chains for start in range(len(chain))
             for stop in range(start + 2, min(start + LONGEST, len(chain)) + 1)}
    assert set(one.number) <= parts
    assert {layer for chain in one.chains for layer in chain} == {node.name for node in one.workload.layers}
    known = {nodes: point for nodes in one.number if (point := one.exact(nodes))}
    assert one.log_edp(one.best_cut(known)) == pytest.approx(least_log_edp(one), abs=1e-12)


def least_log_edp(one: FusionSpace) -> float:
    """The least EDP of all cuts: of energy and cycles of every front part of the network, the Pareto front is kept."""
    front = np.array([[one.joined.energy_pj, one.joined.cycles]])
    for chain in one.chains:
        fronts = [front]
        for stop in range(1, len(chain) + 1):
            fronts.append(undominated(np.concatenate([
                fronts[start] + cost for start in range(stop) if (cost := exact(one, chain[start:stop])) is not None])))
        front = fronts[-1]
    return float(np.log(front).sum(axis=1).min())


def exact(one: FusionSpace, nodes: Nodes) -> np.ndarray | None:
    """Energy and cycles of a segment, None where it cannot run."""
    point = one.exact(nodes) if len(nodes) == 1 or nodes in one.number else None
    return point and np.array([point.energy_pj, point.cycles])


def undominated(points: np.ndarray) -> np.ndarray:
    """The points that no other has less of both numbers than, [B, 2]."""
    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    least = np.minimum.accumulate(ordered[:, 1])
    return ordered[np.concatenate([[True], ordered[1:, 1] < least[:-1]])]
