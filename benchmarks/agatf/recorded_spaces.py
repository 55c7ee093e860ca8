"""The recorded spaces of the four networks on both Gemminis: groups take minutes to evaluate, and no time to read.

    python -m benchmarks.agatf.recorded_spaces [NETWORK ...] [--seconds S]

evaluates what `spaces/` lacks, for S seconds at most, and goes on at the next call. A job of the comparison evaluates
some groups of each space again (`again`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.agatf.exact_groups import SpaceTask, space_group, space_task, with_candidates
from benchmarks.agatf.fusion_space import FusionSpace, SpaceGroup
from benchmarks.agatf.import_networks import INPUTS, network
from fadiff_mapper.fusion.prices import OperatingPoint

FOLDER = Path(__file__).with_name("spaces")

NETWORKS = tuple(INPUTS)

DESIGNS = ("gemmini_large", "gemmini_small")

INTERVAL = 20.0
"""Seconds between writes. A plain limit."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NETWORKS, metavar="NETWORK")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    for name in options.names:
        for design in DESIGNS:
            if not finished(file_of(name, design)):
                print(f"{name} on {design}: {record(name, design, end)} groups are missing", flush=True)


def file_of(name: str, design: str) -> Path:
    """The file of a space."""
    return FOLDER / f"{name}-{design}.json.gz"


def finished(file: Path) -> bool:
    """Whether a file has all groups of its space."""
    return file.exists() and None not in _content(file)["groups"]


def record(name: str, design: str, end: float) -> int:
    """Evaluates groups until a time of the monotonic clock, and writes them.

    Returns:
        How many are missing.
    """
    if time.monotonic() > end:
        return -1
    file, task = file_of(name, design), space_task(network(name), design)
    entries: list[Any] = _content(file)["groups"] if file.exists() else [None] * len(task.segments)
    written = time.monotonic()
    for index, segment in enumerate(task.segments.values()):
        if entries[index] is None and time.monotonic() < end:
            entries[index] = _entry(space_group(task, segment))
        if time.monotonic() - written > INTERVAL:
            _write(file, task, entries)
            written = time.monotonic()
    _write(file, task, entries)
    return entries.count(None)


def again(name: str, design: str, groups: int) -> tuple[int, int]:
    """Evaluates some groups of a recorded space again.

    Args:
        name: The network.
        design: The design.
        groups: Number of groups, drawn at random.

    Returns:
        How many were evaluated, and how many of these have the recorded energy and cycles.
    """
    task, recorded = space_task(network(name), design), space(name, design)
    picked = random.Random(0).sample(range(len(recorded.groups)), min(groups, len(recorded.groups)))
    segments = list(task.segments.values())
    same = [_entry(space_group(task, segments[index]))["exact"] == _entry(recorded.groups[index])["exact"]
            for index in picked]
    return len(same), sum(same)


@cache
def space(name: str, design: str) -> FusionSpace:
    """Reads a recorded space."""
    content = _content(file_of(name, design))
    number = {tuple(nodes): index for nodes, index in content["segments"]}
    groups = tuple(SpaceGroup(OperatingPoint(*entry["estimate"]), entry["exact"] and OperatingPoint(*entry["exact"]),
                              entry["searches"], entry["cpu_s"]) for entry in content["groups"])
    alone = {layer: OperatingPoint(*point) for layer, point in content["alone"].items()}
    return FusionSpace(network(name), design, tuple(map(tuple, content["chains"])), alone,
                       OperatingPoint(*content["joined"]), with_candidates(number, groups), groups)


def _content(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(gzip.decompress(file.read_bytes()))
    return content


def _write(file: Path, task: SpaceTask, entries: list[Any]) -> None:
    """Writes a space with the groups that are known; the same content gives the same bytes."""
    run = task.run
    content: Mapping[str, Any] = {
        "network": run.workload.name, "design": task.design, "chains": run.chains,
        "alone": {name: _numbers(point) for name, point in run.alone.items()}, "joined": _numbers(run.joined),
        "segments": [[list(nodes), index] for nodes, index in task.number.items()], "groups": entries}
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(gzip.compress(json.dumps(content).encode(), mtime=0))


def _entry(group: SpaceGroup) -> dict[str, Any]:
    """A group as JSON."""
    return {"estimate": _numbers(group.estimate), "exact": group.exact and _numbers(group.exact),
            "searches": group.searches, "cpu_s": round(group.cpu_s, 3)}


def _numbers(point: OperatingPoint) -> list[float]:
    """Energy and cycles to ten digits."""
    return [float(f"{point.energy_pj:.10g}"), float(f"{point.cycles:.10g}")]


if __name__ == "__main__":
    main()
