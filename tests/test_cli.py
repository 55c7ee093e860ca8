"""The command line end to end: real processes, real files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

BUNDLED_TABLES = ("--energy", "bundled")
"""The same numbers whether Accelergy is installed or not."""
DESIGNS = ("eyeriss_like", "gemmini_large", "gemmini_small", "output_stationary", "simba_like", "weight_stationary")
LAYER = "bundled:layers/resnet18/conv3x3_64_64_56_s1"


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fadiff_mapper", *map(str, arguments)], capture_output=True, text=True,
                          cwd=cwd, timeout=120, check=False)


@pytest.mark.parametrize("design", DESIGNS)
def test_check_prints_what_was_understood(design: str) -> None:
    done = run("check", f"bundled:arch/{design}", LAYER, *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    for expected in ("115605504 multiply-accumulates", "levels, outermost first", f"energies: bundled with {design}",
                     "constraints in force", "map space:", "DRAM"):
        assert expected in done.stdout


def test_map_writes_a_mapping_that_evaluates_to_the_same_numbers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("map", "bundled:arch/gemmini_small", LAYER, "-o", out, "--steps", 20, "--restarts", 16, "--seed", 3,
               *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert {"timeloop-mapper.map.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.stats.txt", "fadiff.input.yaml",
            "fadiff.result.json"} <= names
    result = json.loads((out / "fadiff.result.json").read_text())
    again = run("evaluate", out / "fadiff.input.yaml", "--json")
    assert again.returncode == 0, again.stderr
    stats = json.loads(again.stdout)
    for key in ("cycles", "computes", "utilization", "levels", "networks", "arithmetic"):
        assert stats[key] == result["stats"][key]
    assert stats["energy_pj"] == pytest.approx(result["stats"]["energy_pj"], rel=1e-12)
    assert result["seed"] == 3 and result["status"] and result["history"]


def test_the_merged_input_is_literal_yaml_without_constraints(tmp_path: Path) -> None:
    assert run("map", "bundled:arch/eyeriss_like", LAYER, "-o", tmp_path, "--steps", 5, "--restarts", 8,
               *BUNDLED_TABLES).returncode == 0
    text = (tmp_path / "fadiff.input.yaml").read_text()
    document = yaml.safe_load(text)
    assert {"architecture", "problem", "mapping", "ERT"} <= set(document)
    assert "architecture_constraints" not in document and "{{" not in text and "!" not in text


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    texts = []
    for name in ("first", "second"):
        assert run("map", "bundled:arch/gemmini_large", LAYER, "-o", tmp_path / name, "--steps", 10, "--restarts", 8,
                   "--seed", 7, *BUNDLED_TABLES).returncode == 0
        result = json.loads((tmp_path / name / "fadiff.result.json").read_text())
        result.pop("timing")
        texts.append((json.dumps(result), (tmp_path / name / "timeloop-mapper.map.yaml").read_text()))
    assert texts[0] == texts[1]


def test_evaluate_a_bundled_mapping() -> None:
    done = run("evaluate", "bundled:arch/gemmini_large", LAYER, "bundled:mappings/gemmini_large", *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    assert "cycles" in done.stdout and "Scratchpad" in done.stdout


def test_doctor_and_version_and_listing() -> None:
    assert "timeloop-model" in run("doctor").stdout
    assert run("--version").stdout.startswith("fadiff-mapper ")
    assert "bundled:arch/gemmini_large" in run("bundled", "arch").stdout.splitlines()
