"""Corners: they meet the rules that they are built for; what differs is found and made small; Timeloop's answers."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from fadiff_validation import cli, recording
from fadiff_validation.corners import running
from fadiff_validation.corners.comparing import mistakes
from fadiff_validation.corners.corner import Corner
from fadiff_validation.corners.corner_files import corner_files, verdict
from fadiff_validation.corners.rules import APART, RULES, corner
from fadiff_validation.corners.running import CornerRun, run_corners
from fadiff_validation.corners.shrinking import shrunk, smaller
from fadiff_validation.random_mappings import random_mapping
from fadiff_validation.tools import Backend, Tool

from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.native.arch import INTERCONNECT_CLASSES
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest, evaluate_one, score
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.search.explanation.count_breakdown import explain_counts
from fadiff_mapper.timeloop.run_model import ModelAnswer
from fadiff_mapper.timeloop.verify import compared

RECORDED = Path(__file__).parents[1] / "recorded" / "corners" / "corners.jsonl.gz"
NETWORKED = RECORDED.with_name("networks.jsonl.gz")
SWITCHED = RECORDED.with_name("switches.jsonl.gz")


def drawn(rule: str, count: int = 12) -> list[Corner]:
    return [RULES[rule].draw(random.Random(f"{rule}/{number}")) for number in range(count)]


def evaluated(one: Corner) -> Evaluation:
    question = one.question()
    spec = question.task.spec
    return evaluate_one(spec.arch, spec.problem, spec.tables, question.mapping, details=True)[1]


def test_timeloops_answers_to_the_recorded_corners_are_the_models() -> None:
    said = recording.read(RECORDED)
    assert len(said.answers) >= 100 and said.tool.version.startswith("4cf6d4c")
    assert {item.question.kind for item in said.answers} == set(RULES) - set(APART)
    wrong = {item.question.task.name: mistakes(item.question, item.answer) for item in said.answers if item.answer}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_timeloops_answers_with_kinds_of_reuse_switched_off_are_the_models() -> None:
    said = recording.read(SWITCHED)
    levels = [level for item in said.answers for level in item.question.mapping.levels]
    for switch in ("no_link_transfer", "rmw_first_update", "no_coalesce"):
        assert sum(bool(getattr(level, switch)) for level in levels) >= 20
    wrong = {item.question.task.name: mistakes(item.question, item.answer) for item in said.answers if item.answer}
    assert len(wrong) == 80
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_timeloops_answers_with_networks_of_their_own_are_the_models() -> None:
    said = recording.read(NETWORKED)
    kinds = Counter(local["class"] for item in said.answers
                    for local in item.question.task.document["architecture"]["subtree"][0]["local"])
    assert all(kinds[kind] >= 20 for kind in INTERCONNECT_CLASSES)
    wrong = {item.question.task.name: mistakes(item.question, item.answer) for item in said.answers if item.answer}
    assert len(wrong) == 80
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_networks_of_their_own_are_scored_alike_by_kernel_and_arrays() -> None:
    for item in recording.read(NETWORKED).answers:
        spec, rng = item.question.task.spec, random.Random(item.question.task.name)
        layer = prepare_layer(spec.arch, spec.problem, spec.tables)
        nest = pack([item.question.mapping, *(random_mapping(spec.arch, spec.problem, rng) for _ in range(7))],
                    spec.problem)
        found, expected = score(layer, nest), evaluate_nest(layer, nest)
        np.testing.assert_array_equal(found.legal, expected.legal)
        np.testing.assert_array_equal(found.energy[found.legal], expected.energy[found.legal])
        np.testing.assert_array_equal(found.cycles[found.legal], expected.cycles[found.legal])


def test_switched_off_reuse_is_explained_and_written() -> None:
    for item in recording.read(SWITCHED).answers[:20]:
        spec, mapping = item.question.task.spec, item.question.mapping
        names, directives = spec.problem.dataspace_names(), literal_mapping(mapping, spec.arch, spec.problem)
        assert read_mapping(with_places(directives, Where("m")), Where("m"), spec.arch, spec.problem) == mapping
        layer = prepare_layer(spec.arch, spec.problem, spec.tables, reuse_of(mapping, names))
        found = evaluate_nest(layer, pack([mapping], spec.problem), details=True)
        for one in explain_counts(layer, found):
            product = math.prod(factor.value for factor in one.factors)
            assert product + sum(c.value for c in one.corrections) == one.count, one.sentence()
        assert score(layer, pack([mapping], spec.problem)).energy[0] == pytest.approx(found.energy[0], rel=1e-12)


# What is drawn.

def test_a_larger_list_begins_with_the_corners_of_a_smaller_one() -> None:
    first = [corner(number, 3) for number in range(2 * len(RULES))]
    assert first == [corner(number, 3) for number in range(2 * len(RULES))]
    assert {one.rule for one in first} == set(RULES) - set(APART)
    assert first != [corner(number, 4) for number in range(2 * len(RULES))]


@pytest.mark.parametrize("rule", ["links", "mesh", "switches"])
def test_words_are_at_a_neighbour(rule: str) -> None:
    assert sum(bool(evaluated(one).raw.links.any()) for one in drawn(rule)) >= 4


def test_groups_of_different_sizes_share_words() -> None:
    assert sum(evaluated(one).raw.words.shape[0] > 1 for one in drawn("sharing")) >= 4


def test_meshes_are_wider_than_the_mapping() -> None:
    partial = [one for one in drawn("mesh") for machine, level in zip(one.levels, one.mapping.levels, strict=True)
               if 1 < math.prod(level.axis_factors("X").values()) < machine.fan[0] and level.axis_factors("Y")]
    assert len(partial) >= 2


def test_a_fan_out_is_oversubscribed_and_the_mapping_legal_all_the_same() -> None:
    over = [one for one in drawn("oversubscribed") for machine, level in zip(
        one.levels, one.mapping.levels, strict=True) if math.prod(level.axis_factors("X").values()) > machine.fan[0]]
    assert len(over) >= 4
    assert all(evaluated(one).legal[0] for one in over)


def test_tensors_pass_by_three_levels_in_a_row() -> None:
    def longest(one: Corner, name: str) -> int:
        kept = "".join("k" if name in level.keep else "-" for level in one.mapping.levels)
        return max(map(len, kept.split("k")))
    assert sum(max(longest(one, space.name) for space in one.spaces) >= 3 for one in drawn("bypassing")) >= 4


def test_partial_sums_come_back() -> None:
    assert sum(bool(evaluated(one).counts.fills[:, -1].any()) for one in drawn("sums")) >= 4


def test_limits_are_met_and_broken() -> None:
    legal = [bool(evaluated(one).legal[0]) for one in drawn("limits", 24)]
    assert 4 <= sum(legal) <= 20


def test_what_is_drawn_is_small() -> None:
    for number in range(4 * len(RULES)):
        one = corner(number, 1)
        assert sum(factor > 1 for level in one.mapping.levels for factor in level.temporal.values()) <= 8
        assert math.prod(math.prod(level.spatial.values()) for level in one.mapping.levels) <= 192


# Making what differs smaller.

def loops(one: Corner) -> int:
    return math.prod(math.prod((*level.temporal.values(), *level.spatial.values())) for level in one.mapping.levels)


def test_a_difference_is_made_as_small_as_it_goes() -> None:
    def differs(one: Corner) -> bool:
        return sum(factor for level in one.mapping.levels for factor in level.temporal.values() if factor > 2) >= 5

    start = next(one for one in (corner(number, 0) for number in range(200)) if differs(one))
    found = shrunk(start, differs)
    assert differs(found) and not any(map(differs, smaller(found)))
    assert loops(found) <= 9
    assert len(found.spaces) == 2 or any(len(space.dimensions) for space in found.spaces)


@pytest.mark.parametrize("number", range(13))
def test_what_is_smaller_is_a_valid_input(number: int) -> None:
    start = corner(number, 5)
    for one in random.Random(number).sample(list(smaller(start)), 3):
        assert load(one.document()).problem.bounds == one.bounds


# A whole run, Timeloop played by the model itself, with and without a fault.

def played(fault: bool) -> Backend:
    """Timeloop with one fault: it forgets the words that came from neighbours."""
    def ask(text: str, spaces: Sequence[str], folder: Path) -> ModelAnswer:
        spec = load(yaml.safe_load(text))
        assert spec.mapping is not None
        _, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, spec.mapping)
        if not evaluation.legal[0]:
            return ModelAnswer(None, f"ERROR: {rejection(violations(evaluation.checks, 0))}")
        apart = ("energy_source", "area_mm2", "areas_um2", "area_source")  # of the tables, not of the mapping
        result = {key: value for key, value in compared(evaluate(spec)).items() if key not in apart}
        for network in result["networks"] if fault else ():
            for space in network["dataspaces"].values():
                space["link_transfers"] = 0.0
        return ModelAnswer(result)
    return Backend(Tool("native", "played", str(fault)), ask)


def run(folder: Path, fault: bool) -> CornerRun:
    few = {name: rule for name, rule in RULES.items() if name in ("links", "mesh")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fadiff_validation.corners.rules.RULES", few)
        patch.setattr(running, "SHRUNK", 1)
        outcome = CornerRun(played(fault).tool, 0)
        run_corners(outcome, 6, played(fault), folder / "answers.jsonl", 1)
        return outcome


def test_a_run_without_a_difference(tmp_path: Path) -> None:
    outcome = run(tmp_path, fault=False)
    assert outcome.agrees and outcome.tally["links"]["accepted"] == 3 and outcome.tally["links"]["links"] >= 1
    assert set(corner_files(outcome, "fadiff-validate")) == {"corners.md", "corners.json"}
    assert "gives all" in verdict(outcome)


@pytest.mark.slow
def test_a_difference_is_reported_with_the_smallest_input(tmp_path: Path) -> None:
    outcome = run(tmp_path, fault=True)
    item = outcome.differences[0]
    assert not outcome.agrees and all("link_transfers" in text for text in item.mistakes)
    assert loops(item.smallest) <= 8 and evaluated(item.smallest).raw.links.any()
    texts = corner_files(outcome, "fadiff-validate")
    spec = load(yaml.safe_load(texts[f"corner-{item.number}.yaml"]))
    assert spec.mapping == replace(item.smallest.mapping)
    assert "disagrees" in texts["corners.md"]


@pytest.mark.parametrize("arguments, said", [
    (["--suite", "corners", "--backend", "recorded"], "needs a real tool"),
    (["--suite", "corners", "--backend", "native", "--design", "simba_like"], "--design chooses among bundled designs"),
])
def test_options_that_cannot_be_followed_are_refused(arguments: list[str], said: str, tmp_path: Path,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", *arguments, "-o", str(tmp_path)]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("number", "network", "space", "ingresses", "reductions"), [
    (5385, "L0 <==> MAC", "O", [[2, 2, -1.0], [2, 5, 5.0]], 0),
    (5400, "L1 <==> L0", "O", [[3, 1, 16.0], [3, 4, 0.0]], 32),
    (7803, "L0 <==> MAC", "Z", [[1, 1, 0.0], [4, 4, 4.0]], 12)])
def test_kinds_of_transfer_that_lose_their_words_are_listed_and_wrap_the_sum_of_reductions(
        number: int, network: str, space: str, ingresses: list[list[float]], reductions: int) -> None:
    question = corner(number, 100).question()
    spec = question.task.spec
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, question.mapping, details=True)
    found = next(one for one in stats_of(layer, evaluation, 0).networks if one["name"] == network)["dataspaces"][space]
    assert (found["ingresses"], found["spatial_reductions"]) == (ingresses, reductions)
