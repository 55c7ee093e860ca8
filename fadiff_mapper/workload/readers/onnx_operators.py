"""Turns ONNX operators into nodes: by tables of names, or by a function where attributes matter.

`LAYERS` holds the operators with multiply-accumulates, `OPERATORS` other operators that need attributes. An operator in
no table becomes a node that is not understood. Names follow the ONNX operator sets; ONNX Runtime's own operators have
their domain in front. Attributes and the order of operands follow github.com/onnx/onnx, docs/Operators.md, and
github.com/microsoft/onnxruntime, docs/ContribOperators.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import listed
from fadiff_mapper.workload import Window
from fadiff_mapper.workload.node import KIND
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers import assembly, convolutions
from fadiff_mapper.workload.readers.assembly import Call, Details, Tensor, by_name
from fadiff_mapper.workload.window_slide import WindowSlide


@dataclass(frozen=True)
class OnnxCall(Call):
    """A node of an ONNX graph; the name of its operator has the domain in front, unless that is ONNX's own."""

    attributes: Mapping[str, Any]  # attributes by name, without subgraphs
    numbers: Sequence[tuple[int, ...] | None]  # per operand, its values if it is a small constant of whole numbers
    version: int  # version of the operator set
    lost: str = ""  # the first operator without a shape, where an operand's shape is not known

    @property
    def ended(self) -> str:
        """The end of a message on an unknown shape: the operator at which shapes end."""
        return f": shapes end at {self.lost}" if self.lost else ""

    def optional(self, index: int) -> Tensor | None:
        """An operand, None where it is left out."""
        return self.operands[index] if index < len(self.operands) else None

    def whole(self, name: str, default: int) -> int:
        """An attribute that is a whole number, else the default."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def text(self, name: str) -> str:
        """An attribute that is a text, else an empty one."""
        stated = self.attributes.get(name, b"")
        return stated.decode(errors="replace") if isinstance(stated, bytes) else str(stated)

    def integers(self, name: str, default: Shape, least: int = 1) -> Shape:
        """An attribute that is a list of whole numbers; the default where it is missing or empty. Raises SpecError
        where its length differs from the default's, or a number is below `least`."""
        stated = self.attributes.get(name)
        values = tuple(stated) if isinstance(stated, list | tuple) and stated else default
        if len(values) != len(default) or not all(isinstance(value, int) and value >= least for value in values):
            raise self.to.where.error(f"{name} is {list(values)}", f"{len(default)} whole numbers >= {least}")
        return values

    def axis(self, default: int) -> int:
        """The attribute `axis` of the first operand, counted from 0. Raises SpecError where there is no such axis."""
        rank, axis = len(self.first.shape), self.whole("axis", default)
        if not -rank <= axis < rank:
            raise self.to.where.error(f"axis is {axis}, its operand has {rank} axes")
        return axis % rank

    def padding(self, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape,
                transposed: bool = False) -> tuple[tuple[int, int], ...]:
        """Padding of a window over a tensor, as stated, or by `auto_pad`, so that the output is input / stride, rounded
        up; of a transposed convolution, which cuts outputs off, from the shape of the output.

        SAME_UPPER puts the larger half of an odd total behind, other modes in front.
        """
        count, mode = len(kernel), self.attributes.get("auto_pad") or b"NOTSET"
        if mode not in (modes := (b"NOTSET", b"SAME_UPPER", b"SAME_LOWER", b"VALID")):
            raise self.to.where.error(f"auto_pad is {self.text('auto_pad')}", listed(map(bytes.decode, modes)))
        if mode not in (b"SAME_UPPER", b"SAME_LOWER") and not (transposed and self.attributes.get("output_shape")):
            values = (0, 0) * count
            if transposed or mode != b"VALID":
                values = self.integers("pads", values, 0)
            return tuple(zip(values[:count], values[count:], strict=True))
        extra = self.integers("output_padding", (0,) * count, 0) if transposed else (0,) * count
        pads = []
        for extent, out, k, s, d, more in zip(x.shape[-count:], self.out[-count:], kernel, stride, dilation, extra,
                                              strict=True):
            total = max(s * (extent - 1) + more + WindowSlide(k, 1, d).reach(1) - out if transposed
                        else WindowSlide(k, s, d).reach(out) - extent, 0)
            before = total // 2 if mode == b"SAME_UPPER" else total - total // 2
            pads.append((before, total - before))
        return tuple(pads)


Maker = Callable[[OnnxCall], Tensor | list[Tensor]]
"""Adds the nodes of a call and returns its outputs, or the first of them."""


SAME = ["Identity", "Dropout", "Cast", "CastLike", "Optional", "OptionalGetElement"]
"""Operators whose first output is their first operand."""

NAMES = by_name({
    "relu": "Relu",
    "gelu": "Gelu com.microsoft.Gelu com.microsoft.FastGelu com.microsoft.BiasGelu com.microsoft.QuickGelu",
    "sigmoid": "Sigmoid com.microsoft.QLinearSigmoid", "tanh": "Tanh", "erf": "Erf", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "neg": "Neg", "abs": "Abs", "reciprocal": "Reciprocal", "elu": "Elu", "celu": "Celu",
    "selu": "Selu", "softplus": "Softplus", "hardsigmoid": "HardSigmoid", "hardswish": "HardSwish", "mish": "Mish",
    "round": "Round", "floor": "Floor", "ceil": "Ceil", "sin": "Sin", "cos": "Cos", "prelu": "PRelu", "silu": "Swish",
    "leakyrelu": "LeakyRelu com.microsoft.QLinearLeakyRelu", "clip": "Clip", "not": "Not",
    "batchnorm": "BatchNormalization", "quantize": "QuantizeLinear com.microsoft.QuantizeLinear",
    "dequantize": "DequantizeLinear com.microsoft.DequantizeLinear",
    "elementwise": "IsNaN IsInf Sign Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh Softsign ThresholdedRelu Shrink "
                   "Trilu BitwiseNot Binarizer",
    "add": "Add Sum Mean com.microsoft.QLinearAdd", "sub": "Sub", "mul": "Mul BitShift com.microsoft.QLinearMul",
    "div": "Div Mod", "pow": "Pow", "max": "Max", "min": "Min", "where": "Where", "and": "And BitwiseAnd",
    "or": "Or BitwiseOr", "compare": "Xor Equal Less Greater LessOrEqual GreaterOrEqual BitwiseXor",
    "concat": "Concat com.microsoft.QLinearConcat", "slice": "Split Slice CenterCropPad",
    "gather": "Gather GatherElements GatherND DepthToSpace SpaceToDepth ReverseSequence Col2Im MaxUnpool GridSample "
              "RoiAlign MaxRoiPool AffineGrid SplitToSequence SequenceAt Compress SequenceConstruct SequenceInsert "
              "ConcatFromSequence",
    "pad": "Pad", "expand": "Tile", "resize": "Resize Upsample", "scatter": "ScatterElements ScatterND Scatter OneHot",
    "sort": "TopK NonZero NonMaxSuppression Unique ArrayFeatureExtractor",
    "other": "ArgMax ArgMin BitCast Bernoulli Constant ConstantOfShape CumProd MelWeightMatrix BlackmanWindow "
             "HammingWindow HannWindow ImageDecoder Multinomial NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss "
             "OptionalHasElement RandomNormal RandomUniform Range RegexFullMatch RotaryEmbedding SequenceEmpty "
             "SequenceErase SequenceLength StringConcat StringNormalizer StringSplit SwiGLU TensorScatter "
             "TfIdfVectorizer",
}) | {f"ai.onnx.ml.{name}": "other" for name in (
    "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer", "Imputer",
    "LabelEncoder", "Normalizer", "OneHotEncoder", "Scaler", "ZipMap", "TreeEnsemble", "TreeEnsembleClassifier",
    "TreeEnsembleRegressor")
} | {f"com.microsoft.{name}": "other" for name in (
    "BiasAdd", "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "BitmaskBiasDropout", "BitmaskDropout", "ComplexMul",
    "ComplexMulConj", "CropAndResize", "DequantizeBFP", "DequantizeWithOrder", "EmbedLayerNormalization", "ExpandDims",
    "GatherBlockQuantized", "GatherND", "GemmaRotaryEmbedding", "GridSample", "GroupNorm", "MaxpoolWithMask",
    "MulInteger", "MurmurHash3", "NGramRepeatBlock", "NhwcMaxPool", "Pad", "QLinearReduceMean", "QLinearSoftmax",
    "QLinearWhere", "QuantizeBFP", "QuantizeWithOrder", "Range", "ReduceSumInteger", "RelativePositionBias",
    "RemovePadding", "RestorePadding", "RotaryEmbedding", "SkipGroupNorm", "Tokenizer", "TorchEmbedding", "Trilu",
    "UnfoldTensor", "Unique")
}
"""ONNX operators without multiply-accumulates -> operation of the node (`node.KINDS`); no tile passes "other"."""

SUMMING = ("Col2Im", "RoiAlign", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss",
           "com.microsoft.QLinearReduceMean", "com.microsoft.ReduceSumInteger")
"""Operators in `NAMES` that sum elements; scatters that add, and resizings against aliasing, sum elements, too."""

REDUCE = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin",
          **dict.fromkeys(("ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
                          "reduction")}
"""Reductions -> their names here."""

FILLS = ["Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike"]
"""Operators that read only the shape of a tensor: their results are constants."""


def _pool(call: OnnxCall) -> Tensor:
    """A pool, whose window covers all sliding axes where it is global."""
    kernel = call.first.shape[2:]
    ones = (1,) * len(kernel)
    window = Window(kernel, kernel, ((0, 0),) * len(kernel), ones)
    if "Global" not in call.operator:
        kernel, stride, dilation = (call.integers(name, ones) for name in ("kernel_shape", "strides", "dilations"))
        window = Window(kernel, stride, call.padding(call.first, kernel, stride, dilation), dilation)
    if call.first.node is None:
        raise call.to.where.error("pools a constant", "a computed tensor")
    return call.node("maxpool" if "Max" in call.operator else "avgpool", [call.first], window=window)


def _softmax(call: OnnxCall) -> Tensor:
    """Whole rows along one axis; before version 13 of the operator set along all axes from `axis` on."""
    axis = call.axis(-1 if call.version >= 13 else 1)
    axes = (axis,) if call.version >= 13 else tuple(range(axis, len(call.first.shape)))
    return call.node("logsoftmax" if call.operator == "LogSoftmax" else "softmax", [call.first], axes)


def _norm(op: str, first_axis: int) -> Maker:
    """A normalisation over the axes from the attribute `axis`, by default `first_axis`, to the last."""
    return lambda call: call.node(op, [call.first, *call.scales], tuple(range(call.axis(first_axis),
                                                                              len(call.first.shape))))


def _skip_norm(op: str) -> Maker:
    """A sum and its normalisation along the last axis; the last of four outputs is the sum."""
    def make(call: OnnxCall) -> list[Tensor]:
        total = call.to.node(f"{call.name}.sum", "add", call.tensors[:2], call.out)
        return [call.node(op, [total, *call.scales], (-1,)), Tensor(()), Tensor(()), total]
    return make


def _along(op: str, default: int) -> Maker:
    """An operator that needs whole rows along the attribute `axis`."""
    return lambda call: call.node(op, [call.first], (call.axis(default),))


def _reduce(call: OnnxCall) -> Tensor:
    """A reduction over the axes in the attribute (older models) or the second operand; by default over all axes."""
    stated = call.attributes.get("axes")
    given = tuple(stated) if stated is not None else (call.numbers[1] if len(call.numbers) > 1 else ())
    if given is None:
        return call.node("other", call.tensors, what=f"{call.operator} over computed axes")
    if not given and call.whole("noop_with_empty_axes", 0):
        return call.first
    return call.node(REDUCE[call.operator], [call.first], given or tuple(range(len(call.first.shape))))


def _transpose(call: OnnxCall) -> Tensor:
    """A transpose; without the attribute `perm` the axes are reversed."""
    rank = len(call.first.shape)
    order = call.integers("perm", tuple(reversed(range(rank))), 0)
    if sorted(order) != list(range(rank)):
        raise call.to.where.error(f"perm is {list(order)}", f"each of 0 to {rank - 1} once")
    return call.to.transpose(call.name, call.first, order)


OPERATORS: dict[str, Maker] = by_name({
    lambda call: call.to.reshape(call.name, call.first, call.out): "Reshape Flatten Squeeze Unsqueeze",
    _pool: "MaxPool AveragePool GlobalMaxPool GlobalAveragePool LpPool GlobalLpPool "
           "com.microsoft.QLinearGlobalAveragePool com.microsoft.QLinearAveragePool",
    _softmax: "Softmax LogSoftmax Hardmax", _reduce: " ".join(REDUCE),
    _along("cumsum", -1): "CumSum", _along("rmsnorm", -1): "LpNormalization", _along("localresponse", 1): "LRN",
    lambda call: call.node("dynamicquantize", [call.first], tuple(range(len(call.first.shape)))):
        "DynamicQuantizeLinear",
    _norm("layernorm", -1): "LayerNormalization com.microsoft.LayerNormalization",
    _norm("rmsnorm", -1): "RMSNormalization SimplifiedLayerNormalization com.microsoft.SimplifiedLayerNormalization",
    _skip_norm("layernorm"): "com.microsoft.SkipLayerNormalization",
    _skip_norm("rmsnorm"): "com.microsoft.SkipSimplifiedLayerNormalization",
    _norm("groupnorm", 1): "GroupNormalization", _norm("instancenorm", 2): "InstanceNormalization",
    _norm("instancenorm", 1): "MeanVarianceNormalization", _transpose: "Transpose",
    lambda call: call.to.expand(call.name, call.first, call.out): "Expand",
})
"""Operators without multiply-accumulates that need attributes; without known shapes they are not understood."""


def _convolution(data: int, weights: int, transposed: bool = False) -> Callable[[OnnxCall], Tensor]:
    """A convolution whose image and weights are the operands at these places."""
    def make(call: OnnxCall) -> Tensor:
        x, weight = call.operand(data), call.operand(weights)
        kernel, groups = weight.shape[2:], call.whole("group", 1)
        stride, dilation = (call.integers(name, (1,) * len(kernel)) for name in ("strides", "dilations"))
        if call.integers("kernel_shape", kernel) != kernel or not len(kernel) + 2 == len(x.shape) == len(call.out):
            raise call.to.where.error(f"weights {list(weight.shape)} do not fit a tensor {list(x.shape)} with the "
                                      f"attribute kernel_shape {call.attributes.get('kernel_shape')}")
        channels = weight.shape[0] if transposed else weight.shape[1] * groups
        if groups < 1 or weight.shape[0] % groups or channels != x.shape[1]:
            raise call.to.where.error(f"{groups} groups of weights {list(weight.shape)} on {x.shape[1]} channels")
        window = Window(kernel, stride, call.padding(x, kernel, stride, dilation, transposed), dilation)
        made = convolutions.transposed_convolution if transposed else convolutions.convolution
        return made(call.to, call.name, x, weight, window, groups, call.out)
    return make


def _fused_convolution(call: OnnxCall) -> Tensor:
    x, name = call.plus(_convolution(0, 1)(call), call.optional(3)), call.text("activation")
    op = NAMES.get(name, "")
    return call.to.node(f"{call.name}.{name}", op, [x], call.out) if KIND.get(op) == "pointwise" else x


GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}  # ONNX's recurrent layers -> number of gates


def _recurrent(call: OnnxCall) -> list[Tensor]:
    """LSTM, GRU, RNN: one layer in one or both directions, whose outputs have an axis of directions.

    Integer weights are transposed: [directions, in, gates * hidden].
    """
    to, (x, inputs, states) = call.to, (call.operand(index) for index in range(3))
    if not len(x.shape) == len(inputs.shape) == len(states.shape) == 3 or call.whole("layout", 0):
        raise to.where.error(f"operands {list(x.shape)}, {list(inputs.shape)} and {list(states.shape)}, layout "
                             f"{call.whole('layout', 0)}", "three axes each, and the layout 0")
    directions, own = inputs.shape[0], [t.shape[1:] if call.operator in GATES else t.shape[:0:-1]
                                        for t in (inputs, states)]
    (wide, _), (rows, hidden) = own
    if directions not in (1, 2) or states.shape[0] != directions:
        raise to.where.error(f"weights for {directions} and {states.shape[0]} directions", "1 or 2, the same for both")
    if not wide == rows == GATES.get(call.operator, 4) * hidden or call.whole("hidden_size", hidden) != hidden or (
            call.text("direction") == "bidirectional") != (directions == 2):
        raise to.where.error(f"weights {list(inputs.shape)} and {list(states.shape)}, hidden_size "
                             f"{call.whole('hidden_size', hidden)}, direction {call.text('direction') or 'forward'}",
                             "weights of as many directions and units")
    outs = []
    for way in ("",) if directions == 1 else (".forward", ".backward"):
        weights = [Tensor(shape) if t.constant else to.node(f"{call.name}.{what}", "slice", [t], shape)
                   for t, shape, what in zip((inputs, states), own, ("weights", "state_weights"), strict=True)]
        outs.append(convolutions.recurrent_layer(to, call.name + way, x, weights))
    steps, batch, width = outs[0].shape
    shape = (steps, directions, batch, width)
    every = (to.reshape(f"{call.name}.steps", outs[0], shape) if directions == 1 else
             to.node(f"{call.name}.both", "concat", outs, shape))
    return [every, *(to.node(f"{call.name}.last{index}", "slice", outs, shape[1:])
                     for index in range(len(call.outs) - 1))]


def _product(left: int, right: int, bias: int | None = None) -> Maker:
    """A product of the operands at these places, transposed as `transA` and `transB` say. With a place for a bias, the
    operands must be matrices, and a computed bias is added."""
    def make(call: OnnxCall) -> Tensor:
        if call.whole("transBatchA", 0) or call.whole("transBatchB", 0):
            return call.to.unknown(call.name, call.operator, call.tensors, [call.out])[0]
        a, b = call.operand(left), call.operand(right)
        if bias is not None and not len(a.shape) == len(b.shape) == 2:
            raise call.to.where.error(f"operands {list(a.shape)} and {list(b.shape)}", "two matrices")
        a, b = (call.to.turn(f"{call.name}.{tag}", t) if call.whole(key, 0) else t
                for tag, t, key in (("left", a, "transA"), ("right", b, "transB")))
        return call.plus(call.product(a, b), None if bias is None else call.optional(bias))
    return make


def _fourier(call: OnnxCall) -> Tensor:
    x = call.operand(0)

    def number(place: int) -> int:
        stated = call.numbers[place] if place < len(call.numbers) else None
        return stated[0] if stated else 0
    if call.operator == "STFT":     # frames of [batch, extent, 1 or 2], as long as the window or as stated
        window = call.optional(2)
        points = number(3) or (window.shape[0] if window and window.known else 0)
        rows = x.shape[0] * ((x.shape[1] - points) // number(1) + 1) if number(1) > 0 else 0
    else:
        axis = (number(2) or call.whole("axis", 1 if call.version < 20 else -2)) % len(x.shape)
        points, rows = number(1) or x.shape[axis], math.prod(x.shape[:-1]) // x.shape[axis]
    return call.unknown(assembly.fourier_macs(points, rows, x.shape[-1] != 2) if points > 0 and rows > 0 else None)


def _attention(call: OnnxCall) -> Tensor:
    """Attention with a head axis, or with heads side by side [batch, tokens, heads * size]. Keys and values may have a
    cache [batch, heads, tokens, size], to which the new ones are appended."""
    heads = [call.whole("q_num_heads", 0), *(call.whole("kv_num_heads", 0),) * 2]
    return _attended(call, [call.operand(index) for index in range(3)], heads, call.optional(3), 4)


def _runtime_attention(call: OnnxCall) -> Tensor:
    """MultiHeadAttention and GroupQueryAttention of ONNX Runtime over separate queries, keys and values."""
    tensors = [t for t in call.operands[:3] if t is not None and t.known and len(t.shape) == 3]
    if len(tensors) < 3:
        return call.unknown()
    heads, grouped = call.whole("num_heads", 1), call.operator.endswith("GroupQueryAttention")
    shared = call.whole("kv_num_heads", heads) if grouped else heads
    return _attended(call, tensors, [heads, shared, shared], None if grouped else call.optional(5), 3 if grouped else 6)


def _packed_attention(call: OnnxCall) -> Tensor:
    """Attention and QAttention of ONNX Runtime, which begin with a projection [in, 3 * out] to all three operands."""
    x, weight = call.operand(0), call.operand(1)
    batch, tokens, _ = x.shape
    width, cached = weight.shape[1] // 3, call.optional(4 if call.operator.endswith(".Attention") else 8)
    if width * 3 != weight.shape[1] or call.attributes.get("qkv_hidden_sizes") or cached or call.out[-1] != width:
        return call.unknown()
    shape = (batch, tokens, 3 * width)
    packed = assembly.product(call.to, f"{call.name}.projection", x, weight, shape)
    parts = [call.to.node(f"{call.name}.{what}", "slice", [packed], (batch, tokens, width),
                          **assembly.taken(shape, 2, index * width, 1)) for index, what in enumerate(("q", "k", "v"))]
    return _attended(call, parts, [call.whole("num_heads", 1)] * 3, None, len(call.operands))


def _attended(call: OnnxCall, tensors: Sequence[Tensor], heads: Sequence[int], mask: Tensor | None,
              past: int) -> Tensor:
    """Attention of queries, keys and values, whose heads have an axis or lie side by side. `past` is the place of the
    cached keys among the operands; the cached values are next."""
    to, apart = call.to, []
    for index, (t, count, what) in enumerate(zip(tensors, heads, ("queries", "keys", "values"), strict=True)):
        if len(t.shape) == 3 and count > 0 and t.shape[2] % count == 0:
            batch, tokens, width = t.shape
            cut = to.reshape(f"{call.name}.{what}", t, (batch, tokens, count, width // count))
            t = to.transpose(f"{call.name}.{what}_heads", cut, (0, 2, 1, 3))
        cache = call.optional(past + index - 1) if index else None
        if cache is not None and len(cache.shape) == len(t.shape) == 4:
            whole = (*t.shape[:2], cache.shape[2] + t.shape[2], t.shape[3])
            t = to.node(f"{call.name}.all_{what}", "concat", [cache, t], whole)
        apart.append(t)
    q, _, v = apart
    if any(len(t.shape) != 4 for t in apart):
        return call.unknown()
    causal = call.whole("is_causal", call.whole("unidirectional", int(call.operator.endswith("GroupQueryAttention"))))
    alike = q.shape[2] == apart[1].shape[2]  # else the position of the first query is not known
    out = assembly.attention(to, call.name, apart, mask, (*q.shape[:3], v.shape[3]), bool(causal) and alike)
    if len(call.out) == 3:
        out = to.transpose(f"{call.name}.tokens", out, (0, 2, 1, 3))
    return to.reshape(f"{call.name}.shape", out, call.out)


LAYERS: dict[str, Maker] = by_name({
    _convolution(0, 1): "Conv ConvInteger", _convolution(0, 3): "QLinearConv",
    _convolution(0, 1, transposed=True): "ConvTranspose", _fused_convolution: "com.microsoft.FusedConv",
    lambda call: convolutions.deformable_convolution(call, call.operand(1), call.whole("group", 1)): "DeformConv",
    _product(0, 1, bias=2): "Gemm com.microsoft.FusedGemm com.microsoft.GemmFloat8",
    _product(0, 3, bias=6): "com.microsoft.QGemm",
    _product(0, 1): "MatMul MatMulInteger com.microsoft.MatMulIntegerToFloat com.microsoft.DynamicQuantizeMatMul "
                    "com.microsoft.MatMulInteger16 com.microsoft.GemmFastGelu com.microsoft.FusedMatMul "
                    "com.microsoft.TransposeMatMul com.microsoft.FusedMatMulActivation",
    _product(0, 3): "QLinearMatMul",
    OnnxCall.packed_product: "com.microsoft.MatMulNBits com.microsoft.MatMulBnb4 com.microsoft.MatMulFpQ4",
    lambda call: assembly.einsum(call.to, call.name, call.text("equation"), list(map(
        call.operand, range(len(call.operands)))), call.out): "Einsum",
    _attention: "Attention", _recurrent: "LSTM GRU RNN com.microsoft.DynamicQuantizeLSTM",
    _runtime_attention: "com.microsoft.MultiHeadAttention com.microsoft.GroupQueryAttention",
    _packed_attention: "com.microsoft.Attention com.microsoft.QAttention", _fourier: "DFT STFT",
})
"""Operators with multiply-accumulates; for these an unknown shape is an error."""


def understood(call: OnnxCall) -> list[Tensor]:
    """Adds the nodes of one ONNX node and returns its outputs. Where no table has the operator or shapes are not known,
    the nodes are `not_understood`. Outputs without data for later nodes (masks, running statistics) are constants.

    Raises SpecError where an operator with multiply-accumulates lacks a shape, or attributes contradict operands.
    """
    name, first = call.operator, call.tensors[0]
    table = LAYERS if name in LAYERS else OPERATORS if first.known and call.outs[0] is not None else {}
    op = NAMES.get(name, "other" if name in OPERATORS else "")
    made: Tensor | list[Tensor]
    if name in table:
        made = table[name](call)
    elif name in SAME:
        made = first
    elif KIND.get(op) in ("pointwise", "join"):
        made = call.pointwise(op)
    elif op:
        return [_picked(call, op, first, index) for index in range(len(call.outs))]
    else:
        stated = [Tensor((len(value),)) for value in call.attributes.values() if isinstance(value, list)]
        stated += [Tensor(tuple(value.dims)) for value in call.attributes.values() if hasattr(value, "dims")]
        return call.to.unknown(call.name, name, [*call.tensors, *stated], call.outs)
    if isinstance(made, list):
        return made[:len(call.outs)]
    return [made, *call.constants[1:]]


def _picked(call: OnnxCall, op: str, first: Tensor, index: int) -> Tensor:
    """Adds the node of an output that picks, repeats or concatenates elements, with the details in attributes and
    constants; a slice or a padding that changes nothing adds no node."""
    name = call.name if len(call.outs) == 1 else f"{call.name}.{index}"
    shape = call.outs[index]
    if op in ("slice", "pad", "expand", "resize") and first.known and shape == first.shape:
        return first
    details = Details() if shape is None or not first.known else _details(call, first.shape, shape, index)
    if op == "gather" and details and len(shape or ()) < len(first.shape):
        op = "slice"
    made = call.to.node(name, op, call.tensors, shape, what=call.operator, **details)
    if made.node and (call.operator in SUMMING or call.text("reduction") == "add" or call.whole("antialias", 0)):
        call.to.summing.add(made.node)
    return made


def _details(call: OnnxCall, before: Shape, after: Shape, index: int) -> Details:
    """The details, beside the shapes, of how an output of a call picks, pads or resizes elements."""
    name, rank, mode = call.operator, len(before), call.attributes.get("mode", b"")
    axis = assembly.axis_of(call.attributes.get("axis"), rank) if rank else 0

    def stated(attribute: str, place: int) -> tuple[int, ...]:  # an attribute of older operator sets, an operand since
        numbers = call.numbers[place] if len(call.numbers) > place else None
        return tuple(call.attributes.get(attribute) or numbers or ())
    if name == "Gather" and rank - 1 <= len(after) <= rank and all(tensor.constant for tensor in call.tensors[1:]):
        points = stated("", 1)
        single = len(after) < rank and len(points) == 1
        return assembly.taken(before, axis, points[0], 1) if single else {"axes": (axis,)}
    if name == "Slice":
        starts, steps = stated("starts", 1), stated("steps", 4)
        axes = tuple(assembly.axis_of(axis, rank) for axis in stated("axes", 3)) or tuple(range(len(starts)))
        cut = [place for place, axis in enumerate(axes) if len(after) == rank and before[axis] != after[axis]]
        if len(cut) != 1 or len(starts) != len(axes) or (steps and len(steps) != len(axes)):
            return {}
        return assembly.taken(before, axes[cut[0]], starts[cut[0]], steps[cut[0]] if steps else 1)
    if name == "Split" and rank:
        earlier = [shape[axis] for shape in call.outs[:index] if shape is not None]
        return assembly.taken(before, axis, sum(earlier), 1) if len(earlier) == index else {}
    if name == "Pad" and mode in (b"", b"constant"):
        pads = stated("pads", 1)
        return assembly.padding(rank, list(zip(pads[:rank], pads[rank:], strict=True))) if len(pads) == 2 * rank else {}
    if name in ("Resize", "Upsample") and mode in (b"", b"nearest"):
        return assembly.nearest(rank - 2)
    centres = call.attributes.get("coordinate_transformation_mode", b"half_pixel")
    half = centres in (b"half_pixel", b"pytorch_half_pixel")
    return assembly.bilinear(before, after) if name == "Resize" and mode == b"linear" and half else {}
