"""A short attack on every door: success or lines, never a traceback, never long, never much memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz.all_doors import DOORS
from fuzz.attack import Attack

CASES = {"checkpoints": 3, "launchers": 10, "arguments": 20, "runs": 20, "sizes": 3, "files": 12, "onnx": 20,
         "mapped": 3, "sparse": 20, "operators": 20, "spaces": 6, "measured": 12, "calibrations": 3}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attack]:
    """One attack, and so one process of the program, for all doors."""
    pytest.importorskip("onnx")
    attack = Attack(tmp_path_factory.mktemp("attack"), None, lambda line: None)
    yield attack
    attack.close()


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_hostile_input_ends_in_success_or_in_lines(door: str, running: Attack) -> None:
    for number in range(CASES.get(door, 30)):
        running.case(door, DOORS[door], number, seed=1)
    assert [finding for finding in running.report.findings if finding.startswith(f"{door} ")] == []
    assert sum(count for (name, _), count in running.report.outcomes.items() if name == door) == CASES.get(door, 30)
