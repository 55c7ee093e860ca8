"""Computes the small constants of an ONNX model: shapes, axes and sizes, by ONNX's own reference implementation.

Exporters compute shapes in the graph: Shape, Gather, Mul, Concat, Reshape. ONNX's shape inference follows some of these
operators only. Here every operator of `SMALL_OPERATORS` whose operands are small and known is run by
`onnx.reference.ReferenceEvaluator`, an If whose condition is known is replaced by its branch, and shapes are inferred
again, until nothing is found any more. Results stay small: operands have at most `SMALL` elements, larger results are
dropped, and the operators that make much out of little are asked for the size first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from fadiff_mapper.workload.operator import Shape

SMALL = 1024
"""Elements of a constant whose values are kept: shapes, axes and the like. A plain limit, far above the number of axes
of any tensor; nothing was measured."""

ROUNDS = 12
"""Times that shapes are inferred: a plain safety limit; five were enough for every model tried."""

SMALL_OPERATORS = (
    "Identity", "Cast", "Gather", "Concat", "Slice", "Split", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Transpose",
    "Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Sign", "Floor", "Ceil", "Round", "Sqrt", "Pow",
    "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Not", "And", "Or", "Xor", "Where", "ReduceProd",
    "ReduceSum", "ReduceMax", "ReduceMin", "NonZero", "ScatterND", "ScatterElements", "GatherND", "ArgMax", "ArgMin",
    "CumSum", *(GROWING := ("ConstantOfShape", "Range", "Expand", "Tile")))
"""Operators that are run; of the last four the size of the result is computed first."""


@dataclass
class Folding:
    """The nodes of a model while constants are computed.

    Attributes:
        nodes: its nodes in topological order; those that were computed are gone.
        values: values of small constants, by name.
        opsets: the model's operator sets.
        computed: the constants that were computed.
    """

    nodes: list[Any]
    values: dict[str, np.ndarray]
    opsets: Iterable[Any]
    computed: dict[str, np.ndarray] = field(default_factory=dict)

    @np.errstate(all="ignore")  # a division by 0 in a model is no fault of this program, and its result a value
    def fold(self, shapes: Mapping[str, Shape | None]) -> bool:
        """Computes what can be computed.

        Args:
            shapes: shapes of values as far as they are known.

        Returns:
            Whether anything new was found.
        """
        rest, changed = [], False
        for node in self.nodes:
            branch = self._branch(node)
            if branch is not None:
                rest += branch
                changed = True
                continue
            found = self._run(node, shapes)
            if found is None:
                rest.append(node)
                continue
            changed = True
            self.values |= found
            self.computed |= found
        self.nodes = rest
        return changed

    def _run(self, node: Any, shapes: Mapping[str, Shape | None]) -> dict[str, np.ndarray] | None:
        """The values of a node's outputs, None where they are not known or not small."""
        if node.op_type in ("Shape", "Size") and not node.domain and node.input:
            shape = shapes.get(node.input[0])
            return None if shape is None else {node.output[0]: _of_shape(node, shape)}
        if node.op_type == "Constant" and not node.domain:
            return _stated(node)
        if node.op_type not in SMALL_OPERATORS or node.domain not in ("", "ai.onnx"):
            return None
        if not all(name in self.values for name in node.input if name):
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
        for tensor in graph.initializer:
            self.values |= small_values([tensor], lambda name: prefix + name)
            self.computed |= small_values([tensor], lambda name: prefix + name)
        inside = [_renamed(inner, own, prefix) for inner in graph.node]
        outs = [helper.make_node("Identity", [own.get(value.name, value.name)], [name], name=f"{prefix}{name}")
                for value, name in zip(graph.output, node.output, strict=True)]
        return [*inside, *outs]


def small_values(tensors: Iterable[Any], named: Callable[[str], str] = str) -> dict[str, np.ndarray]:
    """The values of small constants.

    Args:
        tensors: constants as ONNX has them; those whose data lie in another file are skipped.
        named: a new name for an old one.
    """
    found = {}
    for tensor in tensors:
        if math.prod(tensor.dims) <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL:
            try:
                found[named(tensor.name)] = numpy_helper.to_array(tensor)
            except Exception:  # a constant without its data, or of a type that does not exist
                continue
    return found


def _of_shape(node: Any, shape: Shape) -> np.ndarray:
    """The result of Shape or Size; Shape may start and end at some axis."""
    if node.op_type == "Size":
        return np.array(math.prod(shape), np.int64)
    bounds = {item.name: item.i for item in node.attribute}
    return np.array(shape[bounds.get("start", 0):bounds.get("end", len(shape))], np.int64)


def _stated(node: Any) -> dict[str, np.ndarray] | None:
    """The value of a Constant."""
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
    copy.ClearField("input")
    copy.input.extend(own.get(name, name) for name in node.input)
    copy.ClearField("output")
    copy.output.extend(own.get(name, name) for name in node.output)
    for item in copy.attribute:
        if item.type == onnx.AttributeProto.GRAPH:
            inner = [_renamed(one, own, prefix) for one in item.g.node]
            item.g.ClearField("node")
            item.g.node.extend(inner)
    return copy
