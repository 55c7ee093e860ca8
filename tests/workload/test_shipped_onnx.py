"""ONNX models as packages ship them: open axes, computed shapes, branches, ONNX Runtime's operators."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper
from onnx_networks import Graph, of

from fadiff_mapper import SpecError, Workload, load_network, save_network
from fadiff_mapper.cli import main

pytestmark = pytest.mark.slow  # each model is read in a process of its own


# Open axes

def two_inputs() -> Any:
    g = Graph("net", ("batch", 3, "?", "?"))
    g.inputs.append(helper.make_tensor_value_info("mask", TensorProto.FLOAT, [-1, 4]))
    g.op("Relu", "mask")
    return g.model(g.conv("x", 3, 4, 3))


def test_all_open_axes_are_named_in_one_error_with_the_flags_that_close_them() -> None:
    with pytest.raises(SpecError, match=r"inputs have open axes: x \(batch x 3 x \? x \?\), mask \(\? x 4\); accepted: "
                                        r"numbers for them: --shape x=Nx3xNxN --shape mask=Nx4, or --dim batch=N"):
        load_network(two_inputs())


def test_shapes_close_axes_of_every_kind() -> None:
    network = load_network(two_inputs(), shapes={"x": (2, 3, 8, 6), "mask": (1, 4)})
    assert network.macs == 2 * 8 * 6 * 9 * 3 * 4
    with pytest.raises(SpecError, match="there is no input image; accepted: x, mask"):
        load_network(two_inputs(), shapes={"image": (1,)})
    with pytest.raises(SpecError, match="the input x has 4 axes, its shape 2"):
        load_network(two_inputs(), shapes={"x": (2, 3)})


def test_the_command_takes_shapes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "net.onnx", tmp_path / "net.yaml"
    source.write_bytes(two_inputs().SerializeToString())
    assert main(["import", str(source), "-o", str(out), "--shape", "x=1x3x8x8", "--shape", "mask=1x4"]) == 0
    assert "understood: 100 %" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["import", str(source), "-o", str(out), "--shape", "x=1x3xNx8"])


# Computed shapes and branches

def test_sizes_that_are_computed_by_any_small_operators_are_known() -> None:
    def build(g: Graph) -> str:
        y = g.conv("x", 3, 4, 3)
        area = g.op("ReduceProd", g.op("Slice", g.op("Shape", y), g.numbers(2), g.numbers(4)), keepdims=1)
        half = g.op("Cast", g.op("Sqrt", g.op("Cast", area, to=TensorProto.FLOAT)), to=TensorProto.INT64)
        rows = g.op("Reshape", y, g.op("Concat", g.numbers(-1), half, axis=0))
        return g.op("MatMul", rows, g.weight(8, 5))
    network = of(build, 1, 3, 8, 8)
    assert network.layers[-1].layer is not None
    assert network.layers[-1].layer.problem.bounds["N"] == 4 * 8


def branches(condition: Callable[[Graph], str]) -> Workload:
    """Conv, then a convolution of 1 x 1 or of 3 x 3 by a condition."""
    g = Graph("net", (1, 3, 8, 8))
    y = g.conv("x", 3, 4, 3)
    weights = {"then": g.weight(4, 4, 1, 1), "else": g.weight(4, 4, 3, 3)}
    sides = {name: helper.make_graph(
        [helper.make_node("Conv", [y, weight], ["c"]), helper.make_node("Relu", ["c"], ["out"])], name, [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)]) for name, weight in weights.items()}
    out = g.op("If", condition(g), name="choice", then_branch=sides["then"], else_branch=sides["else"])
    return load_network(g.model(out))


def test_a_branch_is_taken_whose_condition_follows_from_shapes() -> None:
    def is_wide(g: Graph) -> str:
        return g.op("Greater", g.op("Gather", g.op("Shape", "x"), g.numbers(3)), g.numbers(100))
    network = branches(is_wide)
    assert network.macs == 64 * 9 * 3 * 4 + 36 * 9 * 4 * 4
    assert network.layers[-1].name == "choice/else_branch/c"
    assert network.not_understood() == ()


def test_a_branch_whose_condition_is_an_input_is_not_understood_unless_its_value_is_given() -> None:
    g = Graph("net", (1, 8))
    g.inputs.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    y = g.fc("x", 8, 4)
    inner = helper.make_graph([helper.make_node("Relu", [y], ["out"])], "side", [],
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    same = g.op("Equal", "rate", g.numbers(16000))
    model = g.model(g.op("If", same, then_branch=inner, else_branch=inner))
    assert [item.what for item in load_network(model).not_understood()] == ["If"]
    assert load_network(model, values={"rate": 16000}).not_understood() == ()


@pytest.mark.slow
def test_where_all_layers_stand_in_branches_the_inputs_that_decide_are_named() -> None:
    g = Graph("net", (1, 8))
    g.inputs.append(helper.make_tensor_value_info("rate", TensorProto.INT64, []))
    weight = g.weight(8, 4)
    inner = helper.make_graph([helper.make_node("MatMul", ["x", weight], ["out"])], "side", [],
                              [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    model = g.model(g.op("If", g.op("Equal", "rate", g.numbers(16000)), then_branch=inner, else_branch=inner))
    with pytest.raises(SpecError, match=r"decided by rate; accepted: --value rate=N"):
        load_network(model)
    assert load_network(model, values={"rate": 16000}).macs == 32


def test_a_loop_over_constants_is_no_constant() -> None:
    g = Graph("net", (1, 8))
    y = g.fc("x", 8, 4)
    body = helper.make_graph([helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Relu", [y], ["out"])],
                             "body", [helper.make_tensor_value_info("i", TensorProto.INT64, []),
                                      helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
                             [helper.make_tensor_value_info("again", TensorProto.BOOL, []),
                              helper.make_tensor_value_info("out", TensorProto.FLOAT, None)])
    network = load_network(g.model(g.op("Loop", g.numbers(3), "", body=body)))
    (result,) = [node for node in network.nodes if node.name in network.outputs]
    assert (result.op, result.inputs) == ("recurrence", (network.layers[0].name,))


def test_where_shapes_end_the_operator_is_named() -> None:
    with pytest.raises(SpecError, match=r"the shape of operand 0 is not known: shapes end at picked \(NonZero\)"):
        of(lambda g: g.op("MatMul", g.op("Cast", g.op("NonZero", "x", name="picked"), to=1), g.weight(2, 4)), 4, 8)


def test_results_of_constants_stay_small() -> None:
    def build(g: Graph) -> str:
        g.op("ConstantOfShape", g.numbers(1 << 20, 1 << 20), name="huge")
        return g.op("Where", g.op("NonZero", "huge"), g.fc("x", 8, 4), "huge")
    assert of(build, 1, 8).macs == 32


# Operators

@pytest.mark.parametrize(("attributes", "shape", "macs"), [
    ({"strides": [2, 2]}, (1, 6, 10, 10), 25 * 4 * 8 * 6), ({"strides": [2, 2], "group": 2}, (1, 6, 10, 10), 25 * 96),
    ({"strides": [2, 2], "auto_pad": "SAME_UPPER"}, (1, 6, 10, 10), 25 * 4 * 48),
    ({"strides": [2, 2], "output_shape": [9, 10]}, (1, 6, 9, 10), (5 + 4) * 10 * 48)])
def test_a_transposed_convolution_is_exact(attributes: dict[str, Any], shape: tuple[int, ...], macs: int) -> None:
    weight = (8, 6 // attributes.get("group", 1), 2, 2)
    network = of(lambda g: g.op("ConvTranspose", "x", g.weight(*weight), **attributes), 1, 8, 5, 5)
    assert (network.macs, network.nodes[-1].shape, network.not_understood()) == (macs, shape, ())


@pytest.mark.parametrize(("kind", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("directions", [1, 2])
def test_recurrent_layers_are_products_of_all_steps_and_of_every_step(kind: str, gates: int, directions: int) -> None:
    def build(g: Graph) -> str:
        weights = g.weight(directions, gates * 16, 8), g.weight(directions, gates * 16, 16)
        y = g.op(kind, "x", *weights, outputs=2, hidden_size=16, direction="forward" if directions == 1 else
                 "bidirectional")
        return g.op("MatMul", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.weight(16, 5))
    network = of(build, 7, 3, 8)
    steps = 7 * 3 * gates * 16 * (8 + 16) * directions
    assert network.macs == steps + 7 * 3 * directions * 16 * 5
    assert [node.layer.repeat for node in network.layers if node.layer] == [1, 7] * directions + [1]


def test_weights_for_more_directions_than_there_are_are_refused() -> None:
    def build(g: Graph) -> str:
        return g.op("GRU", "x", g.weight(65537, 48, 8), g.weight(2, 48, 16), outputs=2, hidden_size=16)
    with pytest.raises(SpecError, match="65537 and 2 directions"):
        of(build, 7, 3, 8)


def runtime(g: Graph, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
    return g.op(kind, *inputs, outputs=outputs, domain="com.microsoft", **attributes)


def test_operators_of_onnx_runtime_are_known() -> None:
    def build(g: Graph) -> str:
        y = runtime(g, "FusedConv", "x", g.weight(8, 3, 3, 3), g.weight(8), activation="Relu", pads=[1, 1, 1, 1])
        rows = g.op("Reshape", y, g.numbers(1, 8, 64))
        z = runtime(g, "FastGelu", g.op("MatMul", rows, g.weight(64, 64)))
        normed = runtime(g, "SkipLayerNormalization", z, rows, g.weight(64), g.weight(64), outputs=4)
        return g.op("MatMul", normed, g.weight(64, 4))
    g = Graph("net", (1, 3, 8, 8))
    model = g.model(build(g))
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    network = load_network(model)
    assert (network.macs, network.not_understood()) == (64 * 27 * 8 + 8 * 64 * 64 + 8 * 64 * 4, ())
    assert [node.op for node in network.nodes if not node.layer] == [
        "input", "relu", "reshape", "gelu", "add", "layernorm"]


def test_sums_along_channels_and_scales_of_whole_tensors_need_these_whole() -> None:
    def build(g: Graph) -> str:
        y = g.op("LRN", g.op("Conv", "x", g.weight(4, 3, 1, 1)), size=3)
        y = g.op("DynamicQuantizeLinear", y, outputs=3)
        weight = g.weight(4, 4, 1, 1)
        g.constants[-1].data_type = TensorProto.UINT8
        return g.op("Cast", g.op("ConvInteger", y, weight), to=TensorProto.FLOAT)
    (link,) = of(build, 1, 3, 8, 8).links()
    assert link.fusable and link.whole == ("M", "P", "Q")


@pytest.mark.parametrize(("equation", "right", "macs"), [
    ("bid,bjd->bij", (2, 7, 4), 2 * 3 * 7 * 4), ("bid,dj", (4, 5), 2 * 3 * 4 * 5), ("...d,de->...e", (4, 5), 120)])
def test_einsum_is_a_product(equation: str, right: tuple[int, ...], macs: int, tmp_path: Path) -> None:
    network = of(lambda g: g.op("Einsum", "x", g.weight(*right), equation=equation), 2, 3, 4)
    assert (network.macs, network.not_understood()) == (macs, ())
    save_network(network, tmp_path / "net.yaml")
    assert load_network(tmp_path / "net.yaml") == network


def test_products_of_constants_are_listed() -> None:
    def build(g: Graph) -> str:
        g.constants.append(numpy_helper.from_array(np.zeros((8, 4), np.float32), "fixed"))
        return g.op("Add", g.op("MatMul", "x", g.weight(6, 4)), g.op("MatMul", "fixed", g.weight(4, 4), name="bias"))
    network = of(build, 8, 6)
    assert [(entry.node, entry.what, entry.macs) for entry in network.folded] == [("bias", "MatMul", 8 * 16)]
