"""The package where PyTorch and matplotlib are not installed: all but what needs them works, and that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
MISSING = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "matplotlib"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
"""
"""Runs at the start of every Python with this folder on its path, so that all its imports fail as if not installed."""

CORE = ("mapspace", "inputs", "model/test_recorded_timeloop.py", "search/test_diagnosis.py",
        "search/test_exhaustive.py", "network/test_joined_reads.py")
"""Tests that read, evaluate, search and plan."""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text(MISSING, encoding="utf-8")
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])}


def run(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *map(str, words)], env=environment, capture_output=True, text=True,
                          check=False, cwd=TESTS.parent, timeout=300)


def command(environment: dict[str, str], *words: object) -> subprocess.CompletedProcess[str]:
    return run(environment, "-m", "fadiff_mapper", *words)


@pytest.mark.parametrize("package", ["torch", "matplotlib"])
def test_they_cannot_be_imported_here(environment: dict[str, str], package: str) -> None:
    assert f"No module named '{package}'" in run(environment, "-c", f"import {package}").stderr


@pytest.mark.slow
def test_the_core_part_of_the_tests_passes(environment: dict[str, str]) -> None:
    done = run(environment, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(TESTS / name for name in CORE))
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.slow
def test_the_commands_work(environment: dict[str, str], tmp_path: Path) -> None:
    design, layer = "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000"
    quick = ("--quiet", "--jobs", 1, "--energy", "bundled")
    for words in (("map", design, layer, "-o", tmp_path / "map", "--sensitivities", *quick),
                  ("evaluate", tmp_path / "map" / "fadiff.input.yaml"), ("explain", tmp_path / "map"), ("doctor",),
                  ("network", "bundled:networks/gpt3_6b7_block", design, "-o", tmp_path / "network", *quick)):
        done = command(environment, *words)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.slow
def test_designs_are_searched_by_bounds_and_the_run_says_so(environment: dict[str, str], tmp_path: Path) -> None:
    done = command(environment, "design", "bundled:spaces/gemmini_small", "bundled:networks/gpt3_6b7_block", "-o",
                   tmp_path, "--no-fusion", "--evaluations", 4, "--jobs", 1, "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith("warning: PyTorch is not installed, so the method is bounds instead of gradient")
    assert 'pip install "fadiff-mapper[gradient]"' in done.stderr and done.stderr.count("\n") == 1
    assert json.loads((tmp_path / "fadiff.design.json").read_text())["options"]["method"] == "bounds"


@pytest.mark.parametrize("words", [
    ("map", "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000"),
    ("network", "bundled:networks/resnet18", "bundled:arch/gemmini_small"),
    ("design", "bundled:spaces/gemmini_small", "bundled:networks/resnet18")])
def test_the_gradient_names_what_is_missing(environment: dict[str, str], tmp_path: Path,
                                            words: tuple[str, ...]) -> None:
    done = command(environment, *words, "-o", tmp_path / "out", "--method", "gradient")
    assert (done.returncode, done.stderr) == (2, "error: the method gradient: needs torch, which is not installed; "
                                                 'accepted: pip install "fadiff-mapper[gradient]"\n')
    assert not (tmp_path / "out").exists()


PLOT = """
from fadiff_mapper import FadiffError, SearchOptions, load, map_layer
spec = load("bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000")
try:
    map_layer(spec, SearchOptions(effort="light")).plot()
except FadiffError as error:
    print(error)
"""


def test_a_figure_names_what_is_missing(environment: dict[str, str]) -> None:
    assert run(environment, "-c", PLOT).stdout == (
        'plot(): needs matplotlib, which is not installed; accepted: pip install "fadiff-mapper[plot]"\n')


def test_an_exported_program_names_what_is_missing(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "net.pt2").write_bytes(b"")
    done = command(environment, "import", tmp_path / "net.pt2", "-o", tmp_path / "net.yaml")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert done.stderr.endswith('with PyTorch: pip install "fadiff-mapper[gradient]"\n')
