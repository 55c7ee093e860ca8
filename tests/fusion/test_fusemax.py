"""The published rows of FuseMax are those of this project's model, as `docs/results/fusemax.md` has them."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


@pytest.mark.parametrize("case", ["attn-flat", "attn-cascade", "attn-arch", "attn-binding"])
@pytest.mark.parametrize(("model", "length"), [("BERT", "1K"), ("XLM", "16K")])
def test_bytes_seconds_and_energy_are_those_of_the_mappings(case: str, model: str, length: str) -> None:
    import fusemax
    with (BENCHMARKS / "fusemax_results.csv").open() as file:
        (published,) = (row for row in csv.DictReader(file)
                        if (row["case"], row["model"], row["seq_len"]) == (case, model, length))
    variant = fusemax.flat if case == "attn-flat" else partial(fusemax.attention, case)
    moved, seconds, energy = variant(model, length)
    assert (moved, seconds) == (pytest.approx(float(published["traffic_bytes"]), rel=1e-12),
                                pytest.approx(float(published["latency_s"]), rel=1e-12))
    assert energy == pytest.approx(float(published["energy_pj"]), rel=2e-5)
