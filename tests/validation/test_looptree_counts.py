"""Fused mappings: the evaluation gives what LoopTree gave.

The recordings that `fadiff-validate` replays (pytimeloop b8aaf2c) have what LoopTree reports, latency and fills left
out; of others, random mappings of small chains, there is what every storage node moves (LoopTree of Timeloop 4cf6d4c).
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from fadiff_validation.looptree import compare as looptree
from fadiff_validation.looptree import evaluate_fused
from fadiff_validation.looptree.evaluate_fused import movements, tilings, volume
from fadiff_validation.looptree.fused_input import read_fused
from fused_chains import document

Json = dict[str, Any]

RECORDED = Path(__file__).parents[1] / "data" / "looptree_cases.jsonl.gz"
WHOLE_NUMBERS = ("accesses", "actions", "ops", "compute_steps", "occupancy_max", "capacity_peak_words")


def random_mappings() -> list[Json]:
    with gzip.open(RECORDED, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("case", looptree.recorded()[1], ids=lambda case: case["name"])
def test_counts_and_energy_that_looptree_reports_are_equal(case: Json) -> None:
    found, expected = evaluate_fused(case["input"]).to_dict(), case["result"]
    for name in WHOLE_NUMBERS:
        assert found[name] == expected[name], name
    assert found["energy_pJ"] == pytest.approx(expected["energy_pJ"], rel=1e-12)


@pytest.mark.parametrize("line", random_mappings())
def test_what_every_node_moves_is_equal(line: Json) -> None:
    fused = read_fused(document(line["problem"], line["mapping"]["nodes"]))
    tiles = tilings(fused.chain, fused.nodes)
    moved = movements(fused.chain, fused.nodes, tiles)
    assert line["moves"] == {
        f"{place.level}/{place.tensor}/{place.einsum}": [m.fills, m.parent_reads, m.peer_reads, m.peak]
        for place, m in moved.items()}
    assert {name: count for name, (count, _) in line["layers"].items()} == {
        name: len(tile.operations) for name, tile in tiles.items()}
    assert line["words"] == {tensor: volume(fused.chain, tensor) for tensor in fused.chain.tensors()}
