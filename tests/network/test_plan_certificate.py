"""Certificates of plans: the checker accepts them, and none that claims more or of which one number was changed."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
import torch
from fadiff_validation.check_certificate import Rejected
from fadiff_validation.check_plan import check, least_metric
from fadiff_validation.cli import main as validate
from torch import nn

from fadiff_mapper import (
    FadiffError,
    NetworkOptions,
    NetworkResult,
    Workload,
    load_network,
    map_layer,
    map_network,
)
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints
from fadiff_mapper.inputs.spec.spec import metric_of
from fadiff_mapper.network.plan_certificate import mapping_text
from tests.analysis.test_certificate import changed, numbers
from tests.network.test_kept_residuals import blocks
from tests.network.test_network_bound import convolutions, with_operators
from tests.network.test_trees_in_plans import attention


def pair() -> Workload:
    return convolutions((8, 3, 2, 1), (8, 3, 1, 8), channels=4, size=16)


def typed() -> Workload:
    """A pair whose elements have bits, and whose layers no certificate covers."""
    network = nn.Sequential(nn.Conv2d(8, 16, 1, bias=False), nn.Conv2d(16, 16, 3, padding=1, bias=False))
    return load_network(network, torch.zeros(1, 8, 12, 12), bits={"Weights": 8, "Inputs": 8, "Outputs": 8})


CASES: dict[str, tuple[Callable[[], Workload], str, str]] = {   # network, design, metric
    "a pair": (pair, "arch/gemmini_small", "edp"),
    "least energy": (pair, "arch/gemmini_large", "energy"),
    "least cycles": (pair, "arch/gemmini_small", "delay"),
    "a chain": (lambda: convolutions((16, 1, 1, 1), (16, 3, 1, 16), (24, 1, 1, 1), channels=8, size=14),
                "arch/gemmini_small", "edp"),
    "second reads": (blocks, "arch/gemmini_large", "edp"),
    "trees": (lambda: attention(32, 2, 8), "arch/gemmini_small", "edp"),
    "units": (lambda: with_operators("residual"), "inference/mobile_npu", "edp"),
    "softmax": (lambda: with_operators("attention"), "inference/tpu_v4i_like", "edp"),
    "several homes": (pair, "arch/simba_like", "edp"),
    "bits": (typed, "arch/gemmini_small", "edp")}


@cache
def plan(case: str, fuse: bool = True) -> NetworkResult:
    network, design, metric = CASES[case]
    return map_network(network(), bundled_files.find(design), NetworkOptions(metric=metric, fuse=fuse, threads=1))


@cache
def certified(case: str, fuse: bool = True) -> str:
    return json.dumps(plan(case, fuse).certificate())


def checked(content: Any, case: str) -> str:
    return check(content, plan(case).workload, [layer.spec for layer in plan(case).layers])


@pytest.mark.parametrize("case", [
    pytest.param(case, marks=[pytest.mark.slow] if case == "softmax" else []) for case in CASES])
def test_the_checker_accepts_the_certificate_of_a_plan(case: str) -> None:
    content, result = json.loads(certified(case)), plan(case)
    assert "proved: no plan has less" in checked(content, case)
    assert content["value"] == metric_of(result.options["metric"], result.stats.energy_pj, result.stats.cycles)
    assert result.bound and content["bound"] >= result.bound * (1 - 2e-5)
    assert len(content["plan"]["groups"]) == len(result.groups)


def test_certificates_have_what_they_are_to_show() -> None:
    """The cases have plans with second reads, units and lasting tensors, and bounds by parts, proofs and both."""
    contents = {case: json.loads(certified(case)) for case in CASES if case != "softmax"}
    groups = [group for content in contents.values() for group in content["plan"]["groups"]]
    assert any(any(group["second_reads"]) for group in groups)
    assert any(group["units"] for group in groups)
    assert any("words" in group["group"] for content in contents.values() for group in content["groups"])
    assert sum(bool(content["groups"]) for content in contents.values()) > 5
    assert sum(any(line["layers"] for line in content["lines"]) for content in contents.values()) > 3
    assert not any(line["layers"] for line in contents["bits"]["lines"])


def test_a_plan_of_layers_by_themselves_is_certified() -> None:
    content = json.loads(certified("a chain", fuse=False))
    assert not content["groups"] and not content["plan"]["groups"]
    assert "proved" in checked(content, "a chain")
    with pytest.raises(Rejected):   # a claim about fused plans, too
        checked({**content, "fused": True}, "a chain")


@pytest.mark.parametrize(("case", "changes"), [("a pair", 40), *(
    pytest.param(case, 60, marks=pytest.mark.slow) for case in CASES if case not in ("a pair", "softmax"))])
def test_no_certificate_with_one_changed_number_is_accepted(case: str, changes: int) -> None:
    content, rng = json.loads(certified(case)), random.Random(3)
    for place in rng.sample(places := numbers(content), min(changes, len(places))):
        with pytest.raises(Rejected):
            checked(changed(content, place, rng), case)


def trees(content: Any) -> list[tuple[Any, Any]]:
    """All parts of groups that are divided or bounded, each with its list."""
    found = [(parts, place) for group in content["groups"] for parts in [group["parts"]] for place in range(len(parts))]
    for parts, place in found:
        if isinstance(parts[place], dict):
            found += [(parts[place]["parts"], own) for own in range(len(parts[place]["parts"]))]
    return found


def test_a_part_cannot_be_left_out_or_divided_otherwise() -> None:
    for number in range(len(trees(json.loads(certified("a pair"))))):
        content = json.loads(certified("a pair"))
        parts, place = trees(content)[number]
        if parts[place] is None:
            continue
        before, parts[place] = parts[place], None
        with pytest.raises(Rejected, match="a part is left out"):
            checked(content, "a pair")
        if isinstance(before, dict):
            parts[place] = {**before, "parts": before["parts"][1:]}
            with pytest.raises(Rejected):
                checked(content, "a pair")
            parts[place] = {**before, "by": ["tiles", "M"]}
            if before["by"] != ["tiles", "M"]:
                with pytest.raises(Rejected):
                    checked(content, "a pair")


def test_a_plan_must_be_legal_and_whole() -> None:
    for change in (lambda plan: plan["groups"].clear(), lambda plan: plan["layers"].update(first=[]),
                   lambda plan: plan["groups"].append(plan["groups"][0]),
                   lambda plan: plan["groups"][0].update(loops={"M": 1}),
                   lambda plan: plan["groups"][0]["layers"][0]["tiles"].clear()):
        content = json.loads(certified("second reads"))
        change(content["plan"])
        with pytest.raises(Rejected):
            checked(content, "second reads")


def test_a_mapping_that_the_design_does_not_allow_is_rejected() -> None:
    """A better mapping without the constraints, one with residual factors, one that switches off reuse."""
    spec, content = plan("a pair", fuse=False).layers[0].spec, json.loads(certified("a pair", fuse=False))
    node = plan("a pair", fuse=False).layers[0].nodes[0]
    open_spec = replace(spec, constraints=Constraints(tuple(LevelConstraints() for _ in spec.constraints.levels)))
    text = content["plan"]["layers"][node]
    for other, reason in ((mapping_text(map_layer(open_spec).mapping, spec.arch, spec.problem), "breaks|must"),
                          (re.sub(r"P=1\b", "P=3", re.sub(r"P=8\b", "P=3,2", text, count=1), count=1), "class"),
                          (text.replace("permutation", "no_reuse: [Weights]\n    permutation", 1), "class")):
        assert other != text
        with pytest.raises(Rejected, match=reason):
            checked({**content, "plan": {**content["plan"], "layers": {**content["plan"]["layers"], node: other}}},
                    "a pair")


def test_lines_whose_numbers_over_or_underflow_are_rejected() -> None:
    lines = [(1.0, 0.0, 2.0), (0.5, 0.5, 4.0), (0.0, 1.0, 3.0)]
    assert least_metric("edp", lines) == pytest.approx(12.0)
    for scale in (1e-81, 1e-170, 1e160, nan, inf, -1.0):
        with pytest.raises(Rejected):
            least_metric("edp", [*lines[:2], tuple(scale * number for number in lines[2])])  # type: ignore[list-item]
    for wrong in ([lines[1], lines[0], lines[2]], lines[:2], lines[1:], [(1, 0.0, 2.0), *lines[1:]]):
        with pytest.raises(Rejected):
            least_metric("edp", wrong)


def test_a_value_below_the_bound_and_numbers_of_any_size_are_rejected() -> None:
    content = json.loads(certified("a pair"))
    for change in ({"value": content["bound"] * 0.9}, {"value": 10 ** 400}, {"bound": 10 ** 400}, {"fused": "yes"},
                   {"lines": [{**line, "least": 10 ** 400} for line in content["lines"]]}):
        with pytest.raises(Rejected):
            checked({**content, **change}, "a pair")


def test_the_certificate_of_another_network_or_design_and_nonsense_are_rejected() -> None:
    content = json.loads(certified("a pair"))
    for case in ("a chain", "least energy"):
        with pytest.raises(Rejected):
            checked(content, case)
    for nonsense in ({}, [], {**content, "groups": 3}, {**content, "lines": []}, {**content, "plan": None}):
        with pytest.raises(Rejected):
            checked(nonsense, "a pair")


def test_commands_write_and_check_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network, target = tmp_path / "net.yaml", tmp_path / "proof.json"
    network.write_text("""workload:
  version: 1
  name: pair
  inputs: {input: [1, 3, 32, 32]}
  shapes:
  - {id: conv, op: conv, dims: {N: 1, M: 8, C: 3, P: 16, Q: 16, R: 3, S: 3}, stride: [2, 2]}
  - {id: depthwise, op: depthwise, dims: {N: 1, G: 8, M: 1, C: 1, P: 16, Q: 16, R: 3, S: 3}, stride: [1, 1]}
  graph:
  - {name: conv1, shape: conv, from: [input]}
  - {name: dw1, shape: depthwise, from: [conv1]}
""")
    inputs = [str(network), "bundled:arch/gemmini_small"]
    assert main(["network", *inputs, "-o", str(tmp_path / "out"), "--certificate", str(target), "--quiet"]) == 0
    assert validate(["certificate", str(target), *inputs]) == 0
    assert capsys.readouterr().out.startswith("pair: proved: no plan has less edp than")
    content = json.loads(target.read_text(encoding="utf-8"))
    target.write_text(json.dumps({**content, "bound": content["bound"] * 1.01}), encoding="utf-8")
    assert validate(["certificate", str(target), *inputs]) == 1
    assert capsys.readouterr().err.startswith("certificate: the bound is ")
    assert validate(["certificate", str(target), inputs[0]]) == 2
    assert validate(["certificate", str(target), *reversed(inputs)]) == 2


def test_a_plan_without_a_gap_has_no_certificate() -> None:
    result = map_network(pair(), "bundled:arch/gemmini_small", time_limit=0.001)
    assert result.bound is None
    with pytest.raises(FadiffError, match="accepted: a plan with a gap"):
        result.certificate()
