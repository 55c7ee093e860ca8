"""A short attack on every door: success or lines, never a traceback, never long, never much memory."""

from __future__ import annotations

import pytest
from fuzz.all_doors import DOORS
from fuzz.attack import attack

CASES = {"checkpoints": 3, "launchers": 10, "arguments": 20, "runs": 20, "sizes": 3, "files": 12, "onnx": 20,
         "mapped": 3, "sparse": 20, "operators": 20, "spaces": 6, "measured": 12, "calibrations": 6}


@pytest.mark.parametrize("door", DOORS)
def test_hostile_input_ends_in_success_or_in_lines(door: str) -> None:
    pytest.importorskip("onnx")
    assert attack({door: DOORS[door]}, seed=1, cases=CASES.get(door, 30)).findings == []
