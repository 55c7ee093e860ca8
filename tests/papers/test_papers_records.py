"""Runs of the papers' comparison are recorded once, a stopped command goes on, and tables come from records alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.papers import driver, output, records
from benchmarks.papers.__main__ import main
from benchmarks.papers.course import LayerCourse, NetworkCourse, course, edp_after
from benchmarks.papers.part import Job, Key, Part, Record, Shown, Table

RAN: list[int] = []


def squared(number: int) -> Record:
    RAN.append(number)
    return {"square": number * number}


def shown(found: Mapping[Key, Record]) -> Shown:
    rows = tuple((key[0], record["square"]) for key, record in sorted(found.items()))
    return Shown(("Squares.",), (Table("squares", "Squares", ("number", "square"), rows, formats=("", ",")),))


PART = Part("squares", "Squares",
            lambda quick: [Job((str(n),), squared, (n,)) for n in range(2 if quick else 4)], shown)


def quiet(_: str) -> None:
    """Tells nobody."""


def test_a_stopped_command_goes_on_where_it_was(tmp_path: Path) -> None:
    RAN.clear()
    assert driver.run_jobs(driver.missing_jobs([PART], tmp_path, quick=True), tmp_path, tell=quiet) == 0
    left = driver.missing_jobs([PART], tmp_path, quick=False)
    assert driver.run_jobs(left, tmp_path, time_limit=0.0, tell=quiet) == len(left) == 2
    driver.run_jobs(left, tmp_path, tell=quiet)
    assert RAN == [0, 1, 2, 3] and not driver.missing_jobs([PART], tmp_path, quick=False)


def test_a_record_that_was_cut_off_is_run_again_and_harms_no_other(tmp_path: Path) -> None:
    driver.run_jobs([("squares", job) for job in PART.jobs(True)], tmp_path, tell=quiet)
    file = tmp_path / records.FILE
    file.write_bytes(file.read_bytes()[:-20])
    assert [job.key for _, job in driver.missing_jobs([PART], tmp_path, quick=True)] == [("1",)]
    driver.run_jobs(driver.missing_jobs([PART], tmp_path, quick=True), tmp_path, tell=quiet)
    found = records.read(tmp_path)
    assert {key: run.record["square"] for (_, key), run in found.items()} == {("0",): 0, ("1",): 1}


def test_pages_and_tables_escape_names_and_keep_exact_numbers() -> None:
    content = shown({("<b>",): {"square": 1234567}})
    files = output.files([(PART, content)], "None.", [])
    assert files["squares.csv"] == "number,square\n<b>,1234567\n"
    page = files[output.PAGE]
    assert "&lt;b&gt;" in page and "<b>" not in page and '<data value="1234567">1,234,567</data>' in page
    assert "http" not in page
    assert "| <b> | 1,234,567 |" in output.markdown([(PART, content)], "command", "None.", [])


def test_what_stands_above_the_mark_of_a_page_stays() -> None:
    first = output.markdown([], "command", "No run.", [])
    assert first.startswith("# The papers side by side\n")
    second = output.markdown([], "command", "One run.", [], before=first.replace("side by side", "and what they say"))
    assert second.startswith("# The papers and what they say\n") and "One run." in second and "No run." not in second


def test_layers_take_turns_until_their_searches_end() -> None:
    first, second = LayerCourse(2), LayerCourse(1)
    first.note(1.0, 10, 5.0, 1.0)
    first.note(3.0, 30, 2.0, 1.0)
    second.note(2.0, 5, 10.0, 2.0)
    record = NetworkCourse([first, second], (1.0, 0.0), 2, whole=[(6.0, 40, 30.0)]).as_record()
    # After two seconds each: 2 x 5 + 10 + 1 pJ in 2 x 1 + 2 cycles. The second layer has then ended.
    assert course(record, "cpu_s") == [(4.0, 21.0 * 4), (5.0, 15.0 * 4), (6.0, 30.0)]
    assert course(record, "evaluations") == [(15, 84.0), (35, 60.0), (40, 30.0)]
    assert edp_after(course(record, "cpu_s"), 4.5) == 84.0 and edp_after(course(record, "cpu_s"), 3.9) == math.inf


def test_the_command_writes_a_page_of_what_there_is_and_refuses_unknown_parts(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["-o", str(tmp_path), "figure3", "--quick", "--time-limit", "0", "--docs", str(tmp_path / "papers.md")]
    assert main(given) == 0
    assert "1 runs are left" in capsys.readouterr().out
    assert "1 runs have no record yet." in (tmp_path / output.PAGE).read_text(encoding="utf-8")
    assert "No run has a record yet." in (tmp_path / "papers.md").read_text(encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        main(["-o", str(tmp_path), "figure5"])
    assert 'unknown part "figure5"; accepted: table1, ' in capsys.readouterr().err


def test_every_job_of_the_table_has_a_key_of_its_own() -> None:
    pytest.importorskip("optuna")
    pytest.importorskip("pymoo")
    from benchmarks.papers.table1 import PART as TABLE
    for quick in (True, False):
        keys = [job.key for job in TABLE.jobs(quick)]
        assert len(keys) == len(set(keys)) > 100
