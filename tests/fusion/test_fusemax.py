"""The published rows of FuseMax are those of this project's model, as `docs/results/fusemax.md` has them."""

from __future__ import annotations

import csv
from functools import partial
from pathlib import Path

import pytest

MUL = 8.825     # pJ of a product in the lanes of `inference/fusemax_like`


pytestmark = pytest.mark.usefixtures("benchmarks")


@pytest.mark.parametrize("case", ["attn-flat", "attn-cascade", "attn-arch", "attn-binding"])
@pytest.mark.parametrize(("model", "length", "within"), [
    ("BERT", "1K", 2e-5), ("XLM", "16K", 2e-5), ("BERT", "64K", 2e-5), ("TrXL", "256K", 2e-4), ("BERT", "1M", 2e-4)])
def test_bytes_seconds_and_energy_are_those_of_the_mappings(case: str, model: str, length: str, within: float,
                                                            benchmarks: Path) -> None:
    """From 2^64 on products lose their high bits: scores of `attn-flat` at 64K, sums of all at 256K and 1M."""
    import fusemax
    with (benchmarks / "fusemax_results.csv").open() as file:
        (published,) = (row for row in csv.DictReader(file)
                        if (row["case"], row["model"], row["seq_len"]) == (case, model, length))
    variant = fusemax.flat if case == "attn-flat" else partial(fusemax.attention, case)
    moved, seconds, energy = variant(model, length)
    assert (moved, seconds) == (pytest.approx(float(published["traffic_bytes"]), rel=1e-12),
                                pytest.approx(float(published["latency_s"]), rel=1e-12))
    assert energy == pytest.approx(float(published["energy_pj"]), rel=within)


@pytest.mark.parametrize("case", ["attn-unfused", "end2end-flat", "end2end-proposal"])
def test_products_are_mapped_under_the_constraints_of_the_artifact(case: str, benchmarks: Path) -> None:
    import fusemax
    with (benchmarks / "fusemax_results.csv").open() as file:
        (published,) = (row for row in csv.DictReader(file)
                        if (row["case"], row["model"], row["seq_len"]) == (case, "XLM", "1K"))
    moved, seconds, energy = (fusemax.unfused if case == "attn-unfused" else partial(fusemax.projections, case))(
        "XLM", "1K")
    assert (moved, seconds) == (pytest.approx(float(published["traffic_bytes"]), rel=1e-12),
                                pytest.approx(float(published["latency_s"]), rel=1e-12))
    assert energy == pytest.approx(float(published["energy_pj"]), rel=5e-4)


@pytest.mark.slow
def test_charges_add_up_to_the_energies_of_the_proposal_and_of_our_plan(benchmarks: Path) -> None:
    import fusemax
    from fusemax import COMPUTE
    _, _, energy = fusemax.attention("attn-binding", "BERT", "1K")
    assert sum(fusemax.proposal_charges("BERT", "1K").values()) == pytest.approx(energy, rel=2e-4)  # but for registers
    plan = fusemax.planned("BERT", "1K", fusemax.machine())
    with (benchmarks / "fusemax_results.csv").open() as file:
        (published,) = (row for row in csv.DictReader(file)
                        if (row["case"], row["model"], row["seq_len"]) == ("attn-binding", "BERT", "1K"))
    assert plan.stats.energy_pj < float(published["energy_pj"])
    assert plan.stats.cycles / fusemax.CLOCK < float(published["latency_s"])
    charges = fusemax.own_charges(plan, 1024)
    assert sum(charges.values()) == pytest.approx(plan.stats.energy_pj, rel=1e-9)
    assert [loop.tile for loop in plan.groups[0].group.loops if loop.dim == "C"] == [512]   # two tiles of keys
    heads, scores, results = 64 * 12, 1024 * 1024, 1024 * 64
    on_a_score = 128 * COMPUTE["mac"] + COMPUTE["max"] + 6 * COMPUTE["mac"] + 2 * COMPUTE["add"]
    on_a_row = COMPUTE["max"] + 6 * COMPUTE["mac"] + MUL + 2 * COMPUTE["add"]
    assert charges["operations"] == pytest.approx(
        heads * (scores * on_a_score + 1024 * on_a_row + results * (MUL + COMPUTE["div"])), rel=1e-9)
