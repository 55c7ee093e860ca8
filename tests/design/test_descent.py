"""The gradient proposer: hardware as smooth functions, descended with mappings, judged by borrowed mappings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch

from fadiff_mapper import Mapping, SearchOptions, load_network
from fadiff_mapper.design.bound_designs import (
    BoundDesigns,
    borrowed_point,
    least_hardware,
    pooled,
)
from fadiff_mapper.design.evaluate_design import DesignBench, DesignReader
from fadiff_mapper.design.proposers import Proposer
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, LeastFigures
from fadiff_mapper.design.space import (
    DesignSpace,
    Point,
    broken_limit,
    coordinate,
    parameter_values,
    read_space,
)
from fadiff_mapper.gradient.gumbel_softmax import draw
from fadiff_mapper.gradient.hardware_descent import (
    HardwareCurves,
    RelaxedDesign,
    curves_around,
    figures_of,
    proposed_designs,
    relaxed_around,
    relaxed_design,
)
from fadiff_mapper.gradient.loss import machine_limits
from fadiff_mapper.gradient.network_cost import relaxed_cost
from fadiff_mapper.gradient.network_descent import smooth_metric, starts
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.result import Result

SPACE = """
architecture:
  version: 0.4
  nodes:
  - !Container
    name: System
    attributes: {technology: "40nm", global_cycle_seconds: 1e-9}
  - !Component
    name: DRAM
    class: DRAM
    attributes: {type: "LPDDR4", width: 64, datawidth: 8, shared_bandwidth: 8}
  - !Component
    name: Buffer
    class: SRAM
    attributes: {depth: 4096, width: 64, datawidth: 8, shared_bandwidth: 16}
  - !Container
    name: Columns
    spatial: {meshX: 8}
  - !Component
    name: Register
    class: regfile
    attributes: {depth: 4, width: 8, datawidth: 8}
  - !Component
    name: MAC
    class: intmac
    attributes: {width: 8, datawidth: 8}
design_space:
  version: 0.1
  parameters:
    columns: {path: Columns.spatial.meshX, values: [2, 4, 8, 16]}
    depth: {path: Buffer.attributes.depth, powers_of_two: [256, 16384]}
  ties: {Buffer.attributes.shared_bandwidth: 2 * columns}
"""

NETWORK = """
workload:
  version: 1
  name: pair
  inputs: {input: [1, 16, 8, 8]}
  shapes:
  - id: wider
    op: conv
    count: 1
    repeat: 1
    dims: {N: 1, M: 32, C: 16, P: 8, Q: 8, R: 1, S: 1}
    stride: [1, 1]
    dilation: [1, 1]
  - id: narrower
    op: conv
    count: 1
    repeat: 1
    dims: {N: 1, M: 16, C: 32, P: 8, Q: 8, R: 1, S: 1}
    stride: [1, 1]
    dilation: [1, 1]
  graph:
  - {name: first, shape: wider, from: [input]}
  - {name: second, shape: narrower, from: [first]}
"""
QUICK = SearchOptions(("edp",), threads=1, effort=Effort(chains=16, rounds=30, extra_rounds=0))
FEW = (8, 4)
EVERY = [(x, y) for x in range(4) for y in range(7)]


@pytest.fixture(scope="module")
def question(tmp_path_factory: pytest.TempPathFactory) -> DesignQuestion:
    folder = tmp_path_factory.mktemp("space")
    (folder / "space.yaml").write_text(SPACE, encoding="utf-8")
    (folder / "pair.yaml").write_text(NETWORK, encoding="utf-8")
    space, network = read_space(folder / "space.yaml"), load_network(folder / "pair.yaml")
    return DesignQuestion(space, (network,), (1.0,), DesignOptions())


class Bench:
    """Designs of a question with quick exact mappings, each found once."""

    def __init__(self, question: DesignQuestion) -> None:
        self.question, self.reader = question, DesignReader(question)
        self.found: dict[Point, list[Result]] = {}

    def mapped(self, point: Point) -> list[Result]:
        if point not in self.found:
            self.found[point] = map_layers(self.reader.specs(point), QUICK)
        return self.found[point]

    def mappings(self, point: Point) -> tuple[Mapping, ...]:
        return tuple(result.mapping for result in self.mapped(point))

    def outcome(self, point: Point) -> DesignOutcome:
        results = self.mapped(point)
        return DesignOutcome(point, parameter_values(self.question.space, point), True, "",
                             sum(result.stats.energy_pj for result in results),
                             sum(result.stats.cycles for result in results), 0.0, mapped=True)


@pytest.fixture(scope="module")
def bench(question: DesignQuestion) -> Bench:
    return Bench(question)


def proposer_of(bench: Bench, question: DesignQuestion) -> Proposer:
    return BoundDesigns(question, bench.reader.specs, bench.mappings, DesignBench(question, None).least_at)


def curves_at(bench: Bench, centre: Point) -> HardwareCurves:
    return curves_around(bench.question.space, centre, lambda point: bench.reader.specs(point)[0])


def design_at(bench: Bench, curves: HardwareCurves, place: torch.Tensor) -> RelaxedDesign:
    return relaxed_design(curves.at(place), len(bench.reader.specs(curves.centre)[0].arch.levels))


def place_of(space: DesignSpace, point: Point) -> torch.Tensor:
    return torch.tensor([[coordinate(parameter, index)]
                         for parameter, index in zip(space.parameters, point, strict=True)], dtype=torch.float64)


@pytest.mark.parametrize("point", [(2, 4), (0, 4), (3, 4), (2, 0), (2, 6)])
def test_the_curves_are_exact_along_every_axis_through_the_centre(bench: Bench, point: Point) -> None:
    space = bench.question.space
    found = curves_at(bench, (2, 4)).at(place_of(space, point))[:, 0].numpy()
    exact = figures_of(space, point, bench.reader.specs(point)[0])
    np.testing.assert_allclose(found, np.maximum(exact, 1e-30), rtol=1e-9)


def test_products_of_powers_of_the_parameters_are_exact_everywhere(bench: Bench) -> None:
    """Meshes, capacities and the tied bandwidth at a corner; energies there are an approximation."""
    space, spec = bench.question.space, bench.reader.specs((0, 0))[0]
    buffer = spec.arch.level_names().index("Buffer")
    design = design_at(bench, curves_at(bench, (2, 4)), place_of(space, (0, 0)))
    limits = machine_limits(spec.arch)
    assert [float(x) for x in design.machine.limits.mesh_x] == pytest.approx(list(limits.mesh_x))
    assert float(design.machine.limits.usable[buffer]) == pytest.approx(limits.usable[buffer])
    assert float(design.machine.constants["shared_bandwidth"][buffer]) == pytest.approx(4.0)


def test_a_larger_buffer_costs_more_for_each_access(bench: Bench) -> None:
    space = bench.question.space
    place = place_of(space, (2, 3)).requires_grad_(True)
    buffer = bench.reader.specs((2, 4))[0].arch.level_names().index("Buffer")
    design_at(bench, curves_at(bench, (2, 4)), place).machine.constants["read"][buffer].sum().backward()
    assert place.grad is not None
    assert place.grad[1] > 0
    assert place.grad[0] == 0


def test_the_relaxed_cost_on_a_design_of_its_own_is_that_of_a_network_read_on_this_design(bench: Bench) -> None:
    space, point = bench.question.space, (1, 3)
    alone = replace(bench.question, options=DesignOptions(fuse=False))
    specs, mappings = bench.reader.specs(point), bench.mappings(point)
    figures = torch.from_numpy(figures_of(space, point, specs[0]))[:, None].repeat(1, 4)
    costs = []
    own = relaxed_design(figures, len(specs[0].arch.levels)).machine
    for wide, machine in ((specs, None), (bench.reader.specs((3, 6)), own)):
        network = relaxed_around(alone, wide, specs, mappings)
        start = starts(network, 4, 0)
        nests = [draw(batch.places, theta, None, 0.05, choices)
                 for batch, theta, choices in zip(network.batches, start.thetas, start.choices, strict=True)]
        total = relaxed_cost(network, torch.zeros((0, 4), dtype=torch.float64), nests, start.thetas, "refined",
                             machine)
        costs.append((float(total.energy[0]), float(total.cycles[0]), float(total.broken[:, 0].sum())))
    assert costs[0] == pytest.approx(costs[1])
    assert costs[0][2] == 0


def test_the_loss_has_the_gradient_of_the_hardware(bench: Bench) -> None:
    """Against finite differences between two knots, at a mapping that stays as it is."""
    space, centre = bench.question.space, (2, 4)
    curves, alone = curves_at(bench, centre), replace(bench.question, options=DesignOptions(fuse=False))
    specs = bench.reader.specs(centre)
    network = relaxed_around(alone, bench.reader.specs((3, 6)), specs, bench.mappings(centre))
    start = starts(network, 4, 0)
    nests = [draw(batch.places, theta, None, 0.05, choices)
             for batch, theta, choices in zip(network.batches, start.thetas, start.choices, strict=True)]

    def loss(place: torch.Tensor) -> torch.Tensor:
        machine = design_at(bench, curves, place.repeat(1, 4)).machine
        total = relaxed_cost(network, torch.zeros((0, 4), dtype=torch.float64), nests, start.thetas, "refined",
                             machine)
        value: torch.Tensor = smooth_metric(total, "edp")[0] + total.broken[:, 0].sum()
        return value

    place = (place_of(space, centre) - 0.3).requires_grad_(True)    # smaller than the mapping needs
    assert torch.autograd.gradcheck(loss, (place,), eps=1e-6, atol=1e-5)
    loss(place).backward()
    assert place.grad is not None
    assert (place.grad != 0).all()


def test_borrowed_mappings_bound_the_metric_from_above(bench: Bench) -> None:
    """With the mappings of a design itself they give its figures; with fewer they give no less."""
    points = [(1, 3), (2, 4), (3, 5)]
    pool = pooled(bench.reader.specs(points[0]), [bench.mappings(point) for point in points[:2]])
    foreign = borrowed_point(bench.reader.specs(points[2]), pool, bench.question.loads, "edp")
    full = pooled(bench.reader.specs(points[2]), [bench.mappings(points[2])], pool)
    own = borrowed_point(bench.reader.specs(points[2]), full, bench.question.loads, "edp")
    exact = bench.outcome(points[2])
    assert foreign is not None
    assert own is not None
    assert own.edp <= foreign.edp
    assert own.edp <= exact.edp * (1 + 1e-12)
    assert borrowed_point(bench.reader.specs((0, 0)), pooled(bench.reader.specs((3, 6)), [bench.mappings((3, 6))]),
                          bench.question.loads, "edp") is None, "mappings for a large design do not run on a small one"


def test_the_least_hardware_runs_the_same_mappings_no_worse(bench: Bench) -> None:
    space, point = bench.question.space, (2, 6)
    own = pooled(bench.reader.specs(point), [bench.mappings(point)])

    def value_at(candidate: Point) -> float:
        total = borrowed_point(bench.reader.specs(candidate), own, bench.question.loads, "edp")
        return log(total.edp) if total else float("inf")

    least = least_hardware(space, point, value_at)
    assert all(low <= high for low, high in zip(least, point, strict=True))
    assert value_at(least) <= value_at(point) + 1e-9
    assert least != point, "the largest buffer is more than these mappings need"
    for axis in range(2):
        if least[axis]:
            smaller = (*least[:axis], least[axis] - 1, *least[axis + 1:])
            assert value_at(smaller) > value_at(least)


@pytest.mark.slow
def test_a_descent_ends_in_designs_of_the_space_and_repeats_itself(bench: Bench) -> None:
    space, centre = bench.question.space, (1, 2)
    specs = bench.reader.specs(centre)

    def ends() -> list[Point]:
        network = relaxed_around(bench.question, bench.reader.specs((3, 6)), specs, bench.mappings(centre))
        assert len(network.ties), "the two layers can be fused"
        return proposed_designs(space, curves_at(bench, centre), network, "edp", 0.0, 1, *FEW)

    found = ends()
    assert found == ends()
    assert found and all(point in EVERY for point in found) and len(found) == len(set(found))


@pytest.mark.slow
def test_limits_pull_a_descent_back(bench: Bench) -> None:
    """From a design of 16 columns, with at most 4 units, no end lies above 8 columns; without, some do."""
    space, centre = bench.question.space, (3, 4)
    alone, specs = replace(bench.question, options=DesignOptions(fuse=False)), bench.reader.specs((3, 4))
    widest = []
    for limits in ({}, {"units": 4}):
        own = replace(space, limits=limits)
        curves = curves_around(own, centre, lambda point: bench.reader.specs(point)[0])
        network = relaxed_around(alone, bench.reader.specs((3, 6)), specs, bench.mappings(centre))
        ends = proposed_designs(own, curves, network, "edp", 0.0, 0, 15, 4)
        widest.append(max(point[0] for point in ends))
    assert widest[1] < widest[0]


@pytest.mark.parametrize("time_for", [0, 1, 40])
def test_what_has_been_judged_when_time_is_over_is_proposed(time_for: int, bench: Bench) -> None:
    asked, judged = 0, list[Point]()
    least_at = DesignBench(bench.question, None).least_at

    def over() -> bool:
        nonlocal asked
        asked += 1
        return asked > time_for

    def noted(point: Point, stopped: Callable[[], bool]) -> LeastFigures | None:
        least = least_at(point, stopped)
        judged.append(point)
        return least

    proposer = BoundDesigns(bench.question, bench.reader.specs, bench.mappings, noted, over)
    first = proposer.propose(3, [])
    assert 1 <= len(first) <= 3
    assert set(first) <= set(judged) if judged else len(first) == 1  # one that nobody has judged is better than none
    assert bool(judged) == (time_for == 40)
    assert proposer.propose(3, [bench.outcome(first[0])]) == []


@pytest.mark.slow
def test_proposals_are_new_keep_the_limits_and_repeat_themselves(bench: Bench) -> None:
    space = replace(bench.question.space, limits={"units": 8})
    question = replace(bench.question, space=space, options=DesignOptions(fuse=False))
    archive: list[DesignOutcome] = []
    first, second = (proposer_of(bench, question) for _ in range(2))
    for _ in range(2):
        points = first.propose(3, archive)
        assert points == second.propose(3, archive)
        assert len(points) == len(set(points)) <= 3
        assert not {outcome.point for outcome in archive} & {*points}
        assert all(broken_limit(space, point, bench.reader.specs(point)[0]) is None for point in points)
        archive += [bench.outcome(point) for point in points]


@pytest.mark.slow
def test_the_best_design_of_a_small_space_is_found_with_a_third_of_the_evaluations(bench: Bench) -> None:
    proposer = proposer_of(bench, replace(bench.question, options=DesignOptions(fuse=False)))
    archive: list[DesignOutcome] = []
    while len(archive) < 9:
        archive += [bench.outcome(point) for point in proposer.propose(3, archive)]
    best = min(bench.outcome(point).edp for point in EVERY)
    assert min(outcome.edp for outcome in archive) <= 1.01 * best
