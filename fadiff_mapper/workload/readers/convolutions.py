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
from dataclasses import dataclass, replace
from itertools import product as combinations

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Node, make_operator
from fadiff_mapper.workload.node import NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape, sliding
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, for_heads, linear, product, turned
from fadiff_mapper.workload.window_slide import WindowSlide

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


# Gradients of all other operators are products and pointwise steps already, or PyTorch takes them apart into these.
#
# d input of a convolution      the transposed convolution of the output's gradient with the same weights
# d weights                     a convolution of the input (channels as its batch, the batch as its channels) with the
#                               output's gradient as its kernel: stride and dilation change places
# attention o = p v, p = softmax(q k^T)
#                               q k^T once more, dv = p^T do, dp = do v^T, dq = ds k, dk = ds^T q: five products

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


# A layer of T steps is two products. The gates' part that comes from the layer's inputs is one product over all
# steps; the part that comes from the state is a product of one step, repeated T times, each run behind the one
# before:
#
# x [T, N, in] -> gates [T, N, gates * hidden]  one product of T * N rows
# states [T, N, out] -> [T, N, gates * hidden]  T products of N rows, which read the state's weights T times
#
# The graph of a network has no cycles, so the states that the second product reads stand there as a node of their
# own, and so do the outputs, which join both products: no tile is followed through either.

@dataclass(frozen=True)
class Recurrence:
    """The weights of one layer in one direction.

    Attributes:
        inputs: [gates * hidden, in].
        states: [gates * hidden, out].
        projection: [out, hidden], where the state is projected.
    """

    inputs: Tensor
    states: Tensor
    projection: Tensor | None = None


def recurrent_layer(to: Assembly, name: str, x: Tensor, weights: Recurrence, where: Where) -> Tensor:
    """Adds a layer in one direction.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the sequence, [T, N, in].
        weights: its weights.
        where: place in the source, for messages.

    Returns:
        The states of all steps, [T, N, out].
    """
    steps, batch, _ = x.shape
    wide, out = weights.states.shape
    gates: Shape = (steps, batch, wide)
    from_inputs = linear(to, f"{name}.inputs", x, weights.inputs, gates, where)
    before = to.plain_node(f"{name}.before", "recurrence", [from_inputs], (steps, batch, out), where)
    from_states = product(to, f"{name}.states", before, _every_step(to, f"{name}.states", weights.states, steps, where),
                          gates, where)
    joined = [from_inputs, from_states]
    if weights.projection is None:
        return to.plain_node(f"{name}.after", "recurrence", joined, (steps, batch, out), where)
    hidden = weights.projection.shape[1]
    inner = to.plain_node(f"{name}.hidden", "recurrence", joined, (steps, batch, hidden), where)
    return product(to, f"{name}.projection", inner,
                   _every_step(to, f"{name}.projection", weights.projection, steps, where), (steps, batch, out), where)


def repeated(to: Assembly, name: str, body: Assembly, times: int, operands: Sequence[Tensor],
             shapes: Sequence[Shape | None], where: Where, in_turn: bool = True) -> list[Tensor]:
    """Adds the operators of a loop's body, each repeated for all passes.

    Args:
        to: the network.
        name: prefix of the nodes' names, unless those of the body have it already.
        body: the nodes of one pass.
        times: passes.
        operands: the values that the loop reads.
        shapes: extents of the loop's results.
        where: place in the source, for messages.
        in_turn: False where no pass reads a result of another.

    Returns:
        The results, each computed from all operators. No tile is followed within a pass, nor from or into the loop.
    """
    between = "recurrence" if in_turn else "other"
    what = "" if in_turn else "loop"
    made: list[Tensor] = []
    for node in body.nodes:
        if node.op == NOT_UNDERSTOOD or (node.macs and not node.layer):
            made += to.unknown(node.name, f"{node.what or node.op} (x {times})", operands, [node.shape], node.where,
                               *(None if macs is None else macs * times for macs in (node.macs, node.possible)))
        elif node.layer:
            layer = replace(node.layer, repeat=node.layer.repeat * times)
            read = [to.plain_node(f"{node.name}.{space}", between, operands, layer.tensor_shape(space), node.where,
                                  what=what) for space in node.operands]
            made.append(to.put(replace(node, layer=layer, inputs=tuple(t.node for t in read if t.node), pad=None,
                                       shape=layer.tensor_shape(layer.problem.output.name))))
    to.folded += body.folded
    return [to.plain_node(f"{name}.result{index}", between, made or operands, shape, where, what=what)
            for index, shape in enumerate(shapes)]


def _every_step(to: Assembly, name: str, weight: Tensor, steps: int, where: Where) -> Tensor:
    """A weight [out, in] as the right factor of every step's product: [T, in, out]."""
    turned = to.transpose(f"{name}.weight", weight, (1, 0), where)
    return to.expand(f"{name}.weights", turned, (steps, *turned.shape), where)


def recurrent_stack(to: Assembly, name: str, x: Tensor, layers: list[list[Recurrence]], where: Where) -> Tensor:
    """Adds layers on top of each other.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the sequence, [T, N, in].
        layers: for each layer its directions, one or two.
        where: place in the source, for messages.

    Returns:
        The states of the last layer, [T, N, directions * out].
    """
    for number, directions in enumerate(layers):
        outs = [recurrent_layer(to, _tag(name, number, len(layers), back, len(directions)), x, weights, where)
                for back, weights in enumerate(directions)]
        steps, batch, width = outs[0].shape
        x = outs[0] if len(outs) == 1 else to.plain_node(
            f"{name}.both{number}" if len(layers) > 1 else f"{name}.both", "concat", outs,
            (steps, batch, width * len(outs)), where)
    return x


def _tag(name: str, number: int, layers: int, back: int, directions: int) -> str:
    """A name for one layer in one direction, with no more in it than is needed."""
    return (name + (f".{number}" if layers > 1 else "")
            + ((".forward", ".backward")[back] if directions > 1 else ""))
