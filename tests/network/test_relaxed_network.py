"""The relaxed network: one differentiable cost of all tiling factors and fusion variables, and what is decoded."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch
from made_graphs import bundled_network

from fadiff_mapper import NetworkOptions, SearchOptions, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, Stay, evaluate_group
from fadiff_mapper.fusion.candidates import LOOPED
from fadiff_mapper.fusion.estimates import homes, layer_base
from fadiff_mapper.fusion.group_cost import evaluate_tiles, fused_counts
from fadiff_mapper.fusion.prices import NetworkPrice, summed
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.gradient.gumbel_softmax import draw
from fadiff_mapper.gradient.network_cost import LinkSigmas, RelaxedCost, aligned, relaxed_cost, sigma_weighted_counts
from fadiff_mapper.gradient.network_descent import (
    DescentEnd,
    RestartPoint,
    decoded_groups,
    decoded_layers,
    descend,
    descended_network,
    smooth_metric,
    starts,
)
from fadiff_mapper.gradient.relaxed_network import RelaxedNetwork, relaxed_network
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.loop_nest import Nest, nest_arrays, pack
from fadiff_mapper.model.smooth import evaluate_smooth
from fadiff_mapper.network import planning
from fadiff_mapper.network.map_network import plan_network
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.tile_mappings import with_mappings
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import OperatingPoint

MODELS = ("refined", "paper")
TOGETHER = ("mobilenet_v1", ("conv1", "dw1"), "large")
"""A third of the EDP is saved when these are fused."""

APART = ("resnet18", ("layer4.1.conv1", "layer4.1.conv2"), "small")
"""2.4 million weights each, and an intermediate of 25088 words where 8192 fit."""

Named = tuple[str, tuple[str, ...], str]


workload = cache(bundled_network)


@cache
def mapped(named: Named) -> dict[str, Result]:
    """Some layers of a bundled network, mapped by themselves with little effort."""
    network, names, design = named
    specs = specs_of(workload(network), bundled_files.find(f"arch/gemmini_{design}"))
    spec_of = {name: spec for entry, spec in zip(workload(network).distinct(), specs, strict=True)
               for name in entry.nodes}
    found = map_layers([spec_of[name] for name in names],
                       SearchOptions(("edp",), threads=1, effort=Effort(chains=32, extra_rounds=0)))
    return dict(zip(names, found, strict=True))


def hardware_of(named: Named) -> Hardware:
    spec = next(iter(mapped(named).values())).spec
    return Hardware(spec.arch, spec.tables)


def pairs_of(named: Named) -> dict[tuple[str, str], Segment]:
    wanted = set(pairwise(named[1]))
    return {(one.nodes[0], one.nodes[1]): one for one in segments(workload(named[0]), 2) if one.nodes in wanted}


@cache
def relaxed(named: Named) -> RelaxedNetwork:
    hardware = hardware_of(named)
    return relaxed_network([named[1]], pairs_of(named), mapped(named), dict.fromkeys(named[1], 1),
                           hardware.level(homes(hardware)[0]))


@cache
def descended(named: Named, model: str = "refined") -> DescentEnd:
    return descend(relaxed(named), "edp", model, seed=0)


def unfused(named: Named) -> OperatingPoint:
    return summed([OperatingPoint(one.stats.energy_pj, one.stats.cycles) for one in mapped(named).values()])


def cost_at(network: RelaxedNetwork, start: RestartPoint, sigma: torch.Tensor, model: str = "refined") -> RelaxedCost:
    """Where the restarts begin, with a given sigma."""
    nests = [draw(batch.places, theta, None, 0.05, choices)
             for batch, theta, choices in zip(network.batches, start.thetas, start.choices, strict=True)]
    return relaxed_cost(network, sigma, nests, start.thetas, model)


# The cost.

@pytest.mark.parametrize("named", [TOGETHER, APART])
def test_without_fusion_the_best_mappings_cost_what_the_exact_model_says(named: Named) -> None:
    network = relaxed(named)
    found = cost_at(network, starts(network, 4, 0), torch.zeros((len(network.ties), 4), dtype=torch.float64))
    assert float(found.energy[0]) == pytest.approx(unfused(named).energy_pj, rel=1e-3)
    assert float(found.cycles[0]) == pytest.approx(unfused(named).cycles, rel=1e-3)
    assert float(found.broken[:, 0].sum()) == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("value", ["energy", "cycles", "broken"])
def test_its_derivatives_are_exact_in_all_factors_and_in_sigma(model: str, value: str) -> None:
    network = relaxed(TOGETHER)
    start = starts(network, 4, 0)
    generator = torch.Generator().manual_seed(1)

    def between(low: float, high: float, *shape: int) -> torch.Tensor:
        numbers = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (low + (high - low) * numbers).requires_grad_(True)

    shapes = [choices.order.shape for choices in start.choices]
    inputs = [between(0.2, 0.8, len(network.ties), 4), *(between(1.1, 2.9, *shape) for shape in shapes for _ in "ts")]

    def function(sigma: torch.Tensor, *factors: torch.Tensor) -> torch.Tensor:
        drawn = [Nest(one, two, *map(torch.from_numpy, choices))
                 for one, two, choices in zip(factors[::2], factors[1::2], start.choices, strict=True)]
        found = getattr(relaxed_cost(network, sigma, drawn, start.thetas, model), value)
        return torch.log(found.sum(dim=0) if value == "broken" else found)

    assert torch.autograd.gradcheck(function, inputs, eps=1e-6, atol=1e-5, rtol=1e-4, fast_mode=True)


def test_sigma_weighs_what_leaves_the_chip_and_what_is_copied() -> None:
    """A layer between two others, a quarter fused with the one before and a half with the one behind it."""
    result = mapped(TOGETHER)["dw1"]
    layer, nest = mapping_task(result.spec).layer, pack([result.mapping], result.spec.problem)
    nest = Nest(*(torch.from_numpy(array) for array in nest_arrays(nest)))
    before = evaluate_smooth(layer, nest)
    names, levels = layer.problem.dataspace_names(), layer.arch.level_names()
    home, sums, operand, output = (levels.index("Scratchpad"), levels.index("Accumulator"), names.index("Inputs"),
                                   names.index("Outputs"))
    counts, instances = before.counts, before.tile.instances[:, 0]
    after = sigma_weighted_counts(before, nest, LinkSigmas(
        torch.tensor([0.25]), torch.tensor([0.5]), torch.tensor([[float(name == "Inputs")] for name in names]),
        torch.tensor([0.0]), home, sums, output))

    def words(found: Counts, kind: str, level: int, tensor: int) -> float:
        return float(getattr(found, kind)[level, tensor, 0] * instances[level])

    written = words(counts, "updates", -1, output)
    assert words(after, "updates", -1, output) == 0.5 * written                                     # eq. (13)
    assert words(after, "reads", sums, output) == pytest.approx(words(counts, "reads", sums, output) + 0.5 * written)
    assert words(after, "updates", home, output) == 0.5 * written                                   # eq. (14)
    assert words(after, "fills", home, operand) == 0.75 * words(counts, "fills", home, operand)     # eq. (15)
    assert words(after, "reads", -1, operand) == 0.75 * words(counts, "reads", -1, operand)
    assert words(after, "reads", home, operand) == words(counts, "reads", home, operand)


@pytest.mark.parametrize("index", [0, 1], ids=["producer", "consumer"])
def test_at_sigma_one_the_words_are_those_of_the_exact_group(index: int) -> None:
    """Eqs. (13) to (15) of both models, on a pair without loops whose intermediate lies in the scratchpad."""
    names = TOGETHER[1]
    hardware, results = hardware_of(TOGETHER), [mapped(TOGETHER)[name] for name in names]
    (segment,) = pairs_of(TOGETHER).values()
    fused = FusedGroup(tuple(FusedLayer(result.spec.problem, {
        tuple(result.spec.problem.bounds.values()): result.mapping}) for result in results),
        (replace(segment.links[0], stay=Stay("Scratchpad")),))
    own = evaluate_tiles(hardware, [fused])[0][index]
    (step,) = own.classes
    exact = fused_counts(hardware, fused, index, step, own.tiles[step.shape])
    result, tensor = results[index], "Inputs" if index else "Outputs"
    layer, nest = mapping_task(result.spec).layer, pack([result.mapping], result.spec.problem)
    nest = Nest(*(torch.from_numpy(array) for array in nest_arrays(nest)))
    spaces, levels = layer.problem.dataspace_names(), layer.arch.level_names()
    relaxed_counts = sigma_weighted_counts(evaluate_smooth(layer, nest), nest, LinkSigmas(
        torch.tensor([float(index)]), torch.tensor([1.0 - index]),
        torch.tensor([[float(index and name == "Inputs")] for name in spaces]), torch.tensor([0.0]),
        levels.index("Scratchpad"), levels.index("Accumulator"), spaces.index("Outputs")))
    for words in ("reads", "fills", "updates"):
        assert getattr(relaxed_counts, words)[:, spaces.index(tensor), 0].numpy() == pytest.approx(
            getattr(exact, words)[:, spaces.index(tensor), 0], rel=1e-3), words


@pytest.mark.parametrize("model", MODELS)
def test_tiles_are_aligned_with_the_halo_in_the_window(model: str) -> None:
    """Eq. (26): input tile = (output tile - 1) * stride + dilation * (kernel - 1) + 1; dw1 has stride 1, kernel 3."""
    ties = relaxed(TOGETHER).ties
    row = [j for j in range(ties.used.shape[1]) if ties.halo[0, j]]
    assert [(ties.stride[0, j], ties.reach[0, j]) for j in row] == [(1, 3), (1, 3)]

    def apart(made: float) -> float:
        points = torch.from_numpy(ties.bound)[..., None].clone()
        tiles = torch.from_numpy(ties.extent)[..., None].clone()
        points[0, row[0]], tiles[0, row[0]] = 14.0, made
        return float(aligned(ties, tiles, points, model)[0, 0])

    assert apart(16) == 0
    assert apart(32) == pytest.approx(1)  # an octave too many
    assert apart(8) > 0.5
    assert (apart(14) == 0) == (model == "refined")  # 14 rows are new in each step, the halo may be kept


def test_equal_chains_are_there_once() -> None:
    _network, names, _design = TOGETHER
    results = mapped(TOGETHER)
    twins = {f"{name}'": result for name, result in results.items()}
    (pair, segment), = pairs_of(TOGETHER).items()
    both = relaxed_network([names, tuple(twins)], {pair: segment, (f"{pair[0]}'", f"{pair[1]}'"): segment},
                           {**results, **twins}, dict.fromkeys([*results, *twins], 1), relaxed(TOGETHER).home)
    assert [site.times for site in both.sites] == [2, 2] and len(both.ties) == 1
    assert both.tie_of["conv1", "dw1"] == both.tie_of["conv1'", "dw1'"]


# The descent.

@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_layers_that_should_be_fused_are(model: str) -> None:
    ended = descended(TOGETHER, model)
    assert ended.sigma[0, 0] > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_layers_that_should_not_be_fused_are_not(model: str) -> None:
    ended = descended(APART, model)
    assert ended.sigma[0, 0] < 0.5


@pytest.mark.slow
def test_the_best_restart_has_aligned_tiles() -> None:
    network, ended = relaxed(TOGETHER), descended(TOGETHER)
    one, two = (torch.from_numpy(nest.temporal[:-1].prod(axis=0) * nest.spatial.prod(axis=0))[None]
                for nest in (ended.nests[0], ended.nests[1]))
    ties = network.ties
    made, points = one[:, ties.mine[0]], two[:, ties.theirs[0]]
    assert float(aligned(ties, made, points, "refined")[0, 0]) < 0.05


def test_the_loss_is_close_to_what_the_decoded_group_really_costs() -> None:
    """Without a penalty the loss is the logarithm of the network's EDP."""
    hardware, results = hardware_of(TOGETHER), mapped(TOGETHER)
    bases = {name: layer_base(result) for name, result in results.items()}
    segment, = pairs_of(TOGETHER).values()
    total = unfused(TOGETHER)
    price = NetworkPrice(total)
    found, = decoded_groups(hardware, [segment], relaxed(TOGETHER), descended(TOGETHER), bases, price).values()
    best = min(found, key=lambda one: price(one.estimate))
    group, = with_mappings(hardware, [best.group], [[results[name].spec for name in segment.nodes]],
                           price.sums)
    assert group
    exact = evaluate_group(hardware, group)
    assert exact.edp < 0.7 * total.edp
    assert exp(descended(TOGETHER).loss[0]) == pytest.approx(exact.edp, rel=0.05)


@pytest.mark.slow
def test_the_same_seed_descends_the_same_way() -> None:
    again = descend(relaxed(TOGETHER), "edp", "refined", seed=0)
    assert np.array_equal(again.sigma, descended(TOGETHER).sigma)
    assert not np.array_equal(descend(relaxed(TOGETHER), "edp", "refined", seed=1).sigma, again.sigma)


@pytest.mark.parametrize("metric", ["energy", "delay"])
def test_other_metrics_have_their_own_loss(metric: str) -> None:
    found = RelaxedCost(torch.tensor([5.0]), torch.tensor([7.0]), torch.zeros((1, 1)))
    assert float(smooth_metric(found, metric)) == pytest.approx(log(5.0 if metric == "energy" else 7.0))
    assert float(smooth_metric(found, "edp")) == pytest.approx(log(35.0))


# What is decoded.

def test_decoded_layers_are_legal_mappings_that_are_better_in_something() -> None:
    results = list(mapped(TOGETHER).values())
    for own in decoded_layers(results, relaxed(TOGETHER), descended(TOGETHER)):
        for other in own[1:]:
            assert evaluate_mapping(other.spec, other.mapping) == other.stats
            assert other.stats.energy_pj < own[0].stats.energy_pj or other.stats.cycles < own[0].stats.cycles


CHAIN = """
workload:
  version: 1
  name: chain
  inputs: {input: [1, 32, 112, 112]}
  shapes:
  - {id: dw, op: depthwise, dims: {N: 1, G: 32, M: 1, C: 1, P: 112, Q: 112, R: 3, S: 3}, stride: [1, 1]}
  - {id: pw, op: conv, dims: {N: 1, M: 32, C: 32, P: 112, Q: 112, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: dw1, shape: dw, from: [input]}
  - {name: pw1, shape: pw, from: [dw1]}
  - {name: dw2, shape: dw, from: [pw1]}
  - {name: pw2, shape: pw, from: [dw2]}
  - {name: dw3, shape: dw, from: [pw2]}
  - {name: pw3, shape: pw, from: [dw3]}
  - {name: dw4, shape: dw, from: [pw3]}
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    file = tmp_path / "chain.yaml"
    file.write_text(CHAIN)
    return file


@pytest.mark.slow
def test_groups_longer_than_those_with_many_loops_come_from_the_enumeration_and_from_the_descent(
        network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layers, saved = load_network(network), network.parent / "saved.json"
    specs = specs_of(layers, bundled_files.find("arch/gemmini_large"))
    for descent in (None, descended_network):
        if descent:  # the groups of the descent are the only ones
            monkeypatch.setattr(planning.HopedSteps, "unlisted", lambda _: [])
        result = plan_network(layers, specs, NetworkOptions(threads=1), checkpoint_file=saved, descent=descent)
        assert max(len(group.nodes) for group in result.groups if group.group.loops) > LOOPED
        assert all(0 <= value <= 1 for group in result.groups for value in group.sigma)


@pytest.mark.slow
def test_the_paper_s_model_runs_from_the_command_line(network: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = network.parent / "out"
    assert main(["network", str(network), "bundled:arch/gemmini_large", "-o", str(out), "--method", "gradient",
                 "--model", "paper", "--jobs", "1", "--energy", "bundled"]) == 0
    assert "dw1 + " in capsys.readouterr().out
    assert "model: paper" in (out / "plan.yaml").read_text()
