"""Builds for several levels of the instruction set: the processor's best is taken, and all give the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import fadiff_mapper.kernel
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.kernel.instruction_sets import BASELINE, LEVELS, V3, V4, level_of, usable_levels

HOME = Path(fadiff_mapper.kernel.__file__).parent
BUILDS = [HOME, *(HOME / level for level in usable_levels() if (HOME / level).is_dir())]

SEARCH = """
import sys
import fadiff_mapper.kernel as kernel
kernel.__path__[:] = [sys.argv[1]]
from fadiff_mapper import load, load_network, map_layer, map_network
from fadiff_mapper.kernel import _kernel
from sparse_inputs import recorded_specs
print(_kernel.__file__)
for spec in load("bundled:arch/eyeriss_like", "bundled:layers/resnet18/conv3x3_64_64_56_s1"), next(
        recorded_specs("fan_cp")):
    result = map_layer(spec, seed=3)
    print(result.stats.energy_pj.hex(), result.stats.cycles, result.evaluations, repr(result.mapping))
plan = map_network(load_network("bundled:networks/gpt3_6b7_block"), "bundled:arch/gemmini_small")
print(plan.gain.hex(), [[(loop.dim, loop.tile) for loop in group.group.loops] for group in plan.groups])
"""


@pytest.mark.parametrize(("features", "levels"), [
    (V4, ["x86-64-v4", "x86-64-v3"]), (V3 | {"avx512f"}, ["x86-64-v3"]), (V3 - {"fma"}, []), ((), [])])
def test_a_level_is_usable_where_the_first_processor_that_linux_lists_has_all_its_features(
        tmp_path: Path, features: Iterable[str], levels: list[str]) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text(f"processor\t: 0\nflags\t\t: fpu {' '.join(features)}\nvmx flags\t: ept\n\n"
                       f"processor\t: 1\nflags\t\t: {' '.join(V4)}\n")
    assert usable_levels(listing) == levels


def test_no_level_is_usable_where_no_features_are_listed(tmp_path: Path) -> None:
    arm = tmp_path / "cpuinfo"
    arm.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert usable_levels(arm) == usable_levels(tmp_path / "missing") == []


def test_the_best_build_that_there_is_was_imported() -> None:
    assert Path(_kernel.__file__ or "").parent == [*BUILDS[1:], HOME][0]


def test_the_level_of_a_build_is_its_folder() -> None:
    assert level_of("/site/fadiff_mapper/kernel/_kernel.so") == level_of(None) == BASELINE
    assert [level_of(f"/site/fadiff_mapper/kernel/{level}/_kernel.so") for level in LEVELS] == list(LEVELS)


@pytest.mark.slow
@pytest.mark.skipif(len(BUILDS) == 1, reason="one build for this processor")
def test_all_builds_find_the_same_mappings_and_groups_with_the_same_energy() -> None:
    path = os.pathsep.join([str(HOME.parents[1]), *sys.path])
    answers = []
    for build in BUILDS:
        done = subprocess.run([sys.executable, "-c", SEARCH, str(build)], check=True, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": path,
                                   "PYTHONHASHSEED": "0"})  # sets are printed in one order
        file, *numbers = done.stdout.splitlines()
        assert Path(file).parent == build
        answers.append(tuple(numbers))
    assert len(set(answers)) == 1
