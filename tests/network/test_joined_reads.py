"""Residual operands in the totals of a network: charged once from the outermost level, with fusion and without."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from fused_groups import gemmini

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import CoverPart, other_reads, partition
from fadiff_mapper.model.prepared_layer import prepare_layer, word_energy
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.workload import Node, OperatingPoint, build_workload, make_operator

CHANNELS, SIZE = 16, 8
WORDS = CHANNELS * SIZE * SIZE


def block(residual: bool) -> Workload:
    """A depthwise and a pointwise convolution, and a sum with the image where it is a residual block."""
    sizes = {"N": 1, "P": SIZE, "Q": SIZE}
    depthwise = make_operator("depthwise", {**sizes, "G": CHANNELS, "M": 1, "C": 1, "R": 3, "S": 3})
    pointwise = make_operator("conv", {**sizes, "M": CHANNELS, "C": CHANNELS, "R": 1, "S": 1})
    return build_workload("block", [
        Node("x", "input", shape=(1, CHANNELS, SIZE, SIZE)),
        Node("dw", "depthwise", ("x",), layer=depthwise, operands=("Inputs",)),
        Node("pw", "conv", ("dw",), layer=pointwise, operands=("Inputs",)),
        *([Node("sum", "add", ("pw", "x"))] if residual else [])])


@cache
def plan(residual: bool, fuse: bool) -> NetworkResult:
    return map_network(block(residual), bundled_files.find("arch/gemmini_large"),
                       NetworkOptions(threads=1, fuse=fuse))


def test_the_totals_are_those_of_the_layers_and_of_the_residual_operand() -> None:
    with_sum, without = plan(True, False), plan(False, False)
    machine = prepare_layer(gemmini().arch, gemmini().problem, gemmini().tables).machine
    width = min(float(limit[-1, 0]) for limit in (machine.read_bandwidth, machine.shared_bandwidth))
    assert with_sum.joined.energy_pj == pytest.approx(WORDS * float(word_energy(machine).read[-1, 0]))
    assert with_sum.joined.cycles == -(-WORDS // int(width))
    assert with_sum.stats == with_sum.unfused_stats
    assert with_sum.stats.energy_pj == pytest.approx(without.stats.energy_pj + with_sum.joined.energy_pj, rel=1e-12)
    assert with_sum.stats.cycles == without.stats.cycles + with_sum.joined.cycles
    assert (without.joined.energy_pj, without.joined.cycles) == (0, 0)


def test_a_fused_plan_reads_the_residual_operand_as_often() -> None:
    fused = plan(True, True)
    (group,) = fused.groups
    assert (fused.joined, fused.unfused_stats) == (plan(True, False).joined, plan(True, False).stats)
    assert fused.stats.energy_pj == pytest.approx(group.cost.energy_pj + fused.joined.energy_pj, rel=1e-12)
    assert fused.stats.cycles == round(group.cost.cycles) + fused.joined.cycles
    assert fused.history[-1]["value"] == pytest.approx(fused.stats.edp, rel=1e-9)


def test_every_report_names_the_part_of_the_residual_operand() -> None:
    page = network_html(plan(True, False))
    assert "such as residuals" in page and f'value="{plan(True, False).joined.energy_pj}"' in page
    assert "such as residuals" not in network_html(plan(False, False))


def test_an_outermost_level_without_a_limit_takes_no_cycles() -> None:
    arch = gemmini().arch
    outermost = replace(arch.levels[-1], read_bandwidth=None, shared_bandwidth=None)
    free = replace(gemmini(), arch=replace(arch, levels=(*arch.levels[:-1], outermost)))
    assert other_reads(block(True), free).cycles == 0 < other_reads(block(True), free).energy_pj


def test_energy_and_cycles_that_no_group_changes_weigh_in_the_choice_of_groups() -> None:
    """A group that takes more energy and less time pays only where the network has no long rest beside it."""
    alone = {name: OperatingPoint(5.0, 5.0) for name in "ab"}
    trade = [CoverPart(("a", "b"), OperatingPoint(12.0, 4.0), "ab")]
    assert [part.plan for part in partition([("a", "b")], alone, trade)] == ["ab"]
    assert partition([("a", "b")], alone, trade, besides=OperatingPoint(0.0, 100.0)) == []
