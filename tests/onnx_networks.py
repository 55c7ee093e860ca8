"""Networks as ONNX models, written with onnx.helper: what an exporter would write, without any weights' values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fadiff_mapper import Workload, load_network


class Graph:
    """Collects nodes and constants; every method returns the name of its output."""

    def __init__(self, name: str, shape: Sequence[int | str], version: int = 18) -> None:
        self.name, self.version = name, version
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))]

    def op(self, kind: str, *inputs: str, name: str = "", outputs: int = 1, **attributes: Any) -> str:
        name = name or f"{kind}_{len(self.nodes)}"
        outs = [name] if outputs == 1 else [f"{name}_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), outs, name=name, **attributes))
        return outs[0]

    def weight(self, *shape: int) -> str:
        """A constant that has a shape and no values: nothing may read them."""
        name = f"w{len(self.constants)}"
        self.constants.append(TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape))
        return name

    def numbers(self, *values: int) -> str:
        name = f"n{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def conv(self, x: str, cin: int, cout: int, k: int, stride: int = 1, groups: int = 1, name: str = "") -> str:
        pad = k // 2
        y = self.op("Conv", x, self.weight(cout, cin // groups, k, k), name=name, kernel_shape=[k, k],
                    strides=[stride] * 2, pads=[pad] * 4, group=groups)
        return self.op("Relu", y)

    def fc(self, x: str, cin: int, cout: int) -> str:
        return self.op("Gemm", x, self.weight(cout, cin), self.weight(cout), transB=1)

    def model(self, *outputs: str) -> onnx.ModelProto:
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, made, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.version)])


def of(build: Callable[[Graph], str], *shape: int, version: int = 18) -> Workload:
    """The network of a graph that is built on an input x."""
    g = Graph("net", shape, version)
    return load_network(g.model(build(g)))


def resnet18() -> onnx.ModelProto:
    g = Graph("resnet18", (1, 3, 224, 224))
    x = g.op("MaxPool", g.conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    cin = 64
    for stage, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            y = g.conv(g.conv(x, cin, channels, 3, stride), channels, channels, 3)
            if stride == 2:
                x = g.op("Conv", x, g.weight(channels, cin, 1, 1), strides=[2, 2])
            x, cin = g.op("Relu", g.op("Add", y, x)), channels
    return g.model(g.fc(g.op("Flatten", g.op("GlobalAveragePool", x)), 512, 1000))


def vgg16() -> onnx.ModelProto:
    g = Graph("vgg16", (1, 3, 224, 224))
    x, cin = "x", 3
    for channels, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            x, cin = g.conv(x, cin, channels, 3), channels
        x = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = g.op("Reshape", x, g.numbers(1, -1))
    return g.model(g.fc(g.fc(g.fc(x, 25088, 4096), 4096, 4096), 4096, 1000))


def mobilenet_v1() -> onnx.ModelProto:
    g = Graph("mobilenet_v1", (1, 3, 224, 224))
    x, cin = g.conv("x", 3, 32, 3, 2), 32
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    for channels, stride in plan:
        x = g.conv(g.conv(x, cin, cin, 3, stride, groups=cin), cin, channels, 1)
        cin = channels
    return g.model(g.fc(g.op("Flatten", g.op("GlobalAveragePool", x)), 1024, 1000))


def gpt3_6b7_block(tokens: int = 2048, width: int = 4096, heads: int = 32) -> onnx.ModelProto:
    g = Graph("gpt3_6b7_block", (1, tokens, width))

    def project(x: str, cin: int, cout: int, name: str = "") -> str:
        return g.op("Add", g.op("MatMul", x, g.weight(cin, cout), name=name), g.weight(cout))

    def split(x: str, order: list[int]) -> str:
        return g.op("Transpose", g.op("Reshape", x, g.numbers(1, tokens, heads, width // heads)), perm=order)
    x = g.op("LayerNormalization", "x", g.weight(width))
    q = split(project(x, width, width, "q"), [0, 2, 1, 3])
    k = split(project(x, width, width, "k"), [0, 2, 3, 1])
    v = split(project(x, width, width, "v"), [0, 2, 1, 3])
    rows = g.op("Softmax", g.op("Mul", g.op("MatMul", q, k, name="qk"), g.weight()), axis=-1)
    y = g.op("Transpose", g.op("MatMul", rows, v, name="av"), perm=[0, 2, 1, 3])
    r = g.op("Add", project(g.op("Reshape", y, g.numbers(1, tokens, width)), width, width, "out"), "x")
    x = project(g.op("LayerNormalization", r, g.weight(width)), width, 4 * width, "up")
    gate = g.op("Add", g.op("Erf", g.op("Div", x, g.weight())), g.weight())
    x = g.op("Mul", x, gate, name="gelu")
    return g.model(g.op("Add", project(x, 4 * width, width, "down"), r))
