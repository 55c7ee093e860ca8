"""Links of a network: which tiles of linked layers correspond, and what hinders fusing."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from made_graphs import bundled_network, conv, link, network, pool, product

from fadiff_mapper import load_network
from fadiff_mapper.workload import Node, Window, make_operator
from fadiff_mapper.workload.producer_consumer import AxisMap
from fadiff_mapper.workload.tensor_routes import OBSTACLES
from fadiff_mapper.workload.window_slide import WindowSlide, composed


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


def test_a_repeated_convolution_takes_a_tensor_of_as_many_points_under_any_axes() -> None:
    """Heads of a product [2, 8, 8] as the image of two 1 x 1 convolutions, which has five axes."""
    image = make_operator("conv", {"N": 8, "M": 8, "C": 8, "P": 1, "Q": 1, "R": 1, "S": 1}, repeat=2)
    (found,) = network(product("s", "x", n=8, c=8, m=8, repeat=2), Node("r", "reshape", ("s",), (2, 8, 8)),
                    Node("av", "conv", ("r",), layer=image, operands=("Inputs",)), image=(16, 8)).links()
    assert found.fusable and {axis.dimension: axis.producer for axis in found.axes} == {"*": "*", "N": "N", "C": "M"}
