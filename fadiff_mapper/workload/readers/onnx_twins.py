"""Twins of ONNX Runtime's own operators: ONNX's operators whose outputs have the same shapes.

ONNX's shape inference knows its own operators only. For inference, and for nothing else, optimised models get twins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnx import helper

DOMAIN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

UNCHANGED = ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
             "SimplifiedLayerNormalization", "LayerNormalization", "QLinearSigmoid", "QLinearLeakyRelu",
             "QLinearSoftmax", "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "BiasAdd", "BiasSoftmax",
             "BiasDropout", "GroupNorm", "SkipGroupNorm", "Trilu")
"""Operators whose outputs, as far as they carry data on, have the shape of the first operand."""


def shape_twins(node: Any) -> list[Any]:
    """Nodes that stand for one node in shape inference.

    Args:
        node: any ONNX node.

    Returns:
        The node itself, or its twins.
    """
    if node.op_type == "SimplifiedLayerNormalization" or (node.domain == DOMAIN and node.op_type in UNCHANGED):
        return [helper.make_node("Identity", [node.input[0]], [name]) for name in node.output if name]
    if node.domain == DOMAIN and node.op_type in TWINS:
        return [TWINS[node.op_type](node)]
    return [node]


def _twin(operator: str, *places: int) -> Callable[[Any], Any]:
    """A twin that reads the operands at these places, and has the attributes that tell shapes."""
    def make(node: Any) -> Any:
        twin = helper.make_node(operator, [node.input[place] for place in places], [node.output[0]])
        twin.attribute.extend(item for item in node.attribute if item.name in SHAPING)
        return twin
    return make


def _joined(node: Any) -> Any:
    """The twin of a concatenation whose operands come with a scale and a zero point each."""
    twin = helper.make_node("Concat", list(node.input[2::3]), [node.output[0]])
    twin.attribute.extend(item for item in node.attribute if item.name == "axis")
    return twin


def _sequence(node: Any) -> Any:
    """The twin of an LSTM with integer weights."""
    twin = helper.make_node("LSTM", list(node.input[:3]), list(node.output))
    twin.attribute.extend(item for item in node.attribute if item.name in ("hidden_size", "direction", "layout"))
    return twin


def _turned(node: Any) -> Any:
    """The twin of a product whose operands may be transposed."""
    turned = {item.name: item.i for item in node.attribute}
    equation = f"...{'ki' if turned.get('transA') else 'ik'},...{'jk' if turned.get('transB') else 'kj'}->...ij"
    return helper.make_node("Einsum", list(node.input[:2]), [node.output[0]], equation=equation)


def _packed(node: Any) -> Any:
    """The twin of a product with packed weights [columns, blocks, words]."""
    return helper.make_node("Einsum", list(node.input[:2]), [node.output[0]], equation="...k,jbw->...j")


SHAPING = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "ceil_mode", "transA", "transB")
"""Attributes that twins keep."""

TWINS: dict[str, Callable[[Any], Any]] = {
    "FusedConv": _twin("Conv", 0, 1), "QLinearAdd": _twin("Add", 0, 3), "QLinearMul": _twin("Mul", 0, 3),
    "QLinearGlobalAveragePool": _twin("GlobalAveragePool", 0), "QLinearAveragePool": _twin("AveragePool", 0),
    "QLinearConcat": _joined, "MatMulIntegerToFloat": _twin("MatMul", 0, 1),
    "DynamicQuantizeMatMul": _twin("MatMul", 0, 1), "DynamicQuantizeLSTM": _sequence,
    "MatMulInteger16": _twin("MatMul", 0, 1), "GemmFastGelu": _twin("MatMul", 0, 1), "FusedGemm": _twin("Gemm", 0, 1),
    "GemmFloat8": _twin("Gemm", 0, 1), "QGemm": _twin("Gemm", 0, 3),
    "FusedMatMul": _turned, "TransposeMatMul": _turned, "FusedMatMulActivation": _turned, "MatMulNBits": _packed,
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention", "Attention", "QAttention"), _twin("Identity", 0)),
}
"""Operators with shapes of their own -> the function that makes their twin."""
