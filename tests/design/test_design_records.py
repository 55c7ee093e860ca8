"""Records of methods side by side: what is read off after so many designs, in equal time, and beside baselines."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("benchmarks")


def table_of(tmp_path: Path) -> list[str]:
    """The rows of a made-up comparison: the gradient needs 10 s for two designs, TPE 1 s for each of twelve."""
    import design_records as records
    file, lines = tmp_path / "runs.jsonl", list[str]()
    assert records.read_records(file) == []
    runs = {("gradient", 0): [(1, 6.0, 50.0), (2, 10.0, 20.0)], ("gradient", 1): [(1, 5.0, 30.0), (2, 8.0, 10.0)],
            ("tpe", 0): [(count, float(count), 100.0 / count) for count in range(1, 13)],
            ("default", 0): [(1, 0.5, 60.0)]}
    for (method, seed), steps in runs.items():
        records.add_record(file, records.recorded("bert", method, seed, [records.Step(*step) for step in steps]))
    records.write_tables(records.read_records(file), ("gradient", "tpe", "random"), {"default": "default design"},
                         (1, 2), lines.append)
    return [line for text in lines for line in text.splitlines() if line.startswith("| ")]


def test_rows_have_medians_and_ranges_after_equally_many_designs(tmp_path: Path) -> None:
    rows = table_of(tmp_path)
    assert "| bert | gradient | 2 | 40 (30 to 50) | 15 (10 to 20) | 9 (8 to 10) |" in rows
    assert "| bert | tpe | 1 | 100 | 50 | 2 |" in rows


def test_in_equal_time_a_method_has_the_seconds_of_the_gradient_with_its_seed(tmp_path: Path) -> None:
    assert "| bert | tpe | 1 | 10 | 10 | 10 | -50.00% |" in table_of(tmp_path)


def test_a_baseline_stands_beside_the_median_of_the_gradient(tmp_path: Path) -> None:
    rows = table_of(tmp_path)
    assert "| bert | default design | 1 | 60 | 4 | 0 |" in rows
    assert "| geometric mean of 1 | default design |  |  | 4 |  |" in rows


def test_a_file_of_records_is_only_added_to(tmp_path: Path) -> None:
    table_of(tmp_path)
    before = (tmp_path / "runs.jsonl").read_text(encoding="utf-8")
    table_of_again = sys.modules["design_records"]
    table_of_again.add_record(tmp_path / "runs.jsonl", table_of_again.recorded("unet", "random", 3, []))
    after = (tmp_path / "runs.jsonl").read_text(encoding="utf-8")
    assert after.startswith(before)
    assert len(table_of_again.read_records(tmp_path / "runs.jsonl")) == 5
