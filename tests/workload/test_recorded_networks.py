"""Networks that others wrote, as `benchmarks/real_networks.py` recorded them: structure, and PyTorch's own counts."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper import load_network
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.readers.network_text import network_text

RECORDED: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "real_networks.json.gz").read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_network_is_whole_and_its_file_gives_it_back(name: str, tmp_path: Path) -> None:
    path = tmp_path / "network.yaml"
    path.write_text(RECORDED[name]["file"])
    network = load_network(path)
    found = coverage(network)
    assert (found.complete, found.missing, len(network.layers)) == (True, 0, RECORDED[name]["layers"])
    assert found.understood + sum(entry.macs for entry in found.folded) == RECORDED[name]["counted"]
    assert network_text(network) == RECORDED[name]["file"]
