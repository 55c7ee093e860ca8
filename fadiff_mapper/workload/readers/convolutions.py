"""Builds nodes from convolutions over one to three axes, transposed ones among them.

Transposed convolutions. Frameworks define them by scattering: input i adds to the outputs i * stride + r * dilation -
pad. Gathered, output o = phase + stride * t reads the taps r for which phase + pad - r * dilation is a multiple of the
stride, at the inputs t + (phase + pad - r * dilation) / stride. So the outputs of one phase are a convolution of stride
1 with some of the taps, and no inserted zero is ever multiplied. Phases that read the same inputs, as all do where the
kernel is as long as the stride, are one convolution with their channels side by side.

Worked example. Kernel 4, stride 2, padding 1, dilation 1, one axis of 8 inputs and 16 outputs: phase 0 reads the taps
3 and 1 at t - 1 and t, phase 1 the taps 2 and 0 at t and t + 1. Two convolutions of 2 taps and 8 outputs: 32 products
for each pair of channels, as 8 inputs times 4 taps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as combinations

from fadiff_mapper.workload import Node, make_operator
from fadiff_mapper.workload.operator import Shape, sliding
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, product
from fadiff_mapper.workload.window_slide import WindowSlide
from fadiff_mapper.yaml.place import Where

Pads = tuple[tuple[int, int], ...]
"""Padding (before, after) per sliding axis."""

TEMPLATES = {(2, False): "conv", (2, True): "grouped_conv", (3, False): "conv3d", (3, True): "grouped_conv3d"}
"""Sliding axes and whether there are groups -> template of the operator."""


@dataclass(frozen=True)
class Sliding:
    """Movement of a convolution's kernel, one entry per sliding axis.

    Attributes:
        stride: inputs from one output to the next; of a transposed convolution outputs from one input to the next.
        pad: zeros before the first and after the last input; of a transposed convolution outputs that are cut off.
        dilation: inputs (outputs) from one point of the kernel to the next.
        groups: groups of channels that are convolved apart.
    """

    stride: Shape
    pad: Pads
    dilation: Shape
    groups: int = 1


def convolution(to: Assembly, name: str, x: Tensor, weight: Tensor, slide: Sliding, shape: Shape,
                where: Where) -> Tensor:
    """Adds a convolution.

    Args:
        to: the network.
        name: name of its node.
        x: the image, [N, channels, extent...]; the batch axis may be missing.
        weight: [out, in / groups, kernel...].
        slide: stride, padding, dilation, groups.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output of an operator, along one sliding axis with Q = 1, along three with Z, P and Q. Over more axes it is
        not understood, but its multiply-accumulates are known all the same.
    """
    kernel = weight.shape[2:]
    if len(kernel) not in (1, 2, 3):
        macs = math.prod(shape) * math.prod(weight.shape[1:])
        return to.unknown(name, f"convolution over {len(kernel)} axes", [x, weight], [shape], where, macs)[0]
    batch = (1,) * (len(kernel) + 2 - len(x.shape))  # a missing batch axis
    flat = (1,) if len(kernel) == 1 else ()
    image = to.reshape(f"{name}.image", x, batch + x.shape + flat, where)
    filters = to.reshape(f"{name}.filters", weight, weight.shape + flat, where)
    n, *points = batch + shape
    dims = {"N": n, "G": slide.groups, "M": weight.shape[0] // slide.groups, "C": weight.shape[1]}
    layer_op = _template(len(kernel), dims)
    axes = sliding(layer_op)
    values = dict(zip([axis[0] for axis in axes], (*points[1:], *flat), strict=True))
    values |= dict(zip([axis[1] for axis in axes], filters.shape[2:], strict=True))
    if slide.groups == 1:
        del dims["G"]
    layer = make_operator(layer_op, dims | values, slide.stride + flat, slide.dilation + flat, where=where)
    read = [(t.node, space) for t, space in ((image, "Inputs"), (filters, "Weights")) if t.node]
    pad = (*slide.pad, *((0, 0) for _ in flat))
    return to.put(Node(name, layer_op, tuple(node for node, _ in read), shape, layer, tuple(space for _, space in read),
                       pad, where=where))


def deformable_convolution(to: Assembly, name: str, operands: Sequence[Tensor], weight: Tensor, groups: int,
                           shape: Shape, where: Where) -> Tensor:
    """Adds a convolution whose points are picked by computed offsets: gathered points, and a product over them.

    Args:
        to: the network.
        name: name of its node.
        operands: all that it reads.
        weight: [out, in / groups, kernel...].
        groups: groups of channels that are convolved apart.
        shape: extents of the output, [N, out, extent...].
        where: place in the source, for messages.
    """
    (n, m), points, taps = shape[:2], math.prod(shape[2:]), math.prod(weight.shape[1:])
    columns = to.plain_node(f"{name}.points", "gather", operands, (n, groups, points, taps), where)
    filters = to.reshape(f"{name}.filters", weight, (groups, m // groups, taps), where)
    right = to.transpose(f"{name}.turned", filters, (0, 2, 1), where)
    rows = product(to, name, columns, right, (n, groups, points, m // groups), where)
    moved = to.transpose(f"{name}.channels", rows, (0, 1, 3, 2), where)
    return to.reshape(f"{name}.image", moved, shape, where)


def _template(axes: int, dims: dict[str, int]) -> str:
    """The template of a convolution; one over a single axis is one over two."""
    if axes < 3 and dims["G"] > 1 and dims["M"] == dims["C"] == 1:
        return "depthwise"
    return TEMPLATES[max(axes, 2), dims["G"] > 1]


@dataclass(frozen=True)
class Phase:
    """Outputs of a transposed convolution along one axis that read alike.

    Attributes:
        outputs: number of outputs of every one of the phases.
        taps: points of the kernel that each output reads.
        dilation: inputs from one of them to the next.
        first: the input that the first output reads first; negative in the padding.
    """

    outputs: int
    taps: int
    dilation: int
    first: int


def phases(outputs: int, kernel: int, stride: int, pad: int, dilation: int) -> Counter[Phase]:
    """The phases of a transposed convolution along one axis.

    Args:
        outputs: number of outputs.
        kernel: points of the kernel.
        stride: outputs from one input to the next.
        pad: outputs that are cut off before the first.
        dilation: outputs from one point of the kernel to the next.

    Returns:
        Phase -> number of the phases that are alike.
    """
    found: Counter[Phase] = Counter()
    for phase in range(min(stride, outputs)):
        offsets = [(phase + pad - tap * dilation) // stride for tap in range(kernel)
                   if (phase + pad - tap * dilation) % stride == 0]
        count = (outputs - phase + stride - 1) // stride
        found[Phase(count, len(offsets), dilation // math.gcd(dilation, stride) if len(offsets) > 1 else 1,
                    min(offsets, default=0))] += 1
    return found


def transposed_convolution(to: Assembly, name: str, x: Tensor, weight: Tensor, slide: Sliding, shape: Shape,
                           where: Where) -> Tensor:
    """Adds a transposed convolution as convolutions of the outputs' phases.

    Args:
        to: the network.
        name: name of its node.
        x: the image, [N, channels, extent...]; the batch axis may be missing.
        weight: [in, out / groups, kernel...].
        slide: stride, padding, dilation, groups.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output: of a node that interleaves the phases, or where all are one convolution, of that one with its
        channels moved among the points.
    """
    kernel = weight.shape[2:]
    batch = (1,) * (len(kernel) + 2 - len(x.shape))
    image, out = to.reshape(f"{name}.image", x, batch + x.shape, where), batch + shape
    kinds = [phases(outputs, taps, stride if extent > 1 else max(stride, WindowSlide(taps, 1, dilation).reach(1)),
                    before, dilation)  # from a single input no stride is ever taken: one at which no taps meet
             for outputs, taps, stride, (before, _), dilation, extent in
             zip(out[2:], kernel, slide.stride, slide.pad, slide.dilation, image.shape[2:], strict=True)]
    parts: list[Tensor] = []
    for chosen in combinations(*(kind.items() for kind in kinds)):
        if not all(phase.taps for phase, _ in chosen):
            continue  # outputs that no input adds to
        side_by_side = math.prod(times for _, times in chosen)
        taken = (out[1] * side_by_side, weight.shape[0] // slide.groups, *(phase.taps for phase, _ in chosen))
        filters = Tensor(taken) if weight.constant else to.plain_node(f"{name}.taps", "slice", [weight], taken, where)
        pad = tuple((-phase.first, WindowSlide(phase.taps, 1, phase.dilation).reach(phase.outputs) - extent
                     + phase.first) for (phase, _), extent in zip(chosen, image.shape[2:], strict=True))
        unit = Sliding((1,) * len(kernel), pad, tuple(phase.dilation for phase, _ in chosen), slide.groups)
        points = (out[0], out[1] * side_by_side, *(phase.outputs for phase, _ in chosen))
        parts.append(convolution(to, name if all(len(kind) == 1 for kind in kinds) else f"{name}.phase{len(parts)}",
                                 image, filters, unit, points, where))
    if all(len(kind) == 1 for kind in kinds) and parts:
        return _spread(to, name, parts[0], [kind.total() for kind in kinds], shape, where)
    return to.plain_node(name, "interleave", parts, shape, where)


def _spread(to: Assembly, name: str, x: Tensor, factors: Sequence[int], shape: Shape, where: Where) -> Tensor:
    """Channels [N, M * factors..., extent...] moved among the points: [N, M, extent * factor...]."""
    rank = len(factors)
    n, channels = x.shape[0], x.shape[1] // math.prod(factors)
    apart = to.reshape(f"{name}.apart", x, (n, channels, *factors, *x.shape[2:]), where)
    order = (0, 1, *(axis for pair in zip(range(2 + rank, 2 + 2 * rank), range(2, 2 + rank), strict=True)
                     for axis in pair))
    return to.reshape(f"{name}.spread", to.transpose(f"{name}.moved", apart, order, where), shape, where)
