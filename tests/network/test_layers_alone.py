"""Layers outside of the groups of a plan: each has the reason why, and the reason is the true one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fadiff_mapper import NetworkOptions, NetworkResult, load_network, map_network
from fadiff_mapper.base import bundled_files

ARCH = str(bundled_files.find("arch/gemmini_small"))


def network(tmp_path: Path, points: int, channels: int, between: str = "") -> str:
    """Two 1 x 1 convolutions in a row, with an operator in between where one is given."""
    dims = f"dims: {{N: 1, M: {channels}, C: {channels}, P: {points}, Q: {points}, R: 1, S: 1}}, stride: [1, 1]"
    source = "middle" if between else "first"
    lines = ["workload:", "  version: 1", "  name: two", f"  inputs: {{input: [1, {channels}, {points}, {points}]}}",
             "  shapes:", f"  - {{id: conv, op: conv, {dims}}}", "  graph:",
             "  - {name: first, shape: conv, from: [input]}",
             *([f"  - {{name: middle, op: {between}, from: [first]}}"] if between else []),
             f"  - {{name: second, shape: conv, from: [{source}]}}"]
    path = tmp_path / "network.yaml"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def mapped(source: str, *, fuse: bool = True) -> NetworkResult:
    return map_network(load_network(source), ARCH, NetworkOptions(fuse=fuse))


def reasons(result: NetworkResult) -> dict[str, str]:
    return {layer.node: layer.reason for layer in result.alone}


@pytest.mark.slow
def test_fused_layers_and_those_alone_are_all_layers_once() -> None:
    result = mapped("bundled:networks/mobilenet_v1")
    fused = [name for group in result.groups for name in group.nodes]
    assert sorted([*fused, *reasons(result)]) == sorted(node.name for node in result.workload.layers)
    assert fused and set(reasons(result).values()) <= {"no gain", "other groups save more"}
    assert all("%" in layer.detail for layer in result.alone)


def test_an_operator_through_which_no_tile_passes_is_named(tmp_path: Path) -> None:
    result = mapped(network(tmp_path, 14, 64, "sort"))
    assert reasons(result) == {"first": "operators between", "second": "operators between"}
    assert "middle" in result.alone[0].detail


def test_layers_whose_groups_there_was_no_time_to_list_say_so(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fadiff_mapper.network.planning.LISTING", 0.0)
    options = NetworkOptions(time_limit=60.0)
    result = map_network(load_network(network(tmp_path, 14, 64)), ARCH, options)
    assert reasons(result) == {"first": "no time", "second": "no time"}
    assert result.status == "out of time after 60 s: the best plan so far"


def test_a_layer_without_neighbours_says_so(tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    lines = Path(network(tmp_path, 14, 64)).read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    assert reasons(mapped(str(path))) == {"first": "no neighbour"}


def test_weights_that_leave_no_room_for_tiles(tmp_path: Path) -> None:
    """Of two products that read and write whole rows of 65,536 words not even one row fits beside the other."""
    dims = "dims: {N: 4, M: 65536, C: 65536, P: 1, Q: 1, R: 1, S: 1}, stride: [1, 1]"
    path = tmp_path / "network.yaml"
    path.write_text(f"""
workload:
  version: 1
  name: rows
  inputs: {{input: [4, 65536]}}
  shapes:
  - {{id: gemm, op: gemm, {dims}}}
  graph:
  - {{name: first, shape: gemm, from: [input]}}
  - {{name: norm, op: layernorm, from: [first]}}
  - {{name: second, shape: gemm, from: [norm]}}
""")
    assert reasons(mapped(str(path))) == {"first": "no room", "second": "no room"}


def test_without_fusion_there_are_no_reasons(tmp_path: Path) -> None:
    assert mapped(network(tmp_path, 14, 64), fuse=False).alone == ()


def test_plan_and_terminal_have_the_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fadiff_mapper.cli import main
    assert main(["network", network(tmp_path, 14, 64, "sort"), ARCH, "-o", str(tmp_path / "out")]) == 0
    plan = yaml.safe_load((tmp_path / "out" / "plan.yaml").read_text())["plan"]
    assert [entry["reason"] for entry in plan["not_fused"]] == ["operators between"] * 2
    assert "layers in no group: 2 (operators between 2" in capsys.readouterr().out
    assert "operators between" in (tmp_path / "out" / "report.html").read_text()
