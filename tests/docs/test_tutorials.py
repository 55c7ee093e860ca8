"""The tutorials do what they say: every block of code runs, and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from executed_pages import run_page

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
GUIDES = TUTORIALS.parent / "guides"
PAGES = sorted(TUTORIALS.glob("*.md"))


@pytest.mark.slow
@pytest.mark.parametrize("page", [*PAGES, GUIDES / "mixed_precision.md"], ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("MPLBACKEND", "agg")
    run_page(page)


def test_there_are_seven_tutorials() -> None:
    assert [page.stem for page in PAGES] == ["cost_of_an_inference", "descend_by_gradient", "design_a_machine",
                                             "evaluate_by_hand", "fuse_mobilenet", "in_timeloops_place", "map_a_layer"]
