"""Closes the inputs of an ONNX model: every axis gets a number, and all that are still open are named in one error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.open_inputs import Given, clean


def close_inputs(graph: Any, constants: set[str], given: Given, where: Where) -> None:
    """Gives inputs their values and shapes, and named dimensions their numbers.

    Args:
        graph: an ONNX graph, which is changed.
        constants: names of inputs that are weights.
        given: what is said of the others.
        where: the model, for messages.

    Raises:
        SpecError: the model has no such input or dimension, or an input has another number of axes.
    """
    names = [value.name for value in graph.input if value.name not in constants]
    unknown = sorted((set(given.shapes) | set(given.values)) - set(names))
    if unknown:
        raise where.error(f"there is no input {listed(unknown)}", listed(map(clean, names)))
    _fix_values(graph, given.values)
    _fix_shapes(graph, {name: shape for name, shape in given.shapes.items() if name not in given.values}, where)
    _fix_dimensions(graph, given.dims, where)


def _fix_values(graph: Any, values: Mapping[str, int]) -> None:
    """Makes inputs constants."""
    kept = [value for value in graph.input if value.name not in values]
    for value in graph.input:
        if value.name in values:
            kind = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type or TensorProto.INT64)
            shape = [max(size.dim_value, 1) for size in kind.shape.dim]
            graph.initializer.append(numpy_helper.from_array(np.full(shape, values[value.name], dtype), value.name))
    graph.ClearField("input")
    graph.input.extend(kept)


def _fix_shapes(graph: Any, shapes: Mapping[str, Shape], where: Where) -> None:
    """Gives inputs their shapes; what the model states of other values may be of another shape, and is forgotten.

    Raises SpecError for an input that has another number of axes.
    """
    inputs = {value.name: value for value in graph.input}
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


def refuse_open(graph: Any, constants: set[str], where: Where) -> None:
    """Refuses inputs that are still open.

    Args:
        graph: an ONNX graph.
        constants: names of inputs that are weights.
        where: the model, for messages.

    Raises:
        SpecError: inputs have axes without a number; all of them are named.
    """
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
