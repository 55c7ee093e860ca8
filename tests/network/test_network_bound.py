"""The least cost of a network's plans is one: no group, no mapping inside it and no plan lies below."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import combinations
from math import inf, prod
from pathlib import Path
from random import Random
from typing import Any, TypeVar, cast

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fadiff_mapper import NetworkOptions, NetworkResult, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, Hardware
from fadiff_mapper.fusion.candidates import cuts_whole
from fadiff_mapper.fusion.estimates import Candidate, homes
from fadiff_mapper.fusion.fused_group import FusedLayer, Stay, TileLoop
from fadiff_mapper.fusion.group_legality import checked_costs, structure_violations
from fadiff_mapper.fusion.prices import NOTHING, metric_value, summed
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.fusion.tile_steps import layer_steps, resident_words
from fadiff_mapper.kernel._kernel import GroupBound
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network import group_bound
from fadiff_mapper.network.lasting_tensors import NEW_ROW, PartVersion, PlanPart, RowStep
from fadiff_mapper.network.network_bound import (
    PATIENCE,
    LeastGroup,
    LeastLayer,
    NetworkLeast,
    PathStep,
    edges,
    least_metric,
    network_least,
)
from fadiff_mapper.network.one_design import repeats_of
from fadiff_mapper.network.planning import ENOUGH, PlanningRun, planned_groups
from fadiff_mapper.network.tile_mappings import TileMemory, with_mappings
from fadiff_mapper.search.lower_bound.proof import MappingProof
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import OperatingPoint, Workload
from tests.fusion.test_causal_groups import TOKENS, described
from tests.network.test_enumeration_rounds import run_of
from tests.network.test_trees_in_plans import attention

NETWORKS = ("mobilenet_v1", "resnet18", "gpt3_6b7_block")


@cache
def planned(name: str, design: str, metric: str = "edp") -> NetworkResult:
    return map_network(load_network(f"bundled:networks/{name}"), bundled_files.find(f"arch/{design}"),
                       NetworkOptions(metric=metric, threads=1))


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["edp", "energy", "delay"])
def test_a_plan_comes_with_its_gap(metric: str, tmp_path: Path) -> None:
    result = planned("mobilenet_v1", "gemmini_large", metric)
    value = metric_value(OperatingPoint(result.stats.energy_pj, result.stats.cycles), metric)
    assert result.bound is not None and 0 < result.bound <= value
    assert result.gap == value / result.bound - 1 and result.gap < 0.06
    if metric == "edp":
        result.write(tmp_path)
        written = json.loads((tmp_path / "fadiff.network.json").read_text())
        assert (written["gap"], written["lower_bound"]) == (result.gap, result.bound) and written["gap_among"]
        assert "above that of the best plan" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("design", ["gemmini_large", "gemmini_small"])
@pytest.mark.parametrize("name", NETWORKS)
def test_no_evaluated_group_is_below_its_bound(name: str, design: str) -> None:
    """All groups that planning evaluates, hundreds of them, with the mappings of all their tiles."""
    run = bounded_run(name, design)
    planned_groups(run)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    compared = 0
    for state in run.known.values():
        for group in state.exact:
            names = state.segment.nodes
            assert_bounds(plain_step(least, names), group.point, rounds=5)
            others = [run.alone[other] for other in run.alone if other not in names]
            assert_above(least, summed([group.point, *others, run.joined]))
            compared += 1
    assert compared > 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "design"), [
    ("mobilenet_v1", "gemmini_small"), ("resnet18", "gemmini_small"), ("gpt3_6b7_block", "gemmini_large"),
    ("mobilenet_v1", "eyeriss_like")])
def test_no_group_in_any_loops_is_below_its_bound(name: str, design: str) -> None:
    """Random loops, tile sizes, residencies of operands and intermediates, and places where sums rest."""
    run, random = bounded_run(name, design), Random(0)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    short = [segment for segment in run.segments if len(segment.nodes) < 5]
    memory, compared = TileMemory(), 0
    while compared < 12:
        for segment, _, point in drawn_points(random, run, short, memory):
            assert_bounds(plain_step(least, segment.nodes), point)
            compared += 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "design"), [("resnet18", "gemmini_small"), ("gpt3_6b7_block", "gemmini_large")])
def test_no_group_of_whole_words_is_below_its_bound(name: str, design: str) -> None:
    """Elements of a byte in memories of bytes, sums of 32 bits: parts of groups count words."""
    bits = {"Weights": 8, "Inputs": 8, "Outputs": {"bits": 8, "partial": 32}}
    run, random = bounded_run(load_network(f"bundled:networks/{name}", bits=bits), design), Random(5)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least and any(step.least.make_bound() for step in least.steps if isinstance(step.least, LeastGroup))
    short = [segment for segment in run.segments if len(segment.nodes) < 5]
    memory, compared = TileMemory(), 0
    while compared < 12:
        for segment, _, point in drawn_points(random, run, short, memory):
            assert_bounds(plain_step(least, segment.nodes), point)
            compared += 1


ODD = {  # input and (outputs, kernel, stride, padding) of each convolution
    "a stride above its window": ((16, 8, 8), ((16, 1, 1, 0), (1, 1, 2, 0))),
    "points that a later layer leaves out": ((8, 14, 8), ((8, 1, 1, 0), (8, 1, 1, 0), (1, (5, 1), (5, 1), 0))),
    "a first layer with holes": ((8, 9, 5), ((8, 1, 2, 0), (6, 3, 1, 1))),
    "padding wider than a tile": ((4, 11, 7), ((6, 5, 1, 2), (4, 5, 1, 2))),
    "steps that compute nothing": ((4, 13, 13), ((8, 3, 1, 1), (8, 3, 1, 1), (4, 1, 1, 0)))}


def odd_run(case: str, design: str) -> PlanningRun:
    """The run of a small network with odd windows."""
    (channels, *_), layers = ODD[case]
    modules = []
    for outputs, *window in layers:
        modules.append(nn.Conv2d(channels, outputs, *window))
        channels = outputs
    return bounded_run(load_network(nn.Sequential(*modules), torch.zeros(1, *ODD[case][0])), design)


@pytest.mark.parametrize("case", ODD)
@pytest.mark.parametrize("design", ["gemmini_small", "quickstart/design"])
def test_no_group_with_odd_windows_is_below_its_bound(case: str, design: str) -> None:
    """Random groups of small networks, above the bound of the whole segment however far it is divided."""
    run, random = odd_run(case, design), Random(1)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    memory, compared = TileMemory(), 0
    for _ in range(4):
        for segment, _, point in drawn_points(random, run, run.segments, memory):
            assert_bounds(plain_step(least, segment.nodes), point)
            compared += 1
    assert compared > 5


def arguments_of_bounds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The arguments of all `GroupBound`s from now on."""
    given: list[tuple[Any, ...]] = []

    def made(*arguments: Any) -> GroupBound:
        given.append(arguments)
        return GroupBound(*arguments)
    monkeypatch.setattr(group_bound, "GroupBound", made)
    return given


@pytest.mark.parametrize(("network", "design", "rounds"), [
    ("steps that compute nothing", "gemmini_small", 6), ("a first layer with holes", "arch/weight_stationary", 6),
    *(pytest.param(case, design, 20, marks=pytest.mark.slow) for case in (*ODD, "mobilenet_v1", "gpt3_6b7_block")
      for design in ("gemmini_small", "arch/eyeriss_like", "arch/weight_stationary"))])
def test_no_part_of_groups_is_above_a_group_in_it(network: str, design: str, rounds: int,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    """Random groups against parts that hold them: their own sizes and decisions, wider ones, and all orders."""
    given = arguments_of_bounds(monkeypatch)
    run, random = odd_run(network, design) if network in ODD else bounded_run(network, design), Random(2)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    memory, compared, outermost = TileMemory(), 0, run.hardware.arch.level_names()[-1]
    for _ in range(rounds):
        short = [segment for segment in run.segments if len(segment.nodes) < 5]
        for segment, group, point in drawn_points(random, run, short, memory):
            step, last = plain_step(least, segment.nodes), run.by_node[segment.nodes[-1]].spec
            assert isinstance(step.least, LeastGroup)
            bound = step.least.make_bound()
            if not bound or any(level.name == group.sums and segment.problems[-1].output.name in here.bypass
                                for level, here in zip(last.arch.levels, last.constraints.levels, strict=True)):
                continue    # sums rest in a level only where the constraints let it keep them
            *_, orders, _, shared = given[-1]
            for part in parts_around(random, segment, group, bound, orders, shared, outermost):
                whole = summed([point, step.credit])
                for energy, cycles in ((point.energy_pj, inf), (inf, point.cycles), (point.energy_pj, point.cycles)):
                    most = whole.energy_pj / energy + whole.cycles / cycles
                    assert bound.part(*part).price(energy, cycles) <= most * (1 + 1e-9), (group, part)
                    compared += 1
    assert compared > 5


def parts_around(random: Random, segment: Segment, group: FusedGroup, bound: GroupBound,
                 orders: Sequence[tuple[list[int], bool]], shared: Sequence[Sequence[int]],
                 outermost: str) -> Iterator[tuple[Any, ...]]:
    """Decisions of parts that hold a group; none where its order is that of another loop that is interchangeable."""
    last = segment.problems[-1]
    names, tiles = last.dimensions, {loop.dim: loop.tile for loop in group.loops if loop.tile < last.bounds[loop.dim]}
    adds = any(dim not in last.output.dimensions for dim in tiles)
    rests = group.sums == outermost     # whether sums leave the chip between steps
    whole = [names[dim] for dim in orders[0][0] if names[dim] not in tiles]
    # loops of one step add to no sums: those that would are the innermost ones
    wanted = [*(dim for dim in whole if dim in last.output.dimensions), *tiles,
              *(dim for dim in whole if dim not in last.output.dimensions)]
    for number, (dims, spilled) in enumerate(orders, 1):
        if [names[dim] for dim in dims] != wanted or (adds and spilled != rests):
            continue
        for kind in ("exact", "wider", "wider", "open"):
            least = [float(tiles.get(names[dim], last.bounds[names[dim]])) for dim in dims]
            most, again, kept = list(least), [0] * len(group.links), [0] * len(group.links)
            for position, dim in enumerate(dims):
                if kind == "exact" or random.random() < 0.5:
                    for link, own in enumerate(group.links):
                        if names[dim] in tiles and dim in shared[link] and kind != "open":
                            (kept if names[dim] in own.stay.across else again)[link] |= 1 << position
                else:
                    least[position] = float(random.randint(1, int(least[position])))
                    most[position] = float(random.randint(int(most[position]), last.bounds[names[dim]]))
            stays = [(0, 0)] * len(group.layers)
            if kind == "exact" and not segment.shared and not any(layer.operands for layer in group.layers):
                stays = [tuple(min(bound.residencies(number, layer, slot), 1) for slot in range(2))
                         for layer in range(len(group.layers))]
            if kind == "open":      # whose sizes are those of the first order
                place = {dim: position for position, dim in enumerate(dims)}
                least, most = ([sizes[place[dim]] for dim in orders[0][0]] for sizes in (least, most))
            yield 0 if kind == "open" else number, least, most, again, kept, stays
        return


@pytest.mark.parametrize("design", ["gemmini_small", "quickstart/design"])
def test_no_group_of_attention_is_below_its_bound(design: str) -> None:
    """Random groups of trees, with an input that projections share."""
    run, random = bounded_run(attention(24, 3, 8), design), Random(2)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    trees = [segment for segment in run.segments if segment.shared]
    memory, compared = TileMemory(), 0
    for _ in range(4):
        for segment, _, point in drawn_points(random, run, trees, memory):
            assert_bounds(plain_step(least, segment.nodes), point)
            compared += 1
    assert compared > 5


class Gated(nn.Module):  # type: ignore[misc]
    """A block of tokens with norms, a product of two branches, and a sum around all of it."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.norm, self.gate = nn.LayerNorm(width), nn.Linear(width, inner)
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x: Any) -> Any:
        inside = self.norm(x)
        return x + self.down(nn.functional.silu(self.gate(inside)) * self.up(inside))


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions with activations, and a sum around both."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def with_operators(network: str) -> Workload:
    """A small network with operators between its layers."""
    if network == "residual":
        return load_network(nn.Sequential(Residual(6), Residual(6)), torch.zeros(1, 6, 12, 10))
    if network == "gated":
        return load_network(nn.Sequential(Gated(24, 60), Gated(24, 60)), torch.zeros(1, 30, 24))
    return attention(24, 3, 8) if network == "attention" else described(TOKENS)


@pytest.mark.parametrize(("network", "design", "rounds"), [
    ("attention", "tpu_v4i_like", 2), ("gated", "mobile_npu", 2),
    *(pytest.param(network, design, rounds, marks=pytest.mark.slow) for network in (
        "attention", "causal", "residual", "gated") for design, rounds in (
        ("tpu_v4i_like", 12), ("fusemax_like", 3), ("mobile_npu", 12)))])
def test_no_group_with_operators_on_units_is_below_its_bound(network: str, design: str, rounds: int,
                                                             tmp_path: Path) -> None:
    """Random groups in which units work in turn and side by side with the layers; softmax in one pass among them, and
    blocks of scores that are left out."""
    file = tmp_path / "design.yaml"
    text = bundled_files.find(f"inference/{design}").read_text(encoding="utf-8")
    file.write_text(re.sub(r"( +)(lanes: \d+\n)", r"\1\2\1skips_masked: true\n", text), encoding="utf-8")
    run, random = bounded_run(with_operators(network), str(file)), Random(4)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    charged = [segment for segment in run.segments if segment.charged]
    memory, compared, one_pass = TileMemory(), 0, 0
    for _ in range(rounds):
        for segment, group, point in drawn_points(random, run, charged, memory):
            step = plain_step(least, segment.nodes)
            assert isinstance(step.least, LeastGroup) and step.least.operators.cycles > 0
            assert_bounds(replace(step, credit=NOTHING), point)     # the operators are in the group
            compared += 1
            one_pass += group.one_pass
    assert compared > 5 and (one_pass or network not in ("attention", "causal"))


def drawn_points(random: Random, run: PlanningRun, among: Sequence[Segment],
                 memory: TileMemory) -> Iterator[tuple[Segment, FusedGroup, OperatingPoint]]:
    """Up to 12 random groups of some segments that can run, with their exact energy and cycles."""
    return exact_points(run, [drawn_group(random, run, random.choice(among)) for _ in range(200)], memory)


Place = TypeVar("Place", Segment, PathStep)


def exact_points(run: PlanningRun, drawn: Sequence[tuple[Place, FusedGroup]], memory: TileMemory,
                 compared: bool = False) -> Iterator[tuple[Place, FusedGroup, OperatingPoint]]:
    """The first 12 groups that fit, mapped, as far as they can run: each with its place, exact energy and cycles."""
    fitting = [(place, group) for place, group in drawn if fits(run, group)][:12]
    mapped = with_mappings(run.hardware, [group for _, group in fitting], [
        [run.by_node[name].spec for name in place.nodes] for place, _ in fitting],
        run.price.sums, compared=compared, memory=memory)
    legal = [(place, group) for (place, _), group in zip(fitting, mapped, strict=True) if group]
    for (place, group), (_, cost) in zip(legal, checked_costs(run.hardware, [own for _, own in legal]), strict=True):
        if cost:
            yield place, group, OperatingPoint(cost.energy_pj, cost.cycles)


@pytest.mark.parametrize(("network", "design", "rounds"), [
    ("a chain", "gemmini_small", 3), ("attention", "arch/gemmini_large", 3),
    *(pytest.param(network, design, 12, marks=pytest.mark.slow) for network in ("a chain", "attention", "mobilenet_v1")
      for design in ("gemmini_small", "arch/gemmini_large", "arch/eyeriss_like", "arch/weight_stationary")
      if (network, design) != ("mobilenet_v1", "gemmini_small"))])    # where no tensor fits
def test_nothing_that_finds_or_leaves_tensors_in_the_home_is_below_its_bound(
        network: str, design: str, rounds: int) -> None:
    known = {"attention": attention(24, 3, 8), "a chain": load_network(nn.Sequential(
        nn.Conv2d(6, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.Conv2d(16, 24, 1),
        nn.Conv2d(24, 8, 3, 2)), torch.zeros(1, 6, 12, 10))}
    run, random = bounded_run(known.get(network, network), design), Random(3)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    memory, compared = TileMemory(), 0
    for _ in range(rounds):
        for step, _, point in drawn_versions(random, run, least, memory):
            assert_bounds(step, point)
            compared += 1
    assert compared > 5


def drawn_versions(random: Random, run: PlanningRun, least: NetworkLeast,
                   memory: TileMemory) -> Iterator[tuple[PathStep, FusedGroup, OperatingPoint]]:
    """Up to 12 random groups, and layers by themselves, with lasting tensors, and their exact energy and cycles."""
    steps = [step for step in least.steps if step.residents.room and len(step.nodes) < 5]
    segments_of, repeats = {segment.nodes: segment for segment in run.segments}, repeats_of(run.workload)
    home, = homes(run.hardware)
    drawn = []
    for step in random.choices(steps, k=200):
        name = step.nodes[0]
        segment = segments_of.get(step.nodes) or Segment(
            step.nodes, (run.by_node[name].spec.problem,), (), (), repeats[name], (1,))
        group = drawn_group(random, run, segment)[1] if segment.links else FusedGroup(
            (FusedLayer(segment.problems[0], {}),), repeat=segment.repeat)
        part = PlanPart(Candidate(segment, group, NOTHING), 0.0, None)
        row_step = RowStep(NEW_ROW, NEW_ROW, step.residents)
        drawn.append((step, PartVersion(part, step.nodes, row_step, NOTHING).group(home)))
    return exact_points(run, drawn, memory)


def drawn_group(random: Random, run: PlanningRun, segment: Segment) -> tuple[Segment, FusedGroup]:
    """Random loops over a segment and residencies of its tensors."""
    home, last = random.choice(homes(run.hardware)), segment.problems[-1].bounds
    dims = [dim for dim, bound in last.items() if bound > 1 and not cuts_whole(segment, dim)]
    loops = tuple(TileLoop(dim, max(1, round(last[dim] ** random.random())))
                  for dim in random.sample(dims, min(random.choice((0, 1, 1, 2, 2, 3)), len(dims))))

    def stay() -> Stay:
        return Stay(home, frozenset(loop.dim for loop in loops if random.random() < 0.6))
    handed = {(segment.reader(index), link.tensor) for index, link in enumerate(segment.links)}
    layers = [FusedLayer(problem, {}, {
        space.name: stay() for space in problem.dataspaces
        if not space.read_write and (number, space.name) not in handed and random.random() < 0.35})
        for number, problem in enumerate(segment.problems)]
    for one in segment.shared:
        if one.tensor in layers[one.first].operands:
            layers[one.layer] = replace(
                layers[one.layer], shared={one.operand: (one.first, one.tensor)},
                operands={**layers[one.layer].operands, one.operand: layers[one.first].operands[one.tensor]})
    links = tuple(link.staying(stay()) for link in segment.links)
    sums = random.choice(("", home, run.hardware.arch.level_names()[-1]))
    doubled = frozenset({home} if segment.charged and random.random() < 0.5 else ())
    return segment, FusedGroup(tuple(layers), links, loops, segment.repeat, doubled, sums,
                               skips=run.hardware.arch.skips_masked)


def fits(run: PlanningRun, group: FusedGroup) -> bool:
    """Whether a group has a sound structure, few steps, and room for all that stays."""
    if group.steps > 2000 or structure_violations(run.hardware, group):
        return False
    levels = [run.hardware.arch.levels[run.hardware.level(name)] for name in homes(run.hardware)]
    return all(level.usable is None or max(resident_words(group, layer_steps(group), level)) < level.usable
               for level in levels)


def plain_step(least: NetworkLeast, names: tuple[str, ...]) -> PathStep:
    """The step of a segment without lasting tensors."""
    return next(step for step in least.steps if step.nodes == names and not step.residents.room)


def assert_bounds(step: PathStep, point: OperatingPoint, rounds: int = 20) -> None:
    """No prices have a least price of a step above that of its group, however far its parts are divided."""
    group, names = step.least, (step.nodes, step.residents)
    assert isinstance(group, LeastGroup)
    for energy, cycles in ((1.0, 0.0), (0.0, 1.0), (1 / point.energy_pj, 1 / point.cycles)):
        # reads of residual operands count for the network
        value = energy * (point.energy_pj + step.credit.energy_pj) + cycles * (point.cycles + step.credit.cycles)
        for _ in range(rounds):
            if not group.raise_price(energy, cycles, value * (1 + 1e-6)):
                break
        assert group.price(energy, cycles) <= value * (1 + 1e-9), (names, energy, cycles)


def assert_above(least: NetworkLeast, point: OperatingPoint) -> None:
    """No prices have a least price above that of a plan."""
    for energy, cycles in ((1.0, 0.0), (0.0, 1.0), (1 / point.energy_pj, 1 / point.cycles)):
        assert least.price(energy, cycles) <= (energy * point.energy_pj + cycles * point.cycles) * (1 + 1e-9)


def least_of(workload: Workload, hardware: Hardware, results: Sequence[Result],
             groups: Sequence[Segment]) -> NetworkLeast:
    """The bound of a network whose layers by themselves have these results."""
    bounds = [LeastLayer(bound.energy, bound.delay, bound.edp) if (bound := result.bound) else None
              for result in results]
    return network_least(workload, hardware, [result.spec for result in results], bounds, groups)


def bounded_run(name: str | Workload, design: str) -> PlanningRun:
    """The run of a network whose layers have bounds."""
    from fadiff_mapper.search.map_layers import with_lower_bounds
    run = run_of(name, design)
    run.results = tuple(with_lower_bounds(run.results, "edp"))
    return run


def test_words_come_from_the_home_again_for_each_block_of_sums_that_fits(tmp_path: Path) -> None:
    """Two products of 64 x 64 words with 48 points on 16 x 16 units. Only 16 of 64 summands find their weights in the
    units at once. So the weights of the first product come once for all points that each accumulator bank holds."""
    text = bundled_files.find("arch/gemmini_small").read_text()
    network = load_network(nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(2))), torch.zeros(48, 64))
    cycles = []
    for sums in (4, 5, 6, 64):
        design = tmp_path / f"{sums}.yaml"
        design.write_text(text.replace("depth: 128", f"depth: {sums}"))
        run, random = bounded_run(network, str(design)), Random(1)
        least = least_of(run.workload, run.hardware, run.results, run.segments)
        assert least
        segment, = run.segments
        group = plain_step(least, segment.nodes).least
        assert isinstance(group, LeastGroup)
        while group.raise_price(0.0, 1.0, inf):
            pass
        cycles.append(group.price(0.0, 1.0))
        for _, _, point in drawn_points(random, run, [segment], TileMemory()):
            assert point.cycles >= cycles[-1] * (1 - 1e-9)
    home = run.hardware.arch.levels[run.hardware.level(homes(run.hardware)[0])]
    assert home.shared_bandwidth
    for sums, least_cycles in zip((4, 5, 6), cycles, strict=False):
        assert least_cycles >= 48 / sums * 64 * 64 / home.shared_bandwidth
    assert cycles[0] > cycles[1] > cycles[2] > cycles[3]


@pytest.mark.parametrize("tile", [3, 4, 6])
def test_points_computed_again_are_no_work_in_full_tiles(tile: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                         ) -> None:
    """Tiles of 6, 6 and 4 of 16 points need 8, 8 and 6 of 18: 16 of the 22 that are computed are in full tiles. Where 6
    sums fit in a column, 8 points need two blocks, and 6 need one."""
    given = arguments_of_bounds(monkeypatch)
    design = tmp_path / "arch.yaml"
    design.write_text(bundled_files.find("arch/gemmini_small").read_text().replace("depth: 128", "depth: 6"))
    network = nn.Sequential(nn.Conv2d(64, 64, 1, bias=False), nn.Conv2d(64, 64, (3, 1), bias=False))
    run = bounded_run(load_network(network, torch.zeros(1, 64, 18, 1)), str(design))
    segment, = run.segments
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    assert least
    group = plain_step(least, segment.nodes).least
    assert isinstance(group, LeastGroup)
    bound, again = group.make_bound(), Stay(homes(run.hardware)[0], frozenset())
    fused = FusedGroup(tuple(FusedLayer(problem, {}) for problem in segment.problems),
                       (segment.links[0].staying(again),), (TileLoop("P", tile),))
    (_, mapped, point), = exact_points(run, [(segment, fused)], TileMemory(), compared=True)
    compared = 0
    *_, orders, _, shared = given[-1]
    assert bound
    for part in parts_around(Random(1), segment, mapped, bound, orders, shared, run.hardware.arch.level_names()[-1]):
        assert bound.part(*part).price(inf, 1.0) <= point.cycles * (1 + 1e-9), part
        compared += 1
    assert compared


def test_a_group_whose_first_tile_is_padding_fits_into_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = arguments_of_bounds(monkeypatch)
    network = nn.Sequential(nn.Conv2d(6, 3, 1, (2, 1), bias=False),
                            nn.Conv2d(3, 16, (2, 1), padding=(2, 0), bias=False))
    run = bounded_run(load_network(network, torch.zeros(1, 6, 13, 1)), "gemmini_small")
    segment, = run.segments
    group = plain_step(least_of(run.workload, run.hardware, run.results, run.segments), segment.nodes).least
    assert isinstance(group, LeastGroup)
    bound, kept = group.make_bound(), Stay(homes(run.hardware)[0], frozenset("P"))
    fused = FusedGroup(tuple(FusedLayer(problem, {}) for problem in segment.problems),
                       (segment.links[0].staying(kept),), (TileLoop("P", 1),))
    (_, mapped, point), = exact_points(run, [(segment, fused)], TileMemory(), compared=True)
    *_, orders, _, shared = given[-1]
    assert bound
    parts = list(parts_around(Random(1), segment, mapped, bound, orders, shared, run.hardware.arch.level_names()[-1]))
    assert parts
    for part in parts:
        assert bound.part(*part).price(point.energy_pj, inf) <= 1 + 1e-9, part


def convolutions(*layers: tuple[int, int, int, int], channels: int, size: int) -> Workload:
    """A chain of convolutions of square images, each with its outputs, kernel, stride and groups."""
    modules = []
    for outputs, kernel, stride, groups in layers:
        padding = kernel % 2 * (kernel // 2)
        modules.append(nn.Conv2d(channels, outputs, kernel, stride, padding, groups=groups, bias=False))
        channels = outputs
    return load_network(nn.Sequential(*modules), torch.zeros(1, modules[0].in_channels, size, size))


def made_bounds(run: PlanningRun, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LeastGroup, tuple[Any, ...]]]:
    """The groups of a network whose parts have a bound, with the arguments of this bound."""
    given = arguments_of_bounds(monkeypatch)
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    groups = {id(step.least): step.least for step in least.steps if isinstance(step.least, LeastGroup)}
    for group in groups.values():
        group.bound = group.make_bound()
        if group.bound and group.segment.links:
            yield group, given[-1]


def test_rows_and_columns_of_a_square_layer_have_the_same_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of so many rows and all columns, and of all rows and so many columns, under windows of 3 x 3."""
    run = bounded_run(convolutions((128, 3, 1, 1), (128, 3, 1, 1), channels=128, size=28), "gemmini_small")
    (group, (*_, orders, alike, _)), = made_bounds(run, monkeypatch)
    (rows, columns), = alike
    last = group.segment.problems[-1]
    channels, compared = last.dimensions.index("C"), 0
    for tile in (1, 2, 4, 7, 13):
        for summands in (16, 32):
            for energy, cycles in ((group.point.energy_pj, inf), (inf, group.point.cycles), (
                    group.point.energy_pj, group.point.cycles)):
                prices = []
                for cut in (rows, columns):
                    sizes = [float({channels: summands, cut: tile}.get(dim, last.bounds[last.dimensions[dim]]))
                             for dim in orders[0][0]]
                    assert group.bound
                    prices.append(group.bound.part(1, sizes, sizes, [0], [0], [(0, 0)] * 2).price(energy, cycles))
                assert prices[0] == pytest.approx(prices[1], rel=1e-12)
                compared += prices[0] < inf
    assert compared > 10


def skipped_sums() -> Workload:
    """Layers of which the last one adds up points of a dimension whose last point in the first layer is not read."""
    return load_network(nn.Sequential(nn.Conv1d(8, 16, 1), nn.Conv1d(16, 16, 2, stride=2), nn.Linear(8, 32)),
                        torch.zeros(1, 8, 17))


WIDER = (64, 1, 1, 1), (64, 3, 1, 64), (128, 1, 1, 1)
SKIPPED_ROWS = (32, 1, 1, 1), (32, 2, 2, 1), (64, 1, 1, 1)


@pytest.mark.parametrize(("network", "design", "rows"), [
    pytest.param(partial(convolutions, *WIDER, channels=32, size=28), "eyeriss_like", (512, 128), id="eyeriss_like"),
    pytest.param(partial(convolutions, *WIDER, channels=32, size=28), "gemmini_small", (512, 128), id="gemmini_small"),
    pytest.param(partial(convolutions, *SKIPPED_ROWS, channels=8, size=7), "gemmini_small", (80, 8), id="skipped rows"),
    pytest.param(skipped_sums, "gemmini_small", (24, 128), id="skipped sums")])
def test_all_orders_together_are_not_above_one_of_them(
        network: Callable[[], Workload], design: str, rows: tuple[int, int], tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops of a single step have one place if all orders are bounded, and that of the order if it is by itself.

    `rows`: of the scratchpad and the accumulator of Gemmini.
    """
    file = tmp_path / "arch.yaml"
    text = bundled_files.find(f"arch/{design}").read_text()
    file.write_text(text.replace("depth: 512", f"depth: {rows[0]}").replace("depth: 128", f"depth: {rows[1]}"))
    run = bounded_run(network(), str(file))
    compared = 0
    for group, (*rest, orders, alike, shared) in made_bounds(run, monkeypatch):
        for energy, cycles in ((1.0, inf), (inf, 1.0), (1.0, 1.0)):
            prices = energy * group.point.energy_pj, cycles * group.point.cycles
            least = []
            for some, same in ((orders, alike), *(([order], []) for order in orders)):
                bound = GroupBound(*rest, some, same, shared)
                assert bound.refine(*prices, inf, 1_000_000) < 1_000_000
                least.append(bound.lower(*prices))
            assert least[0] <= min(least[1:]) * (1 + 1e-9), group.segment.nodes
            compared += len(orders) > 1
    assert compared > 2


class PooledTokens(nn.Module):  # type: ignore[misc]
    """A product of tokens, a mean over 64 tokens around each, and a product of these."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.mean = nn.Linear(4, 8, bias=False), nn.AvgPool1d(64, stride=1)
        self.second = nn.Conv1d(8, 2, 1, bias=False)

    def forward(self, x: Any) -> Any:
        return self.second(self.mean(self.first(x).transpose(1, 2)))


ALONG_ROWS = {     # one row of 4 units, along points alone
    "meshX: 16": "meshX: 4", "meshY: 16": "meshY: 1", "shared_bandwidth: 8}": "shared_bandwidth: 512}",
    "factors: [N=1, C=1, P=1, Q=1, R=1, S=1]": "factors: [N=1, M=1, C=1, Q=1, R=1, S=1]",
    "shared_bandwidth: 32}": "shared_bandwidth: 512}", "shared_bandwidth: 2}": "shared_bandwidth: 16}"}


@dataclass(frozen=True)
class Made:
    """A group of two layers on a changed `gemmini_small`, and the prices per pJ and per cycle of its bound."""

    network: Callable[[], nn.Module]
    shape: tuple[int, ...]
    design: Mapping[str, str]
    prices: tuple[float, float] = (0.0, 1.0)
    loops: Mapping[str, int] = field(default_factory=dict)
    kept: frozenset[str] = frozenset()      # loops along which the intermediate stays
    operands: Mapping[str, frozenset[str]] = field(default_factory=dict)    # of the first layer, that stay


BELOW = {
    "an input stays where a layer computes points again": Made(
        PooledTokens, (1, 575, 4), {"depth: 512": "depth: 30", "shared_bandwidth: 8}": "shared_bandwidth: 0.05}"},
        loops={"P": 24, "C": 1}, operands={"Inputs": frozenset("PC")}),
    "a stride along one dimension, a dilation along the other": Made(
        lambda: nn.Sequential(nn.Conv2d(64, 64, 3, (2, 1), dilation=(1, 2), groups=64, bias=False), nn.Softmax(dim=1),
                              nn.Sigmoid(), nn.Conv2d(64, 8, 1, bias=False)), (1, 64, 9, 8),
        {"depth: 512": "depth: 48", "meshX: 16": "meshX: 4", "meshY: 16": "meshY: 4",
         "shared_bandwidth: 8}": "shared_bandwidth: 1}"}, loops={"P": 2}),
    "tiles of a resized tensor": Made(
        lambda: nn.Sequential(nn.Conv2d(8, 64, 1, bias=False), nn.Softmax(dim=1), nn.Sigmoid(),
                              nn.Upsample(scale_factor=(2, 1)), nn.Conv2d(64, 1, 1, bias=False)), (1, 8, 18, 1),
        {"depth: 512": "depth: 23", "depth: 128": "depth: 512", **ALONG_ROWS}, (0.5, 1.0), {"P": 9}, frozenset("P")),
    "a first tile that lies in padding": Made(
        lambda: nn.Sequential(nn.Conv2d(8, 64, 1, bias=False), nn.Softmax(dim=1), nn.Sigmoid(),
                              nn.Conv2d(64, 1, 1, padding=(1, 0), bias=False)), (1, 8, 5, 1),
        {"depth: 512": "depth: 6", "meshX: 16": "meshX: 4", "meshY: 16": "meshY: 4",
         "shared_bandwidth: 8}": "shared_bandwidth: 0.5}"}, loops={"P": 1}),
    "a last row that nothing reads": Made(
        lambda: nn.Sequential(nn.Conv2d(4, 16, 1, bias=False), nn.Conv2d(16, 1, (3, 1), (2, 1), bias=False)),
        (1, 4, 8, 1), ALONG_ROWS)}


@pytest.mark.parametrize("case", BELOW)
def test_no_group_made_to_lie_below_its_bound_does(case: str, tmp_path: Path) -> None:
    made, design = BELOW[case], tmp_path / "arch.yaml"
    text = bundled_files.find("arch/gemmini_small").read_text()
    for old, new in made.design.items():
        assert old in text
        text = text.replace(old, new)
    design.write_text(text)
    run = bounded_run(load_network(made.network(), torch.zeros(*made.shape)), str(design))
    segment, home = run.segments[0], homes(run.hardware)[0]
    least = least_of(run.workload, run.hardware, run.results, run.segments)
    first, second = (FusedLayer(problem, {}) for problem in segment.problems)
    first = replace(first, operands={name: Stay(home, along) for name, along in made.operands.items()})
    group = FusedGroup((first, second), (segment.links[0].staying(Stay(home, made.kept)),),
                       tuple(TileLoop(dim, tile) for dim, tile in made.loops.items()))
    (_, _, point), = exact_points(run, [(segment, group)], TileMemory(), compared=True)
    bounded, (energy, cycles) = plain_step(least, segment.nodes).least, made.prices
    assert isinstance(bounded, LeastGroup)
    value = energy * point.energy_pj + cycles * point.cycles
    while bounded.price(energy, cycles) < value * (1 + 1e-6) and bounded.raise_price(
            energy, cycles, value * (1 + 1e-6)):
        pass
    if bounded.price(energy, cycles) > value * (1 + 1e-9):
        pytest.fail(f"{bounded.price(energy, cycles) / value - 1:.1%} below")


def test_steps_in_which_a_reader_reads_padding_alone_are_no_group() -> None:
    network = nn.Sequential(nn.Conv2d(8, 8, 1, bias=False), nn.Conv2d(8, 8, 1, (3, 1), (1, 0), bias=False))
    run = bounded_run(load_network(network, torch.zeros(1, 8, 2, 6)), "gemmini_small")
    (segment,), layers = run.segments, tuple(FusedLayer(problem, {}) for problem in run.segments[0].problems)
    group = FusedGroup(layers, (segment.links[0].staying(Stay("Scratchpad")),), (TileLoop("P", 1),))
    (violation,) = structure_violations(run.hardware, group)
    assert violation.reason == "no step computes a point of layer 1"
    assert map_network(run.workload, "bundled:arch/gemmini_small", NetworkOptions(threads=1)).stats.edp > 0


def test_the_least_price_is_that_of_the_best_of_all_covers() -> None:
    """Layers by themselves 10 each, groups less the more layers they have, and a residual that one of them saves."""
    alone = {name: LeastLayer(10.0, 10.0, 110.0) for name in "abc"}
    points = {"ab": (17.0, 18.0), "bc": (16.0, 19.0), "abc": (25.0, 27.5)}
    parts: dict[str, LeastLayer | LeastGroup] = {
        **alone, **{names: LeastGroup(Segment(tuple(names), (), (), (), 1), OperatingPoint(*point))
                    for names, point in points.items()}}
    least = NetworkLeast([
        PathStep("abc".index(names[0]), "abc".index(names[-1]) + 1, tuple(names), part,
                 credit=OperatingPoint(1.0, 0.0) if names == "ab" else NOTHING)
        for names, part in sorted(parts.items())], OperatingPoint(3.0, 2.0))
    for energy, cycles in ((1.0, 0.0), (0.0, 1.0), (0.3, 0.7)):
        one = alone["a"].price(energy, cycles)
        ab, bc, abc = (energy * point[0] + cycles * point[1] for point in points.values())
        assert least.price(energy, cycles) == pytest.approx(
            energy * 3 + cycles * 2 + min(3 * one, ab - energy + one, one + bc, abc))


def in_turn(layers: Mapping[str, LeastLayer], besides: OperatingPoint) -> NetworkLeast:
    """Layers that run by themselves, one after the other."""
    return NetworkLeast([PathStep(number, number + 1, (name,), layer)
                         for number, (name, layer) in enumerate(layers.items())], besides)


def test_the_bound_on_a_product_is_reached_where_energy_is_not_traded_against_cycles() -> None:
    """Layers by themselves at one point each: the product of the sums; traded, at least the hyperbolas allow."""
    fixed = {name: LeastLayer(energy, cycles, energy * cycles) for name, energy, cycles in (("a", 3, 5), ("b", 7, 2))}
    least = in_turn(fixed, OperatingPoint(1.0, 1.0))
    assert least.bound("edp") == pytest.approx(11 * 8, rel=1e-5)
    assert (least.bound("energy"), least.bound("delay")) == (pytest.approx(11), pytest.approx(8))
    traded = {name: LeastLayer(1.0, 1.0, 16.0) for name in "ab"}
    least = in_turn(traded, OperatingPoint(0.0, 0.0))
    assert 64 * (1 - 1e-3) < least.bound("edp") <= 64    # (4 + 4) ** 2, by Cauchy and Schwarz


@given(st.lists(st.tuples(st.floats(0.05, 20), st.floats(0.1, 10)), max_size=6), st.floats(0.1, 5), st.floats(0.1, 5))
def test_the_least_product_above_lines_is_that_of_their_best_common_corner(
        tilted: list[tuple[float, float]], energy: float, cycles: float) -> None:
    """Whatever the order of the lines, and with lines that lie below the corner of others."""
    lines = [(slope, 1.0, least) for slope, least in tilted] + [(1.0, 0.0, energy), (0.0, 1.0, cycles)]
    found = edges(lines)
    corners = [((c * e - b * f) / (a * e - b * d), (a * f - c * d) / (a * e - b * d))
               for (a, b, c), (d, e, f) in combinations(lines, 2) if abs(a * e - b * d) > 1e-9]
    common = [x * y for x, y in corners if all(a * x + b * y >= c * (1 - 1e-9) for a, b, c in lines)]
    assert least_metric(found) == pytest.approx(min(common), rel=1e-6)
    assert set(found) <= set(lines) and [line[1] / line[0] if line[0] else inf for line in found] == sorted(
        line[1] / line[0] if line[0] else inf for line in found)


class CreepingBound:
    """A bound on groups that each part raises by a billionth."""

    parts = 0

    def refine(self, energy: float, cycles: float, goal: float, most: int) -> int:
        made = most if self.parts < 10 * PATIENCE else 0
        self.parts += made
        return made

    def lower(self, energy: float, cycles: float) -> float:
        return 1 + 1e-9 * self.parts


@pytest.mark.parametrize(("patience", "parts"), [(PATIENCE, 1), (inf, 10)])
def test_a_bound_that_hardly_rises_is_left_unless_a_gap_is_asked_for(patience: float, parts: int) -> None:
    """The parts of a layer's proof, which is made once, do not count."""
    creeping, nest = CreepingBound(), cast(Nest, None)
    group = LeastGroup(Segment(("a", "b"), (), (), (), 1), OperatingPoint(0.0, 0.0), bound=cast(GroupBound, creeping))
    layer = LeastLayer(1.0, 1.0, proof=lambda sums: MappingProof(1.0, nest, 1.0, 2 * PATIENCE, 0))
    least = NetworkLeast([PathStep(0, 1, ("c",), layer), PathStep(1, 2, ("a", "b"), group)], OperatingPoint(0.0, 0.0))
    assert least.bound("energy", inf, patience=patience) == pytest.approx(2 + 1e-9 * creeping.parts)
    assert parts * PATIENCE <= creeping.parts <= (parts + 0.1) * PATIENCE


@pytest.mark.slow
def test_planning_ends_once_the_plan_is_as_close_to_the_best_as_asked_for() -> None:
    network, design = load_network("bundled:networks/resnet18"), bundled_files.find("arch/gemmini_large")
    sooner = map_network(network, design, NetworkOptions(threads=1), gap=0.05)
    further = map_network(network, design, NetworkOptions(threads=1, gap=0.0075))
    plain = planned("resnet18", "gemmini_large")
    assert sooner.gap is not None and further.gap is not None and plain.gap is not None
    assert plain.gap <= ENOUGH and 0 < further.gap <= sooner.gap <= 0.05
    assert plain.bound is not None and sooner.bound <= further.bound and sooner.status == "search ended"
    assert further.gap <= plain.gap and plain.bound <= further.bound * (1 + 1e-12)
    assert sooner.options["gap"] == 0.05 and "gap" not in plain.options


def test_a_home_that_adds_up_sums_itself_takes_groups_and_has_a_bound() -> None:
    """A single buffer, with no level inside that keeps sums."""
    result = map_network(load_network("bundled:quickstart/network"), bundled_files.find("quickstart/design"),
                         NetworkOptions(threads=1), energy="estimate")
    assert [group.nodes for group in result.groups] == [("first", "second", "third")]
    assert result.stats.edp < 0.9 * result.unfused_stats.edp
    assert result.gap is not None and 0 < result.gap < 0.2
    first = result.groups[0].cost.layers[0]
    assert first.energy_pj < result.layers[0].result.stats.energy_pj    # its output does not go to DRAM


def test_a_run_that_is_interrupted_has_the_gap_of_groups_that_are_not_divided() -> None:
    network, design = load_network("bundled:networks/mobilenet_v1"), bundled_files.find("arch/gemmini_large")
    whole, met = map_network(network, design).gap, list[str]()
    result = map_network(network, design, on_progress=lambda stage, _: met.append(stage),
                         stopped=lambda: "groups" in met)
    assert result.status.startswith("interrupted") and result.gain > 0
    assert whole is not None and result.gap is not None and whole < result.gap < 1


def test_nothing_is_proven_for_a_run_that_ends_before_its_groups_are_listed() -> None:
    met = list[str]()
    result = map_network(load_network("bundled:networks/mobilenet_v1"), bundled_files.find("arch/gemmini_large"),
                         on_progress=lambda stage, _: met.append(stage), stopped=lambda: bool(met))
    assert result.gap is None and "no lower bound" in result.proven


@pytest.mark.slow
def test_heads_that_run_apart_or_as_one_problem_are_bounded_in_both_forms() -> None:
    result = planned("gpt3_6b7_block", "gemmini_small")
    least = least_of(result.workload, result.hardware, [layer.result for layer in result.layers],
                     segments(result.workload, 16))
    assert least and result.bound
    macs = {node.name: node.layer.repeat * prod(node.layer.problem.bounds.values())
            for node in result.workload.layers if node.layer}
    units = result.hardware.arch.arithmetic.instances
    for step in least.steps:
        if isinstance(step.least, LeastGroup):
            assert step.least.point.cycles >= sum(macs[name] for name in step.nodes) / units * (1 - 1e-9)
