"""Reads PyTorch modules by `torch.export`. Weights are not read; the module is traced, not run.

`torch.export` gives a graph of ATen operators with the shape of every value, which `flattened` simplifies. Calls are
walked in order; `torch_operators` turns each into nodes. The user's placeholders are the network's inputs. All other
placeholders (parameters, buffers) are constants, as are values computed only from constants, or without elements.
"""

from __future__ import annotations

import copy
import math
import operator
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import redirect_stderr, suppress
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves, tree_map

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention, recognise_products
from fadiff_mapper.workload.readers.convolutions import attention_gradients, repeated
from fadiff_mapper.workload.readers.torch_operators import FILLS, LAYERS, TorchCall, has_name, understood

# A program is flattened: regions (`no_grad`, `autocast`) are replaced by their calls, and operators that
# `torch_operators` does not know by name are replaced by PyTorch's decomposition (tensordot, cells of recurrent layers,
# ...), if it has one, repeatedly. Equal calls are traced once, so that 32 equal blocks take no longer than one.
#
# `ExportedProgram.run_decompositions` decomposes, too, and makes updates in place and maps over a batch (`torch.vmap`)
# explicit. But it traces the whole program anew, in several passes, and fails for caches of keys and values that are
# written in place. So it is called only for such updates and maps, and for operators without another decomposition.

REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Operators that call a graph, one of their arguments, once with all arguments behind it."""

ROUNDS = 4  # times that operators are decomposed: a plain safety limit


def flattened(program: ExportedProgram) -> ExportedProgram:
    """A program with the same results, without regions and unknown operators where possible; the given one stays."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if any(_is_region(node) for node in program.graph.nodes):
            program = _edited(program, _inline)
        program = _taken_apart(program)
        if _changes(program):
            with suppress(AssertionError, RuntimeError):  # fails at written caches, which `_add_calls` follows
                program = program.run_decompositions({})
            program = _taken_apart(program)
        unknown = {node.target for graph in _graphs(program.graph_module) for node in graph.graph.nodes
                   if _is_unknown(node)}
        table = {target: _decompositions()[target] for target in unknown if target in _decompositions()}
        for part in (table, *({target: function} for target, function in table.items())) if unknown else ():
            with suppress(Exception):  # a decomposition fails: each is tried by itself
                apart: ExportedProgram = program.run_decompositions(part)
                return apart
        return program


def _edited(program: ExportedProgram, edit: Callable[[torch.fx.GraphModule], None]) -> ExportedProgram:
    """A copy of a program whose module, without weights, is edited. Inputs and results stay, perhaps under other names;
    values without readers are left out."""
    module: torch.fx.GraphModule = copy.deepcopy(program.graph_module)
    for node, original in zip(module.graph.nodes, program.graph.nodes, strict=True):
        node.name = original.name   # a plain copy calls "input" "input_1"
    edit(module)
    module.graph.eliminate_dead_code()
    results = module.graph.output_node().args[0]
    assert isinstance(results, tuple | list)
    specs = [replace(spec, arg=replace(spec.arg, name=node.name)) if isinstance(node, torch.fx.Node) else spec
             for spec, node in zip(program.graph_signature.output_specs, results, strict=True)]
    signature = ExportGraphSignature(program.graph_signature.input_specs, specs)
    return ExportedProgram(module, module.graph, signature, program.state_dict, program.range_constraints,
                           program.module_call_graph, program.example_inputs, program.constants,
                           verifiers=[program.verifier])


def _put_body(graph: torch.fx.Graph, call: torch.fx.Node, body: torch.fx.Graph, given: Sequence[Any]) -> None:
    """Copies a body in front of a call in a graph, and replaces the results of the call by the results of the body.

    Readers of a call with several results pick one by its index. `given` has a node of `graph` or a number for each
    placeholder of the body; nodes of the body that belong to no module join the module of the call.
    """
    inputs = [node for node in body.nodes if node.op == "placeholder"]
    copies = dict(zip(inputs, given, strict=True))
    with graph.inserting_before(call):
        results: Any = graph.graph_copy(body, copies)
    for node in copies.keys() - inputs:
        copies[node].meta.setdefault("nn_module_stack", call.meta.get("nn_module_stack"))
    for part in list(call.users):
        if part.target is operator.getitem:
            part.replace_all_uses_with(results[part.args[1]])
            graph.erase_node(part)
    if call.users:
        call.replace_all_uses_with(results)
    graph.erase_node(call)


def _inline(module: torch.fx.GraphModule) -> None:
    """Replaces every region of a graph by its body, regions within regions first."""
    for node in list(module.graph.nodes):
        if _is_region(node):
            place, body = next((index, graph) for index, value in enumerate(node.args)
                               if (graph := _graph_of(module, value)) is not None)
            _inline(body)
            _put_body(module.graph, node, body.graph, node.args[place + 1:])


def _is_region(node: torch.fx.Node) -> bool:
    """Whether a node calls a region."""
    return isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) in REGIONS


def _graph_of(module: torch.fx.GraphModule, value: Any) -> torch.fx.GraphModule | None:
    """The graph of the module that an argument names, None for any other argument."""
    named = isinstance(value, torch.fx.Node) and value.op == "get_attr"
    graph = getattr(module, str(value.target), None) if named else None
    return graph if isinstance(graph, torch.fx.GraphModule) else None


def _taken_apart(program: ExportedProgram) -> ExportedProgram:
    """A program whose unknown operators are decomposed, where PyTorch can do so."""
    if not any(_is_unknown(node) for graph in _graphs(program.graph_module) for node in graph.graph.nodes):
        return program

    def take_apart(module: torch.fx.GraphModule) -> None:
        for graph in _graphs(module):
            bodies: dict[Hashable, torch.fx.Graph | None] = {}
            for _ in range(ROUNDS):
                for node in filter(_is_unknown, list(graph.graph.nodes)):
                    body = _body(node, bodies)
                    if body is not None:
                        _put_body(graph.graph, node, body, node.all_input_nodes)
    return _edited(program, take_apart)


def _graphs(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    """The graph of a program and those that its conditions and loops call."""
    return [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def _body(call: torch.fx.Node, bodies: dict[Hashable, torch.fx.Graph | None]) -> torch.fx.Graph | None:
    """PyTorch's decomposition of a call, with a placeholder for every node that the call reads.

    Views that are in no table (`movedim`) name their own decomposition. None where there is no decomposition, or where
    it fails, checks values (`linalg_inv`: is the matrix singular?), or holds a tensor. `bodies` caches them by operator
    and arguments.
    """
    given = call.all_input_nodes
    tensors: list[Any] = [source.meta.get("val") for source in given]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    numbers = {source: index for index, source in enumerate(given)}
    arguments = torch.fx.map_arg((call.args, call.kwargs), lambda source: f"tensor {numbers[source]}")
    key = (call.target, repr(arguments), *((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors))
    if key in bodies:
        return bodies[key]
    bodies[key] = None
    target: Any = call.target
    decomposition = _decompositions().get(target, target.decompose if _is_view(call) else None)
    if decomposition is None:
        return None

    def run(*given: torch.Tensor) -> Any:
        values = dict(zip(call.all_input_nodes, given, strict=True))
        arguments, keywords = torch.fx.map_arg((call.args, call.kwargs), values.__getitem__)
        return target(*arguments, **keywords)
    try:
        graph: torch.fx.Graph = make_fx(run, {target: decomposition}, "fake", pre_dispatch=True)(*tensors).graph
    except Exception:  # whatever goes wrong inside a decomposition
        return None
    results = graph.output_node().args[0]
    whole = all(isinstance(node, torch.fx.Node) for node in (
        results if isinstance(results, tuple | list) else (results,)))
    plain = all(node.target is operator.getitem or (isinstance(node.target, torch._ops.OpOverload)
                                                    and node.target._schema.returns)
                for node in graph.nodes if node.op not in ("placeholder", "output"))
    bodies[key] = graph if whole and plain else None
    return bodies[key]


@cache
def _decompositions() -> dict[Any, Any]:
    """Operator -> the function that decomposes it; cached, as PyTorch takes seconds to list them."""
    return {**decomposition_table, **torch.export.default_decompositions()}


def _changes(program: ExportedProgram) -> bool:
    """True where there are regions, maps over a batch, or updates in place that a later reader of the tensor must see.

    Most updates change a tensor without other readers (a ReLU behind a convolution) or constants (masks, running means,
    new zeros of a computed shape). They are ignored, as making them explicit would trace the whole network again.
    """
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    computed: set[torch.fx.Node] = set()
    seen: set[torch.fx.Node] = set()
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator) or maps_over_a_batch(node.target):
            return True
        reads = any(source in computed for source in node.all_input_nodes)
        if (reads and operator_name(node.target) not in FILLS) or kinds.get(node.name) == InputKind.USER_INPUT:
            computed.add(node)
        if reads and _updates(node) and not _private(node.args[0], node, seen):
            return True
        seen.add(node)
    return False


def maps_over_a_batch(target: Any) -> bool:
    """Whether a call begins or ends a region of `torch.vmap`, within which shapes leave the batch out."""
    return str(getattr(target, "__module__", "")).startswith("torch._functorch")


def _updates(node: torch.fx.Node) -> bool:
    """True for calls that update an argument in place."""
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target._schema.is_mutable)


def _private(tensor: Any, update: torch.fx.Node, before: set[torch.fx.Node]) -> bool:
    """True for a tensor whose change by an update is visible only in the update's result."""
    while isinstance(tensor, torch.fx.Node) and tensor.target is torch.ops.aten.alias.default and all(
            user is update for user in tensor.users):  # the tensor itself under another name
        tensor, update = tensor.args[0], tensor
    if not isinstance(tensor, torch.fx.Node) or tensor.op != "call_function":
        return False
    return (_updates(tensor) or not _is_view(tensor)) and all(
        user is update or (user in before and not _is_view(user)) for user in tensor.users)


def _is_view(node: torch.fx.Node) -> bool:
    """True for calls whose result may share its memory with an argument."""
    if node.target is operator.getitem:
        return _is_view(node.args[0])  # type: ignore[arg-type]  # one of the results of a call
    return not isinstance(node.target, torch._ops.OpOverload) or any(
        result.alias_info is not None for result in node.target._schema.returns)


def _is_unknown(node: torch.fx.Node) -> bool:
    """True for calls of operators that are not known by name, unless they read no tensor and so make constants.

    Repetitions of each element a number of times are decomposed, too: tiles are followed through expanded axes.
    """
    if node.target is torch.ops.aten.repeat_interleave.self_int:
        return bool(node.all_input_nodes)
    return (node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            and bool(node.all_input_nodes) and not has_name(operator_name(node.target), tag_of(node.target)))


def operator_name(target: Any) -> str:
    """The name of an operator in the tables: `relu` for aten::relu_.default, the full name outside of aten."""
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target)) if target is not operator.getitem else "getitem"
    space, _, name = target._schema.name.partition("::")
    return name.removesuffix("_") if space == "aten" else f"{space}::{name}"


@cache
def tag_of(target: Any) -> str:
    """PyTorch's tag of an operator on the dependences between points: "pointwise", "reduction" or ""."""
    tags = {str(tag).rpartition(".")[2] for tag in getattr(target, "tags", ())}
    return next((tag for tag in ("pointwise", "reduction") if tag in tags), "")


# Operators of higher order call graphs:
#
#     cond              the branch with more multiply-accumulates runs; `Node.what` of its operators says so
#     scan, map         the operators of the body, once for every entry of the first scanned axis
#     flex_attention    attention between all queries and keys; its mask of blocks is ignored
#     while_loop        not understood, as the number of passes depends on data; the estimate is one pass
#     any other         not understood; the estimate is one call of each graph

Walk = Callable[[torch.fx.GraphModule, Sequence[Any], Assembly], list[Any]]
"""Adds the calls of a graph to an assembly, given the values of its placeholders; returns the values of its results."""

def _region(call: TorchCall, walk: Walk) -> list[Any]:
    """Adds the nodes of a call of higher order and returns the values of its results; `walk` adds the graphs' nodes."""
    to, start = call.to, len(call.to.nodes)
    if call.operator == "flex_attention_backward":
        q, k, v, _, _, gradient = call.tensors[:6]
        return [*attention_gradients(to, call.name, gradient, (q, k, v)), *call.constants[3:]]
    if call.operator in ("scan", "map_impl", "associative_scan"):
        # Arguments: the body, the carried tensors (of a scan), the scanned tensors, further tensors. An associative
        # scan of n entries combines them at least n - 1 times.
        body, *groups = call.arguments.values()
        scanned = groups[1] if call.operator == "scan" else groups[0]
        entries = [Tensor(tensor.shape[1:], tensor.node) for tensor in scanned]
        given = [*(groups[0] if call.operator == "scan" else entries if call.operator == "associative_scan" else []),
                 *entries, *groups[-1]]
        inner = Assembly(to.where, busy_experts=to.busy_experts)
        results = walk(body, [_outer(inner, index, value) for index, value in enumerate(given)], inner)
        recognise_products(inner, [value.node for value in results if isinstance(value, Tensor) and value.node])
        return repeated(to, call.name, inner, scanned[0].shape[0] - (call.operator == "associative_scan"),
                        call.tensors, call.outs, in_turn=call.operator != "map_impl")
    if call.operator == "flex_attention":   # without its mask; the sums of its rows are constants
        what = "every query attends to every key, whatever a mask of blocks leaves out"
        results = [attention(to, call.name, call.tensors[:3], None, call.out), *call.constants[1:]]
    elif call.operator == "cond":
        _, first, second, given = call.arguments.values()
        what = "the branch of a condition with more multiply-accumulates runs"
        results = walk(max((first, second), key=lambda graph: _macs(graph, to, walk, given)), given, to)
    else:
        graphs = [item for item in tree_leaves(call.arguments) if isinstance(item, torch.fx.GraphModule)]
        return to.unknown(call.name, call.operator, call.tensors, call.outs,
                          possible=sum(_macs(graph, to, walk) for graph in graphs) if graphs else None)
    to.nodes[start:] = [replace(node, what=what) if node.layer and not node.what else node for node in to.nodes[start:]]
    return results


def _macs(graph: torch.fx.GraphModule, to: Assembly, walk: Walk, given: Sequence[Any] | None = None) -> int:
    """Multiply-accumulates of one call of a graph, with the estimates for nodes that are not understood."""
    inner = Assembly(Where(""), busy_experts=to.busy_experts)
    if given is None:
        given = [Tensor(tuple(node.meta["val"].shape), node.name) if isinstance(node.meta.get("val"), torch.Tensor)
                 else None for node in graph.graph.nodes if node.op == "placeholder"]
    walk(graph, [_outer(inner, index, value) for index, value in enumerate(given)], inner)
    return inner.macs + sum(node.possible or 0 for node in inner.nodes)


def _outer(inner: Assembly, index: int, value: Any) -> Any:
    """A computed value as an input of the assembly `inner`; constants and numbers stay as they are."""
    return inner.input(f"input {index}", value.shape) if isinstance(value, Tensor) and value.node else value


DIFFERENTIATED = ("of a training step the module of its loss, as load_network(torch.export.experimental."
                  "_export_forward_backward(torch.export.export(loss, inputs)))")
"""The accepted source in place of a module that computes gradients."""


def read_module(source: torch.nn.Module | ExportedProgram, example_inputs: Sequence[Any] | None,
                example_kwargs: Mapping[str, Any] | None, name: str | None,
                busy_experts: int | None = None, typed: bool = False) -> Workload:
    """Reads a module with its example arguments, or a program that `torch.export` made; see `load_network`.

    Raises:
        FadiffError: there are no example inputs, or `torch.export` refuses the module.
        SpecError: the program has dynamic dimensions, or `build_workload` refuses it.
    """
    program = flattened(source if isinstance(source, ExportedProgram) else
                        _exported(source, example_inputs, example_kwargs))
    title = name or type(source).__name__
    to = Assembly(Where(title), busy_experts=busy_experts, types={} if typed else None)
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    values: dict[str, Any] = {}
    for node in program.graph.nodes:    # the user's tensors are inputs of the network, all others constants
        if node.op in ("placeholder", "get_attr") and isinstance(shape := _shapes(node, title), tuple):
            to.where, to.made_bits = Where(title, path=node.name), _bits(node)
            user = node.op == "placeholder" and kinds.get(node.name) == InputKind.USER_INPUT and math.prod(shape) > 0
            values[node.name] = to.input(node.name, shape) if user else Tensor(shape)
    _add_calls(program.graph_module, values, to, title)
    outputs = [value.node for value in (values.get(name) for name in program.graph_signature.user_outputs
                                        if isinstance(name, str)) if isinstance(value, Tensor) and value.node]
    recognise_products(to, outputs)
    return build_workload(title, to.nodes, tuple(dict.fromkeys(outputs)), Where(title), to.folded)


def _exported(module: torch.nn.Module, inputs: Sequence[Any] | None,
              keywords: Mapping[str, Any] | None) -> ExportedProgram:
    """The program of a module, traced with its example inputs."""
    if inputs is None and not keywords:
        raise FadiffError(f"{type(module).__name__}: no example inputs; accepted: load_network(module, (tensor, ...)), "
                          "whose shapes become the network's")
    given = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs or ())
    said = StringIO()   # torch prints the whole program so far of a module that it cannot trace
    fastpath, traceless = torch.backends.mha.get_fastpath_enabled(), fx.config.do_not_emit_stack_traces
    torch.backends.mha.set_fastpath_enabled(False)  # the fast path would hide the products of attention modules
    fx.config.do_not_emit_stack_traces = True  # stack traces of nodes are not read, and take time
    try:
        with warnings.catch_warnings(), redirect_stderr(said):
            warnings.simplefilter("ignore")
            program = torch.export.export(module, given, dict(keywords or {}))
    except Exception as error:  # whatever the module's own code raises
        reason = " ".join(str(error).split())[:300]
        accepted = ""
        if any(type(part).__module__.startswith("torch.ao.") for part in module.modules()):  # with packed weights
            accepted = ("; accepted: the module before prepare or convert of torch.ao.quantization, which has the same "
                        "multiply-accumulates (the design says how wide words are)")
        elif isinstance(error, GuardOnDataDependentSymNode):
            accepted = ("; accepted: modules whose steps and shapes no value decides, such as a detector without its "
                        "choice")
        elif "fake tensor in the exported program constant's list" in reason or "functorch" in reason:
            accepted = f"; accepted: {DIFFERENTIATED}"  # it computes gradients itself
        raise FadiffError(f"{type(module).__name__}: torch.export cannot trace it: {type(error).__name__}: "
                          f"{reason}{accepted}") from error
    finally:
        torch.backends.mha.set_fastpath_enabled(fastpath)
        fx.config.do_not_emit_stack_traces = traceless
    if text := said.getvalue().rstrip("\n"):
        say(text, sys.stderr)
    return program


def _add_calls(module: torch.fx.GraphModule, values: dict[str, Any], to: Assembly, title: str,
               prefix: str = "") -> None:
    """Adds the calls of a graph to a network; `values` has placeholders and constants, and gets the calls' results.

    `prefix` precedes the names of nodes. A call that is the only call of its module is named as the module, such as
    layer1.0.conv1; another call has its own name behind the module's.
    """
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    stacks = {node: list((node.meta.get("nn_module_stack") or {}).values()) for node in calls}
    modules = {node: str(stack[-1][0]) if stack else "" for node, stack in stacks.items()}
    count = Counter(modules[node] for node in calls if node.target is not operator.getitem)
    for node in calls:
        of = modules[node]
        name = prefix + (of if of and count[of] == 1 else f"{of}.{node.name}".lstrip("."))
        to.where = Where(title, path=node.name)
        if to.types is not None:
            constants = [source for source in node.all_input_nodes if isinstance(
                value := values.get(source.name), Tensor) and value.constant and len(value.shape) > 1]
            stored = [user for user in node.users if "quantize" in str(user.target)]
            to.constant_bits = _bits(constants[0]) if constants else 0
            to.made_bits = _bits(stored[0] if stored and len(stored) == len(node.users) else node)
        values[node.name] = _called(node, name, module, values, to, title)
        if to.types is not None and isinstance(made := values[node.name], Tensor) and made.node:
            to.types[made.node] = to.made_bits
        schema, first = getattr(node.target, "_schema", None), node.args[0] if node.args else None
        if isinstance(first, torch.fx.Node) and schema is not None and schema.is_mutable and len(
                schema.returns) == 1 and (written := schema.arguments[0].alias_info) is not None and written.is_write:
            values[first.name] = values[node.name]  # the call updates its first argument in place and returns it


def _bits(node: torch.fx.Node) -> int:
    """Bits of an element of a value; of a dequantized value, the bits of its quantized operand; 0 for no tensor."""
    if "dequantize" in str(node.target) and node.all_input_nodes:
        return _bits(node.all_input_nodes[0])
    made = tree_leaves(node.meta.get("val"))
    return made[0].dtype.itemsize * 8 if made and isinstance(made[0], torch.Tensor) else 0


def _called(node: torch.fx.Node, name: str, module: torch.fx.GraphModule, values: Mapping[str, Any], to: Assembly,
            title: str) -> Any:
    """The tensor, or list of tensors, that a call in a module returns."""
    if node.target is operator.getitem:
        source, index = node.args[0], node.args[1]
        several = values.get(getattr(source, "name", ""))
        return several[index] if isinstance(several, list) and isinstance(index, int) else several
    shape = _shapes(node, title)
    if maps_over_a_batch(node.target):
        raise to.where.error("a call of torch.func that PyTorch does not take apart",
                             f"an axis for the batch in place of torch.vmap; {DIFFERENTIATED}")
    if shape is None:
        return None

    def argument(item: Any) -> Any:  # numbers computed from tensors are None
        if isinstance(item, torch.fx.Node):
            graph = _graph_of(module, item)
            return values.get(item.name) if graph is None else graph
        return [argument(part) for part in item] if isinstance(item, list | tuple) else item

    def walk(graph: torch.fx.GraphModule, given: Sequence[Any], into: Assembly) -> list[Any]:
        inner: dict[str, Any] = {item.name: Tensor(shape) for item in graph.graph.nodes if item.op == "get_attr"
                                 and isinstance(shape := _shapes(item, title), tuple)}
        inner |= zip((item.name for item in graph.graph.nodes if item.op == "placeholder"), given, strict=False)
        _add_calls(graph, inner, into, title, f"{name}.")
        (output,) = (item for item in graph.graph.nodes if item.op == "output")
        returned = output.args[0] if isinstance(output.args[0], list | tuple) else [output.args[0]]
        return [inner.get(getattr(item, "name", "")) for item in returned]
    higher = isinstance(node.target, torch._ops.HigherOrderOperator)
    # for a call of higher order that wraps an operator (such as one that writes to arguments), that operator
    target = next((item for item in node.args if isinstance(item, torch._ops.OpOverload)), None) if higher else None
    names = [argument.name for argument in node.target._schema.arguments] if isinstance(
        node.target, torch._ops.OpOverload) else []
    names += [f"argument {index}" for index in range(len(names), len(node.args))]
    given = dict(zip(names, node.args, strict=False)) | node.kwargs
    arguments = {key: argument(item) for key, item in given.items()}
    made = tree_leaves(node.meta["val"])
    tensors = [item for item in tree_leaves(arguments) if isinstance(item, Tensor)]
    call = TorchCall(operator_name(target or node.target), name, to, tensors,
                     shape if isinstance(shape, list) else [shape], arguments, higher or isinstance(shape, list),
                     tag_of(node.target), any(isinstance(each, torch.Tensor) and each.is_complex()
                                              for each in made[:1]))
    results: list[Any] = call.constants
    written = [item for item in made if isinstance(item, torch.Tensor)]
    if any(item.numel() for item in written):  # else a check without a result, or empty tensors
        if not all(tensor.constant for tensor in call.tensors):
            results = _region(call, walk) if higher else understood(call)
        elif higher or call.operator in LAYERS:  # constants, counted as if they were computed
            inner = Assembly(to.where)
            computed = tree_map(lambda item: inner.input("constant", item.shape) if isinstance(item, Tensor) else item,
                                arguments)
            folded = replace(call, to=inner, arguments=computed, operands=[
                item for item in tree_leaves(computed) if isinstance(item, Tensor)])
            _region(folded, walk) if higher else understood(folded)
            to.note_folded(name, call.operator, inner.macs)
    return results if call.several else results[0]


def _shapes(node: torch.fx.Node, title: str) -> Any:
    """The shape of a node's tensor, or a list for several, else None. Raises SpecError for dynamic dimensions."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor | list | tuple):
        return None
    shapes = [tuple(item.shape) if isinstance(item, torch.Tensor) else () for item in (
        [value] if isinstance(value, torch.Tensor) else value)]
    for shape in shapes:
        if not all(type(size) is int for size in shape):
            raise Where(title, path=node.name).error(
                f"the shape {' x '.join(map(str, shape))} has dynamic dimensions, or depends on the data "
                f"({node.target})", "fixed shapes: export without dynamic_shapes, select without boolean masks")
    return shapes[0] if isinstance(value, torch.Tensor) else shapes
