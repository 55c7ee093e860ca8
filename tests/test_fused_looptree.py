"""Fused mappings: the evaluation gives what LoopTree gave.

Some recordings (pytimeloop b8aaf2c) have what LoopTree reports, latency and fills left out; of the others, random
mappings of small chains, they have what every storage node moves (LoopTree of Timeloop 4cf6d4c). A larger set of the
first kind is replayed where it is at hand.
"""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from fused_chains import document

from fadiff_mapper import evaluate_fused
from fadiff_mapper.fusion.looptree_input import read_fused
from fadiff_mapper.fusion.tiling import tilings
from fadiff_mapper.fusion.traffic import movements, volume

Json = dict[str, Any]

RECORDED = Path(__file__).parent / "data" / "looptree_cases.jsonl.gz"
SHARED = Path(__file__).parents[2] / "shared" / "looptree_reference" / "cases.jsonl.gz"
WHOLE_NUMBERS = ("accesses", "actions", "ops", "compute_steps", "occupancy_max", "capacity_peak_words")


@cache
def lines(path: Path) -> list[Json]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def recorded(kind: str) -> list[Json]:
    return [line for line in lines(RECORDED) if line["kind"] == kind]


def check_result(text: str, expected: Json) -> None:
    found = evaluate_fused(text).to_dict()
    for name in WHOLE_NUMBERS:
        assert found[name] == expected[name], name
    assert found["energy_pJ"] == pytest.approx(expected["energy_pJ"], rel=1e-12)


@pytest.mark.parametrize("line", recorded("result"), ids=lambda line: line["name"])
def test_counts_and_energy_that_looptree_reports_are_equal(line: Json) -> None:
    check_result(line["input"], line["result"])


@pytest.mark.parametrize("line", recorded("random"))
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


@pytest.mark.skipif(not SHARED.exists(), reason="the larger set is not at hand")
@pytest.mark.parametrize("index", range(54))
def test_the_larger_set_is_equal_too(index: int) -> None:
    line = lines(SHARED)[index]
    check_result(line["input_yaml"], line["result"])
