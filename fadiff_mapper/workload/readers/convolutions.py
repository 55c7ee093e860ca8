"""Builds nodes from convolutions over one to three axes, also transposed, from gradients, and from recurrent layers.

Transposed convolutions. Frameworks define them by scattering: input i adds to the outputs i * stride + r * dilation -
pad. In gather form, output o = phase + stride * t reads the taps r for which phase + pad - r * dilation is a multiple
of the stride, at the inputs t + (phase + pad - r * dilation) / stride. So the outputs of one phase are a convolution of
stride 1 with some of the taps, without multiplications by inserted zeros. Phases that read the same inputs (all phases,
if the kernel is as long as the stride) are one convolution with their channels side by side.

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

from fadiff_mapper.workload import Window, make_operator
from fadiff_mapper.workload.node import NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape, sliding
from fadiff_mapper.workload.readers.assembly import Assembly, Call, Tensor, for_heads, linear, product
from fadiff_mapper.workload.window_slide import WindowSlide

# In the window of a transposed convolution, the stride is the outputs from one input to the next, the padding is the
# outputs that are cut off, and the dilation is the outputs from one point of the kernel to the next.

def convolution(to: Assembly, name: str, x: Tensor, weight: Tensor, window: Window, groups: int,
                shape: Shape) -> Tensor:
    """Adds a convolution of an image [N, channels, extent...], whose batch axis may be missing, with weights [out, in /
    groups, kernel...]; each group of channels is convolved by itself.

    One sliding axis has Q = 1, three are Z, P and Q. Over more axes only the multiply-accumulates are counted.
    """
    kernel = weight.shape[2:]
    if len(kernel) not in (1, 2, 3):
        macs = math.prod(shape) * math.prod(weight.shape[1:])
        return to.unknown(name, f"convolution over {len(kernel)} axes", [x, weight], [shape], macs)[0]
    batch = (1,) * (len(kernel) + 2 - len(x.shape))  # a missing batch axis
    flat = (1,) if len(kernel) == 1 else ()
    image = to.reshape(f"{name}.image", x, batch + x.shape + flat)
    filters = to.reshape(f"{name}.filters", weight, weight.shape + flat)
    n, _, *points = batch + shape + flat
    m, c, grouped = weight.shape[0] // groups, weight.shape[1], groups > 1
    op = ("depthwise" if grouped and len(kernel) < 3 and m == c == 1 else
          ("grouped_conv" if grouped else "conv") + ("3d" if len(kernel) == 3 else ""))
    axes = sliding(op)
    dims = {"N": n, **({"G": groups} if grouped else {}), "M": m, "C": c,
            **dict(zip([axis[0] for axis in axes], points, strict=True)),
            **dict(zip([axis[1] for axis in axes], filters.shape[2:], strict=True))}
    layer = make_operator(op, dims, window.stride + flat, window.dilation + flat, where=to.where)
    return to.operator(name, layer, {"Inputs": image, "Weights": filters}, shape,
                       (*window.pad, *((0, 0) for _ in flat)))


def deformable_convolution(call: Call, weight: Tensor, groups: int) -> Tensor:
    """Adds a convolution at computed offsets: gathered points times weights [out, in / groups, kernel...]."""
    to, name = call.to, call.name
    (n, m), points, taps = call.out[:2], math.prod(call.out[2:]), math.prod(weight.shape[1:])
    columns = to.node(f"{name}.points", "gather", call.tensors, (n, groups, points, taps))
    filters = to.reshape(f"{name}.filters", weight, (groups, m // groups, taps))
    rows = product(to, name, columns, to.turn(f"{name}.turned", filters), (n, groups, points, m // groups))
    return to.reshape(f"{name}.image", to.turn(f"{name}.channels", rows), call.out)


@dataclass(frozen=True)
class Phase:
    """One axis of a transposed convolution: the outputs of a phase, and the inputs and taps that they read."""

    outputs: int  # number of outputs of the phase
    taps: int  # points of the kernel that each output reads
    dilation: int  # inputs from one tap to the next
    first: int  # the input that the first output reads first; negative in the padding


def phases(outputs: int, kernel: int, stride: int, pad: int, dilation: int) -> Counter[Phase]:
    """The distinct phases of a transposed convolution along one axis, each with the number of equal phases.

    `stride` counts outputs from one input to the next, `pad` outputs cut off before the first, `dilation` outputs from
    one point of the kernel to the next.
    """
    found: Counter[Phase] = Counter()
    for phase in range(min(stride, outputs)):
        offsets = [(phase + pad - tap * dilation) // stride for tap in range(kernel)
                   if (phase + pad - tap * dilation) % stride == 0]
        count = (outputs - phase + stride - 1) // stride
        found[Phase(count, len(offsets), dilation // math.gcd(dilation, stride) if len(offsets) > 1 else 1,
                    min(offsets, default=0))] += 1
    return found


def transposed_convolution(to: Assembly, name: str, x: Tensor, weight: Tensor, window: Window, groups: int,
                           shape: Shape) -> Tensor:
    """Adds a transposed convolution, with arguments as for `convolution`: a convolution for each phase of the outputs,
    and a node that interleaves them. If one convolution serves all phases, its channels become points instead."""
    kernel = weight.shape[2:]
    batch = (1,) * (len(kernel) + 2 - len(x.shape))
    image, out = to.reshape(f"{name}.image", x, batch + x.shape), batch + shape
    kinds = [phases(outputs, taps, stride if extent > 1 else max(stride, WindowSlide(taps, 1, dilation).reach(1)),
                    before, dilation)  # a single input: any stride at which taps do not overlap
             for outputs, taps, stride, (before, _), dilation, extent in
             zip(out[2:], kernel, window.stride, window.pad, window.dilation, image.shape[2:], strict=True)]
    single = all(len(kind) == 1 for kind in kinds)
    parts: list[Tensor] = []
    for chosen in combinations(*(kind.items() for kind in kinds)):
        if not all(phase.taps for phase, _ in chosen):
            continue  # outputs that no input adds to
        side_by_side = math.prod(times for _, times in chosen)
        taken = (out[1] * side_by_side, weight.shape[0] // groups, *(phase.taps for phase, _ in chosen))
        filters = Tensor(taken) if weight.constant else to.node(f"{name}.taps", "slice", [weight], taken)
        pad = tuple((-phase.first, WindowSlide(phase.taps, 1, phase.dilation).reach(phase.outputs) - extent
                     + phase.first) for (phase, _), extent in zip(chosen, image.shape[2:], strict=True))
        unit = Window(taken[2:], (1,) * len(kernel), pad, tuple(phase.dilation for phase, _ in chosen))
        points = (out[0], out[1] * side_by_side, *(phase.outputs for phase, _ in chosen))
        parts.append(convolution(to, name if single else f"{name}.phase{len(parts)}", image, filters, unit, groups,
                                 points))
    if not single or not parts:
        return to.node(name, "interleave", parts, shape)
    factors, rank = [kind.total() for kind in kinds], len(kinds)  # [N, M * factors..., extent...] spread
    (n, channels, *extents), (made,) = parts[0].shape, parts
    apart = to.reshape(f"{name}.apart", made, (n, channels // math.prod(factors), *factors, *extents))
    pairs = zip(range(2 + rank, 2 + 2 * rank), range(2, 2 + rank), strict=True)
    moved = to.transpose(f"{name}.moved", apart, (0, 1, *(axis for pair in pairs for axis in pair)))
    return to.reshape(f"{name}.spread", moved, shape)


# PyTorch gives the gradients of all other operators as products and pointwise nodes.
#
# d input of a convolution      the transposed convolution of the output's gradient with the same weights
# d weights                     a convolution of the input (channels as its batch, the batch as its channels) with the
#                               output's gradient as its kernel: stride and dilation change places
# attention o = p v, p = softmax(q k^T)
#                               q k^T once more, dv = p^T do, dp = do v^T, dq = ds k, dk = ds^T q: five products

def convolution_gradients(to: Assembly, name: str, operands: Sequence[Tensor], window: Window, groups: int,
                          transposed: bool, wanted: Sequence[bool]) -> list[Tensor]:
    """Adds the wanted gradients of input, weights and bias; constants replace the others. The operands are the gradient
    of the output, the input and the weights."""
    gradient, x, weight = operands
    back = convolution if transposed else transposed_convolution
    channels, every = gradient.shape[1], (0, *range(2, len(gradient.shape)))
    return [
        back(to, f"{name}.input", gradient, weight, window, groups, x.shape) if wanted[0] else Tensor(x.shape),
        (_weights(to, f"{name}.weights", *((gradient, x) if transposed else (x, gradient)), window, groups,
                  weight.shape) if wanted[1] else Tensor(weight.shape)),
        to.node(f"{name}.bias", "sum", [gradient], (channels,), every) if wanted[2] else Tensor((channels,))]


def _weights(to: Assembly, name: str, image: Tensor, kernel: Tensor, window: Window, groups: int,
             shape: Shape) -> Tensor:
    """The gradient of weights [out, in / groups, taps...]: of an image [N, in, ...] and a kernel [N, out, ...]."""
    n, rank = image.shape[0], len(image.shape)

    def put(tag: str, x: Tensor, channels: int, order: tuple[int, ...]) -> Tensor:
        apart = to.reshape(f"{name}.{tag}_groups", x, (n, groups, channels, *x.shape[2:]))
        moved = to.transpose(f"{name}.{tag}_moved", apart, (*order, *range(3, rank + 1)))
        first, second, third = moved.shape[:3]
        lead = (first, second * third) if tag == "image" else (first * second, third)
        return to.reshape(f"{name}.{tag}", moved, (*lead, *x.shape[2:]))
    data, taps = put("image", image, shape[1], (2, 1, 0)), put("kernel", kernel, shape[0] // groups, (1, 2, 0))
    reads = [WindowSlide(size, 1, stride).reach(1) + (extent - 1) * dilation
             for size, stride, dilation, extent in zip(kernel.shape[2:], window.stride, window.dilation, shape[2:],
                                                       strict=True)]
    pad = tuple((before, read - extent - before)  # negative behind the last window: points that it did not read
                for (before, _), read, extent in zip(window.pad, reads, image.shape[2:], strict=True))
    turned = Window(kernel.shape[2:], window.dilation, pad, window.stride)
    made = convolution(to, name, data, taps, turned, groups, (shape[1], shape[0], *shape[2:]))
    return to.transpose(f"{name}.back", made, (1, 0, *range(2, rank)))


def attention_gradients(to: Assembly, name: str, gradient: Tensor, operands: Sequence[Tensor]) -> list[Tensor]:
    """Adds the gradients of queries, keys and values, the operands of `assembly.attention`, each in the shape of its
    operand, from the gradient of the output, [..., heads, tokens, size]."""
    q, heads = operands[0], operands[0].shape[:-2]
    k, v = (for_heads(to, f"{name}.{what}", t, heads) for what, t in zip(("keys", "values"), operands[1:], strict=True))
    scores = (*heads, q.shape[-2], k.shape[-2])

    def summed(tag: str, t: Tensor, wanted: Shape) -> Tensor:
        return t if math.prod(t.shape) == math.prod(wanted) else to.node(
            f"{name}.{tag}", "other", [t], wanted, what="sum over heads that share")
    products = product(to, f"{name}.qk", q, to.turn(f"{name}.keys_t", k), scores)
    rows = to.node(f"{name}.softmax", "softmax", [products], scores, (-1,))
    of_values = product(to, f"{name}.dv", to.turn(f"{name}.rows_t", rows), gradient, v.shape)
    of_rows = product(to, f"{name}.dp", gradient, to.turn(f"{name}.values_t", v), scores)
    both = to.node(f"{name}.ds_rows", "mul", [rows, of_rows], scores)
    of_scores = to.node(f"{name}.ds", "softmax", [both], scores, (-1,))
    of_queries = product(to, f"{name}.dq", of_scores, k, q.shape)
    of_keys = product(to, f"{name}.dk", to.turn(f"{name}.ds_t", of_scores), q, k.shape)
    return [of_queries, summed("dk_shared", of_keys, operands[1].shape),
            summed("dv_shared", of_values, operands[2].shape)]


# A recurrent layer of T steps is two products. The inputs' part of the gates is one product over all steps. The state's
# part is a product of one step, repeated T times, one step after the other:
#
# x [T, N, in] -> gates [T, N, gates * hidden]  one product of T * N rows
# states [T, N, out] -> [T, N, gates * hidden]  T products of N rows, which read the state's weights T times
#
# The graph of a network has no cycles. So the states that the second product reads are a node, and the outputs, which
# join both products, are another node; no tile is followed through them.

Recurrence = Sequence[Tensor]
"""The weights of one layer in one direction: of inputs [gates * hidden, in], of states [gates * hidden, out], and the
projection [out, hidden] of states where there is one."""


def recurrent_layer(to: Assembly, name: str, x: Tensor, weights: Recurrence) -> Tensor:
    """Adds a layer in one direction over a sequence [T, N, in], and returns the states of all steps, [T, N, out]."""
    (steps, batch, _), (of_inputs, of_states, *projection) = x.shape, weights
    out = of_states.shape[1]

    def every_step(tag: str, before: Tensor, weight: Tensor) -> Tensor:
        turned = to.turn(f"{name}.{tag}.weight", weight)
        right = to.expand(f"{name}.{tag}.weights", turned, (steps, *turned.shape))
        return product(to, f"{name}.{tag}", before, right, (steps, batch, weight.shape[0]))
    from_inputs = linear(to, f"{name}.inputs", x, of_inputs)
    before = to.node(f"{name}.before", "recurrence", [from_inputs], (steps, batch, out))
    joined = [from_inputs, every_step("states", before, of_states)]
    if not projection:
        return to.node(f"{name}.after", "recurrence", joined, (steps, batch, out))
    inner = to.node(f"{name}.hidden", "recurrence", joined, (steps, batch, projection[0].shape[1]))
    return every_step("projection", inner, projection[0])


def recurrent_stack(to: Assembly, name: str, x: Tensor, layers: Sequence[Sequence[Recurrence]]) -> Tensor:
    """Adds layers on top of each other, each in one or two directions, over a sequence [T, N, in], and returns the
    states of the last one, [T, N, directions * out]."""
    for number, directions in enumerate(layers):
        tag = f".{number}" if len(layers) > 1 else ""
        outs = [recurrent_layer(to, name + tag + (way if len(directions) > 1 else ""), x, weights)
                for way, weights in zip((".forward", ".backward"), directions, strict=False)]
        steps, batch, width = outs[0].shape
        x = outs[0] if len(outs) == 1 else to.node(f"{name}.both{tag.lstrip('.')}", "concat", outs,
                                                   (steps, batch, width * len(outs)))
    return x


def repeated(to: Assembly, name: str, body: Assembly, times: int, operands: Sequence[Tensor],
             shapes: Sequence[Shape | None], in_turn: bool = True) -> list[Tensor]:
    """Adds the operators of a loop's body, each repeated for all passes.

    `body` has the nodes of one pass, `shapes` the shapes of the loop's results; `in_turn` is False where no pass reads
    a result of another pass. Each result reads all operators. No tile is followed within, into or out of the loop.
    """
    between, what, where = "recurrence" if in_turn else "other", "loop", to.where
    made: list[Tensor] = []
    for node in body.nodes:
        to.where = node.where
        if node.op == NOT_UNDERSTOOD or (node.macs and not node.layer):
            made += to.unknown(node.name, f"{node.what or node.op} (x {times})", operands, [node.shape],
                               *(None if macs is None else macs * times for macs in (node.macs, node.possible)))
        elif node.layer:
            layer = replace(node.layer, repeat=node.layer.repeat * times)
            read = [to.node(f"{node.name}.{space}", between, operands, layer.tensor_shape(space), what=what)
                    for space in node.operands]
            made.append(to.put(replace(node, layer=layer, inputs=tuple(t.node for t in read if t.node), pad=None,
                                       shape=layer.tensor_shape(layer.problem.output.name))))
    to.folded += body.folded
    to.where = where
    return [to.node(f"{name}.result{index}", between, made or operands, shape, what=what)
            for index, shape in enumerate(shapes)]
