"""Networks on the terminal: a network, and its plan."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fadiff_mapper.output.terminal.console import Screen, print_corrected, table
from fadiff_mapper.workload import Workload, coverage

if TYPE_CHECKING:
    from fadiff_mapper.fusion import FusedGroup
    from fadiff_mapper.network.result import NetworkResult


def print_coverage(out: Screen, network: Workload, units: bool = False) -> None:
    """Prints the understood part of a network and the nodes that are left out, in red if these are many; `units` as for
    `coverage`."""
    found = coverage(network, units)
    for number, sentence in enumerate(found.sentences()):
        loud = number == 0 and not found.complete
        out.print(("WARNING: only a part of this network is " if loud else "") + sentence,
                  style="bold red" if loud else None)


def print_network(network: Workload, written_to: str) -> None:
    """Prints the distinct layers, the operators between them, the obstacles to fusion and the unknown operators."""
    out, entries, links = Screen(), network.distinct(), network.links()
    out.print(table("distinct layers", "layer", "operator", "bounds", "times", "MACs", "share", text=3, rows=(
        (entry.nodes[0], entry.layer.op,
         " ".join(f"{name}={bound}" for name, bound in entry.layer.problem.bounds.items()), entry.times,
         f"{entry.macs:,}", f"{entry.macs / network.macs:.1%}") for entry in entries)))
    others = Counter(node.what or node.op for node in network.nodes if not node.layer)
    between = ", ".join(f"{count} {op}" for op, count in sorted(others.items()))
    out.print(f"{network.name}: {len(network.nodes)} nodes, {len(network.layers)} layers, {len(entries)} distinct, "
              f"{network.macs:,} multiply-accumulates")
    out.print(f"between the layers: {between}")
    reasons = Counter(link.obstacle.name for link in links if link.obstacle)
    blocked = ", ".join(f"{count} {name}" for name, count in sorted(reasons.items()))
    out.print(f"links between layers: {len(links)}, {sum(link.fusable for link in links)} can be fused"
              + (f" (against the others: {blocked})" if blocked else ""))
    print_coverage(out, network)
    out.print(f"written to {written_to}")


MOST_GROUPS = 100  # groups that are printed at most, as longer tables are slow and unreadable


def group_loops(group: FusedGroup) -> str:
    """The shared loops of a group, outermost first, and its tensors that stay on the chip between groups."""
    loops = " ".join(f"{loop.dim} in {loop.tile}" for loop in group.loops) or "none"
    masked = ", blocks that the mask hides left out" if group.skips else ""
    shared = f"{loops}, softmax in one pass{masked}" if group.one_pass else loops
    found = [name for layer in group.layers for name, there in layer.lasting.items() if there]
    finds = f"; finds {', '.join(found)} on the chip" if found else ""
    leaves = "; leaves its output there" if group.output_at else ""
    return shared + finds + leaves


def print_plan(result: NetworkResult, written_to: str) -> None:
    """Prints warnings, the fused groups, the share of the EDP that they save, the nodes that are left out, and the
    totals with and without fusion."""
    out, shown = Screen(), result.weightiest_groups(MOST_GROUPS)
    for warning in result.warnings:
        out.print(f"warning: {warning}")
    if result.groups:
        bound = ["bound"] if result.operators else []
        out.print(table("fused groups", "layers", "shared loops", *bound, "runs", "energy uJ", "cycles", "EDP saved",
                        text=2 + len(bound), rows=(
                            (" + ".join(outcome.nodes), group_loops(outcome.group), *([outcome.cost.bound or "layers"]
                                                                                     if bound else []),
                             outcome.group.repeat, f"{outcome.cost.energy_pj / 1e6:.6g}", f"{outcome.cost.cycles:.0f}",
                             f"{1 - outcome.cost.edp / outcome.unfused.edp:.1%}") for _, outcome in shown)))
    if len(shown) < len(result.groups):
        out.print(f"these are the {len(shown)} groups that save most; plan.yaml has all {len(result.groups):,}")
    if result.alone:
        reasons = Counter(layer.reason for layer in result.alone)
        out.print(f"layers in no group: {len(result.alone)} ("
                  + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common())
                  + "; plan.yaml has the reason of each)")
    print_coverage(out, result.workload, bool(result.hardware.arch.units))
    for name, total in (("layers one by one", result.unfused_stats), ("plan", result.stats)):
        out.print(f"{name}: {total.energy_pj / 1e6:.6g} uJ, {total.cycles} cycles, EDP {total.edp:.6g} pJ*cycles")
    if result.corrected_cycles is not None:
        print_corrected([layer.result for layer in result.layers], [layer.nodes[0] for layer in result.layers])
        out.print(f"corrected to measured hardware: {result.corrected_cycles:.0f} cycles, EDP "
                  f"{result.stats.energy_pj * result.corrected_cycles:.6g} pJ*cycles")
    if result.operators:
        out.print(f"of these, for operators without multiply-accumulates: {result.joined.energy_pj / 1e6:.6g} uJ, "
                  f"{result.joined.cycles} cycles one by one; in the plan "
                  f"{sum(own.energy_pj for own in result.operators) / 1e6:.6g} uJ, of "
                  + ", ".join(f"{unit} {total.cycles} cycles" for unit, total in result.units().items()))
    elif result.joined.energy_pj or result.joined.cycles:
        kept = "" if result.planned_joined == result.joined else (
            f"; in the plan {result.planned_joined.energy_pj / 1e6:.6g} uJ, {result.planned_joined.cycles} cycles, as "
            "groups read some on the chip")
        out.print(f"of {'these' if kept else 'either'}, for operands of sums and products: "
                  f"{result.joined.energy_pj / 1e6:.6g} uJ, {result.joined.cycles} cycles{kept}")
    out.print(result.proven)
    out.print(f"{result.workload.name} on {result.design}: {len(result.workload.layers)} layers, {len(result.layers)} "
              f"distinct, {len(result.groups)} groups, {result.gain:.2%} of the EDP saved; {result.status} "
              f"({result.time_s:.2f} s); written to {written_to}")
