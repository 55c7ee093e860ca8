"""Puts bodies in the place of calls: those of `no_grad` and `autocast` regions, and graphs of simpler operators.

`ExportedProgram.run_decompositions` does that, too, but traces the whole program anew whatever is to be replaced, and
fails for caches of keys and values that are written in place. Here the rest of the program stays as it is.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature

REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Operators that call the graph among their arguments once, with all arguments behind it."""


def without_regions(program: ExportedProgram) -> ExportedProgram:
    """A program with the same results and no such region; what a region computes in another number format is of the
    same shapes.

    Args:
        program: any program; it is not changed.
    """
    if not any(_is_region(node) for node in program.graph.nodes):
        return program
    module = copied(program)
    _inline(module)
    return with_graphs(program, module)


def copied(program: ExportedProgram) -> torch.fx.GraphModule:
    """A copy of a program's module, with the names of its inputs: a plain copy calls "input" "input_1".

    Args:
        program: any program; weights are not in its module.
    """
    module: torch.fx.GraphModule = copy.deepcopy(program.graph_module)
    for node, original in zip(module.graph.nodes, program.graph.nodes, strict=True):
        node.name = original.name
    return module


def with_graphs(program: ExportedProgram, module: torch.fx.GraphModule) -> ExportedProgram:
    """A program with other graphs, without what nobody reads.

    Args:
        program: a program.
        module: its module with calls replaced: the same inputs and results, perhaps under other names.
    """
    module.graph.eliminate_dead_code()
    results = module.graph.output_node().args[0]
    assert isinstance(results, tuple | list)
    specs = [replace(spec, arg=replace(spec.arg, name=node.name)) if isinstance(node, torch.fx.Node) else spec
             for spec, node in zip(program.graph_signature.output_specs, results, strict=True)]
    signature = ExportGraphSignature(program.graph_signature.input_specs, specs)
    return ExportedProgram(module, module.graph, signature, program.state_dict, program.range_constraints,
                           program.module_call_graph, program.example_inputs, program.constants,
                           verifiers=[program.verifier])


def put_body(graph: torch.fx.Graph, call: torch.fx.Node, body: torch.fx.Graph, given: Sequence[Any]) -> None:
    """Copies a body in front of a call, and has its results read in place of the call's.

    Args:
        graph: the graph of the call.
        call: a call with one result, or with several, of which all readers pick one by its index.
        body: the graph to put in its place; nodes without a module become part of the call's.
        given: nodes of `graph` or numbers, one for each placeholder of the body.
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
            place = next(index for index, value in enumerate(node.args) if _is_graph(module, value))
            body = getattr(module, str(node.args[place].target))
            _inline(body)
            put_body(module.graph, node, body.graph, node.args[place + 1:])


def _is_region(node: torch.fx.Node) -> bool:
    """Whether a node calls a region."""
    return isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) in REGIONS


def _is_graph(module: torch.fx.GraphModule, value: Any) -> bool:
    """Whether an argument names a graph of the module."""
    return (isinstance(value, torch.fx.Node) and value.op == "get_attr"
            and isinstance(getattr(module, str(value.target), None), torch.fx.GraphModule))
