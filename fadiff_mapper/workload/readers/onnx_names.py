"""Names of ONNX operators without multiply-accumulates, by kind.

Names are those of the ONNX operator sets; ONNX Runtime's own have their domain in front.
"""

from __future__ import annotations

SAME = ("Identity", "Dropout", "Cast", "CastLike", "Optional", "OptionalGetElement")
"""Operators whose first output is their first operand."""

RESHAPES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze")
"""Operators that keep elements and their order; the new shape is the inferred one."""

POINTWISE = {
    "Relu": "relu", "Gelu": "gelu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Erf": "erf", "Exp": "exp", "Log": "log",
    "Sqrt": "sqrt", "Neg": "neg", "Abs": "abs", "Reciprocal": "reciprocal", "Elu": "elu", "Celu": "celu",
    "Selu": "selu", "Softplus": "softplus", "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "Mish": "mish",
    "Round": "round", "Floor": "floor", "Ceil": "ceil", "Sin": "sin", "Cos": "cos", "PRelu": "prelu", "Swish": "silu",
    "LeakyRelu": "leakyrelu", "Clip": "clip", "Not": "not", "BatchNormalization": "batchnorm",
    "QuantizeLinear": "quantize", "DequantizeLinear": "dequantize",
    "com.microsoft.Gelu": "gelu", "com.microsoft.FastGelu": "gelu", "com.microsoft.BiasGelu": "gelu",
    "com.microsoft.QuickGelu": "gelu", "com.microsoft.QLinearSigmoid": "sigmoid",
    "com.microsoft.QLinearLeakyRelu": "leakyrelu", "com.microsoft.QuantizeLinear": "quantize",
    "com.microsoft.DequantizeLinear": "dequantize",
}
"""Pointwise operators -> their names here."""

ELEMENTWISE = ("IsNaN", "IsInf", "Sign", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
               "Softsign", "ThresholdedRelu", "Shrink", "Trilu", "BitwiseNot", "Binarizer")
"""Pointwise operators without names of their own here."""

JOINS = {"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow", "Max": "max", "Min": "min",
         "Sum": "add", "Mean": "add", "Where": "where", "And": "and", "Or": "or", "Xor": "compare", "Equal": "compare",
         "Less": "compare", "Greater": "compare", "LessOrEqual": "compare", "GreaterOrEqual": "compare", "Mod": "div",
         "BitwiseAnd": "and", "BitwiseOr": "or", "BitwiseXor": "compare", "BitShift": "mul",
         "com.microsoft.QLinearAdd": "add", "com.microsoft.QLinearMul": "mul"}
"""Operators that join tensors point by point -> their names here."""

OPAQUE = {
    **dict.fromkeys(("Concat", "com.microsoft.QLinearConcat"), "concat"),
    **dict.fromkeys(("Split", "Slice", "CenterCropPad"), "slice"),
    **dict.fromkeys(("Gather", "GatherElements", "GatherND", "DepthToSpace", "SpaceToDepth", "ReverseSequence",
                     "Col2Im", "MaxUnpool", "GridSample", "RoiAlign", "MaxRoiPool", "AffineGrid", "SplitToSequence",
                     "SequenceAt", "Compress", "SequenceConstruct", "SequenceInsert", "ConcatFromSequence"), "gather"),
    "Pad": "pad", "Tile": "expand",
    **dict.fromkeys(("Resize", "Upsample"), "resize"),
    **dict.fromkeys(("ScatterElements", "ScatterND", "Scatter", "OneHot"), "scatter"),
    **dict.fromkeys(("TopK", "NonZero", "NonMaxSuppression", "Unique", "ArrayFeatureExtractor"), "sort"),
}
"""Operators that pick, repeat or put together elements -> their names here."""

OTHERS = frozenset((
    "ArgMax", "ArgMin", "BitCast", "Bernoulli", "Constant", "ConstantOfShape", "CumProd", "MelWeightMatrix",
    "BlackmanWindow", "HammingWindow", "HannWindow", "ImageDecoder", "Multinomial", "NegativeLogLikelihoodLoss",
    "SoftmaxCrossEntropyLoss", "OptionalHasElement", "RandomNormal", "RandomUniform", "Range", "RegexFullMatch",
    "RotaryEmbedding", "SequenceEmpty", "SequenceErase", "SequenceLength", "StringConcat", "StringNormalizer",
    "StringSplit", "SwiGLU", "TensorScatter", "TfIdfVectorizer",
    *(f"ai.onnx.ml.{name}" for name in (
        "ArrayFeatureExtractor", "Binarizer", "CastMap", "CategoryMapper", "DictVectorizer", "FeatureVectorizer",
        "Imputer", "LabelEncoder", "Normalizer", "OneHotEncoder", "Scaler", "ZipMap", "TreeEnsemble",
        "TreeEnsembleClassifier", "TreeEnsembleRegressor")),
    *(f"com.microsoft.{name}" for name in (
        "BiasAdd", "BiasDropout", "BiasSoftmax", "BiasSplitGelu", "BitmaskBiasDropout", "BitmaskDropout", "ComplexMul",
        "ComplexMulConj", "CropAndResize", "DequantizeBFP", "DequantizeWithOrder", "EmbedLayerNormalization",
        "ExpandDims", "GatherBlockQuantized", "GatherND", "GemmaRotaryEmbedding", "GridSample", "GroupNorm",
        "MaxpoolWithMask", "MulInteger", "MurmurHash3", "NGramRepeatBlock", "NhwcMaxPool", "Pad",
        "QLinearReduceMean", "QLinearSoftmax", "QLinearWhere", "QuantizeBFP", "QuantizeWithOrder", "Range",
        "ReduceSumInteger", "RelativePositionBias", "RemovePadding", "RestorePadding", "RotaryEmbedding",
        "SkipGroupNorm", "Tokenizer", "TorchEmbedding", "Trilu", "UnfoldTensor", "Unique")),
))
"""Further operators without multiply-accumulates, through which no tile is followed."""

ROWS = {"CumSum": "cumsum", "LpNormalization": "rmsnorm"}
"""Operators that need whole rows along one axis -> their names here."""

REDUCE = {"ReduceMean": "mean", "ReduceSum": "sum", "ReduceMax": "amax", "ReduceMin": "amin",
          **dict.fromkeys(("ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"),
                          "reduction")}
"""Reductions -> their names here."""

FILLS = ("Shape", "Size", "EyeLike", "RandomNormalLike", "RandomUniformLike")
"""Operators that take a shape from a tensor, and no data: constants."""
