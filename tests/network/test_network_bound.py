"""The least cost of a network's plans is one: no group, no mapping inside it and no plan lies below."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise, product
from math import inf, prod
from pathlib import Path

import pytest

from fadiff_mapper import NetworkOptions, NetworkResult, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import OperatingPoint, metric_value, summed
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.network.network_bound import LeastLayer, NetworkLeast, network_least
from fadiff_mapper.network.planning import PlanningRun, planned_groups
from tests.network.test_enumeration_rounds import run_of

NETWORKS = ("mobilenet_v1", "resnet18", "gpt3_6b7_block")


@cache
def planned(name: str, design: str, metric: str = "edp") -> NetworkResult:
    return map_network(load_network(f"bundled:networks/{name}"), bundled_files.find(f"arch/{design}"),
                       NetworkOptions(metric=metric, threads=1))


@pytest.mark.parametrize("metric", ["edp", "energy", "delay"])
def test_a_plan_comes_with_its_gap(metric: str, tmp_path: Path) -> None:
    result = planned("mobilenet_v1", "gemmini_large", metric)
    value = metric_value(OperatingPoint(result.stats.energy_pj, result.stats.cycles), metric)
    assert result.bound is not None and 0 < result.bound <= value
    assert result.gap == value / result.bound - 1 and result.gap < 0.06
    if metric == "edp":
        result.write(tmp_path)
        written = json.loads((tmp_path / "fadiff.network.json").read_text())
        assert (written["gap"], written["lower_bound"]) == (result.gap, result.bound) and written["gap_among"]
        assert "above that of the best plan" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("design", ["gemmini_large", "gemmini_small"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_layer_of_an_evaluated_group_is_below_its_bound(name: str, design: str) -> None:
    """All groups that planning evaluates, hundreds of them, with the mappings of all their tiles."""
    run = bounded_run(name, design)
    planned_groups(run)
    least = network_least(run.workload, run.hardware, run.results, run.segments)
    assert least
    compared = 0
    for state in run.known.values():
        for group in state.exact:
            names = state.segment.nodes
            for index, (node, cost) in enumerate(zip(names, group.cost.layers, strict=True)):
                bound = least.fused[node][index > 0, index < len(names) - 1]
                assert bound.energy_pj <= group.group.repeat * cost.energy_pj * (1 + 1e-9)
                assert bound.cycles <= group.group.repeat * cost.cycles * (1 + 1e-9)
                compared += 1
            point = summed([group.point, *(run.alone[other] for other in run.alone if other not in names), run.joined])
            for energy, cycles in product((0.0, 1 / point.energy_pj), (0.0, 1 / point.cycles)):
                assert least.price(energy, cycles) <= energy * point.energy_pj + cycles * point.cycles + 1e-9
    assert compared > (5 if name.startswith("gpt3") else 30)


def bounded_run(name: str, design: str) -> PlanningRun:
    """The run of a network whose layers have bounds."""
    from fadiff_mapper.search.map_layers import with_bounds
    run = run_of(name, design)
    run.results = tuple(with_bounds(run.results))
    return run


def test_the_least_price_is_that_of_the_best_of_all_choices_of_links() -> None:
    alone = {name: LeastLayer(10.0, 10.0, 110.0) for name in "abc"}
    fused = {name: {sides: LeastLayer(9.0 - 2 * sum(sides), 10.0 - sum(sides)) for sides in
                    product((False, True), repeat=2) if any(sides)} for name in "abc"}
    credits = {("a", "b"): OperatingPoint(1.0, 0.0), ("b", "c"): OperatingPoint(0.0, 0.0)}
    least = NetworkLeast([("a", "b", "c")], alone, fused, credits, OperatingPoint(3.0, 2.0))
    for energy, cycles in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.7)):
        best = inf
        for links in product((False, True), repeat=2):
            sides = list(pairwise((False, *links, False)))
            total = energy * 3 + cycles * 2 - energy * links[0]
            total += sum((fused if any(side) else {name: {side: alone[name]}})[name][side].price(energy, cycles)
                         for name, side in zip("abc", sides, strict=True))
            best = min(best, total)
        assert least.price(energy, cycles) == pytest.approx(best)


def test_the_bound_on_a_product_is_reached_where_energy_is_not_traded_against_cycles() -> None:
    """Layers by themselves at one point each: the product of the sums; traded, at least the hyperbolas allow."""
    fixed = {name: LeastLayer(energy, cycles, energy * cycles) for name, energy, cycles in (("a", 3, 5), ("b", 7, 2))}
    least = NetworkLeast([("a",), ("b",)], fixed, {"a": {}, "b": {}}, {}, OperatingPoint(1.0, 1.0))
    assert least.bound("edp") == pytest.approx(11 * 8, rel=1e-5)
    assert (least.bound("energy"), least.bound("delay")) == (pytest.approx(11), pytest.approx(8))
    traded = {name: LeastLayer(1.0, 1.0, 16.0) for name in "ab"}
    least = NetworkLeast([("a",), ("b",)], traded, {"a": {}, "b": {}}, {}, OperatingPoint(0.0, 0.0))
    assert 64 * (1 - 1e-3) < least.bound("edp") <= 64    # (4 + 4) ** 2, by Cauchy and Schwarz


def test_without_fusion_the_gap_is_over_layers_by_themselves() -> None:
    result = map_network(load_network("bundled:networks/resnet18"), bundled_files.find("arch/gemmini_large"),
                         NetworkOptions(fuse=False, threads=1))
    assert result.gap is not None and 0 <= result.gap < 0.02
    whole = network_least(result.workload, result.hardware, [layer.result for layer in result.layers], ())
    assert whole and whole.bound("edp") == result.bound


def test_nothing_is_proven_for_a_run_that_ended_early() -> None:
    result = map_network(load_network("bundled:networks/mobilenet_v1"), bundled_files.find("arch/gemmini_large"),
                         NetworkOptions(time_limit=0.05, threads=1))
    assert result.gap is None and "no lower bound" in result.proven


def test_heads_that_run_apart_or_as_one_problem_are_bounded_in_both_forms() -> None:
    result = planned("gpt3_6b7_block", "gemmini_small")
    least = network_least(result.workload, result.hardware, [layer.result for layer in result.layers],
                          segments(result.workload, 16))
    assert least and result.bound
    for node in result.workload.layers:
        assert node.layer
        macs = node.layer.repeat * prod(node.layer.problem.bounds.values())
        units = result.hardware.arch.arithmetic.instances
        assert all(one.cycles >= macs / units * (1 - 1e-9) for one in least.fused[node.name].values())
