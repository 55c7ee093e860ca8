"""The least price of a part of groups that cannot be divided: no group of the part is below, and one may reach it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random

import pytest
import torch
from torch import nn

from fadiff_mapper import NetworkOptions, load_network, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, TileLoop
from fadiff_mapper.fusion.candidates import cut_dims, shared_loops, with_second_reads
from fadiff_mapper.fusion.estimates import Candidate
from fadiff_mapper.fusion.prices import NOTHING, word_costs
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.network.network_bound import LeastGroup, LeastLayer, NetworkLeast, network_least
from fadiff_mapper.network.planning import PlanningRun
from fadiff_mapper.network.searched_parts import WholePart
from fadiff_mapper.network.tile_mappings import TileMemory
from fadiff_mapper.workload import OperatingPoint, Workload
from tests.network.test_network_bound import (
    ODD,
    bounded_run,
    drawn_group,
    drawn_versions,
    exact_points,
    odd_run,
    plain_step,
    with_operators,
)
from tests.network.test_trees_in_plans import attention


def least_of(run: PlanningRun, searched: bool = True) -> NetworkLeast:
    """The bound of a network; `searched`: whether parts of groups are searched."""
    bounds = [LeastLayer(bound.energy, bound.delay, bound.edp) if (bound := result.bound) else None
              for result in run.results]
    assert None not in bounds
    return network_least(run.workload, run.hardware, [result.spec for result in run.results],
                         [bound for bound in bounds if bound], run.segments, searched=searched)


def part_of(run: PlanningRun, segment: Segment, group: FusedGroup, random: Random) -> WholePart | None:
    """The part that holds a group, with some residencies decided; None where sums rest in a level that must not keep
    them."""
    last, spec = segment.problems[-1], run.by_node[segment.nodes[-1]].spec
    if any(level.name == group.sums and last.output.name in here.bypass
           for level, here in zip(spec.arch.levels, spec.constraints.levels, strict=True)):
        return None
    loops = tuple(loop for loop in group.loops if loop.tile < last.bounds[loop.dim])
    shared, _ = shared_loops(segment, cut_dims(segment))
    stays = []
    for index, layer in enumerate(group.layers):
        handed = {link.tensor for link in group.into(index)}
        brought = {one.operand for one in segment.shared if one.layer == index}
        numbers = [1 if space.name in layer.shared else 1 + (space.name in brought) + (space.name in layer.operands)
                   for space in layer.problem.dataspaces
                   if not space.read_write and space.name not in handed | layer.lasting.keys()]
        stays.append([random.choice((0, number)) for number in (*numbers, 0, 0)[:2]])
    return WholePart(
        loops, tuple(link.stay.across & own & {loop.dim for loop in loops}
                     for link, own in zip(group.links, shared, strict=True)),
        group.sums == run.hardware.arch.level_names()[-1]
        and any(loop.dim not in last.output.dimensions for loop in loops),
        stays, [0.0] * len(segment.problems))


def shares_of(group: LeastGroup, part: WholePart, point: OperatingPoint) -> Iterator[float]:
    """The searched price of a part by that of a group in it, for its energy, its cycles and both."""
    assert group.searches
    for energy, cycles in ((point.energy_pj, inf), (inf, point.cycles), (2 * point.energy_pj, 2 * point.cycles)):
        yield group.searches.price(part, (energy, cycles))[0]


def drawn_shares(run: PlanningRun, random: Random, among: Sequence[Segment], memory: TileMemory) -> Iterator[float]:
    """`shares_of` for random groups, in both policies of residencies, with and without second reads."""
    least, costs, drawn = least_of(run), word_costs(run.results[0].spec), []
    for _ in range(120):
        segment, group = drawn_group(random, run, random.choice(among))
        if random.random() < 0.5:
            group = replace(group, links=tuple(link.staying(replace(link.stay, lines=True)) for link in group.links))
        whole = [dim for dim in cut_dims(segment) if dim not in {loop.dim for loop in group.loops}]
        if random.random() < 0.3:   # loops of a single step
            group = replace(group, loops=(*(TileLoop(dim, segment.problems[-1].bounds[dim]) for dim in whole),
                                          *group.loops))
        drawn.append((segment, group))
        drawn += [(segment, other.group) for other in with_second_reads(
            run.hardware, Candidate(segment, group, NOTHING), costs)]
    for segment, group, point in exact_points(run, random.sample(drawn, len(drawn)), memory, compared=True):
        own, part = plain_step(least, segment.nodes).least, part_of(run, segment, group, random)
        assert isinstance(own, LeastGroup)
        if part and own.searches:
            yield from shares_of(own, part, point)


def network_of(name: str) -> str | Workload:
    if name == "attention":
        return attention(24, 3, 8)
    if name == "residual":
        return with_operators(name)
    return load_network(nn.Sequential(nn.Conv2d(6, 24, 1), nn.Conv2d(24, 20, 3, padding=1), nn.Conv2d(20, 8, 3, 2)),
                        torch.zeros(1, 6, 12, 9)) if name == "a chain" else name


@pytest.mark.parametrize(("network", "design", "rounds"), [
    ("steps that compute nothing", "gemmini_small", 1), ("a first layer with holes", "arch/weight_stationary", 2),
    ("residual", "gemmini_small", 1), ("attention", "gemmini_small", 1),
    *(pytest.param(case, design, 2, marks=pytest.mark.slow)
      for case in (*ODD, "a chain", "residual", "attention", "mobilenet_v1")
      for design in ("gemmini_small", "arch/eyeriss_like", "arch/weight_stationary"))])
def test_no_group_is_below_the_searched_price_of_its_part(network: str, design: str, rounds: int) -> None:
    """Random loops, tiles, residencies, places of sums, and second reads."""
    run, random = odd_run(network, design) if network in ODD else bounded_run(network_of(network), design), Random(6)
    memory, shares = TileMemory(), list[float]()
    for _ in range(rounds):
        shares += drawn_shares(run, random, [own for own in run.segments if len(own.nodes) < 5], memory)
    assert len(shares) > 5 and max(shares) <= 1 + 1e-9


@pytest.mark.parametrize(("network", "design"), [
    ("attention", "arch/gemmini_large"), pytest.param("a chain", "gemmini_small", marks=pytest.mark.slow)])
def test_no_group_with_lasting_tensors_is_below_the_searched_price_of_its_part(network: str, design: str) -> None:
    run, random, compared = bounded_run(network_of(network), design), Random(7), 0
    least = least_of(run)
    for step, group, point in drawn_versions(random, run, least, TileMemory()):
        own = step.least
        assert isinstance(own, LeastGroup)
        part = part_of(run, own.segment, group, random)
        if part and own.searches:
            assert max(shares_of(own, part, point)) <= 1 + 1e-9, (step.nodes, step.residents, group.loops)
            compared += 1
    assert compared > 2


def test_a_group_comes_close_to_the_searched_price() -> None:
    """Two products: besides its tiles a group reads the intermediate once more, as it is copied into the home."""
    network = load_network(nn.Sequential(*(nn.Linear(64, 64, bias=False) for _ in range(2))), torch.zeros(48, 64))
    run, random = bounded_run(network, "gemmini_small"), Random(1)
    shares = [share for _ in range(2) for share in drawn_shares(run, random, run.segments, TileMemory())]
    assert 0.99 < max(shares) <= 1 + 1e-9


def test_a_searched_price_bounds_the_segment_at_all_prices(tmp_path: Path) -> None:
    """The part of the least price is searched until none is left; at other prices a multiple of it counts."""
    design = tmp_path / "design.yaml"
    design.write_text(bundled_files.find("arch/gemmini_small").read_text().replace("depth: 512", "depth: 16"))
    network = nn.Sequential(nn.Conv2d(16, 40, 1), nn.Conv2d(40, 24, (3, 1), padding=(1, 0)))
    run, random = bounded_run(load_network(network, torch.zeros(1, 16, 9, 1)), str(design)), Random(2)
    segment, = run.segments
    group, plain = (plain_step(least_of(run, searched), segment.nodes).least for searched in (True, False))
    assert isinstance(group, LeastGroup) and isinstance(plain, LeastGroup)
    points = [point for drawn in range(4) for _, _, point in exact_points(
        run, [drawn_group(random, run, segment) for _ in range(100)], TileMemory(), compared=drawn > 0)]
    energy, cycles = 1 / points[0].energy_pj, 1 / points[0].cycles
    for own in (group, plain):
        while own.raise_price(energy, cycles, inf) or own.search(energy, cycles):
            pass
    assert group.price(energy, cycles) > plain.price(energy, cycles)
    for times in (1.0, 0.5, 0.9, 1.1, 3.0):
        for point in points:
            assert group.price(energy * times, cycles) <= energy * times * point.energy_pj + cycles * point.cycles
    assert group.price(energy, 2 * cycles) >= group.price(energy, cycles)
    assert group.price(2 * energy, 2 * cycles) == pytest.approx(2 * group.price(energy, cycles))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vgg16", "resnet18", "mobilenet_v1"])
def test_plans_are_proved_within_a_hundredth(name: str) -> None:
    """Without searched parts these three stay above 1 %."""
    result = map_network(load_network(f"bundled:networks/{name}"), "bundled:arch/gemmini_small",
                         NetworkOptions(gap=0.01))
    assert result.gap is not None and result.gap <= 0.01
