"""Fused layers in fadiff-validate: LoopTree's recorded numbers, DeFiNES's curves, the report about both."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fadiff_validation import cli, commands, defines
from fadiff_validation.defines import Curve
from fadiff_validation.fused import Fused, points_csv
from fadiff_validation.looptree import compare as looptree
from fadiff_validation.report.figures import curve_picture
from fadiff_validation.report.fused import curve_table, looptree_table
from fadiff_validation.stacks import LAYER_BY_LAYER, merged_factors, products, stack_cost


@cache
def cases() -> tuple[dict[str, Any], ...]:
    """The recorded mappings of two layers of matrix products, and groups that were written for LoopTree."""
    return tuple(case for case in looptree.recorded()[1] if case["name"].startswith(("mm2", "emitted")))


@cache
def curve(mode: str) -> Curve:
    """The smallest stack in one mode."""
    points = [point for point in defines.recorded()[1] if point["mode"] == mode
              and (point["layers"], point["size"]) == (2, 56)]
    (found,) = defines.curves(points)
    return found


def test_what_looptree_counts_is_counted_here() -> None:
    found = looptree.compare("a version", cases())
    assert found.differences == ()
    assert {share.field for share in found.shares} > {"accesses of MainMemory", "accesses of Scratchpad",
                                                      "operations, with recomputation", "largest occupancy"}
    assert all(share.equal == share.numbers > 0 for share in found.shares)
    assert {share.cases for share in found.shares if share.field in looptree.FIELDS.values()} == {len(cases())}


def test_a_wrong_count_is_seen_and_named() -> None:
    case = cases()[0]
    wrong = case["result"] | {"ops": case["result"]["ops"] | {"E2": 7}}
    found = looptree.compare("a version", [case | {"result": wrong}])
    assert found.differences == (f"{case['name']}: operations, with recomputation, E2: LoopTree 7, ours "
                                 f"{case['result']['ops']['E2']:,}",)
    assert sum(share.numbers - share.equal for share in found.shares) == 1


@pytest.mark.parametrize("mode", ["recompute", "cache H", "cache HV"])
def test_tile_sizes_rank_as_in_defines(mode: str) -> None:
    found = curve(mode)
    assert found.as_asked.all()
    assert found.rho("energy") >= 0.95 and found.rho("latency") >= 0.95
    assert found.error("energy") < 0.01 and found.error("latency") < 0.01


def test_keeping_halos_costs_no_more_than_computing_them_again() -> None:
    kept, recomputed = (stack_cost(2, 56, mode, 14, 14) for mode in ("cache HV", "recompute"))
    assert kept.energy < recomputed.energy and kept.overlapped < recomputed.overlapped


def test_maps_that_do_not_fit_go_layer_by_layer() -> None:
    assert stack_cost(2, 112, "cache HV", 112, 112) == stack_cost(2, 112, LAYER_BY_LAYER, 112, 112)
    assert stack_cost(2, 112, "cache HV", 56, 56).mode == "cache HV", "of a band of rows, only the last two stay"


def test_loops_of_a_tile_by_hand() -> None:
    assert merged_factors({"P": 28, "Q": 28, "R": 3, "S": 3}) == {"P": [28], "Q": [4, 7], "R": [3], "S": [3]}
    assert products([4, 7]) == [1, 4, 7, 28]
    assert merged_factors({"P": 4, "Q": 1, "R": 3, "S": 3})["P"] == [2, 2]


def fused_part() -> Fused:
    return Fused(looptree.compare("a version", cases()[:1]), "another", (curve("recompute"),))


@pytest.mark.slow
def test_the_page_has_the_curves_and_a_wrong_count_is_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  capsys: pytest.CaptureFixture[str]) -> None:
    right = fused_part()
    wrong = replace(right, looptree=replace(right.looptree, differences=("one count",)))
    monkeypatch.setattr(commands, "measure_fused", lambda: wrong)
    assert cli.main(["--backend", "recorded", "--design", "gemmini_small", "--operator", "pointwise", "--resamples",
                     "2", "-o", str(tmp_path)]) == 1
    numbers = sum(share.numbers for share in right.looptree.shares)
    assert f"disagrees with LoopTree on 1 of {numbers} numbers" in capsys.readouterr().out
    assert (tmp_path / "report.html").read_text().count("<svg") == 3
    assert len((tmp_path / "fused.csv").read_text().splitlines()) == 1 + len(curve("recompute").points)
    assert json.loads((tmp_path / "report.json").read_text())["fused"]["looptree"]["differences"] == ["one count"]


def test_the_tables_show_what_was_measured() -> None:
    fused = fused_part()
    table, picture = curve_table(fused), curve_picture(fused)
    assert table.rows[0][0] == "2 layers of 56 x 56, recompute" and "1.0000" in table.rows[0]
    assert {row[-1] for row in looptree_table(fused).rows} == {"100.00 %"}
    assert picture.startswith("<svg") and points_csv(fused).count("\n") == 1 + len(curve("recompute").points)
    scores = defines.normalized(curve("recompute").ours["energy"])
    assert np.isclose(scores.mean(), 0) and np.isclose(scores.std(), 1)
