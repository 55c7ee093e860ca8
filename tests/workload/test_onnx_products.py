"""ONNX operators that hold products, in whatever form: counted as products by hand, or named with their size."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx_networks import Graph

from fadiff_mapper import FadiffError, SpecError, Workload, load_network
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.coverage import require_coverage
from fadiff_mapper.workload.readers.network_text import network_text

pytestmark = pytest.mark.slow  # each model is read in a process of its own

RUNTIME = "com.microsoft"


def of(build: Callable[[Graph], str], *shape: int, version: int = 18, **inputs: tuple[int, ...]) -> Workload:
    """The network of a graph that is built on an input x, and further inputs."""
    g = Graph("net", shape, version)
    for name, extents in inputs.items():
        g.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, extents))
    model = g.model(build(g))
    model.opset_import.append(helper.make_opsetid(RUNTIME, 1))
    return load_network(model)


def counted(network: Workload) -> int:
    """Multiply-accumulates of a network of which nothing is left out."""
    assert coverage(network).complete and network.not_understood() == ()
    return network.macs


def typed(g: Graph, kind: int, *shape: int) -> str:
    name = g.weight(*shape)
    g.constants[-1].data_type = kind
    return name


@pytest.mark.parametrize(("equation", "shapes", "macs"), [
    ("ij,jk,kl->il", ((4, 5), (5, 6)), 3 * 4 * 5 + 3 * 5 * 6),
    ("ij,kj,kl->il", ((6, 4), (6, 2)), 3 * 4 * 6 + 3 * 6 * 2),
    ("ij,jk,kl", ((4, 5), (5, 6)), 3 * 4 * 5 + 3 * 5 * 6)])
def test_an_einsum_of_three_tensors_is_two_products(equation: str, shapes: tuple[tuple[int, ...], ...],
                                                    macs: int) -> None:
    assert counted(of(lambda g: g.op("Einsum", "x", *(g.weight(*shape) for shape in shapes), equation=equation),
                      3, 4)) == macs


def test_constants_in_front_of_an_einsum_are_multiplied_once() -> None:
    network = of(lambda g: g.op("Einsum", g.weight(3, 4), g.weight(4, 5), "x", equation="ij,jk,kl->il"), 5, 6)
    assert (counted(network), [entry.macs for entry in network.folded]) == (3 * 5 * 6, [3 * 4 * 5])


@pytest.mark.parametrize(("build", "macs"), [
    (lambda g: g.op("Cast", g.op("MatMulInteger", g.op("Cast", "x", to=TensorProto.INT8),
                                 typed(g, TensorProto.INT8, 8, 5)), to=TensorProto.FLOAT), 160),
    (lambda g: g.op("FusedMatMul", "x", g.weight(5, 8), domain=RUNTIME, transB=1, alpha=0.5), 160),
    (lambda g: g.op("FusedGemm", "x", g.weight(5, 8), g.weight(5), domain=RUNTIME, transB=1, activation="Relu"), 160),
    (lambda g: g.op("MatMulNBits", "x", g.weight(5, 1, 4), g.weight(5), domain=RUNTIME, K=8, N=5, bits=4,
                    block_size=8), 160),
    (lambda g: g.op("GemmFastGelu", "x", g.weight(8, 5), domain=RUNTIME), 160)])
def test_products_of_integers_and_of_onnx_runtime_are_counted(build: Callable[[Graph], str], macs: int) -> None:
    network = of(build, 4, 8)
    assert (counted(network), network.nodes[-1].shape) == (macs, (4, 5))


def test_deformable_convolutions_are_products_of_gathered_points() -> None:
    network = of(lambda g: g.op("DeformConv", "x", g.weight(6, 2, 3, 3), "offset", pads=[1, 1, 1, 1], group=2), 1, 4, 8,
                 8, version=19, offset=(1, 18, 8, 8))
    assert counted(network) == 64 * 6 * 2 * 9


# Attention

def test_attention_over_packed_heads_and_behind_a_cache_is_two_products() -> None:
    """6 tokens of 4 query heads of 8 on 2 heads of keys, behind 10 cached ones."""
    packed = of(lambda g: g.op("Attention", "x", "k", "v", q_num_heads=4, kv_num_heads=2), 1, 6, 32, version=23,
                k=(1, 6, 16), v=(1, 6, 16))
    cached = of(lambda g: g.op("Attention", "x", "k", "v", "", "pk", "pv", outputs=3), 1, 4, 6, 8, version=23,
                k=(1, 2, 6, 8), v=(1, 2, 6, 8), pk=(1, 2, 10, 8), pv=(1, 2, 10, 8))
    assert counted(packed) == 2 * 4 * 6 * 6 * 8
    assert counted(cached) == 2 * 4 * 6 * 16 * 8
    assert [node.layer.repeat for node in (*packed.layers, *cached.layers) if node.layer] == [2] * 4


@pytest.mark.parametrize(("build", "macs"), [
    (lambda g: g.op("MultiHeadAttention", "x", "k", "v", domain=RUNTIME, num_heads=4), 2 * 4 * 6 * 7 * 8),
    (lambda g: g.op("GroupQueryAttention", "x", "small", "small", "", "", g.numbers(5), g.numbers(6), domain=RUNTIME,
                    num_heads=4, kv_num_heads=2), 2 * 4 * 6 * 6 * 8),
    (lambda g: g.op("Attention", "x", g.weight(32, 96), g.weight(96), domain=RUNTIME, num_heads=4),
     6 * 32 * 96 + 2 * 4 * 6 * 6 * 8)])
def test_attention_of_onnx_runtime_is_counted(build: Callable[[Graph], str], macs: int) -> None:
    network = of(build, 1, 6, 32, k=(1, 7, 32), v=(1, 7, 32), small=(1, 6, 16))
    assert (counted(network), network.nodes[-1].shape) == (macs, (1, 6, 32))


# Products written out, functions, loops

def test_a_multiplication_and_a_sum_are_a_product() -> None:
    def build(g: Graph) -> str:
        pairs = g.op("Mul", g.op("Unsqueeze", "x", g.numbers(1)), g.weight(5, 8))
        return g.op("Relu", g.op("ReduceSum", pairs, g.numbers(-1), keepdims=0))
    network = of(build, 4, 8)
    assert counted(network) == 4 * 5 * 8
    assert [node.op for node in network.nodes if not node.layer] == ["input", "reshape", "reshape", "reshape", "relu"]


def pairs(g: Graph, operator: str = "Mul") -> str:
    """All pairs of four rows, which a product computes, and five: [4, 5, 8]."""
    rows = g.op("Unsqueeze", g.op("MatMul", "x", g.weight(8, 8)), g.numbers(1))
    return g.op(operator, rows, g.weight(5, 8))


def squared_distances(g: Graph) -> str:
    apart = pairs(g, "Sub")
    return g.op("ReduceSum", g.op("Mul", apart, apart), g.numbers(-1), keepdims=0)


def pooled(g: Graph, operator: str, **attributes: Any) -> str:
    return g.op(operator, g.op("Reshape", pairs(g), g.numbers(4, 5, 2, 4)), **attributes)


def scattered(g: Graph) -> str:
    zeros = g.op("ConstantOfShape", g.numbers(4, 5, 1))
    places = g.op("ConstantOfShape", g.numbers(4, 5, 8), value=numpy_helper.from_array(np.zeros(1, np.int64)))
    return g.op("ScatterElements", zeros, places, pairs(g), axis=2, reduction="add")


def added_columns(g: Graph) -> str:
    first = g.op("Split", pairs(g), outputs=8, axis=2, num_outputs=8)
    return g.op("Sum", *(first.replace("_0", f"_{column}") for column in range(8)))


def added_halves(g: Graph) -> str:
    whole = pairs(g)
    for size in (4, 2, 1):
        first = g.op("Split", whole, g.numbers(size, size), outputs=2, axis=2)
        whole = g.op("Add", first, first.removesuffix("0") + "1")
    return whole


def added_outer_products(g: Graph) -> str:
    """Two columns of rows and two rows of columns: [4, 1] [1, 20] + [4, 1] [1, 20] = 4 * 5 * 8 products."""
    rows = g.op("MatMul", "x", g.weight(8, 2))
    first = g.op("Split", rows, g.numbers(1, 1), outputs=2, axis=1)
    return g.op("Add", *(g.op("Mul", name, g.weight(1, 20)) for name in (first, first.removesuffix("0") + "1")))


@pytest.mark.parametrize(("build", "what"), [
    (squared_distances, "sum of all pairs (sub)"),
    *((functools.partial(pooled, operator=operator, **attributes), "avgpool of all pairs (mul)")
      for operator, attributes in (
          ("GlobalAveragePool", {}), ("GlobalLpPool", {"p": 1}), ("LpPool", {"kernel_shape": [2, 4], "p": 1}),
          ("AveragePool", {"kernel_shape": [2, 4]}), ("AveragePool", {"kernel_shape": [1, 2], "strides": [1, 2]}))),
    (scattered, "scatter of all pairs (mul)"), (added_columns, "add of all pairs (mul)"),
    (added_halves, "add of all pairs (mul)"), (added_outer_products, "add of all pairs (mul)")])
def test_whatever_sums_products_of_all_pairs_is_named_with_their_number(build: Callable[[Graph], str],
                                                                       what: str) -> None:
    network = of(lambda g: g.op("Relu", build(g)), 4, 8, version=20)
    assert [(node.what, node.macs) for node in network.not_understood()] == [(what, 4 * 5 * 8)]
    assert not coverage(network).complete


def written_out_norm(g: Graph) -> str:
    """The mean of all pairs besides the pairs themselves."""
    whole = pairs(g)
    return g.op("Sub", whole, g.op("ReduceMean", whole, g.numbers(-1)))


def gated(g: Graph) -> str:
    whole = pairs(g)
    return g.op("Mul", whole, g.op("Sigmoid", whole))


def cut(g: Graph) -> str:
    return g.op("Split", pairs(g), outputs=8, axis=2, num_outputs=8)


@pytest.mark.parametrize("build", [pairs, written_out_norm, gated, cut])
def test_products_of_all_pairs_that_are_read_themselves_are_no_sums(build: Callable[[Graph], str]) -> None:
    network = of(lambda g: g.op("Relu", build(g)), 4, 8)
    assert network.not_understood() == () and counted(network) == 4 * 8 * 8


def test_a_weighted_mean_over_a_whole_image_is_a_product() -> None:
    network = of(lambda g: g.op("GlobalAveragePool", g.op("Mul", "x", g.weight(3, 4, 4))), 2, 3, 4, 4)
    assert counted(network) == 2 * 3 * 4 * 4 and coverage(network).complete


def test_a_mean_over_an_image_of_products_that_stay_steps_is_named(tmp_path: Path) -> None:
    """A weight for every point of an image, the same for all channels; the file gives the network back."""
    network = of(lambda g: g.op("GlobalAveragePool", g.op("Mul", g.conv("x", 3, 8, 3), "w")), 1, 3, 4, 4,
                 w=(1, 1, 4, 4))
    assert [(entry.what, entry.macs) for entry in coverage(network).sums] == [
        ("avgpool of products point by point", 8 * 4 * 4)]
    (tmp_path / "network.yaml").write_text(network_text(network))
    assert load_network(tmp_path / "network.yaml") == network


def called(*functions: Any) -> Any:
    """A model that calls the last function on x and weights, and multiplies once more."""
    g = Graph("net", (4, 8))
    w = g.weight(8, 8)
    y = g.op("MatMul", g.op(functions[-1].name, "x", w, domain="own"), w)
    model = g.model(y)
    model.functions.extend(functions)
    model.opset_import.append(helper.make_opsetid("own", 1))
    return model


def function(name: str, *calls: str) -> Any:
    """A function that calls others one behind the other; "MatMul" is ONNX's."""
    names = ["a", *(f"t{index}" for index in range(1, len(calls))), "c"]
    nodes = [helper.make_node(call, [names[index], "b"], [names[index + 1]], domain="" if call == "MatMul" else "own")
             for index, call in enumerate(calls)]
    return helper.make_function("own", name, ["a", "b"], ["c"], nodes,
                                [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)])


def test_functions_of_a_model_are_put_where_they_are_called() -> None:
    assert counted(load_network(called(function("one", "MatMul"), function("two", "one", "one")))) == 3 * 4 * 8 * 8


def test_functions_that_multiply_or_call_themselves_are_refused() -> None:
    growing = [function("f0", "MatMul"), *(function(f"f{n + 1}", f"f{n}", f"f{n}") for n in range(40))]
    with pytest.raises(SpecError, match=r"operators in its functions; accepted: at most 200000"):
        load_network(called(*growing))
    with pytest.raises(SpecError, match="its function loop calls itself"):
        load_network(called(function("loop", "loop")))


def graph_of(name: str, node: Any, inputs: list[Any], outputs: list[str]) -> Any:
    return helper.make_graph(node, name, inputs, [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)
                                                  for out in outputs])


def looped(limit: Callable[[Graph], str], g: Graph) -> str:
    """y = y w, as often as a Loop says, behind a product."""
    w = g.weight(8, 8)
    body = graph_of("body", [helper.make_node("Identity", ["go"], ["again"]),
                             helper.make_node("MatMul", ["y", w], ["next"])],
                    [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                     helper.make_tensor_value_info("go", TensorProto.BOOL, []),
                     helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 8])], [])
    body.output.extend([helper.make_tensor_value_info("again", TensorProto.BOOL, []),
                        helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 8])])
    return g.op("Loop", limit(g), "", g.op("MatMul", "x", w), body=body, name="loop")


def test_a_loop_with_a_limit_runs_its_operators_so_often() -> None:
    network = of(lambda g: looped(lambda g: g.numbers(5), g), 4, 8)
    assert counted(network) == (1 + 5) * 4 * 8 * 8
    assert [node.layer.repeat for node in network.layers if node.layer] == [1, 5]


def test_a_loop_whose_limit_is_computed_counts_as_one_pass() -> None:
    def limit(g: Graph) -> str:
        return g.op("Cast", g.op("ReduceMax", "x", keepdims=0), to=TensorProto.INT64)
    found = coverage(of(lambda g: looped(limit, g), 4, 8))
    assert (found.understood, found.possible) == (256, 256)
    assert found.sentences()[0].startswith("understood: at most 50 % (256 of 512 multiply-accumulates); how many Loop "
                                           "has is not known")


def test_a_scan_runs_its_operators_for_every_entry() -> None:
    def build(g: Graph) -> str:
        w = g.weight(8, 8)
        body = graph_of("body", [helper.make_node("MatMul", ["h", w], ["t"]),
                                 helper.make_node("Add", ["t", "e"], ["n"]),
                                 helper.make_node("Identity", ["n"], ["o"])],
                        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 8]) for name in ("h", "e")],
                        ["n", "o"])
        g.op("Scan", "h0", "x", body=body, num_scan_inputs=1, outputs=2, name="scan")
        return g.op("MatMul", "scan_1", g.weight(8, 3))
    network = of(build, 6, 4, 8, h0=(4, 8))
    assert counted(network) == 6 * 4 * 8 * 8 + 6 * 4 * 8 * 3
    assert [link.obstacle and link.obstacle.name for link in network.links()] == ["in_turn"]


def test_a_branch_that_nothing_decides_counts_as_the_larger_one() -> None:
    def build(g: Graph) -> str:
        y, w = g.op("MatMul", "x", g.weight(8, 8)), g.weight(8, 8)
        small = graph_of("small", [helper.make_node("Relu", [y], ["a"])], [], ["a"])
        large = graph_of("large", [helper.make_node("MatMul", [y, w], ["b"])], [], ["b"])
        positive = g.op("Greater", g.op("ReduceMax", "x", keepdims=0), g.op("ReduceMin", "x", keepdims=0))
        return g.op("If", positive, then_branch=small, else_branch=large, name="choice")
    network = of(build, 4, 8)
    assert [(node.what, node.macs, node.possible) for node in network.not_understood()] == [("If", None, 256)]
    with pytest.raises(FadiffError, match=r"understood: at most 50 %"):
        require_coverage(network, False, "--flag")


# Named

@pytest.mark.parametrize(("build", "shape", "macs"), [
    (lambda g: g.op("DFT", "x", onesided=1), (4, 64, 1), 4 * 64 * 6),
    (lambda g: g.op("DFT", "x"), (4, 64, 2), 2 * 4 * 64 * 6),
    (lambda g: g.op("STFT", "x", g.numbers(16), "", g.numbers(32)), (1, 128, 1), 7 * 32 * 5)])
def test_fourier_transforms_are_named_with_the_size_of_a_fast_one(build: Callable[[Graph], str],
                                                                  shape: tuple[int, ...], macs: int) -> None:
    def beside(g: Graph) -> str:
        build(g)
        return g.op("MatMul", "x", g.weight(shape[-1], 4))
    (node,) = of(beside, *shape, version=17 if len(shape) == 3 else 18).not_understood()
    assert node.macs == macs


def test_an_operator_that_nobody_knows_counts_as_one_product_of_its_tensors() -> None:
    """[4, 8] times weights [8, 5] among its operands, as large as the product beside it."""
    g = Graph("net", (4, 8))
    y = g.op("Secret", "x", g.weight(8, 5), domain="own", name="secret")
    model = g.model(g.op("Add", g.op("MatMul", "x", g.weight(8, 5)), y))
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.graph.value_info.append(helper.make_tensor_value_info("secret", TensorProto.FLOAT, [4, 5]))
    found = coverage(load_network(model))
    assert (found.understood, found.possible, found.share) == (160, 160, 0.5)


def test_coefficients_among_the_attributes_of_an_operator_count_as_operands() -> None:
    """A linear classifier of 8 features into 5 classes, beside a product."""
    g = Graph("net", (4, 8))
    g.op("LinearClassifier", "x", outputs=2, domain="ai.onnx.ml", name="pick", coefficients=[0.0] * 40,
         intercepts=[0.0] * 5, classlabels_ints=list(range(5)))
    model = g.model(g.op("MatMul", "x", g.weight(8, 5)), "pick_0", "pick_1")
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    found = coverage(load_network(model))
    assert found.understood == 160 and found.possible is not None and found.possible >= 160


def test_where_no_shape_is_known_no_share_is_stated() -> None:
    g = Graph("net", (4, 8))
    lost = g.op("Secret", g.op("NonZero", "x"), domain="own", name="secret")
    model = g.model(g.op("MatMul", "x", g.weight(8, 5)), lost)
    model.opset_import.append(helper.make_opsetid("own", 1))
    found = coverage(load_network(model))
    assert (found.share, found.possible, found.complete) == (0.0, None, False)
    assert found.sentences()[0] == ("understood: an unknown part (160 multiply-accumulates); how many own.Secret has "
                                    "is not known, nor the shapes of its tensors")
