"""What fusion saves on whole networks and on small chains, beside the figures of others: one line each.

    python benchmarks/network_fusion.py [NAME ...]

EDP in pJ * cycles is the sum of energies times the sum of cycles. "reference" is the part of the unfused EDP that
AccelForge 1.0.467 saves on an equivalent design, or what a plan made by hand saves; nan where there is none.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper import Workload, bundled, load_network, map_network

NETWORKS = ("resnet18", "vgg16", "vgg19", "mobilenet_v1", "gpt3_6b7_block")
REFERENCES = {("gpt3_6b7_block", "large"): 0.030, ("gpt3_6b7_block", "small"): 0.101,
              ("mobilenet_v1:conv1,dw1", "large"): 0.35, ("mobilenet_v1:dw7,pw7", "large"): 0.20,
              ("mobilenet_v1:dw7,pw7", "small"): 0.093, ("resnet18:layer1.0.conv1,layer1.0.conv2", "large"): 0.083,
              ("vgg16:conv1_1,conv1_2", "large"): 0.14}
"""Saved part of the unfused EDP."""

CHAINS = tuple(dict.fromkeys(name for name, _ in REFERENCES if ":" in name))


def chain(name: str) -> Workload:
    """A network, or with `network:node,node` some of its layers, one after the other."""
    network, _, nodes = name.partition(":")
    whole = load_network(f"bundled:networks/{network}")
    if not nodes:
        return whole
    with TemporaryDirectory() as folder:
        file = Path(folder) / "chain.yaml"
        file.write_text(chain_text(whole, nodes.split(",")))
        return load_network(file)


def chain_text(whole: Workload, names: list[str]) -> str:
    """Some layers of a network as a network file."""
    by_name = {node.name: node for node in whole.nodes}
    layers = [by_name[name] for name in names]
    shape = next(node.shape for node in whole.nodes if node.name == layers[0].inputs[0])
    lines = ["workload:", "  version: 1", "  name: chain", f"  inputs: {{input: {list(shape or ())}}}", "  shapes:"]
    graph, before = ["  graph:"], "input"
    for number, node in enumerate(layers):
        assert node.layer is not None
        dims = ", ".join(f"{dim}: {bound}" for dim, bound in node.layer.problem.bounds.items())
        strides = list(node.layer.pair(("Hstride", "Wstride")))
        lines.append(f"  - {{id: s{number}, op: {node.layer.op}, dims: {{{dims}}}, stride: {strides}}}")
        graph.append(f"  - {{name: {node.name}, shape: s{number}, from: [{before}]}}")
        before = node.name
    return "\n".join(lines + graph) + "\n"


def main() -> None:
    print(f"{'network':42} {'design':6} {'unfused EDP':>12} {'saved':>7} {'reference':>9} {'groups':>6} {'s':>6} "
          f"{'MB':>5}")
    for name in sys.argv[1:] or [*CHAINS, *NETWORKS]:
        for design in ("large", "small"):
            result = map_network(chain(name), bundled.find(f"arch/gemmini_{design}"))
            reference = REFERENCES.get((name, design), float("nan"))
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            print(f"{name:42} {design:6} {result.unfused_stats.edp:12.6g} {result.gain:7.2%} {reference:9.2%} "
                  f"{len(result.groups):6} {result.time_s:6.1f} {memory:5}", flush=True)


if __name__ == "__main__":
    main()
