"""The files of a sparse design are those that `timeloop-model` writes, and `explain` tells what was saved."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import yaml

from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.output.run_files import map_txt
from fadiff_mapper.output.stats_txt import stats_txt

RECORDED = Path(__file__).parents[1] / "recorded" / "sparse"


def recorded(name: str, file: str) -> str:
    with gzip.open(RECORDED / f"{name}.{file}.gz", "rt", encoding="utf-8") as text:
        return text.read()


@pytest.mark.parametrize("name", ["fan_cp", "mm2", "rs_rle"])
def test_the_files_are_those_of_timeloop(name: str) -> None:
    spec = load(yaml.safe_load(recorded(name, "input.yaml")))
    stats = evaluate(spec)
    assert spec.mapping is not None
    assert stats_txt(spec, stats).split("\n", 1)[1] == recorded(name, "stats.txt")
    assert map_txt(spec, spec.mapping, stats) == recorded(name, "map.txt")
