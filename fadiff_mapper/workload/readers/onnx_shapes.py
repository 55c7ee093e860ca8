"""Shapes of ONNX models: small constants computed, and ONNX's own inference. A program, in a process of its own.

Exporters compute shapes in the graph: Shape, Gather, Mul, Concat, Reshape. ONNX's shape inference follows only some of
these operators. So every operator of `SMALL_OPERATORS` whose operands are small and known is run by ONNX's reference
implementation (`Folding`), an If whose condition is known is replaced by its branch, and shapes are inferred again,
until no new shape or constant is found. Results stay small: operands have at most `SMALL` elements, larger results are
dropped, and operators whose results may be larger (`GROWING`) are run only if their size, computed first, is small.

ONNX's own inference and its inlining of functions are C++, which a small model can crash (an operator without a
required operand) or make grow without bound (24 nodes that each concatenate a vector with itself make it 16 million
times as long). So both run in a separate program, which `onnx_model` starts with limits of memory and time. It imports
nothing of the package, so that it starts as fast as ONNX does.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import helper, inliner, numpy_helper, shape_inference

from fadiff_mapper.base.standard_streams import say

if TYPE_CHECKING:
    from fadiff_mapper.workload.operator import Shape

SMALL = 1024  # elements of a constant whose values are kept (shapes, axes): a plain limit, far above any rank

ROUNDS = 12  # times that shapes are inferred: a plain safety limit

SMALL_OPERATORS = (
    "Identity", "Cast", "Gather", "Concat", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose",
    "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Pow",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or", "Xor", "Where", "ReduceProd",
    "ReduceSum", "ReduceMax", "ReduceMin", "NonZero", "ScatterND", "ScatterElements", "GatherND", "ArgMax", "ArgMin",
    "CumSum", *(GROWING := ("ConstantOfShape", "Range", "Expand", "Tile")))
"""Operators that are run; for the last four, the size of the result is computed first."""


@dataclass
class Folding:
    """The nodes of a model while constants are computed."""

    nodes: list[Any]  # the remaining nodes in topological order; computed nodes are removed
    values: dict[str, np.ndarray]  # values of small constants, by name
    opsets: Iterable[Any]  # the model's operator sets
    computed: dict[str, np.ndarray] = field(default_factory=dict)  # the constants that were computed

    @np.errstate(all="ignore")  # a division by 0 in a model gives a value, without a warning
    def fold(self, shapes: Mapping[str, Shape | None]) -> bool:
        """Computes constants from known values and shapes; returns whether there was a new one."""
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
        """The nodes of the branch that an If takes, under unique names; None where the condition is not known."""
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
    """Whether the values of a constant are kept: at most `SMALL` elements, not in another file."""
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
        if item.name in ("value_int", "value_ints", "value_float", "value_floats") and item.type == getattr(
                onnx.AttributeProto, item.name.removeprefix("value_").upper()):
            kind = np.int64 if "int" in item.name else np.float32
            value = np.array(helper.get_attribute_value(item), kind)
            return {node.output[0]: value} if value.size <= SMALL else None
    return None


def _grown(node: Any, operands: Mapping[str, np.ndarray]) -> float:
    """Elements of the result of an operator of `GROWING`; infinite where they do not follow from its operands."""
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
    """A node of a branch with its names outside the branch, also within its own branches."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.name = prefix + (node.name or next(iter(node.output), ""))
    copy.input[:] = [own.get(name, name) for name in node.input]
    copy.output[:] = [own.get(name, name) for name in node.output]
    for item in copy.attribute:
        for inner in item.g.node:
            inner.CopyFrom(_renamed(inner, own, prefix))
    return copy


# ONNX's shape inference knows only ONNX's own operators. ONNX Runtime's get twins: ONNX operators of the same shapes.

DOMAIN = "com.microsoft"  # domain of ONNX Runtime's own operators

UNCHANGED = ("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization",
             "SimplifiedLayerNormalization", "LayerNormalization", "QLinearSigmoid", "QLinearLeakyRelu",
             "QLinearSoftmax", "RotaryEmbedding", "QuantizeLinear", "DequantizeLinear", "BiasAdd", "BiasSoftmax",
             "BiasDropout", "GroupNorm", "SkipGroupNorm", "Trilu")
"""Operators whose outputs with data for later nodes have the shape of the first operand."""


def shape_twins(node: Any) -> list[Any]:
    """An ONNX node itself, or the nodes that replace it in shape inference."""
    if node.input and (node.op_type == "SimplifiedLayerNormalization" or (
            node.domain == DOMAIN and node.op_type in UNCHANGED)):
        return [helper.make_node("Identity", [node.input[0]], [name]) for name in node.output if name]
    if node.domain == DOMAIN and node.op_type in TWINS:
        with contextlib.suppress(IndexError):  # an operand is missing: the walk over the nodes reports it
            return [TWINS[node.op_type](node)]
    return [node]


def _twin(operator: str, *places: int | slice, kept: Sequence[str] = (), **stated: Any) -> Callable[[Any], Any]:
    """A function that makes a twin, which reads the operands at these places. It has the node's `kept` attributes, the
    `stated` attributes, and one output, or all outputs of an LSTM."""
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
"""Attributes that twins keep by default."""

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
"""Operators whose outputs have other shapes than their operands -> the function that makes their twin."""


MODEL, ANSWER = "model.onnx", "shapes.onnx"  # files of the program, in its folder
MOST_AXES = 64  # axes of a tensor whose shape is kept; as many as NumPy allows
OUT_OF_MEMORY = 3  # exit code of the program when memory runs out


def with_shapes(model: Any) -> Any:
    """An `onnx.ModelProto` without functions, its small constants computed, with every shape that ONNX can infer.

    The computed constants are initializers of the answer. Raises whatever ONNX raises on a broken graph.
    """
    graph = model.graph
    folding = Folding(list(graph.node), small_values(graph.initializer), model.opset_import)
    for _ in range(ROUNDS):
        graph.ClearField("node")
        graph.node.extend(twin for node in folding.nodes for twin in shape_twins(node))
        inferred = shape_inference.infer_shapes(model, data_prop=True)
        known, shapes = set(folding.computed), value_shapes(inferred.graph)
        whole = all(node.op_type != "If" and all(shapes.get(name) is not None for name in node.output if name)
                    for node in folding.nodes)
        found = not whole and folding.fold(shapes)
        graph.initializer.extend(numpy_helper.from_array(folding.computed[name], name)
                                 for name in folding.computed if name not in known)
        if not found:
            break
    within = {node.output[0]: node for node in inferred.graph.node if node.output and subgraphs(node)}
    answer = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    answer.graph.node.extend(within.get(node.output[0], node) if node.output else node for node in folding.nodes)
    answer.graph.initializer.extend(graph.initializer)
    for kind in ("input", "output", "value_info"):
        getattr(answer.graph, kind).extend(value for value in getattr(inferred.graph, kind)
                                           if len(value.type.tensor_type.shape.dim) <= MOST_AXES)
    return answer


def subgraphs(node: Any) -> list[Any]:
    """The graphs in the attributes of an ONNX node: branches and bodies."""
    return [graph for item in node.attribute for graph in (*([item.g] if item.HasField("g") else []), *item.graphs)]


def value_shapes(graph: Any) -> dict[str, Shape | None]:
    """The shape of every value of an ONNX graph, None where it is not known in full."""
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.output, *graph.input):
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        known = value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes)
        if known or value.name not in shapes:
            shapes[value.name] = tuple(sizes) if known else None
    return shapes


def main() -> int:
    """Reads `MODEL`, writes `ANSWER`, and returns the exit code; prints one line where ONNX refuses the model."""
    what = "its functions cannot be inlined"
    try:
        model = onnx.load(MODEL, load_external_data=False)
        if model.functions:
            model = inliner.inline_local_functions(model)
        what = "shapes cannot be inferred"
        onnx.save(with_shapes(model), ANSWER)
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # InferenceError, or whatever its C++ raises on a broken graph
        say(f"{what}: {' '.join(str(error).split())[:300]}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
