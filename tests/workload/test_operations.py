"""Operations of operators without multiply-accumulates: equal to a count of the framework's own graph by a table of its
own, from shapes alone; a multiply-accumulate counts as a product and a sum on both sides."""

from __future__ import annotations

import math
import operator
import runpy
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_networks
import pytest
import torch
import torch_networks
from torch import nn
from torch.nn import functional

from fadiff_mapper import SpecError, Workload, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.workload.coverage import coverage
from fadiff_mapper.workload.operations import in_words, total
from fadiff_mapper.workload.readers.network_text import network_text

ERF = {"max": 2, "mul": 8, "add": 6, "div": 1, "exp": 1}
PER_OUTPUT: dict[str, dict[str, int]] = {
    "relu": {"max": 1}, "hardtanh": {"max": 2}, "sigmoid": {"exp": 1, "add": 1, "div": 1}, "erf": ERF,
    "silu": {"exp": 1, "add": 1, "div": 1, "mul": 1}, "tanh": {"mul": 1, "exp": 1, "add": 2, "div": 1},
    "gelu": {**ERF, "mul": ERF["mul"] + 3, "add": ERF["add"] + 1}, "exp": {"exp": 1}, "neg": {"add": 1},
    "rsqrt": {"sqrt": 1, "div": 1}, "sqrt": {"sqrt": 1}, "batch_norm": {"mul": 1, "add": 1}, "add": {"add": 1},
    "sub": {"add": 1}, "mul": {"mul": 1}, "div": {"div": 1}, "pow": {"mul": 1}, "hardswish": {
        "add": 1, "max": 2, "mul": 2}, "elu": {"exp": 1, "add": 1, "mul": 1, "max": 1}}
FREE = {"view", "reshape", "transpose", "permute", "flatten", "chunk", "split", "split_with_sizes", "cat", "slice",
        "select", "unsqueeze", "expand", "dropout", "_assert_tensor_metadata", "to", "contiguous", "t", "pad", "clone",
        "linear", "matmul", "conv2d", "index", "gather", "embedding", "squeeze", "unflatten", "getitem", "alias"}


def counted(program: torch.export.ExportedProgram) -> Counter[str]:
    """Operations of every call that depends on an input of the user's."""
    found: Counter[str] = Counter()
    users = set(program.graph_signature.user_inputs)
    computed = {node for node in program.graph.nodes if node.op == "placeholder" and node.name in users}
    for node in program.graph.nodes:
        if node.op != "call_function" or not computed & set(node.all_input_nodes):
            continue
        computed.add(node)
        name = "getitem" if node.target is operator.getitem else node.target._schema.name.removeprefix("aten::")
        name = name.rstrip("_")
        if name in FREE:
            continue
        values: Any = [item.meta["val"] for item in node.all_input_nodes]
        points, into = node.meta["val"].numel(), values[0].numel()

        def note(number: int, **each: int) -> None:
            found.update({kind: times * number for kind, times in each.items()})
        if name in PER_OUTPUT:
            note(points, **PER_OUTPUT[name])
        elif name == "softmax":
            note(points, max=1, add=2, exp=1, div=1)
        elif name == "log_softmax":
            note(points, max=1, add=3, exp=1)
            note(points // values[0].shape[node.args[1]], log=1)
        elif name == "scaled_dot_product_attention":  # the rows of scores; a constant mask adds nothing
            note(points // values[0].shape[-1] * values[1].shape[-2], max=1, add=2, exp=1, div=1)
        elif name in ("layer_norm", "group_norm", "instance_norm"):
            # with d the differences: sums of x, x - mean, d * d and its sums, d * root, and scale and shift
            note(points, add=4, mul=3)
            rows = (points // math.prod(node.args[1]) if name == "layer_norm" else
                    len(values[0]) if name == "group_norm" else math.prod(values[0].shape[:2]))
            note(rows, div=3, add=1, sqrt=1)
        elif name == "rms_norm":
            note(points, add=1, mul=3)
            note(points // math.prod(node.args[1]), div=2, add=1, sqrt=1)
        elif name == "mean":
            note(into, add=1)
            note(points, div=1)
        elif name in ("sum", "cumsum"):
            note(into, add=1)
        elif name == "amax":
            note(into, max=1)
        elif name in ("max_pool2d", "avg_pool2d"):
            kernel = node.args[1]
            window = math.prod(kernel if len(kernel) == 2 else kernel * 2)
            note(points * window, **{"max" if name == "max_pool2d" else "add": 1})
            note(points, **({"div": 1} if name == "avg_pool2d" else {}))
        elif name == "adaptive_avg_pool2d":
            note(into if into != points else 0, add=1)
            note(points if into != points else 0, div=1)
        else:
            raise AssertionError(name)
    return +found


def ours(network: Workload) -> Counter[str]:
    found = total(each.operations for each in network.vector_operators())
    macs = found.pop("mac", 0)
    return found + Counter(mul=macs, add=macs)


def block_module(name: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """The module of a bundled block, and its inputs, as `make_blocks.py` has them."""
    source: Any = runpy.run_path(str(bundled_files.ROOT / "make_blocks.py"))
    taken: dict[str, Any] = {}

    def read(module: nn.Module, inputs: Any, keywords: Any, title: str) -> Any:
        taken.update(module=module, inputs=inputs, keywords=keywords)
        return load_network(module, inputs, example_kwargs=keywords, name=title)
    source["block"].__globals__["read_module"] = read
    source["block"](name)
    return taken["module"], taken["inputs"], taken["keywords"]


def small(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


IMAGE, ROWS = (2, 8, 12, 12), (4, 10, 32)
OTHERS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (torch_networks.resnet18, (1, 3, 224, 224)), "vgg16": (torch_networks.vgg16, (1, 3, 224, 224)),
    "mobilenet_v1": (torch_networks.mobilenet_v1, (1, 3, 224, 224)),
    "gpt3, fused attention": (torch_networks.gpt3_6b7_block, (1, 2048, 4096)),
    "gpt3": (lambda: torch_networks.gpt3_6b7_block(fused=False), (1, 2048, 4096)),
    "group norm": (lambda: small(nn.Conv2d(8, 8, 3), nn.GroupNorm(1, 8), nn.Hardswish(), nn.AvgPool2d(2)), IMAGE),
    "instance norm": (lambda: small(nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8, affine=True), nn.ELU()), IMAGE),
    "rms norm": (lambda: small(nn.RMSNorm(32), nn.Linear(32, 64), nn.Tanh(), nn.RMSNorm(64)), ROWS),
    "log softmax": (lambda: small(nn.Linear(32, 50), nn.LogSoftmax(-1)), ROWS),
    "gate": (lambda: torch_networks.Function(lambda x: functional.silu(x) * torch.sigmoid(x @ x.transpose(1, 2) @ x)),
             ROWS),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True), ROWS),
    "sums": (lambda: torch_networks.Function(lambda x: (x @ x.transpose(1, 2)).cumsum(-1).sum(1).exp().amax(-1)), ROWS),
    "whole rows": (lambda: torch_networks.Function(lambda x: (-x @ x.transpose(1, 2)).sqrt().mean(1) - 1.0), ROWS),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_operations_equal_a_count_of_the_program(name: str) -> None:
    make, shape = OTHERS[name]
    with torch.device("meta"):
        module, x = make().eval(), torch.empty(shape)
    torch.backends.mha.set_fastpath_enabled(False)
    assert ours(load_network(module, (x,))) == counted(torch.export.export(module, (x,)))


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"{model}_{phase}" for phase in ("prefill", "decode") for model in (
    "llama3_8b", "qwen3_8b", "gemma2_9b", "mixtral_8x7b", "deepseek_v3")])
def test_operations_of_a_bundled_block_equal_a_count_of_its_program(name: str) -> None:
    module, inputs, keywords = block_module(name)
    assert ours(load_network(f"bundled:networks/{name}")) == counted(torch.export.export(module, inputs, keywords))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "vgg16", "mobilenet_v1", "gpt3_6b7_block"])
def test_operations_of_an_onnx_model_equal_a_count_of_its_nodes(name: str) -> None:
    model = getattr(onnx_networks, name)()
    graph = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
              for value in (*graph.value_info, *graph.input, *graph.output)}
    found: Counter[str] = Counter()
    for node in model.graph.node:
        out, first = (math.prod(shapes.get(tensor, [])) for tensor in (node.output[0], node.input[0]))
        for kind, times in {"Relu": {"max": 1}, "Add": {"add": 1}, "Mul": {"mul": 1}, "Div": {"div": 1}, "Erf": ERF,
                            "Softmax": {"max": 1, "add": 2, "exp": 1, "div": 1},
                            "LayerNormalization": {"add": 3, "mul": 3}}.get(node.op_type, {}).items():
            found[kind] += times * out
        if node.op_type == "LayerNormalization":  # with a scale, without a shift
            found.update({kind: times * out // 4096 for kind, times in {"div": 3, "add": 1, "sqrt": 1}.items()})
        if node.op_type == "MaxPool":
            found["max"] += out * math.prod(next(item.ints for item in node.attribute if item.name == "kernel_shape"))
        if node.op_type == "GlobalAveragePool":
            found.update(add=first, div=out)
    assert ours(load_network(model)) == found


def test_a_softmax_is_its_einsums() -> None:
    with torch.device("meta"):
        module, x = small(nn.Linear(16, 8), nn.Softmax(-1)), torch.empty(4, 16)
    (found,) = load_network(module, (x,)).vector_operators()
    assert (found.op, found.inputs, found.output, found.read, found.written) == ("softmax", ((4, 8),), (4, 8), 32, 32)
    assert {name: dict(counts) for name, counts in found.einsums} == {
        "maximum": {"max": 32}, "numerator": {"add": 32, "exp": 32}, "denominator": {"add": 32},
        "quotient": {"div": 32}}


def test_rows_of_an_embedding_are_read_not_its_table() -> None:
    with torch.device("meta"):
        module, tokens = small(nn.Embedding(1000, 64), nn.Linear(64, 8)), torch.zeros(5, dtype=torch.long)
    (found,) = load_network(module, (tokens,)).vector_operators()
    assert (found.op, found.read, found.written, dict(found.operations)) == ("gather", 5 * 64 + 5, 5 * 64, {})


def test_counts_survive_a_network_file(tmp_path: Path) -> None:
    with torch.device("meta"):
        module, x = small(nn.LayerNorm(16), nn.Linear(16, 8), nn.RMSNorm(8)), torch.empty(4, 16)
    network = load_network(module, (x,))
    (tmp_path / "n.yaml").write_text(network_text(network))
    assert load_network(tmp_path / "n.yaml").vector_operators() == network.vector_operators()


def test_a_network_says_what_it_does_not_count() -> None:
    network = load_network("bundled:networks/resnet18")
    assert f"not counted: {in_words(network.vector_operators())}" in coverage(network).sentences()
    assert coverage(network).as_dict()["free_operations"]["max"] == 1806336


def test_constants_of_a_node_are_extents(tmp_path: Path) -> None:
    text = network_text(load_network("bundled:networks/llama3_8b_decode"))
    (tmp_path / "n.yaml").write_text(text.replace("constants: [[4096]]", "constants: [[many]]", 1))
    with pytest.raises(SpecError, match=r"constants.*many.*accepted: a number"):
        load_network(tmp_path / "n.yaml")
