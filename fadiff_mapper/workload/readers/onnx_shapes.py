"""Shape inference of ONNX models, within bounds of memory and time.

ONNX's own inference (C++) propagates the values of small integer tensors, so that computed shapes are known. A file of
a few kilobytes can make such values grow without bound: 24 nodes that each concatenate a vector with itself ask for
16 million times its length, and functions that call one another multiply alike. Models whose values could grow are
inferred in a process of their own with limits; all others, which are nearly all, in this one, which asks the system
for a bounded amount of memory meanwhile.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import helper, shape_inference

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError

# ONNX's shape inference knows its own operators only. For inference, and for nothing else, optimised models get
# twins.

DOMAIN = "com.microsoft"
"""Domain of ONNX Runtime's own operators."""

UNCHANGED = ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
             "SimplifiedLayerNormalization", "LayerNormalization", "QLinearSigmoid", "QLinearLeakyRelu",
             "QLinearSoftmax", "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "BiasAdd", "BiasSoftmax",
             "BiasDropout", "GroupNorm", "SkipGroupNorm", "Trilu")
"""Operators whose outputs, as far as they carry data on, have the shape of the first operand."""


def shape_twins(node: Any) -> list[Any]:
    """An ONNX node itself, or the nodes that stand for it in shape inference."""
    if node.op_type == "SimplifiedLayerNormalization" or (node.domain == DOMAIN and node.op_type in UNCHANGED):
        return [helper.make_node("Identity", [node.input[0]], [name]) for name in node.output if name]
    if node.domain == DOMAIN and node.op_type in TWINS:
        return [TWINS[node.op_type](node)]
    return [node]


def _twin(operator: str, *places: int | slice, kept: Sequence[str] = (), **stated: Any) -> Callable[[Any], Any]:
    """A twin that reads the operands at these places, and has the attributes that tell shapes: those of the node that
    are kept, and stated ones; an LSTM has all its outputs."""
    def make(node: Any) -> Any:
        inputs = [name for place in places
                  for name in (node.input[place] if isinstance(place, slice) else [node.input[place]])]
        twin = helper.make_node(operator, inputs, node.output[:None if operator == "LSTM" else 1], **stated)
        twin.attribute.extend(item for item in node.attribute if item.name in (kept or SHAPING))
        return twin
    return make


def _turned(node: Any) -> Any:
    """The twin of a product whose operands may be transposed."""
    turned = {item.name: item.i for item in node.attribute}
    equation = f"...{'ki' if turned.get('transA') else 'ik'},...{'jk' if turned.get('transB') else 'kj'}->...ij"
    return helper.make_node("Einsum", list(node.input[:2]), [node.output[0]], equation=equation)


SHAPING = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides", "ceil_mode", "transA", "transB")
"""Attributes that twins keep."""

TWINS: dict[str, Callable[[Any], Any]] = {
    "FusedConv": _twin("Conv", 0, 1), "QLinearAdd": _twin("Add", 0, 3), "QLinearMul": _twin("Mul", 0, 3),
    "QLinearGlobalAveragePool": _twin("GlobalAveragePool", 0), "QLinearAveragePool": _twin("AveragePool", 0),
    "QLinearConcat": _twin("Concat", slice(2, None, 3), kept=("axis",)),  # a scale and a zero point behind each
    "MatMulIntegerToFloat": _twin("MatMul", 0, 1),
    "DynamicQuantizeMatMul": _twin("MatMul", 0, 1),
    "DynamicQuantizeLSTM": _twin("LSTM", slice(3), kept=("hidden_size", "direction", "layout")),
    "MatMulInteger16": _twin("MatMul", 0, 1), "GemmFastGelu": _twin("MatMul", 0, 1), "FusedGemm": _twin("Gemm", 0, 1),
    "GemmFloat8": _twin("Gemm", 0, 1), "QGemm": _twin("Gemm", 0, 3),
    "FusedMatMul": _turned, "TransposeMatMul": _turned, "FusedMatMulActivation": _turned,
    "MatMulNBits": _twin("Einsum", 0, 1, equation="...k,jbw->...j"),  # weights [columns, blocks, words]
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention", "Attention", "QAttention"), _twin("Identity", 0)),
}
"""Operators with shapes of their own -> the function that makes their twin."""


MOST_VALUES = 4096
"""Length of a computed vector of whole numbers that is inferred in this process. Shapes have a few entries."""

MOST_AXES = 64
"""Axes of a tensor that is inferred in this process; as many as NumPy allows."""

MEMORY = 1 << 30
"""Bytes of address space of the process that infers a model whose values could grow."""

MEMORY_HERE = 1 << 29
"""Bytes that inference in this process may take; models of 200,000 operators take a fifth."""

SECONDS = 60.0
"""Time limit of that process."""

MOST_ANSWER = 1 << 26
"""Bytes of a model with its inferred shapes that are read back."""

CHILD = """
import onnx
from onnx import shape_inference
onnx.save(shape_inference.infer_shapes(onnx.load("model.onnx", load_external_data=False), data_prop=True),
          "shapes.onnx")
"""
"""The program of that process, in a folder of its own."""

RESHAPING = ("Reshape", "Expand", "Tile", "ConstantOfShape", "Unsqueeze", "Pad")
"""Operators whose output has as many axes as an operand has values, or more than their first operand."""

WHOLE = (onnx.TensorProto.INT64, onnx.TensorProto.INT32)
"""Types of tensors of whole numbers, whose values inference propagates."""

PICKING = ("Gather", "GatherND", "GatherElements", "OneHot")
"""Operators whose output may have the axes of all operands."""

JOINING = ("Concat", "SequenceConstruct", "ConcatFromSequence")
"""Operators whose output may have the values of all operands."""

COMPUTING = {"Shape", "Size", "Constant", "Concat", "Gather", "Slice", "Cast", "Unsqueeze", "Squeeze", "Identity",
             "Neg", "Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Floor", "Ceil", "Where", "Equal", "ReduceProd"}
"""Operators that compute shapes in exported models, with no more values than `could_grow` bounds."""


def with_shapes(model: Any) -> Any:
    """An `onnx.ModelProto` with the shape of every value that ONNX can infer.

    Raises:
        FadiffError: Inference takes more memory or time than its process may.
        Exception: Whatever ONNX raises on a broken graph.
    """
    if not could_grow(model):
        try:
            with _bounded_memory():
                return shape_inference.infer_shapes(model, data_prop=True)
        except MemoryError:
            raise _too_much(MEMORY_HERE) from None
    with tempfile.TemporaryDirectory(prefix="fadiff-onnx-") as name:
        folder = Path(name)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        try:
            done = run_program.run([sys.executable, "-c", CHILD], folder, os.environ, SECONDS, MEMORY,
                                   temporary=True)
        except run_program.TimeLimitPassed:
            raise FadiffError(f"inferring its shapes takes more than {SECONDS:g} s") from None
        answer = folder / "shapes.onnx"
        if done.returncode == 0 and answer.stat().st_size <= MOST_ANSWER:
            return onnx.ModelProto.FromString(answer.read_bytes())
    said = done.output.strip().splitlines()
    reason = said[-1] if said and "bad_alloc" not in said[-1] and "MemoryError" not in said[-1] else ""
    raise FadiffError(reason) if reason else _too_much(MEMORY)


def _too_much(memory: int) -> FadiffError:
    return FadiffError(f"inferring its shapes takes more than {memory >> 20} MiB")


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Lets this process take `MEMORY_HERE` more bytes at most: an allocation beyond fails, as C++ reports it."""
    status = Path("/proc/self/statm")
    if not status.exists():  # a system without this figure
        yield
        return
    limits = resource.getrlimit(resource.RLIMIT_AS)
    most = int(status.read_text().split()[0]) * resource.getpagesize() + MEMORY_HERE
    if limits[0] != resource.RLIM_INFINITY:
        most = min(most, limits[0])
    resource.setrlimit(resource.RLIMIT_AS, (most, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def could_grow(model: Any) -> bool:
    """Whether values or numbers of axes could grow beyond `MOST_VALUES` and `MOST_AXES`.

    Functions and subgraphs count as such, and shapes that other operators than `COMPUTING` make. Elsewhere the length
    of every vector of whole numbers is bounded along the graph: constants by their size, concatenations by the sum of
    their operands, other nodes by the longest operand. ONNX also joins vectors of other types where all of them are
    constants.
    """
    graph = model.graph
    if model.functions or any(attribute.HasField("g") or attribute.graphs for node in graph.node
                              for attribute in node.attribute):
        return True
    length = {tensor.name: _elements(tensor) for tensor in graph.initializer}
    constant = {tensor.name: math.prod(tensor.dims) for tensor in graph.initializer if len(tensor.dims) <= 1}
    axes = {tensor.name: len(tensor.dims) for tensor in graph.initializer}
    axes |= {value.name: len(value.type.tensor_type.shape.dim) for value in graph.input}
    computed = {tensor.name for tensor in graph.initializer if tensor.data_type in WHOLE}
    for node in graph.node:
        lengths = [length.get(name, 0) for name in node.input]
        ranks = [axes.get(name, 0) for name in node.input]
        own = [_elements(attribute.t) for attribute in node.attribute if attribute.HasField("t")]
        most = sum(lengths) if node.op_type in JOINING else max(
            [*lengths, *own, *([max(ranks)] if node.op_type == "Shape" and ranks else [])], default=0)
        if node.input and all(name in constant for name in node.input):
            joined = sum(constant[name] for name in node.input)
            most = max(most, joined)
            constant |= dict.fromkeys(node.output, joined)
        rank = sum(ranks) if node.op_type in PICKING else max(ranks, default=0)
        if node.op_type in RESHAPING:
            shapes = node.input[node.op_type != "ConstantOfShape":]
            if not all(name in computed for name in shapes if name):
                return True
            rank = max(rank, *lengths, 0) + (max(lengths, default=0) if node.op_type == "Unsqueeze" else 0)
        if most > MOST_VALUES or rank > MOST_AXES:
            return True
        length |= dict.fromkeys(node.output, most)
        axes |= dict.fromkeys(node.output, rank)
        if node.op_type == "Shape" or (node.op_type in COMPUTING and all(name in computed for name in node.input)):
            computed |= set(node.output)
    return False


def _elements(tensor: Any) -> int:
    """Entries of a tensor of whole numbers; 0 for any other."""
    return math.prod(max(size, 0) for size in tensor.dims) if tensor.data_type in WHOLE else 0
