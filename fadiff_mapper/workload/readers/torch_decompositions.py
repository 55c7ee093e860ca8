"""Makes exported programs flat: one writer for each value, no regions, unknown operators taken apart by PyTorch itself.

`ExportedProgram.run_decompositions` makes updates in place and maps over a batch (`torch.vmap`) explicit and puts the
bodies of `no_grad` and `autocast` regions where they stand, whatever table it is given. The table here has the
operators that `torch_operators` does not know by name, as far as PyTorch has a decomposition for them (tensordot, cells
of recurrent layers, ...). The operators of a decomposition are looked at again.
"""

from __future__ import annotations

import operator
import warnings
from functools import cache
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from fadiff_mapper.workload.readers.torch_names import FILLS
from fadiff_mapper.workload.readers.torch_operators import has_name
from fadiff_mapper.workload.readers.torch_regions import without_regions

ROUNDS = 4
"""Times that operators are taken apart: a plain safety limit, two were enough for every network tried."""


def flattened(program: ExportedProgram) -> ExportedProgram:
    """A program with the same results in which every call is of an operator.

    Args:
        program: a program with regions, updates in place, and any operators.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if _changes(program):
            program = _explicit(program)
        given_up: set[Any] = set()
        for _ in range(ROUNDS):
            graphs = [part.graph for part in program.graph_module.modules() if isinstance(part, torch.fx.GraphModule)]
            unknown = {node.target for graph in graphs for node in graph.nodes if _is_unknown(node)} - given_up
            if not unknown:
                break
            table = {target: _decompositions()[target] for target in unknown if target in _decompositions()}
            program, failed = _taken_apart(program, table)  # views are taken apart whatever the table says
            given_up |= failed | (unknown - set(table))
    return program


def _explicit(program: ExportedProgram) -> ExportedProgram:
    """A program without regions and updates in place; without regions alone where PyTorch fails to make both explicit.

    PyTorch fails at caches of keys and values that are written in place (`torch_program` follows such updates by
    itself).
    """
    try:
        explicit: ExportedProgram = program.run_decompositions({})
    except (AssertionError, RuntimeError):
        return without_regions(program)
    return explicit


def _taken_apart(program: ExportedProgram, table: dict[Any, Any]) -> tuple[ExportedProgram, set[Any]]:
    """A program without the operators of a table, and those of them that PyTorch fails to take apart."""
    try:
        return program.run_decompositions(table), set()
    except Exception:  # whatever goes wrong inside a decomposition; which one it was is found out one by one
        if len(table) < 2:
            return program, set(table)
    failed: set[Any] = set()
    for target, function in table.items():
        program, wrong = _taken_apart(program, {target: function})
        failed |= wrong
    return program, failed


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
    if not isinstance(tensor, torch.fx.Node) or not isinstance(tensor.target, torch._ops.OpOverload):
        return False
    return (_updates(tensor) or not _is_view(tensor)) and all(
        user is update or (user in before and not _is_view(user)) for user in tensor.users)


def _is_view(node: torch.fx.Node) -> bool:
    """True for calls whose result may share its memory with an argument."""
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


def tag_of(target: Any) -> str:
    """The tag of an operator that says how its points hang together.

    Args:
        target: what a call of a program calls.

    Returns:
        "pointwise", "reduction" or "".
    """
    tags = {str(tag).rpartition(".")[2] for tag in getattr(target, "tags", ())}
    return next((tag for tag in ("pointwise", "reduction") if tag in tags), "")
