"""The most that fusion could save, link by link and for whole networks: what keeps a plan from saving more.

    python benchmarks/fusion_headroom.py [NAME ...] [--design large|small] [--links]

Two limits beside what `map_network` saves; both hold for tiles that compute nothing twice.

free        what a layer reads or hands on over a link only moves on the chip and takes no room there; its weights come
            from the outermost level once
refetched   besides, tiles must fit. Some results are made at a time, from all channels of the intermediate or from
            some of them after the others. Either this part of the intermediate is in the home at once, or the weights
            that belong to it are. Weights that are not resident come again for every such piece of work, inputs of a
            group's first layer for every part of the channels, and again for every block of sums that the accumulator
            holds, where the rest of the home is too small for either. Sums of the second layer over some of the
            channels leave the chip and return where the accumulator cannot hold them

Every link is fused or not as is best by that count. The layers' mappings are searched, not proven optimal (single
layers: within 0.1 % of the best known). Neither limit charges double buffers, rows that are kept for the next step, or
that two intermediates of a longer group share the home; plans need not come near them. --links shows every link as if
its two layers were all there is.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain as joined
from itertools import combinations, product
from math import inf, prod
from typing import Any

import numpy as np
from fusion_bound import HOME, SUMS, per_word
from network_fusion import NETWORKS, chain

from fadiff_mapper import NetworkResult, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.model.exact.evaluate import evaluate_nest
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.chains.segments import Segment, chains, segments
from fadiff_mapper.network.layers.edp_prices import OperatingPoint, summed
from fadiff_mapper.network.layers.unfused import TRADES
from fadiff_mapper.network.plan.tile_constraints import ResidentTile, SumCompletion, constrained
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.spec.problem import DataSpace, Problem
from fadiff_mapper.spec.spec import Spec

WEIGHTS = ((1.0, 1.0), *TRADES)
"""Exponents of energy and cycles that the mappings of each layer minimise."""

FINE = 512
"""Numbers of results that are tried as made at a time."""

Side = tuple[bool, bool]
"""Whether a layer reads over a fused link, and whether it hands on over one."""


@dataclass(frozen=True)
class Run:
    """One way to run a layer once: what it costs, without the words of its weights where it is fused; words that come
    and go at the outermost level; the share of its weights that each of its links is charged; and whether its input
    comes from the outermost level."""

    point: OperatingPoint
    outer_words: float
    share: float = 0.0
    reads_outside: bool = True


@dataclass(frozen=True)
class Layers:
    """The ways to run every layer of a network, by side; how often each runs; pairs of nodes that can be fused."""

    specs: Mapping[str, Spec]
    runs: Mapping[str, Mapping[Side, list[Run]]]
    repeats: Mapping[str, int]
    links: Mapping[tuple[str, str], Segment]


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("names", nargs="*", default=NETWORKS)
    given.add_argument("--design", choices=("large", "small"), action="append")
    given.add_argument("--links", action="store_true")
    options = given.parse_args()
    print(f"{'layers':40} {'design':6} {'saved':>7} {'refetched':>9} {'free':>7}")
    for design, name in product(options.design or ("large", "small"), options.names):
        workload = chain(name)
        result = map_network(workload, bundled_files.find(f"arch/gemmini_{design}"))
        layers = layers_of(result)
        for pair in layers.links if options.links else ():
            limits = [most(layers, [pair], charge) for charge in (refetched, once)]
            print(f"{' + '.join(pair):40} {design:6} {'':7} {limits[0]:9.2%} {limits[1]:7.2%}")
        names = [nodes for nodes, _ in chains(workload)]
        limits = [most(layers, names, charge) for charge in (refetched, once)]
        print(f"{name:40} {design:6} {result.gain:7.2%} {limits[0]:9.2%} {limits[1]:7.2%}", flush=True)


def layers_of(result: NetworkResult) -> Layers:
    """The layers of a network with every link fused or not; as they run by themselves they are those of the plan."""
    nodes = [node for node in result.workload.layers if node.layer]
    links = {(pair.nodes[0], pair.nodes[1]): pair for pair in segments(result.workload, 2)}
    reads = {pair.nodes[1]: pair.links[0].tensor for pair in links.values()}
    hands = {pair.nodes[0]: not pair.links[0].written_whole for pair in links.values()}
    specs = {node.name: result.layer_of(node.name).spec for node in nodes}
    wanted = [(node.name, side) for node in nodes for side in product((False, True), repeat=2)
              if any(side) and (not side[0] or node.name in reads) and (not side[1] or node.name in hands)]
    tasks = [[replace(task, weights=weights) for weights in WEIGHTS for task in
              _tasks(specs[name], reads[name] if side[0] else None, side[1] and hands[name])] for name, side in wanted]
    found = iter(search_all([task for group in tasks for task in group], SearchOptions()))
    runs: dict[str, dict[Side, list[Run]]] = {}
    for name in specs:
        stats = result.layer_of(name).stats
        runs[name] = {(False, False): [Run(OperatingPoint(stats.energy_pj, stats.cycles), 0.0)]}
    for (name, side), group in zip(wanted, tasks, strict=True):
        for task, one in [(task, next(found)) for task in group]:
            if one.legal:
                runs[name].setdefault(side, []).append(_run(specs[name], task, one.nest, side, hands.get(name, False)))
    return Layers(specs, runs, {node.name: node.layer.repeat for node in nodes if node.layer}, links)


def _tasks(spec: Spec, reads: str | None, hands: bool) -> list[MappingTask]:
    """The searches of a layer in links: what it reads and hands on has its own place in the home, and neither that nor
    its weights come from further out. What it hands on is finished before it leaves the accumulator."""
    output = spec.problem.output.name
    passed = {name for name in (reads, output if hands else None) if name}
    home = spec.arch.level_names().index(HOME)
    held = [ResidentTile(name, home, whole=False) for name in sorted(passed | {_weights(spec.problem, reads).name})]
    counted = [[place != home or name not in passed for name in spec.problem.dataspace_names()]
               for place in range(len(spec.arch.levels))]
    room = Room(np.array([inf if level.usable is None else float(level.usable) for level in spec.arch.levels]),
                np.array(counted))
    return [mapping_task(spec, constrained(spec, spec.problem, held, completion), room=room)
            for completion in ((SumCompletion.INSIDE, SumCompletion.IN_TURN) if hands else (SumCompletion.INSIDE,))]


def _weights(problem: Problem, reads: str | None) -> DataSpace:
    """The operand of a layer that no tile of an intermediate moves."""
    operands = [space for space in problem.dataspaces if not space.read_write]
    return next(space for space in operands if (space.name != reads if reads else space.name == "Weights"))


def _run(spec: Spec, task: MappingTask, nest: Nest, side: Side, copied: bool) -> Run:
    """What a mapping costs; finished sums that are handed on are read once more for their copy to the home."""
    found = evaluate_nest(task.layer, nest)
    words = (found.counts.reads[-1] + found.counts.fills[-1] + found.counts.updates[-1])[:, 0]
    copies = per_word(spec)[SUMS][0] * spec.problem.tensor_size(spec.problem.output) if side[1] and copied else 0.0
    return Run(OperatingPoint(float(found.energy[0]) + copies, float(found.cycles[0])),
               float((words * found.nest.keep[-1, :, 0]).sum() * found.use.instances[-1, 0]), 1 / sum(side),
               not side[0])


Charge = Callable[[Layers, tuple[str, str], Run, Run, OperatingPoint], OperatingPoint]
"""What a link adds to two runs, all repeats together, at the prices of a network."""


def once(layers: Layers, pair: tuple[str, str], before: Run, after: Run, total: OperatingPoint) -> OperatingPoint:
    """A free link: weights come once."""
    return _charged(layers, pair, (before, after), np.ones(1), np.zeros(1), total)


def refetched(layers: Layers, pair: tuple[str, str], before: Run, after: Run, total: OperatingPoint) -> OperatingPoint:
    """What comes and goes because tiles must fit, in the best of many ways."""
    second, link = layers.links[pair].problems[1], layers.links[pair].links[0]
    operands = {space.name == link.tensor: space for space in second.dataspaces if not space.read_write}
    if any(second.bounds[dim] > 1 for dim in frozenset.intersection(
            second.output.dimensions, *(space.dimensions for space in operands.values()))):
        return once(layers, pair, before, after, total)   # depthwise: some channels come with the weights of these
    work, words = _work(layers.links[pair], operands[True], operands[False]), _words(layers, pair)
    room, sums = _rooms(layers.specs[pair[0]])
    return min((_charged(layers, pair, (before, after), way.often, way.spilled, total,
                         np.maximum(way.inputs - before.outer_words, 0.0) if before.reads_outside else 0.0)
                for way in _ways(work, words, room, sums)), key=lambda one: one.price(total))


def _rooms(spec: Spec) -> tuple[float, float]:
    """Words that fit where intermediates stay and where sums are kept."""
    levels = {level.name: level for level in spec.arch.levels}
    home, sums = (inf if levels[name].usable is None else float((levels[name].usable or 0) * levels[name].instances)
                  for name in (HOME, SUMS))
    return home, sums


@dataclass(frozen=True)
class _Work:
    """The work of a link done piece by piece, [FINE] ways: how many pixels of the first layer's output and what part
    of the second's are made at a time, how often at least, words of the intermediate and of the first layer's input
    that belong to a piece. whole: all channels of the intermediate are needed before any is read."""

    pixels: np.ndarray
    part: np.ndarray
    blocks: np.ndarray
    intermediate: np.ndarray
    inputs: np.ndarray
    channels: float
    outputs: float
    whole: bool


def _work(segment: Segment, inner: DataSpace, other: DataSpace) -> _Work:
    """`inner` is the intermediate as the second layer reads it, `other` its other operand."""
    (first, second), link = segment.problems, segment.links[0]
    moved = [own for own, theirs in link.dims.items() if theirs not in other.dimensions and first.bounds[own] > 1]
    theirs = [link.dims[own] for own in moved]
    pixels, results = prod(first.bounds[dim] for dim in moved), prod(second.bounds[dim] for dim in theirs)
    pieces = np.geomspace(1, results, FINE)
    source = next(space for space in first.dataspaces if not space.read_write and space != _weights(first, None))
    return _Work(pieces * pixels / results, pieces / results,
                 np.ceil(results / np.append(pieces[1:], results)),   # at least, for all between two of these numbers
                 _window(inner, second, theirs, pieces), _window(source, first, moved, pieces * pixels / results),
                 first.tensor_size(first.output) / pixels, float(second.tensor_size(second.output)),
                 bool(segment.whole[0] - set(moved)))


@dataclass(frozen=True)
class _Way:
    """How often the weights of both layers come, [2, FINE]; words of sums that leave and return, and of the first
    layer's inputs, [FINE]."""

    often: np.ndarray
    spilled: np.ndarray
    inputs: np.ndarray


def _ways(work: _Work, words: Sequence[int], home: float, sums: float) -> Iterator[_Way]:
    """The ways in which tiles fit: some weights resident, and the intermediate's channels in so many parts that a part
    of it fits, or else the weights of a part."""
    for resident, held in product(joined.from_iterable(combinations((0, 1), count) for count in range(3)),
                                  ("intermediate", "weights")):
        room = home - _sum_of(words, resident)
        held_words = work.intermediate if held == "intermediate" else _sum_of(words, {0, 1} - set(resident))
        if room <= 0 or (work.whole and held == "weights"):
            continue
        parts = np.maximum(np.ceil(held_words / room), 1) * np.ones(FINE)
        spilled = np.where((parts > 1) & (work.whole | (work.part * work.outputs > sums)),
                           inf if work.whole else work.outputs * (parts - 1), 0.0)
        often = np.array([np.ones(FINE) if k in resident else work.blocks for k in (0, 1)])
        blocks = [(work.pixels, work.channels / parts)] if held == "weights" or 0 in resident else _blocks(
            work, words[0], room - held_words / parts, sums)
        for rows, columns in blocks:
            wide = np.maximum(np.minimum(columns, work.channels / parts), 1)
            high = np.maximum(np.minimum(rows, work.pixels), 1)
            again = np.array([np.maximum(work.pixels / high, 1), np.ones(FINE)])
            yield _Way(often * again, spilled, work.inputs * work.blocks * work.channels / wide)


def _blocks(work: _Work, weights: int, left: np.ndarray, sums: float) -> list[tuple[Any, Any]]:
    """Pixels and channels of the first layer for which its operands come in together: as many as the accumulator has
    room for, or as many channels or pixels as have their weights or inputs in what is left of the home."""
    columns = 2.0 ** np.arange(np.ceil(np.log2(work.channels)) + 1)
    return [*((sums / some, some) for some in columns), (work.pixels, left * work.channels / weights),
            (left / work.inputs * work.pixels, work.channels)]


def _sum_of(words: Sequence[int], which: Iterable[int]) -> float:
    """Weights of some of the two layers."""
    return float(sum(words[k] for k in which))


def _window(space: DataSpace, problem: Problem, dims: Sequence[str], points: np.ndarray) -> np.ndarray:
    """Words of a data space that so many points of these dimensions touch at least, all others whole: a square's."""
    side: Any = points ** (1 / max(len(dims), 1))
    touched = np.asarray(prod(space.tile_extents(problem.bounds | dict.fromkeys(dims, side)), start=1.0))
    return np.minimum(touched * np.ones_like(points), problem.tensor_size(space))


def _words(layers: Layers, pair: tuple[str, str]) -> tuple[int, int]:
    """Weights of the two layers of a link."""
    first, second = layers.links[pair].problems
    return (first.tensor_size(_weights(first, None)),
            second.tensor_size(_weights(second, layers.links[pair].links[0].tensor)))


def _charged(layers: Layers, pair: tuple[str, str], runs: tuple[Run, Run], often: np.ndarray, spilled: np.ndarray,
             total: OperatingPoint, again: Any = 0.0) -> OperatingPoint:
    """The cheapest of some ways in which weights come so often, so many sums leave and return, and so many words of the
    first layer's inputs come again.

    Each layer is charged its share; its cycles are at least those that the outermost level needs.
    """
    spec, repeat = layers.specs[pair[0]], layers.repeats[pair[0]]
    prices, outermost = per_word(spec)[spec.arch.level_names()[-1]], spec.arch.levels[-1]
    rate = outermost.shared_bandwidth or outermost.read_bandwidth or inf
    fetched = prices[0] + per_word(spec)[HOME][1]            # what comes from outside is filled into the home
    energy: Any = spilled * (prices[0] + prices[2]) + again * fetched
    cycles: Any = 0.0
    for words, run, times, more in zip(_words(layers, pair), runs, np.broadcast_to(often, (2, len(spilled))),
                                       (again, 2 * spilled), strict=True):
        energy = energy + run.share * words * times * fetched
        cycles = cycles + run.share * np.maximum(
            (run.outer_words + words * times + more) / rate - run.point.cycles, 0.0)
    best = int((energy / total.energy_pj + cycles / total.cycles).argmin())
    return OperatingPoint(repeat * float(energy[best]), repeat * float(cycles[best]))


def most(layers: Layers, names: Sequence[tuple[str, ...]], charge: Charge) -> float:
    """The part of the EDP of some chains that is saved at most."""
    unfused = total = summed([_all(layers, node, layers.runs[node][False, False][0])
                              for nodes in names for node in nodes])
    while True:
        found = summed([_chain(layers, nodes, charge, total) for nodes in names])
        if found.edp >= total.edp * (1 - 1e-12):
            return 1 - total.edp / unfused.edp
        total = found


def _all(layers: Layers, node: str, run: Run) -> OperatingPoint:
    """All repeats of a run."""
    return OperatingPoint(layers.repeats[node] * run.point.energy_pj, layers.repeats[node] * run.point.cycles)


def _chain(layers: Layers, nodes: tuple[str, ...], charge: Charge, total: OperatingPoint) -> OperatingPoint:
    """A chain with its links fused or not as is cheapest at the prices of a total."""
    best: list[tuple[Side, Run, OperatingPoint]] = []   # the last layer's way, and what all up to it costs
    for before, node in zip(("", *nodes), nodes, strict=False):
        ways = []
        for side, runs in layers.runs[node].items():
            for run in runs if side[0] <= ((before, node) in layers.links) else ():
                ends = [_ended(layers, (before, node), end, run, charge, total) for end in best
                        if end[0][1] == side[0]] if best else [OperatingPoint(0.0, 0.0)] * (not side[0])
                if ends:
                    least = min(ends, key=lambda one: one.price(total))
                    ways.append((side, run, summed([least, _all(layers, node, run)])))
        best = ways
    return min((point for side, _, point in best if not side[1]), key=lambda one: one.price(total))


def _ended(layers: Layers, pair: tuple[str, str], end: tuple[Side, Run, OperatingPoint], run: Run, charge: Charge,
           total: OperatingPoint) -> OperatingPoint:
    """What all up to a layer costs, with the link to the next one."""
    return summed([end[2], charge(layers, pair, end[1], run, total)]) if end[0][1] else end[2]


if __name__ == "__main__":
    main()
