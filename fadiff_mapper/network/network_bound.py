"""A lower bound on the cost of every plan of a network, which gives a plan a proven gap.

Class of plans. Every layer runs by itself, in any mapping within the design's constraints, or in a fused group of
layers that follow one another in a chain, as `fusion` evaluates it: any shared loops with tiles of any sizes, even and
uneven; any level on the chip with a single instance as home of each intermediate, or, of two layers, a level whose
instances divide it (`candidates.divisions`); halos kept, in whole tiles, or computed again; operands of a group
resident or not, along any loops; partial sums that stay where they are summed up, rest in the home or are spilled;
residual operands read on the chip or from outside; any mapping of every tile within the design's constraints, with
factors that divide the tile. Loops cut only what the operators in between pass on in tiles. Tensors may stay on the
chip between all of these (`lasting_tensors`).

Layers by themselves are bounded by `search.lower_bound`, and `search.lower_bound.proof` proves their least prices.

Groups. Each segment has a bound of its own (`LeastGroup`): a set of points of energy and cycles; every group of the
segment costs at least as much as one of them. At first it is a single point: what each layer costs on the chip at
least, and each word once from or to the outermost level. Where the price of a segment matters, branch and bound over
loops, tile sizes and residencies divides its groups further (`kernel/group_bound.hpp`), and where nothing is left to
divide a search of all tiles proves the least price (`searched_parts`). The single point remains on designs with several
possible homes, for layers whose elements are no whole words in the home or the outermost level, and for segments with
scores that a mask hides. A segment has a bound for each choice of lasting tensors.

Networks. At given prices per pJ and per cycle, the cheapest plan is a shortest path through every chain, over layers by
themselves and segments; the states say which tensors lie in the home. In the plane of energy and cycles all plans lie
above the line of this least price. The segments on the path are divided, its layers by themselves are proved, and the
path is found again, best first, until nothing on it is open or its price hardly rises: no other part can be in a
cheaper plan. The least product of energy and cycles above the lines for several prices lies at a corner of the polygon
that they enclose. The corner with the least product is cut off by the line that is tangent to its hyperbola, until a
line passes through the corner: a cutting-plane method for the convex hull of all plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import pairwise, product
from math import inf, prod, sqrt

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, TileLoop
from fadiff_mapper.fusion.candidates import between, divisions
from fadiff_mapper.fusion.estimates import homes
from fadiff_mapper.fusion.fused_group import Stay
from fadiff_mapper.fusion.group_cost import operator_choices
from fadiff_mapper.fusion.prices import NOTHING, least_path, operators_alone, other_reads, summed, word_costs
from fadiff_mapper.fusion.segments import Segment, chains, over_all_runs
from fadiff_mapper.fusion.tile_steps import all_step_classes, space_of
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, Spec
from fadiff_mapper.kernel._kernel import GroupBound
from fadiff_mapper.model.energy_latency import narrowest_port
from fadiff_mapper.model.prepared_layer import UNLIMITED, element_shares, prepare_layer, word_energy
from fadiff_mapper.network.group_bound import KnownForms, LayerInGroup, group_bound, in_group
from fadiff_mapper.network.lasting_tensors import NEW_ROW, NOBODY, LastingRow, Residents, lasting_rows, row_steps
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.network.searched_parts import SearchedSegment, WholePart
from fadiff_mapper.network.tile_mappings import TileMemory, held_at
from fadiff_mapper.search.lower_bound.proof import MappingProof
from fadiff_mapper.search.lower_bound.refine import refine
from fadiff_mapper.workload import OperatingPoint, Workload

SLACK = 1 - 4e-9
"""Factor on the bound: proofs may be off by a billionth in each of two shares, and sums in their last bits."""

TANGENT, MOST_LINES = 1e-6, 200
"""Share of the least price by which a corner may lie below its own tangent, as further lines gain no more; most lines,
for plans that trade energy against cycles along a whole hyperbola: a limit of time."""

MOST_WORK = 800_000
"""Work of the bound unless a gap is asked for, a limit of time: layers of parts of groups, eight parts side by side,
and parts and mappings in the proofs of layers by themselves."""

PATIENCE, RISE = 80_000, 3e-3
"""Parts of groups within which the least price of all plans must rise by a share, unless a gap is asked for: a slower
rise closes little of the gap in any time."""

WORK, RAISED = 2_000, 1e-2
"""Layers of parts of one segment's groups that are bounded before the path is found again, and the least share by which
the segment's price shall rise until then. Set by hand."""


Line = tuple[float, float, float]
"""Prices per pJ and per cycle, and a lower bound on the price of every plan."""

PriceProof = Callable[[tuple[float, float]], MappingProof]
"""Proves the least price of a layer at energy and cycles of the network; an infinite sum does not count."""


@dataclass(frozen=True)
class LeastLayer:
    """Lower bounds on the cost of one run of a layer, in any mapping."""

    energy_pj: float
    cycles: float
    edp: float = 0.0  # pJ * cycles; may exceed energy times cycles
    proof: PriceProof | None = None     # proves the least price
    proved: dict[tuple[float, float], MappingProof] = field(default_factory=dict)   # by prices per pJ and per cycle

    def price(self, energy: float, cycles: float) -> float:
        """The least price at prices per pJ and per cycle that all bounds imply: energy, cycles, EDP and proved prices.

        On the hyperbola of the EDP the price is least where energy and cycles cost the same. A proved price is scaled
        until its prices per pJ and per cycle are within the given ones; the rest is charged on the least energy and the
        least cycles.
        """
        least = energy * self.energy_pj + cycles * self.cycles
        if energy and cycles and self.edp > self.energy_pj * self.cycles:
            at = min(max(sqrt(cycles * self.edp / energy), self.energy_pj), self.edp / self.cycles)
            least = energy * at + cycles * self.edp / at
        for (per_pj, per_cycle), proof in self.proved.items():
            part = min(asked / of for asked, of in ((energy, per_pj), (cycles, per_cycle)) if of)
            least = max(least, part * proof.least + (energy - part * per_pj) * self.energy_pj
                        + (cycles - part * per_cycle) * self.cycles)
        return least

    def open_at(self, energy: float, cycles: float) -> bool:
        """Whether a proof may raise the least price; not where an earlier proof did not get through all schemes."""
        return (self.proof is not None and (energy, cycles) not in self.proved
                and all(proof.least for proof in self.proved.values()))

    def raise_price(self, energy: float, cycles: float, goal: float) -> int:
        """Proves the least price, whatever the goal; returns the number of parts and mappings that the proof took."""
        assert self.proof
        proof = self.proved[energy, cycles] = self.proof(sums_of(energy, cycles))
        return proof.parts + proof.mappings


@dataclass
class LeastGroup:
    """Lower bounds on the cost of every group of a segment, all repeats together: a single point, then a set of parts.

    A layer with lasting tensors counts as a group, too; it saves at most the words of these tensors.
    """

    segment: Segment
    point: OperatingPoint
    # bound on one run of a single layer without lasting tensors, and the most that these save in all runs
    with_words: tuple[LeastLayer, OperatingPoint] | None = None
    operators: OperatingPoint = NOTHING     # between its layers, on compute units
    make_bound: Callable[[], GroupBound | None] = lambda: None   # makes the bound by parts; None: not available
    bound: GroupBound | None = None
    searches: SearchedSegment | None = None     # searches parts that cannot be divided; None: they are not searched
    # least prices of point and bound by prices per pJ and per cycle, until the bound is raised
    lowest: dict[tuple[float, float], float] = field(default_factory=dict)
    ended: bool = False     # whether `make_bound` gave none

    def price(self, energy: float, cycles: float) -> float:
        """The least price at prices per pJ and per cycle; infinite where no group fits.

        The cycles of a group are at least those of its layers, and at least those of its operators.
        """
        if self.operators is NOTHING:
            return self.price_of_layers(energy, cycles)
        return energy * self.operators.energy_pj + max(
            self.price_of_layers(energy, cycles),
            self.price_of_layers(energy, 0.0) + cycles * self.operators.cycles)

    def price_of_layers(self, energy: float, cycles: float) -> float:
        """The least price of the layers at prices per pJ and per cycle, without the operators between them."""
        if (energy, cycles) not in self.lowest:
            self.take_price(energy, cycles, self.bound.lower(*sums_of(energy, cycles)) if self.bound else 0.0)
        least = self.lowest[energy, cycles]
        if self.with_words:
            layer, words = self.with_words
            alone = self.segment.repeat * layer.price(energy, cycles)
            least = max(least, alone - energy * words.energy_pj - cycles * words.cycles)
        return least

    def take_price(self, energy: float, cycles: float, parts: float) -> None:
        """Takes up the least price of all parts at prices per pJ and per cycle; the single point may be higher."""
        self.lowest[energy, cycles] = max(energy * self.point.energy_pj + cycles * self.point.cycles, parts)

    def sizes(self, energy: float, cycles: float) -> dict[str, int]:
        """The largest tile of each shared loop, outermost first, in the part of the groups with the least price; empty
        where that part fixes no loops."""
        loops = self.bound.least_loops(*sums_of(energy, cycles)) if self.bound else []
        return {self.segment.problems[-1].dimensions[number]: int(tile) for number, tile in loops}

    def open_at(self, energy: float, cycles: float) -> bool:
        """Whether the groups may be divided further."""
        return not self.ended

    def raise_price(self, energy: float, cycles: float, goal: float) -> int:
        """Divides the groups until their least price reaches a goal or the work is spent; returns the number of layers
        bounded in parts."""
        if not self.bound:
            self.lowest.clear()
            self.bound = self.make_bound()
            self.ended = self.bound is None
            return int(not self.ended)
        goal -= energy * self.operators.energy_pj
        by_units = cycles * self.operators.cycles
        if by_units and self.price_of_layers(energy, cycles) < self.price_of_layers(energy, 0.0) + by_units:
            cycles, goal = 0.0, goal - by_units
        self.lowest.clear()
        return self.bound.refine(*sums_of(energy, cycles), goal, WORK)

    def search(self, energy: float, cycles: float) -> int:
        """Searches the tiles of the part with the least price, if it cannot be divided; returns the number of mappings
        evaluated, 0 where nothing is left to search."""
        sums = sums_of(energy, cycles)
        if not (self.bound and self.searches and (found := self.bound.least_whole(*sums))):
            return 0
        place, loops, kept, spilled, stays, prices = found
        names = self.segment.problems[-1].dimensions
        part = WholePart(tuple(TileLoop(names[dim], int(tile)) for dim, tile in loops),
                         tuple(frozenset(names[dim] for dim in dims) for dims in kept), spilled, stays, prices)
        least, evaluated = self.searches.price(part, sums)
        self.lowest.clear()
        self.bound.searched(place, *sums, least)
        return evaluated


def sums_of(energy: float, cycles: float) -> tuple[float, float]:
    """Prices per pJ and per cycle as sums for the kernel: the energy and the cycles that each cost 1."""
    return 1 / energy if energy else inf, 1 / cycles if cycles else inf


def title_of(nodes: Sequence[str], operands: Iterable[tuple[int, str, bool]], made: bool, room: int) -> str:
    """The title of layers that run as a group, or of one by itself; the other arguments as in `Residents`."""
    lasting = [f"{operand} of {nodes[layer]} {'there' if there else 'brought'}"
               for layer, operand, there in sorted(operands)]
    return ", ".join([" + ".join(nodes), *lasting, *(["output left"] if made else []),
                      *([f"{room} words"] if room else [])])


@dataclass(frozen=True)
class PathStep:
    """A layer by itself, or a group, as a step of a path through the network.

    The numbered states of a network say which layers have run and which tensors lie in the home; state 0 is the first.
    """

    before: int
    after: int
    nodes: tuple[str, ...]
    least: LeastLayer | LeastGroup  # equal parts of a network share one
    runs: float = 1     # runs of a layer by itself, back to back
    credit: OperatingPoint = NOTHING  # the most that a group saves of the cost besides the layers (`besides`)
    residents: Residents = NOBODY

    @property
    def title(self) -> str:
        """The layers, and the lasting tensors that lie in the home meanwhile; steps of one title share one bound."""
        own = self.residents
        return title_of(self.nodes, own.operands, own.made, own.room)

    def price(self, energy: float, cycles: float) -> float:
        """The least price at prices per pJ and per cycle."""
        return self.runs * self.least.price(energy, cycles) - (
            energy * self.credit.energy_pj) - cycles * self.credit.cycles


@dataclass(frozen=True)
class NetworkLeast:
    """Lower bounds on all parts of a network, from which the least price of every plan follows."""

    steps: Sequence[PathStep]  # a step into a state comes before all steps from that state
    besides: OperatingPoint  # cost of the network besides its layers

    @cached_property
    def steps_of(self) -> dict[int, list[int]]:
        """The numbers of the steps that run a layer or group, by its identity."""
        found: dict[int, list[int]] = {}
        for number, step in enumerate(self.steps):
            found.setdefault(id(step.least), []).append(number)
        return found

    @cached_property
    def states(self) -> tuple[list[int], list[int]]:
        """The states before and after each step."""
        return [step.before for step in self.steps], [step.after for step in self.steps]

    def shortest(self, prices: Sequence[float]) -> tuple[float, list[int]]:
        """The least sum of prices on a path through the network, and the numbers of its steps; `prices`: of all
        steps."""
        return least_path(zip(*self.states, prices, range(len(prices)), strict=True), 0, self.steps[-1].after)

    @property
    def alone(self) -> list[tuple[LeastLayer, float]]:
        """The bound of each layer by itself, and its number of runs."""
        return [(step.least, step.runs) for step in self.steps if isinstance(step.least, LeastLayer)]

    def path(self, energy: float, cycles: float,
             prices: Sequence[float] | None = None) -> tuple[float, list[LeastLayer | LeastGroup]]:
        """The least price of all plans at prices per pJ and per cycle, and the parts of a plan with this price.

        `prices`: the prices of the steps, where known.
        """
        least, way = self.shortest(prices or self.prices(energy, cycles))
        return least + energy * self.besides.energy_pj + cycles * self.besides.cycles, [
            self.steps[number].least for number in reversed(way)]

    def prices(self, energy: float, cycles: float) -> list[float]:
        """The least price of each step at prices per pJ and per cycle."""
        return [step.price(energy, cycles) for step in self.steps]

    def price(self, energy: float, cycles: float) -> float:
        """The least price of all plans at prices per pJ and per cycle."""
        return self.path(energy, cycles)[0]

    def raise_price(self, energy: float, cycles: float, most: float, over: Over = never, enough: float = inf,
                    patience: float = PATIENCE) -> float:
        """Raises the least price of all plans: divides groups and proves layers of the plan with that price, and
        searches the groups where nothing can be divided, until the price is `enough`, no part of the plan is open,
        `most` parts and mappings were looked at, or time is over. Returns their number; infinite where the price rose
        by less than `RISE` over `patience` parts of groups."""
        prices = self.prices(energy, cycles)
        reached, since = 0.0, 0     # the least price at its last sufficient rise, and parts of groups since then
        total, parts, hopeless = 0.0, list[LeastLayer | LeastGroup](), False    # of the plan of the least price
        # the price of all layers by themselves, by the bounds so far, sets how far each step goes
        goal = min(enough, energy * self.besides.energy_pj + cycles * self.besides.cycles + sum(
            runs * layer.price(energy, cycles) for layer, runs in self.alone))

        def deciding() -> Sequence[LeastLayer | LeastGroup]:
            """The open parts of the plan of the least price."""
            nonlocal reached, since, total, parts, hopeless
            total, taken = self.path(energy, cycles, prices)
            if total >= reached * (1 + RISE):
                reached, since = total, 0
            parts = [] if total >= enough else list(
                {id(part): part for part in taken if part.open_at(energy, cycles)}.values())
            hopeless = bool(parts) and since >= patience
            return [] if hopeless else parts

        def opened(part: LeastLayer | LeastGroup) -> int:
            """Raises the price of a part by its share of the rise that the plan still needs."""
            nonlocal since
            least = part.price(energy, cycles)
            looked = part.raise_price(energy, cycles, least + max((goal - total) / len(parts), RAISED * least))
            if isinstance(part, LeastGroup):
                since += looked     # proofs of layers do not count: each is made once
            price_again(part)
            return looked

        def price_again(part: LeastLayer | LeastGroup) -> None:
            """Prices the steps that a part bounds; a layer's bound also bounds its groups with lasting tensors."""
            for number in self.steps_of[id(part)] if isinstance(part, LeastGroup) else range(len(prices)):
                prices[number] = self.steps[number].price(energy, cycles)
        made = refine(deciding, opened, most=most, over=over)
        while made < most and not hopeless and not over():  # where nothing is left to divide, which takes less time
            groups = [part for part in parts if isinstance(part, LeastGroup)]
            evaluated = sum(part.search(energy, cycles) for part in groups)
            for part in groups:
                price_again(part)
            if not evaluated:
                break
            made += evaluated + refine(deciding, opened, most=most - made - evaluated, over=over)
        return inf if hopeless else made

    def bound(self, metric: str, most: float = MOST_WORK, over: Over = never, enough: float = inf,
              patience: float = PATIENCE) -> float:
        """A lower bound on all plans: "edp" in pJ * cycles, "energy" in pJ or "delay" in cycles; arguments as for
        `lines`."""
        return SLACK * least_metric(self.lines(metric, most, over, enough, patience))

    def lines(self, metric: str, most: float = MOST_WORK, over: Over = never, enough: float = inf,
              patience: float = PATIENCE) -> list[Line]:
        """Lines in the plane of energy and cycles below which no plan lies, for a bound on a metric.

        Groups are divided and layers by themselves proved until the bound is `enough`, no bound can rise further,
        `most` parts were looked at, the price of plans hardly rises at some prices per pJ and per cycle (`patience`, as
        in `raise_price`), or `over` is true.
        """
        energy, cycles = map(float, METRIC_EXPONENTS[metric])
        enough *= (1 + TANGENT) ** 2 / SLACK    # the last tangent and the slack may take as much from the bound
        if not (energy and cycles):     # a sum over the parts of a plan, not a product of two
            self.raise_price(energy, cycles, most, over, enough, patience)
            return [(energy, cycles, self.price(energy, cycles))]

        def raised(energy: float, cycles: float) -> float:
            """`raise_price`, up to the line that touches the hyperbola of the EDP that is enough."""
            return self.raise_price(energy, cycles, most / 2, over, 2 * sqrt(energy * cycles * enough), patience)
        apart = summed([self.besides, *(OperatingPoint(runs * own.energy_pj, runs * own.cycles)
                                        for own, runs in self.alone)])
        at = [(1.0, 0.0), (0.0, 1.0)]
        if apart.energy_pj and apart.cycles:
            at.insert(1, (1 / apart.energy_pj, 1 / apart.cycles))
            most -= raised(*at[1])  # half of the remaining work at each pair of prices
        known = {prices: self.price(*prices) for prices in at}  # earlier prices stay bounds as groups are divided
        while True:
            lines = edges([(*prices, least) for prices, least in known.items()])
            corners = corners_of(lines)
            least = min(range(len(corners)), key=lambda index: prod(corners[index]))
            if not prod(corners[least]) or prod(corners[least]) >= enough:  # the product is 0 without energy
                return lines
            beside = {(energy, cycles): self.price(energy, cycles) for energy, cycles, _ in lines[least:least + 2]}
            if not beside.items() <= known.items():
                known |= beside
                continue
            energy, cycles = 1 / corners[least][0], 1 / corners[least][1]
            most -= raised(energy, cycles)
            tangent = self.price(energy, cycles)
            if tangent <= 2 * (1 + TANGENT) or len(known) == MOST_LINES:
                return lines
            known[energy, cycles] = tangent


def edges(lines: Sequence[Line]) -> list[Line]:
    """The lines along which the region above all lines has an edge, by falling weight of energy."""
    def slope(line: Line) -> float:
        return line[1] / line[0] if line[0] else inf
    found: list[Line] = []
    for line in sorted(lines, key=lambda line: (slope(line), -line[2] / max(line[:2]))):
        if found and slope(line) <= slope(found[-1]) * (1 + 1e-12):     # parallel, and the other one is higher
            continue
        while len(found) > 1:
            (energy, cycles), = corners_of([found[-2], line])
            if found[-1][0] * energy + found[-1][1] * cycles < found[-1][2]:
                break
            found.pop()     # its neighbours meet above it
        found.append(line)
    return found


def corners_of(lines: Sequence[Line]) -> list[tuple[float, float]]:
    """Energy and cycles at which each line meets the next one."""
    return [((c * e - b * f) / (a * e - b * d), (a * f - c * d) / (a * e - b * d))
            for (a, b, c), (d, e, f) in pairwise(lines)]


def least_metric(lines: Sequence[Line]) -> float:
    """The least metric of a point above all lines, which are `edges`: the least price of one line, or the least product
    of energy and cycles, which lies at a corner."""
    return min(map(prod, corners_of(lines))) if len(lines) > 1 else lines[0][2]


@dataclass(frozen=True)
class KnownLeast(KnownForms):
    """Lower bounds on groups of a design and on the layers in them, each computed once for all segments."""

    groups: dict[Hashable, LeastGroup] = field(default_factory=dict)    # by segment and choice of lasting tensors
    layers: dict[Hashable, list[LayerInGroup]] = field(default_factory=dict)    # by layer and data spaces in the home
    tiles: TileMemory = field(default_factory=TileMemory)   # layers of tiles that were searched
    prices: dict[Hashable, float] = field(default_factory=dict)     # least prices of these tiles


def network_least(workload: Workload, hardware: Hardware, layers: Sequence[Spec], bounds: Sequence[LeastLayer],
                  segments: Sequence[Segment], known: KnownLeast | None = None, *,
                  lasting: bool = True, searched: bool = False, over: Over = never) -> NetworkLeast:
    """Lower bounds on every layer of a network by itself, and on its groups.

    Args:
        workload: The network.
        hardware: The design.
        layers: Every distinct layer on the design, in the order of `workload.distinct()`.
        bounds: The bound on one run of each of these layers by itself.
        segments: All segments that could be fused groups; none where nothing is fused.
        known: Bounds found before for these specs and segments; new ones are added.
        lasting: Whether tensors may stay on the chip between the groups.
        searched: Whether tiles are searched where groups cannot be divided further, which takes milliseconds a tile.
        over: True once time is over.

    Raises:
        OutOfTime: Time was over before all groups were bounded.
    """
    levels = [hardware.level(name) for name in homes(hardware)]
    segments = segments if levels else ()   # without a home there is no place for an intermediate
    repeats = repeats_of(workload)
    specs = by_node(workload, layers)
    alone = by_node(workload, bounds)
    costs = word_costs(layers[0])
    packed = not all(in_words(spec, levels) for spec in layers)
    masked = masked_work(segments) if hardware.arch.skips_masked else {}
    operators = {node.name: node.layer for node in workload.layers if node.layer}
    known = known or KnownLeast()

    def divisions_of(segment: Segment) -> list[Stay]:
        """All ways to divide the intermediate of a segment among instances of a level."""
        return divisions(hardware, segment, [specs[name].constraints for name in segment.nodes])

    def in_home(segment: Segment, own: Residents) -> list[list[LayerInGroup]]:
        """For each layer of a segment its forms in each home and in each division of the intermediate."""
        found = []
        divided_at = dict.fromkeys(hardware.level(stay.level) for stay in divisions_of(segment))
        for index, (name, problem, share) in enumerate(zip(
                segment.nodes, segment.problems, segment.needed_shares, strict=True)):
            # operands that an earlier layer fetched may lie in the home, too
            handed = dict.fromkeys([
                *(link.tensor for link in segment.into(index)),
                *(one.operand for one in segment.shared if one.layer == index),
                *sorted(operand for layer, operand, there in own.operands if there and layer == index)], False)
            if index + 1 < len(segment.nodes):
                handed[problem.output.name] = segment.links[index].written_whole and index not in segment.read_inside
            elif own.made:
                handed[problem.output.name] = False
            key = id(specs[name]), problem.dimensions, tuple(handed.items()), *divided_at
            if key not in known.layers:
                spec = over_all_runs(specs[name], operators[name], problem.dimensions)
                known.layers[key] = [in_group(spec, home, handed) for home in levels]
                for level in divided_at:
                    between = segment.links[0].tensor if index else problem.output.name
                    there = replace(spec, constraints=held_at(spec.constraints, level, {between: False}))
                    known.layers[key].append(in_group(there, levels[0], {
                        tensor: written for tensor, written in handed.items() if tensor != between}))
            done = share * masked.get(name, 1.0)
            found.append([replace(layer, done=done) if done != 1 else layer for layer in known.layers[key]])
        return found

    def least_group(segment: Segment, own: Residents) -> LeastGroup:
        """The bound on all groups of a segment with a choice of lasting tensors."""
        homed = in_home(segment, own)
        once = [[layer.once for layer in each] for each in homed]
        point = OperatingPoint(*(segment.repeat * sum(min(getattr(at, value) for at in each) for each in once)
                                 for value in ("energy_pj", "cycles")))
        least = LeastGroup(segment, point)
        if segment.charged:
            stays = [*map(Stay, homes(hardware)), *divisions_of(segment)]
            least.operators = least_operators(hardware, segment, stays, [each[0].done for each in homed])
        if not segment.links:
            name, = segment.nodes
            if words := words_saved(specs[name], levels[0], own, repeats[name]):
                least.with_words = replace(  # shares the proofs of the layer by itself
                    alone[name],
                    energy_pj=max(alone[name].energy_pj, (point.energy_pj + words.energy_pj) / repeats[name]),
                    cycles=max(alone[name].cycles, (point.cycles + words.cycles) / repeats[name])), words
        # the bound by parts counts an element as a word, in all steps
        if all(len(each) == 1 for each in homed) and not packed and masked.keys().isdisjoint(segment.nodes):
            least.make_bound = partial(group_bound, hardware, segment, [layer for layer, in homed], costs, known, own)
            searches = SearchedSegment(hardware, homes(hardware)[0], segment, [layer.spec for layer, in homed], own,
                                       costs, known.tiles, known.prices)
            least.searches = searches if searched and searches.possible else None
        return least

    def credit(segment: Segment) -> OperatingPoint:
        """The most that groups of a segment save besides their layers: on compute units the cost of their operators run
        by themselves, else of reads of residual operands."""
        if segment.charged:
            return operators_alone(between(segment.links), hardware.arch, hardware.tables)
        if not segment.residuals or hardware.arch.units:    # compute units add the residuals
            return NOTHING
        reads = {(other.node, other.words): costs.fetched(other.words) for other in segment.residuals}
        less = [0.0 if packed else min(words * costs.read[level] for level in levels) for _, words in reads]
        return summed([OperatingPoint(read.energy_pj - inside, read.cycles)
                       for read, inside in zip(reads.values(), less, strict=True)])

    listed = {segment.nodes: segment for segment in segments}
    listed |= {(name,): Segment((name,), (spec.problem,), (), (), repeats[name], (1,)) for name, spec in specs.items()}
    usable = hardware.arch.levels[levels[0]].usable if levels else None
    rows = lasting_rows(workload, hardware, specs) if segments and lasting else []
    credits: dict[Hashable, OperatingPoint] = {}
    steps: list[PathStep] = []
    count = end = 0     # number of states without the first one, and the state behind the last row
    for row in rows or [LastingRow(names, ()) for names, _ in chains(workload)]:
        number = {NEW_ROW: end}
        for step in row_steps(row, listed, listed, inf if usable is None else usable):
            nodes, own = row.names[step.before[0]:step.after[0]], step.residents
            segment = listed[nodes]
            least: LeastLayer | LeastGroup = alone[nodes[0]]
            if segment.links or own.room:
                # a single layer has no key; equal layers may differ in repeats
                key = (segment.key if segment.links else (id(specs[nodes[0]]), segment.repeat),
                       own.operands, own.made, own.room)
                if over():
                    raise OutOfTime
                if key not in known.groups:
                    known.groups[key] = least_group(segment, own)
                least = known.groups[key]
            if nodes not in credits:
                credits[nodes] = credit(segment)
            count += step.after not in number
            steps.append(PathStep(number[step.before], number.setdefault(step.after, count), nodes, least,
                                  repeats[nodes[0]] if isinstance(least, LeastLayer) else 1, credits[nodes], own))
        end = number[len(row.names), frozenset(), 0]
    return NetworkLeast(steps, other_reads(workload, layers[0]))


def words_saved(spec: Spec, home: int, residents: Residents, repeat: int) -> OperatingPoint | None:
    """The most energy and cycles that lasting tensors save a layer by itself, in all runs, as they are neither written
    to the outermost level nor read from there into the home. `home`: its index; `repeat`: runs.

    None where the interconnect charges energy for words.
    """
    problem, names = spec.problem, spec.problem.dataspace_names()
    layer = prepare_layer(spec.arch, problem, spec.tables)
    if any(one.priced for one in layer.interconnects):
        return None
    machine, shares = layer.machine, element_shares(spec.arch, problem)[0]
    energy, address = word_energy(machine), machine.addr_gen[:, 0]
    leak = sum(machine.leak[:, 0] * [level.instances for level in spec.arch.levels])
    limits = narrowest_port(True, machine)
    saved = []
    for name in [*(operand for _, operand, there in residents.operands if there),
                 *([problem.output.name] if residents.made else [])]:
        words = problem.tensor_size(space_of(problem, name)) * shares[:, names.index(name)]
        words = repeat * np.ceil(words / machine.block[:, 0]) * machine.block[:, 0]     # rounded up in each run
        demand = words * machine.bandwidth_scale[:, names.index(name), 0]
        pj = (energy.update[-1, 0] + address[-1]) * words[-1] if name == problem.output.name else (
            (energy.read[-1, 0] + address[-1]) * words[-1] + (energy.fill[home, 0] + address[home]) * words[home])
        limited = [level for level in (home, -1) if limits[level] < UNLIMITED]
        # Timeloop rounds the cycles of each run up
        cycles = repeat + max([demand[level] / limits[level] for level in limited], default=0.0)
        saved.append(OperatingPoint(float(pj + leak * cycles), float(cycles)))
    return summed(saved)


def in_words(spec: Spec, homes: Sequence[int]) -> bool:
    """Whether an element of each tensor is one word in the homes and the outermost level, and a partial sum is at least
    one word in every level, and no less than a finished one."""
    whole, partial = element_shares(spec.arch, spec.problem)
    output = spec.problem.dataspaces.index(spec.problem.output)
    return bool((whole[[*homes, -1]] == 1).all() and (partial[:, output] >= np.maximum(whole[:, output], 1)).all())


def least_operators(hardware: Hardware, segment: Segment, stays: Sequence[Stay],
                    done: Sequence[float]) -> OperatingPoint:
    """Lower bounds on energy and cycles of the operators between the layers of a segment's groups, all repeats
    together.

    A group with a single step has the fewest operations on the fewest words, or, with a softmax in one pass, a group
    with two tiles of keys. Each number is the least over all units that may run an operator, and over all homes.
    `stays`: possible homes of intermediates; `done`: for each layer the part of its work that groups have to do.
    """
    last, points = segment.problems[-1].bounds, list[OperatingPoint]()
    layers = tuple(FusedLayer(problem, {}) for problem in segment.problems)
    reads = tuple(other.read for other in segment.residuals)
    halves = [(TileLoop(dim, -(-last[dim] // 2)),) for link in segment.links[-1:]
              for dim in (link.dims[own] for own in link.running) if last[dim] > 1]
    for stay, loops, sums in product(stays, [(), *halves], [*homes(hardware), hardware.arch.levels[-1].name]):
        group = FusedGroup(layers, tuple(link.staying(stay) for link in segment.links), loops, segment.repeat,
                           sums=sums, second_reads=reads)
        try:
            choices = iter(operator_choices(hardware, group, all_step_classes(group)))
        except FadiffError:     # no unit can run the operators with tensors in this home
            continue
        energy, busy, shared = 0.0, Counter[str](), 0.0
        for link, part in zip(segment.links, done, strict=False):
            for _ in link.operators:
                parts = next(choices)
                # where masked points are left out, running sums may need no correction
                for units in parts if part == 1 else parts[:1]:
                    energy += part * min(cost.energy_pj for cost in units)
                    busy.update({name: part * min(cost.busy.get(name, 0.0) for cost in units)
                                 for name in units[0].busy})
                    shared += part * min(cost.busy[cost.unit] for cost in units)
        points.append(OperatingPoint(energy, max([shared / len(hardware.arch.units), *busy.values()])))
    if not points:
        return NOTHING
    return OperatingPoint(min(point.energy_pj for point in points),
                          min(point.cycles for point in points)).times(segment.repeat)


def least_work(segments: Sequence[Segment]) -> dict[str, float]:
    """The least part of each layer's work that groups of some segments have to do on any design, by name."""
    part: dict[str, float] = {}
    for segment in segments:
        for name, share in zip(segment.nodes[:-1], segment.needed_shares, strict=False):
            part[name] = min(part.get(name, 1.0), share)
    return part | {name: part.get(name, 1.0) * share for name, share in masked_work(segments).items()}


def masked_work(segments: Sequence[Segment]) -> dict[str, float]:
    """The part of a layer's work that a causal mask leaves, by name: the scores on and below the diagonal."""
    part: dict[str, float] = {}
    for segment in segments:
        for pair, problem, link in zip(pairwise(segment.nodes), segment.problems, segment.links, strict=False):
            if link.causal:
                keys, queries = problem.bounds[min(link.running)], link.causal[1]
                part |= dict.fromkeys(pair, (keys - (queries - 1) / 2) / keys)
    return part
