"""Closes the inputs of an ONNX model: every axis gets a number, and all that are still open are named in one error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.operator import Shape


@dataclass(frozen=True)
class Given:
    """Numbers for a model's inputs.

    Attributes:
        dims: numbers for named dimensions.
        shapes: whole shapes of inputs, by name.
        values: the whole numbers that inputs are, by name; these inputs become constants.
    """

    dims: Mapping[str, int]
    shapes: Mapping[str, Shape]
    values: Mapping[str, int]


def clean(name: str) -> str:
    """A name from a model as one line of at most 200 printable characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)[:200]


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
    kept = [value for value in graph.input if value.name not in given.values]
    for value in graph.input:
        if value.name in given.values:
            kind = value.type.tensor_type
            dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type or TensorProto.INT64)
            constant = np.full([max(size.dim_value, 1) for size in kind.shape.dim], given.values[value.name], dtype)
            graph.initializer.append(numpy_helper.from_array(constant, value.name))
    graph.ClearField("input")
    graph.input.extend(kept)
    inputs = {value.name: value for value in graph.input}
    shapes = {name: shape for name, shape in given.shapes.items() if name not in given.values}
    for name, shape in shapes.items():
        kind = inputs[name].type.tensor_type
        if kind.HasField("shape") and len(kind.shape.dim) != len(shape):
            raise where.error(f"the input {clean(name)} has {len(kind.shape.dim)} axes, its shape {len(shape)}")
        kind.shape.ClearField("dim")
        for size in shape:
            kind.shape.dim.add(dim_value=size)
    if shapes:  # the model may state other values of another shape
        graph.ClearField("value_info")
        for value in graph.output:
            value.type.tensor_type.ClearField("shape")
    named = set()
    for value in (*graph.input, *graph.value_info, *graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            named.add(dimension.dim_param)
            if dimension.dim_param in given.dims:
                dimension.dim_value = given.dims[dimension.dim_param]
    missing = sorted(set(given.dims) - named)
    if missing:
        raise where.error(f"there is no dimension {listed(missing)}", listed(sorted(named - {""})))


def refuse_open(graph: Any, constants: set[str], where: Where) -> None:
    """Refuses inputs that are still open.

    Args:
        graph: an ONNX graph.
        constants: names of inputs that are weights.
        where: the model, for messages.

    Raises:
        SpecError: inputs have axes without a number; all of them are named.
    """
    open_inputs = {}
    for value in graph.input:
        kind = value.type.tensor_type
        sizes = [size.dim_value if size.dim_value > 0 else size.dim_param or "?" for size in kind.shape.dim]
        if value.name not in constants and not (kind.HasField("shape") and all(
                isinstance(size, int) for size in sizes)):
            open_inputs[value.name] = sizes
    if not open_inputs:
        return
    shown = ", ".join(clean(f"{name} ({' x '.join(map(str, sizes)) or 'unknown'})")
                      for name, sizes in open_inputs.items())
    example = " ".join(clean(f"--shape {name}={'x'.join(str(s) if isinstance(s, int) else 'N' for s in sizes) or 'N'}")
                       for name, sizes in open_inputs.items())
    named = sorted({size for sizes in open_inputs.values() for size in sizes if isinstance(size, str)} - {"?"})
    raise where.error(f"inputs have open axes: {shown}", f"numbers for them: {example}"
                      + (clean(f", or {' '.join(f'--dim {name}=N' for name in named)}") if named else ""))
