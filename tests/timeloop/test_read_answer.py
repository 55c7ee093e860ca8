"""Reading what timeloop-model leaves behind keeps level, data space and action apart, on every bundled design."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.timeloop.run_model import STATS, XML, read_answer
from fadiff_mapper.timeloop.verify import compared, differences

RECORDED = Path(__file__).parents[1] / "recorded" / "designs"
ROWS = {"reads": "Scalar reads (per-instance)", "fills": "Scalar fills (per-instance)",
        "updates": "Scalar updates (per-instance)", "partition_size": "Partition size",
        "utilized_capacity": "Utilized capacity", "address_generations": "Address generations (per-cluster)"}
SPACES = ("Weights", "Inputs", "Outputs")
DESIGNS = pytest.mark.parametrize("design", list(bundled_files.designs()))


def recorded(design: str, kind: str) -> str:
    return gzip.decompress((RECORDED / f"{design}.{kind}.gz").read_bytes()).decode()


def left_behind(design: str, folder: Path) -> Path:
    (folder / STATS).write_text(recorded(design, "stats.txt"))
    (folder / XML).write_text(recorded(design, "map+stats.xml"))
    return folder


def printed(text: str) -> Iterator[tuple[str, str, str, int]]:
    """(level, data space, quantity, number) as one walks down the printed statistics, line by line."""
    level = space = ""
    for line in text.split("\nNetworks\n")[0].splitlines():
        if header := re.fullmatch(r"=== (\S+) ===", line):
            level, space = header[1], ""
        elif header := re.fullmatch(r" {4}(\w+):", line):
            space = header[1]
        for quantity, label in ROWS.items():
            if space and line.strip().startswith(label):
                yield level, space, quantity, int(line.rsplit(": ", 1)[1])


@DESIGNS
def test_every_count_is_the_printed_one(design: str, tmp_path: Path) -> None:
    answer = read_answer(left_behind(design, tmp_path), SPACES)
    levels = {level["name"]: level["dataspaces"] for level in answer["levels"]}
    found = list(printed(recorded(design, "stats.txt")))
    assert len(found) == len(ROWS) * sum(map(len, levels.values())) > 40
    for level, space, quantity, number in found:
        assert levels[level][space][quantity] == number, (level, space, quantity)


@DESIGNS
def test_the_evaluation_gives_every_number(design: str, tmp_path: Path) -> None:
    (tmp_path / "input.yaml").write_text(recorded(design, "input.yaml"))
    found = evaluate(load(tmp_path / "input.yaml"))
    assert not list(differences(read_answer(left_behind(design, tmp_path), SPACES), compared(found)))


@DESIGNS
@pytest.mark.parametrize("kept", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("file", [STATS, XML])
def test_half_a_file_is_no_answer(design: str, kept: float, file: str, tmp_path: Path) -> None:
    path = left_behind(design, tmp_path) / file
    text = path.read_text()
    path.write_text(text[:int(kept * len(text.rstrip()))])
    with pytest.raises(FadiffError, match=re.escape(file)):
        read_answer(tmp_path, SPACES)
