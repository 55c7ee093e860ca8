"""ATen operators without multiply-accumulates that need arguments: name -> the function that adds their nodes.

Arguments have the names of PyTorch's schemas.
"""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.torch_call import TorchCall, per_axis


def _pool(call: TorchCall, to: Assembly) -> Tensor:
    """A pool; without a stride its windows stand side by side."""
    op = "maxpool" if call.operator.startswith("max") else "avgpool"
    kernel = per_axis(call.arguments["kernel_size"], (1,) * _pool_rank(call))
    stride = per_axis(call.get("stride") or list(kernel), kernel)
    pad = tuple((p, p) for p in per_axis(call.get("padding", 0), kernel))
    return _windowed(call, to, op, Window(kernel, stride, pad, per_axis(call.get("dilation", 1), kernel)))


def _pool_rank(call: TorchCall) -> int:
    """The number of sliding axes: the digit in max_pool2d."""
    return int(call.operator[call.operator.index("pool") + 4])


def _adaptive_pool(call: TorchCall, to: Assembly) -> Tensor:
    """A pool to a given size: an ordinary one where it divides the input."""
    rank = _pool_rank(call)
    before, after = call.first.shape[-rank:], call.out[-rank:]
    if any(a % b for a, b in zip(before, after, strict=True)):
        return to.plain_node(call.name, "resize", [call.first], call.out, call.where)
    kernel = tuple(a // b for a, b in zip(before, after, strict=True))
    op = "maxpool" if "max" in call.operator else "avgpool"
    return _windowed(call, to, op, Window(kernel, kernel, ((0, 0),) * rank, (1,) * rank))


def _windowed(call: TorchCall, to: Assembly, op: str, window: Window) -> Tensor:
    """A node with a window, unless each window is one point."""
    if call.first.shape == call.out and set(window.kernel) == {1}:
        return call.first
    assert call.first.node
    return to.put(Node(call.name, op, (call.first.node,), call.out, window=window, where=call.where))


def _norm(op: str, axes: Callable[[TorchCall], int]) -> Callable[[TorchCall, Assembly], Tensor]:
    """A normalisation over the trailing axes, counted by `axes`."""
    def make(call: TorchCall, to: Assembly) -> Tensor:
        return to.plain_node(call.name, op, [call.first], call.out, call.where, tuple(range(-axes(call), 0)))
    return make


def _transpose(call: TorchCall, to: Assembly) -> Tensor:
    """The axes in the order of `permute`, or two of them swapped."""
    rank = len(call.first.shape)
    order = list(range(rank))
    if call.operator == "permute":
        order = [axis % rank for axis in call.arguments["dims"]]
    elif rank > 1:
        named = {"transpose": ("dim0", "dim1"), "swapdims": ("dim0", "dim1"), "swapaxes": ("axis0", "axis1")}
        a, b = (call.get(name) for name in named[call.operator]) if call.operator in named else \
            (-2, -1) if call.operator in ("mT", "adjoint") else (0, 1)
        order[a], order[b] = order[b], order[a]
    return to.transpose(call.name, call.first, tuple(order), call.where)


def _expand(call: TorchCall, to: Assembly) -> Tensor:
    """A value repeated to the shape of the result."""
    return to.expand(call.name, call.first, call.out, call.where)


def _overwritten(call: TorchCall, to: Assembly) -> Tensor:
    """A tensor whose elements are all those of another one."""
    return to.expand(call.name, call.arguments["src"], call.out, call.where)


FUNCTIONS: dict[str, Callable[[TorchCall, Assembly], Tensor]] = {
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices",
                     "max_pool3d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys((f"{prefix}adaptive_{kind}_pool{axes}d" for prefix in ("", "_") for kind in ("avg", "max")
                     for axes in (1, 2, 3)), _adaptive_pool),
    "layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "native_layer_norm": _norm("layernorm", lambda call: len(call.arguments["normalized_shape"])),
    "rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "_fused_rms_norm": _norm("rmsnorm", lambda call: len(call.arguments["normalized_shape"])),
    "group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "native_group_norm": _norm("groupnorm", lambda call: len(call.first.shape) - 1),
    "instance_norm": _norm("instancenorm", lambda call: len(call.first.shape) - 2),
    **dict.fromkeys(("permute", "transpose", "swapaxes", "swapdims", "t", "numpy_T", "mT",
                     "adjoint"), _transpose),
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), _expand),
    "copy": _overwritten,
}
"""Other operators that need arguments -> the function that adds their nodes."""
