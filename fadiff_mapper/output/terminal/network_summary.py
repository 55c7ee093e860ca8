"""A network as it was understood: distinct layers, links that can be fused, operators that are not understood."""

from __future__ import annotations

from collections import Counter

from fadiff_mapper.output.terminal.console import Screen, console, table
from fadiff_mapper.workload import Workload, coverage


def print_coverage(out: Screen, network: Workload) -> None:
    """Prints the part of a network that is understood and all that is left out, in red where that is much.

    Args:
        out: The console.
        network: The network as a graph.
    """
    found = coverage(network)
    for number, sentence in enumerate(found.sentences()):
        loud = number == 0 and not found.complete
        out.print(("WARNING: only a part of this network is " if loud else "") + sentence,
                  style="bold red" if loud else None)


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
    out.print(rows)
    others = Counter(node.what or node.op for node in network.nodes if not node.layer)
    between = ", ".join(f"{count} {op}" for op, count in sorted(others.items()))
    links = network.links()
    out.print(f"{network.name}: {len(network.nodes)} nodes, {len(network.layers)} layers, {len(entries)} distinct, "
              f"{network.macs:,} multiply-accumulates")
    out.print(f"between the layers: {between}")
    reasons = Counter(link.obstacle.name for link in links if link.obstacle)
    blocked = ", ".join(f"{count} {name}" for name, count in sorted(reasons.items()))
    out.print(f"links between layers: {len(links)}, {sum(link.fusable for link in links)} can be fused"
              + (f" (against the others: {blocked})" if blocked else ""))
    print_coverage(out, network)
    out.print(f"written to {written_to}")
