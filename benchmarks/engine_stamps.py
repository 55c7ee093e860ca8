"""CPU seconds of a search of designs by where they go, stamped inside its workers, for `design_speed.py`.

What machines add to a measurement, shares of a core and clock rates, is in every part of a run alike; so parts of one
run are compared, and not one run with another. Everything that no stamp covers is taken for the engine's.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from fadiff_mapper.design import executors, layer_entries
from fadiff_mapper.design.executors import _task

FOLDER = "FADIFF_ENGINE_STAMPS"
"""The variable of the environment with the folder in which every worker leaves its sums; workers inherit it."""


@dataclass
class Stamps:
    """CPU seconds, summed over processes.

    Attributes:
        evaluating: Inside of `evaluate_design`.
        searching: Inside of its search of mappings, which is what `map` does with the layers.
        everything: All seconds of this process and of those below it.
    """

    evaluating: float = 0.0
    searching: float = 0.0
    everything: float = 0.0

    def __sub__(self, other: Stamps) -> Stamps:
        return Stamps(*(mine - yours for mine, yours in zip(asdict(self).values(), asdict(other).values(),
                                                            strict=True)))


OWN = Stamps()
"""Seconds of this worker; `everything` is not known to it."""


def stamped_task(*task: Any) -> Any:
    """A worker's task in the place of `executors._task`, with stamps around it and around the search of mappings."""
    if not hasattr(layer_entries.search_all, "stamped"):
        layer_entries.search_all = _stamped(layer_entries.search_all)
    start = time.process_time()
    try:
        return _task(*task)
    finally:
        OWN.evaluating += time.process_time() - start
        Path(os.environ[FOLDER], str(os.getpid())).write_text(json.dumps(asdict(OWN)), encoding="utf-8")


def _stamped(search: Callable[..., Any]) -> Callable[..., Any]:
    def stamped(*given: Any, **settings: Any) -> Any:
        start = time.process_time()
        try:
            return search(*given, **settings)
        finally:
            OWN.searching += time.process_time() - start

    stamped.stamped = True  # type: ignore[attr-defined]
    return stamped


@contextmanager
def engine_stamps(folder: Path) -> Iterator[Callable[[], Stamps]]:
    """Stamps all searches of designs that begin inside, as a context manager.

    Args:
        folder: An empty folder for the sums of the workers.

    Yields:
        A function that says what has been spent since the start of this process. Between rounds, when no design is
        being evaluated, its parts fit together.
    """
    OWN.evaluating = OWN.searching = 0.0

    def spent() -> Stamps:
        workers = [json.loads(file.read_text(encoding="utf-8")) for file in folder.iterdir()]
        return Stamps(*(sum(worker[part] for worker in workers) for part in ("evaluating", "searching")),
                      all_seconds())

    with mock.patch.dict(os.environ, {FOLDER: str(folder)}), mock.patch.object(executors, "_task", stamped_task):
        yield spent


def all_seconds() -> float:
    """CPU seconds of this process and all processes below it, running ones included."""
    ticks, total = os.sysconf("SC_CLK_TCK"), 0
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    for process, (_, spent) in parents.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above][0]
        total += spent if above == os.getpid() else 0
    return total / ticks
