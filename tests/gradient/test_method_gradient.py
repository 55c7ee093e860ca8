"""`--method gradient` from the command line to the written files: a layer, a network and a space of designs."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from design_texts import SPACE
from small_specs import TWO_LAYERS

from fadiff_mapper import evaluate, load
from fadiff_mapper.cli import main
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.space import Point, parameter_values
from fadiff_mapper.gradient.hardware_descent import descended_designs

DESIGN, LAYER = "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000"
GRADIENT = ("--method", "gradient", "--jobs", "1", "--quiet", "-o", "out")


@pytest.fixture(autouse=True)
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder with a network and a space of designs."""
    monkeypatch.chdir(tmp_path)
    Path("network.yaml").write_text(TWO_LAYERS)
    Path("space.yaml").write_text(SPACE)


@pytest.mark.parametrize("model", ["refined", "paper"])
def test_a_layer_is_descended_then_annealed_on_the_exact_model(model: str) -> None:
    assert main(["map", DESIGN, LAYER, "--energy", "bundled", "--effort", "light", "--model", model, *GRADIENT]) == 0
    result = json.loads(Path("out/fadiff.result.json").read_text())
    assert (result["options"]["method"], result["options"]["model"]) == ("gradient", model)
    stages = [step["stage"] for step in result["history"]]
    assert "descent" in stages and stages[-1] == "refine", "the annealing improves on the ends of the descents"
    assert evaluate(load("out/fadiff.input.yaml")).edp == result["stats"]["edp"]


def test_a_network_has_the_fusion_that_the_descent_found() -> None:
    assert main(["network", "network.yaml", DESIGN, "--energy", "bundled", *GRADIENT]) == 0
    plan = yaml.safe_load(Path("out/plan.yaml").read_text())["plan"]
    assert plan["options"]["method"] == "gradient"
    group, = plan["groups"]
    assert group["nodes"] == ["first", "second"] and plan["cost"]["edp"] < plan["unfused_cost"]["edp"]
    sigma, = group["sigma"]
    assert 0.5 < sigma <= 1, "the relaxed decision to fuse, of the one link"


def test_designs_come_from_descents_of_the_hardware(monkeypatch: pytest.MonkeyPatch) -> None:
    ends: list[tuple[object, ...]] = []

    def recorded(question: DesignQuestion, *arguments: Any) -> list[Point]:
        found = descended_designs(question, *arguments)
        ends.extend(tuple(parameter_values(question.space, point).values()) for point in found)
        return found

    monkeypatch.setattr("fadiff_mapper.gradient.hardware_descent.descended_designs", recorded)
    assert main(["design", "space.yaml", "network.yaml", "--no-fusion", "--evaluations", "6", *GRADIENT]) == 0
    assert json.loads(Path("out/fadiff.design.json").read_text())["options"]["method"] == "gradient"
    with open("out/designs.csv", encoding="utf-8") as file:
        mapped = {(int(row["columns"]), int(row["rows"]), int(row["depth"])) for row in csv.DictReader(file)
                  if row["mapped"] == "True"}
    assert mapped & set(ends)
