"""The least that any plan of a network can cost, so that a plan comes with a proven gap.

Class of plans. Every layer runs by itself, in any mapping within the design's constraints, or in a fused group of
layers that follow one another in a chain, as `fusion` evaluates it: any shared loops with tiles of any sizes, even and
uneven; any level on the chip with a single instance as home of each intermediate, or, of two layers, a level whose
instances divide it (`candidates.divisions`); halos kept, in whole tiles, or
computed again; operands of a group resident or not, along any loops; partial sums that stay where they are summed up,
rest in the home or are spilled; residual operands read on the chip or from outside; any mapping of every tile within
the design's constraints, with factors that divide the tile. Loops cut only what the operators in between pass on in
tiles. Tensors may stay on the chip between all of these (`lasting_tensors`): a group that could find or leave some is
bounded as if they cost nothing but the room of a tile.

Layers by themselves are bounded by `search.lower_bound`.

Groups. Each segment has a bound of its own (`LeastGroup`): a set of points of energy and cycles, of which every group
of the segment is above one. It begins with a single point: what each layer costs on the chip at least, and each word
from and to the outermost level once. Where the price of a segment matters, branch and bound over its loops, tile sizes
and residencies divides the groups further (`kernel/group_bound.hpp`). Designs on which several levels could be homes,
layers whose elements are no whole words in the home or the outermost level, and segments with scores that a mask hides
keep the single point.

Networks. At prices per pJ and per cycle, the cheapest plan is a shortest path through every chain, over layers by
themselves and segments; what the plans of a network can reach lies above the line of this least price. The segments on
the path are divided, and the path is found again, until no segment on it can be divided: best first, as no other
segment can be part of a cheaper plan. The least product of energy and cycles above the lines for several prices is at
one of the corners of the polygon that they enclose. The corner with the least product is cut off by the line that is
tangent to its hyperbola, until a line passes through it: a cutting-plane method for the convex hull of all plans.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise, permutations
from math import inf, prod, sqrt
from typing import Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.candidates import alike, cut_dims, divisions, shared_loops
from fadiff_mapper.fusion.estimates import LayerBase, SideBySide, Translated, compiled_segment, homes
from fadiff_mapper.fusion.prices import NOTHING, OperatingPoint, WordCosts, other_reads, summed, word_costs
from fadiff_mapper.fusion.segments import Segment, chains, link_operators, over_all_runs
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel._kernel import GroupBound
from fadiff_mapper.model.prepared_layer import element_shares, prepare_layer, word_energy
from fadiff_mapper.network.lasting_tensors import lasting_ends, lasting_rows, most_saved
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.search.lower_bound.assemble import LeastInSteps, least_in_steps
from fadiff_mapper.search.lower_bound.least_traffic import touched_words
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload

SLACK = 1 - 1e-9
"""Factor on the bound: sums over layers may differ in their last bits."""

TANGENT, MOST_LINES = 1e-6, 200
"""The part of the least price by which a corner may lie below its own tangent, as more lines gain no more; and lines at
most, where plans trade energy against cycles all along a hyperbola: a limit of time."""

LOOPS = 5
"""Loops of a group at most that are divided by order: 120 orders. A limit of time."""

MOST_WORK = 2_000_000
"""Layers of parts of groups that are bounded unless a gap is asked for, eight parts side by side: a limit of time, some
four seconds."""

WORK, RAISED = 10_000, 2e-3
"""Layers of parts of one segment's groups that are bounded before the path is found again; and the part by which the
price of the segment is raised at least until then. Set by hand."""


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


@dataclass
class LeastGroup:
    """Values that no group of a segment undercuts, all repeats together: a single point, and those of all its parts.

    A layer that finds or leaves lasting tensors is a group, too: by itself it costs at most their words more.
    """

    point: OperatingPoint
    with_words: tuple[LeastLayer, OperatingPoint] | None = None  # of a single layer with these words, and of the words
    parts: Callable[[], GroupBound | None] = lambda: None   # how the groups are divided; None: no further
    bound: GroupBound | None = None
    ended: bool = False     # whether no parts are known

    def price(self, energy: float, cycles: float) -> float:
        """The least price at prices per pJ and per cycle; infinite where no group fits."""
        least = energy * self.point.energy_pj + cycles * self.point.cycles
        if self.with_words:
            layer, words = self.with_words
            least = layer.price(energy, cycles) - energy * words.energy_pj - cycles * words.cycles
        return max(least, self.bound.lower(*_sums(energy, cycles))) if self.bound else least

    def raise_price(self, energy: float, cycles: float, goal: float) -> int:
        """Divides the groups until their least price is a goal, or for some time; returns how many layers of parts were
        bounded."""
        if not self.bound:
            self.bound = self.parts()
            self.ended = self.bound is None
            return int(not self.ended)
        return self.bound.refine(*_sums(energy, cycles), goal, WORK)


def _sums(energy: float, cycles: float) -> tuple[float, float]:
    """Prices per pJ and per cycle as the kernel takes them: the energy and the cycles that cost one."""
    return 1 / energy if energy else inf, 1 / cycles if cycles else inf


@dataclass(frozen=True)
class NetworkLeast:
    """Values from which the least price of every plan of a network follows."""

    chains: Sequence[tuple[str, ...]]
    alone: Mapping[str, LeastLayer]
    groups: Mapping[tuple[str, ...], LeastGroup]  # by the layers of the segment; equal segments share one
    credits: Mapping[tuple[str, ...], OperatingPoint]  # reads of residual operands that a segment may do without
    besides: OperatingPoint  # what the network takes besides its layers

    def path(self, energy: float, cycles: float) -> tuple[float, list[LeastGroup]]:
        """The least price of all plans at prices per pJ and per cycle, and the groups of a plan that has it."""
        known: dict[int, float] = {}
        total = energy * self.besides.energy_pj + cycles * self.besides.cycles
        taken: list[LeastGroup] = []
        longest = max(map(len, self.groups), default=0)
        for names in self.chains:
            least = [0.0]   # of the first layers, by their number
            begins: list[tuple[int, LeastGroup | None]] = [(0, None)]   # where their last part begins, and its group
            for stop in range(1, len(names) + 1):
                best = least[-1] + self.alone[names[stop - 1]].price(energy, cycles)
                begin: tuple[int, LeastGroup | None] = stop - 1, None
                for start in range(stop - 1, max(stop - longest, 0) - 1, -1):
                    if not (group := self.groups.get(names[start:stop])):
                        continue
                    if id(group) not in known:
                        known[id(group)] = group.price(energy, cycles)
                    credit = self.credits.get(names[start:stop], NOTHING)
                    value = least[start] + known[id(group)] - energy * credit.energy_pj - cycles * credit.cycles
                    if value < best:
                        best, begin = value, (start, group)
                least.append(best)
                begins.append(begin)
            total += least[-1]
            stop = len(names)
            while stop:
                stop, last = begins[stop]
                taken += [last] if last else []
        return total, taken

    def price(self, energy: float, cycles: float) -> float:
        """The least price of all plans at prices per pJ and per cycle."""
        return self.path(energy, cycles)[0]

    def raise_price(self, energy: float, cycles: float, most: float, over: Over = never) -> int:
        """Divides the groups of plans of the least price until no group of one can be divided, so many layers of parts
        were bounded, or time is over; returns how many were."""
        goal = energy * self.besides.energy_pj + cycles * self.besides.cycles + sum(
            layer.price(energy, cycles) for layer in self.alone.values())
        made, more = 0, 1
        while more and made < most and not over():
            total, taken = self.path(energy, cycles)
            groups = list({id(group): group for group in taken if not group.ended}.values())
            if not groups:
                break
            more = 0
            for group in groups:
                least = group.price(energy, cycles)
                more += group.raise_price(energy, cycles, least + max((goal - total) / len(groups), RAISED * least))
            made += more
        return made

    def bound(self, metric: str, most: float = MOST_WORK, over: Over = never) -> float:
        """The value of "edp" in pJ * cycles, "energy" in pJ or "delay" in cycles that no plan undercuts.

        Groups are divided until no bound can rise further, `most` layers of parts were bounded, or `over` tells that
        time is over.
        """
        if metric != "edp":
            energy, cycles = float(metric == "energy"), float(metric == "delay")
            self.raise_price(energy, cycles, most, over)
            return SLACK * self.price(energy, cycles)
        apart = summed([self.besides, *(OperatingPoint(own.energy_pj, own.cycles) for own in self.alone.values())])
        at = [(1.0, 0.0), (0.0, 1.0)]   # prices by falling weight of energy: neighbours meet at the corners
        if apart.energy_pj and apart.cycles:
            at.insert(1, (1 / apart.energy_pj, 1 / apart.cycles))
            most -= self.raise_price(*at[1], most / 2, over)    # as prices change, half of the rest each time
        lines = [(*prices, self.price(*prices)) for prices in at]    # earlier prices stay bounds as groups are divided
        while True:
            corners = [((c * e - b * f) / (a * e - b * d), (a * f - c * d) / (a * e - b * d))
                       for (a, b, c), (d, e, f) in pairwise(lines)]
            least = min(range(len(corners)), key=lambda index: prod(corners[index]))
            if not prod(corners[least]):    # a network without energy
                return 0.0
            beside = [(energy, cycles, self.price(energy, cycles)) for energy, cycles, _ in lines[least:least + 2]]
            if beside != lines[least:least + 2]:
                lines[least:least + 2] = beside
                continue
            energy, cycles = 1 / corners[least][0], 1 / corners[least][1]
            most -= self.raise_price(energy, cycles, most / 2, over)
            tangent = self.price(energy, cycles)
            if tangent <= 2 * (1 + TANGENT) or len(lines) == MOST_LINES:
                return SLACK * prod(corners[least])
            lines.insert(least + 1, (energy, cycles, tangent))


def least_value(workload: Workload, hardware: Hardware, results: Sequence[Result], segments: Sequence[Segment],
                metric: str, most: float = MOST_WORK, over: Over = never) -> float | None:
    """The value of a metric that no plan undercuts, None where it has no bound.

    `results` are the mapping of every distinct layer by itself with its bound, in the order of `workload.distinct()`;
    `most` and `over` are as of `NetworkLeast.bound`, the other arguments as of `network_least`.
    """
    bounds = [LeastLayer(bound.energy, bound.delay, bound.edp) if (bound := result.bound) else None
              for result in results]
    least = network_least(workload, hardware, [result.spec for result in results], bounds, segments)
    return least.bound(metric, most, over) if least else None


def network_least(workload: Workload, hardware: Hardware, layers: Sequence[Spec], bounds: Sequence[LeastLayer | None],
                  segments: Sequence[Segment]) -> NetworkLeast | None:
    """The least cost of every layer of a network by itself, and of its groups.

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
    specs = by_node(workload, layers)
    alone: dict[str, LeastLayer] = {}
    for name, bound in by_node(workload, bounds).items():
        if bound is None:
            return None
        alone[name] = LeastLayer(repeats[name] * bound.energy_pj, repeats[name] * bound.cycles,
                                 repeats[name] ** 2 * bound.edp)
    ends = lasting_ends(lasting_rows(workload, hardware, specs) if segments else [], specs)
    single = [Segment((name,), (specs[name].problem,), (), (), repeats[name], (1,))
              for name, lasting_of in ends.items() if lasting_of.tensors]
    costs = word_costs(layers[0])
    packed = not all(in_words(spec, levels) for spec in layers)
    masked = masked_work(segments) if hardware.arch.skips_masked else {}
    operators = {node.name: node.layer for node in workload.layers if node.layer}
    known: dict[Hashable, list[LayerInGroup]] = {}
    translated: Translated = {}
    groups: dict[Hashable, LeastGroup] = {}
    found: dict[tuple[str, ...], LeastGroup] = {}
    credits: dict[tuple[str, ...], OperatingPoint] = {}
    for segment in (*segments, *single):
        lasting = tuple(ends[name].beyond(segment.nodes) if name in ends else frozenset[str]()
                        for name in segment.nodes)
        # a single layer has no key of its own, and equal ones may run more or less often
        single_key = () if segment.links else (id(specs[segment.nodes[0]]), segment.repeat)
        segment_key = segment.key, lasting, *single_key
        if segment_key not in groups:
            own, divided_at = [], [hardware.level(stay.level) for stay in divisions(
                hardware, segment, [specs[name].constraints for name in segment.nodes])]
            homes_of = (*levels, *dict.fromkeys(divided_at))
            for index, (name, problem, share) in enumerate(zip(
                    segment.nodes, segment.problems, needed_shares(segment), strict=True)):
                handed = {link.tensor: False for before, link in enumerate(segment.links)
                          if segment.reader(before) == index}
                # what an earlier layer has brought may lie there, too
                handed |= {one.operand: False for one in segment.shared if one.layer == index}
                if index + 1 < len(segment.nodes):
                    handed[problem.output.name] = (segment.links[index].written_whole
                                                   and index not in segment.read_inside)
                key = id(specs[name]), problem.dimensions, tuple(handed.items()), lasting[index], homes_of
                if key not in known:
                    spec = over_all_runs(specs[name], operators[name], problem.dimensions)
                    known[key] = [in_group(spec, home, handed, lasting[index]) for home in homes_of]
                own.append([replace(layer, done=share * masked.get(name, 1.0)) for layer in known[key]])
            groups[segment_key] = LeastGroup(OperatingPoint(
                *(segment.repeat * sum(min(getattr(layer.once, value) for layer in homed) for homed in own)
                  for value in ("energy_pj", "cycles"))))
            if not segment.links:
                name, point = segment.nodes[0], groups[segment_key].point
                least, words = alone[name], most_saved(specs[name], levels[0], ends[name], repeats[name])
                groups[segment_key].with_words = LeastLayer(
                    max(least.energy_pj, point.energy_pj + words.energy_pj),
                    max(least.cycles, point.cycles + words.cycles), least.edp), words
            # parts count an element as a word, in all steps
            elif len(homes_of) == 1 and not packed and masked.keys().isdisjoint(segment.nodes):
                groups[segment_key].parts = partial(divided, hardware, segment, [layer for layer, in own], costs,
                                                    translated, lasting)
        found[segment.nodes] = groups[segment_key]
        if segment.residuals and not hardware.arch.units:   # units do the sums
            reads = {(other.node, other.words): costs.fetched(other.words) for other in segment.residuals}
            less = [0.0 if packed else min(words * costs.read[level] for level in levels) for _, words in reads]
            credits[segment.nodes] = summed([OperatingPoint(read.energy_pj - inside, read.cycles)
                                             for read, inside in zip(reads.values(), less, strict=True)])
    return NetworkLeast([names for names, _ in chains(workload)], alone, found, credits,
                        other_reads(workload, layers[0], link_operators(workload) if segments else ()))


def in_words(spec: Spec, homes: Sequence[int]) -> bool:
    """Whether an element of each tensor is one word in the homes and the outermost level, and a partial sum is at least
    one word in every level."""
    whole, partial = element_shares(spec.arch, spec.problem)
    sums = partial[:, spec.problem.dataspaces.index(spec.problem.output)]
    return bool((whole[[*homes, -1]] == 1).all() and (sums >= 1).all())


def needed_shares(segment: Segment) -> list[float]:
    """The part of each layer's work that a group has to do at least: strides may leave out points, and so may layers
    further on that do not read all of one."""
    points, shares = {len(segment.links): dict(segment.problems[-1].bounds)}, [1.0]
    for index in reversed(range(len(segment.links))):
        link, problem, reader = segment.links[index], segment.problems[index], segment.problems[segment.reader(index)]
        before = dict(problem.bounds)
        for own, slides in segment.slides[index].items():
            theirs, extent = link.dims[own], problem.bounds[own]
            span = (slides.kernel - 1) * slides.dilation + 1
            read = (points[segment.reader(index)][theirs] - 1) * min(slides.stride, span) + span
            behind = max(slides.read(range(reader.bounds[theirs])).stop - extent, 0)
            least = -(-read // slides.shrink) * slides.block - max(slides.ahead, 0) - behind
            before[own] = min(max(least, 1), extent)
        shares.insert(0, prod(before[dim] / extent for dim, extent in problem.bounds.items()))
        points[index] = before
    return shares


def least_work(segments: Sequence[Segment]) -> dict[str, float]:
    """The least part of a layer's work that groups of some segments have to do, by name."""
    part: dict[str, float] = {}
    for segment in segments:
        for name, share in zip(segment.nodes[:-1], needed_shares(segment), strict=False):
            part[name] = min(part.get(name, 1.0), share)
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


@dataclass(frozen=True)
class LayerInGroup:
    """A layer in a group whose intermediates have one home."""

    spec: Spec
    home: int
    written: bool  # whether its output goes to the outermost level
    least: LeastInSteps | None  # of all its work; None: nothing is known
    # the least energy and cycles of one run of all its work where each word comes from outside once, whether or not
    # lasting tensors lie in the home
    whole: OperatingPoint = NOTHING
    done: float = 1.0  # the part of its work that the group has to do

    @property
    def once(self) -> OperatingPoint:
        """The least energy and cycles of one run where each word comes from outside once."""
        return OperatingPoint(self.done * self.whole.energy_pj, self.done * self.whole.cycles)


def in_group(spec: Spec, home: int, handed: Mapping[str, bool], lasting: Set[str] = frozenset()) -> LayerInGroup:
    """A layer in a group.

    Args:
        spec: The layer on its design.
        home: The index of the home of what it reads and makes.
        handed: The operand that an earlier layer hands on and the layer's own output, as far as they stay in the group,
            each with whether all of it goes to the outermost level, too.
        lasting: Data spaces that may be lasting tensors.
    """
    output = spec.problem.output.name

    def least(kept: Mapping[str, bool]) -> LeastInSteps | None:
        keeping = list(spec.constraints.levels)
        for name, written in kept.items():
            keeping[home] = replace(keeping[home], keep=keeping[home].keep | {name},
                                    bypass=keeping[home].bypass - {name})
            keeping[home + 1:] = [
                here if written else replace(here, keep=here.keep - {name}, bypass=here.bypass | {name})
                for here in keeping[home + 1:]]
        task = mapping_task(spec, replace(spec.constraints, levels=tuple(keeping)))
        return least_in_steps(task.layer, task.space, home, output in handed)   # no copies of one that may be left

    every = [least({**handed, **dict.fromkeys(some, False)})
             for count in range(len(lasting) + 1) for some in combinations(sorted(lasting), count)]
    whole = [OperatingPoint(one.energy, one.cycles) if one else NOTHING for one in every]
    return LayerInGroup(spec, home, handed.get(output, output not in lasting), every[-1],
                        OperatingPoint(min(one.energy_pj for one in whole), min(one.cycles for one in whole)))


def divided(hardware: Hardware, segment: Segment, layers: Sequence[LayerInGroup], costs: WordCosts,
            translated: Translated, lasting: Sequence[Set[str]]) -> GroupBound | None:
    """The groups of a segment, to be divided; None where nothing but the words that come in once is known.

    Args:
        hardware: The design, with one level that can be a home.
        segment: The segment.
        layers: Its layers.
        costs: Costs of words.
        translated: Links of other segments on the design in the kernel's form; those of this one are added.
        lasting: For each layer its data spaces that may be lasting tensors, found or left there.
    """
    home, last = layers[0].home, segment.problems[-1]
    usable = hardware.arch.levels[home].usable
    dims = cut_dims(segment)
    if usable is None or not 0 < len(dims) <= LOOPS or any(layer.least is None for layer in layers):
        return None
    machine = prepare_layer(layers[0].spec.arch, last, layers[0].spec.tables).machine
    bandwidth = [float(limit[home, 0]) for limit in (
        machine.read_bandwidth, machine.write_bandwidth, machine.shared_bandwidth)]
    fill = word_energy(machine).fill[home]
    cuts = {len(segment.links): set(dims)}  # what shared loops cut of each layer
    for index in reversed(range(len(segment.links))):
        cuts[index] = {own for own, theirs in segment.links[index].dims.items()
                       if theirs in cuts[segment.reader(index)]}
    tables, bases = [], []
    for index, (layer, problem) in enumerate(zip(layers, segment.problems, strict=True)):
        assert layer.least
        keep = layer.spec.constraints.levels[home].keep
        read = {link.tensor for before, link in enumerate(segment.links) if segment.reader(before) == index}
        brought = {one.operand for one in segment.shared if one.layer == index}
        brought |= lasting[index] - {problem.output.name}
        outside = [space for space in problem.dataspaces if space is not problem.output and space.name not in read]
        # windows that spatial loops divide may round to nothing
        through = [t for t, space in enumerate(problem.dataspaces) if space is not problem.output
                   and (space.name in keep or space.name in read) and layer.least.inward[t] > 0]
        tables.append({
            "energy": layer.done * layer.least.inside, "cycles": layer.done * layer.least.busy,
            "written": layer.done * problem.tensor_size(problem.output) * layer.written, "done": layer.done,
            "made": layer.done * problem.tensor_size(problem.output) * (index < len(segment.links)),
            "filled": all(space.name in keep for space in outside), "fill": float(fill.min()),
            "back": layer.least.back,
            "summing": [(layer.done * cycles, each) for cycles, each in layer.least.summing],
            "unfinished": sums_room(layer.spec, home, float(usable)),
            **product_units(layer, problem, cuts[index], {space.name for space in outside} <= keep),
            "through": sum(1 << t for t in through),
            "brought": sum(1 << t for t, space in enumerate(problem.dataspaces) if space.name in brought),
            "once": [0.0 if space.name in brought else layer.done * touched_words(space, problem.bounds)
                     for space in problem.dataspaces],
            "inward": [layer.done * float(words) for words in layer.least.inward]})
        bases.append(LayerBase(0.0, {}, sums_room(layer.spec, len(hardware.arch.levels) - 1, inf),
                               (SideBySide(0.0, {}),), replace(costs, bandwidth=costs.most), NOTHING))
    compiled = compiled_segment(hardware, segment, bases, translated)
    shared, _ = shared_loops(segment, dims)
    for index, slides in enumerate(segment.slides):     # points that stand for several are not made again by halves
        resized = {dim for dim in dims if any(slide.shrink > 1 or slide.block > 1 for slide in slides.values())}
        shared[index] -= resized
    number = {dim: index for index, dim in enumerate(last.dimensions)}
    equal = [pair for pair in combinations(dims, 2) if alike(segment, *pair)]
    adding = {dim for dim in dims if dim not in last.output.dimensions}
    in_home = last.output.name not in layers[-1].spec.constraints.levels[home].bypass   # whether sums may rest there
    orders = []
    for order in permutations(dims):
        if any(order.index(first) > order.index(second) for first, second in equal):
            continue
        # sums that stay where they are added up: the loops that add to them are the innermost ones
        if set(order[len(dims) - len(adding):]) == adding or in_home:
            orders.append(([number[dim] for dim in order], False))
        if adding:
            orders.append(([number[dim] for dim in order], True))
    return GroupBound(compiled.tables, tables, float(usable), bandwidth, orders,
                      [[number[dim] for dim in dims if dim in own] for own in shared])


def product_units(layer: LayerInGroup, problem: Problem, cut: Set[str], in_home: bool) -> dict[str, Any]:
    """The units of a layer side by side in the kernel's form, if it is a product of two operands in the home.

    One operand at least has no windows, each dimension of the output moves an operand, and each other one both.

    Args:
        layer: The layer.
        problem: Its problem as in the group.
        cut: The dimensions that shared loops may cut.
        in_home: Whether the home keeps both operands in every mapping.
    """
    operands = [space for space in problem.dataspaces if space is not problem.output]
    plain = [space for space in problem.dataspaces if all(
        len(rank) == 1 and abs(rank[0].coefficient) == 1 for rank in space.ranks)]
    output, dims = problem.output, frozenset(problem.dimensions)
    if not (in_home and layer.least and len(operands) == 2 and output in plain
            and any(own in plain for own in operands)):
        return {}
    first, second = (own.dimensions for own in operands)
    if not output.dimensions <= first | second or (first ^ second) - output.dimensions:
        return {}
    own = {rank[0].dimension for space in operands for rank in space.ranks if len(rank) == 1}
    windows = {term.dimension for space in operands for rank in space.ranks if len(rank) > 1 for term in rank}
    kinds = [output.dimensions & first - second, output.dimensions & second - first, own - windows - output.dimensions]
    groups = first & second & output.dimensions
    return {"units": {
        "computes": layer.done * problem.computes, "most": layer.least.units(dims),
        "along": [layer.least.units(frozenset(kind)) for kind in (*kinds, groups, dims.difference(groups, *kinds))],
        "beside": [layer.least.units(dims - kind) for kind in kinds],
        "whole": [0.0 if cut & kind else float(prod(problem.bounds[dim] for dim in kind)) for kind in kinds]}}


def sums_room(spec: Spec, most: int, otherwise: float) -> float:
    """Words of output that the largest of the first `most` levels holds, or another number where none of them need keep
    any."""
    own = [(inf if level.usable is None else float(level.usable) * level.instances, here)
           for level, here in list(zip(spec.arch.levels, spec.constraints.levels, strict=True))[:most]
           if spec.problem.output.name not in here.bypass]
    must = any(spec.problem.output.name in here.keep for _, here in own)
    return max([words for words, _ in own] + ([] if must else [otherwise]))
