"""Blocks of scores that a causal mask hides wholly: the steps that are left against a walk through all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from fused_groups import conv

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, load, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, FusedLayer, FusedLink, Stay, TileLoop, evaluate_group
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.fusion.tile_steps import StepClass, layer_steps, step_classes, unmasked_steps
from fadiff_mapper.output.network_files import plan_yaml
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.workload import Node, build_workload, make_operator
from fadiff_mapper.workload.readers.network_text import network_text

SIZE = 4


def attention(rows: int, queries: int, keys: int, loops: list[tuple[str, int]], stays: str = "",
              sums: str = "") -> FusedGroup:
    """Rows of some sequences of queries; `stays` names the loops along which keys and values stay, and C queries."""
    link = FusedLink("Inputs", {"N": "N", "M": "C"}, Stay("Scratchpad"), running=frozenset("M"), causal=("N", queries))
    along, queried = Stay("Scratchpad", frozenset("N")), Stay("Scratchpad", frozenset("C"))
    operands = {"Weights": along} if "N" in stays else {}
    layers = (FusedLayer(conv("qk", N=rows, C=SIZE, M=keys), {}, {
        **operands, **({"Inputs": queried} if "C" in stays else {})}),
              FusedLayer(conv("av", N=rows, C=keys, M=SIZE), {}, operands))
    return FusedGroup(layers, (link,), tuple(TileLoop(*loop) for loop in loops), sums=sums, skips=True)


def walked(group: FusedGroup, index: int) -> Counter[StepClass]:
    """The steps of a layer, one by one: those in which some query sees some key."""
    scores, (_, queries) = group.layers[0].problem, group.links[0].causal or ("", 0)
    extents = {"N": scores.bounds["N"], "C": scores.bounds["M"]}
    tiles = [[range(start, min(start + loop.tile, extents[loop.dim])) for start in range(
        0, extents[loop.dim], loop.tile)] for loop in group.loops]
    steps = [dict(zip((loop.dim for loop in group.loops), picked, strict=True)) for picked in product(*tiles)]
    left = [step for step in steps if any(
        key <= extents["C"] - queries + row % queries for row in step["N"] for key in step["C"])]
    layer, there = group.layers[index], dict[str, set[range]]()
    found: Counter[StepClass] = Counter()
    for step in left:
        of_row = [other["C"] for other in left if other["N"] == step["N"]]
        fresh = []
        for name, stay in layer.operands.items():
            moved = step["N" if name == "Inputs" else "C"]
            new = moved not in there.setdefault(name, set()) or not stay.across
            there[name].add(moved)
            fresh.append(SIZE * len(moved) if new else 0)
        shape = {**layer.problem.bounds, "N": len(step["N"]), ("C" if index else "M"): len(step["C"])}
        found[StepClass(tuple(shape[dim] for dim in layer.problem.dimensions), tuple(fresh),
                        not index or step["C"] == of_row[0], not index or step["C"] == of_row[-1])] += 1
    return found


@pytest.mark.parametrize("order", ["NC", "CN"])
@pytest.mark.parametrize("stays", ["", "N", "C", "NC"])
@pytest.mark.parametrize(("rows", "queries", "keys", "tiles"), [
    (12, 12, 12, (3, 4)), (12, 12, 12, (5, 5)), (12, 4, 4, (2, 1)), (12, 4, 9, (3, 2)), (12, 6, 20, (6, 7)),
    (24, 8, 8, (5, 3)), (7, 7, 7, (1, 1)), (8, 8, 8, (8, 2)), (8, 8, 8, (2, 8))])
def test_the_steps_that_are_left_are_those_of_a_walk(order: str, stays: str, rows: int, queries: int, keys: int,
                                                     tiles: tuple[int, int]) -> None:
    sizes = dict(zip("NC", tiles, strict=True))
    group = attention(rows, queries, keys, [(dim, sizes[dim]) for dim in order], stays,
                      sums="DRAM" if order == "CN" else "")
    for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
        assert step_classes(group, layer, steps) == walked(group, index)
        plain = replace(group, skips=False)
        assert sum(step_classes(plain, layer, steps).values()) == -(-rows // tiles[0]) * -(-keys // tiles[1])


def test_nothing_is_skipped_unless_loops_cut_queries_and_keys() -> None:
    for loops in ([("N", 3)], [("C", 3)], [("N", 3), ("M", 2)], []):
        group = attention(12, 12, 12, loops)
        assert unmasked_steps(group) is None
        assert unmasked_steps(replace(group, skips=False)) is None


def test_a_layer_before_is_computed_once_or_in_every_step_that_is_left() -> None:
    group = attention(12, 12, 12, [("N", 3), ("C", 3)])
    for across, times in ((frozenset("C"), 4), (frozenset[str](), 4 + 3 + 2 + 1)):
        before = FusedLayer(conv("q", N=12, C=SIZE, M=SIZE), {})
        link = FusedLink("Inputs", {"N": "N", "M": "C"}, Stay("Scratchpad", across))
        longer = replace(group, layers=(before, *group.layers), links=(link, *group.links))
        assert [sum(step_classes(longer, layer, steps).values())
                for layer, steps in zip(longer.layers, layer_steps(longer), strict=True)] == [times, 10, 10]


TOKENS, HEADS, WORDS = 256, 2, 64


def described(causal: int, heads: int = 1) -> Workload:
    """Attention whose query heads share keys and values in twos, fours, ...: rows of one product."""
    rows = heads * TOKENS

    def product(name: str, inputs: tuple[str, str], summed: int, columns: int) -> Node:
        bounds = {"N": rows, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}
        return Node(name, "gemm", inputs, layer=make_operator("gemm", bounds, repeat=HEADS),
                    operands=("Inputs", "Weights"))
    return build_workload("attention", [
        Node("q", "input", shape=(HEADS, rows, WORDS)), Node("k", "input", shape=(HEADS, WORDS, TOKENS)),
        Node("v", "input", shape=(HEADS, TOKENS, WORDS)), product("qk", ("q", "k"), WORDS, TOKENS),
        Node("softmax", "softmax", ("qk",), (HEADS, rows, TOKENS), axes=(-1,), causal=causal),
        product("av", ("softmax", "v"), TOKENS, WORDS)])


@cache
def plan(causal: int, heads: int = 1, skips: bool = True) -> NetworkResult:
    spec = load("bundled:inference/tpu_v4i_like", "bundled:layers/llama3_8b_decode/fc_4096_1024")
    (unit,) = spec.arch.units
    spec = replace(spec, arch=replace(spec.arch, units=(replace(unit, skips_masked=skips),)))
    return map_network(described(causal, heads), spec, NetworkOptions(threads=1))


@pytest.mark.parametrize("heads", [1, 4])
def test_a_plan_leaves_blocks_out_where_network_and_unit_say_so(heads: int) -> None:
    found, plain = plan(TOKENS, heads), plan(0, heads)
    (outcome,) = found.groups
    group, cost = outcome.group, outcome.cost
    mask = unmasked_steps(group)
    assert mask is not None and cost == evaluate_group(found.hardware, group)
    assert cost.edp < 0.8 * plain.groups[0].cost.edp and found.stats.edp < plain.stats.edp
    by_row, by_key = (group.loops[loop].tile for loop in mask[:2])
    blocks = sum(len(range(row, min(row + by_row, heads * TOKENS))) * min(seen * by_key, TOKENS)
                 for row, seen in zip(range(0, heads * TOKENS, by_row), mask[2], strict=True))
    assert [layer.computes for layer in cost.layers] == [blocks * WORDS] * 2
    assert [layer.recomputed for layer in cost.layers] == [0, 0]
    assert heads * TOKENS * (TOKENS + 1) / 2 < blocks < heads * TOKENS ** 2
    assert found.gap is not None and found.gap >= 0
    assert "without blocks that the causal mask hides" in plan_yaml(found)
    assert "the causal mask hides wholly are left out" in network_html(found)
    assert [plan(*case).stats for case in ((TOKENS, heads, False), (0, heads, False))] == [plain.stats] * 2


def test_networks_say_that_a_mask_is_causal(tmp_path: Path) -> None:
    network = described(TOKENS, 4)
    (tmp_path / "net.yaml").write_text(network_text(network))
    assert load_network(tmp_path / "net.yaml") == network
    (segment,) = segments(network, 2)
    assert segment.links[0].causal == ("N", TOKENS)
    for queries in (TOKENS - 1, 2 * TOKENS):  # rows of no whole number of sequences, or more queries than keys
        assert segments(described(queries, 4), 2)[0].links[0].causal is None
    for name in ("llama3_8b", "gemma2_9b", "deepseek_v3"):
        masks = {phase: [link.causal for segment in segments(load_network(f"bundled:networks/{name}_{phase}"), 2)
                         for link in segment.links if link.running] for phase in ("prefill", "decode")}
        assert masks == {"prefill": [("N", 2048)], "decode": [None]}


def test_pytorch_says_so_of_its_own_attention() -> None:
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, q: object, k: object, v: object) -> object:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
    q, k, wide = (torch.empty(1, heads, tokens, 16, device="meta") for heads, tokens in ((8, 64), (2, 64), (2, 96)))
    for keys, causal in ((k, ("N", 64)), (wide, None)):
        (segment,) = segments(load_network(Attention(), (q, keys, keys)), 2)
        assert (segment.problems[0].bounds["N"], segment.links[0].causal) == (4 * 64, causal)


def test_a_unit_says_that_it_skips(tmp_path: Path) -> None:
    text = bundled_files.find("inference/tpu_v4i_like").read_text()
    (tmp_path / "tpu.yaml").write_text(text.replace("lanes: 128\n", "lanes: 128\n        skips_masked: true\n"))
    for path, skips in ((tmp_path / "tpu.yaml", True), ("bundled:inference/tpu_v4i_like", False)):
        assert load(path, "bundled:layers/llama3_8b_decode/fc_4096_1024").arch.skips_masked == skips
