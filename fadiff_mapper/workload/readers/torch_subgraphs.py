"""Enters the graphs that PyTorch's operators of higher order call: conditions, loops, modified attention.

    cond              the branch with more multiply-accumulates runs; its operators say so
    scan, map         the operators of the body, once for every entry of the first axis of what is scanned
    flex_attention    attention between all queries and keys, whatever its mask of blocks leaves out
    while_loop        not understood: data decide the number of passes; one pass is what it may well have
    any other         not understood; likewise with one call of each graph

Regions (`no_grad`, `autocast`) are no calls any more (`torch_decompositions`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, attention
from fadiff_mapper.workload.readers.gradients import attention_gradients
from fadiff_mapper.workload.readers.recurrent import repeated
from fadiff_mapper.workload.readers.written_out_products import recognise_products
from fadiff_mapper.yaml.place import Where

Walk = Callable[[torch.fx.GraphModule, Sequence[Any], Assembly], list[Any]]
"""Adds the calls of a graph to an assembly, given the values of its placeholders; returns the values of its results."""

LARGER_BRANCH = "the branch of a condition with more multiply-accumulates runs"
ALL_BLOCKS = "every query attends to every key, whatever a mask of blocks leaves out"


@dataclass(frozen=True)
class GraphCall:
    """A call of an operator of higher order.

    Attributes:
        operator: its name, such as "cond".
        name: name for its nodes.
        arguments: its arguments in order: graphs, values of the assembly, lists of them, anything else.
        shapes: shapes of its results.
        where: place in the program, for messages.
    """

    operator: str
    name: str
    arguments: Sequence[Any]
    shapes: Sequence[Shape]
    where: Where

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        """The graphs among the arguments."""
        return [item for item in _flat(self.arguments) if isinstance(item, torch.fx.GraphModule)]

    @property
    def operands(self) -> list[Tensor]:
        """The tensors among the arguments."""
        return [item for item in _flat(self.arguments) if isinstance(item, Tensor)]


def entered(call: GraphCall, to: Assembly, walk: Walk) -> list[Any]:
    """Adds the nodes of one call.

    Args:
        call: the call.
        to: the network.
        walk: adds the calls of a graph.

    Returns:
        The values of its results.
    """
    if call.operator == "flex_attention":
        return _attention(call, to)
    if call.operator == "flex_attention_backward":
        q, k, v, _, _, grad = call.operands[:6]
        return [*attention_gradients(to, call.name, grad, (q, k, v), call.where),
                *(Tensor(shape) for shape in call.shapes[3:])]
    if call.operator == "cond":
        return _branch(call, to, walk)
    if call.operator in ("scan", "map_impl", "associative_scan"):
        return _repeated(call, to, walk)
    return to.unknown(call.name, call.operator, call.operands, call.shapes, call.where,
                      possible=sum(_macs(graph, to, walk) for graph in call.graphs) if call.graphs else None)


def _attention(call: GraphCall, to: Assembly) -> list[Any]:
    """Attention without its mask of blocks, and the sums of its rows, which carry no data on."""
    start = len(to.nodes)
    q, k, v = call.operands[:3]
    out = attention(to, call.name, (q, k, v), None, call.shapes[0], call.where)
    _note(to, start, ALL_BLOCKS)
    return [out, *(Tensor(shape) for shape in call.shapes[1:])]


def _branch(call: GraphCall, to: Assembly, walk: Walk) -> list[Any]:
    """The nodes of the larger branch of a condition."""
    _, first, second, given = call.arguments
    larger = max((first, second), key=lambda graph: _macs(graph, to, walk, given))
    start = len(to.nodes)
    results = walk(larger, given, to)
    _note(to, start, LARGER_BRANCH)
    return results


def _note(to: Assembly, start: int, what: str) -> None:
    """Says what is assumed of the operators from some node on."""
    for index in range(start, len(to.nodes)):
        if to.nodes[index].layer and not to.nodes[index].what:
            to.nodes[index] = replace(to.nodes[index], what=what)


def _repeated(call: GraphCall, to: Assembly, walk: Walk) -> list[Any]:
    """The operators of the body of a loop over the first axis of some tensors.

    Arguments are the body; for a scan the tensors that are carried on; those that are scanned; further ones. An
    associative scan of n entries combines them n - 1 times, at least.
    """
    body, *groups = call.arguments
    scanned = groups[1] if call.operator == "scan" else groups[0]
    times = scanned[0].shape[0]
    entries = [Tensor(tensor.shape[1:], tensor.node) for tensor in scanned]
    given = [*(groups[0] if call.operator == "scan" else entries if call.operator == "associative_scan" else []),
             *entries, *groups[-1]]
    inner = Assembly(busy_experts=to.busy_experts)
    results = walk(body, [_input(inner, index, value, call.where) for index, value in enumerate(given)], inner)
    recognise_products(inner, [value.node for value in results if isinstance(value, Tensor) and value.node])
    return repeated(to, call.name, inner, times - (call.operator == "associative_scan"), call.operands, call.shapes,
                    call.where, in_turn=call.operator != "map_impl")


def _macs(graph: torch.fx.GraphModule, to: Assembly, walk: Walk, given: Sequence[Any] | None = None) -> int:
    """Multiply-accumulates of one call of a graph, those counted that its nodes may well have."""
    alone = Assembly(busy_experts=to.busy_experts)
    if given is None:
        given = [Tensor(tuple(node.meta["val"].shape), node.name) if isinstance(node.meta.get("val"), torch.Tensor)
                 else None for node in graph.graph.nodes if node.op == "placeholder"]
    walk(graph, [_input(alone, index, value, Where("")) for index, value in enumerate(given)], alone)
    return alone.macs + sum(node.possible or 0 for node in alone.nodes)


def _input(to: Assembly, index: int, value: Any, where: Where) -> Any:
    """A computed value as an input of an assembly of its own; constants and numbers as they are."""
    return to.input(f"input {index}", value.shape, where) if isinstance(value, Tensor) and value.node else value


def _flat(items: Any) -> list[Any]:
    """The entries of lists within lists, and of mappings."""
    if isinstance(items, Mapping):
        return _flat(list(items.values()))
    return [part for item in items for part in _flat(item)] if isinstance(items, list | tuple) else [items]
