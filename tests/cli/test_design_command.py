"""`design` and `check` of a space on the command line: files, fronts, shards, and one line for every mistake."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from design_texts import PAIR, SPACE

from fadiff_mapper.cli import main
from fadiff_mapper.design.result_store import ResultStore


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a space and a network."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "space.yaml").write_text(SPACE)
    (tmp_path / "pair.yaml").write_text(PAIR)
    return tmp_path


def test_check_prints_a_space_with_its_size(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "space.yaml"]) == 0
    printed = capsys.readouterr().out
    for expected in ("Rows.spatial.meshY", "4, 8, 16", "2 * columns", "limit: area_mm2 at most 3",
                     "least values: columns 4, rows 4, depth 256: 16 units", "size: 27 designs"):
        assert expected in printed


def test_check_counts_variables_of_templates(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (given / "template.yaml").write_text(SPACE.split("design_space")[0].replace("meshX: 4", "meshX: {{ side }}"))
    assert main(["check", "template.yaml", "--vary", "side=2:32:x2"]) == 0
    assert "size: 5 designs" in capsys.readouterr().out


@pytest.mark.slow
def test_a_front_is_found_written_and_printed(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["design", "space.yaml", "pair.yaml", "-o", "out", "--method", "random", "--evaluations", "2", "--jobs=1",
             "--no-fusion", "--metric", "edp", "--metric", "area", "--limit", "columns * rows=128", "--weights", "3"]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert "hypervolume of the front" in printed and "written to out" in printed
    with open("out/designs.csv", encoding="utf-8") as file:
        designs = list(csv.DictReader(file))
    assert sum(row["mapped"] == "True" for row in designs) >= 2    # and neighbours of the best, while one is better
    assert all(int(row["columns"]) * int(row["rows"]) <= 128 for row in designs if row["feasible"] == "True")
    best = json.loads((given / "out/fadiff.design.json").read_text())["front"][0]
    plan = json.loads((given / "out/pair/fadiff.network.json").read_text())
    assert best["energy_pj"] == pytest.approx(3 * plan["energy_pj"], rel=1e-12)
    assert best["area_mm2"] == pytest.approx(plan["area_mm2"], rel=1e-12)
    assert main(["evaluate", "out/pair/layers/conv1/fadiff.input.yaml", "--json"]) == 0
    stats = json.loads(capsys.readouterr().out)
    assert stats["area_mm2"] == pytest.approx(best["area_mm2"], rel=1e-12)


@pytest.mark.parametrize(("words", "said"), [
    (["--weights", "1,0"], "numbers above 0"), (["--weights", "1,2"], "found 2 for 1 networks"),
    (["--limit", "area_mm2"], "accepted: NAME=VALUE"), (["--limit", "area_mm=3"], 'did you mean "area_mm2"'),
    (["--shard", "4/3"], "accepted: I/N"), (["--method", "guess"], "gradient, random"),
    (["--metric", "speed"], "found 'speed'"), (["--vary", "side"], "NAME=RANGE"),
    (["--arch", "none.yaml"], "none.yaml: no such file"),
    (["--limit", "area_mm2=0.0001", "--method", "random", "--evaluations", "1", "--jobs", "1"], "area_mm2")])
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(given: Path, words: list[str], said: str,
                                                              capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["design", "space.yaml", "pair.yaml", "-o", "out", *words])
    except SystemExit as ended:
        code = ended.code
    printed = capsys.readouterr().err
    assert code == 2
    assert said in printed and "Traceback" not in printed
    assert not (given / "out").exists()


@pytest.mark.slow
def test_a_store_that_says_what_is_not_so_fails_the_command(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["design", "space.yaml", "pair.yaml", "-o", "out", "--method", "exhaustive", "--evaluations", "1",
             "--no-fusion", "--jobs=1", "--quiet"]
    assert main(words) == 0
    assert capsys.readouterr().err == ""
    for line in [line for file in Path("out/store").glob("*.jsonl") for line in file.read_text().splitlines()]:
        known = json.loads(line)
        if "mapping" in known["entry"]:
            cycles = known["entry"]["cycles"] * 0.99
            ResultStore(Path("out/store")).put(known["key"], known["entry"] | {"cycles": cycles})
    assert main(words) == 1
    assert capsys.readouterr().err.startswith("warning: the best design, evaluated again, takes ")


def test_a_space_is_no_input_of_map(given: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["map", "space.yaml", "bundled:problems/conv", "-o", "out"]) == 2
    assert "this is a space of designs, for the command `design`" in capsys.readouterr().err
