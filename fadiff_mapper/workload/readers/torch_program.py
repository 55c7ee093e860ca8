"""Reads PyTorch modules by `torch.export`. Weights are not read; the module is traced, not run.

`torch.export` gives a graph of ATen operators with the shape of every value, which `torch_decompositions` makes flat.
Calls are walked in order; `torch_operators` turns each into nodes. Placeholders of the user are the network's inputs,
all others (parameters, buffers) constants, and so is every value that follows from constants alone, or that has no
elements.
"""

from __future__ import annotations

import math
import operator
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from io import StringIO
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.torch_call import TorchCall
from fadiff_mapper.workload.readers.torch_decompositions import (
    flattened,
    maps_over_a_batch,
    operator_name,
    tag_of,
)
from fadiff_mapper.workload.readers.torch_layers import LAYERS
from fadiff_mapper.workload.readers.torch_operators import understood
from fadiff_mapper.workload.readers.torch_subgraphs import GraphCall, entered
from fadiff_mapper.workload.readers.written_out_products import recognise_products
from fadiff_mapper.yaml.place import Where

DATA_DEPENDENT = "; accepted: modules whose steps and shapes no value decides, such as a detector without its choice"
"""The end of the message about a module that `torch.export` cannot follow."""

QUANTIZED = ("; accepted: the module before prepare or convert of torch.ao.quantization, which has the same "
             "multiply-accumulates (the design says how wide words are)")
"""The same about a module with quantised parts of PyTorch's own, whose packed weights cannot be traced."""

DIFFERENTIATED = ("of a training step the module of its loss, as load_network(torch.export.experimental."
                  "_export_forward_backward(torch.export.export(loss, inputs)))")
"""What is accepted in place of a module that computes gradients."""

DIFFERENTIATING = ("fake tensor in the exported program constant's list", "functorch")
"""Parts of the messages of `torch.export` about a module that computes gradients itself."""


def read_module(source: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Any] | None,
                example_kwargs: Mapping[str, Any] | None, name: str | None,
                busy_experts: int | None = None) -> Workload:
    """Reads a module, or a program that `torch.export` made.

    Args:
        source: the module or program.
        example_inputs: for a module, its positional arguments.
        example_kwargs: for a module, its keyword arguments.
        name: name of the network; the class' by default.
        busy_experts: experts over which rows are spread, None for all.

    Raises:
        FadiffError: there are no example inputs, or `torch.export` refuses the module.
        SpecError: the program has dynamic dimensions, or `build_workload` refuses it.
    """
    program = flattened(source if isinstance(source, ExportedProgram) else
                        _exported(source, example_inputs, example_kwargs))
    title = name or type(source).__name__
    to = Assembly(busy_experts=busy_experts)
    values = _inputs(program, to, title)
    _add_calls(program.graph_module, values, to, title)
    outputs = [value.node for value in (values.get(name) for name in program.graph_signature.user_outputs
                                        if isinstance(name, str)) if isinstance(value, Tensor) and value.node]
    recognise_products(to, outputs)
    return build_workload(title, to.nodes, tuple(dict.fromkeys(outputs)), Where(title), to.folded)


def _add_calls(module: torch.fx.GraphModule, values: dict[str, Any], to: Assembly, title: str,
               prefix: str = "") -> None:
    """Adds the calls of a graph to a network, and their values to those of its placeholders and constants.

    `prefix` stands before the names of nodes.
    """
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    names = _names(calls)
    for node in calls:
        name = prefix + names[node.name]
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            values[node.name] = _entered(node, name, module, values, to, title)
        else:
            values[node.name] = _called(node, name, values, to, title)
        if (updated := _updated(node)) is not None:
            values[updated] = values[node.name]


def _entered(node: torch.fx.Node, name: str, module: torch.fx.GraphModule, values: Mapping[str, Any], to: Assembly,
             title: str) -> list[Any] | None:
    """The results of an operator of higher order."""
    def argument(item: Any) -> Any:
        if isinstance(item, torch.fx.Node):
            graph = getattr(module, str(item.target), None) if item.op == "get_attr" else None
            return graph if isinstance(graph, torch.fx.GraphModule) else values.get(item.name)
        return [argument(part) for part in item] if isinstance(item, list | tuple) else item

    def walk(graph: torch.fx.GraphModule, given: Sequence[Any], into: Assembly) -> list[Any]:
        inner: dict[str, Any] = {item.name: Tensor(shape) for item in graph.graph.nodes if item.op == "get_attr"
                                 and isinstance(shape := _shapes(item, title), tuple)}
        inner |= zip((item.name for item in graph.graph.nodes if item.op == "placeholder"), given, strict=False)
        _add_calls(graph, inner, into, title, f"{name}.")
        (output,) = (item for item in graph.graph.nodes if item.op == "output")
        returned = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
        return [inner.get(getattr(item, "name", "")) for item in returned]
    shapes = _shapes(node, title)
    if shapes is None:
        return None
    inner = next((item for item in node.args if isinstance(item, torch._ops.OpOverload)), None)
    operator = operator_name(inner or node.target)  # such as one that writes to its arguments, made explicit
    arguments = [argument(item) for item in (*node.args, *node.kwargs.values())]
    call = GraphCall(operator, name, arguments, shapes if isinstance(shapes, list) else [shapes],
                     Where(title, path=node.name))
    value = node.meta["val"]
    written = value if isinstance(value, list | tuple) else [value]
    if not any(isinstance(item, torch.Tensor) and item.numel() for item in written):  # a check
        return [Tensor(shape) for shape in call.shapes]
    if not all(tensor.constant for tensor in call.operands):
        return entered(call, to, walk)
    alone = Assembly()
    entered(replace(call, arguments=[_computed(item, alone, call.where) for item in arguments]), alone, walk)
    to.note_folded(name, operator, alone.macs)
    return [Tensor(shape) for shape in call.shapes]


def _exported(module: torch.nn.Module, inputs: Sequence[Any] | None,
              keywords: Mapping[str, Any] | None) -> ExportedProgram:
    """The program of a module, traced with its example inputs."""
    if inputs is None and not keywords:
        raise FadiffError(f"{type(module).__name__}: no example inputs; accepted: load_network(module, (tensor, ...)), "
                          "whose shapes become the network's")
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs or ())
    said = StringIO()   # of a module that it cannot trace, torch prints the program so far: 4,000 lines for a detector
    try:
        with warnings.catch_warnings(), _plain_attention(), redirect_stderr(said):
            warnings.simplefilter("ignore")
            program = torch.export.export(module, given, dict(keywords or {}))
    except Exception as error:  # whatever the module's own code raises
        reason = " ".join(str(error).split())[:300]
        packed = any(type(part).__module__.startswith("torch.ao.") for part in module.modules())
        accepted = (QUANTIZED if packed else DATA_DEPENDENT if isinstance(error, GuardOnDataDependentSymNode) else
                    f"; accepted: {DIFFERENTIATED}" if any(text in reason for text in DIFFERENTIATING) else "")
        raise FadiffError(f"{type(module).__name__}: torch.export cannot trace it: {type(error).__name__}: "
                          f"{reason}{accepted}") from error
    if text := said.getvalue().rstrip("\n"):
        say(text, sys.stderr)
    return program


@contextmanager
def _plain_attention() -> Iterator[None]:
    """Modules of attention as the products that they are, not as one operator for inference."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _updated(node: torch.fx.Node) -> str | None:
    """The name of the tensor that a call updates in place and returns; None where it returns a new one."""
    schema = getattr(node.target, "_schema", None)
    first = node.args[0] if node.args else None
    in_place = schema is not None and schema.is_mutable and len(schema.returns) == 1 and schema.arguments[
        0].alias_info is not None and schema.arguments[0].alias_info.is_write
    return first.name if in_place and isinstance(first, torch.fx.Node) else None


def _inputs(program: ExportedProgram, to: Assembly, title: str) -> dict[str, Any]:
    """The values of placeholders: the user's tensors are inputs of the network, all others constants."""
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    values: dict[str, Any] = {}
    for node in program.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            shape = _shapes(node, title)
            if not isinstance(shape, tuple):
                continue
            user = node.op == "placeholder" and kinds.get(node.name) == InputKind.USER_INPUT
            user = user and math.prod(shape) > 0
            values[node.name] = to.input(node.name, shape, Where(title, path=node.name)) if user else Tensor(shape)
    return values


def _called(node: torch.fx.Node, name: str, values: dict[str, Any], to: Assembly, title: str) -> Any:
    """The tensor, or list of tensors, that one call gives."""
    if node.target is operator.getitem:
        source, index = node.args[0], node.args[1]
        several = values.get(getattr(source, "name", ""))
        return several[index] if isinstance(several, list) and isinstance(index, int) else several
    shape = _shapes(node, title)
    if maps_over_a_batch(node.target):
        raise Where(title, path=node.name).error("a call of torch.func that PyTorch does not take apart",
                                                 f"an axis for the batch in place of torch.vmap; {DIFFERENTIATED}")
    if shape is None:
        return None
    arguments = _arguments(node, values)
    operands = list(_tensors(arguments.values()))
    empty = not any(map(math.prod, shape if isinstance(shape, list) else [shape]))
    call = TorchCall(operator_name(node.target), name, arguments, operands, shape, Where(title, path=node.name),
                     tag_of(node.target), _is_complex(node))
    if empty or all(tensor.constant for tensor in operands):
        if call.operator in LAYERS and not empty:
            to.note_folded(name, call.operator, _macs_alone(call))
        return [Tensor(s) for s in shape] if isinstance(shape, list) else Tensor(shape)
    return understood(call, to)


def _macs_alone(call: TorchCall) -> int:
    """Multiply-accumulates of a call that reads constants, counted as if they were computed."""
    alone = Assembly()
    arguments = {name: _computed(item, alone, call.where) for name, item in call.arguments.items()}
    understood(replace(call, arguments=arguments, operands=list(_tensors(arguments.values()))), alone)
    return alone.macs


def _computed(item: Any, alone: Assembly, where: Where) -> Any:
    """An argument with constants as inputs of an assembly of its own."""
    if isinstance(item, list):
        return [_computed(part, alone, where) for part in item]
    return alone.input("constant", item.shape, where) if isinstance(item, Tensor) else item


def _names(calls: Sequence[torch.fx.Node]) -> dict[str, str]:
    """A name for every call: its module's, such as layer1.0.conv1, where it is the module's only call, else its own
    name behind that of the module."""
    def module(node: torch.fx.Node) -> str:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        return str(stack[-1][0]) if stack else ""
    count = Counter(module(node) for node in calls if node.target is not operator.getitem)
    return {node.name: module(node) if module(node) and count[module(node)] == 1
            else f"{module(node)}.{node.name}".lstrip(".") for node in calls}


def _arguments(node: torch.fx.Node, values: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, nodes replaced by their tensors; numbers computed from tensors are None."""
    def value(item: Any) -> Any:
        if isinstance(item, torch.fx.Node):
            return values.get(item.name)
        return [value(part) for part in item] if isinstance(item, list | tuple) else item
    names = ([argument.name for argument in node.target._schema.arguments]
             if isinstance(node.target, torch._ops.OpOverload) else [])
    names += [f"argument {index}" for index in range(len(names), len(node.args))]
    return ({name: value(item) for name, item in zip(names, node.args, strict=False)}
            | {name: value(item) for name, item in node.kwargs.items()})


def _tensors(items: Any) -> Any:
    """The tensors among arguments, those in lists included."""
    for item in items:
        if isinstance(item, Tensor):
            yield item
        elif isinstance(item, list):
            yield from _tensors(item)


def _shapes(node: torch.fx.Node, title: str) -> Any:
    """The shape of a node's tensor, a list of shapes for several, None where it gives none."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return _static(value, node, title)
    if isinstance(value, list | tuple):
        return [_static(item, node, title) if isinstance(item, torch.Tensor) else () for item in value]
    return None


def _is_complex(node: torch.fx.Node) -> bool:
    """Whether a node's tensor, or the first of several, has complex numbers."""
    value = node.meta.get("val")
    first = value[0] if isinstance(value, list | tuple) and value else value
    return isinstance(first, torch.Tensor) and first.is_complex()


def _static(value: torch.Tensor, node: torch.fx.Node, title: str) -> Shape:
    """The shape of a value. Raises SpecError where a dimension is dynamic."""
    if not all(type(size) is int for size in value.shape):
        raise Where(title, path=node.name).error(
            f"the shape {' x '.join(map(str, value.shape))} has dynamic dimensions, or depends on the data "
            f"({node.target})", "fixed shapes: export without dynamic_shapes, select without boolean masks")
    return tuple(value.shape)
