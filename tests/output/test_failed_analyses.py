"""What is made of a result when a search has ended may fail: the result stays, and a sentence says what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
from recorded_cases import RECORDED, recording
from small_machine import machine
from small_network import result as small_plan
from small_specs import product

import fadiff_mapper as fm
from fadiff_mapper.cli import main

QUICK = fm.SearchOptions(effort="light")
WORDS = ("--effort", "light", "--quiet")

CONVOLUTION = """problem:
  version: 0.4
  shape:
    name: conv
    dimensions: [C, M, P, Q, R, S, N]
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - {name: Inputs, projection: [[[N]], [[C]], [[R], [P]], [[S], [Q]]]}
    - {name: Outputs, projection: [[[N]], [[M]], [[P]], [[Q]]], read_write: true}
  instance: {C: 4, M: 8, P: 8, Q: 8, R: 3, S: 3, N: 1}
"""


def fails(*_: Any, **__: Any) -> NoReturn:
    raise IndexError("index 21 is out of bounds\nfor an axis")


SENTENCE = "IndexError: index 21 is out of bounds for an axis"


@pytest.fixture
def problem(tmp_path: Path) -> Path:
    path = tmp_path / "problem.yaml"
    path.write_text(CONVOLUTION)
    return path


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "fadiff.result.json").read_text())
    return found


def test_sensitivities_of_windows_that_lie_over_a_fan_out_alone(problem: Path, tmp_path: Path) -> None:
    """No temporal loop is left outside of the windows of the mapping that this search ends with."""
    assert main(["map", "bundled:arch/simba_like", str(problem), "--metric", "delay", "--sensitivities", "--energy",
                 "bundled", "--quiet", "-o", str(tmp_path / "out")]) == 0
    assert stored(tmp_path / "out")["sensitivities"]


def test_sensitivities(problem: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("fadiff_mapper.search.explanation.sensitivities.shadow_prices", fails)
    assert main(["map", "bundled:arch/gemmini_small", str(problem), "--sensitivities", *WORDS[:-1], "--energy",
                 "bundled", "-o", str(tmp_path / "out")]) == 0
    found = stored(tmp_path / "out")
    assert found["status"].endswith(f"; no sensitivities: {SENTENCE}")
    assert found["sensitivities"] == []
    assert found["bound"] is not None
    said = capsys.readouterr()
    assert f"no sensitivities: {SENTENCE}" in said.out
    assert "<< Compute >>" in said.out
    assert "Traceback" not in said.err
    assert main(["explain", str(tmp_path / "out")]) == 0
    explained = capsys.readouterr().out
    assert f"no sensitivities: {SENTENCE}" in explained
    assert "reads of Weights at DRAM = " in explained


def test_sensitivities_of_a_sparse_design_are_refused_before_the_search(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorded = recording(RECORDED.with_name("timeloop_sparse.jsonl.gz"))
    arch, problem = recorded["arch"]["gate_mac"], recorded["problem"]["mm_8"]["problem"]
    gating = {"targets": [{"name": "Loc", "action_optimization": [
        {"type": "gating", "target": "B", "condition_on": ["A"]}]}]}
    path = tmp_path / "sparse.yaml"
    path.write_text(json.dumps({
        "architecture": arch["native"], "ERT": arch["ert"], "sparse_optimizations": gating, "problem": {
            **problem, "instance": {**problem["instance"], "densities": {"A": 0.5}}}}))
    assert main(["map", str(path), "--sensitivities", "-o", str(tmp_path / "out")]) == 2
    assert "not known for sparse designs" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lower_bound(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fadiff_mapper.search.map_layers.least_of", fails)
    for found in fm.map_layers([product(), product()], fm.SearchOptions(threads=threads, effort="light")):
        assert found.bound is None
        assert found.stats.cycles > 0
        assert found.status.endswith(f"; no lower bound: {SENTENCE}")


def test_the_lower_bound_of_a_layer_of_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fadiff_mapper.search.map_layers.least_of", fails)
    found = fm.map_network(small_plan().workload, "bundled:arch/gemmini_small", fm.NetworkOptions(fuse=False))
    assert found.stats.cycles > 0
    assert all(layer.result.status.endswith(SENTENCE) for layer in found.layers)


def test_a_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other problems keep their mappings."""
    monkeypatch.setattr("fadiff_mapper.search.diagnosis.diagnosis", fails)
    full = product(mapspace_constraints={"targets": [{"target": "Buffer", "type": "utilization", "min": 1.0},
                                                     {"target": "Buffer", "type": "bypass", "keep": ["A", "B", "Z"]}]})
    buffer, dram = full.arch.levels
    impossible = replace(full, arch=replace(full.arch, levels=(replace(buffer, size=7), dram)))
    found: list[int] = []
    with pytest.raises(fm.FadiffError, match=f"no legal mapping was found in .* no diagnosis: {SENTENCE}"):
        fm.map_layers([impossible, product()], QUICK, on_better=lambda index, _: found.append(index))
    assert set(found) == {1}


def test_the_page_and_the_looptree_inputs_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = "fadiff_mapper.output.network_files"
    for name in ("network_html", "beyond_looptree"):
        monkeypatch.setattr(f"{network}.{name}", fails)
    small_plan().write(tmp_path)
    assert (tmp_path / "plan.yaml").stat().st_size > 100
    assert json.loads((tmp_path / "fadiff.network.json").read_text())["cycles"] > 0
    assert (tmp_path / "report.html").read_text() == f"<p>no page: {SENTENCE}</p>"
    assert (tmp_path / "groups" / "1" / "looptree.txt").read_text() == f"no input of LoopTree: {SENTENCE}\n"


@pytest.mark.parametrize(("name", "words"), [("best_sensitivities", f"no sensitivities: {SENTENCE}"),
                                             ("design_html", f"<p>no page: {SENTENCE}</p>")])
def test_the_page_of_a_design(name: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"fadiff_mapper.output.design_files.{name}", fails)
    machine("edp").write(tmp_path)
    assert json.loads((tmp_path / "fadiff.design.json").read_text())["front"]
    assert (tmp_path / "architecture.yaml").exists()
    assert (tmp_path / "three" / "plan.yaml").exists()
    assert words in (tmp_path / "design.html").read_text()


@pytest.mark.parametrize("what", ["mappings of the best design", "figures by Accelergy"])
def test_last_figures_and_mappings_of_a_design(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if what.startswith("mappings"):
        monkeypatch.setattr("fadiff_mapper.design.evaluate_design.DesignBench.networks_at", fails)
    else:
        monkeypatch.setattr("fadiff_mapper.design.search_design.installed", lambda: "accelergy")
        monkeypatch.setattr("fadiff_mapper.design.search_design.evaluate_design", fails)
    options = fm.DesignOptions(method="random", evaluations=1, neighbours=False, fuse=False)
    found = fm.search_design("bundled:spaces/gemmini_small", [small_plan().workload], options,
                             workers=fm.DesignWorkers(jobs=1))
    found.write(tmp_path)
    assert f"no {what}: {SENTENCE}" in (tmp_path / "fadiff.design.json").read_text()
    assert (tmp_path / "architecture.yaml").exists()
    assert "<html" in (tmp_path / "design.html").read_text()
