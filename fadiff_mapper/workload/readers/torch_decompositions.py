"""Makes exported programs flat: one writer for each value, no regions, unknown operators taken apart.

Calls of operators that `torch_operators` does not know by name are replaced by what PyTorch computes them with
(tensordot, cells of recurrent layers, ...), as far as it says so, and the operators of a decomposition are looked at
again. Equal calls are traced once, so that 32 equal blocks take no longer than one.

`ExportedProgram.run_decompositions` does that, too, and makes updates in place and maps over a batch (`torch.vmap`)
explicit, but traces the whole program anew, in several passes: 0.6 s for every block of a language model. So it is
called for these alone, and for operators that nothing else takes apart.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Hashable
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx.experimental.proxy_tensor import make_fx

from fadiff_mapper.workload.readers.torch_names import FILLS
from fadiff_mapper.workload.readers.torch_operators import has_name
from fadiff_mapper.workload.readers.torch_regions import copied, put_body, with_graphs, without_regions

ROUNDS = 4
"""Times that operators are taken apart: a plain safety limit, two were enough for every network tried."""


def flattened(program: ExportedProgram) -> ExportedProgram:
    """A program with the same results in which every call is of an operator.

    Args:
        program: a program with regions, updates in place, and any operators; it is not changed.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = _taken_apart(without_regions(program))
        if _changes(program):
            program = _taken_apart(_explicit(program))
        return _by_pytorch(program)


def _by_pytorch(program: ExportedProgram) -> ExportedProgram:
    """A program without the unknown operators that only PyTorch itself takes apart, as those that change a buffer."""
    graphs = _graphs(program.graph_module)
    unknown = {node.target for graph in graphs for node in graph.graph.nodes if _is_unknown(node)}
    table = {target: _decompositions()[target] for target in unknown if target in _decompositions()}
    for part in (table, *({target: function} for target, function in table.items())) if unknown else ():
        with suppress(Exception):  # something goes wrong inside a decomposition: each is tried by itself
            apart: ExportedProgram = program.run_decompositions(part)
            return apart
    return program


def _explicit(program: ExportedProgram) -> ExportedProgram:
    """A program without updates in place; the same one where PyTorch fails to make them explicit.

    It fails at caches of keys and values (`torch_program` follows such updates by itself).
    """
    try:
        explicit: ExportedProgram = program.run_decompositions({})
    except (AssertionError, RuntimeError):
        return program
    return explicit


def _taken_apart(program: ExportedProgram) -> ExportedProgram:
    """A program without unknown operators, as far as PyTorch can take them apart."""
    if not any(_is_unknown(node) for graph in _graphs(program.graph_module) for node in graph.graph.nodes):
        return program
    module = copied(program)
    for graph in _graphs(module):
        bodies: dict[Hashable, torch.fx.Graph | None] = {}
        for _ in range(ROUNDS):
            for node in filter(_is_unknown, list(graph.graph.nodes)):
                body = _body(node, bodies)
                if body is not None:
                    put_body(graph.graph, node, body, node.all_input_nodes)
    return with_graphs(program, module)


def _graphs(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    """The graph of a program and those that its conditions and loops call."""
    return [part for part in module.modules() if isinstance(part, torch.fx.GraphModule)]


def _body(call: torch.fx.Node, bodies: dict[Hashable, torch.fx.Graph | None]) -> torch.fx.Graph | None:
    """What computes a call, with a placeholder for every node that it reads; None where PyTorch does not say it.

    `bodies` are those found so far, by operator and arguments; a new one is added.
    """
    given = call.all_input_nodes
    tensors: list[Any] = [source.meta.get("val") for source in given]
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        return None
    numbers = {source: index for index, source in enumerate(given)}
    arguments = torch.fx.map_arg((call.args, call.kwargs), lambda source: f"tensor {numbers[source]}")
    key = (call.target, repr(arguments), *((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors))
    if key not in bodies:
        bodies[key] = _traced(call, tensors)
    return bodies[key]


def _traced(call: torch.fx.Node, tensors: list[torch.Tensor]) -> torch.fx.Graph | None:
    """The operators that PyTorch computes a call by.

    Views that stand in no table (`movedim`) say themselves what they are made of. None where there is no decomposition,
    or one that fails, that checks values (`linalg_inv`: is the matrix singular?), or that holds a tensor of its own.
    """
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
    return graph if whole and plain else None


@cache
def _decompositions() -> dict[Any, Any]:
    """Operator -> the function that computes it by others; PyTorch takes seconds to list them."""
    return {**decomposition_table, **torch.export.default_decompositions()}


def _changes(program: ExportedProgram) -> bool:
    """True where there are regions, maps over a batch, or updates in place that a later reader of the tensor must see.

    Most updates are of a tensor that nobody else reads (a ReLU behind a convolution) or of constants (masks, running
    means, new zeros of a computed shape). Making those explicit would trace the whole network once more.
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
    """Whether a call begins or ends a region of `torch.vmap`, within which shapes leave the batch out.

    Args:
        target: what a call of a program calls.
    """
    return str(getattr(target, "__module__", "")).startswith("torch._functorch")


def _updates(node: torch.fx.Node) -> bool:
    """True for calls that update an argument in place."""
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target._schema.is_mutable)


def _private(tensor: Any, update: torch.fx.Node, before: set[torch.fx.Node]) -> bool:
    """True for a tensor that an update changes, and that nobody sees but by the update's result."""
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
    """True for calls of operators that are not known by name, unless they read nothing and so make constants.

    Repetitions of each element by a number are taken apart, too: as expanded axes their way is followed.
    """
    if node.target is torch.ops.aten.repeat_interleave.self_int:
        return bool(node.all_input_nodes)
    return (node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload)
            and bool(node.all_input_nodes) and not has_name(operator_name(node.target), tag_of(node.target)))


def operator_name(target: Any) -> str:
    """A name for the tables.

    Args:
        target: what a call of a program calls.

    Returns:
        `relu` of aten::relu_.default; the full name for operators outside of aten.
    """
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target)) if target is not operator.getitem else "getitem"
    space, _, name = target._schema.name.partition("::")
    return name.removesuffix("_") if space == "aten" else f"{space}::{name}"


@cache
def tag_of(target: Any) -> str:
    """The tag of an operator that says how its points hang together.

    Args:
        target: what a call of a program calls.

    Returns:
        "pointwise", "reduction" or "".
    """
    tags = {str(tag).rpartition(".")[2] for tag in getattr(target, "tags", ())}
    return next((tag for tag in ("pointwise", "reduction") if tag in tags), "")
