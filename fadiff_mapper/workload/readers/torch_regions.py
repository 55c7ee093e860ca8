"""Puts the bodies of `no_grad` and `autocast` regions of exported programs where they stand.

`ExportedProgram.run_decompositions` does that, too, but fails for caches of keys and values that are written in place.
"""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch.export import ExportedProgram

REGIONS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Operators that call the graph among their arguments once, with all arguments behind it."""


def without_regions(program: ExportedProgram) -> ExportedProgram:
    """A program with the same results and no such region.

    Args:
        program: any program; it is not changed.
    """
    module = copy.deepcopy(program.graph_module)    # weights are not in it
    _inline(module)
    return ExportedProgram(module, module.graph, program.graph_signature, program.state_dict,
                           program.range_constraints, program.module_call_graph, program.example_inputs,
                           program.constants, verifiers=[program.verifier])


def _inline(module: torch.fx.GraphModule) -> None:
    """Replaces every region of a graph by its body, regions within regions first."""
    for node in list(module.graph.nodes):
        if isinstance(node.target, torch._ops.HigherOrderOperator) and str(node.target) in REGIONS:
            place = next(index for index, value in enumerate(node.args) if _is_graph(module, value))
            body = getattr(module, str(node.args[place].target))
            _inline(body)
            _replace(module.graph, node, body.graph, node.args[place + 1:])


def _is_graph(module: torch.fx.GraphModule, value: Any) -> bool:
    """Whether an argument names a graph of the module."""
    return (isinstance(value, torch.fx.Node) and value.op == "get_attr"
            and isinstance(getattr(module, str(value.target), None), torch.fx.GraphModule))


def _replace(graph: torch.fx.Graph, region: torch.fx.Node, body: torch.fx.Graph, given: tuple[Any, ...]) -> None:
    """Copies a body in front of the call of its region, and has its results read in place of the region's."""
    inputs = [node for node in body.nodes if node.op == "placeholder"]
    with graph.inserting_before(region):
        results: Any = graph.graph_copy(body, dict(zip(inputs, given, strict=True)))
    for part in list(region.users):
        if part.target is operator.getitem:
            part.replace_all_uses_with(results[part.args[1]])
            graph.erase_node(part)
    graph.erase_node(region)
