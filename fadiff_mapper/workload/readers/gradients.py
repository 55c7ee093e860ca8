"""Builds nodes from the gradients of convolutions and attention, as joint graphs of training steps have them.

Gradients of all other operators are products and pointwise steps already, or PyTorch takes them apart into these.

    d input of a convolution      the transposed convolution of the output's gradient with the same weights
    d weights                     a convolution of the input (channels as its batch, the batch as its channels) with the
                                  output's gradient as its kernel: stride and dilation change places
    attention o = p v, p = softmax(q k^T)
                                  q k^T once more, dv = p^T do, dp = do v^T, dq = ds k, dk = ds^T q: five products
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, for_heads, product, turned
from fadiff_mapper.workload.readers.convolutions import Sliding, convolution, transposed_convolution
from fadiff_mapper.workload.window_slide import WindowSlide
from fadiff_mapper.yaml.place import Where


def convolution_gradients(to: Assembly, name: str, operands: tuple[Tensor, Tensor, Tensor], slide: Sliding,
                          transposed: bool, wanted: Sequence[bool], where: Where) -> list[Tensor]:
    """Adds the gradients of a convolution.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        operands: the gradient of the output, the input and the weights.
        slide: stride, padding, dilation, groups.
        transposed: whether the convolution is a transposed one.
        wanted: whether the gradients of input, weights and bias are.
        where: place in the source, for messages.

    Returns:
        These gradients; constants, which carry nothing on, in place of those that are not wanted.
    """
    gradient, x, weight = operands
    back = convolution if transposed else transposed_convolution
    channels = gradient.shape[1]
    return [
        back(to, f"{name}.input", gradient, weight, slide, x.shape, where) if wanted[0] else Tensor(x.shape),
        (_weights(to, f"{name}.weights", *((gradient, x) if transposed else (x, gradient)), slide, weight.shape, where)
         if wanted[1] else Tensor(weight.shape)),
        (to.plain_node(f"{name}.bias", "sum", [gradient], (channels,), where, (0, *range(2, len(gradient.shape))))
         if wanted[2] else Tensor((channels,)))]


def _weights(to: Assembly, name: str, image: Tensor, kernel: Tensor, slide: Sliding, shape: Shape,
             where: Where) -> Tensor:
    """The gradient of weights [out, in / groups, taps...]: of an image [N, in, ...] and a kernel [N, out, ...]."""
    n, groups, rank = image.shape[0], slide.groups, len(image.shape)
    inner, outer, points = shape[1], shape[0] // groups, tuple(range(3, rank + 1))

    def put(tag: str, x: Tensor, channels: int, order: tuple[int, ...]) -> Tensor:
        apart = to.reshape(f"{name}.{tag}_groups", x, (n, groups, channels, *x.shape[2:]), where)
        moved = to.transpose(f"{name}.{tag}_moved", apart, (*order, *points), where)
        first, second, third = moved.shape[:3]
        lead = (first, second * third) if tag == "image" else (first * second, third)
        return to.reshape(f"{name}.{tag}", moved, (*lead, *x.shape[2:]), where)
    data, taps = put("image", image, inner, (2, 1, 0)), put("kernel", kernel, outer, (1, 2, 0))
    reads = [WindowSlide(size, 1, stride).reach(1) + (extent - 1) * dilation
             for size, stride, dilation, extent in zip(kernel.shape[2:], slide.stride, slide.dilation, shape[2:],
                                                       strict=True)]
    pad = tuple((before, read - extent - before)  # points that no window reached are cut off
                for (before, _), read, extent in zip(slide.pad, reads, image.shape[2:], strict=True))
    turned_slide = replace(slide, stride=slide.dilation, dilation=slide.stride, pad=pad)
    made = convolution(to, name, data, taps, turned_slide, (inner, shape[0], *shape[2:]), where)
    return to.transpose(f"{name}.back", made, (1, 0, *range(2, rank)), where)


def attention_gradients(to: Assembly, name: str, gradient: Tensor, operands: tuple[Tensor, Tensor, Tensor],
                        where: Where) -> list[Tensor]:
    """Adds the gradients of queries, keys and values.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        gradient: that of the output, [..., heads, tokens, size].
        operands: queries, keys and values, as `assembly.attention` takes them.
        where: place in the source, for messages.

    Returns:
        The gradients, each of the shape of its operand.
    """
    q, heads = operands[0], operands[0].shape[:-2]
    k, v = (for_heads(to, f"{name}.{what}", t, heads, where) for what, t in zip(("keys", "values"), operands[1:],
                                                                               strict=True))
    scores = (*heads, q.shape[-2], k.shape[-2])

    def turn(tag: str, t: Tensor) -> Tensor:
        return to.transpose(f"{name}.{tag}", t, turned(len(t.shape)), where)

    def summed(tag: str, t: Tensor, wanted: Shape) -> Tensor:
        if math.prod(t.shape) == math.prod(wanted):
            return t
        return to.plain_node(f"{name}.{tag}", "other", [t], wanted, where, what="sum over heads that share")
    products = product(to, f"{name}.qk", q, turn("keys_t", k), scores, where)
    rows = to.plain_node(f"{name}.softmax", "softmax", [products], scores, where, (-1,))
    of_values = product(to, f"{name}.dv", turn("rows_t", rows), gradient, v.shape, where)
    of_rows = product(to, f"{name}.dp", gradient, turn("values_t", v), scores, where)
    both = to.plain_node(f"{name}.ds_rows", "mul", [rows, of_rows], scores, where)
    of_scores = to.plain_node(f"{name}.ds", "softmax", [both], scores, where, (-1,))
    of_queries = product(to, f"{name}.dq", of_scores, k, q.shape, where)
    of_keys = product(to, f"{name}.dk", turn("ds_t", of_scores), q, k.shape, where)
    return [of_queries, summed("dk_shared", of_keys, operands[1].shape), summed("dv_shared", of_values,
                                                                                operands[2].shape)]
