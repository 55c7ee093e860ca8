"""Layers one by one: the plan of the least EDP among all combinations of their mappings, and its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import cast

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import SHAPES, Case, cases

from fadiff_mapper import NetworkOptions, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.network_bound import LeastLayer, NetworkLeast, PathStep
from fadiff_mapper.network.one_by_one import LayerProof, best_one_by_one
from fadiff_mapper.search.exhaustive import count, nests, whole_space
from fadiff_mapper.search.lower_bound.proof import MappingProof
from fadiff_mapper.workload import OperatingPoint
from tests.analysis.test_proof import MOST, best_and_worst, tiny

ALL = 1 << 40
"""A budget with which every proof of a small space ends."""

spaces = st.tuples(cases(SHAPES), st.lists(st.integers(1, 60), min_size=3, max_size=3), st.booleans())


@given(st.lists(spaces, min_size=2, max_size=2), st.lists(st.integers(1, 4), min_size=2, max_size=2),
       st.integers(0, 200), st.floats(0.2, 5))
def test_proofs_meet_the_best_of_all_combinations_of_mappings(
        drawn: list[tuple[Case, list[int], bool]], runs: list[int], besides: int, ratio: float) -> None:
    tasks = [tiny(*one) for one in drawn]
    assume(all(count(task.space) <= MOST for task in tasks))
    proofs, points = [], []
    for task in tasks:
        found = best_and_worst(task, "edp")
        assume(found)
        assert found
        proofs.append(LayerProof(task, found[1], ALL))
        scores = [score(task.layer, batch) for batch in nests(whole_space(task.space), 1 << 14)]
        points.append({(energy, cycles) for own in scores for energy, cycles, legal in zip(
            own.energy, own.cycles, own.legal, strict=True) if legal})
    layers = [proof.least(min(point[0] for point in own), min(point[1] for point in own), 0.0)
              for proof, own in zip(proofs, points, strict=True)]
    other = OperatingPoint(float(besides), besides / 2)

    def edp(own: tuple[tuple[float, float], ...]) -> float:
        energy, cycles = (sum(often * point[axis] for point, often in zip(own, runs, strict=True)) for axis in range(2))
        return (energy + other.energy_pj) * (cycles + other.cycles)

    def costs(chosen: Sequence[Nest]) -> tuple[tuple[float, float], ...]:
        return tuple((point.energy_pj, point.cycles) for point in map(LayerProof.point, proofs, chosen))

    best = min(map(edp, product(*map(hull, points))))
    once = costs(best_one_by_one(proofs, [replace(layer, proved={}) for layer in layers], runs, other, fused=True))
    assert best * (1 - 1e-9) <= edp(once) <= edp(costs([proof.nest for proof in proofs]))
    own = costs(best_one_by_one(proofs, layers, runs, other))
    assert edp(own) == pytest.approx(best, rel=3e-6)
    least = NetworkLeast([PathStep(index, index + 1, (str(index),), layer, often)
                          for index, (layer, often) in enumerate(zip(layers, runs, strict=True))], other)
    assert best * (1 - 3e-6) <= least.bound("edp") <= best
    for layer, all_points in zip(layers, points, strict=True):     # prices between and beyond those that were proved
        for energy, cycles in ((1.0, ratio), (1.0, 0.0), (0.0, 1.0), (ratio / own[0][0], 1 / own[0][1])):
            assert layer.price(energy, cycles) <= min(
                energy * point[0] + cycles * point[1] for point in all_points) * (1 + 1e-8)


def hull(points: set[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that no other one undercuts in both values."""
    kept: list[tuple[float, float]] = []
    for point in sorted(points):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def test_a_proved_price_counts_in_part_at_other_prices() -> None:
    """Of 2 pJ + 3 cycles nothing costs less than 24, so at prices 2 and 5 nothing costs less than 24 + 2 x 4 cycles."""
    layer = LeastLayer(3.0, 4.0)
    assert layer.price(2.0, 3.0) == 18.0
    layer.proved[2.0, 3.0] = MappingProof(24.0, cast("Nest", None), 24.0, 1, 1)
    assert (layer.price(2.0, 3.0), layer.price(2.0, 5.0), layer.price(4.0, 6.0)) == (24.0, 32.0, 48.0)
    assert layer.price(1.0, 0.0) == 3.0


@pytest.mark.parametrize(("network", "design"), [("mobilenet_v1", "gemmini_small"), ("resnet18", "gemmini_small")])
def test_a_network_of_layers_one_by_one_is_proved_to_be_the_best(network: str, design: str) -> None:
    result = map_network(load_network(f"bundled:networks/{network}"), bundled_files.find(f"arch/{design}"),
                         NetworkOptions(fuse=False, threads=1))
    assert result.gap == 0 and result.proven.startswith("proved: no plan has a lower EDP")
    # mappings that are the best for the network are not all the best for their layer
    assert (network == "resnet18") == all(layer.result.gap == 0 for layer in result.layers)


@pytest.mark.parametrize("metric", ["energy", "delay"])
def test_a_sum_over_layers_is_proved_layer_by_layer(metric: str) -> None:
    result = map_network(load_network("bundled:networks/resnet18"), bundled_files.find("arch/gemmini_small"),
                         NetworkOptions(metric=metric, fuse=False, threads=1, gap=0.0))
    assert result.gap == 0
