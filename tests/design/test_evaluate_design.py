"""One design: exact figures, each layer once, limits and bounds before any mapping, and reasons for what cannot run."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_spaces import NETWORK, SECTION, forbid_searches, small_network, small_question

from fadiff_mapper import map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design import layer_entries as entries_module
from fadiff_mapper.design.evaluate_design import DesignBench, design_bound, disagreement, evaluate_design, loses
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.result_store import ResultStore
from fadiff_mapper.design.space import design_document, read_space
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.workload.readers.load_network import load_network
from tests.fusion.test_causal_groups import TOKENS
from tests.network.test_network_bound import with_operators


def all_outcomes(bench: DesignBench) -> list[DesignOutcome]:
    return [evaluate_design(bench, point) for point in all_points(bench.question.space)]


def test_the_figures_are_those_of_mapping_every_layer(tmp_path: Path) -> None:
    question = small_question(tmp_path)
    outcome = evaluate_design(DesignBench(question, None), (1, 2))
    specs = specs_of(question.networks[0], design_document(question.space, (1, 2)), "estimate")
    first, second = map_layers(specs, question.layer_options)
    assert outcome.energy_pj == first.stats.energy_pj + 2 * second.stats.energy_pj
    assert outcome.cycles == first.stats.cycles + 2 * second.stats.cycles
    assert outcome.feasible
    assert outcome.mapped
    assert outcome.parameters == {"columns": 8, "depth": 4096}


def test_networks_are_summed_by_weight_and_equal_layers_are_mapped_once(tmp_path: Path) -> None:
    once = small_question(tmp_path)
    twice = replace(once, networks=once.networks * 2, weights=(1.0, 2.5))
    assert len(twice.layers) == len(once.layers) == 2
    alone, both = (evaluate_design(DesignBench(question, None), (0, 0)) for question in (once, twice))
    assert both.energy_pj == pytest.approx(3.5 * alone.energy_pj)
    assert both.edp == pytest.approx(3.5 ** 2 * alone.edp)


def test_a_stored_design_is_searched_no_more_and_stays_the_same(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    question = small_question(tmp_path)
    fresh = evaluate_design(DesignBench(question, None), (2, 1))
    assert evaluate_design(DesignBench(question, tmp_path / "store"), (2, 1)) == fresh
    forbid_searches(monkeypatch)
    bench = DesignBench(question, tmp_path / "store")
    assert evaluate_design(bench, (2, 1)) == fresh
    network = bench.networks_at((2, 1))[0]
    assert network.stats.edp == fresh.edp
    assert bench.mappings_at((2, 1)) == tuple(layer.mapping for layer in network.layers)
    with pytest.raises(AssertionError, match="searched again"):
        evaluate_design(DesignBench(small_question(tmp_path, seed=1), tmp_path / "store"), (2, 1))


def test_an_entry_of_another_form_is_searched_again(tmp_path: Path) -> None:
    question = small_question(tmp_path)
    fresh = evaluate_design(DesignBench(question, tmp_path), (0, 0))
    keys = [json.loads(line)["key"] for file in tmp_path.glob("*.jsonl") for line in file.read_text().splitlines()]
    wrong: list[dict[str, Any]] = [{"energy_pj": "low"}, {"energy_pj": -1, "cycles": 1, "mapping": []}]
    for number, key in enumerate(keys):
        ResultStore(tmp_path).put(key, wrong[number % 2])
    assert evaluate_design(DesignBench(question, tmp_path), (0, 0)) == fresh


def test_a_limit_refuses_before_anything_is_mapped(tmp_path: Path) -> None:
    section = SECTION + "  limits: {columns * depth: 10000, units: 100}\n"
    bench = DesignBench(small_question(tmp_path, section), None)
    assert evaluate_design(bench, (1, 2)).reason == "columns * depth is 32768; the limit is 10000"
    units = evaluate_design(bench, (1, 0))
    assert (units.feasible, units.mapped, units.reason) == (False, False, "units is 128; the limit is 100")


NARROW = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 4096, width: 64, datawidth: 8}}
  - !Container {name: Lanes, spatial: {meshX: 4}, constraints: {spatial: {factors: [M=8]}}}
  - !Component {name: MACC, class: intmac, attributes: {width: 8, datawidth: 8}}
design_space: {version: 0.1, parameters: {lanes: {path: Lanes.spatial.meshX, powers_of_two: [4, 8]}}}
"""


def test_a_design_that_cannot_run_a_layer_says_which_and_why(tmp_path: Path) -> None:
    file = tmp_path / "narrow.yaml"
    file.write_text(NARROW, encoding="utf-8")
    question = DesignQuestion(read_space(file), (small_network(tmp_path),), (1.0,), DesignOptions(fuse=False))
    bench = DesignBench(question, tmp_path / "store")
    for _ in range(2):  # searched, and from the store
        narrow = evaluate_design(bench, (0,))
        assert (narrow.feasible, narrow.mapped, narrow.edp) == (False, True, math.inf)
        assert narrow.reason.startswith("conv1x1_8_16_8_s1: ")
        assert narrow.reason.endswith("does not fit on the fan-out of 4 x 1")
    assert evaluate_design(bench, (1,)).feasible


@pytest.mark.parametrize("fuse", [False, True])
def test_the_other_operand_of_a_sum_counts_with_fusion_and_without(fuse: bool, tmp_path: Path) -> None:
    file = tmp_path / "block.yaml"
    file.write_text(f"{NETWORK}  - {{name: sum, op: add, from: [c, a]}}\n", encoding="utf-8")
    question = replace(small_question(tmp_path, fuse=fuse), networks=(load_network(file),))
    bench = DesignBench(question, tmp_path / "store")
    outcome = evaluate_design(bench, (1, 2))
    (figures,), (plan,) = outcome.networks, bench.networks_at((1, 2))
    assert plan.joined.energy_pj > 0 and plan.joined.cycles > 0
    assert (figures.energy_pj, figures.cycles) == pytest.approx((plan.stats.energy_pj, plan.stats.cycles), rel=1e-12)
    assert (figures.unfused_energy_pj, figures.unfused_cycles) == pytest.approx(
        (plan.unfused_stats.energy_pj, plan.unfused_stats.cycles), rel=1e-12)
    assert disagreement(question, outcome, [plan]) == ""


def test_no_design_is_better_than_its_lower_bound(tmp_path: Path) -> None:
    question = small_question(tmp_path, metrics=("edp", "energy", "delay"))
    bench = DesignBench(question, tmp_path / "store")
    for outcome in all_outcomes(bench):
        least = design_bound(bench, bench.reader.specs(outcome.point))
        mine = tuple(outcome.of(metric) for metric in question.options.metrics)
        assert least is not None and not loses(question, least, outcome.area_mm2, [
            tuple(1.001 * value for value in mine)])
        assert loses(question, least, outcome.area_mm2, [(0.0, 0.0, 0.0)])
        assert least.energy_pj <= outcome.energy_pj
        assert least.cycles <= outcome.cycles
        assert outcome.bounds == least


def test_a_design_left_out_for_its_bound_is_no_better_than_its_rival(tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), tmp_path / "store")
    outcomes = all_outcomes(bench)
    best = min(outcome.edp for outcome in outcomes)
    against = [evaluate_design(bench, outcome.point, [(best,)]) for outcome in outcomes]
    assert any(outcome.pruned for outcome in against)
    for outcome, exact in zip(against, outcomes, strict=True):
        assert outcome == exact or (outcome.pruned and not outcome.mapped and exact.edp >= best)


def test_a_fused_network_has_the_figures_of_its_plan(tmp_path: Path) -> None:
    question = small_question(tmp_path, fuse=True)
    bench = DesignBench(question, tmp_path / "store")
    outcome = evaluate_design(bench, (2, 3))
    plan = map_network(question.networks[0], design_document(question.space, (2, 3)), question.network_options,
                       energy="estimate")
    figures = outcome.networks[0]
    assert (figures.energy_pj, figures.cycles) == (plan.stats.energy_pj, plan.stats.cycles)
    assert figures.fused_groups == len(plan.groups) > 0
    assert figures.edp < figures.unfused_energy_pj * figures.unfused_cycles
    assert evaluate_design(bench, (2, 3)) == outcome


def test_mappings_of_a_design_without_any_are_an_error(tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), None)
    entry = entries_module.no_mapping("too small\nand more")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fadiff_mapper.design.evaluate_design.layer_entries", lambda *_: [entry, entry])
        with pytest.raises(FadiffError, match=r"conv1x1_8_16_8_s1: too small$"):
            bench.mappings_at((0, 0))


def test_a_design_that_was_judged_is_left_out_without_a_further_bound(tmp_path: Path,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process with the same store finds the bounds there; they are those without a store."""
    question = small_question(tmp_path)
    judged = DesignBench(question, tmp_path / "store").least_at((1, 1))
    assert judged == DesignBench(question, None).least_at((1, 1))

    def computed(*_: object) -> None:
        raise AssertionError("a bound was computed again")

    monkeypatch.setattr(entries_module, "lower_bound", computed)
    left_out = evaluate_design(DesignBench(question, tmp_path / "store"), (1, 1), [(1e-9,)])
    assert (left_out.mapped, left_out.pruned) == (False, True)
    assert DesignBench(question, tmp_path / "store").least_at((1, 1)) == judged


@pytest.mark.parametrize("content", ['{"proven": {"energy_pj": 1}}', '{"proven": 3}', "{}", "no JSON"])
def test_a_stored_bound_that_is_none_is_computed_again(content: str, tmp_path: Path) -> None:
    bench = DesignBench(small_question(tmp_path), tmp_path / "store")
    judged = bench.least_at((1, 1))
    for file in (tmp_path / "store").rglob("*.json"):
        file.write_text(content, encoding="utf-8")
    assert bench.least_at((1, 1)) == judged


@pytest.mark.parametrize("network", ["residual", "attention", "causal"])
def test_compute_units_and_masks_do_not_take_a_design_below_its_bounds(network: str, tmp_path: Path) -> None:
    """Groups save operators between layers, which units run by themselves otherwise, and blocks of masked points."""
    text = bundled_files.find("inference/mobile_npu").read_text(encoding="utf-8")
    (tmp_path / "design.yaml").write_text(text.replace("lanes: 32", "lanes: 32\n      skips_masked: true"), "utf-8")
    (tmp_path / "space.yaml").write_text("design_space: {version: 0.1, parameters: {bandwidth: {path: "
                                         "DRAM.attributes.shared_bandwidth, values: [5.12, 51.2]}}}\n", "utf-8")
    space = read_space(tmp_path / "design.yaml", tmp_path / "space.yaml")
    question = DesignQuestion(space, (with_operators(network),), (1.0,), DesignOptions())
    for point in all_points(space):
        outcome = evaluate_design(DesignBench(question, None), point)
        assert outcome.bounds and outcome.bounds.of("edp", 1.0) <= outcome.edp * (1 + 1e-9)
        again = evaluate_design(DesignBench(question, None), point, rivals=[(outcome.edp * (1 + 1e-6),)])
        assert again.mapped and again.edp == outcome.edp


def test_a_group_may_leave_out_points_that_no_later_layer_reads(tmp_path: Path) -> None:
    """Two pointwise layers, the second of stride 2: it reads 4 x 4 of the first one's 8 x 8 points.

    A group in tiles of one point computes no others.
    """
    text = NETWORK.replace("count: 2, repeat: 1, dims: {N: 1, M: 16, C: 16, P: 8, Q: 8, R: 1, S: 1}",
                           "count: 1, repeat: 1, dims: {N: 1, M: 16, C: 16, P: 4, Q: 4, R: 1, S: 1}, stride: [2, 2]")
    text = text.replace("  - {name: c, shape: second, from: [b]}\n", "")
    (tmp_path / "strided.yaml").write_text(text)
    for fuse, share in ((True, 16 / 64), (False, 1.0)):
        question = replace(small_question(tmp_path, fuse=fuse), networks=(load_network(tmp_path / "strided.yaml"),))
        assert DesignBench(question, None).least_loads == (share, 1.0)


def test_a_group_may_leave_out_masked_points(tmp_path: Path) -> None:
    question = replace(small_question(tmp_path, fuse=True), networks=(with_operators("causal"),))
    done = [least / load for least, load in zip(DesignBench(question, None).least_loads, question.loads, strict=True)]
    assert done == [(TOKENS + 1) / (2 * TOKENS)] * 2
