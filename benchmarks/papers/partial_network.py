"""Parts of bundled networks as networks of their own: some layers one after the other, or all but one."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper import Workload, load_network
from fadiff_mapper.workload import Node


def chain(name: str) -> Workload:
    """A bundled network, whole, with some of its nodes only (`network:node,node`), or without one (`network-node`)."""
    name, _, without = name.partition("-")
    network, _, nodes = name.partition(":")
    whole = load_network(f"bundled:networks/{network}")
    if not nodes and not without:
        return whole
    with TemporaryDirectory() as folder:
        file = Path(folder) / "chain.yaml"
        file.write_text(chain_text(whole, nodes.split(",") if nodes else None, without))
        return load_network(file)


def chain_text(whole: Workload, names: list[str] | None, without: str = "") -> str:
    """Some nodes of a network as a network file; tensors that they read of others become inputs.

    Args:
        whole: The network.
        names: Nodes to keep; None for all of them.
        without: A node to leave out, whose readers read its first input instead.
    """
    by_name = {node.name: node for node in whole.nodes}
    kept = [node for node in whole.nodes if node.name != without and node.op != "input"
            and (names is None or node.name in names)]
    inside = {node.name for node in kept}
    graph, shapes, inputs = ["  graph:"], ["  shapes:"], {}
    for number, node in enumerate(kept):
        reads = [source(by_name, name, inside) for name in node.inputs]
        inputs |= {name: list(by_name[name].shape or ()) for name in reads if name not in inside}
        if node.layer is None:
            graph.append(f"  - {{name: {node.name}, op: {node.op}, from: [{', '.join(reads)}]{window(node)}}}")
            continue
        dims = ", ".join(f"{dim}: {bound}" for dim, bound in node.layer.problem.bounds.items())
        strides = list(node.layer.strides)
        shapes.append(f"  - {{id: s{number}, op: {node.layer.op}, repeat: {node.layer.repeat}, dims: {{{dims}}}, "
                      f"stride: {strides}}}")
        second = f", weights_from: {reads[1]}" if len(reads) > 1 else ""
        graph.append(f"  - {{name: {node.name}, shape: s{number}, from: [{reads[0]}]{second}}}")
    return "\n".join(["workload:", "  version: 1", "  name: chain", f"  inputs: {inputs}", *shapes, *graph]) + "\n"


def window(node: Node) -> str:
    """The window of a pool as attributes of a network file; empty for other nodes."""
    pool = node.window
    return "" if pool is None else (f", kernel: {list(pool.kernel)}, stride: {list(pool.stride)}, "
                                    f"pad: {[list(pad) for pad in pool.pad]}, dilation: {list(pool.dilation)}")


def source(by_name: dict[str, Node], name: str, inside: set[str]) -> str:
    """The nearest kept node before a tensor, along first inputs; the tensor itself where there is none."""
    before = name
    while before not in inside:
        if not by_name[before].inputs:
            return name
        before = by_name[before].inputs[0]
    return before
