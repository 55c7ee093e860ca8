"""A node of a network, and what kinds of operators there are besides layers."""

from __future__ import annotations

from dataclasses import dataclass, field

from fadiff_mapper.workload.operator import Operator, Shape
from fadiff_mapper.yaml.located import Where

INPUT = "input"
NOT_UNDERSTOOD = "not_understood"

KINDS: dict[str, tuple[str, ...]] = {
    "pointwise": ("relu", "gelu", "silu", "sigmoid", "tanh", "clip", "erf", "exp", "log", "sqrt", "rsqrt", "neg",
                  "abs", "reciprocal", "square", "leakyrelu", "prelu", "elu", "celu", "selu", "softplus",
                  "hardsigmoid", "hardswish", "mish", "batchnorm", "not", "round", "floor", "ceil", "sin", "cos",
                  "quantize", "dequantize"),
    "join": ("add", "mul", "sub", "div", "pow", "max", "min", "where", "compare", "and", "or"),
    "pool": ("maxpool", "avgpool"),
    "rows": ("softmax", "logsoftmax", "layernorm", "rmsnorm", "groupnorm", "instancenorm", "cumsum"),
    "reduce": ("mean", "sum", "amax", "amin"),
    "reshape": ("reshape",),
    "transpose": ("transpose",),
    "opaque": ("concat", "slice", "gather", "expand", "pad", "resize"),
    INPUT: (INPUT,),
    NOT_UNDERSTOOD: (NOT_UNDERSTOOD,),
}
"""Operators that are no layers, by what they mean for a tile that passes through:

pointwise  as it is
join       needs the same tile of every operand (broadcast where an operand is smaller)
pool       a window slides over it
rows       needs whole rows along `axes`, and keeps its shape
reduce     needs whole rows along `axes`, of which one number remains
reshape    its elements in the same order, cut into other axes
transpose  its axes in the order `axes`
opaque     elements are picked, repeated or put together: no tile is followed through it
"""

KIND = {op: kind for kind, ops in KINDS.items() for op in ops}


@dataclass(frozen=True)
class Window:
    """A window over the trailing axes of a tensor; one entry per axis, padding as (before, after)."""

    kernel: Shape
    stride: Shape
    pad: tuple[tuple[int, int], ...]
    dilation: Shape


@dataclass(frozen=True)
class Node:
    """A layer or another operator. Its output is the tensor that carries its name.

    `inputs` are the tensors that it reads; constants are none. For a layer `operands` says which data space each
    of them is. `shape` is the output's, None where a file does not say. `pad` is a layer's padding, one
    (before, after) per sliding axis, None where it is not stated. `axes` belong to rows, reduce and transpose.
    `what` names an operator that is not understood, and `macs` its multiply-accumulates where they are known.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    shape: Shape | None = None
    layer: Operator | None = None
    operands: tuple[str, ...] = ()
    pad: tuple[tuple[int, int], ...] | None = None
    window: Window | None = None
    axes: tuple[int, ...] = ()
    what: str = ""
    macs: int | None = None
    where: Where = field(default=Where("network"), compare=False, repr=False)

    @property
    def kind(self) -> str:
        """One of `KINDS`, or "layer"."""
        return "layer" if self.layer else KIND[self.op]
