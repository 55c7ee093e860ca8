"""Certificates of designs: the checker accepts them, and none that claims more or of which one number was changed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fadiff_validation.check_certificate import Rejected
from fadiff_validation.check_designs import check
from fadiff_validation.cli import main as validate
from small_spaces import NETWORK, SECTION, small_question

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.design.question import DesignWorkers
from fadiff_mapper.design.result import DesignResult
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.design.space import read_space
from tests.analysis.test_certificate import changed, numbers
from tests.network.test_network_bound import with_operators

LIMITED = SECTION + "  limits: {area_mm2: 0.3, depth * columns: 65536}\n"
"""A space of which some designs are beyond a limit."""

CASES: dict[str, tuple[bool, str, str, tuple[float, ...]]] = {  # fused, metric, section of the space, weights
    "layers": (False, "edp", SECTION, (1.0,)),
    "fused": (True, "edp", SECTION, (1.0,)),
    "least energy": (False, "energy", SECTION, (1.0,)),
    "least cycles": (True, "delay", SECTION, (1.0,)),
    "area": (True, "area", SECTION, (1.0,)),
    "with area": (False, "edap", LIMITED, (1.0,)),
    "a product": (False, "edp*energy", LIMITED, (2.0,)),
    "two networks": (True, "edp", LIMITED, (0.5, 3.0))}


@cache
def searched(case: str) -> DesignResult:
    fuse, metric, section, weights = CASES[case]
    with TemporaryDirectory() as folder:
        question = small_question(Path(folder), section, fuse=fuse, metrics=(metric,), gap=0.0, method="bounds")
        networks = (*question.networks, with_operators("residual"))[:len(weights)]
        return search_design(replace(question, networks=networks, weights=weights), DesignWorkers(1))


@cache
def certified(case: str) -> str:
    return json.dumps(searched(case).certificate())


def checked(content: Any, case: str, **other: Any) -> str:
    question = searched(case).question
    return check(content, *({"space": question.space, "networks": question.networks, "weights": question.weights}
                            | other).values())


@pytest.mark.parametrize("case", CASES)
def test_the_checker_accepts_the_certificate_of_a_design(case: str) -> None:
    content, result = json.loads(certified(case)), searched(case)
    assert (f"on any of {result.space_size - result.refused} valid designs, of {result.space_size}, has less "
            f"{result.metrics[0]} than") in checked(content, case)
    assert content["value"] == result.best.of(result.metrics[0])
    assert result.bound and content["bound"] >= result.bound * (1 - 1e-8)
    assert len(content["best"]["plans"]) == len(result.mapped_networks)


def test_certificates_have_what_they_are_to_show() -> None:
    """Designs bounded by multiply-accumulates alone, by proofs of layers, by divided groups, and beyond a limit."""
    contents = {case: json.loads(certified(case)) for case in CASES}
    assert any(len(content["designs"]) < 12 - searched(case).refused for case, content in contents.items())
    assert any(searched(case).refused for case in CASES)
    proved = [network for content in contents.values() for design in content["designs"]
              for network in design["networks"]]
    assert any(line["layers"] for network in proved for line in network["lines"])
    assert any(network["groups"] for network in proved)
    assert any(plan["groups"] for content in contents.values() for plan in content["best"]["plans"])


@pytest.mark.parametrize(("case", "changes"), [("layers", 30), ("fused", 30), *(
    pytest.param(case, 60, marks=pytest.mark.slow) for case in CASES)])
def test_no_certificate_with_one_changed_number_is_accepted(case: str, changes: int) -> None:
    content, rng = json.loads(certified(case)), random.Random(5)
    for place in rng.sample(places := numbers(content), min(changes, len(places))):
        with pytest.raises(Rejected):
            checked(changed(content, place, rng), case)


def test_a_certificate_that_leaves_a_design_out_is_rejected() -> None:
    content = json.loads(certified("layers"))
    least = min(content["designs"], key=lambda one: one["networks"][0]["lines"][1]["least"])
    without = [one for one in content["designs"] if one is not least]
    for designs, reason in ((without, "the bound is"), ([*content["designs"], least], "a design twice"), (
            [*without, {**least, "parameters": {"columns": 5, "depth": 512}}], "a design that is none")):
        with pytest.raises(Rejected, match=reason):
            checked({**content, "designs": designs}, "layers")


def test_a_certificate_of_another_question_is_rejected() -> None:
    content, question = json.loads(certified("two networks")), searched("two networks").question
    for other in ({"weights": (1.0, 3.0)}, {"networks": question.networks[::-1]}, {"networks": question.networks[:1]},
                  {"space": replace(question.space, name="other")}, {"space": replace(question.space, limits={})},
                  {"space": replace(question.space, parameters=question.space.parameters[:1])}):
        with pytest.raises(Rejected):
            checked(content, "two networks", **other)
    for claim in ({"fused": False}, {"metric": "energy"}, {"metric": "speed"}, {"bound": content["bound"] * 1.001},
                  {"value": content["value"] * 0.999}, {"designs": 3}, {"best": None},
                  {"metric": "*".join(["energy"] * 20 + ["delay"] * 15)}):
        with pytest.raises(Rejected):
            checked({**content, **claim}, "two networks")


def test_a_plan_on_a_design_beyond_a_limit_is_rejected() -> None:
    content, question = json.loads(certified("fused")), searched("fused").question
    columns = content["best"]["parameters"]["columns"]
    with pytest.raises(Rejected, match="none"):
        checked(content, "fused", space=replace(question.space, limits={"columns": columns - 1}))


def test_commands_write_and_check_the_certificate_of_a_design(tmp_path: Path,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "space.yaml").write_text(SECTION, encoding="utf-8")
    (tmp_path / "network.yaml").write_text(NETWORK, encoding="utf-8")
    target, inputs = tmp_path / "proof.json", [
        str(tmp_path / "space.yaml"), str(tmp_path / "network.yaml"), "--arch", "bundled:arch/gemmini_small",
        "--limit", "area_mm2=0.3"]
    search = ["design", *inputs, "-o", str(tmp_path / "out"), "--certificate", str(target), "--quiet"]
    assert main(search) == 2 and "accepted: with --gap" in capsys.readouterr().err and not target.exists()
    assert main([*search, "--gap", "0", "--jobs", "1"]) == 0
    assert validate(["certificate", str(target), *inputs]) == 0
    assert capsys.readouterr().out.startswith("space: proved: no plan on any of 8 valid designs, of 12, has less edp")
    assert validate(["certificate", str(target), *inputs[:-1], "area_mm2=0.1"]) == 1
    assert validate(["certificate", str(target), *inputs, "--weights", "2"]) == 1
    assert validate(["certificate", str(target), inputs[1]]) == 2
    target.write_text("{}", encoding="utf-8")
    assert validate(["certificate", str(target), *inputs]) == 2 and "--arch: found with" in capsys.readouterr().err


def test_a_design_without_a_gap_has_no_certificate(tmp_path: Path) -> None:
    result = search_design(small_question(tmp_path, evaluations=2, method="random"), DesignWorkers(1))
    with pytest.raises(FadiffError, match="accepted: a search with a gap that ended in time"):
        result.certificate()


def test_sparse_designs_have_no_certificate(tmp_path: Path) -> None:
    """Multiply-accumulates that are skipped cost nothing, so designs without an entry would not be bounded."""
    text = bundled_files.find("arch/gemmini_small").read_text(encoding="utf-8")
    (tmp_path / "sparse.yaml").write_text(text.replace("    class: intmac\n", (
        "    class: intmac\n    sparse_optimizations: {compute_optimization: [{type: gating}]}\n")), encoding="utf-8")
    (tmp_path / "gemmini_small.yaml").write_text(SECTION, encoding="utf-8")
    space = read_space(tmp_path / "gemmini_small.yaml", tmp_path / "sparse.yaml")
    with pytest.raises(Rejected, match="a sparse design, which has no bound"):
        checked(json.loads(certified("layers")), "layers", space=space)
