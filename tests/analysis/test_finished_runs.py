"""`explain` on folders: whole ones, broken ones, and ones whose numbers do not repeat."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from small_specs import product

from fadiff_mapper import SearchOptions, map_layer
from fadiff_mapper.cli import main
from fadiff_mapper.search.explanation.explain_run import explain_run, read_run


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    map_layer(product(), SearchOptions(effort="light")).write(folder)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy that may be broken."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def error(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a failing command prints."""
    assert main(["explain", *map(str, arguments)]) == 2
    line, = capsys.readouterr().err.splitlines()
    return line


def test_everything_is_shown(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(finished)]) == 0
    said = capsys.readouterr().out
    for expected in ("<< Compute >>", "EDP is the best possible; bound: time: ", "the bound's parts",
                     "sensitivity of edp", "shared_bandwidth", "continuous optimum", "reads of A at DRAM = ",
                     "updates of Z at DRAM = "):
        assert expected in said


def test_one_count_is_shown_alone(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(finished), "--count", "DRAM", "Z", "updates"]) == 0
    line, = capsys.readouterr().out.splitlines()
    stats = json.loads((finished / "fadiff.result.json").read_text())["stats"]
    count = stats["levels"][-1]["dataspaces"]["Z"]["updates"]
    assert line.startswith("updates of Z at DRAM = ") and f" = {count}" in line


def test_json_holds_all_of_it(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(finished), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    stored = json.loads((finished / "fadiff.result.json").read_text())
    assert said["bound"] == stored["bound"] and said["bound"]["gap"] >= 0
    energies = [part["value"] for part in said["bound"]["parts"] if part["metric"] == "energy"]
    delays = [part["value"] for part in said["bound"]["parts"] if part["metric"] == "delay"]
    assert 0 < sum(energies) * max(delays) <= said["bound"]["edp"] * (1 + 1e-9)  # branch and bound raises it further
    assert {one["basis"] for one in said["sensitivities"]} == {"fixed mapping", "continuous optimum"}
    reads = {(one["level"], one["dataspace"]): one["count"] for one in said["counts"] if one["action"] == "reads"}
    for level in stored["stats"]["levels"]:
        for name, space in level["dataspaces"].items():
            assert reads[level["name"], name] == space["reads"]


@pytest.mark.parametrize(("count", "said"), [
    (("Bufer", "A", "reads"), 'unknown level "Bufer" (did you mean "Buffer"?)'),
    (("Buffer", "Inputs", "reads"), 'unknown data space "Inputs"'),
    (("Buffer", "A", "read"), 'unknown action "read" (did you mean "reads"?)'),
    (("DRAM", "A", "updates"), "DRAM has no updates of A in this mapping")])
def test_a_count_that_is_not_there(finished: Path, capsys: pytest.CaptureFixture[str], count: tuple[str, ...],
                                   said: str) -> None:
    assert said in error(capsys, finished, "--count", *count)


def test_a_folder_that_is_none_or_is_no_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no such folder" in error(capsys, tmp_path / "nowhere")
    assert "fadiff.input.yaml, fadiff.result.json not found" in error(capsys, tmp_path)


@pytest.mark.parametrize("name", ["fadiff.input.yaml", "fadiff.result.json"])
def test_a_folder_that_is_half_there(run: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (run / name).unlink()
    assert f"{name} not found" in error(capsys, run)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"stats": {"cycles": "many", "energy_pj": 1}}',
                                  '{"stats": {"cycles": NaN, "energy_pj": 1}}'])
def test_a_result_that_is_broken(run: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    (run / "fadiff.result.json").write_text(text)
    assert "fadiff.result.json" in error(capsys, run)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_a_bound_with_numbers_that_no_run_writes(run: Path, capsys: pytest.CaptureFixture[str], value: float) -> None:
    found = json.loads((run / "fadiff.result.json").read_text())
    for entries in (found["bound"]["parts"][0], found["bound"]):
        before, entries["value"] = entries["value"], value
        (run / "fadiff.result.json").write_text(json.dumps(found))
        assert "bound cannot be understood" in error(capsys, run)
        entries["value"] = before


def test_numbers_that_do_not_repeat(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (run / "fadiff.result.json").read_text()
    cycles = json.loads(text)["stats"]["cycles"]
    (run / "fadiff.result.json").write_text(text.replace(f'"cycles": {cycles}', f'"cycles": {cycles + 1}'))
    assert f"the numbers do not repeat: fadiff.result.json says cycles {cycles + 1}" in error(capsys, run)


@pytest.mark.parametrize("bound", ["null", '"none"', "{}", '{"metric": "beauty", "parts": 3}'])
def test_a_result_without_a_bound(run: Path, capsys: pytest.CaptureFixture[str], bound: str) -> None:
    found = json.loads((run / "fadiff.result.json").read_text())
    (run / "fadiff.result.json").write_text(json.dumps(found | {"bound": json.loads(bound)}))
    if bound == "null":
        assert main(["explain", str(run)]) == 0
        assert "no lower bound is stored with this run" in capsys.readouterr().out
    else:
        assert "bound" in error(capsys, run)


def test_map_stores_sensitivities_where_asked(tmp_path: Path) -> None:
    arguments = ["map", "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000", "-o", str(tmp_path),
                 "--energy", "bundled", "--quiet", "--effort", "light"]
    assert main(arguments) == 0
    assert json.loads((tmp_path / "fadiff.result.json").read_text())["sensitivities"] == []
    assert main([*arguments, "--sensitivities"]) == 0
    stored = json.loads((tmp_path / "fadiff.result.json").read_text())["sensitivities"]
    assert stored == explain_run(read_run(tmp_path)).to_dict()["sensitivities"]
