"""The tables of both parts, from records of which some are missing."""

from __future__ import annotations

from math import log

import pytest

from benchmarks.agatf import ablations


def layers_record(named: str, edps: list[float]) -> dict[str, object]:
    """A run of layers in which every search but the named one ends at EDPs of 100 and 200."""
    return {name: {"edp": edps if name == named else [100.0, 200.0], "evaluations": 10, "cpu_s": 1.0}
            for name in ablations.LAYERS}


def test_a_switch_is_judged_by_the_geometric_mean_over_layers() -> None:
    records = {("vgg16", "simba_like", "layers", "seed 0"): layers_record("descent alone", [110.0, 200.0])}
    table = ablations.switches(records)
    rows = {(row[0], row[1]): row for row in table.rows}
    part = "refinement of a layer, after a descent"
    _, _, runs, change, _, _, better, worse, seconds = rows[part, "simba_like"]
    assert (runs, better, worse, seconds) == (1, 1, 0, 1.0)
    assert change == pytest.approx(1.1 ** -0.5 - 1)
    assert (part, "eyeriss_like") not in rows    # nothing was run there


def test_a_search_is_compared_with_the_best_of_all_on_every_layer() -> None:
    records = {("vgg16", "simba_like", "layers", "seed 0"): layers_record("descent alone", [110.0, 200.0])}
    rows = {row[1]: row for row in ablations.layers_table(records).rows}
    assert rows["descent alone"][3:6] == (pytest.approx(1.1 ** 0.5), pytest.approx(1.1), 1)
    assert rows["default"][3:6] == (1.0, 1.0, 0)


def test_every_cell_has_a_column_and_a_format() -> None:
    for table in ablations.shown({}).tables:
        assert len(table.formats) in (0, len(table.columns))
    pytest.importorskip("sklearn", reason="the part of AGATF needs scikit-learn")
    from benchmarks.agatf import part

    course = [(0, log(100.0)), (3, log(90.0))]
    method = {"course": course, "searches": 5}
    fixed = {"segments": 4, "cpu_s": 1.0, "naive": {**method, "plan": log(120.0)}, "all": method, "estimates": method}
    records = {("no learning", "vgg16", "gemmini_large"): fixed}
    for table in part.shown(records).tables:
        assert all(len(row) == len(table.columns) == len(table.formats) for row in table.rows)
        assert table.texts() is not None
    rows = part.edp_table(records).rows
    assert rows[0][3] == pytest.approx(1.2) and rows[0][-3] == pytest.approx(0.9) and rows[0][-2:] == (None, None)
    assert part.evaluations_table(records).rows[0][2:6] == ("optimum of the groups", 5, None, 3)
