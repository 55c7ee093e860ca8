"""Reads ONNX models. Only the graph is read: weights and files outside of the model are never opened.

Method. A light copy of the model, with large constants as inputs without values, goes through ONNX's own shape
inference (`onnx_shapes`), in turns with the computation of the small constants that reshapes need (`onnx_folding`). Its
nodes are then walked in topological order; `onnx_operators` turns each into nodes of ours. Values that follow from
constants alone are constants. Models come from elsewhere, so their names are made printable before they are printed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx as nx

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.onnx_names import FILLS
from fadiff_mapper.workload.readers.onnx_operators import LAYERS, OnnxCall, understood
from fadiff_mapper.yaml.located import Where

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import helper, numpy_helper
except ImportError as error:
    raise FadiffError(f"reading ONNX models needs the package onnx ({error}); accepted: pip install "
                      '"fadiff-mapper[onnx]"') from None

from fadiff_mapper.workload.readers.onnx_folding import ROUNDS, SMALL, Folding, small_values  # these import onnx
from fadiff_mapper.workload.readers.onnx_shapes import with_shapes
from fadiff_mapper.workload.readers.onnx_twins import shape_twins

MAX_BYTES = 2 << 30
"""Size of a file: the limit of protobuf, in which ONNX models are written."""


def read_file(path: Path, name: str | None = None, dims: Mapping[str, int] | None = None,
              shapes: Mapping[str, Shape] | None = None) -> Workload:
    """Reads an ONNX file.

    Args:
        path: the file.
        name: name of the network; the file's by default.
        dims: numbers for the named dimensions of the model's inputs.
        shapes: whole shapes of inputs, by name.

    Raises:
        SpecError: the file is no whole ONNX model, or `read_model` refuses it.
    """
    where = Where(str(path))
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise where.error("is not a regular file", "an ONNX model")
        if status.st_size > MAX_BYTES:
            raise where.error(f"has {status.st_size / (1 << 30):.1f} GiB", f"at most {MAX_BYTES >> 30} GiB")
        model = onnx.ModelProto.FromString(path.read_bytes())
    except (OSError, ValueError) as error:
        raise where.error(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except DecodeError:
        raise where.error("is no ONNX model, or is cut off", "a whole ONNX file") from None
    return read_model(model, name or path.stem, str(path), dims, shapes)


def read_model(model: Any, name: str, file: str, dims: Mapping[str, int] | None = None,
               shapes: Mapping[str, Shape] | None = None) -> Workload:
    """Reads an `onnx.ModelProto`.

    Args:
        model: the model.
        name: name of the network.
        file: the source, for messages.
        dims: numbers for the named dimensions of the model's inputs.
        shapes: whole shapes of inputs, by name.

    Raises:
        SpecError: the model is broken or refused, or has dynamic dimensions; the message names the source, and the node
            where there is one.
    """
    where = Where(file)
    if not all(isinstance(text, str) for text in _texts(model)):
        raise where.error("a name in it is not UTF-8 text", "an ONNX model")
    if not model.graph.node or not model.opset_import:
        raise where.error("the model has no operators", "an ONNX model with a graph")
    constants = {tensor.name for tensor in model.graph.initializer} | {
        tensor.values.name for tensor in model.graph.sparse_initializer}
    light = _light(model, where, dims or {}, shapes or {})
    _refuse_open(light.graph, constants, where)
    nodes, inferred, computed = _inferred(light, where)
    return _network(nodes, inferred, constants | computed, name, where)


def _inferred(light: Any, where: Where) -> tuple[list[Any], Any, set[str]]:
    """The nodes that are left once small constants are computed, the model with shapes, and the computed names."""
    folding = Folding(list(light.graph.node), small_values(light.graph.initializer), light.opset_import)
    for _ in range(ROUNDS):
        light.graph.ClearField("node")
        light.graph.node.extend(twin for node in folding.nodes for twin in shape_twins(node))
        try:
            inferred = with_shapes(light)
        except Exception as error:  # InferenceError, or whatever its C++ raises on a broken graph
            raise where.error(f"shapes cannot be inferred: {' '.join(str(error).split())[:300]}") from None
        known = set(folding.computed)
        if not folding.fold(_shapes(inferred.graph)):
            break
        light.graph.initializer.extend(numpy_helper.from_array(folding.computed[name], name)
                                       for name in folding.computed if name not in known)
    return folding.nodes, inferred, set(folding.computed)


def _texts(model: Any) -> Iterator[object]:
    """All names that are read; protobuf hands out those that are no text as bytes."""
    graph = model.graph
    yield from (graph.name, *(entry.domain for entry in model.opset_import))
    yield from (named.name for named in (*graph.input, *graph.output, *graph.initializer))
    for node in graph.node:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output,
                    *(attribute.name for attribute in node.attribute))
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield from (dimension.dim_param for dimension in value.type.tensor_type.shape.dim)


def _light(model: Any, where: Where, dims: Mapping[str, int], shapes: Mapping[str, Shape]) -> Any:
    """A model of the same graph for shape inference.

    Nodes are in topological order, named dimensions are numbers, large constants inputs without values.
    """
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    graph = light.graph
    graph.name = model.graph.name or "graph"
    graph.node.extend(_ordered(model.graph, where))
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    _fix_shapes(graph, {tensor.name for tensor in model.graph.initializer}, shapes, where)
    _fix_dimensions(graph, dims, where)
    declared = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if any(size < 0 for size in tensor.dims):
            raise where.error(f"the constant {clean(tensor.name)} has the shape {list(tensor.dims)}")
        if _small(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in declared:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    return light


def _small(tensor: Any) -> bool:
    """True for constants whose values are kept, none of which lie in another file."""
    elements = 1
    for size in tensor.dims:
        elements *= size
    return elements <= SMALL and tensor.data_location != onnx.TensorProto.EXTERNAL


def _ordered(graph: Any, where: Where) -> list[Any]:
    """The nodes so that each comes after those whose outputs it reads. Raises SpecError for a cycle."""
    writers = {output: index for index, node in enumerate(graph.node) for output in node.output if output}
    order: nx.DiGraph[int] = nx.DiGraph()
    order.add_nodes_from(range(len(graph.node)))
    order.add_edges_from((writers[name], index) for index, node in enumerate(graph.node) for name in node.input
                         if name in writers)
    try:
        return [graph.node[index] for index in nx.lexicographical_topological_sort(order)]
    except nx.NetworkXUnfeasible:
        cycle = [clean(_name(graph.node[edge[0]])) for edge in nx.find_cycle(order)]
        raise where.error(f"the network has a cycle: {' -> '.join([*cycle, cycle[0]])}",
                          "a graph without cycles") from None


def _fix_shapes(graph: Any, constants: set[str], shapes: Mapping[str, Shape], where: Where) -> None:
    """Gives inputs their shapes; what the model states of others may be of another shape, and is forgotten.

    Raises SpecError for an input that the model does not have, or that has another number of axes.
    """
    inputs = {value.name: value for value in graph.input if value.name not in constants}
    unknown = sorted(set(shapes) - set(inputs))
    if unknown:
        raise where.error(f"there is no input {listed(unknown)}", listed(map(clean, inputs)))
    for name, shape in shapes.items():
        kind = inputs[name].type.tensor_type
        if kind.HasField("shape") and len(kind.shape.dim) != len(shape):
            raise where.error(f"the input {clean(name)} has {len(kind.shape.dim)} axes, its shape {len(shape)}")
        kind.shape.ClearField("dim")
        for size in shape:
            kind.shape.dim.add(dim_value=size)
    if shapes:
        graph.ClearField("value_info")
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")


def _refuse_open(graph: Any, constants: set[str], where: Where) -> None:
    """Raises SpecError where inputs have axes without a number; all of them are named."""
    open_inputs = {value.name: [size.dim_value if size.dim_value > 0 else size.dim_param or "?" for size in
                                value.type.tensor_type.shape.dim]
                   for value in graph.input if value.name not in constants and not _is_static(value)}
    if not open_inputs:
        return
    shown = ", ".join(clean(f"{name} ({' x '.join(map(str, sizes)) or 'unknown'})")
                      for name, sizes in open_inputs.items())
    example = " ".join(clean(f"--shape {name}={'x'.join(str(s) if isinstance(s, int) else 'N' for s in sizes) or 'N'}")
                       for name, sizes in open_inputs.items())
    named = sorted({size for sizes in open_inputs.values() for size in sizes if isinstance(size, str)} - {"?"})
    raise where.error(f"inputs have open axes: {shown}", f"numbers for them: {example}"
                      + (clean(f", or {' '.join(f'--dim {name}=N' for name in named)}") if named else ""))


def _is_static(value: Any) -> bool:
    """Whether all axes of an input have numbers."""
    kind = value.type.tensor_type
    return bool(kind.HasField("shape")) and all(size.dim_value > 0 for size in kind.shape.dim)


def _fix_dimensions(graph: Any, dims: Mapping[str, int], where: Where) -> None:
    """Gives named dimensions their numbers. Raises SpecError for a name that the model does not have."""
    named = set()
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            named.add(dimension.dim_param)
            if dimension.dim_param in dims:
                dimension.dim_value = dims[dimension.dim_param]
    unknown = sorted(set(dims) - named)
    if unknown:
        raise where.error(f"there is no dimension {listed(unknown)}", listed(sorted(named - {""})))


def _network(nodes: Sequence[Any], model: Any, constants: set[str], title: str, where: Where) -> Workload:
    """The network of a model with inferred shapes; `constants` are the names of its weights and small constants."""
    graph = model.graph
    shapes = _shapes(graph)
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    walk = _Walk(Assembly(), {name: Tensor(shapes.get(name) or ()) for name in constants},
                 {tensor.name: _numbers(tensor) for tensor in graph.initializer}, shapes, version, where)
    for value in graph.input:
        if value.name not in constants:
            source = Where(where.file, path=f"input {clean(value.name)}")
            extents = tuple(size.dim_value for size in value.type.tensor_type.shape.dim)
            walk.values[value.name] = walk.to.input(clean(value.name), extents, source)
    for node in nodes:
        walk.enter(node)
    outputs = [walk.values[value.name].node for value in graph.output if value.name in walk.values]
    return build_workload(title, walk.to.nodes, tuple(dict.fromkeys(node for node in outputs if node)), where,
                          walk.to.folded)


@dataclass
class _Walk:
    """A walk over the nodes of a model.

    Attributes:
        to: the network under construction.
        values: the values so far, by name.
        numbers: the whole numbers of small constants, by name.
        shapes: inferred shapes, by name.
        version: version of the operator set.
        where: the source, for messages.
        ends: the operators at which shapes end, by the names of values that have none.
    """

    to: Assembly
    values: dict[str, Tensor]
    numbers: dict[str, tuple[int, ...]]
    shapes: Mapping[str, Shape | None]
    version: int
    where: Where
    ends: dict[str, str] = field(default_factory=dict)

    def enter(self, node: Any) -> None:
        """Enters the outputs of one ONNX node into `values`."""
        source = _place(self.where, node)
        missing = [name for name in node.input if name and name not in self.values]
        if missing:
            raise source.error(f"reads {clean(missing[0])}, which nothing writes")
        if not node.output:
            return
        call = self._call(node, source)
        regions = any(item.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for item in node.attribute)
        results = [Tensor(shape or ()) for shape in call.outs]
        if node.op_type not in FILLS and (regions or not all(t is None or t.constant for t in call.operands)):
            results = understood(call, self.to) if call.tensors else [
                self.to.unknown(call.name, call.operator, [], shape, source) for shape in call.outs]
        elif call.operator in LAYERS and all(call.outs):
            self._fold(call)
        lost = next((self.ends[name] for name in node.input if name in self.ends), "")
        for name, tensor, shape in zip(node.output, results, call.outs, strict=True):
            self.values[name] = tensor
            if shape is None and not tensor.constant:
                self.ends[name] = lost or f"{clean(_name(node))} ({clean(node.op_type)})"

    def _call(self, node: Any, source: Where) -> OnnxCall:
        """An ONNX node with its operands."""
        attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute
                      if item.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)}
        domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
        lost = next((self.ends[name] for name in node.input if name in self.ends), "")
        return OnnxCall(domain + node.op_type, clean(_name(node)), attributes,
                        [self.values[name] if name else None for name in node.input],
                        [self.numbers.get(name) for name in node.input], [self.shapes.get(name) for name in node.output],
                        self.version, source, lost)

    def _fold(self, call: OnnxCall) -> None:
        """Notes an operator with multiply-accumulates that reads constants alone."""
        alone = Assembly()
        operands = [tensor and alone.input("constant", tensor.shape, call.where) for tensor in call.operands]
        if all(tensor is None or tensor.shape for tensor in call.operands):
            understood(replace(call, operands=operands), alone)
            self.to.note_folded(call.name, call.operator, alone.macs)


def _shapes(graph: Any) -> dict[str, Shape | None]:
    """The shape of every value, None where it is not known in full."""
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.output, *graph.input):
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        known = value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes)
        if known or value.name not in shapes:
            shapes[value.name] = tuple(sizes) if known else None
    return shapes


def _numbers(tensor: Any) -> tuple[int, ...]:
    """The values of a small constant of whole numbers (axes, sizes), else nothing."""
    if tensor.data_type not in (onnx.TensorProto.INT64, onnx.TensorProto.INT32) or not _small(tensor):
        return ()
    try:
        return tuple(int(value) for value in numpy_helper.to_array(tensor).flatten())
    except (ValueError, TypeError):
        return ()


def _name(node: Any) -> str:
    """A name for an ONNX node, whose own may be empty."""
    return str(node.name or next(iter(node.output), "") or node.op_type)


def _place(where: Where, node: Any) -> Where:
    """The place of an ONNX node in its model."""
    return Where(where.file, path=f"node {clean(_name(node))} ({clean(node.op_type)})")


def clean(name: str) -> str:
    """A name as one line of at most 200 printable characters.

    Args:
        name: any text from a model.
    """
    return "".join(_printable(name))[:200]


def _printable(name: str) -> Iterator[str]:
    """The characters, with a question mark for each that cannot be printed."""
    for letter in name:
        yield letter if letter.isprintable() else "?"
