"""v0.4 inputs have the numbers that Timeloop gives for its front end's translation; the answers are recorded."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from recorded_cases import RECORDED

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.timeloop.verify import compared, differences

FRONT_END = RECORDED.parents[1] / "recorded" / "v04" / "front_end.jsonl.gz"
with gzip.open(FRONT_END, "rt", encoding="utf-8") as lines:
    CASES: dict[str, dict[str, Any]] = {line["id"]: line for line in map(json.loads, lines)}


@pytest.mark.parametrize("name", CASES)
def test_numbers_equal_those_of_the_front_ends_translation(name: str, tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(CASES[name]["text"], encoding="utf-8")
    spec = load(file, energy="built-in", strict=name != "density-as-text")
    assert list(differences(CASES[name]["result"], compared(evaluate(spec)))) == []


def test_a_density_that_timeloop_takes_for_0_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "input.yaml"
    file.write_text(CASES["density-as-text"]["text"], encoding="utf-8")
    with pytest.raises(SpecError, match=r'found the text "2 / n"; accepted: "\(2 / n\)"'):
        load(file)
