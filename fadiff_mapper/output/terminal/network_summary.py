"""A network as it was understood: distinct layers, links that can be fused, operators that are not understood."""

from __future__ import annotations

from collections import Counter

from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.workload import Workload


def print_network(network: Workload, written_to: str) -> None:
    """Prints the distinct layers, the operators between them, the obstacles to fusion and the unknown operators.

    Args:
        network: The network as a graph.
        written_to: The file that holds it now.
    """
    out = console()
    entries = network.distinct()
    rows = table("distinct layers", "layer", "operator", "bounds", "times", "MACs", "share", text=3)
    for entry in entries:
        bounds = " ".join(f"{name}={bound}" for name, bound in entry.layer.problem.bounds.items())
        rows.add_row(entry.nodes[0], entry.layer.op, bounds, str(entry.times), f"{entry.macs:,}",
                     f"{entry.macs / network.macs:.1%}")
    out.print(rows, markup=False)
    others = Counter(node.op for node in network.nodes if not node.layer)
    between = ", ".join(f"{count} {op}" for op, count in sorted(others.items()))
    links = network.links()
    out.print(f"{network.name}: {len(network.nodes)} nodes, {len(network.layers)} layers, {len(entries)} distinct, "
              f"{network.macs:,} multiply-accumulates", markup=False)
    out.print(f"between the layers: {between}", markup=False)
    reasons = Counter(link.obstacle.name for link in links if link.obstacle)
    blocked = ", ".join(f"{count} {name}" for name, count in sorted(reasons.items()))
    out.print(f"links between layers: {len(links)}, {sum(link.fusable for link in links)} can be fused"
              + (f" (against the others: {blocked})" if blocked else ""), markup=False)
    for unknown in network.not_understood():
        share = "unknown" if unknown.share is None else f"{unknown.share:.1%}"
        out.print(f"not understood: {unknown.what} ({unknown.node}), share of the multiply-accumulates: {share}",
                  markup=False)
    out.print(f"written to {written_to}", markup=False)
