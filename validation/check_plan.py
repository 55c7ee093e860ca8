"""Checks the certificate of a plan by itself: `fadiff-validate certificate FILE.json NETWORK DESIGN...`.

A certificate claims that no plan of a network has a metric below a *bound*, while a given plan has some *value*. It
holds *lines*: prices per pJ and per cycle, at each of which no plan is cheaper than the line's least price. A line
follows from the least prices of all *steps* of plans, by the cheapest path through the network:

- of a layer by itself, from the certificate of a mapping with that price, which `check_certificate` checks;
- of the groups of some layers, from a division of all these groups: a part of them is divided by one choice (the order
  of the loops, the sizes of tiles, whether an intermediate or an operand stays) into a part for every answer, until
  the bound of each undivided part, computed anew, is the certificate's.

This program searches nothing. It takes from the package the reading of the input, the exact evaluation of groups and
mappings, the steps of plans (`parts_of_plans`) and the rules of their bounds: the first bound of a step, and the bound
of a part of a segment's groups (`GroupBound.part`). `docs/theory/planning.md` states and proves them. It shares no
search, no division and no path: a part that is left out, divided wrongly or bounded too high is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from math import ceil, floor, inf, isfinite, sqrt
from typing import Any, NamedTuple

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, TileLoop, hardware_of
from fadiff_mapper.fusion.candidates import between
from fadiff_mapper.fusion.estimates import homes
from fadiff_mapper.fusion.group_legality import evaluate_group
from fadiff_mapper.fusion.prices import NOTHING, operators_alone, other_reads, summed, word_costs
from fadiff_mapper.fusion.segments import runs_in_order
from fadiff_mapper.inputs.native.mapping import read_mapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, Spec, metric_of
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.network.network_bound import (
    SLACK,
    LeastGroup,
    LeastLayer,
    Line,
    NetworkLeast,
    PathStep,
    sums_of,
)
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.network.plan_certificate import Prices, certified_at, outside, parts_of_plans, segments_of_plans
from fadiff_mapper.network.tile_mappings import cut_to_tile
from fadiff_mapper.search.lower_bound.proof import MappingProof
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from fadiff_mapper.workload import OperatingPoint, Workload

from .check_certificate import SAME, Checker, Rejected, need, same


class Part(NamedTuple):
    """A part of all groups of a segment. Loops are counted in their order, bits of loops along which words of an
    intermediate are made again, or stay, by link; residencies from 1 on, by layer and operand, 0 where any may be."""

    order: int
    least: tuple[float, ...]  # the smallest and the largest tiles of each loop
    most: tuple[float, ...]
    again: tuple[int, ...]
    kept: tuple[int, ...]
    stays: tuple[tuple[int, int], ...]


def replaced(values: tuple[Any, ...], place: int, value: Any) -> tuple[Any, ...]:
    """A tuple with another value at a place."""
    return (*values[:place], value, *values[place + 1:])


@dataclass
class GroupChecker:
    """The groups of a segment, divided as a certificate says."""

    step: PathStep
    every: Sequence[Prices]

    def __post_init__(self) -> None:
        assert isinstance(self.step.least, LeastGroup)
        self.segment, bound, self.leaves = self.step.least.segment, self.step.least.make_bound(), list[list[float]]()
        if bound is None:
            raise Rejected(f"certificate: {self.step.title}: groups whose parts have no bound")
        self.bound, last = bound, self.segment.problems[-1]
        self.names, self.output = last.dimensions, last.output.dimensions
        self.bounds = [float(bound) for bound in last.bounds.values()]

    def check_groups(self, trees: Sequence[Any]) -> list[float]:
        """The least bound of all groups at every price, from the trees of the parts that have several steps each along
        a set of loops of its own."""
        loops, links = len(self.bound.orders[0][0]), len(self.segment.links)
        for whole, tree in zip(self.bound.parts, trees, strict=True):
            order, least, most, again, kept, stays = whole.decisions(loops, links)
            self.check_part(Part(order, tuple(least), tuple(most), tuple(again), tuple(kept),
                                 tuple((first, second) for first, second in stays)), tree)
        return [min(prices, default=inf) for prices in zip(*self.leaves, strict=True)] or [inf for _ in self.every]

    def check_part(self, part: Part, tree: Any) -> None:
        """Holds a part against its bounds in a certificate, or None where no group fits; or divides it further."""
        if isinstance(tree, dict):
            for answer, inner in zip(self.answers(part, *tree["by"]), tree["parts"], strict=True):
                self.check_part(answer, inner)
            return
        found = self.bound.part(*part)
        prices = [found.price(*sums_of(*at)) for at in self.every]
        if tree is None:
            return need(min(prices) == inf, f"{self.step.title}: a part is left out")
        need(all(map(same, prices, tree)) and len(tree) == len(prices), f"{self.step.title}: a part has {prices}")
        self.leaves.append(prices)

    def answers(self, part: Part, choice: str, *names: str) -> Iterator[Part]:
        """The parts of a part by the answers to a choice; together they hold all of its groups."""
        dims, title = self.bound.orders[part.order][0], self.step.title
        places = {self.names[dim]: place for place, dim in enumerate(dims)}
        if choice == "order":
            need(not part.order, f"{title}: an order twice")
            for number in self.orders(part):
                own = [dims.index(dim) for dim in self.bound.orders[number][0]]
                yield part._replace(order=number, least=tuple(part.least[place] for place in own),
                                    most=tuple(part.most[place] for place in own))
        elif choice == "tiles":
            need(len(names) == len(set(names)) > 0, f"{title}: no sizes, or twice the same")
            for halves in product(*(self.halves(part, places[name]) for name in names)):
                least, most = part.least, part.most
                for name, (low, high) in zip(names, halves, strict=True):
                    least, most = replaced(least, places[name], low), replaced(most, places[name], high)
                yield part._replace(least=least, most=most)
        elif choice == "intermediate":
            link, place = self.step.nodes.index(names[0]), places[names[1]]
            need(part.order > 0 and dims[place] in self.bound.shared[link] and not (
                (part.again[link] | part.kept[link]) >> place & 1) and part.most[place] < self.bounds[dims[place]],
                f"{title}: a choice that is none")
            yield part._replace(again=replaced(part.again, link, part.again[link] | 1 << place))
            yield part._replace(kept=replaced(part.kept, link, part.kept[link] | 1 << place))
        elif choice == "operand":
            layer = self.step.nodes.index(names[0])
            slot = outside(self.step, layer).index(names[1])
            # residencies follow from the order alone: the operand passes, or stays along some of the outer loops
            count = self.bound.residencies(part.order, layer, slot)
            need(part.order > 0 and not part.stays[layer][slot] and count > 0, f"{title}: a choice that is none")
            for number in range(count):
                yield part._replace(stays=replaced(part.stays, layer, replaced(part.stays[layer], slot, number + 1)))
        else:
            raise Rejected(f"certificate: {title}: an unknown choice")

    def halves(self, part: Part, place: int) -> tuple[Prices, Prices]:
        """The smallest and the largest tile of a loop in two halves: by the number of steps or, if all tiles need as
        many steps, by size."""
        bound, least, most = self.bounds[self.bound.orders[part.order][0][place]], part.least[place], part.most[place]
        need(least < most, f"{self.step.title}: a single size is divided")
        fewest, steps = ceil(bound / most), ceil(bound / least)
        size = floor((least + most) / 2) + 1 if steps == fewest else (  # the least tile of the second half
            ceil(bound / min(max(floor(sqrt(steps * fewest)), fewest), steps - 1)))
        return (least, size - 1.0), (float(size), most)

    def orders(self, part: Part) -> Iterator[int]:
        """The orders of a part's loops. Of orders in which the loops of several steps follow one another alike, the
        first in which loops of a single step are outside or, if they add to sums, inside, stands for the others."""
        several = {dim for dim, most in zip(self.bound.orders[0][0], part.most, strict=True) if most < self.bounds[dim]}
        adding = {dim for dim in self.bound.orders[0][0] if self.names[dim] not in self.output}
        orders = list(enumerate(self.bound.orders))[1:]
        keys = {number: (spilled and bool(several & adding), tuple(dim for dim in dims if dim in several))
                for number, (dims, spilled) in orders}
        first = dict[Any, int]()
        for number, (dims, _) in orders:
            places = [1 if dim in several else 2 if dim in adding else 0 for dim in dims]
            if places == sorted(places):
                first.setdefault(keys[number], number)
        yield from (number for number, key in keys.items() if first.get(key, number) == number)


def cheapest(steps: Sequence[PathStep], prices: Sequence[float]) -> tuple[float, list[PathStep]]:
    """The least price of all paths through a network, and the steps of such a path."""
    reached: dict[int, tuple[float, list[PathStep]]] = {0: (0.0, [])}
    for step, price in zip(steps, prices, strict=True):
        before, way = reached.get(step.before, (inf, []))
        if before + price < reached.get(step.after, (inf, []))[0]:
            reached[step.after] = before + price, [*way, step]
    return reached.get(steps[-1].after, (inf, []))


def least_metric(metric: str, lines: Sequence[tuple[float, float, float]]) -> float:
    """The least metric of all points above some lines, each with its prices per pJ and per cycle and its least price.

    The product of energy and cycles is least at a corner, as it is concave along a line.
    """
    need(all(type(number) is float and isfinite(number) and (number == 0 or 1e-30 < number < 1e30)
             for line in lines for number in line), "a line of other numbers than positive ones from 1e-30 to 1e30")
    if metric != "edp":
        need([line[:2] for line in lines] == [METRIC_EXPONENTS[metric]], "not the line of the metric")
        return lines[0][2]
    need(lines[0][1] == 0 and lines[-1][0] == 0, "no line for the energy or the cycles alone")
    products = []
    for (a, b, c), (d, e, f) in pairwise(lines):
        need((across := a * e - b * d) > 0, "lines that are not in order")
        products.append((c * e - b * f) / across * ((a * f - c * d) / across))
    need(all(map(isfinite, products)), "a corner without a place")
    return min(products)


@dataclass
class PlanChecker:
    """The plan of a certificate on its design."""

    workload: Workload
    specs: Sequence[Spec]
    metric: str

    def __post_init__(self) -> None:
        self.hardware: Hardware = hardware_of(self.specs)
        self.by_name = by_node(self.workload, self.specs)

    def mapping(self, text: str, name: str, problem: Problem, free: frozenset[str] = frozenset(),
                home: int | None = None) -> Mapping:
        """The mapping of a layer, or of a tile of it; Rejected where the constraints of the design do not allow it.

        In a group they say nothing of the levels that keep some data spaces (`free`: intermediates, outputs, and what
        stays), nor of fixed factors from the home outwards.
        """
        read, constraints = load_text(text, "certificate"), self.by_name[name].constraints
        found = read_mapping(read["mapping"], read.where, self.hardware.arch, problem)
        need(not found.imperfect and with_reuse(found, constraints) == found, "a mapping of another class")
        if home is not None:
            constraints = cut_to_tile(replace(constraints, levels=tuple(
                replace(level, keep=level.keep - free, bypass=level.bypass - free, temporal=level.temporal if at < home
                        else replace(level.temporal, fixed={}, minimum={}))
                for at, level in enumerate(constraints.levels))), problem)
        broken = check_mapping(build_mapspace(self.hardware.arch, problem, constraints), found)
        need(not broken, f"{name}: {'; '.join(broken)}")
        return found

    def figures(self, steps: Sequence[PathStep], plan: Any) -> OperatingPoint:
        """Energy and cycles of a plan, by exact evaluation. Rejected where it is none: some layer is missing or twice,
        or groups do not follow one another."""
        groups = {group["group"]: group for group in plan["groups"]}
        found, way = cheapest(steps, [0.0 if step.title in groups or (
            isinstance(step.least, LeastLayer) and step.nodes[0] in plan["layers"]) else inf for step in steps])
        need(found == 0 and len(way) == len(plan["groups"]) + len(plan["layers"]), "the plan is no path")
        need(runs_in_order(self.workload, [step.nodes for step in way if len(step.nodes) > 1]), "groups without order")
        repeats = repeats_of(self.workload)
        energy, cycles, fused = 0.0, 0.0, NOTHING
        for step in way:
            if step.title in groups:
                fused = summed([fused, self.group(step, groups[step.title])])
                continue
            name, = step.nodes
            spec = self.by_name[name]
            stats = evaluate_mapping(spec, self.mapping(plan["layers"][name], name, spec.problem))
            energy, cycles = energy + repeats[name] * stats.energy_pj, cycles + repeats[name] * stats.cycles
        besides = other_reads(self.workload, self.specs[0], metric=self.metric)
        return OperatingPoint(energy + fused.energy_pj + besides.energy_pj,
                              cycles + round(fused.cycles) + round(besides.cycles))

    def group(self, step: PathStep, content: Any) -> OperatingPoint:
        """Energy and cycles of a group, all repeats together, less the cost that the rest of the network saves."""
        need(isinstance(step.least, LeastGroup), "a layer as a group")
        assert isinstance(step.least, LeastGroup)
        segment, own, layers, home = step.least.segment, step.residents, list[FusedLayer](), homes(self.hardware)[0]
        inside = self.hardware.level(min((stay["level"] for stay in content["links"]), key=self.hardware.level,
                                         default=home))
        for index, (problem, layer) in enumerate(zip(segment.problems, content["layers"], strict=True)):
            free = frozenset({link.tensor for link in segment.into(index)} | {problem.output.name, *layer["operands"]})
            layers.append(FusedLayer(
                problem, {tuple(tile["shape"]): self.mapping(tile["mapping"], step.nodes[index], problem.resized(
                    tile["shape"]), free, inside) for tile in layer["tiles"]},
                {name: stay_of(stay) for name, stay in layer["operands"].items()},
                {one.operand: (one.first, one.tensor) for one in segment.shared
                 if one.layer == index and one.operand in layer["shared"]},
                {operand: there for number, operand, there in own.operands if number == index}))
        read = [other for other, inside in zip(segment.residuals, content["second_reads"], strict=True) if inside]
        unwritten = segment.read_inside if len(read) == len(segment.residuals) else frozenset()
        need(not content["skips"] or self.hardware.arch.skips_masked, "a design that does not skip masked points")
        links = tuple(replace(link, stay=stay_of(stay), written=link.written and not (read and index in unwritten))
                      for index, (link, stay) in enumerate(zip(segment.links, content["links"], strict=True)))
        cost = evaluate_group(self.hardware, FusedGroup(
            tuple(layers), links, tuple(TileLoop(dim, tile) for dim, tile in content["loops"].items()), segment.repeat,
            frozenset(content["double_buffered"]), content["sums"], tuple(other.read for other in read),
            content["skips"], tuple(content["units"]), home if own.made else "", {home: own.room} if own.room else {}))
        words = word_costs(self.specs[0])
        less = (operators_alone(between(links), self.hardware.arch, self.hardware.tables, self.metric)
                if segment.charged else summed([words.fetched(other.words) for other in read] or [NOTHING]))
        return OperatingPoint(cost.energy_pj - less.energy_pj, cost.cycles - round(less.cycles))


def stay_of(content: Any) -> Stay:
    """The residency of a tensor, from plain data."""
    return Stay(content["level"], frozenset(content["across"]), content["lines"], tuple(map(tuple, content["shares"])))


def check_lines(network: NetworkLeast, content: Any, specs: dict[str, Spec]) -> tuple[list[Line], int, int]:
    """The lines of a network's plans as a certificate proves them, how many parts were bounded, and the proofs of
    layers. Adds the proved prices to the network. `specs`: the layers by name."""
    parts, proofs, lines = 0, 0, list[Line]()
    alone = {step.nodes[0]: step.least for step in network.steps if isinstance(step.least, LeastLayer)}
    every = [(line["energy"], line["cycles"]) for line in content["lines"]]
    groups, known = {step.title: step for step in reversed(network.steps)}, set[int]()
    for one in content["groups"]:
        step = groups[one["group"]]
        need(isinstance(step.least, LeastGroup) and id(step.least) not in known, "a group twice")
        assert isinstance(step.least, LeastGroup)
        known.add(id(step.least))
        group = GroupChecker(step, certified_at(step.least, every))
        for (energy, cycles), least in zip(group.every, group.check_groups(one["parts"]), strict=True):
            step.least.take_price(energy, cycles, least)
        parts += len(group.leaves)
    for at, line in zip(every, content["lines"], strict=True):
        for name, proof in line["layers"].items():
            need(proof["metric"] == "share", "the proof of another metric")
            checker = Checker(specs[name], proof["metric"], proof["limit"], sums_of(*at))
            checker.check_schemes(proof)
            nest: Any = None
            alone[name].proved[at] = MappingProof(proof["value"], nest, proof["limit"], 0, 0)
            parts, proofs = parts + checker.counted, proofs + 1
    for (energy, cycles), line in zip(every, content["lines"], strict=True):
        least = cheapest(network.steps, [step.price(energy, cycles) for step in network.steps])[0]
        least += energy * network.besides.energy_pj + cycles * network.besides.cycles
        need(same(least, line["least"]), f"the least price of a line is {least}")
        lines.append((energy, cycles, least))
    return lines, parts, proofs


def understood(check: Callable[..., str], *arguments: Any) -> str:
    """What a check of a certificate says; Rejected where the certificate has another form, too."""
    try:
        return check(*arguments)
    except Rejected:
        raise
    except (FadiffError, ArithmeticError, RecursionError, KeyError, TypeError, ValueError, IndexError,
            AttributeError) as error:
        raise Rejected(f"certificate: cannot be understood: {type(error).__name__}: {error}") from None


def check(content: Any, workload: Workload, specs: Sequence[Spec]) -> str:
    """What a certificate, as its JSON text says, proves for its input; Rejected, with the reason, where it does not."""
    return understood(check_plan, content, workload, specs)


def check_plan(content: Any, workload: Workload, specs: Sequence[Spec]) -> str:
    """`check`; other errors where the certificate has another form."""
    metric, fused = content["metric"], content["fused"]
    need(content["version"] == 1 and content["network"] == workload.name, "another network")
    need(isinstance(fused, bool), f"fused: {fused!r}")
    network = parts_of_plans(workload, specs, segments_of_plans(workload, specs, fused))
    figures = PlanChecker(workload, specs, metric).figures(network.steps, content["plan"])
    value = float(metric_of(metric, figures.energy_pj, figures.cycles))
    need(same(value, content["value"]), f"the plan has the value {value}")
    lines, parts, proofs = check_lines(network, content, by_node(workload, specs))
    bound = SLACK * least_metric(metric, lines)
    need(same(bound, content["bound"]) and value >= bound * (1 - SAME), f"the bound is {bound}")
    plans = "plan" if fused else "plan without fused groups"
    return (f"{workload.name}: proved: no {plans} has less {metric} than {bound:.10g}, one has {value:.10g}: "
            f"{max(value / bound - 1, 0):.2%} more; {parts:,} parts bounded, {proofs} proofs of layers")
