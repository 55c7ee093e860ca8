"""Measured cycles of Gemmini: the correction beats the exact model where it counts; bad tables and files are refused.

`data/gemmini_rtl_cycles.csv` has the points that searches proposed and every fifth other point of DOSA's measurements
(Hong et al., MICRO 2023): cycles of Gemmini's RTL under FireSim. `benchmarks/calibration.py` judges on all of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import yaml

from fadiff_mapper import read_space
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.calibration.calibrate import calibrate
from fadiff_mapper.calibration.correction import Calibration, calibration_text, read_calibration
from fadiff_mapper.calibration.measured_points import MeasuredLayer, read_measured
from fadiff_mapper.cli import main
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.search_design import search_design
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.workload import Node, Workload, build_workload
from fadiff_mapper.workload.operator import make_operator
from fadiff_mapper.workload.readers.network_text import network_text

TABLE = Path(__file__).parents[1] / "data" / "gemmini_rtl_cycles.csv"
SPACE = "bundled:spaces/dosa_gemmini"
HEAD = "R,S,P,Q,C,K,N,mapping,rtl_cycles\n"
ROW = "1,1,1,1,4,8,1,L3[WIO] K2 - L2[WI] K4X - L1[O] C4X - L0[W] N1,500\n"


@cache
def measured() -> tuple[MeasuredLayer, ...]:
    return read_measured(TABLE, read_document(SPACE))


@cache
def calibration() -> Calibration:
    return calibrate(measured())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "model.json"
    file.write_text(calibration_text(calibration()), encoding="utf-8")
    return file


@pytest.mark.slow
def test_unseen_layers_and_searched_points_are_predicted_better_than_by_the_exact_model() -> None:
    found = calibration()
    assert found.program == "gemmini"
    assert found.unseen.exact_spearman < 0.88 and found.unseen.spearman > 0.97
    assert found.unseen.error < found.unseen.exact_error / 2
    assert found.searched is not None and found.searched.points == 222
    assert found.searched.exact_spearman == pytest.approx(0.9727, abs=1e-3)
    assert found.searched.spearman > 0.985 and found.searched.error < 0.16 < found.searched.exact_error


def test_searched_points_are_not_learned_from() -> None:
    without = tuple(layer for layer in measured() if not layer.searched.all())
    assert any(layer.searched.any() for layer in without)
    alone = calibrate(without, program="gemmini")
    assert alone.coefficients == pytest.approx(calibration().coefficients, rel=1e-6)


def test_a_file_comes_back_as_it_was(model: Path) -> None:
    assert read_calibration(model) == calibration()


@pytest.mark.parametrize(("change", "reason"), [
    (lambda content: content.clear(), "found no calibration"),
    (lambda content: content.update(fadiff_calibration=2), r"found a number \(2\); accepted: 1"),
    (lambda content: content.update(program="run"), r"program: found a string \('run'\); accepted: as-mapped, gemmini"),
    (lambda content: content.update(program={}), "program: found a mapping; accepted: as-mapped, gemmini"),
    (lambda content: content.update(norm=10 ** 400), "norm: found a number of 1329 bits; accepted: a number from 1 to"),
    (lambda content: content.update(norm=0.5), r"norm: found a number \(0.5\); accepted: a number from 1"),
    (lambda content: content.update(levels=[]), "levels: found"),
    (lambda content: content.update(more=1), "found the keys more"),
    (lambda content: content["cycles_per"].update(steps=-1.0), r"cycles_per.steps: found a number \(-1.0\)"),
    (lambda content: content["cycles_per"].update(tile=0.0), r"cycles_per.tile: found a number \(0.0\)"),
    (lambda content: content["cycles_per"].pop("steps"), "cycles_per: accepted: a number for each"),
    (lambda content: content["unseen_layers"].update(spearman=0.1), "does not beat the exact model"),
])
def test_another_file_is_refused(model: Path, change: Callable[[dict[str, object]], None], reason: str) -> None:
    content = json.loads(model.read_text(encoding="utf-8"))
    change(content)
    model.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(FadiffError, match=reason):
        read_calibration(model)
    if reason == "does not beat the exact model":
        assert read_calibration(model, force=True).unseen.spearman == 0.1


@pytest.mark.parametrize(("text", "reason"), [
    ("", "found the columns none"),
    ("a,b\n1,2\n", "found the columns a, b"),
    (HEAD, "no rows"),
    (HEAD + ROW.replace("500", "-1"), '2: cycles: found "-1"'),
    (HEAD + ROW.replace("500", "nan"), 'cycles: found "nan"'),
    (HEAD + ROW.replace("500", "1e-320"), 'cycles: found "1e-320"; accepted: a number of at least 1'),
    (HEAD + ROW.replace("1,1,1,1,4", "1,1,1,x,4"), 'Q: found "x"'),
    (HEAD + ROW.replace("K2", "K3"), "the factors of M multiply to 12"),
    (HEAD + "1,1\n", "not as many fields"),
    (HEAD + ROW, "found 1 layers to learn from; accepted: at least 5"),
])
def test_a_table_that_cannot_be_understood_is_refused_with_exit_code_2(
        text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = tmp_path / "table.csv", tmp_path / "model.json"
    table.write_text(text, encoding="utf-8")
    assert main(["calibrate", str(table), SPACE, "-o", str(output)]) == 2
    assert reason in capsys.readouterr().err
    assert not output.exists()


def test_a_table_of_a_spreadsheet_is_read_and_one_of_other_bytes_told_with_its_line(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "table.csv"
    table.write_text(HEAD + ROW, encoding="utf-8-sig")
    assert len(read_measured(table, read_document(SPACE))) == 1
    table.write_bytes((HEAD + ROW).encode() + b"1,\xff\n")
    assert main(["calibrate", str(table), SPACE, "-o", str(tmp_path / "model.json")]) == 2
    assert capsys.readouterr().err == f"error: {table}:3: is not UTF-8 text; accepted: a table (CSV in UTF-8)\n"


def test_points_name_their_files(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(
        "problem,mapping,cycles,part\nlayer.yaml,map.yaml,1000,searched\n", encoding="utf-8")
    with pytest.raises(FadiffError, match=r"layer\.yaml"):
        read_measured(tmp_path / "table.csv", read_document(SPACE))


def design(tmp_path: Path) -> str:
    """The design at which DOSA's space stands, as a file of its own."""
    text = Path(bundled_files.one_path(SPACE)).read_text(encoding="utf-8")
    file = tmp_path / "gemmini.yaml"
    file.write_text(text[:text.index("design_space:")], encoding="utf-8")
    return str(file)


def small_network() -> Workload:
    layer = make_operator("conv", {"N": 1, "C": 64, "M": 64, "R": 1, "S": 1, "P": 8, "Q": 8})
    return build_workload("one", [Node("conv", "conv", (), layer=layer)])


def test_networks_report_corrected_cycles_of_their_layers_one_by_one(
        model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = tmp_path / "network.yaml"
    network.write_text(network_text(small_network()), encoding="utf-8")
    assert main(["network", str(network), design(tmp_path), "--energy", "dosa", "-o", str(tmp_path / "out"),
                 "--jobs", "1", "--calibration", str(model)]) == 0
    assert "no layers are fused: the calibration was measured on layers by themselves" in capsys.readouterr().out
    plan = yaml.safe_load((tmp_path / "out" / "plan.yaml").read_text(encoding="utf-8"))["plan"]
    assert plan["corrected_cycles"] == plan["layers"][0]["corrected_cycles"] != plan["cost"]["cycles"]
    assert plan["corrected_edp"] == pytest.approx(plan["corrected_cycles"] * plan["cost"]["energy_pj"])


def test_map_reports_corrected_cycles_and_leaves_timeloops(
        model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer = ["bundled:layers/resnet18/fc_512_1000", "--energy", "built-in", "--jobs", "1"]
    assert main(["map", design(tmp_path), *layer, "-o", str(tmp_path / "out"), "--calibration", str(model)]) == 0
    assert "corrected to measured hardware" in capsys.readouterr().out
    result = json.loads((tmp_path / "out" / "fadiff.result.json").read_text(encoding="utf-8"))
    corrected, stats = result["corrected"], result["stats"]
    assert corrected["cycles"] != stats["cycles"] and result["options"]["calibration"]["program"] == "gemmini"
    assert corrected["edp"] == pytest.approx(corrected["cycles"] * stats["energy_pj"])
    assert main(["evaluate", str(tmp_path / "out" / "fadiff.input.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["cycles"] == stats["cycles"]


def test_another_machine_is_refused(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "bundled:arch/eyeriss_like", "bundled:layers/resnet18/fc_512_1000", "-o",
                 str(tmp_path / "out"), "--calibration", str(model)]) == 2
    assert "accepted: those of the architecture that was measured" in capsys.readouterr().err


def test_designs_are_ranked_by_corrected_cycles(tmp_path: Path) -> None:
    network = small_network()
    options = DesignOptions(method="random", evaluations=2, neighbours=False, calibration=calibration())
    question = DesignQuestion(read_space(SPACE, energy="dosa"), (network,), (1.0,), options)
    found = search_design(question, DesignWorkers(1, store=tmp_path))
    assert found.best.cycles == pytest.approx(found.mapped_networks[0].corrected_cycles)
    assert found.best.cycles != found.mapped_networks[0].stats.cycles
    assert "corrected" in found.status
    assert not found.mapped_networks[0].groups and not found.options["fuse"]
