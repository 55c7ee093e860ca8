"""The most that fusion could save, link by link and for whole networks: what keeps a plan from saving more.

    python benchmarks/fusion_headroom.py [NAME ...] [--design large|small] [--links] [--repeats] [-o FILE]

Two limits beside the plan of `map_network`; both hold for tiles that compute nothing twice.

free        an intermediate only moves on the chip and takes no room there; weights come from the outermost level once
refetched   besides, tiles must fit. Some results are made at a time, from all channels of the intermediate or from
            some of them after the others. Either this part of the intermediate is in the home at once, or the weights
            that belong to it are. Weights that are not resident come again for every such piece of work, inputs of a
            group's first layer for every part of the channels, and again for every block of sums that the accumulator
            holds, where the rest of the home is too small for either. Sums of the second layer over some of the
            channels leave the chip and return where the accumulator cannot hold them

Every link is fused or not as is best by that count. The layers' mappings are searched, not proven optimal (single
layers: within 0.1 % of the best known). Neither limit charges double buffers, rows that are kept for the next step, or
that two intermediates of a longer group share the home; plans need not come near them. A link between layers that run a
different number of times is free in both, and their layers are mapped run by run or all runs as one problem. Residual
operands are charged as in plans; where they could stay on the chip for both readers, the links in between are credited
with that, and neither limit charges their room (`residual_credits.py`). --links shows every link as if its two layers
were alone, without residual operands. "copies free" is the part that the plan would save if reading finished sums for
their copy to the home cost nothing, as AccelForge has it. --repeats shows instead the traffic of tensors between layers
that run a different number of times.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import inf
from pathlib import Path

import numpy as np
from link_charges import HOME, SUMS, Charge, Layers, Run, Side, once, per_word, refetched, second_operand
from network_fusion import NETWORKS, chain
from provenance import Write, add_output, heading, markdown, row
from residual_credits import credits, kept_inside

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.prices import NOTHING, OperatingPoint, other_reads, summed
from fadiff_mapper.fusion.segments import Segment, chains, over_all_runs, segments
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.tile_mappings import ResidentTile, SumCompletion, cut_to_tile, with_residents
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all

WEIGHTS = ((1.0, 1.0), (1.5, 0.5), (0.5, 1.5))
"""How much energy and cycles count in the sum that a mapping minimises, each in units of the layer by itself."""

def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NETWORKS)
    parser.add_argument("--design", choices=("large", "small"), action="append")
    parser.add_argument("--links", action="store_true", help="every link by itself as well")
    parser.add_argument("--repeats", action="store_true", help="tensors between layers of different repeats instead")
    add_output(parser)
    options = parser.parse_args()
    columns = ("link", "design", "words", "of the energy") if options.repeats else (
        "layers", "design", "saved", "copies free", "refetched", "free")
    with markdown(options.output) as write:
        write(heading(*columns))
        for design, name in product(options.design or ("large", "small"), options.names):
            if options.repeats:
                write_repeats(chain(name), design, write)
            else:
                write_limits(name, design, options.links, write)


def write_limits(name: str, design: str, links: bool, write: Write) -> None:
    """Writes the row of one network on one design, and before it those of its links."""
    workload = chain(name)
    result = map_network(workload, gemmini(design))
    layers = layers_of(result)
    for pair in layers.links if links else ():
        limits = [f"{most(layers, [pair], charge):.2%}" for charge in (refetched, once)]
        write(row(" + ".join(pair), design, "", "", *limits))
    names = [nodes for nodes, _ in chains(workload)]
    spec = result.layers[0].result.spec
    less, joined = credits(workload, spec), other_reads(workload, spec)
    limits = [f"{most(layers, names, credited(charge, less), joined):.2%}" for charge in (refetched, once)]
    copies_free = 1 - (result.stats.energy_pj - copies(result)) * result.stats.cycles / result.unfused_stats.edp
    write(row(name, design, f"{result.gain:.2%}", f"{copies_free:.2%}", *limits))


def write_repeats(workload: Workload, design: str, write: Write) -> None:
    """Writes a row per tensor that is handed to a layer which runs another number of times: its traffic's cost."""
    specs = {name: spec for entry, spec in zip(workload.distinct(), specs_of(workload, gemmini(design)), strict=True)
             for name in entry.nodes}
    result = map_network(workload, gemmini(design), NetworkOptions(fuse=False))
    layers = {node.name: node.layer for node in workload.layers}
    for link in workload.links():
        producer, consumer = layers[link.producer], layers[link.consumer]
        if producer is None or consumer is None or producer.repeat == consumer.repeat:
            continue
        words = producer.repeat * producer.problem.tensor_size(producer.problem.output)
        prices = per_word(specs[link.producer])[specs[link.producer].arch.level_names()[-1]]
        write(row(f"{link.producer} -> {link.consumer}", design, words,
                  f"{words * (prices[0] + prices[2]) / result.unfused_stats.energy_pj:.2%}"))


def gemmini(design: str) -> Path:
    """The file of a bundled design."""
    return bundled_files.find(f"arch/gemmini_{design}")


def copies(result: NetworkResult) -> float:
    """pJ that the plan's groups take to read finished sums for their copy to the home level."""
    return sum(group.group.repeat * per_word(result.layer_of(name).spec)[SUMS][0]
               * layer.problem.tensor_size(layer.problem.output)
               for group in result.groups for name, layer in zip(group.nodes[:-1], group.group.layers, strict=False))


def layers_of(result: NetworkResult) -> Layers:
    """Maps the layers of a network for every side: with each link fused or not.

    Mappings of layers by themselves are those of the plan.
    """
    nodes = [node for node in result.workload.layers if node.layer]
    links = {(pair.nodes[0], pair.nodes[1]): pair for pair in segments(result.workload, 2)}
    repeats = {node.name: node.layer.repeat for node in nodes if node.layer}
    reads = {pair.nodes[1]: pair.links[0].tensor for pair in links.values()}
    hands = {pair.nodes[0]: {not pair.links[0].written_whole} for pair in links.values()}
    for name in kept_inside(result.workload) & set(hands):
        hands[name].add(True)
    specs = {node.name: result.layer_of(node.name).spec for node in nodes}
    wanted = [(node.name, side, unwritten) for node in nodes for side in product((False, True), repeat=2)
              if any(side) and (not side[0] or node.name in reads) and (not side[1] or node.name in hands)
              for unwritten in sorted(hands[node.name] if side[1] else {False})]
    shapes = _shapes(result.workload, specs, links)
    tasks = [[(spec, runs, replace(task, sums=(runs * stats.energy_pj / energy, runs * stats.cycles / cycles)))
              for stats in [result.layer_of(name).stats] for spec, runs in shapes[name] for energy, cycles in WEIGHTS
              for task in _tasks(spec, reads[name] if side[0] else None, unwritten)]
             for name, side, unwritten in wanted]
    outcomes = iter(search_all([task for group in tasks for _, _, task in group], SearchOptions()))
    runs: dict[str, dict[Side, list[Run]]] = {}
    for name in specs:
        stats = result.layer_of(name).stats
        runs[name] = {(False, False): [Run(OperatingPoint(stats.energy_pj, stats.cycles), 0.0)]}
    for (name, side, unwritten), group in zip(wanted, tasks, strict=True):
        for spec, times, task in group:
            outcome = next(outcomes)
            if outcome.legal:
                runs[name].setdefault(side, []).append(_run(spec, task, outcome.nest, side, unwritten, times))
    return Layers(specs, runs, repeats, links)


def _shapes(workload: Workload, specs: Mapping[str, Spec],
            links: Mapping[tuple[str, str], Segment]) -> dict[str, list[tuple[Spec, int]]]:
    """The problems as which each layer may be mapped in a fused link, with the number of its runs that each has.

    One run, and where a link joins it with a layer that runs another number of times, all runs as one problem.
    """
    together = {name for pair, segment in links.items() if segment.batched for name in pair}
    shapes = {name: [(spec, 1)] for name, spec in specs.items()}
    for node in workload.layers:
        if node.layer and node.name in together and node.layer.repeat > 1:
            shapes[node.name].append((over_all_runs(specs[node.name], node.layer, ()), node.layer.repeat))
    return shapes


def _tasks(spec: Spec, reads: str | None, hands: bool) -> list[MappingTask]:
    """The searches of a layer in fused links.

    The tensors that it reads and hands on take no room in the home level, and neither they nor its weights come from
    further out. Its output, handed on, is finished before it leaves the accumulator.
    """
    output = spec.problem.output.name
    passed = {name for name in (reads, output if hands else None) if name}
    home = spec.arch.level_names().index(HOME)
    resident = sorted(passed | {second_operand(spec.problem, reads).name})
    held = [ResidentTile(name, home, whole=False) for name in resident]
    counted = [[level != home or name not in passed for name in spec.problem.dataspace_names()]
               for level in range(len(spec.arch.levels))]
    room = Room(np.array([inf if level.usable is None else float(level.usable) for level in spec.arch.levels]),
                np.array(counted))
    return [mapping_task(spec, cut_to_tile(with_residents(spec.constraints, spec.problem, held, completion),
                                           spec.problem), room=room)
            for completion in ((SumCompletion.INSIDE, SumCompletion.IN_TURN) if hands else (SumCompletion.INSIDE,))]


def _run(spec: Spec, task: MappingTask, nest: Nest, side: Side, copied: bool, times: int) -> Run:
    """The costs of a mapping, each of so many runs; finished sums handed on are read again to be copied to the home."""
    exact = evaluate_nest(task.layer, nest)
    words = (exact.counts.reads[-1] + exact.counts.fills[-1] + exact.counts.updates[-1])[:, 0]
    copied_pj = per_word(spec)[SUMS][0] * spec.problem.tensor_size(spec.problem.output) if side[1] and copied else 0.0
    return Run(OperatingPoint((float(exact.energy[0]) + copied_pj) / times, float(exact.cycles[0]) / times),
               float((words * exact.nest.keep[-1, :, 0]).sum() * exact.tile.instances[-1, 0]) / times, 1 / sum(side),
               not side[0])


def credited(charge: Charge, less: Mapping[tuple[str, str], OperatingPoint]) -> Charge:
    """The charge of a link less what the link is credited with."""
    def own(layers: Layers, pair: tuple[str, str], before: Run, after: Run, total: OperatingPoint) -> OperatingPoint:
        point, saved = charge(layers, pair, before, after, total), less.get(pair, NOTHING)
        return OperatingPoint(point.energy_pj - saved.energy_pj, point.cycles - saved.cycles)
    return own


def most(layers: Layers, names: Sequence[tuple[str, ...]], charge: Charge, besides: OperatingPoint = NOTHING) -> float:
    """The part of the EDP of some chains, and of what the network takes besides them, that is saved at most.

    Energy and cycles are priced by the network's totals; with new totals the best choice may change, so the chains are
    chosen again until nothing improves.
    """
    unfused = total = summed([besides, *(_all(layers, node, layers.runs[node][False, False][0])
                                         for nodes in names for node in nodes)])
    while True:
        better = summed([besides, *(_chain(layers, nodes, charge, total) for nodes in names)])
        if better.edp >= total.edp * (1 - 1e-12):
            return 1 - total.edp / unfused.edp
        total = better


def _all(layers: Layers, node: str, run: Run) -> OperatingPoint:
    """The costs of all repeats of a run."""
    return OperatingPoint(layers.repeats[node] * run.point.energy_pj, layers.repeats[node] * run.point.cycles)


def _chain(layers: Layers, nodes: tuple[str, ...], charge: Charge, total: OperatingPoint) -> OperatingPoint:
    """The costs of a chain with its links fused or not as is cheapest at the prices of a total."""
    best: list[tuple[Side, Run, OperatingPoint]] = []   # the last layer's side and run, costs of all layers up to it
    for before, node in zip(("", *nodes), nodes, strict=False):
        choices = []
        for side, runs in layers.runs[node].items():
            for run in runs if side[0] <= ((before, node) in layers.links) else ():
                ends = [_ended(layers, (before, node), end, run, charge, total) for end in best
                        if end[0][1] == side[0]] if best else [OperatingPoint(0.0, 0.0)] * (not side[0])
                if ends:
                    least = min(ends, key=lambda point: point.price(total))
                    choices.append((side, run, summed([least, _all(layers, node, run)])))
        best = choices
    return min((point for side, _, point in best if not side[1]), key=lambda point: point.price(total))


def _ended(layers: Layers, pair: tuple[str, str], end: tuple[Side, Run, OperatingPoint], run: Run, charge: Charge,
           total: OperatingPoint) -> OperatingPoint:
    """The costs of all layers up to the end of a chain, with the link to the next one."""
    return summed([end[2], charge(layers, pair, end[1], run, total)]) if end[0][1] else end[2]


if __name__ == "__main__":
    main()
