"""Plans in which the projections of attention share their input and hand queries, keys and values on in one group."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, map_network
from fadiff_mapper.fusion import evaluate_group
from fadiff_mapper.fusion.segments import chains, runs_in_order, segments
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.workload import Node, build_workload, make_operator

LAYERS = ("v", "k", "q", "qk", "av", "out")


def product(name: str, *inputs: str, rows: int, summed: int, columns: int, repeat: int = 1) -> Node:
    layer = make_operator("gemm", {"N": rows, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}, repeat=repeat)
    return Node(name, "gemm", inputs, layer=layer, operands=("Inputs", "Weights")[:len(inputs)])


@cache
def attention(tokens: int = 128, heads: int = 8, deep: int = 32) -> Workload:
    """A block of attention."""
    wide = heads * deep
    nodes = [Node("x", "input", shape=(tokens, wide))]
    for own, axes in (("q", (1, 0, 2)), ("k", (1, 2, 0)), ("v", (1, 0, 2))):
        nodes += [product(own, "x", rows=tokens, summed=wide, columns=wide),
                  Node(f"{own}_by_head", "reshape", (own,), (tokens, heads, deep)),
                  Node(f"{own}_heads", "transpose", (f"{own}_by_head",),
                       tuple((tokens, heads, deep)[axis] for axis in axes), axes=axes)]
    nodes += [product("qk", "q_heads", "k_heads", rows=tokens, summed=deep, columns=tokens, repeat=heads),
              Node("softmax", "softmax", ("qk",), (heads, tokens, tokens), axes=(-1,)),
              product("av", "softmax", "v_heads", rows=tokens, summed=tokens, columns=deep, repeat=heads),
              Node("by_token", "transpose", ("av",), (tokens, heads, deep), axes=(1, 0, 2)),
              Node("joined", "reshape", ("by_token",), (tokens, wide)),
              product("out", "joined", rows=tokens, summed=wide, columns=wide)]
    return build_workload("attention", nodes)


@cache
def plan(design: str = "bundled:arch/gemmini_large") -> NetworkResult:
    return map_network(attention(), design, NetworkOptions(threads=1))


def test_layers_that_lead_to_one_stand_before_it() -> None:
    ((names, links),) = chains(attention())
    assert names == LAYERS
    assert [link.consumer for link in links] == ["av", "qk", "qk", "av", "out"]
    found = {segment.nodes: segment for segment in segments(attention(), 16)}
    assert ("k", "q", "qk") in found and ("q", "qk", "av") in found and ("v", "k") not in found
    whole = found[LAYERS]
    assert [link.distance for link in whole.links] == [4, 2, 1, 1, 1]
    assert [(one.layer, one.operand, one.first, one.tensor) for one in whole.shared] == [
        (1, "Inputs", 0, "Inputs"), (2, "Inputs", 0, "Inputs")]
    assert all(runs_in_order(attention(), [nodes]) for nodes in found)


def test_the_input_is_read_once_and_queries_keys_and_values_stay_on_the_chip(tmp_path: Path) -> None:
    found = plan()
    group = next(group for group in found.groups if {"q", "k", "v", "qk", "av"} <= set(group.nodes))
    at = dict(zip(group.nodes, group.cost.layers, strict=True))
    assert at["v"].traffic["DRAM", "Inputs"].reads == 128 * 256
    assert at["k"].traffic["DRAM", "Inputs"].reads == at["q"].traffic["DRAM", "Inputs"].reads == 0
    assert ("DRAM", "Weights") not in at["qk"].traffic or not at["qk"].traffic["DRAM", "Weights"].reads
    assert found.stats.edp < 0.5 * found.unfused_stats.edp
    assert evaluate_group(found.hardware, group.group) == group.cost
    assert found.gap is not None and 0 <= found.gap < 0.05
    found.write(tmp_path)
    (written,) = [own for own in load_file(tmp_path / "plan.yaml")["plan"]["groups"] if "qk" in own["nodes"]]
    shares = {own["node"]: own["operands"].get("Inputs", {}).get("shared_with") for own in written["layers"]}
    assert (shares["v"], shares["k"], shares["q"]) == (None, "v", "v")
    assert [own.get("of") for own in written["intermediates"]][:3] == ["av", "qk", None]
    assert "no chain" in (tmp_path / "groups" / str(written["number"]) / "looptree.txt").read_text("utf-8")
    assert "tile schedule of group" in network_html(found)


@pytest.mark.parametrize("design", ["gemmini_small", "simba_like"])
def test_no_plan_is_worse_than_its_layers_one_by_one(design: str) -> None:
    found = plan(f"bundled:arch/{design}")
    assert found.stats.edp <= found.unfused_stats.edp
    assert found.gap is not None and found.gap >= 0
