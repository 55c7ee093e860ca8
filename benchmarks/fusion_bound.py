"""The most that fusing some layers could save, beside what a plan saves: one line each.

    python benchmarks/fusion_bound.py [NAME ...]

No group can be below the bounds of its layers by themselves without the outermost level's traffic for the tensors
between them, but with these copied from where they are summed up to where they stay. Softmax in between needs whole
rows on the chip: what does not fit beside them is fetched again for every block of rows. The bound holds for tiles
that compute nothing twice and use the array no better than the whole layers can. "copies free" is what the plan would
save if reading finished sums for these copies cost nothing, as AccelForge has it. `--links` instead shows what tensors
move that no group can hand on, because their layers run a different number of times.
"""

from __future__ import annotations

import argparse
from math import ceil, inf
from pathlib import Path

from network_fusion import chain

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, map_network
from fadiff_mapper.analysis.lower_bound import lower_bound
from fadiff_mapper.base import bundled_files
from fadiff_mapper.model.energy_latency import word_energy
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.network.chains.segments import Segment, segments
from fadiff_mapper.network.layers.one_design import specs_of
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.spec.spec import Spec

CHAINS = ("resnet18:layer1.0.conv1,layer1.0.conv2", "resnet18:layer1.0.conv1,layer1.0.conv2,layer1.1.conv1",
          "mobilenet_v1:conv1,dw1", "vgg16:conv1_1,conv1_2", "gpt3_6b7_block:qk,softmax,av")
HOME, SUMS = "Scratchpad", "Accumulator"
"""Where intermediates stay, and where outputs are summed up."""


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("names", nargs="*", default=CHAINS)
    given.add_argument("--links", action="store_true")
    given.add_argument("--design", choices=("large", "small"), default="large")
    options = given.parse_args()
    file = bundled_files.find(f"arch/gemmini_{options.design}")
    if options.links:
        return print_links(chain("gpt3_6b7_block"), file)
    print(f"{'layers':56} {'design':6} {'saved':>7} {'copies free':>11} {'at most':>7}")
    for name in options.names:
        workload = chain(name)
        result = map_network(workload, file)
        energy, cycles = fused_bound(workload, specs_of(workload, file))
        free = (result.stats.energy_pj - copies(result)) * result.stats.cycles
        print(f"{name:56} {options.design:6} {result.gain:7.2%} {1 - free / result.unfused_stats.edp:11.2%} "
              f"{1 - energy * cycles / result.unfused_stats.edp:7.2%}")


def fused_bound(workload: Workload, specs: tuple[Spec, ...]) -> tuple[float, float]:
    """Energy in pJ and cycles that no group of all layers, one after the other, can undercut."""
    by_node = {name: spec for entry, spec in zip(workload.distinct(), specs, strict=True) for name in entry.nodes}
    segment = max(segments(workload, len(by_node)), key=lambda one: len(one.nodes))
    energy = cycles = 0.0
    for index, name in enumerate(segment.nodes):
        task = mapping_task(by_node[name])
        bound = lower_bound(task.layer, task.space)
        assert bound is not None
        outermost = task.layer.arch.levels[-1].name
        linked = segment.links[index - 1].tensor if index else ""
        handed = task.layer.problem.output.name if index < len(segment.links) else ""
        energy += sum(part.value for part in bound.parts if part.metric == "energy"
                      and part.where not in {f"{outermost} -> {HOME} {linked}", f"{outermost} -> {SUMS} {handed}"})
        cycles += max(part.value for part in bound.parts if part.metric == "delay" and part.where != outermost)
        if handed:
            energy += copy_energy(by_node[name]) * task.layer.problem.tensor_size(task.layer.problem.output)
    energy += refetched_rows(segment, by_node)
    return segment.repeat * energy, segment.repeat * cycles


def copies(result: NetworkResult) -> float:
    """pJ that the plan's groups take to read finished sums for the copies to where they stay."""
    return sum(group.group.repeat * per_word(result.layer_of(name).spec)[SUMS][0]
               * layer.problem.tensor_size(layer.problem.output)
               for group in result.groups for name, layer in zip(group.nodes[:-1], group.group.layers, strict=False))


def per_word(spec: Spec) -> dict[str, tuple[float, float, float]]:
    """Level -> pJ to read, fill and update one word of it."""
    word = word_energy(prepare_layer(spec.arch, spec.problem, spec.tables).machine)
    return {name: (float(word.read[k, 0]), float(word.fill[k, 0]), float(word.update[k, 0]))
            for k, name in enumerate(spec.arch.level_names())}


def copy_energy(spec: Spec) -> float:
    """pJ to read a word where it was summed up and to write it where it stays."""
    prices = per_word(spec)
    return prices[SUMS][0] + prices[HOME][2]


def refetched_rows(segment: Segment, specs: dict[str, Spec]) -> float:
    """pJ of fetching the second operands again for every block of rows, where rows must be whole on the chip."""
    if not any(segment.whole):
        return 0.0
    first, after = segment.problems
    spec = specs[segment.nodes[0]]
    room = spec.arch.levels[spec.arch.level_names().index(HOME)].usable or inf
    rows, row = first.bounds["N"], first.bounds["M"]
    sizes = [float(problem.tensor_size(space)) for problem in (first, after) for space in problem.dataspaces
             if space.name == "Weights"]
    fetched = []
    for resident in ((), (sizes[0],), sizes):
        held = ceil((room - sum(resident)) / row) - 1
        if held > 0:
            again = ceil(rows / held)
            fetched.append(sum(sizes) * again - sum(resident) * (again - 1))
    prices = per_word(spec)
    outermost = spec.arch.level_names()[-1]
    return (min(fetched) - sum(sizes)) * (prices[outermost][0] + prices[HOME][1])


def print_links(workload: Workload, file: Path) -> None:
    """What the tensors cost that are handed to a layer which runs another number of times."""
    specs = {name: spec for entry, spec in zip(workload.distinct(), specs_of(workload, file), strict=True)
             for name in entry.nodes}
    result = map_network(workload, file, NetworkOptions(fuse=False))
    layers = {node.name: node.layer for node in workload.layers}
    print(f"{'link':24} {'words':>10} {'of the energy':>13}")
    for link in workload.links():
        producer = layers[link.producer]
        if link.obstacle is None or link.obstacle.name != "repeat" or producer is None:
            continue
        words = producer.repeat * producer.problem.tensor_size(producer.problem.output)
        prices = per_word(specs[link.producer])[specs[link.producer].arch.level_names()[-1]]
        print(f"{link.producer + ' -> ' + link.consumer:24} {words:10} "
              f"{words * (prices[0] + prices[2]) / result.unfused_stats.energy_pj:13.2%}")


if __name__ == "__main__":
    main()
