"""Padding of ONNX's windows: as stated, or as `auto_pad` asks for the shapes at hand."""

from __future__ import annotations

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Tensor
from fadiff_mapper.workload.readers.convolutions import Pads
from fadiff_mapper.workload.readers.onnx_call import OnnxCall
from fadiff_mapper.workload.window_slide import WindowSlide


def padding(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Padding as stated, or as `auto_pad` asks: so much that the output is input / stride, rounded up.

    Of an odd total SAME_UPPER puts the larger half behind, SAME_LOWER before.

    Args:
        call: a convolution or pool.
        x: the tensor that its windows slide over.
        kernel: points under a window along each sliding axis.
        stride: points from one window to the next.
        dilation: points from one point under a window to the next.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        for extent, out, k, s, d in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, strict=True):
            total = max(WindowSlide(k, s, d).reach(out) - extent, 0)
            small = total // 2
            pads.append((small, total - small) if mode == b"SAME_UPPER" else (total - small, small))
        return tuple(pads)
    if mode == b"VALID":
        return ((0, 0),) * count
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))


def transposed_padding(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Outputs that a transposed convolution cuts off: as stated, or as the output's shape and `auto_pad` ask.

    Of an odd total SAME_UPPER cuts the smaller half before, all others the larger one.

    Args:
        call: a transposed convolution.
        x: the tensor that it reads.
        kernel: outputs of one input point along each sliding axis.
        stride: outputs from one input point to the next.
        dilation: outputs from one of an input point to the next.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if call.attributes.get("output_shape") or mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        extra = call.integers("output_padding", (0,) * count, 0)
        for extent, out, k, s, d, more in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, extra,
                                              strict=True):
            total = max(s * (extent - 1) + more + WindowSlide(k, 1, d).reach(1) - out, 0)
            before = total // 2 if mode == b"SAME_UPPER" else total - total // 2
            pads.append((before, total - before))
        return tuple(pads)
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))
