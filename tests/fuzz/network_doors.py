"""Doors for networks of many kinds of operators: recurrent ones, einsums, experts, open inputs, and their mapping."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import yaml
from fuzz.attack import Case
from fuzz.doors import TABLES, TWO_LAYERS
from fuzz.mutations import NUMBERS, mutated_bytes, mutated_text, mutated_tree, nasty

EXTENTS = (0, 1, 2, 3, 7, 64, 1000, 65537, 2 ** 26, 2 ** 31, 2 ** 53, 2 ** 62, -1)
EQUATIONS = ("bij,bjk->bik", "ij,jk", "bi,bj->bij", "ii,ij->j", "...ij,...jk->...ik", "i,i->", "->", "ij->ji",
             "i,j,k->", "a" * 60 + ",a->a", "ij,jk->il", "IJ,jk->Ik", "b i , i j -> b j", ",", "é,a->a", "ab,ba,ab->a",
             "ij,jk->ikk")
OPERATORS = ("LSTM", "GRU", "RNN", "Einsum", "MatMul", "ConvTranspose", "Attention", "Gemm", "com.microsoft.Attention",
             "com.microsoft.DynamicQuantizeLSTM", "Loop", "Scan", "MaxPool", "GroupNormalization", "RotaryEmbedding")


GIVEN = ({"steps": 3}, {"batch": 2, "width": 16}, {"c": 4, "h": 5, "w": 5})
"""What closes the inputs of the models, in their order."""


@functools.cache
def models() -> tuple[bytes, ...]:
    """Models with recurrent layers, an einsum, attention, a transposed convolution, and inputs that are left open."""
    import onnx_networks
    recurrent = onnx_networks.Graph("recurrent", ("steps", 2, 8))
    outs = [recurrent.op(kind, "x", recurrent.weight(2, gates * 6, 8), recurrent.weight(2, gates * 6, 6),
                         recurrent.weight(2, 2 * gates * 6), outputs=2, hidden_size=6, direction="bidirectional")
            for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))]
    products = onnx_networks.Graph("products", ("batch", 4, "width"))
    square = products.op("MatMul", "x", products.weight(16, 16))
    scores = products.op("Einsum", square, square, equation="bij,bkj->bik")
    opened = onnx_networks.Graph("opened", (1, "c", "h", "w"))
    grown = opened.op("ConvTranspose", "x", opened.weight(4, 8, 3, 3), kernel_shape=[3, 3], strides=[2, 2])
    return tuple(model.SerializeToString() for model in (
        recurrent.model(*outs), products.model(products.op("Softmax", scores, axis=-1)), opened.model(grown)))


def shape_words(rng: random.Random) -> tuple[str, ...]:
    """`--shape`, `--dim` and `--value`, mostly of inputs that there are."""
    words: list[str] = []
    for _ in range(rng.randint(0, 3)):
        sizes = "x".join(str(rng.choice(EXTENTS)) for _ in range(rng.choice((0, 1, 3, 3, 4, 4, 70))))
        shape = rng.choice((sizes, sizes, "1x4x16", "5x2x8", "1x4x9x9", "x", "1x", "1X4", "9" * 5000, str(nasty(rng))))
        number = rng.choice((*EXTENTS, *NUMBERS, "", "a", "1x2"))
        words += rng.choice((("--shape", f"{rng.choice(('x', 'x', 'y', ''))}={shape}"),
                             ("--dim", f"{rng.choice(('batch', 'width', 'steps', 'c', 'h', 'q'))}={number}"),
                             ("--value", f"{rng.choice(('x', 'y'))}={number}"), ("--shape", str(nasty(rng)))))
    return tuple(word.replace("\0", "").encode("utf-8", "replace").decode() for word in words)


def operator_kinds(folder: Path, rng: random.Random) -> Case:
    """Such models, their operators, equations, extents and bytes changed, with open inputs given or not."""
    import onnx
    which = rng.randrange(len(GIVEN))
    model = onnx.ModelProto.FromString(models()[which])
    for _ in range(rng.choice((0, 1, 1, 2, 4))):
        node = rng.choice(model.graph.node)
        match rng.randrange(7):
            case 0:
                kind = rng.choice(OPERATORS)
                node.domain, _, node.op_type = kind.rpartition(".")
            case 1:
                node.attribute.append(onnx.helper.make_attribute("equation", rng.choice(EQUATIONS)))
            case 2:
                tensor = rng.choice(model.graph.initializer)
                tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTENTS)
            case 3:
                sizes = rng.choice(model.graph.input).type.tensor_type.shape.dim
                sizes[rng.randrange(len(sizes))].dim_value = rng.choice(EXTENTS)
            case 4:
                node.attribute.append(onnx.helper.make_attribute(
                    rng.choice(("hidden_size", "layout", "group", "num_heads", "input_forget", "transA")),
                    rng.choice(EXTENTS)))
            case 5:
                node.attribute.append(onnx.helper.make_attribute(
                    rng.choice(("direction", "activations", "auto_pad")),
                    rng.choice(("reverse", "x", "SAME_UPPER", ""))))
            case _:
                node.input[:] = rng.sample(list(node.input), len(node.input)) + list(node.input[:rng.randint(0, 2)])
    data = model.SerializeToString()
    (folder / "model.onnx").write_bytes(mutated_bytes(data, rng) if rng.random() < 0.2 else data)
    closed = (word for name, size in GIVEN[which].items() for word in ("--dim", f"{name}={size}"))
    return Case(("import", "model.onnx", "-o", "network.yaml", *(closed if rng.random() < 0.6 else shape_words(rng))))


@functools.cache
def written() -> tuple[str, ...]:
    """Networks of few layers: einsums as problems, recurrent layers, experts as products that repeat."""
    import onnx

    from fadiff_mapper import load_network
    from fadiff_mapper.workload.readers.network_text import network_text
    networks = [load_network(onnx.ModelProto.FromString(data), dims=dims)
                for data, dims in zip(models(), GIVEN, strict=True)]
    # of experts: one product of as many rows as each has, repeated
    experts = TWO_LAYERS.replace("stride: [1, 1]}\n  graph",
                                 "stride: [1, 1], repeat: 4, densities: {Inputs: 0.5}}\n  graph")
    return (experts, *map(network_text, networks))


def mapped_networks(folder: Path, rng: random.Random) -> Case:
    """Such networks as files, mutated, and mapped."""
    text = rng.choice(written())
    if rng.random() < 0.7:
        document: Any = mutated_tree(yaml.safe_load(text), rng)
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    elif rng.random() < 0.5:
        text = mutated_text(text, rng)
    (folder / "net.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    return Case(("network", "net.yaml", "bundled:arch/gemmini_small", "-o", "out", "--quiet", "--time-limit", "0.5",
                 *TABLES))
