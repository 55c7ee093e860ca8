"""Bits of tensors as the types of ONNX models and PyTorch modules say."""

from __future__ import annotations

import pytest
import torch

from fadiff_mapper import FadiffError, Workload, load_network

onnx = pytest.importorskip("onnx")
helper, TensorProto, numpy_helper = onnx.helper, onnx.TensorProto, onnx.numpy_helper


def bits(network: Workload) -> list[dict[str, int]]:
    """Bits of every layer, by tensor."""
    return [{space.name: space.bits.bits for space in node.layer.problem.dataspaces if space.bits}
            for node in network.layers if node.layer]


def model(nodes: list[object], constants: dict[str, tuple[int, tuple[int, ...]]], kind: int, *outputs: str) -> object:
    tensors = [onnx.TensorProto(name=name, data_type=of, dims=shape) for name, (of, shape) in constants.items()]
    graph = helper.make_graph(nodes, "graph", [helper.make_tensor_value_info("x", kind, [8, 64])],
                              [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs],
                              tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.slow
def test_a_product_of_halves() -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    network = model([node], {"w": (TensorProto.FLOAT16, (64, 32))}, TensorProto.FLOAT16, "y")
    assert bits(load_network(network, bits="auto")) == [{"Weights": 16, "Inputs": 16, "Outputs": 16}]
    assert bits(load_network(network)) == [{}]


def test_quantized_tensors_have_the_bits_that_they_are_stored_in() -> None:
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["xf"]),
             helper.make_node("DequantizeLinear", ["w", "s"], ["wf"]),
             helper.make_node("MatMul", ["xf", "wf"], ["y"]),
             helper.make_node("QuantizeLinear", ["y", "s", "z"], ["out"])]
    network = model(nodes, {"w": (TensorProto.INT4, (64, 32)), "s": (TensorProto.FLOAT, ()),
                            "z": (TensorProto.INT8, ())}, TensorProto.FLOAT, "out")
    assert bits(load_network(network, bits="auto")) == [{"Weights": 4, "Inputs": 8, "Outputs": 8}]


def test_modules_of_pytorch() -> None:
    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = torch.nn.Linear(64, 32).bfloat16(), torch.nn.Linear(32, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = self.second(self.first(x.bfloat16()).float())
            return result

    network = load_network(Two(), torch.zeros(8, 64), bits="auto")
    assert bits(network) == [{"Weights": 16, "Inputs": 16, "Outputs": 16}, {"Weights": 32, "Inputs": 32, "Outputs": 32}]
    conv = load_network(torch.nn.Conv2d(3, 8, 3).half(), torch.zeros(1, 3, 8, 8).half(), bits="auto")
    assert bits(conv) == [{"Weights": 16, "Inputs": 16, "Outputs": 16}]


def test_attention_reads_its_activations() -> None:
    class Attention(torch.nn.Module):
        def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    network = load_network(Attention(), (torch.zeros(1, 2, 8, 16).half(),) * 3, bits="auto")
    assert bits(network) == [{"Weights": 16, "Inputs": 16, "Outputs": 16}] * 2


def test_files_without_types_are_refused() -> None:
    with pytest.raises(FadiffError, match=r"^bits: found auto for bundled:networks/vgg16, which says no"):
        load_network("bundled:networks/vgg16", bits="auto")
    with pytest.raises(FadiffError, match=r"^bits: found some; accepted: bits of an element by tensor, or auto$"):
        load_network("bundled:networks/vgg16", bits="some")
