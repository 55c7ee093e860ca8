"""Pages of results are what their templates and recorded data give, and speak of the present alone."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pytest

from benchmarks.results.data import Record, figures_of_both, read_record, read_tables, record_text
from benchmarks.results.pages import README_BLOCK, with_results, written
from benchmarks.results.runs import PAGES, RUNS

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
RECORDS = sorted((RESULTS / "data").glob("*.json"))


@pytest.mark.parametrize("file", RECORDS, ids=[file.stem for file in RECORDS])
def test_a_record_says_what_was_run_when_and_where(file: Path) -> None:
    record = read_record(file)
    assert file.stem in RUNS
    assert record.command and record.commit and record.machine
    datetime.date.fromisoformat(record.date)
    for table in record.tables:
        assert table.rows and {len(cells) for cells in table.rows} == {len(table.columns)}
    assert record_text(record) == file.read_text(encoding="utf-8")


def test_all_figures_are_of_one_commit_and_one_machine() -> None:
    assert {file.stem for file in RECORDS} == set(RUNS)
    assert len({(read_record(file).commit, read_record(file).machine) for file in RECORDS}) == 1


def test_pages_and_readme_are_what_the_data_give() -> None:
    texts = written(RESULTS / "data")
    pages = {file.stem: file.read_text(encoding="utf-8") for file in RESULTS.glob("*.md")}
    assert pages == {name: text for name, text in texts.items() if name != "readme"}
    assert set(pages) == {*PAGES, "index"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert README_BLOCK.search(readme) and with_results(readme, texts["readme"]) == readme


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_its_question_and_shows_plots_that_are_there(page: str) -> None:
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    assert PAGES[page] in text.split("\n\n")[1].replace("\n", " ")
    for plot in re.findall(r"\]\((plots/[^)]+)\)", text):
        assert (RESULTS / plot).exists()
    assert not re.search(r"\b(since then|before that|no longer|any more|used to|earlier release|old kernel)\b", text)


def test_tables_are_read_from_what_scripts_print() -> None:
    first, second = read_tables("Measured by x.\n\n| a | b |\n|---|---|\n| 1 |  |\n\nA note.\n\n## Title\n\n"
                                "| c |\n|---|\n| 2 |\n")
    assert (first.title, first.columns, first.rows, first.note) == ("", ["a", "b"], [["1", ""]], "A note.")
    assert (second.title, second.columns, second.rows, second.note) == ("Title", ["c"], [["2"]], "")


def test_a_short_run_is_held_to_the_recorded_one_row_by_row() -> None:
    recorded, here = (Record("python x", "c", "2026-01-01", "m", read_tables(text)) for text in (
        "| design | layer | EDP | saved |\n|---|---|---|---|\n| large | a | 1,000 | 5.0% |\n| large | b | 3 | none |\n",
        "| design | layer | EDP | saved |\n|---|---|---|---|\n| large | b | 3 | 1% |\n| large | a | 1,020 | 5.0% |\n"
        "| small | a | 7 | 1% |\n"))
    found = {figure.place: figure.apart for figure in figures_of_both(recorded, here)}
    assert found == {"large, b, EDP": 0, "large, b, saved": float("inf"), "large, a, EDP": pytest.approx(0.02),
                     "large, a, saved": 0}
