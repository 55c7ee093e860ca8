"""fadiff-validate: the measures by hand, the recording that comes along, the report, the certificate."""

from __future__ import annotations

import csv
import gzip
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from fadiff_validation import cli, commands, recording
from fadiff_validation import ranking as ranking_module
from fadiff_validation.accuracy import accuracy, right
from fadiff_validation.asking import Answered
from fadiff_validation.models import MODELS, AnsweredTask, batches, check
from fadiff_validation.ranking import ranking, tied_pairs
from fadiff_validation.recording import Recording
from fadiff_validation.report.tables import percent
from fadiff_validation.summary import Row, Summary, summarize
from fadiff_validation.tools import Backend, Tool

from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.timeloop.run_model import ModelAnswer
from fadiff_mapper.timeloop.verify import compared


@cache
def said() -> Recording:
    return recording.read(recording.BUNDLED)


@cache
def small() -> tuple[Answered, ...]:
    """Two layers of one design."""
    return tuple(item for item in said().answers if item.question.task.design == "gemmini_large"
                 and item.question.task.operator in ("conv 3x3", "attention scores"))


@cache
def measured() -> tuple[list[AnsweredTask], Summary]:
    found = batches(small())
    return found, summarize(found, check(small()), resamples=5)


# The measures.

def test_accuracy_by_hand() -> None:
    found = accuracy(np.array([100.0, 100, 100, 100, 0, 0]), np.array([100.0, 90, 120, 500, 3, 0]))
    assert found[:5] == pytest.approx([1, 0.9, 0.8, 0, 0])
    assert np.isnan(found[5])


def test_a_count_is_right_when_it_is_once_whole() -> None:
    assert right(np.array([10.0, 10, 10]), np.array([10.4, 9.2, 11])).tolist() == [True, True, False]


def test_rankings_by_hand() -> None:
    found = ranking(np.array([1.0, 2, 3, 4]), np.array([10.0, 20, 40, 30]), resamples=20)
    assert found.tau == pytest.approx(4 / 6) and found.rho == pytest.approx(0.8)
    assert found.tau_interval[0] <= found.tau <= found.tau_interval[1] and found.ties == 0


def test_values_that_differ_in_the_last_bits_are_ties() -> None:
    values = np.array([1.0, 2.0, 2.0 * (1 + 1e-13), 3.0])
    found = ranking(values, values * (1 + 1e-13 * np.arange(4)))
    assert (found.tau, found.rho, found.ties) == (1, 1, 1)
    assert tied_pairs(np.array([1, 1, 1, 2])) == 3


def test_intervals_of_few_and_of_many_mappings_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    measured = rng.integers(1, 40, 80).astype(float)  # with ties
    predicted = measured + rng.integers(0, 30, 80)
    pairwise = ranking(measured, predicted, resamples=30)
    monkeypatch.setattr(ranking_module, "PAIRWISE", 0)
    by_sorting = ranking(measured, predicted, resamples=30)
    assert pairwise.tau_interval == pytest.approx(by_sorting.tau_interval, rel=1e-5)
    assert pairwise.rho_interval == pytest.approx(by_sorting.rho_interval, rel=1e-5)


def test_a_ranking_without_an_order_is_not_a_success() -> None:
    assert ranking(np.ones(3), np.array([1.0, 2, 3]), resamples=2).tau == 0
    assert ranking(np.ones(3), np.ones(3), resamples=2).tau == 1


@pytest.mark.parametrize("share, text", [(1, "100.00 %"), (0.999999, "> 99.99 %"), (0.5, "50.00 %"), (0, "0 %"),
                                         (1e-5, "< 0.01 %"), (20, "2000 %")])
def test_percentages_never_round_to_perfection(share: float, text: str) -> None:
    assert percent(share) == text


# The recording.

@pytest.mark.slow
def test_the_recording_names_its_tool_and_covers_every_design_and_operator() -> None:
    assert said().tool.version == "commit 4cf6d4cd043bc2a5d2eb02afa9063d7117a4dc11"
    assert re.fullmatch("sha256:[0-9a-f]{64}", said().tool.digest)
    tasks = {item.question.task.name for item in said().answers}
    assert len(tasks) == 48 and len(said().answers) >= 6 * len(tasks)


def test_the_exact_model_gives_every_number_of_the_recording() -> None:
    assert check(small()).numbers > 1000 and not check(small()).disagreements


def test_a_wrong_number_is_seen() -> None:
    changed = json.loads(json.dumps(small()[0].answer.result))  # type: ignore[union-attr]
    changed["levels"][-1]["dataspaces"]["Inputs"]["reads"] += 1
    found = check((Answered(small()[0].question, ModelAnswer(changed)),
                   Answered(small()[1].question, ModelAnswer(None, "no"))))
    assert len(found.disagreements) == 2
    assert "reads" in found.disagreements[0] and "rejected by Timeloop: no" in found.disagreements[1]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    part = Recording(said().tool, small(), said().tables)
    (tmp_path / "part.gz").write_bytes(recording.written(part))
    again = recording.read(tmp_path / "part.gz")
    assert recording.written(again) == recording.written(part)
    assert [item.answer for item in again.answers] == [item.answer for item in small()]


@pytest.mark.parametrize("cycles", [None, True, float("nan")])
def test_an_answer_without_its_number_is_told_with_its_place(cycles: object, tmp_path: Path,
                                                             capsys: pytest.CaptureFixture[str]) -> None:
    lines = [json.loads(line) for line in gzip.decompress(recording.written(
        Recording(said().tool, small()[:1]))).splitlines()]
    lines[-1]["result"]["cycles"] = cycles
    file = tmp_path / "changed.gz"
    file.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    assert cli.main(["run", "--backend", "recorded", "--recording", str(file), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"error: {file}:{len(lines)}: result.cycles: found ")



@pytest.mark.parametrize("content", [b"", b"not compressed", gzip.compress(b"{}\n", mtime=0),
                                     gzip.compress(b"no json", mtime=0),
                                     gzip.compress(b'{"line":"tool"}\n' * 99, mtime=0)[:-9]])
def test_another_file_is_no_recording(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_bytes(content)
    arguments = ["--backend", "recorded", "--recording", str(tmp_path / "file"), "-o", str(tmp_path / "out")]
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert str(tmp_path / "file") in error and error.count("\n") == 1


# The models, from the nearest to the farthest.

def overall(model: str) -> Row:
    row, = (row for row in measured()[1].overall if row.model == model)
    return row


def test_the_exact_model_is_exact() -> None:
    found = overall("exact")
    assert (found.accuracy, found.worst, found.exact) == (1, 1, 1)
    assert all((ranking.tau, ranking.rho) == (1, 1) for ranking in found.rankings.values())


def test_each_refinement_buys_something() -> None:
    accuracies = [overall(model).accuracy for model in MODELS]
    assert accuracies == sorted(accuracies, reverse=True)
    assert overall("smooth").accuracy > 0.98 > 0.9 > overall("paper, windows as boxes").accuracy


def test_what_the_paper_has_no_equation_for_is_listed() -> None:
    missing = {(cell.tensor, cell.action) for cell in measured()[1].cells
               if cell.model == "paper, as printed" and not cell.modelled}
    assert missing == {("Outputs", "reads"), ("Outputs", "fills")}
    assert all(cell.modelled for cell in measured()[1].cells if cell.model in ("exact", "smooth"))


# The command line.

@pytest.mark.slow
def test_a_fresh_machine_gets_a_whole_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                             capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    arguments = ["--design", "gemmini_small", "--operator", "pointwise", "--operator", "fully connected",
                 "--resamples", "5", "--no-fused", "-o", str(tmp_path)]
    assert cli.main(arguments) == 0
    assert "The exact model gives all" in capsys.readouterr().out
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 2 and "data:image/png" in page and "as Timeloop does" in page
    assert not re.search(r"(src|href)=\"(?!data:)[^#]", page)
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["agrees"] and data["overall"][0]["mappings"] == 12
    rows = list(csv.DictReader((tmp_path / "cells.csv").open()))
    assert {row["model"] for row in rows} == set(MODELS)
    assert "| exact |" in (tmp_path / "report.md").read_text()


@pytest.mark.slow
def test_a_disagreement_is_exit_code_1(tmp_path: Path) -> None:
    item = small()[0]
    changed = json.loads(json.dumps(item.answer.result))  # type: ignore[union-attr]
    changed["cycles"] += 1
    part = Recording(said().tool, (Answered(item.question, ModelAnswer(changed)), *small()[1:6]))
    (tmp_path / "part.gz").write_bytes(recording.written(part))
    assert cli.main(["run", "--backend", "recorded", "--recording", str(tmp_path / "part.gz"), "--resamples", "2",
                     "--no-fused", "-o", str(tmp_path)]) == 1
    assert "disagrees with Timeloop on 1 of" in (tmp_path / "report.html").read_text()


def test_without_the_real_tool_nothing_is_certified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                    capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli.main(["mapping", str(tmp_path)]) == 2
    assert cli.main(["record", "-o", str(tmp_path / "x.gz")]) == 2
    assert capsys.readouterr().err.count("accepted: --backend native or container") == 2
    assert not list(tmp_path.iterdir())


def test_what_is_recorded_can_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is a script that always gives the same answer, so the exact model must disagree with it."""
    answer = Path(__file__).parents[1] / "recorded" / "designs" / "gemmini_small"
    program = tmp_path / "timeloop-model"
    program.write_text("#!/bin/sh\n" + "".join(f"gzip -dc {answer}.{kind}.gz > timeloop-model.{kind}\n"
                                              for kind in ("stats.txt", "map+stats.xml")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    suite = ["--design", "gemmini_small", "--operator", "pointwise", "--mappings", "1",
             "--cache", str(tmp_path / "cache")]
    assert cli.main(["record", *suite, "--tool-version", "a script", "-o", str(tmp_path / "made" / "x.gz")]) == 0
    found = recording.read(tmp_path / "made" / "x.gz")
    assert (found.tool.backend, found.tool.version, len(found.answers)) == ("native", "a script", 2)
    assert len(check(found.answers).disagreements) > 10


@pytest.mark.parametrize("arguments, named", [
    (["--design", "nowhere", "--backend", "recorded"], "no mapping was accepted of 0"),
    (["record", "--backend", "native", "-o", "x.gz"], "no timeloop-model on the PATH"),
    (["--backend", "recorded", "--recording", "/nonexistent"], "/nonexistent: cannot be read"),
    (["--suite", "full"], "--suite chooses what a real tool is asked, and there is none"),
    (["--backend", "recorded", "--seed", "1"], "--seed chooses what a real tool is asked"),
    (["mapping", "/nonexistent", "--backend", "native"], "no timeloop-model on the PATH")])
def test_a_mistake_is_one_line(arguments: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                               capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert cli.main(arguments) == 2
    error = capsys.readouterr().err
    assert named in error and error.count("\n") == 1


@pytest.mark.parametrize(("arguments", "named"), [
    (["--suite", "huge"], "argument --suite: invalid choice: 'huge'"), (["--mappings", "-3"], 'found "-3"'),
    (["record"], "required: -o/--output"), (["frobnicate"], "invalid choice: 'frobnicate'"), (["--seed", "q"], '"q"')])
def test_a_wrong_option_is_one_line(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert end.value.code == 2 and named in error and error.count("\n") == 1


# Certificates. The real tool is played by our own evaluation, whose numbers the recordings have confirmed.

def result_folder(folder: Path) -> Path:
    question = small()[0].question
    folder.mkdir(parents=True)
    (folder / "fadiff.input.yaml").write_text(question.task.text(question.mapping))
    return folder


def answering(change: int = 0) -> Backend:
    question = small()[0].question
    numbers = compared(evaluate_mapping(question.task.spec, question.mapping))
    result = {key: value for key, value in numbers.items() if key not in ("edp", "energy_source", "utilization")}
    return Backend(Tool("native", "played", "sha256:0"),
                   lambda text, spaces, folder: ModelAnswer(result | {"cycles": result["cycles"] + change}))


@pytest.mark.parametrize("change", [0, 1])
def test_a_certificate_says_what_was_compared(change: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for layer in ("a", "b"):
        result_folder(tmp_path / "out" / layer)
    monkeypatch.setattr(commands, "backend", lambda options: answering(change))
    assert cli.main(["mapping", "--backend", "native", str(tmp_path / "out")]) == change
    found = json.loads((tmp_path / "out" / "certificate.json").read_text())
    assert found["agrees"] == (change == 0) and found["tool"]["version"] == "played"
    assert [layer["folder"] for layer in found["layers"]] == ["a", "b"]
    for layer in found["layers"]:
        assert layer["numbers"] > 150 and len(layer["sha256"]["fadiff.input.yaml"]) == 64
        assert len(layer["differences"]) == change
