"""ATen operators without multiply-accumulates that need arguments: name -> the function that adds their nodes.

Arguments have the names of PyTorch's schemas.
"""

from __future__ import annotations

from collections.abc import Callable

from fadiff_mapper.workload import Node, Window
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.complex_numbers import as_complex, as_pairs
from fadiff_mapper.workload.readers.torch_call import TorchCall, per_axis
from fadiff_mapper.workload.window_slide import WindowSlide
from fadiff_mapper.yaml.place import Where


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


def _complex(call: TorchCall, to: Assembly) -> Tensor:
    """Pairs of real numbers as complex ones."""
    return as_complex(to, call.name, call.first, call.where)


def _pairs(call: TorchCall, to: Assembly) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return as_pairs(to, call.name, call.first, call.where)


def _windows(call: TorchCall, to: Assembly) -> Tensor:
    """The points under each window of an image, over its last axes (im2col): [N, C, ...] as [N, C * taps, windows]."""
    kernel = tuple(call.arguments["kernel_size"])
    stride, dilation = per_axis(call.get("stride", 1), kernel), per_axis(call.get("dilation", 1), kernel)
    x, lead = call.first, len(call.first.shape) - len(kernel)
    for index, (size, step, apart, pad) in enumerate(zip(kernel, stride, dilation,
                                                         per_axis(call.get("padding", 0), kernel), strict=True)):
        x = windows(to, f"{call.name}.{index}", x, lead + index * 2, WindowSlide(size, step, apart, pad), call.where)
    rank = len(x.shape)
    order = (*range(lead), *range(lead + 1, rank, 2), *range(lead, rank, 2))
    return to.reshape(call.name, to.transpose(f"{call.name}.moved", x, order, call.where), call.out, call.where)


def _folded(call: TorchCall, to: Assembly) -> Tensor:
    """The image of the points under each window, which are summed where windows overlap (col2im)."""
    kernel, image, lead = tuple(call.arguments["kernel_size"]), call.out[-2:], call.out[:-2]
    stride, pad, dilation = (per_axis(call.get(key, default), kernel) for key, default in (
        ("stride", 1), ("padding", 0), ("dilation", 1)))
    count = tuple(extent // size for extent, size in zip(image, kernel, strict=True))
    covered = tuple(number * size for number, size in zip(count, kernel, strict=True)) == image
    if (stride, pad, dilation) != (kernel, (0, 0), (1, 1)) or not covered:
        return to.plain_node(call.name, "gather", [call.first], call.out, call.where)
    apart = to.reshape(f"{call.name}.apart", call.first, (*lead, *kernel, *count), call.where)
    first = len(lead)
    order = (*range(first), first + 2, first, first + 3, first + 1)
    return to.reshape(call.name, to.transpose(f"{call.name}.moved", apart, order, call.where), call.out, call.where)


def _unfolded(call: TorchCall, to: Assembly) -> Tensor:
    """The points under each window along one axis, on a further axis behind all others."""
    rank = len(call.first.shape)
    axis = call.get("dimension", 0) % rank
    x = windows(to, f"{call.name}.windows", call.first, axis, WindowSlide(call.arguments["size"],
                                                                          call.arguments["step"]), call.where)
    order = (*range(axis + 1), *range(axis + 2, rank + 1), axis + 1)
    return to.transpose(call.name, x, order, call.where)


def windows(to: Assembly, name: str, x: Tensor, axis: int, slide: WindowSlide, where: Where) -> Tensor:
    """Cuts an axis into windows: [..., extent, ...] as [..., windows, points, ...].

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the tensor.
        axis: the axis.
        slide: the windows; points before and behind the axis are zeros.
        where: place in the source, for messages.

    Returns:
        The points rearranged, where windows stand side by side; else picked out of the axis, all of which is there
        then.
    """
    before, extent, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1:]
    count = (extent + 2 * slide.pad - slide.reach(1)) // slide.stride + 1
    flat = (*before, count * slide.kernel, *after)
    if not (count * slide.kernel == extent and slide == WindowSlide(slide.kernel, slide.kernel)) and not x.constant:
        x = to.put(Node(f"{name}.picked", "gather", (x.node or "",), flat, axes=(axis,), where=where))
    return to.reshape(f"{name}.apart", Tensor(flat, x.node), (*before, count, slide.kernel, *after), where)


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
    **dict.fromkeys(("view_as_complex", "view_as_complex_copy"), _complex),
    **dict.fromkeys(("view_as_real", "view_as_real_copy"), _pairs),
    "im2col": _windows, "col2im": _folded, "unfold": _unfolded,
}
"""Other operators that need arguments -> the function that adds their nodes."""
