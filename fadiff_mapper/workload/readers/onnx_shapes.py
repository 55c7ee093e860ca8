"""Shapes of ONNX models: small constants computed, and ONNX's own inference within bounds of memory and time.

Exporters compute shapes in the graph: Shape, Gather, Mul, Concat, Reshape. ONNX's shape inference follows some of these
operators only. So every operator of `SMALL_OPERATORS` whose operands are small and known is run by ONNX's reference
implementation (`Folding`), an If whose condition is known is replaced by its branch, and shapes are inferred again,
until nothing is found any more. Results stay small: operands have at most `SMALL` elements, larger results are dropped,
and the operators that make much out of little are asked for the size first.

ONNX's own inference (C++) propagates the values of small integer tensors, which a small file can make grow without
bound: 24 nodes that each concatenate a vector with itself ask for 16 million times its length. Models whose values
could grow are inferred in a process of their own with limits; all others in this process, within bounded memory.
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.workload.operator import Shape

SMALL = 1024
"""Elements of a constant whose values are kept: shapes, axes and the like. A plain limit, far above any number
of axes."""

ROUNDS = 12  # times that shapes are inferred: a plain safety limit

SMALL_OPERATORS = (
    "Identity", "Cast", "Gather", "Concat", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose",
    "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Pow",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or", "Xor", "Where", "ReduceProd",
    "ReduceSum", "ReduceMax", "ReduceMin", "NonZero", "ScatterND", "ScatterElements", "GatherND", "ArgMax", "ArgMin",
    "CumSum", *(GROWING := ("ConstantOfShape", "Range", "Expand", "Tile")))
"""Operators that are run; of the last four the size of the result is computed first."""


@dataclass
class Folding:
    """The nodes of a model while constants are computed."""

    nodes: list[Any]  # its nodes in topological order; those that were computed are gone
    values: dict[str, np.ndarray]  # values of small constants, by name
    opsets: Iterable[Any]  # the model's operator sets
    computed: dict[str, np.ndarray] = field(default_factory=dict)  # the constants that were computed

    @np.errstate(all="ignore")  # a division by 0 in a model is no fault of this program, and its result a value
    def fold(self, shapes: Mapping[str, Shape | None]) -> bool:
        """Computes constants from known values and shapes; whether anything new was
        found."""
        rest, changed = [], False
        for node in self.nodes:
            branch = self._branch(node)
            found = self._run(node, shapes) if branch is None else {}
            if found is None:
                rest.append(node)
                continue
            rest += branch or []
            changed = True
            self.values |= found
            self.computed |= found
        self.nodes = rest
        return changed

    def _run(self, node: Any, shapes: Mapping[str, Shape | None]) -> dict[str, np.ndarray] | None:
        """The values of a node's outputs, None where they are not known or not small."""
        if node.op_type in ("Shape", "Size") and not node.domain and node.input:
            shape, stated = shapes.get(node.input[0]), {item.name: item.i for item in node.attribute}
            if shape is None:
                return None
            part = shape[stated.get("start", 0):stated.get("end", len(shape))]  # which Shape may state
            return {node.output[0]: np.array(math.prod(shape) if node.op_type == "Size" else part, np.int64)}
        if node.op_type == "Constant" and not node.domain:
            return _stated(node)
        if node.op_type not in SMALL_OPERATORS or node.domain not in ("", "ai.onnx") or not all(
                name in self.values for name in node.input if name):
            return None
        operands = {name: self.values[name] for name in node.input if name}
        if node.op_type in GROWING and _grown(node, operands) > SMALL:
            return None
        return _evaluated(node, operands, self.opsets)

    def _branch(self, node: Any) -> list[Any] | None:
        """The nodes of the branch that an If takes, under names of its own; None where that is not known."""
        if node.op_type != "If" or node.domain or not node.input or node.input[0] not in self.values:
            return None
        taken = "then_branch" if self.values[node.input[0]].any() else "else_branch"
        graph = next((item.g for item in node.attribute if item.name == taken), None)
        if graph is None or len(graph.output) != len(node.output):
            return None
        prefix = f"{node.name or node.output[0]}/{taken}/"
        own = {name: prefix + name for inner in graph.node for name in inner.output if name}
        own |= {tensor.name: prefix + tensor.name for tensor in graph.initializer}
        constants = small_values(graph.initializer, lambda name: prefix + name)
        self.values |= constants
        self.computed |= constants
        inside = [_renamed(inner, own, prefix) for inner in graph.node]
        outs = [helper.make_node("Identity", [own.get(value.name, value.name)], [name], name=f"{prefix}{name}")
                for value, name in zip(graph.output, node.output, strict=True)]
        return [*inside, *outs]


def is_small(tensor: Any) -> bool:
    """Whether the values of a constant are kept, none of which lie in another file."""
    return bool(math.prod(tensor.dims) <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL)


def small_values(tensors: Iterable[Any], named: Callable[[str], str] = str) -> dict[str, np.ndarray]:
    """The values of small constants of ONNX, under new names."""
    found = {}
    for tensor in filter(is_small, tensors):
        with contextlib.suppress(Exception):  # a constant without its data, or of a type that does not exist
            found[named(tensor.name)] = numpy_helper.to_array(tensor)
    return found


def _stated(node: Any) -> dict[str, np.ndarray] | None:
    for item in node.attribute:
        if item.name == "value":
            return small_values([item.t], lambda _: node.output[0]) or None
        if item.name in ("value_int", "value_ints", "value_float", "value_floats"):
            kind = np.int64 if "int" in item.name else np.float32
            value = np.array(helper.get_attribute_value(item), kind)
            return {node.output[0]: value} if value.size <= SMALL else None
    return None


def _grown(node: Any, operands: Mapping[str, np.ndarray]) -> float:
    """Elements of the result of an operator of `GROWING`; infinite where its operands do not say."""
    given = [operands[name] for name in node.input if name]
    if any(value.dtype.kind not in "biuf" for value in given[-1:] if node.op_type != "Range"):
        return math.inf
    if node.op_type == "Range":
        if [value.size for value in given] != [1, 1, 1] or any(value.dtype.kind not in "iuf" for value in given):
            return math.inf
        start, end, step = (float(value.item()) for value in given)
        return abs((end - start) / step) if step else math.inf
    if len(given) < (1 if node.op_type == "ConstantOfShape" else 2):
        return math.inf
    values = [given[0], given[-1].astype(float)]
    if node.op_type == "ConstantOfShape":
        return float(np.prod(values[1]))
    return values[0].size * float(np.prod(np.maximum(values[1], 1)))


def _evaluated(node: Any, operands: Mapping[str, np.ndarray], opsets: Iterable[Any]) -> dict[str, np.ndarray] | None:
    """A node run on its operands; None where ONNX cannot run it."""
    from onnx.reference import ReferenceEvaluator  # takes half a second

    names = [name for name in node.output if name]
    try:
        given = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), None)
                 for name, value in operands.items()]
        graph = helper.make_graph([node], "small", given, [helper.make_empty_tensor_value_info(name) for name in names])
        results = ReferenceEvaluator(helper.make_model(graph, opset_imports=list(opsets))).run(None, dict(operands))
    except Exception:  # whatever an operator raises on operands that do not fit it
        return None
    found = {name: np.asarray(result) for name, result in zip(names, results, strict=True)}
    return found if all(value.size <= SMALL and value.dtype.kind in "biuf" for value in found.values()) else None


def _renamed(node: Any, own: Mapping[str, str], prefix: str) -> Any:
    """A node of a branch with the names that it has outside, in branches of its own as well."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = prefix + (node.name or next(iter(node.output), ""))
    copy.input[:] = [own.get(name, name) for name in node.input]
    copy.output[:] = [own.get(name, name) for name in node.output]
    for item in copy.attribute:
        for inner in item.g.node:
            inner.CopyFrom(_renamed(inner, own, prefix))
    return copy


# ONNX's shape inference knows its own operators only. For inference, and for nothing else, optimised models get
# twins.

DOMAIN = "com.microsoft"  # domain of ONNX Runtime's own operators

UNCHANGED = ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
             "SimplifiedLayerNormalization", "LayerNormalization", "QLinearSigmoid", "QLinearLeakyRelu",
             "QLinearSoftmax", "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "BiasAdd", "BiasSoftmax",
             "BiasDropout", "GroupNorm", "SkipGroupNorm", "Trilu")
"""Operators whose outputs, as far as they carry data on, have the shape of the first operand."""


def shape_twins(node: Any) -> list[Any]:
    """An ONNX node itself, or the nodes that replace it in shape inference."""
    if node.op_type == "SimplifiedLayerNormalization" or (node.domain == DOMAIN and node.op_type in UNCHANGED):
        return [helper.make_node("Identity", [node.input[0]], [name]) for name in node.output if name]
    if node.domain == DOMAIN and node.op_type in TWINS:
        return [TWINS[node.op_type](node)]
    return [node]


def _twin(operator: str, *places: int | slice, kept: Sequence[str] = (), **stated: Any) -> Callable[[Any], Any]:
    """A twin that reads the operands at these places, and has the attributes that tell shapes: the attributes of the
    node that are kept, and stated ones; an LSTM has all its outputs."""
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

MOST_AXES = 64  # axes of a tensor that is inferred in this process; as many as NumPy allows
MEMORY = 1 << 30  # bytes of address space of the process that infers a model whose values could grow
MEMORY_HERE = 1 << 29  # bytes that inference in this process may take; models of 200,000 operators take a fifth
SECONDS = 60.0  # time limit of that process
MOST_ANSWER = 1 << 26  # bytes of a model with its inferred shapes that are read back

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

PICKING = ("Gather", "GatherND", "GatherElements", "OneHot")  # operators whose output may have the axes of all operands

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
