"""Plans that read residual operands on the chip: two inverted residual blocks behind a pointwise layer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch
from made_graphs import conv
from torch import nn

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import SecondRead, evaluate_group, group_violations
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.output.network_files import plan_yaml
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.workload import Node, build_workload, make_operator

CHANNELS, WIDER, SIZE = 8, 16, 12


def block(number: int, before: str) -> list[Node]:
    layer = make_operator("depthwise", {"N": 1, "G": WIDER, "M": 1, "C": 1, "P": SIZE, "Q": SIZE, "R": 3, "S": 3})
    return [conv(f"wide{number}", before, CHANNELS, WIDER, SIZE),
            Node(f"deep{number}", "depthwise", (f"wide{number}",), layer=layer, operands=("Inputs",)),
            conv(f"narrow{number}", f"deep{number}", WIDER, CHANNELS, SIZE),
            Node(f"sum{number}", "add", (before, f"narrow{number}"))]


@cache
def blocks(also: str = "") -> Workload:
    """The network; `also` is a tensor that it returns, too."""
    nodes = [Node("x", "input", shape=(1, CHANNELS, SIZE, SIZE)),
             conv("first", "x", CHANNELS, CHANNELS, SIZE),
             *block(1, "first"), *block(2, "sum1")]
    return build_workload("blocks", nodes, ["sum2", *([also] if also else [])])


def segment(network: Workload, first: str, last: str) -> Segment:
    return next(one for one in segments(network, 7) if (one.nodes[0], one.nodes[-1]) == (first, last))


@cache
def plan(fuse: bool = True) -> NetworkResult:
    return map_network(blocks(), bundled_files.find("arch/gemmini_large"), NetworkOptions(threads=1, fuse=fuse))


def test_segments_know_the_operands_that_both_readers_could_have_on_the_chip() -> None:
    whole = segment(blocks(), "first", "narrow2")
    assert [(other.read.first, other.read.behind, other.node) for other in whole.residuals] == [
        (1, 3, "sum1"), (4, 6, "sum2")]
    assert whole.residuals[0].read.dims == {"M": "M", "P": "P", "Q": "Q"}
    assert whole.read_inside == {0, 3}
    alone = segment(blocks(), "wide1", "narrow1")
    assert [other.read for other in alone.residuals] == [SecondRead(0, "Inputs", 2, {"C": "M", "P": "P", "Q": "Q"})]
    assert segment(blocks(), "first", "deep1").residuals == ()


def test_a_tensor_that_others_read_too_is_written_nevertheless() -> None:
    whole = segment(blocks("first"), "first", "narrow2")
    assert len(whole.residuals) == 2
    assert whole.read_inside == {3}


def test_equal_layers_with_and_without_a_residual_operand_are_different_segments() -> None:
    *plain, _ = block(3, "sum2")
    network = build_workload("blocks", [*blocks().nodes, *plain], ["narrow3"])
    first, second, third = (segment(network, f"wide{number}", f"narrow{number}") for number in (1, 2, 3))
    assert first.key == second.key != third.key
    assert replace(first, nodes=third.nodes, residuals=(), key=third.key) == third


def test_the_plan_reads_them_there_and_its_totals_leave_the_other_reads_out() -> None:
    fused, apart = plan(), plan(fuse=False)
    (group,) = fused.groups
    assert len(group.group.second_reads) == 2
    assert not any(link.written for link in group.group.links)
    assert group_violations(fused.hardware, group.group) == []
    assert group.left_out == fused.joined == apart.joined
    assert (fused.planned_joined.energy_pj, fused.planned_joined.cycles) == (0, 0)
    assert fused.unfused_stats == apart.stats
    assert fused.stats.energy_pj == pytest.approx(evaluate_group(fused.hardware, group.group).energy_pj, rel=1e-12)
    assert fused.stats.cycles == round(group.cost.cycles)
    assert fused.history[-1]["value"] == pytest.approx(fused.stats.edp, rel=1e-9)


def test_every_report_says_so() -> None:
    text, page = plan_yaml(plan()), network_html(plan())
    assert "added_behind: narrow1" in text and "unfused_joined_operands_cost" in text
    assert "fused groups read some of them on the chip" in page
    assert "with fusion and without" in network_html(plan(fuse=False))


@pytest.mark.parametrize("rows", [8, 9])
def test_a_sum_with_an_input_that_the_first_layer_takes_with_fewer_axes_has_no_second_read(rows: int) -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.last(torch.relu(self.first(x)) + x)
            return y

    found = segments(load_network(Block().eval(), torch.zeros(1, rows, 8)), 4)
    assert [(segment.nodes, segment.residuals) for segment in found] == [(("first", "last"), ())]
