"""Reads ONNX models. Only the graph is read: weights and files outside of the model are never opened.

Method. A light copy of the model, with large constants as inputs without values, goes through ONNX's own shape
inference (`onnx.shape_inference.infer_shapes` with `data_prop`, which computes the small constants that reshapes need).
Its nodes are then walked in topological order; `onnx_operators` turns each into nodes of ours. Values that follow from
constants alone are constants. Models come from elsewhere, so their names are made printable before they are printed.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.onnx_operators import OnnxCall, refuse, understood
from fadiff_mapper.yaml.located import Where

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import helper, numpy_helper
except ImportError as error:
    raise FadiffError(f"reading ONNX models needs the package onnx ({error}); accepted: pip install "
                      '"fadiff-mapper[onnx]"') from None

from fadiff_mapper.workload.readers.onnx_shapes import with_shapes  # imports onnx

MAX_BYTES = 2 << 30
"""Size of a file: the limit of protobuf, in which ONNX models are written."""

SMALL = 1024
"""Elements of a constant whose values are kept: shapes, axes and the like. Weights become inputs without values. A
plain limit, far above the number of axes of any tensor; nothing was measured."""


def read_file(path: Path, name: str | None = None, dims: Mapping[str, int] | None = None) -> Workload:
    """Reads an ONNX file.

    Args:
        path: the file.
        name: name of the network; the file's by default.
        dims: numbers for the named dimensions of the model's inputs.

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
    return read_model(model, name or path.stem, str(path), dims)


def read_model(model: Any, name: str, file: str, dims: Mapping[str, int] | None = None) -> Workload:
    """Reads an `onnx.ModelProto`.

    Args:
        model: the model.
        name: name of the network.
        file: the source, for messages.
        dims: numbers for the named dimensions of the model's inputs.

    Raises:
        SpecError: the model is broken or refused, or has dynamic dimensions; the message names the source, and the node
            where there is one.
    """
    where = Where(file)
    if not all(isinstance(text, str) for text in _texts(model)):
        raise where.error("a name in it is not UTF-8 text", "an ONNX model")
    if not model.graph.node or not model.opset_import:
        raise where.error("the model has no operators", "an ONNX model with a graph")
    for node in model.graph.node:
        refuse(node.op_type, _place(where, node))
    light = _light(model, where, dims or {})
    constants = {tensor.name for tensor in model.graph.initializer} | {
        tensor.values.name for tensor in model.graph.sparse_initializer}
    try:
        inferred = with_shapes(light)
    except Exception as error:  # InferenceError, or whatever its C++ raises on a broken graph
        raise where.error(f"shapes cannot be inferred: {' '.join(str(error).split())[:300]}") from None
    return _network(inferred, constants, name, where)


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


def _light(model: Any, where: Where, dims: Mapping[str, int]) -> Any:
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


def _network(model: Any, constants: set[str], title: str, where: Where) -> Workload:
    """The network of a model with inferred shapes; `constants` are the names of its weights."""
    graph = model.graph
    shapes = _shapes(graph)
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    to = Assembly()
    values = {name: Tensor(shapes.get(name) or ()) for name in constants}
    numbers = {tensor.name: _numbers(tensor) for tensor in graph.initializer}
    for value in graph.input:
        if value.name not in constants:
            source = Where(where.file, path=f"input {clean(value.name)}")
            values[value.name] = to.input(clean(value.name), _static(value, source), source)
    for node in graph.node:
        _walk(node, values, numbers, shapes, version, to, where)
    outputs = [values[value.name].node for value in graph.output if value.name in values]
    return build_workload(title, to.nodes, tuple(dict.fromkeys(node for node in outputs if node)), where)


def _walk(node: Any, values: dict[str, Tensor], numbers: dict[str, tuple[int, ...]],
          shapes: Mapping[str, Shape | None], version: int, to: Assembly, where: Where) -> None:
    """Enters the outputs of one ONNX node into `values`, and a constant's whole numbers into `numbers`."""
    source = _place(where, node)
    missing = [name for name in node.input if name and name not in values]
    if missing:
        raise source.error(f"reads {clean(missing[0])}, which nothing writes")
    attributes = {item.name: helper.get_attribute_value(item) for item in node.attribute
                  if item.type not in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)}
    operands = [values[name] if name else None for name in node.input]
    outs = [shapes.get(name) for name in node.output]
    if node.op_type == "Constant" and isinstance(attributes.get("value"), onnx.TensorProto):
        numbers[node.output[0]] = _numbers(attributes["value"])
    if not node.output:
        return
    if node.op_type in ("Shape", "Size") or all(tensor is None or tensor.constant for tensor in operands):
        values.update({name: Tensor(shape or ()) for name, shape in zip(node.output, outs, strict=True)})
        return
    domain = "" if node.domain in ("", "ai.onnx") else f"{node.domain}."
    given = [numbers.get(name) for name in node.input]
    call = OnnxCall(domain + node.op_type, clean(_name(node)), attributes, operands, given, outs, version, source)
    values.update(zip(node.output, understood(call, to), strict=True))


def _shapes(graph: Any) -> dict[str, Shape | None]:
    """The shape of every value, None where it is not known in full."""
    shapes: dict[str, Shape | None] = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.value_info, *graph.output, *graph.input):
        sizes = [size.dim_value for size in value.type.tensor_type.shape.dim]
        known = value.type.tensor_type.HasField("shape") and all(size > 0 for size in sizes)
        if known or value.name not in shapes:
            shapes[value.name] = tuple(sizes) if known else None
    return shapes


def _static(value: Any, where: Where) -> Shape:
    """The shape of an input. Raises SpecError where a dimension has no number."""
    sizes = value.type.tensor_type.shape.dim
    if not value.type.tensor_type.HasField("shape") or not all(size.dim_value > 0 for size in sizes):
        shown = clean(" x ".join(str(size.dim_value or size.dim_param or "?") for size in sizes)) or "unknown"
        raise where.error(f"the shape {shown} has dynamic dimensions",
                          "fixed shapes, or a number for each named dimension (--dim NAME=N, dims={NAME: N})")
    return tuple(size.dim_value for size in sizes)


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
