"""The least that any plan of a network can cost, so that a plan comes with a proven gap.

Class of plans. Every layer runs by itself, in any mapping within the design's constraints, or in a fused group of
layers that follow one another in a chain, as `fusion` evaluates it: any shared loops with tiles of any sizes, even and
uneven; any level on the chip with a single instance as home of each intermediate; halos kept or computed again;
operands of a group resident or not, along any loops; partial sums that stay or are spilled; residual operands read on
the chip or from outside; any mapping of every tile within the design's constraints, with factors that divide the tile.
Loops cut only what the operators in between pass on in tiles.

Layers by themselves are bounded by `search.lower_bound`.

Layers in groups. A layer of a group runs as a sequence of tiles. In each, its arithmetic and the accesses that go with
it at the innermost level that keeps a tensor cost at least their share of the layer's, at the widest multicast that any
whole factors reach; each word that a tile touches comes from the next level outside at least once, and the tiles
together touch all words of the layer. Both sums are those of `search.lower_bound` for factors of any size, where what
is handed on within the group is kept at its home and at no level outside it. A layer whose sums are handed on reads
each of them once more for its copy to the home. The words of every tile are rounded by themselves, so windows that
spatial loops divide may round to nothing, and count as none. Words that come in again for lack of room are those of
`group_least`. Halos computed again and the order of steps only add to that.

Networks. At prices per pJ and per cycle, the cheapest plan is found by a shortest path through every chain, with each
link fused, in some room, or not; what the plans of a network can reach lies above the line of this least price. The
least product of energy and cycles above the lines for several prices is at one of the corners of the polygon that
they enclose. From the two lines of least energy and least cycles on, the corner with the least product is cut off by
the line that is tangent to its hyperbola, until a line passes through it: a cutting-plane method for the convex hull
of all plans.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import inf, prod, sqrt

import numpy as np

from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.estimates import homes
from fadiff_mapper.fusion.prices import NOTHING, OperatingPoint, WordCosts, other_reads, summed, word_costs
from fadiff_mapper.fusion.segments import Segment, chains, link_operators, over_all_runs
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import compute_energy
from fadiff_mapper.model.prepared_layer import element_shares, word_energy
from fadiff_mapper.network.group_least import GroupRoom, LayerLink, first_traffic, later_traffic
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.search.lower_bound.assemble import residual_lower_bound
from fadiff_mapper.search.lower_bound.least_traffic import touched_words
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload

SLACK = 1 - 1e-9
"""Factor on the bound: sums over layers may differ in their last bits."""

TANGENT, MOST_LINES = 1e-6, 200
"""The part of the least price by which a corner may lie below its own tangent, as more lines gain no more; and lines at
most, where plans trade energy against cycles all along a hyperbola: a limit of time."""

EARLIER = 6
"""Layers before a layer that are looked at where its input is made again. A limit of time."""

Pair = tuple[str, str]
"""The names of two layers with a link between them."""


@dataclass(frozen=True)
class LeastLayer:
    """Values that no mapping of a layer undercuts."""

    energy_pj: float
    cycles: float
    edp: float = 0.0  # pJ * cycles; may exceed the product of the other two

    def price(self, energy: float, cycles: float) -> float:
        """The least price at prices per pJ and per cycle: of all points with this energy, these cycles, this product.

        Along the hyperbola of the product the price is least where both shares are equal.
        """
        if not (energy and cycles and self.edp > self.energy_pj * self.cycles):
            return energy * self.energy_pj + cycles * self.cycles
        at = min(max(sqrt(cycles * self.edp / energy), self.energy_pj), self.edp / self.cycles)
        return energy * at + cycles * self.edp / at


@dataclass(frozen=True)
class LeastInGroup:
    """Values that no group undercuts in one of its layers, as alternatives (last axis), all runs together.

    Axes as those of `LeastTraffic`.
    """

    energy_pj: np.ndarray
    cycles: np.ndarray

    def price(self, energy: float, cycles: float) -> np.ndarray:
        """The least price at prices per pJ and per cycle, [4 * S or 1, 2 * S or 1]."""
        terms = [weight * values for weight, values in ((energy, self.energy_pj), (cycles, self.cycles)) if weight]
        least: np.ndarray = sum(terms[1:], start=terms[0]).min(axis=-1)
        return least


@dataclass(frozen=True)
class NetworkLeast:
    """Values from which the least price of every plan of a network follows."""

    chains: Sequence[tuple[str, ...]]
    alone: Mapping[str, LeastLayer]
    fused: Mapping[str, Mapping[tuple[bool, bool], LeastInGroup]]  # by whether its input and its output are handed on
    credits: Mapping[Pair, OperatingPoint]  # reads of residual operands that a plan with a link may do without
    besides: OperatingPoint  # what the network takes besides its layers

    def price(self, energy: float, cycles: float) -> float:
        """The least price of all plans at prices per pJ and per cycle."""
        known: dict[int, np.ndarray] = {}

        def priced(name: str, reads: bool, hands: bool) -> np.ndarray | None:
            least = self.fused[name].get((reads, hands))
            if least is not None and id(least) not in known:
                known[id(least)] = least.price(energy, cycles)
            return None if least is None else known[id(least)]

        total = energy * self.besides.energy_pj + cycles * self.besides.cycles
        for names in self.chains:
            # of all layers so far: the last one in no group with the next, or handing on, [4 * S] as in `LeastTraffic`
            apart, handing = 0.0, np.full(1, inf)
            for name, following in zip(names, (*names[1:], ""), strict=True):
                first, middle, last = (priced(name, *sides) for sides in ((False, True), (True, True), (True, False)))
                ends = inf if last is None else float((handing[:, None] + last).min())
                on = np.full(1, inf)
                if credit := self.credits.get((name, following)):
                    begun = np.full(1, inf) if first is None else apart + first[0]
                    going = np.full(1, inf) if middle is None else (handing[:, None] + middle).min(axis=0)
                    sides = [side.reshape(-1, max(side.size // 2, 1)) for side in np.broadcast_arrays(begun, going)]
                    on = np.stack(sides, axis=1).ravel() if begun.size + going.size > 2 else np.minimum(begun, going)
                    on = on - (energy * credit.energy_pj + cycles * credit.cycles)
                apart, handing = min(apart + self.alone[name].price(energy, cycles), ends), on
            total += apart
        return total

    def bound(self, metric: str) -> float:
        """The value of "edp" in pJ * cycles, "energy" in pJ or "delay" in cycles that no plan undercuts."""
        lines = [(1.0, 0.0, self.price(1.0, 0.0)), (0.0, 1.0, self.price(0.0, 1.0))]
        if metric != "edp":
            return SLACK * lines[metric == "delay"][2]
        while True:     # lines by falling weight of energy: neighbours meet at the corners
            corners = [((c * e - b * f) / (a * e - b * d), (a * f - c * d) / (a * e - b * d))
                       for (a, b, c), (d, e, f) in pairwise(lines)]
            at = min(range(len(corners)), key=lambda index: prod(corners[index]))
            if not prod(corners[at]):   # a network without energy
                return 0.0
            energy, cycles = 1 / corners[at][0], 1 / corners[at][1]
            least = self.price(energy, cycles)
            if least <= 2 * (1 + TANGENT) or len(lines) == MOST_LINES:
                return SLACK * prod(corners[at])
            lines.insert(at + 1, (energy, cycles, least))


def least_value(workload: Workload, hardware: Hardware, results: Sequence[Result], segments: Sequence[Segment],
                metric: str) -> float | None:
    """The value of a metric that no plan undercuts, None where it has no bound.

    `results` are the mapping of every distinct layer by itself with its bound, in the order of `workload.distinct()`;
    the other arguments are as of `network_least`.
    """
    bounds = [LeastLayer(bound.energy, bound.delay, bound.edp) if (bound := result.bound) else None
              for result in results]
    least = network_least(workload, hardware, [result.spec for result in results], bounds, segments)
    return least.bound(metric) if least else None


def network_least(workload: Workload, hardware: Hardware, layers: Sequence[Spec], bounds: Sequence[LeastLayer | None],
                  segments: Sequence[Segment]) -> NetworkLeast | None:
    """The least cost of every layer of a network, by itself and in groups.

    Args:
        workload: The network.
        hardware: The design.
        layers: Every distinct layer on the design, in the order of `workload.distinct()`.
        bounds: The least cost of one run of each of them by itself; None: it has no bound.
        segments: All segments that could be fused groups; none where nothing is fused.

    Returns:
        None where a layer by itself has no bound.
    """
    levels = [hardware.level(name) for name in homes(hardware)]
    segments = segments if levels else ()   # without a home nothing can be handed on
    repeats = repeats_of(workload)
    operators = {node.name: node.layer for node in workload.layers if node.layer}
    specs = by_node(workload, layers)
    alone: dict[str, LeastLayer] = {}
    for name, bound in by_node(workload, bounds).items():
        if bound is None:
            return None
        alone[name] = LeastLayer(repeats[name] * bound.energy_pj, repeats[name] * bound.cycles,
                                 repeats[name] ** 2 * bound.edp)
    credits = {pair: NOTHING for segment in segments for pair in pairwise(segment.nodes)}
    needed: dict[tuple[str, int], tuple[Pair, ...]] = {}    # sum and words -> the fewest links to be fused for the read
    inside = {segment.nodes[index] for segment in segments for index in segment.read_inside}
    forms: dict[str, dict[bool, None]] = {name: {} for name in specs}   # whether all runs of a layer are one problem
    reads: dict[str, str] = {}
    written: dict[str, bool] = {}
    part = least_work(segments)
    links: dict[tuple[str, str, bool], LayerLink] = {}  # by the layers, and whether they are problems of all their runs
    for segment in segments:
        for (maker, taker), link in zip(pairwise(segment.nodes), segment.links, strict=True):
            reads[taker] = link.tensor
            written[maker] = link.written_whole and maker not in inside
        for name in segment.nodes:
            forms[name][segment.batched] = None
        pairs = tuple(pairwise(segment.nodes))
        for pair, *own in zip(pairs, segment.links, segment.problems, segment.problems[1:], segment.slides,
                              segment.whole, strict=False):
            links.setdefault((*pair, segment.batched), LayerLink(replace(own[0], operators=()), *own[1:]))
        for other in segment.residuals:
            first = max(other.read.first - 1, 0)
            needs = pairs[first:max(other.read.behind, first + 1)]
            if len(needs) <= len(needed.get((other.node, other.words), needs)):
                needed[other.node, other.words] = needs
    if hardware.arch.units:  # which do the sums; what may lie between two layers of a group counts as nothing
        needed.clear()
    costs, packed = word_costs(layers[0]), any(space.bits for spec in layers for space in spec.problem.dataspaces)
    for (_, words), needs in needed.items():
        saved = costs.fetched(words)
        less = 0.0 if packed else min(words * costs.read[level] for level in levels)
        share = OperatingPoint((saved.energy_pj - less) / len(needs), saved.cycles / len(needs))
        credits |= {pair: summed([credits[pair], share]) for pair in needs}
    masked = masked_work(segments) if hardware.arch.skips_masked else {}
    room = {} if packed or masked else group_room(hardware, levels, specs)  # a word per element, and all steps
    before, after = ({pair[k]: pair[1 - k] for pair in credits} for k in (1, 0))
    fused: dict[str, dict[tuple[bool, bool], LeastInGroup]] = {name: {} for name in specs}
    known: dict[tuple[object, ...], LeastInGroup] = {}
    work = {name: least * repeats[name] * specs[name].problem.computes * compute_energy(
        specs[name].arch.arithmetic, specs[name].tables)[0] for name, least in part.items()}
    for name, (operand, output) in product(specs, ((False, True), (True, False), (True, True))):
        if (operand and name not in reads) or (output and name not in written):
            continue
        found = []
        for together in forms[name]:
            spec = over_all_runs(specs[name], operators[name], ()) if together and repeats[name] > 1 else specs[name]
            handed = {reads[name]: False} if operand else {}     # tensors, with whether levels outside keep them, too
            handed |= {spec.problem.output.name: written[name]} if output else {}
            runs = 1 if together else repeats[name]
            done = (part[name] if output else 1.0) * masked.get(name, 1.0)
            back = [name]   # the layer, and those before as far as the group may have them, the nearest first
            while operand and len(back) <= EARLIER and (before.get(back[-1], ""), back[-1], together) in links:
                back.append(before[back[-1]])
            into = [links[pair[1], pair[0], together] for pair in pairwise(back)]
            onward = links.get((name, after[name], together)) if output else None
            if (operand and not into) or (output and onward is None):
                continue    # groups with these links have the layers in the other form
            costs_before = tuple(work[other] for other in back[1:])
            key = (id(specs[name]), together, runs, done, *handed.items(), repr((into, onward)), costs_before)
            if key not in known:
                known[key] = _in_group(spec, _least_in_group(spec, levels, handed, runs), room.get(name), into, onward,
                                       runs, done, costs, costs_before)
            found.append(known[key])
        if not found:
            continue
        shape = np.broadcast_shapes(*(one.cycles.shape[:2] for one in found))
        fused[name][operand, output] = LeastInGroup(*(
            np.concatenate([np.broadcast_to(each, (*shape, each.shape[-1])) for each in values], axis=-1)
            for values in ([one.energy_pj for one in found], [one.cycles for one in found])))
    return NetworkLeast([names for names, _ in chains(workload)], alone, fused, credits,
                        other_reads(workload, layers[0], link_operators(workload) if segments else ()))


def least_work(segments: Sequence[Segment]) -> dict[str, float]:
    """The part of a layer's work that groups have to do, by name: strides may leave out points at the end."""
    part: dict[str, float] = {}
    for segment in segments:
        for maker, problem, reader, link, windows in zip(
                segment.nodes, segment.problems, segment.problems[1:], segment.links, segment.slides, strict=False):
            spans = [(slides.read(range(reader.bounds[link.dims[own]])), problem.bounds[own])
                     for own, slides in windows.items()]
            read = prod((min(points.stop, extent) - max(points.start, 0)) / extent for points, extent in spans)
            part[maker] = min(part.get(maker, 1.0), read)
    return part


def masked_work(segments: Sequence[Segment]) -> dict[str, float]:
    """The part of a layer's work that a causal mask leaves, by name: the scores on and below the diagonal."""
    part: dict[str, float] = {}
    for segment in segments:
        for pair, problem, link in zip(pairwise(segment.nodes), segment.problems, segment.links, strict=False):
            if link.causal:
                keys, queries = problem.bounds[min(link.running)], link.causal[1]
                part |= dict.fromkeys(pair, (keys - (queries - 1) / 2) / keys)
    return part


def group_room(hardware: Hardware, levels: Sequence[int], specs: Mapping[str, Spec]) -> dict[str, GroupRoom]:
    """The room for groups, by layer; none where several levels could be homes, or one without a limit."""
    if len(levels) != 1 or hardware.arch.levels[levels[0]].usable is None:
        return {}
    home, every = levels[0], hardware.arch.levels

    size = float(every[home].usable or 0)

    def sums(spec: Spec, most: int, otherwise: float) -> float:
        """Words of output that the largest of the first levels holds, or another where none of them need keep any."""
        own = [(inf if every[level].usable is None else float(every[level].usable or 0) * every[level].instances, here)
               for level, here in enumerate(spec.constraints.levels[:most])
               if spec.problem.output.name not in here.bypass]
        must = any(spec.problem.output.name in here.keep for _, here in own)
        return max([words for words, _ in own] + ([] if must else [otherwise]))

    return {name: GroupRoom(size, frozenset(spec.constraints.levels[home].keep), sums(spec, home, size),
                            sums(spec, len(every) - 1, inf)) for name, spec in specs.items()}


def _in_group(spec: Spec, once: LeastLayer, room: GroupRoom | None, into: Sequence[LayerLink],
              onward: LayerLink | None, runs: int, done: float, costs: WordCosts,
              work_before: Sequence[float]) -> LeastInGroup:
    """The least cost of a layer in a group, all runs together.

    Args:
        spec: The layer on its design.
        once: Its cost where each word comes in once.
        room: The room for groups; None where it is not known.
        into: The link to the layer, and those to layers before, the nearest first; none for a group's first layer.
        onward: The link from the layer; None for a group's last one.
        runs: Runs of its problem.
        done: The part of its work that the group has to do.
        costs: Costs of words.
        work_before: pJ of the arithmetic of the layers before, all runs together, the nearest first.
    """
    traffic = None
    if room and into:
        traffic = later_traffic(spec.problem, into, onward, room, costs, [work / runs for work in work_before])
    elif room and onward:
        traffic = first_traffic(spec.problem, onward, room, costs)
    if traffic is None:
        return LeastInGroup(*(np.full((1, 1, 1), done * value) for value in (once.energy_pj, once.cycles)))
    handed = {into[0].link.tensor if into else "", spec.problem.output.name if onward else ""}
    least = done * sum(touched_words(space, spec.problem.bounds) for space in spec.problem.dataspaces
                       if space.name not in handed)
    energy = done * once.energy_pj + runs * traffic.energy
    cycles = np.maximum(done * once.cycles, runs * (least + traffic.words) / costs.most)
    return LeastInGroup(energy, cycles)


def _least_in_group(spec: Spec, levels: Sequence[int], handed: Mapping[str, bool], runs: int) -> LeastLayer:
    """The least cost of a layer in a group, over all homes, of so many runs.

    `handed`: the operand that an earlier layer hands on and the layer's own output, as far as they stay in the group,
    each with whether all of it goes to the outermost level, too.
    """
    output, points = spec.problem.output, []
    for home in levels:
        keeping = list(spec.constraints.levels)
        for name, written in handed.items():
            keeping[home] = replace(keeping[home], keep=keeping[home].keep | {name},
                                    bypass=keeping[home].bypass - {name})
            keeping[home + 1:] = [here if written else replace(here, keep=here.keep - {name},
                                                               bypass=here.bypass | {name})
                                  for here in keeping[home + 1:]]
        task = mapping_task(spec, replace(spec.constraints, levels=tuple(keeping)))
        bound = residual_lower_bound(task.layer, task.space, in_steps=True)
        if bound is None:
            return LeastLayer(0.0, 0.0)
        copied = 0.0    # finished sums are read once more where they lie, unless the home itself may add them up
        inside = [level for level in range(home) if output.name not in spec.constraints.levels[level].bypass]
        if output.name in handed and any(output.name in spec.constraints.levels[level].keep for level in inside):
            read = word_energy(task.layer.machine).read * element_shares(spec.arch, spec.problem)[0]
            copied = min(float(read[level].min()) for level in inside) * spec.problem.tensor_size(output)
        points.append(LeastLayer(runs * (bound.energy + copied), runs * bound.delay))
    return LeastLayer(min(point.energy_pj for point in points), min(point.cycles for point in points))
