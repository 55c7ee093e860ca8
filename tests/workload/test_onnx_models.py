"""ONNX models as networks: the same layers as the bundled lists, no operator lost, hostile files refused."""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

import onnx
import onnx_networks
from hypothesis import given
from hypothesis import strategies as st
from made_graphs import distinct_layers
from onnx import TensorProto, helper
from onnx_networks import Graph, of

from fadiff_mapper import FadiffError, SpecError, load_network
from fadiff_mapper.cli import main
from fadiff_mapper.workload.readers import onnx_model, onnx_shapes

NETWORKS = ("resnet18", "vgg16", "mobilenet_v1", "gpt3_6b7_block")


# The same networks as the bundled lists

@pytest.mark.parametrize("name", NETWORKS)
def test_an_onnx_model_has_the_distinct_layers_counts_and_macs_of_the_bundled_network(name: str) -> None:
    found = load_network(getattr(onnx_networks, name)())
    listed = load_network(f"bundled:networks/{name}")
    assert distinct_layers(found) == distinct_layers(listed)
    assert (found.macs, len(found.layers)) == (listed.macs, len(listed.layers))
    assert found.not_understood() == ()


def test_both_products_of_attention_read_two_computed_tensors_and_the_softmax_needs_whole_rows() -> None:
    network = load_network(onnx_networks.gpt3_6b7_block())
    operands = {node.name: node.operands for node in network.layers}
    assert operands["qk"] == operands["av"] == ("Inputs", "Weights")
    scores = next(link for link in network.links() if (link.producer, link.consumer) == ("qk", "av"))
    assert (scores.fusable, scores.whole) == (True, ("M",))
    assert [(axis.dimension, axis.producer) for axis in scores.axes] == [("*", "*"), ("N", "N"), ("C", "M")]


def test_a_gelu_written_out_in_five_nodes_does_not_hide_that_two_products_can_be_fused() -> None:
    network = load_network(onnx_networks.gpt3_6b7_block(64, 64, 4))
    link = next(link for link in network.links() if (link.producer, link.consumer) == ("up", "down"))
    assert link.fusable and link.also_read_by == () and link.joins == ()


# Single operators

@pytest.mark.parametrize(("pads", "out", "pad"), [
    ({"auto_pad": "SAME_UPPER"}, 4, ((0, 1), (0, 1))), ({"auto_pad": "SAME_LOWER"}, 4, ((1, 0), (1, 0))),
    ({"auto_pad": "VALID"}, 3, ((0, 0), (0, 0))), ({"pads": [1, 0, 2, 1]}, 5, ((1, 2), (0, 1)))])
def test_padding_is_what_the_attributes_say(pads: dict[str, Any], out: int, pad: object) -> None:
    network = of(lambda g: g.op("Conv", "x", g.weight(4, 2, 3, 3), strides=[2, 2], **pads), 1, 2, 8, 8)
    (node,) = network.layers
    assert node.layer is not None
    assert (node.layer.problem.bounds["P"], node.pad) == (out, pad)


def test_strides_dilations_and_groups_of_a_convolution_reach_the_problem() -> None:
    network = of(lambda g: g.op("Conv", "x", g.weight(8, 2, 3, 5), strides=[2, 1], dilations=[1, 2], group=4),
                 1, 8, 20, 20)
    (node,) = network.layers
    assert node.layer is not None
    assert node.op == "grouped_conv"
    assert node.layer.problem.bounds == {"C": 2, "M": 2, "R": 3, "S": 5, "N": 1, "P": 9, "Q": 12, "G": 4}
    instance = node.layer.literal["instance"]
    assert [instance[c] for c in ("Wstride", "Hstride", "Wdilation", "Hdilation")] == [2, 1, 1, 2]


def test_a_convolution_over_one_axis_is_one_over_two_with_an_axis_of_one() -> None:
    network = of(lambda g: g.op("Conv", "x", g.weight(8, 4, 3), pads=[1, 1]), 1, 4, 20)
    (node,) = network.layers
    assert node.layer is not None
    bounds = node.layer.problem.bounds
    assert {d: bounds[d] for d in "PQRS"} == {"P": 20, "Q": 1, "R": 3, "S": 1}
    assert node.shape == (1, 8, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("left", "right", "bounds", "repeat"), [
    ((6, 8), (8, 5), (6, 5, 8), 1), ((2, 3, 6, 8), (8, 5), (36, 5, 8), 1), ((2, 3, 6, 8), (2, 3, 8, 5), (6, 5, 8), 6),
    ((6, 8), (3, 8, 5), (6, 5, 8), 3), ((2, 1, 6, 8), (3, 8, 5), (6, 5, 8), 6), ((8,), (8, 5), (1, 5, 8), 1),
    ((6, 8), (8,), (6, 1, 8), 1)])
def test_a_product_runs_once_over_all_rows_or_is_repeated_over_its_batch(
        left: tuple[int, ...], right: tuple[int, ...], bounds: tuple[int, int, int], repeat: int) -> None:
    computed = Graph("net", left)
    computed.inputs.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, right))
    for network in (of(lambda g: g.op("MatMul", "x", g.weight(*right)), *left),
                    load_network(computed.model(computed.op("MatMul", "x", "y")))):
        (node,) = network.layers
        assert node.layer is not None
        assert tuple(node.layer.problem.bounds[d] for d in "NMC") == bounds
        assert node.layer.repeat == repeat


def test_a_constant_on_the_left_of_a_product_is_the_weights_of_the_transposed_product() -> None:
    network = of(lambda g: g.op("MatMul", g.weight(5, 8), "x"), 8, 6)
    (node,) = network.layers
    assert node.layer is not None and node.operands == ("Inputs",)
    assert {d: node.layer.problem.bounds[d] for d in "NMC"} == {"N": 6, "M": 5, "C": 8}
    assert next(n for n in network.nodes if n.name == network.outputs[0]).shape == (5, 6)


def test_shapes_that_are_computed_from_shapes_are_known() -> None:
    def build(g: Graph) -> str:
        batch = g.op("Gather", g.op("Shape", "x"), g.numbers(0))
        flat = g.op("Reshape", "x", g.op("Concat", batch, g.numbers(-1), axis=0))
        return g.fc(flat, 64, 10)
    assert of(build, 2, 4, 4, 4).macs == 2 * 64 * 10


def test_softmax_before_version_13_takes_all_axes_from_its_own_on_together() -> None:
    def build(g: Graph) -> str:
        return g.op("Softmax", g.op("MatMul", "x", g.weight(8, 8)), axis=1)
    for version, axes in ((11, (1, 2)), (13, (1,))):
        network = of(build, 2, 4, 8, version=version)
        assert network.nodes[-1].axes == axes


@pytest.mark.slow
@pytest.mark.parametrize(("between", "channels", "moved"), [
    (lambda g, x: g.op("Concat", x, x, axis=1), 32, "PQ"),
    (lambda g, x: g.op("Slice", x, g.numbers(0), g.numbers(8), g.numbers(1)), 8, "PQ"),
    (lambda g, x: g.op("Gather", x, g.numbers(*range(16)), axis=1), 16, "PQ"),
    (lambda g, x: g.op("Pad", x, g.numbers(0, 0, 1, 1, 0, 0, 1, 1)), 16, "MPQ"),
    (lambda g, x: g.op("Reshape", x, g.numbers(1, 32, 2, 16)), 32, "M"),
    (lambda g, x: g.op("Reshape", x, g.numbers(2, 8, 8, 8)), 8, "MPQ"),
    (lambda g, x: g.op("Reshape", x, g.numbers(1, 4, 16, 16)), 4, "M"),
    (lambda g, x: g.op("Bernoulli", x), 16, None),
    (lambda g, x: g.op("Transpose", x, perm=[0, 1, 3, 2]), 16, "MPQ"),
    (lambda g, x: g.op("Reshape", g.op("Reshape", x, g.numbers(16, -1)), g.numbers(1, 16, 8, 8)), 16, "MPQ"),
    (lambda g, x: g.op("Slice", x, g.numbers(0), g.numbers(16), g.numbers(1)), 16, "MPQ")])
def test_tiles_pass_a_shape_only_operator_along_the_dimensions_that_it_leaves_whole(
        between: Callable[[Graph, str], str], channels: int, moved: str | None) -> None:
    def build(g: Graph) -> str:
        y = between(g, g.op("Conv", "x", g.weight(16, 16, 1, 1)))
        return g.op("Conv", y, g.weight(4, channels, 1, 1))
    (link,) = of(build, 1, 16, 8, 8).links()
    assert (None if link.obstacle else {axis.producer for axis in link.axes} - {"N"}) == (moved and set(moved))


# What is not understood

def test_an_operator_that_is_not_understood_is_listed_with_its_share_of_the_macs() -> None:
    def build(g: Graph) -> str:
        y = g.op("Conv", "x", g.weight(4, 2, 3, 3, 3, 3))
        y = g.op("Reshape", y, g.numbers(1, 4, 4, 64))
        return g.op("Det", g.op("Conv", y, g.weight(4, 4, 1, 1)), name="det")
    network = of(build, 1, 2, 6, 6, 6, 6)
    cube, det = network.not_understood()
    assert cube.macs == 4 * 4 ** 4 * 2 * 81
    assert cube.share == pytest.approx(cube.macs / (cube.macs + 4 * 4 * 256))
    assert (det.node, det.what, det.macs, det.share) == ("det", "Det", None, None)


# Errors

def test_a_dynamic_dimension_is_an_error_that_names_the_input_and_a_number_for_it_helps() -> None:
    g = Graph("net", ("batch", 8))
    model = g.model(g.fc("x", 8, 4))
    with pytest.raises(SpecError, match=r"inputs have open axes: x \(batch x 8\).* --dim batch=N"):
        load_network(model)
    assert load_network(model, dims={"batch": 3}).macs == 3 * 8 * 4
    with pytest.raises(SpecError, match="there is no dimension size; accepted: batch"):
        load_network(model, dims={"size": 3})


@pytest.mark.slow
@pytest.mark.parametrize(("build", "message"), [
    (lambda g: g.op("Relu", "x"), "the network has no layer"),
    (lambda g: g.op("Conv", g.op("Relu", "missing"), g.weight(4, 4, 1, 1)), "which nothing writes"),
    (lambda g: g.op("Conv", g.op("NonZero", "x"), g.weight(4, 2, 1)), "shape of operand 0 is not known"),
    (lambda g: g.op("Conv", "x", g.weight(4, 4, 3, 3), group=3), "groups"),
    (lambda g: g.op("Conv", "x", g.weight(4, 4, 3, 3), strides=[2]), "strides is .2.; accepted: 2 whole numbers"),
    (lambda g: g.op("Conv", "x", g.weight(4, 4, 3, 3), strides=[0, 0]), "strides is .0, 0.; accepted: 2 whole numbers"),
    (lambda g: g.op("Conv", "x", g.weight(4, 4)), "do not fit a tensor|shape"),
    (lambda g: g.op("Gemm", "x", g.weight(4, 4)), "accepted: two matrices"),
    (lambda g: g.op("MatMul", "x", g.weight(9, 4)), "shape"),
    (lambda g: g.fc(g.op("MaxPool", "x", kernel_shape=[2, 2], strides=[0, 2]), 4, 4), "operand 0 is not known")])
def test_a_broken_graph_ends_in_one_line(build: Callable[[Graph], str], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        of(build, 1, 4, 8, 8)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("changed", "message"), [
    ({"ref_attr_name": "size"}, "node conv .Conv.: the attribute kernel_shape names an attribute of a function"),
    ({"type": onnx.AttributeProto.UNDEFINED}, "node conv .Conv.: the attribute kernel_shape has no type")])
@pytest.mark.parametrize("inside", [False, True])
def test_an_attribute_without_a_value_is_named(changed: dict[str, Any], message: str, inside: bool) -> None:
    g = Graph("net", (1, 4, 8, 8))
    model = g.model(g.op("Conv", "x", g.weight(4, 4, 3, 3), kernel_shape=[3, 3], name="conv"))
    (attribute,) = model.graph.node[0].attribute
    for name, value in changed.items():
        setattr(attribute, name, value)
    if inside:
        branch = helper.make_graph(list(model.graph.node), "branch", [], list(model.graph.output))
        del model.graph.node[:]
        model.graph.node.append(helper.make_node("If", ["x"], [], then_branch=branch, else_branch=branch))
    with pytest.raises(SpecError, match=message):
        load_network(model)


@pytest.mark.parametrize("build", [
    lambda g: g.op("Div", g.op("Shape", "x"), g.numbers(0, 0, 0, 0)),
    lambda g: g.op("Mod", g.op("Shape", "x"), g.numbers(0, 0, 0, 0)),
    lambda g: g.op("ConstantOfShape", g.numbers(*[2 ** 62] * 20))], ids=["Div", "Mod", "ConstantOfShape"])
def test_numbers_that_are_none_raise_no_warning(build: Callable[[Graph], str]) -> None:
    g = Graph("net", (1, 4, 8, 8))
    computed = build(g)
    model = g.model(g.op("Add", g.conv("x", 4, 4, 1), g.op("Reshape", "x", computed)))
    with warnings.catch_warnings(record=True) as warned, suppress(SpecError):
        warnings.simplefilter("always")
        load_network(model)
    assert not [str(one.message) for one in warned if issubclass(one.category, RuntimeWarning)]


def test_a_cycle_is_named() -> None:
    g = Graph("net", (1, 8))
    g.op("Add", "x", "b", name="a")
    g.op("MatMul", "a", g.weight(8, 8), name="b")
    with pytest.raises(SpecError, match="cycle: a -> b -> a"):
        load_network(g.model("b"))


def test_external_data_is_neither_needed_nor_opened(tmp_path: Path) -> None:
    g = Graph("net", (1, 4, 8, 8))
    model = g.model(g.conv("x", 4, 8, 3))
    (weight,) = model.graph.initializer
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../../../etc/passwd")
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    code = ("import sys\n"
            "def watch(event, args):\n"
            "    if event == 'open' and 'passwd' in str(args[0]): raise SystemExit(9)\n"
            "sys.addaudithook(watch)\n"
            "import fadiff_mapper\n"
            f"print(fadiff_mapper.load_network({str(path)!r}).macs)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(8 * 4 * 9 * 64)


@pytest.mark.parametrize("content", [b"", b"\x08\x07", b"not a model\n", b"\xff" * 100])
def test_what_is_no_model_is_one_error_line(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "net.onnx", tmp_path / "net.yaml"
    path.write_bytes(content)
    assert main(["import", str(path), "-o", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


WHOLE = onnx_networks.gpt3_6b7_block(16, 16, 2).SerializeToString()


@pytest.mark.slow
@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=3))
def test_a_cut_or_damaged_model_is_read_or_refused_in_one_line(place: int, patch: bytes) -> None:
    damaged = WHOLE[:place] + patch + (WHOLE[place + len(patch):] if patch else b"")
    try:
        model = onnx.ModelProto.FromString(damaged)
    except Exception:
        return
    try:
        assert load_network(model).macs > 0
    except FadiffError as error:
        assert len(str(error).splitlines()) == 1


# The command

@pytest.mark.slow
def test_import_writes_a_network_file_that_loads_to_the_same_graph(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "net.onnx", tmp_path / "net.yaml"
    source.write_bytes(onnx_networks.gpt3_6b7_block(64, 64, 4).SerializeToString())
    assert main(["import", str(source), "-o", str(out)]) == 0
    assert load_network(out) == load_network(source) and load_network(source).name == "net"
    assert "5 distinct" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["model.pt2", "model.pt", "module.py", "module:function"])
def test_import_takes_no_code(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text("raise SystemExit('this ran')\n")
    assert main(["import", str(tmp_path / name), "-o", str(tmp_path / "net.yaml")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def doubled(times: int, start: int = 1024, *, weight: bool = False) -> onnx.ModelProto:
    """A shape that is computed by joining a vector with itself again and again: start * 2^times values.

    The vector is a constant of whole numbers, or a weight.
    """
    graph = Graph("doubled", (1, 4, 8, 8))
    shape = graph.weight(start) if weight else graph.numbers(*[1] * start)
    for _ in range(times):
        shape = graph.op("Concat", shape, shape, axis=0)
    return graph.model(graph.op("Relu", graph.op("Reshape", "x", shape)))


@pytest.mark.slow
def test_values_that_grow_without_bound_end_in_a_sentence_and_take_no_memory_here(tmp_path: Path) -> None:
    path = tmp_path / "doubled.onnx"
    path.write_bytes(doubled(26).SerializeToString())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SpecError, match="shapes cannot be inferred: it takes more than 1024 MiB"):
        load_network(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # KiB


@pytest.mark.slow
def test_axes_that_grow_by_the_length_of_a_vector_end_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "joined.onnx"
    path.write_bytes(doubled(26, start=10, weight=True).SerializeToString())
    with pytest.raises(SpecError, match="shapes cannot be inferred: it takes more than 1024 MiB"):
        load_network(path)


def test_inference_that_does_not_end_is_ended_with_its_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    noted, program = tmp_path / "pid", tmp_path / "sleeping.py"
    program.write_text(f"import os, time; open({str(noted)!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    monkeypatch.setattr(onnx_shapes, "__file__", str(program))
    monkeypatch.setattr(onnx_model, "SECONDS", 2.0)
    with pytest.raises(SpecError, match="shapes cannot be inferred: it takes more than 2 s"):
        load_network(doubled(26))
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_a_node_at_which_a_signal_ends_inference_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "ended.py"
    program.write_text("import onnx, os, signal\nnodes = onnx.load('model.onnx').graph.node\n"
                       "os.kill(os.getpid(), signal.SIGSEGV if any(node.op_type == 'Neg' for node in nodes) else 0)")
    monkeypatch.setattr(onnx_shapes, "__file__", str(program))
    graph = Graph("ends", (4, 64))
    last = "x"
    for name in ("Relu", "Exp", "Neg", "Abs", "Neg", "Relu"):
        last = graph.op(name, last)
    with pytest.raises(SpecError, match=r"onnx model: node Neg_2 \(Neg\): shapes cannot be inferred: ONNX's own "
                                        "inference was killed by SIGSEGV$"):
        load_network(graph.model(last))


def test_a_model_that_ends_onnx_by_a_signal_does_not_end_this_program() -> None:
    """LabelEncoder on a tensor of which nothing says the type: onnx 1.23 reads where there is nothing."""
    graph = Graph("ends", (4, 64))
    h = graph.op("MatMul", "x", graph.weight(64, 64))
    model = graph.model(graph.op("LabelEncoder", graph.op("Mystery", h, domain="elsewhere"), domain="ai.onnx.ml"))
    model.opset_import.extend([helper.make_opsetid("ai.onnx.ml", 1), helper.make_opsetid("elsewhere", 1)])
    with suppress(SpecError):  # of other versions of onnx it is a network
        load_network(model)


@pytest.mark.parametrize(("operands", "attributes", "message"), [
    (["x", "x", "x", "x", "x"], {}, r"node y \(Conv\): reads 5 tensors; accepted: at most 3 tensors"),
    (["x"], {}, r"node y \(Conv\): reads 1 tensors, and no W; accepted: at least 2 tensors"),
    (["x", ""], {}, r"node y \(Conv\): reads 1 tensors, and no W; accepted: at least 2 tensors"),
    (["x", "w"], {"strides": "two"}, r"node y \(Conv\): the attribute strides is of the type STRING; accepted: INTS"),
    (["x", "w"], {"auto_pad": "SAME"}, r"node y \(Conv\): auto_pad is SAME; accepted: NOTSET, SAME_UPPER, SAME_LOWER, "
                                       "VALID"),
])
def test_operands_and_attributes_that_an_operator_does_not_have_are_refused(operands: list[str],
                                                                         attributes: dict[str, Any],
                                                                         message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load_network(one_node(helper.make_node("Conv", operands, ["y"], **attributes), (1, 8, 9, 9), (8, 8, 3, 3)))


@pytest.mark.parametrize(("node", "message"), [
    (helper.make_node("Constant", [], ["y"], value_floats=["a"]), "the attribute value_floats is of the type STRINGS"),
    (helper.make_node("QGemm", ["x", "w"], ["y"], domain="com.microsoft"), "operand 3 is missing"),
    (helper.make_node("QAttention", ["x", "w"], ["y"], domain="com.microsoft"),
     r"operands of the shapes \[4, 64\], \[64, 64\] do not fit the operator"),
])
def test_operators_of_onnx_runtime_are_refused_likewise(node: onnx.NodeProto, message: str) -> None:
    with pytest.raises(SpecError, match=rf"node y \({node.op_type}\): {message}"):
        load_network(one_node(node, (4, 64), (64, 64)))


@pytest.mark.parametrize("again", ["y", "x", "w"])
def test_a_tensor_has_one_writer(again: str) -> None:
    model = one_node(helper.make_node("MatMul", ["x", "w"], ["y"]), (4, 64), (64, 64))
    model.graph.node.append(helper.make_node("MatMul", ["x", "w"], [again], name="second"))
    with pytest.raises(SpecError, match=rf"node second \(MatMul\): writes {again}, which is written already"):
        load_network(model)


@pytest.mark.parametrize("attributes", [{"hidden_size": 10**9}, {"hidden_size": 16, "direction": "bidirectional"}])
def test_attributes_of_a_recurrent_layer_are_those_of_its_weights(attributes: dict[str, Any]) -> None:
    graph = Graph("recurrent", (5, 2, 8))
    model = graph.model(graph.op("LSTM", "x", graph.weight(1, 64, 8), graph.weight(1, 64, 16), **attributes))
    with pytest.raises(SpecError, match=r"\(LSTM\): weights \[1, 64, 8\] and \[1, 64, 16\], hidden_size"):
        load_network(model)


def one_node(node: onnx.NodeProto, x: tuple[int, ...], w: tuple[int, ...]) -> onnx.ModelProto:
    """A model of one node that writes y, of an input x and weights w."""
    graph = helper.make_graph([node], "one", [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [helper.make_tensor("w", TensorProto.FLOAT, w, bytes(4 * math.prod(w)), raw=True)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, version) for domain, version in
                                                    (("", 17), ("com.microsoft", 1))])
