"""What fusion saves on whole networks and on small chains, beside the figures of others: one line each.

    python benchmarks/network_fusion.py [NAME ...] [--design large|small]

EDP in pJ * cycles is the sum of energies times the sum of cycles. "reference" is the part of the unfused EDP that
AccelForge 1.0.467 saves on an equivalent design, or what a plan made by hand saves; nan where there is none. "90 %"
are the seconds after which the plan had nine tenths of its gain. A name is a network of the package,
some of its layers one after the other (`network:layer,layer`), or one without an operator (`network-operator`). Every
line has a process of its own, so MB is its peak memory. `network_baselines.py` compares with gradient descent alone.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from math import nan
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper import Workload, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.workload import Node

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
ATTENTION = "gpt3_6b7_block:q_proj,k_proj,v_proj,qk,softmax,av,out_proj"
REFERENCES = {("gpt3_6b7_block-softmax", "large"): 0.030, ("gpt3_6b7_block-softmax", "small"): 0.101,
              (f"{ATTENTION}-softmax", "large"): 0.077, ("mobilenet_v1:conv1,dw1", "large"): 0.35,
              ("mobilenet_v1:dw7,pw7", "large"): 0.20, ("mobilenet_v1:dw7,pw7", "small"): 0.093,
              ("resnet18:layer1.0.conv1,layer1.0.conv2", "large"): 0.083,
              ("resnet18:layer1.0.conv1,layer1.0.conv2,layer1.1.conv1", "large"): 0.111,
              ("vgg16:conv1_1,conv1_2", "large"): 0.14}
"""Saved part of the unfused EDP; AccelForge leaves softmax out."""

def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("names", nargs="*")
    given.add_argument("--design", choices=("large", "small"), action="append")
    options = given.parse_args()
    names = options.names or [*dict.fromkeys(name for name, _ in REFERENCES), ATTENTION, *NETWORKS]
    print(f"{'network':56} {'design':6} {'unfused EDP':>12} {'plan EDP':>12} {'saved':>7} {'reference':>9} "
          f"{'groups':>6} {'s':>6} {'90 %':>6} {'CPU s':>6} {'MB':>5}", flush=True)
    with ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool:
        for name in names:
            for design in options.design or ("large", "small"):
                print(pool.submit(line, name, design).result(), flush=True)


def line(name: str, design: str) -> str:
    """One line of the table."""
    workload, file = chain(name), bundled_files.find(f"arch/gemmini_{design}")
    start = time.process_time()
    result = map_network(workload, file)
    spent, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    enough = result.unfused_stats.edp * (1 - 0.9 * result.gain) * (1 + 1e-12)
    soon = next(step["time_s"] for step in result.history if step["value"] <= enough)
    return (f"{name:56} {design:6} {result.unfused_stats.edp:12.6g} {result.stats.edp:12.6g} {result.gain:7.2%} "
            f"{REFERENCES.get((name, design), nan):9.2%} {len(result.groups):6} {result.time_s:6.1f} "
            f"{soon:6.1f} {spent:6.1f} {memory:5}")


def chain(name: str) -> Workload:
    """A network, or with `network:node,node` some of its nodes, or without an operator (`-node`)."""
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
    """Some nodes of a network as a network file; what they read of others is an input."""
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
        strides = list(node.layer.pair(("Hstride", "Wstride")))
        shapes.append(f"  - {{id: s{number}, op: {node.layer.op}, repeat: {node.layer.repeat}, dims: {{{dims}}}, "
                      f"stride: {strides}}}")
        second = f", weights_from: {reads[1]}" if len(reads) > 1 else ""
        graph.append(f"  - {{name: {node.name}, shape: s{number}, from: [{reads[0]}]{second}}}")
    return "\n".join(["workload:", "  version: 1", "  name: chain", f"  inputs: {inputs}", *shapes, *graph]) + "\n"


def window(node: Node) -> str:
    """The window of a pool, as a network file says it."""
    found = node.window
    return "" if found is None else (f", kernel: {list(found.kernel)}, stride: {list(found.stride)}, "
                                     f"pad: {[list(pad) for pad in found.pad]}, dilation: {list(found.dilation)}")


def source(by_name: dict[str, Node], name: str, inside: set[str]) -> str:
    """The nearest kept node before a tensor, along first inputs; the tensor itself where there is none."""
    before = name
    while before not in inside:
        if not by_name[before].inputs:
            return name
        before = by_name[before].inputs[0]
    return before


if __name__ == "__main__":
    main()
