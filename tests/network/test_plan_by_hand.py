"""The totals of a plan, made by hand from `plan.yaml` and the files that it names."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fadiff_mapper import evaluate, load, load_network, map_network
from fadiff_mapper.base import bundled_files


@pytest.mark.slow
@pytest.mark.parametrize(("network", "design"), [("gpt3_6b7_block", "gemmini_small"), ("resnet18", "gemmini_large")])
def test_totals_are_the_sums_of_tiles_and_layers(network: str, design: str, tmp_path: Path) -> None:
    map_network(load_network(f"bundled:networks/{network}"), bundled_files.find(f"arch/{design}")).write(tmp_path)
    plan = yaml.safe_load((tmp_path / "plan.yaml").read_text())["plan"]
    assert plan["groups"]
    energy, cycles = plan["joined_operands_cost"]["energy_pj"], plan["joined_operands_cost"]["cycles"]
    for group in plan["groups"]:
        steps = [step for tile in group["tiles"] for step in tile["steps"]]
        own = tuple(sum(step["runs"] * step[part] for step in steps) for part in ("energy_pj", "cycles"))
        assert own == (pytest.approx(group["cost"]["energy_pj"], rel=1e-12), group["cost"]["cycles"])
        energy, cycles = energy + own[0], cycles + own[1]
        assert all((tmp_path / tile["folder"] / "fadiff.input.yaml").is_file() for tile in group["tiles"])
    fused = {name for group in plan["groups"] for name in group["nodes"]}
    for layer in plan["layers"]:
        alone = [name for name in layer["nodes"] if name not in fused]
        stats = evaluate(load(tmp_path / layer["folder"] / "fadiff.input.yaml"))
        runs = layer["runs"] // len(layer["nodes"]) * len(alone)
        energy, cycles = energy + runs * stats.energy_pj, cycles + runs * stats.cycles
    assert (energy, cycles) == (pytest.approx(plan["cost"]["energy_pj"], rel=1e-9), plan["cost"]["cycles"])
