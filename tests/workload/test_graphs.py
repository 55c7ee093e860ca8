"""Networks as graphs: what is the same layer, which tiles of linked layers correspond, what cannot be a network."""

from __future__ import annotations

import math
import shutil
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper import SpecError, Workload, load, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.workload import AxisPiece, Link, Node, Window, build_workload, make_operator
from fadiff_mapper.workload.axis_algebra import SCATTERED, axis_of, regrouped
from fadiff_mapper.workload.node import KINDS
from fadiff_mapper.workload.obstacles import OBSTACLES
from fadiff_mapper.workload.producer_consumer import AxisMap
from fadiff_mapper.workload.readers.network_text import network_text
from fadiff_mapper.workload.window_slide import WindowSlide, composed

SHARED = Path(__file__).resolve().parents[3] / "shared" / "workloads"
MACS = {"resnet18": (1_814_073_344, 12, 21), "vgg16": (15_470_264_320, 12, 16), "vgg19": (19_632_062_464, 12, 19),
        "mobilenet_v1": (568_740_352, 20, 28), "gpt3_6b7_block": (446_676_598_784, 5, 8)}
"""Multiply-accumulates, distinct layers, layers."""


def bundled_network(name: str) -> Workload:
    return load_network(f"bundled:networks/{name}")


def conv(name: str, source: str, cin: int, cout: int, size: int, k: int = 1, stride: int = 1, n: int = 1,
         **fields: Any) -> Node:
    dims = {"N": n, "M": cout, "C": cin, "P": size, "Q": size, "R": k, "S": k}
    layer = make_operator("conv", dims, (stride, stride))
    return Node(name, "conv", (source,), layer=layer, operands=("Inputs",), **fields)


def product(name: str, *sources: str, n: int, c: int, m: int, repeat: int = 1) -> Node:
    dims = {"N": n, "M": m, "C": c, "P": 1, "Q": 1, "R": 1, "S": 1}
    return Node(name, "gemm", sources, layer=make_operator("gemm", dims, repeat=repeat),
                operands=("Inputs", "Weights")[:len(sources)])


def network(*nodes: Node, image: tuple[int, ...] = (1, 4, 8, 8), **options: Any) -> Workload:
    return build_workload("net", [Node("x", "input", shape=image), *nodes], **options)


def link(found: Workload, producer: str, consumer: str) -> Link:
    return next(item for item in found.links() if (item.producer, item.consumer) == (producer, consumer))


def pool(name: str, source: str, kernel: int, stride: int, pad: int = 0) -> Node:
    return Node(name, "maxpool", (source,), window=Window((kernel,) * 2, (stride,) * 2, ((pad, pad),) * 2, (1, 1)))


# The bundled networks

@pytest.mark.parametrize("name", MACS)
def test_a_bundled_network_has_its_published_multiply_accumulates_and_distinct_layers(name: str) -> None:
    found = bundled_network(name)
    assert (found.macs, len(found.distinct()), len(found.layers)) == MACS[name]
    assert sum(entry.macs for entry in found.distinct()) == found.macs


@pytest.mark.parametrize("name", MACS)
def test_the_distinct_problems_are_those_of_the_layer_files(name: str) -> None:
    arch = bundled_files.find("arch/gemmini_small")
    files = [load(arch, path).problem for path in (bundled_files.root() / "layers" / name).iterdir()]
    found = [entry.layer.problem for entry in bundled_network(name).distinct()]
    assert all(problem in files for problem in found) and len(found) == len(files)


@pytest.mark.parametrize("name", MACS)
def test_a_written_network_loads_to_the_same_graph(name: str, tmp_path: Path) -> None:
    found = bundled_network(name)
    (tmp_path / "network.yaml").write_text(network_text(found))
    assert load_network(tmp_path / "network.yaml") == found


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared networks are not here")
@pytest.mark.parametrize("name", MACS)
def test_a_network_file_without_windows_and_input_shapes_has_the_same_layers(name: str) -> None:
    found = load_network(SHARED / f"{name}.yaml")
    assert found.distinct() == bundled_network(name).distinct()
    assert {item.obstacle.name for item in found.links() if item.obstacle} <= {"window", "repeat"}


def test_the_graph_is_acyclic_and_its_edges_carry_tensor_shape_and_operand() -> None:
    graph = bundled_network("gpt3_6b7_block").graph()
    assert nx.is_directed_acyclic_graph(graph)
    assert graph.edges["v_proj", "av", 1] == {"tensor": "v_proj", "shape": (2048, 4096), "operand": "Weights"}
    assert graph.nodes["softmax"]["node"].op == "softmax"


def test_the_totals_are_the_product_of_two_sums_over_all_runs() -> None:
    found = bundled_network("gpt3_6b7_block")
    costs = [(2.0 * index, 3 + index) for index in range(5)]
    times = [entry.times for entry in found.distinct()]
    assert times == [4, 32, 32, 1, 1]
    energy, cycles = (sum(t * cost[part] for t, cost in zip(times, costs, strict=True)) for part in (0, 1))
    totals = found.totals(costs)
    assert (totals.energy_pj, totals.cycles, totals.edp) == (energy, cycles, energy * cycles)


def test_problems_are_timeloop_input() -> None:
    (first, *_) = bundled_network("resnet18").problems()
    assert load({"architecture": {"version": 0.4, "subtree": [{"name": "s", "local": [
        {"name": "mem", "class": "DRAM", "attributes": {"width": 8, "datawidth": 8}},
        {"name": "mac", "class": "intmac", "attributes": {"datawidth": 8}}]}]}, **first}).problem.computes == 118013952


# Identical layers

def test_layers_that_differ_in_name_and_padding_only_are_mapped_once_and_others_are_not() -> None:
    found = network(conv("a", "x", 4, 4, 8, 3, pad=((1, 1), (1, 1))), conv("b", "a", 4, 4, 8, 3),
                    conv("c", "b", 4, 4, 8), conv("d", "c", 4, 4, 4, 1, 2))
    assert [entry.nodes for entry in found.distinct()] == [("a", "b"), ("c",), ("d",)]


# Links

def test_a_chain_of_convolutions_maps_channels_to_channels_and_rows_through_windows() -> None:
    found = link(bundled_network("resnet18"), "layer1.0.conv1", "layer1.0.conv2")
    assert [(axis.dimension, axis.producer) for axis in found.axes] == [("C", "M"), ("P", "P"), ("Q", "Q")]
    assert [axis.needed(5) for axis in found.axes] == [5, 7, 7]
    assert found.fusable and found.also_read_by == ()


def test_a_pool_in_between_adds_its_window() -> None:
    found = link(bundled_network("resnet18"), "conv1", "layer1.0.conv1")
    rows = next(axis for axis in found.axes if axis.dimension == "P")
    assert [(s.kernel, s.stride, s.pad) for s in rows.slides] == [(3, 2, 1), (3, 1, 1)]
    assert rows.needed(4) == (4 + 2 - 1) * 2 + 3 and rows.pools == 1
    assert found.through == ("maxpool",) and found.also_read_by == ("layer1.0.add",)


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 3), min_size=1, max_size=3), st.integers(1, 6))
def test_the_points_that_a_stretch_needs_are_those_that_its_windows_touch(
        windows: list[tuple[int, int, int]], points: int) -> None:
    slides = tuple(WindowSlide(*window) for window in windows)
    touched = set(range(points))
    for window in reversed(slides):
        touched = {p * window.stride + k * window.dilation for p in touched for k in range(window.kernel)}
    assert AxisMap("P", "P", slides).needed(points) == max(touched) - min(touched) + 1


def test_a_residual_sum_lets_the_last_tensor_pass_and_names_the_other() -> None:
    found = bundled_network("resnet18")
    passed = link(found, "layer1.1.conv2", "layer2.0.conv1")
    assert (passed.fusable, passed.joins, passed.through) == (True, ("layer1.0.add",), ("layer1.1.add",))
    assert passed.also_read_by == ("layer2.0.downsample",)
    assert not [item for item in found.links() if item.producer == "layer2.0.downsample"]  # shallower than conv2


def test_a_tensor_with_several_readers_has_a_link_to_each_and_each_names_the_others() -> None:
    found = network(conv("a", "x", 4, 4, 8), conv("b", "a", 4, 4, 8), conv("c", "a", 4, 4, 8))
    assert {item.consumer: item.also_read_by for item in found.links()} == {"b": ("c",), "c": ("b",)}


def test_a_tensor_that_is_an_output_of_the_network_is_read_by_it() -> None:
    found = network(conv("a", "x", 4, 4, 8), conv("b", "a", 4, 4, 8), outputs=("a", "b"))
    assert link(found, "a", "b").also_read_by == ("output",)
    assert found.chains() == (("a",), ("b",))


def test_a_gate_on_the_tensor_itself_is_no_other_reader() -> None:
    found = network(conv("a", "x", 4, 4, 8), Node("s", "sigmoid", ("a",)), Node("m", "mul", ("a", "s")),
                    conv("b", "m", 4, 4, 8))
    assert link(found, "a", "b").fusable
    assert link(found, "a", "b").also_read_by == link(found, "a", "b").joins == ()


def test_along_axes_that_two_paths_arrange_differently_no_tile_passes() -> None:
    found = network(conv("a", "x", 4, 4, 8), Node("t", "transpose", ("a",), axes=(0, 1, 3, 2)),
                    Node("m", "mul", ("a", "t")), conv("b", "m", 4, 4, 8))
    assert link(found, "a", "b").whole == ("P", "Q")
    assert [axis.producer for axis in link(found, "a", "b").axes] == ["M"]


def test_a_tensor_divided_by_a_mean_of_itself_needs_whole_rows_as_its_norm_does() -> None:
    written_out = network(product("a", "x", n=16, c=32, m=32), Node("s", "square", ("a",)),
                          Node("u", "mean", ("s",), axes=(-1,), shape=(16, 1)), Node("r", "rsqrt", ("u",)),
                          Node("d", "mul", ("a", "r")), product("b", "d", n=16, c=32, m=32), image=(16, 32))
    named = network(product("a", "x", n=16, c=32, m=32), Node("d", "rmsnorm", ("a",)),
                    product("b", "d", n=16, c=32, m=32), image=(16, 32))
    found, wanted = link(written_out, "a", "b"), link(named, "a", "b")
    assert (found.axes, found.whole, found.also_read_by) == (wanted.axes, wanted.whole, ()) and found.whole == ("M",)


# Tensors put together, taken apart, and rearranged in stretches

def test_a_concatenation_leaves_rows_to_cut_and_says_how_much_comes_from_elsewhere() -> None:
    found = network(conv("a", "x", 4, 6, 8), conv("b", "a", 6, 2, 8), Node("c", "concat", ("a", "b"), (1, 8, 8, 8)),
                    conv("d", "c", 8, 4, 8, 3))
    passed = link(found, "b", "d")
    assert [(axis.dimension, axis.producer) for axis in passed.axes] == [("P", "P"), ("Q", "Q")]
    assert (passed.whole, passed.elsewhere, passed.joins) == (("M",), Fraction(3, 4), ("a",))
    assert link(found, "a", "b").also_read_by == ("c",)


def test_rotated_halves_of_a_tensor_need_whole_channels_and_nothing_from_elsewhere() -> None:
    found = network(product("a", "x", n=16, c=32, m=32), Node("l", "slice", ("a",), (16, 16)),
                    Node("r", "slice", ("a",), (16, 16)), Node("t", "concat", ("r", "l"), (16, 32)),
                    Node("s", "add", ("a", "t")), product("b", "s", n=16, c=32, m=32), image=(16, 32))
    passed = link(found, "a", "b")
    assert (passed.whole, passed.elsewhere, passed.also_read_by) == (("M",), 0, ())
    assert [(axis.dimension, axis.producer) for axis in passed.axes] == [("N", "N")]


def test_a_window_partition_passes_strip_by_strip() -> None:
    # 8 x 8 pixels in windows of 4 x 4: two strips of four rows, each two windows
    found = network(product("a", "x", n=64, c=8, m=8), Node("r", "reshape", ("a",), (2, 4, 2, 4, 8)),
                    Node("t", "transpose", ("r",), axes=(0, 2, 1, 3, 4)), product("b", "t", n=64, c=8, m=8),
                    image=(64, 8))
    rows = next(axis for axis in link(found, "a", "b").axes if axis.dimension == "N")
    assert rows.slides == (WindowSlide(1, 1, shrink=32, block=32),)
    assert [rows.needed(points) for points in (1, 32, 33)] == [32, 32, 64]


def test_a_resized_and_padded_image_passes_through_windows() -> None:
    ones, doubled = (1, 1), (1, 4, 16, 16)
    found = network(
        conv("a", "x", 4, 4, 8),
        Node("u", "resize", ("a",), doubled, window=Window(ones, ones, ((0, 0),) * 2, ones)),
        Node("p", "pad", ("u",), (1, 4, 18, 18), axes=(2, 3), window=Window(ones, ones, ((1, 1),) * 2, ones)),
        conv("b", "p", 4, 4, 16, 3, pad=((0, 0),) * 2))
    rows = next(axis for axis in link(found, "a", "b").axes if axis.dimension == "P")
    whole = composed(rows.slides)
    for start, stop in ((0, 1), (3, 5), (0, 16)):
        read = {(row + tap - 1) // 2 for row in range(start, stop) for tap in range(3)}
        assert whole.read(range(start, stop)) == range(min(read), max(read) + 1)


@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(1, 4), st.integers(1, 3), st.integers(0, 5),
       st.integers(1, 6))
def test_a_window_reads_from_the_first_to_the_last_point_that_its_taps_fall_into(
        kernel: int, stride: int, pad: int, shrink: int, block: int, start: int, count: int) -> None:
    slide = WindowSlide(kernel, stride, 1, pad, shrink, block)
    cells = {(point * stride - pad + tap) // shrink for point in range(start, start + count) for tap in range(kernel)}
    assert slide.read(range(start, start + count)) == range(min(cells) * block, (max(cells) + 1) * block)
    assert len(slide.read(range(count))) <= slide.reach(count)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2)), max_size=2), st.integers(1, 3),
       st.integers(0, 3), st.integers(1, 4), st.integers(1, 5))
def test_windows_behind_one_that_shrinks_are_composed_exactly(
        windows: list[tuple[int, int, int]], shrink: int, pad: int, start: int, count: int) -> None:
    slides = (WindowSlide(1, 1, 1, pad, shrink), *(WindowSlide(k, s, 1, p) for k, s, p in windows))
    points = set(range(start, start + count))
    for slide in reversed(slides):
        points = {(point * slide.stride - slide.pad + tap) // slide.shrink for point in points
                  for tap in range(slide.kernel)}
    assert composed(slides).read(range(start, start + count)) == range(min(points), max(points) + 1)


def test_normalisation_and_softmax_need_whole_rows_and_a_global_pool_whole_images() -> None:
    block = bundled_network("gpt3_6b7_block")
    assert link(block, "qk", "av").whole == ("M",)
    assert link(block, "out_proj", "ffn1").whole == ("M",)
    assert link(bundled_network("mobilenet_v1"), "pw13", "fc").whole == ("P", "Q")
    assert link(bundled_network("mobilenet_v1"), "pw12", "dw13").whole == ()


def test_heads_are_followed_through_reshape_and_transpose() -> None:
    found = network(product("q", "x", n=16, c=32, m=32), product("k", "x", n=16, c=32, m=32),
                    Node("qh", "reshape", ("q",), (16, 1, 32)), Node("qt", "transpose", ("qh",), axes=(1, 0, 2)),
                    Node("kt", "transpose", ("k",), axes=(1, 0)),
                    product("s", "qt", "kt", n=16, c=32, m=16), image=(16, 32))
    assert [(axis.dimension, axis.producer) for axis in link(found, "q", "s").axes] == [("N", "N"), ("C", "M")]
    assert [(axis.dimension, axis.producer) for axis in link(found, "k", "s").axes] == [("C", "M"), ("M", "N")]


def test_heads_that_run_one_by_one_take_stretches_of_channels() -> None:
    found = network(product("q", "x", n=16, c=32, m=32), Node("r", "reshape", ("q",), (16, 4, 8)),
                    Node("t", "transpose", ("r",), axes=(1, 0, 2)), product("s", "t", n=16, c=8, m=8, repeat=4),
                    Node("b", "transpose", ("s",), axes=(1, 0, 2)), Node("f", "reshape", ("b",), (16, 32)),
                    product("o", "f", n=16, c=32, m=32), image=(16, 32))
    heads, back = link(found, "q", "s"), link(found, "s", "o")
    assert {(axis.dimension, axis.producer): axis.slides for axis in heads.axes} == {
        ("*", "M"): (WindowSlide(8, 8),), ("N", "N"): ()}
    assert {(axis.dimension, axis.producer): axis.slides for axis in back.axes} == {
        ("N", "N"): (), ("C", "*"): (WindowSlide(1, 1, shrink=8),)}
    assert (heads.whole, back.whole) == ((), ("M",))


def test_a_norm_within_heads_does_not_keep_heads_together() -> None:
    found = network(product("q", "x", n=16, c=32, m=32), Node("r", "reshape", ("q",), (16, 4, 8)),
                    Node("n", "rmsnorm", ("r",)), Node("t", "transpose", ("n",), axes=(1, 0, 2)),
                    product("s", "t", n=16, c=8, m=8, repeat=4), image=(16, 32))
    assert link(found, "q", "s").whole == ()


def test_a_flattened_image_is_handed_on_whole() -> None:
    passed = link(network(conv("a", "x", 4, 4, 8), product("b", "a", n=1, c=256, m=2)), "a", "b")
    assert passed.fusable and passed.whole == ("P", "Q") and passed.in_tiles  # channels: stretches of 64 summands
    turned = link(network(conv("a", "x", 4, 4, 8), Node("t", "transpose", ("a",), axes=(0, 2, 1, 3)),
                          Node("r", "reshape", ("t",), (1, 256)), Node("n", "layernorm", ("r",)),
                          product("b", "n", n=1, c=256, m=2)), "a", "b")
    assert turned.fusable and not turned.in_tiles


def test_a_gate_on_another_tensor_passes_by_channels_and_brings_none_of_the_words() -> None:
    """Squeeze-and-excitation: the factor of an image is made from its means."""
    mean = Node("g", "mean", ("a",), axes=(2, 3), shape=(1, 4, 1, 1))
    scaled = Node("m", "mul", ("a", "f"), (1, 4, 8, 8))
    for spread in ([scaled], [Node("e", "expand", ("f",), (1, 4, 8, 8)), replace(scaled, inputs=("a", "e"))]):
        found = network(conv("a", "x", 4, 4, 8), mean, conv("f", "g", 4, 4, 1), *spread, conv("b", "m", 4, 4, 8))
        passed = link(found, "f", "b")
        assert (passed.obstacle, passed.in_tiles, passed.whole, passed.elsewhere) == (None, True, (), 1)
        assert passed.axes == (AxisMap("C", "M"),)


def test_a_pool_of_tensors_put_together_keeps_the_share_of_each() -> None:
    both = Node("c", "concat", ("x", "a"), (1, 8, 8, 8))
    for pooled, size in ((pool("p", "c", 3, 1, 1), 8), (Node("p", "mean", ("c",), axes=(2, 3), shape=(1, 8, 1, 1)), 1)):
        found = link(network(conv("a", "x", 4, 4, 8), both, pooled, conv("b", "p", 8, 2, size)), "a", "b")
        assert (found.obstacle, found.elsewhere) == (None, Fraction(1, 2))
        assert found.whole == (("M",) if size == 8 else ("M", "P", "Q"))


@pytest.mark.parametrize(("start", "shuffled", "elsewhere"), [
    (4, True, Fraction(1, 2)), (0, True, Fraction(1, 2)), (4, False, Fraction(0)), (0, False, Fraction(1)),
    (2, False, Fraction(1, 2))])
def test_a_part_of_tensors_put_together_has_the_words_of_those_that_stand_there(
        start: int, shuffled: bool, elsewhere: Fraction) -> None:
    shuffle = [Node("s1", "reshape", ("c",), (1, 2, 4, 8, 8)), Node("s2", "transpose", ("s1",), axes=(0, 2, 1, 3, 4)),
               Node("s3", "reshape", ("s2",), (1, 8, 8, 8))] if shuffled else []
    ones = (1,)
    half = Node("h", "slice", ("s3" if shuffled else "c",), (1, 4, 8, 8), axes=ones,
                window=Window(ones, ones, ((-start, 0),), ones))
    found = network(conv("a", "x", 4, 4, 8), Node("c", "concat", ("x", "a"), (1, 8, 8, 8)), *shuffle, half,
                    conv("b", "h", 4, 4, 8))
    assert link(found, "a", "b").elsewhere == elsewhere
    assert [axis.dimension for axis in link(found, "a", "b").axes] == ["P", "Q"]


@pytest.mark.parametrize(("base", "part", "elsewhere"), [
    ("a", "b", Fraction(3, 4)), ("b", "a", Fraction(1, 4)), ("b", "b", Fraction(0))])
def test_a_part_of_an_axis_that_another_tensor_takes_brings_its_words(base: str, part: str,
                                                                      elsewhere: Fraction) -> None:
    ones = (1,)
    place = Window(ones, ones, ((-2, 0),), ones)
    half = Node("h", "slice", (part,), (1, 4, 2, 8), axes=(2,), window=place)
    found = network(conv("a", "x", 4, 4, 8), conv("b", "a", 4, 4, 8), half,
                    Node("w", "scatter", (base, "h"), (1, 4, 8, 8), axes=(2,), window=place), conv("c", "w", 4, 4, 8))
    passed = link(found, "b", "c")
    assert (passed.obstacle, passed.elsewhere, passed.whole) == (None, elsewhere, ("P",))


@pytest.mark.parametrize("op", ["interleave", "slice", "expand", "gather"])
def test_a_tensor_without_elements_carries_no_tile(op: str) -> None:
    found = network(conv("a", "x", 4, 4, 8), Node("e", op, ("a",), (1, 4, 0, 8), axes=(2,)),
                    Node("o", "concat", ("e", "x"), (1, 4, 8, 8)), conv("b", "o", 4, 4, 8))
    assert [item.obstacle.name for item in found.links() if item.obstacle] == ["untold"]


def test_a_tensor_and_pools_of_it_are_read_through_the_widest_window() -> None:
    pools = [pool("p", "a", 5, 1, 2), pool("q", "p", 5, 1, 2)]
    together = Node("c", "concat", ("a", "p", "q"), (1, 12, 8, 8))
    for joined, channels in ((together, 12), (Node("c", "add", ("a", "q")), 4)):
        found = link(network(conv("a", "x", 4, 4, 8), *pools, joined, conv("b", "c", channels, 2, 8)), "a", "b")
        assert found.axes[-1] == AxisMap("Q", "Q", (WindowSlide(9, 1, 1, 4),))


def test_a_flattened_pool_is_cut_by_channels() -> None:
    found = link(network(conv("a", "x", 4, 4, 8), pool("p", "a", 2, 2), Node("f", "reshape", ("p",), (1, 64)),
                         product("b", "f", n=1, c=64, m=2)), "a", "b")
    assert found.axes == (AxisMap("C", "M", (WindowSlide(1, 1, shrink=16),)),) and found.whole == ("P", "Q")


SUMS = """
workload:
  version: 1
  name: sums
  shapes:
  - id: a
    op: problem
    problem:
      shape:
        name: odd
        dimensions: [P, R]
        data_spaces:
        - {name: Inputs, projection: [[[P]], [[R]]]}
        - {name: Outputs, projection: [[[P], [R]]], read_write: true}
      instance: {P: 4, R: 5}
  - {id: b, op: gemm, dims: {N: 1, C: 8, M: 2, P: 1, Q: 1, R: 1, S: 1}}
  graph:
  - {name: a, shape: a, from: [input]}
  - {name: b, shape: b, from: [a]}
"""


def test_every_obstacle_has_a_way_to_come_up(tmp_path: Path) -> None:
    file = tmp_path / "sums.yaml"
    file.write_text(SUMS)
    a, after = conv("a", "x", 4, 4, 8), conv("b", "o", 4, 4, 8)
    both, same = Node("c", "concat", ("a", "x"), (1, 8, 8, 8)), (1, 4, 8, 8)
    cases = {
        "not_understood": network(a, Node("o", "not_understood", ("a",), same, what="Odd"), after),
        "picked": network(a, Node("o", "gather", ("a",), same), after),
        "placed": network(a, Node("o", "scatter", ("a",), same), after),
        "sorted": network(a, Node("o", "sort", ("a",), same), after),
        "in_turn": network(a, Node("o", "recurrence", ("a",), same), after),
        "untold": network(a, Node("o", "other", ("a",), same, what="Odd"), after),
        "no_shape": network(a, Node("s", "slice", ("a",)), Node("o", "relu", ("s",)), after),
        "mixed": network(a, both, Node("o", "slice", ("c",), same), after),
        "sums": load_network(file),
        "window": network(a, Node("p", "maxpool", ("a",)), conv("b", "p", 4, 4, 4)),
        "far": network(a, *[Node(f"r{i}", "relu", (f"r{i - 1}" if i else "a",)) for i in range(250)],
                       conv("b", "r249", 4, 4, 8)),
    }
    for name, found in cases.items():
        assert [item.obstacle.name for item in found.links() if item.obstacle] == [name], name
    assert set(cases) == set(OBSTACLES)


# Chains

def test_chains_are_maximal_runs_and_cover_every_layer_once() -> None:
    for name in MACS:
        found = bundled_network(name)
        for fusable in (False, True):
            chains = found.chains(fusable=fusable)
            assert sorted(layer for chain in chains for layer in chain) == sorted(node.name for node in found.layers)
    assert bundled_network("vgg16").chains()[0][-1] == "fc8"
    assert ("layer2.0.conv1", "layer2.0.conv2") in bundled_network("resnet18").chains()
    assert ("ffn1", "ffn2") in bundled_network("gpt3_6b7_block").chains(fusable=True)


# Reordering

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=4)


@given(SHAPES, st.data())
def test_regrouped_axes_name_the_same_elements_in_the_same_order(shape: list[int], data: st.DataObject) -> None:
    def elements(axes: Any) -> list[dict[str, int]]:
        found: list[dict[str, int]] = [{}]
        for piece in (piece for axis in axes for piece in axis.pieces):
            found = [{**e, piece.dimension: e.get(piece.dimension, 0) + i * piece.step}
                     for e in found for i in range(piece.extent)]
        return found
    axes = tuple(axis_of([AxisPiece(f"d{index}", size)]) for index, size in enumerate(shape))
    rest, wanted = math.prod(shape), []
    while rest > 1:
        wanted.append(data.draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= wanted[-1]
    found = regrouped(axes, tuple(wanted))
    assert found is not None
    assert [axis.extent for axis in found] == wanted
    if not any(piece.dimension == SCATTERED for axis in found for piece in axis.pieces):
        assert elements(found) == elements(axes)
        assert regrouped(found, tuple(shape)) == axes


# Mistakes

@pytest.mark.parametrize(("nodes", "message"), [
    ((), r"the network has no layer \(nodes: input\)"),
    ((conv("a", "b", 4, 4, 8), conv("b", "a", 4, 4, 8)), "cycle: a -> b -> a"),
    ((conv("a", "x", 4, 4, 8), conv("a", "x", 4, 4, 8)), 'two nodes called "a"'),
    ((conv("long", "x", 4, 4, 8), conv("b", "lung", 4, 4, 8)), 'reads "lung", which no node .* mean "long"'),
    ((conv("a", "x", 8, 4, 8),), "a: Inputs has 8 along C, the tensor 1 x 4 x 8 x 8 has 4"),
    ((conv("a", "x", 4, 4, 20),), "a: Inputs needs 20 along P, the tensor has 8 with any usual padding"),
    ((conv("a", "x", 4, 4, 8, 3, pad=((0, 0), (1, 1))),), r"a: Inputs needs 10 along P, the tensor has 8 with padding"),
    ((product("a", "x", n=1, c=100, m=1),), "a: Inputs is 1 x 100, 100 elements, the tensor 1 x 4 x 8 x 8 has 256"),
    ((conv("a", "x", 4, 2, 8), Node("s", "add", ("a", "x"))), "joins tensors that do not fit"),
    ((conv("a", "x", 4, 4, 8), Node("s", "add", ("a", "x"), (1, 256))), "said to be 1 x 256, its operands make it"),
    ((conv("a", "x", 4, 4, 8), Node("t", "transpose", ("a",), axes=(0, 1))), "do not reorder a tensor of"),
    ((conv("a", "x", 4, 4, 8), Node("s", "softmax", ("a",), axes=(4,))), "axes .4. of a tensor with 4 axes"),
    ((conv("a", "x", 4, 4, 8), Node("r", "relu", ("a",), (1, 4, 8, 9))), "is said to be 1 x 4 x 8 x 9"),
    ((conv("a", "x", 4, 4, 8), Node("r", "reshape", ("a",))), "r: a reshape does not say what to"),
    ((conv("a", "x", 4, 4, 8), pool("p", "a", 9, 1)), "a window of 9 does not fit into 8")])
def test_a_network_that_cannot_be_is_refused_in_one_line(nodes: tuple[Node, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        network(*nodes)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("old", "new", "message"), [
    ("from: [conv1]", "from: [conv2]", r":\d+: workload.graph\[1\]: .*which no node writes"),
    ("op: avgpool", "op: avgpol", r'workload.graph\[\d+\].op: found a string .*did you mean "avgpool"'),
    ("shape: fc_512_1000,", "shape: fc_512_100,", 'there is no shape "fc_512_100"'),
    ("count: 4", "count: 5", "count is 5, the graph has 4 of it"),
    ("M: 1000, C: 512", "M: 1000, C: 513", "fc: Inputs is 1 x 513"),
    ("M: 1000, C: 512", "M: 1000, D: 512", 'workload.shapes.11..dims.* "C" has no bound'),
    ("stride: [1, 1], dilation", "stride: [1], dilation", r"shapes.1..stride: found 1 numbers; accepted: .along P"),
    ("version: 1", "version: 2", "found version 2; accepted: 1"),
    ("kernel: [3, 3], stride", "kernels: [3, 3], stride", 'unknown key "kernels".*did you mean "kernel"')])
def test_a_mistake_in_a_network_file_is_named_with_its_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = bundled_files.find("networks/resnet18").read_text()
    assert old in text
    (tmp_path / "net.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError, match=message):
        load_network(tmp_path / "net.yaml")


def test_every_operator_has_one_kind() -> None:
    names = [op for ops in KINDS.values() for op in ops]
    assert len(names) == len(set(names))


# Folders of problems

@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, layer in (("first", "conv3x3_64_64_56_s1"), ("second", "conv3x3_64_128_28_s2")):
        shutil.copy(bundled_files.find(f"layers/resnet18/{layer}"), tmp_path / f"{name}.yaml")
    return tmp_path


def test_a_folder_of_problems_and_edges_is_a_network(folder: Path) -> None:
    (folder / "edges.yaml").write_text("network: {name: two, edges: [{from: first, to: second}]}\n")
    found = load_network(folder)
    listed = link(bundled_network("resnet18"), "layer1.1.conv2", "layer2.0.conv1")
    assert link(found, "first", "second").axes == listed.axes
    (folder / "net.yaml").write_text(network_text(found))
    assert load_network(folder / "net.yaml") == found


def test_a_folder_may_use_a_file_twice_and_name_axes(folder: Path) -> None:
    (folder / "edges.yaml").write_text(
        "network:\n  layers: [{name: a, problem: first.yaml}, {name: b, problem: first.yaml}]\n"
        "  edges: [{from: a, to: b, as: Inputs, axes: {C: M, P: Q, Q: P}}]\n")
    found = load_network(folder)
    assert [entry.nodes for entry in found.distinct()] == [("a", "b")]
    assert [(axis.dimension, axis.producer) for axis in link(found, "a", "b").axes] == [
        ("C", "M"), ("P", "Q"), ("Q", "P")]


@pytest.mark.parametrize(("edge", "message"), [
    ("{from: first, to: third}", 'there is no layer "third".*accepted: first, second'),
    ("{from: second, to: first}", "Inputs has 64 along C, the tensor 1 x 128 x 28 x 28 has 128"),
    ("{from: first, to: second, as: Input}", 'no operand "Input" .did you mean "Inputs"'),
    ("{from: first, to: second, axes: {C: P}}", "axes: with the tensor's dimension for each of them"),
    ("{from: first, to: second, axes: {K: M}}", "found K: M; accepted: one of N, C, P, Q")])
def test_a_wrong_edge_is_named(folder: Path, edge: str, message: str) -> None:
    (folder / "edges.yaml").write_text(f"network:\n  edges:\n  - {edge}\n")
    with pytest.raises(SpecError, match=message):
        load_network(folder)


BROKEN_EDGES = {
    "empty": "", "nothing": "null", "text": "network", "a list": "- network", "cut off": "network: {edges: [{from: fir",
    "no network": "edges: []", "network of nothing": "network:", "network of a list": "network: [{from: first}]",
    "network of a number": "network: 3", "edges of a mapping": "network: {edges: {from: first, to: second}}",
    "edges of text": "network: {edges: first}", "an edge of nothing": "network: {edges: [null]}",
    "an edge of a list": "network: {edges: [[first, second]]}", "an edge of text": "network: {edges: [first]}",
    "an edge from nowhere": "network: {edges: [{to: second}]}",
    "an edge to nowhere": "network: {edges: [{from: first}]}",
    "an edge from a list": "network: {edges: [{from: [first], to: second}]}",
    "an edge to itself": "network: {edges: [{from: first, to: first}]}",
    "a circle": "network: {layers: [{name: a, problem: first.yaml}, {name: b, problem: first.yaml}], "
                "edges: [{from: a, to: b, axes: {C: M, P: Q, Q: P}}, {from: b, to: a, axes: {C: M, P: Q, Q: P}}]}",
    "an edge twice": "network: {edges: [{from: first, to: second}, {from: first, to: second}]}",
    "an unknown key of an edge": "network: {edges: [{from: first, to: second, over: C}]}",
    "an operand of a list": "network: {edges: [{from: first, to: second, as: [Inputs]}]}",
    "axes of a list": "network: {edges: [{from: first, to: second, axes: [C, M]}]}",
    "axes of lists": "network: {edges: [{from: first, to: second, axes: {C: [M]}}]}",
    "axes of nothing": "network: {edges: [{from: first, to: second, axes: {C: null}}]}",
    "one axis for two": "network: {edges: [{from: first, to: second, axes: {C: P, P: P}}]}",
    "no layers": "network: {layers: [], edges: []}", "layers of text": "network: {layers: first}",
    "a layer of text": "network: {layers: [first]}", "a layer without problem": "network: {layers: [{name: a}]}",
    "a layer without name": "network: {layers: [{problem: first.yaml}]}",
    "a layer twice": "network: {layers: [{name: a, problem: first.yaml}, {name: a, problem: first.yaml}]}",
    "a problem elsewhere": "network: {layers: [{name: a, problem: ../first.yaml}]}",
    "a problem that is missing": "network: {layers: [{name: a, problem: third.yaml}]}",
    "the folder as problem": "network: {layers: [{name: a, problem: .}]}",
    "itself as problem": "network: {layers: [{name: a, problem: edges.yaml}]}",
    "no repetition": "network: {layers: [{name: a, problem: first.yaml, repeat: 0}]}",
    "repeated without end": "network: {layers: [{name: a, problem: first.yaml, repeat: 1e99}]}",
}


@pytest.mark.parametrize("broken", BROKEN_EDGES)
def test_a_broken_file_of_edges_ends_in_lines_that_name_it(broken: str, folder: Path) -> None:
    (folder / "edges.yaml").write_text(BROKEN_EDGES[broken])
    with pytest.raises(SpecError) as caught:
        load_network(folder)
    assert all(line.startswith(str(folder)) for line in str(caught.value).splitlines())


def test_edges_without_their_problems_end_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "edges.yaml").write_text("network: {edges: []}")
    with pytest.raises(SpecError, match="edges"):
        load_network(tmp_path)


# The command

def test_import_prints_what_it_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = folder / "out" / "vgg16.yaml"
    assert main(["import", "bundled:networks/vgg16", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "vgg16: 22 nodes, 16 layers, 12 distinct, 15,470,264,320 multiply-accumulates" in printed
    assert load_network(out) == bundled_network("vgg16")


def test_the_worked_example_of_the_axis_algebra() -> None:
    pixels = dict.fromkeys("PQ", 112) | dict.fromkeys("RS", 7)
    nodes = [Node("image", "input", shape=(1, 3, 224, 224)),
             Node("first", "conv", ("image",), None, make_operator("conv", {"N": 1, "M": 64, "C": 3} | pixels, (2, 2)),
                  ("Inputs",), ((3, 3),) * 2),
             Node("pool", "maxpool", ("first",), window=Window((3, 3), (2, 2), ((1, 1),) * 2, (1, 1))),
             Node("second", "conv", ("pool",), None, make_operator(
                 "conv", {"N": 1, "M": 64, "C": 64, "P": 28, "Q": 28, "R": 3, "S": 3}, (2, 2)), ("Inputs",),
                 ((1, 1),) * 2)]
    link, = build_workload("pooled", nodes).links()
    rows = next(axis for axis in link.axes if axis.dimension == "P")
    assert rows.slides == (WindowSlide(3, 2, 1, 1), WindowSlide(3, 2, 1, 1)) and rows.pools == 1
    assert composed(rows.slides) == WindowSlide(7, 4, 1, 3) and rows.needed(2) == 11
