"""Reads ONNX models. Only the graph is read: weights and files outside of the model are never opened.

Method. A light copy of the model, with large constants as inputs without values, goes through ONNX's own shape
inference in a separate process (`onnx_shapes`), which also computes the small constants that reshapes need. Its nodes
are then walked in topological order; `onnx_operators` turns each into nodes of the network. A value that is computed
only from constants is a constant. Names in a model are not trusted: they are made printable before they are printed.
"""

from __future__ import annotations

import functools
import math
import os
import tempfile
from bisect import bisect_left
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError
from pathlib import Path
from typing import Any

import numpy as np

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError, SpecError, listed
from fadiff_mapper.base.program_start import module_path, python_command
from fadiff_mapper.base.worker_processes import ONE_THREAD
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.graph import MOST_NODES, topological
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, recognise_products
from fadiff_mapper.workload.readers.convolutions import repeated
from fadiff_mapper.workload.readers.onnx_operators import FILLS, LAYERS, OnnxCall, understood

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as error:
    raise FadiffError(f"reading ONNX models needs the package onnx ({error}); accepted: pip install "
                      '"fadiff-mapper[onnx]"') from None

from fadiff_mapper.workload.readers import onnx_shapes  # this and the next ones import onnx
from fadiff_mapper.workload.readers.onnx_file import read_thin
from fadiff_mapper.workload.readers.onnx_shapes import is_small, subgraphs, value_shapes

MEMORY = 1 << 30  # bytes of address space of the process that infers shapes; a chain of 195,000 operators fits
SECONDS = 120.0  # time limit of that process: a plain safety limit
MOST_ANSWER = 1 << 28  # bytes of a model with its inferred shapes that are read back

MOST_OPERATORS = 4 * MOST_NODES  # operators of a model; operators on constants and shapes leave no nodes


def clean(name: str) -> str:
    """A name from a model as one line of at most 200 printable characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]


def read_model(model: Any, name: str, where: Where, dims: Mapping[str, int], shapes: Mapping[str, Shape],
               values: Mapping[str, int], typed: bool = False) -> Workload:
    """Reads an `onnx.ModelProto`, or a file without its weights.

    Args:
        model: the model, or the path of a file.
        name: name of the network.
        where: the source, for messages.
        dims: numbers for named dimensions of the inputs.
        shapes: whole shapes of inputs by name.
        values: whole-numbered values of inputs, by name; these inputs become constants.
        typed: whether operators get the bits of the tensors' types.

    Raises:
        SpecError: the model is broken or refused, or has dynamic dimensions; the message names the source, and the node
            where there is one.
    """
    model = read_thin(model, where) if isinstance(model, Path) else model
    graphs = list(_all_graphs(model.graph))
    if not all(isinstance(text, str) for text in _texts(model, graphs)):
        raise where.error("a name in it is not UTF-8 text", "an ONNX model")
    versions = {_domain(entry): entry.version for entry in model.opset_import}
    own = {(function.domain, function.name) for function in model.functions}
    for graph in graphs:
        written = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
        for node in graph.node:
            if (node.domain, node.op_type) not in own:
                _check_operator(node, versions, _place(where, node))
            for output in filter(None, node.output):
                if output in written:
                    raise _place(where, node).error(f"writes {clean(output)}, which is written already or is an input",
                                                    "a tensor of its own for each output")
                written.add(output)
    if len(model.graph.node) > MOST_OPERATORS:
        raise where.error(f"{len(model.graph.node)} operators", f"at most {MOST_OPERATORS}")
    if not model.graph.node or not model.opset_import:
        raise where.error("the model has no operators", "an ONNX model with a graph")
    constants = {tensor.name for tensor in model.graph.initializer} | {
        tensor.values.name for tensor in model.graph.sparse_initializer} | set(values)
    light = _model_for_shape_inference(model, where, dims, shapes, values)
    open_inputs = {}    # inputs, without weights, that have axes of unknown extent
    for value in light.graph.input:
        kind = value.type.tensor_type
        sizes = [size.dim_value if size.dim_value > 0 else size.dim_param or "?" for size in kind.shape.dim]
        if value.name not in constants and not (kind.HasField("shape") and all(
                isinstance(size, int) for size in sizes)):
            open_inputs[value.name] = sizes
    if open_inputs:
        shown = ", ".join(clean(f"{name} ({' x '.join(map(str, sizes)) or 'unknown'})")
                          for name, sizes in open_inputs.items())
        example = " ".join(clean(
            f"--shape {name}={'x'.join(str(s) if isinstance(s, int) else 'N' for s in sizes) or 'N'}")
            for name, sizes in open_inputs.items())
        named = sorted({size for sizes in open_inputs.values() for size in sizes if isinstance(size, str)} - {"?"})
        raise where.error(f"inputs have open axes: {shown}", f"numbers for them: {example}"
                          + (clean(f", or {' '.join(f'--dim {name}=N' for name in named)}") if named else ""))
    model = _inferred(light, where)
    return _network(model, constants | {tensor.name for tensor in model.graph.initializer}, name, where, typed)


def _check_operator(node: Any, versions: Mapping[str, int], where: Where) -> None:
    """Refuses a node with an attribute without a value of its type, a missing operand, or too many operands.

    `versions`: of the operator sets, by domain. ONNX Runtime's operators are unchecked, as ONNX does not know them.
    """
    domain = _domain(node)
    kinds, operands, most = _signature(node.op_type, domain, versions.get(domain, 0))
    for item in node.attribute:
        if item.ref_attr_name or item.type == onnx.AttributeProto.UNDEFINED:
            what = "names an attribute of a function" if item.ref_attr_name else "has no type"
            raise where.error(f"the attribute {clean(item.name)} {what}", "a value, as the operator is in no function")
        if item.type != kinds.get(item.name, item.type):
            found, wanted = map(onnx.AttributeProto.AttributeType.Name, (item.type, kinds[item.name]))
            raise where.error(f"the attribute {clean(item.name)} is of the type {found}", wanted)
    given = len(node.input)
    while given and not node.input[given - 1]:
        given -= 1
    left_out = [name for index, name in enumerate(operands) if name and not (index < given and node.input[index])]
    if left_out or given > most:
        raise where.error(f"reads {given} tensors" + (f", and no {listed(left_out)}" if left_out else ""),
                          f"{len(operands)} tensors" if most == len(operands) else f"at least {len(operands)} tensors"
                          if left_out else f"at most {most} tensors")


def _domain(node: Any) -> str:
    """The domain of a node or operator set; ONNX's own has two names."""
    return "" if node.domain == "ai.onnx" else str(node.domain)


@functools.cache
def _signature(operator: str, domain: str, version: int) -> tuple[Mapping[str, int], Sequence[str], float]:
    """ONNX's schema of an operator: the types of its attributes by name, the names of its operands up to the last
    required one ("" for optional operands), and the most operands. Without limits where ONNX has no schema."""
    try:
        schema: Any = onnx.defs.get_schema(operator, version, domain)
    except onnx.defs.SchemaError:
        return {}, (), math.inf
    single = onnx.defs.OpSchema.FormalParameterOption.Single
    needed = [operand.name if operand.option == single else "" for operand in schema.inputs][:schema.min_input]
    return {name: kind.type.value for name, kind in schema.attributes.items()}, needed, schema.max_input


def _inferred(model: Any, where: Where) -> Any:
    """The light model without functions, with computed constants and inferred shapes, from the program `onnx_shapes`.

    Raises SpecError where ONNX refuses the model, inference takes too much memory or time, or a signal ends it. In the
    last case the message names the node at which it ends.
    """
    with tempfile.TemporaryDirectory(prefix="fadiff-onnx-") as name:
        folder = Path(name)

        def run(nodes: int) -> run_program.FinishedProgram:
            part = onnx.ModelProto()
            part.CopyFrom(model)
            del part.graph.node[nodes:]
            (folder / onnx_shapes.MODEL).write_bytes(part.SerializeToString())
            command = python_command(repr(module_path()), f"import runpy; runpy.run_path({onnx_shapes.__file__!r}, "
                                                          "run_name='__main__')")
            try:
                return run_program.run(command, folder, os.environ | ONE_THREAD, SECONDS, MEMORY, temporary=True)
            except run_program.TimeLimitPassed:
                raise where.error(f"shapes cannot be inferred: it takes more than {SECONDS:g} s") from None
        count = len(model.graph.node)
        done, answer = run(count), folder / onnx_shapes.ANSWER
        if done.returncode == 0 and answer.stat().st_size <= MOST_ANSWER:
            return onnx.ModelProto.FromString(answer.read_bytes())
        if done.returncode in (0, onnx_shapes.OUT_OF_MEMORY):
            raise where.error(f"shapes cannot be inferred: it takes more than {MEMORY >> 20} MiB")
        if done.returncode > 0:
            raise where.error((done.output.strip().splitlines() or [f"shapes cannot be inferred: it {done.how}"])[-1])
        last = bisect_left(range(1, count), True, key=lambda nodes: run(nodes).returncode < 0)
        raise _place(where, model.graph.node[last]).error(f"shapes cannot be inferred: ONNX's own inference {done.how}")


def _all_graphs(graph: Any) -> Iterator[Any]:
    """A graph, and the branches and loop bodies in its attributes."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from _all_graphs(inner)


def _texts(model: Any, graphs: Sequence[Any]) -> Iterator[object]:
    """All names that are read; protobuf gives a name that is no valid text as bytes."""
    yield from (entry.domain for entry in model.opset_import)
    for graph in graphs:
        yield graph.name
        yield from (named.name for named in (*graph.input, *graph.output, *graph.initializer))
        for node in graph.node:
            yield from (node.name, node.op_type, node.domain, *node.input, *node.output,
                        *(attribute.name for attribute in node.attribute))
        for value in (*graph.input, *graph.output, *graph.value_info):
            yield from (dimension.dim_param for dimension in value.type.tensor_type.shape.dim)


def _model_for_shape_inference(model: Any, where: Where, dims: Mapping[str, int], shapes: Mapping[str, Shape],
           values: Mapping[str, int]) -> Any:
    """A model of the same graph for shape inference.

    Nodes are in topological order, named dimensions are numbers, and large constants are inputs without values.
    """
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = light.graph
    graph.name = model.graph.name or "graph"
    nodes = model.graph.node
    writers = {output: index for index, node in enumerate(nodes) for output in node.output if output}
    try:
        order = topological([[writers[name] for name in node.input if name in writers] for node in nodes])
    except CycleError as error:
        cycle = " -> ".join(clean(_name(nodes[index])) for index in error.args[1])
        raise where.error(f"the network has a cycle: {cycle}", "a graph without cycles") from None
    graph.node.extend(nodes[index] for index in order)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    _refuse_large_functions(light, where)
    # Inputs get their values and shapes, unless they are weights; named dimensions get their numbers.
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in graph.input if value.name not in constants]
    unknown = sorted((set(shapes) | set(values)) - set(names))
    if unknown:
        raise where.error(f"there is no input {listed(unknown)}", listed(map(clean, names)))
    kept = [value for value in graph.input if value.name not in values]
    for value in graph.input:
        if value.name in values:
            kind = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type or TensorProto.INT64)
            constant = np.full([max(size.dim_value, 1) for size in kind.shape.dim], values[value.name], dtype)
            graph.initializer.append(numpy_helper.from_array(constant, value.name))
    graph.ClearField("input")
    graph.input.extend(kept)
    inputs = {value.name: value for value in graph.input}
    shapes = {name: shape for name, shape in shapes.items() if name not in values}
    for name, shape in shapes.items():
        kind = inputs[name].type.tensor_type
        if kind.HasField("shape") and len(kind.shape.dim) != len(shape):
            raise where.error(f"the input {clean(name)} has {len(kind.shape.dim)} axes, its shape {len(shape)}")
        kind.shape.ClearField("dim")
        for size in shape:
            kind.shape.dim.add(dim_value=size)
    if shapes:  # shapes that the model states for other values may no longer hold
        graph.ClearField("value_info")
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    named = set()
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            named.add(dimension.dim_param)
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    missing = sorted(set(dims) - named)
    if missing:
        raise where.error(f"there is no dimension {listed(missing)}", listed(sorted(named - {""})))
    declared = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if any(size < 0 for size in tensor.dims):
            raise where.error(f"the constant {clean(tensor.name)} has the shape {list(tensor.dims)}")
        if is_small(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return light


def _refuse_large_functions(model: Any, where: Where) -> None:
    """Refuses functions that call themselves, and models with too many operators once functions are inlined."""
    bodies = {(function.domain, function.name): function.node for function in model.functions}
    sizes: dict[tuple[str, str], int | None] = {}

    def size(nodes: Any) -> int:
        total = 0
        for node in nodes:
            key = (node.domain, node.op_type)
            if key not in bodies:
                total += 1 + sum(size(graph.node) for graph in subgraphs(node))
                continue
            if key not in sizes:
                sizes[key] = None
                sizes[key] = size(bodies[key])
            if (found := sizes[key]) is None:
                raise where.error(f"its function {clean(key[1])} calls itself")
            total += found
        return total
    if not bodies:
        return
    if (operators := size(model.graph.node)) > MOST_OPERATORS:
        raise where.error(f"{operators} operators in its functions", f"at most {MOST_OPERATORS}")


def _network(model: Any, constants: set[str], title: str, where: Where, typed: bool) -> Workload:
    """The network of a model with inferred shapes; `constants` are the names of its weights and small constants.

    `typed`: whether operators get the bits of the tensors' types.
    """
    graph, nodes, shapes = model.graph, model.graph.node, value_shapes(model.graph)
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    walk = _Walk(Assembly(where, types={} if typed else None),
                 {name: Tensor(shapes.get(name) or ()) for name in constants},
                 {tensor.name: _numbers(tensor) for tensor in graph.initializer}, shapes, version, where,
                 bits=_value_bits(graph) if typed else {})
    for value in graph.input:
        if value.name not in constants:
            walk.to.made_bits = walk.bits.get(value.name, 0)
            walk.to.where = Where(where.file, path=f"input {clean(value.name)}")
            extents = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
            walk.values[value.name] = walk.to.input(clean(value.name), extents)
    for node in nodes:
        walk.enter(node)
    if not any(node.layer for node in walk.to.nodes):  # name the inputs on which the conditions of an If depend
        reads = {output: list(node.input) for node in nodes for output in node.output}
        todo, seen = [node.input[0] for node in nodes if node.op_type == "If" and node.input], set[str]()
        while todo:
            if (name := todo.pop()) not in seen:
                seen.add(name)
                todo += reads.get(name, [])
        deciding = sorted(clean(name) for name in seen & ({value.name for value in graph.input} - constants))
        if deciding:
            raise where.error(f"the network has no layer outside of branches (If), decided by {listed(deciding)}",
                              " ".join(f"--value {name}=N" for name in deciding))
    outputs = [node for value in graph.output if (node := walk.values.get(value.name, Tensor(())).node)]
    recognise_products(walk.to, outputs)
    return build_workload(title, walk.to.nodes, tuple(dict.fromkeys(outputs)), where, walk.to.folded)


def _value_bits(graph: Any) -> dict[str, int]:
    """Bits of an element by value of a graph. A dequantized value has the bits of its quantized operand; a value read
    only by a quantization has the bits of the result."""
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    types |= {value.name: value.type.tensor_type.elem_type
              for value in (*graph.value_info, *graph.output, *graph.input)}
    bits = {name: 4 if TensorProto.DataType.Name(kind).endswith(("INT4", "4E2M1")) else
            8 * helper.tensor_dtype_to_np_dtype(kind).itemsize for name, kind in types.items()
            if kind not in (TensorProto.UNDEFINED, TensorProto.STRING)}
    readers: dict[str, list[Any]] = {}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in bits:
            bits[node.output[0]] = bits[node.input[0]]
        for name in node.input:
            readers.setdefault(name, []).append(node)
    quantized = {name: nodes[0].output[0] for name, nodes in readers.items()
                 if all(node.op_type == "QuantizeLinear" and node.input[0] == name for node in nodes)}
    return bits | {name: bits[after] for name, after in quantized.items() if after in bits}


@dataclass
class _Walk:
    """A walk over the nodes of a model, with its values, small constants and shapes by name."""

    to: Assembly  # the network under construction
    values: MutableMapping[str, Tensor]  # the values so far
    numbers: MutableMapping[str, tuple[int, ...]]  # the whole numbers of small constants
    shapes: MutableMapping[str, Shape | None]  # inferred shapes
    version: int  # version of the operator set
    where: Where  # the source, for messages
    ends: dict[str, str] = field(default_factory=dict)  # value without a shape -> the first operator without a shape
    bits: Mapping[str, int] = field(default_factory=dict)  # bits of elements by value, where types count

    def enter(self, node: Any) -> None:
        """Adds the nodes of one ONNX node, and its outputs to `values`."""
        self.to.where = _place(self.where, node)
        missing = [name for name in node.input if name and name not in self.values]
        if missing:
            raise self.to.where.error(f"reads {clean(missing[0])}, which nothing writes")
        if not node.output:
            return
        lost = next((self.ends[name] for name in node.input if name in self.ends), "")
        call = OnnxCall(node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}",
                        clean(_name(node)), self.to, [self.values[name] if name else None for name in node.input],
                        [self.shapes.get(name) for name in node.output],
                        {item.name: helper.get_attribute_value(item) for item in node.attribute
                         if item.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)},
                        [self.numbers.get(name) for name in node.input], self.version, lost)
        if node.op_type == "Constant" and isinstance(call.attributes.get("value"), TensorProto):
            self.numbers[node.output[0]] = _numbers(call.attributes["value"])
        results = call.constants
        constants = [name for name in node.input if name and self.values[name].constant and len(
            self.values[name].shape) > 1]
        self.to.constant_bits = self.bits.get(constants[0], 0) if constants else 0
        self.to.made_bits = self.bits.get(node.output[0], 0)
        try:
            if graphs := subgraphs(node):
                results = self._region(call, graphs)
            elif node.op_type not in FILLS and not all(t is None or t.constant for t in call.operands):
                results = understood(call)
            elif call.operator in LAYERS and all(call.outs) and all(t is None or t.shape for t in call.operands):
                inner = Assembly(self.to.where)
                operands = [t and inner.input("constant", t.shape) for t in call.operands]
                understood(replace(call, to=inner, operands=operands))
                self.to.note_folded(call.name, call.operator, inner.macs)
        except (ArithmeticError, IndexError, ValueError):  # such as axes that its operands do not have
            shapes = [list(tensor.shape) if tensor.known else "unknown" for tensor in call.tensors]
            raise self.to.where.error(f"operands of the shapes {', '.join(map(str, shapes)) or 'none'} do not fit the "
                                      "operator", "operands and attributes as its documentation says") from None
        for name, tensor, shape in zip(node.output, results, call.outs, strict=True):
            self.values[name] = tensor
            if self.to.types is not None and tensor.node:
                self.to.types[tensor.node] = self.bits.get(name, 0)
            if shape is None and not tensor.constant:
                self.ends[name] = lost or f"{clean(_name(node))} ({clean(node.op_type)})"

    def _region(self, call: OnnxCall, graphs: Sequence[Any]) -> list[Tensor]:
        """Adds the operators of a loop whose number of passes is known; else a node that is not understood, whose
        estimate is the multiply-accumulates of one pass, or of the larger branch."""
        free = list(dict.fromkeys(name for graph in graphs for name in _free(graph) if name in self.values))
        operands = [*call.tensors, *(self.values[name] for name in free)]
        try:
            passes = [self._pass(graph, free) for graph in graphs]
        except SpecError:   # shapes that are not known inside
            passes = []
        times = None    # passes: the scanned extent of a Scan, the limit of a Loop without a computed end
        if call.operator == "Scan" and call.version >= 9:
            count, axes = call.whole("num_scan_inputs", 1), call.attributes.get("scan_input_axes") or [0]
            scanned = call.operands[len(call.operands) - count] if 0 < count <= len(call.operands) else None
            if scanned is not None and scanned.known and axes[0] < len(scanned.shape):
                times = scanned.shape[axes[0]]
        elif call.operator == "Loop" and len(call.operands) > 1:
            limit, go = call.numbers[0], call.operands[1]
            if limit and len(limit) == 1 and (go is None or go.constant) and limit[0] > 0:
                times = limit[0]
        if times is not None and len(passes) == 1:
            return repeated(self.to, call.name, passes[0], times, operands, call.outs)
        possible = max((one.macs + sum(node.possible or 0 for node in one.nodes) for one in passes), default=0)
        counted = passes and call.operator in ("If", "Loop", "Scan")
        return self.to.unknown(call.name, call.operator, operands, call.outs, possible=possible if counted else None)

    def _pass(self, graph: Any, free: Sequence[str]) -> Assembly:
        """The nodes of one run of a graph that reads values from outside."""
        shapes, inner = ChainMap(value_shapes(graph), self.shapes), Assembly(self.where)
        own = {tensor.name: Tensor(tuple(tensor.dims)) for tensor in graph.initializer}
        for name in (*free, *(value.name for value in graph.input)):
            if name not in own:
                outer = self.values.get(name)
                own[name] = outer if outer and outer.constant else inner.input(clean(name), shapes.get(name))
        values = ChainMap(own, self.values)
        numbers = ChainMap({tensor.name: _numbers(tensor) for tensor in graph.initializer}, self.numbers)
        walk = _Walk(inner, values, numbers, shapes, self.version, self.where)
        for node in graph.node:
            walk.enter(node)
        recognise_products(inner, [values[out.name].node or "" for out in graph.output if out.name in values])
        return inner


def _free(graph: Any) -> Iterator[str]:
    """Names that a graph, or a graph inside it, reads from outside."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        yield from (name for name in (*node.input, *(inner for part in subgraphs(node) for inner in _free(part)))
                    if name and name not in own)
    yield from (value.name for value in graph.output if value.name not in own)


def _numbers(tensor: Any) -> tuple[int, ...]:
    """The values of a small constant of whole numbers (axes, sizes); empty for other constants."""
    if tensor.data_type not in (TensorProto.INT64, TensorProto.INT32) or not is_small(tensor):
        return ()
    try:
        return tuple(int(value) for value in numpy_helper.to_array(tensor).flatten())
    except (ValueError, TypeError):
        return ()


def _name(node: Any) -> str:
    """A name for an ONNX node, whose own may be empty."""
    return str(node.name or next(iter(node.output), "") or node.op_type)


def _place(where: Where, node: Any) -> Where:
    return Where(where.file, path=f"node {clean(_name(node))} ({clean(node.op_type)})")
