"""Small networks made by hand, and bundled ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from fadiff_mapper import Workload, load_network
from fadiff_mapper.workload import Link, Node, Window, build_workload, make_operator

MACS = {"resnet18": (1_814_073_344, 12, 21), "vgg16": (15_470_264_320, 12, 16), "vgg19": (19_632_062_464, 12, 19),
        "mobilenet_v1": (568_740_352, 20, 28), "gpt3_6b7_block": (446_676_598_784, 5, 8)}
"""Multiply-accumulates, distinct layers, layers."""


def bundled_network(name: str) -> Workload:
    return load_network(f"bundled:networks/{name}")


def distinct_layers(network: Workload) -> Counter[Hashable]:
    """Every distinct layer, however it was named, with how often it runs."""
    return Counter({entry.layer.key: entry.times for entry in network.distinct()})


def conv(name: str, source: str, cin: int, cout: int, size: int, k: int = 1, stride: int = 1, n: int = 1,
         **fields: Any) -> Node:
    dims = {"N": n, "M": cout, "C": cin, "P": size, "Q": size, "R": k, "S": k}
    layer = make_operator("conv", dims, (stride, stride))
    return Node(name, "conv", (source,), layer=layer, operands=("Inputs",), **fields)


def product(name: str, *sources: str, n: int, c: int, m: int, repeat: int = 1) -> Node:
    dims = {"N": n, "M": m, "C": c, "P": 1, "Q": 1, "R": 1, "S": 1}
    return Node(name, "gemm", sources, layer=make_operator("gemm", dims, repeat=repeat),
                operands=("Inputs", "Weights")[:len(sources)])


def network(*nodes: Node, image: tuple[int, ...] = (1, 4, 8, 8), **options: Any) -> Workload:
    return build_workload("net", [Node("x", "input", shape=image), *nodes], **options)


def link(found: Workload, producer: str, consumer: str) -> Link:
    return next(item for item in found.links() if (item.producer, item.consumer) == (producer, consumer))


def pool(name: str, source: str, kernel: int, stride: int, pad: int = 0) -> Node:
    return Node(name, "maxpool", (source,), window=Window((kernel,) * 2, (stride,) * 2, ((pad, pad),) * 2, (1, 1)))
