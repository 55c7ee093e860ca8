"""A folder that `fadiff-mapper map` has written, read back and checked.

Folders are edited and mixed up, so a run is evaluated again before anything is explained: its mapping has to give the
numbers that are stored beside it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.sparse.evaluate_sparse_spec import evaluate
from fadiff_mapper.spec.mapper import METRICS
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.yaml.input_file import decoded, read_bytes
from fadiff_mapper.yaml.place import Where

INPUT, RESULT = "fadiff.input.yaml", "fadiff.result.json"

LARGEST = 1 << 28
"""Bytes of a result file that is read: a plain safety limit; those of long searches have some hundred thousand."""

WRITTEN = "a folder that fadiff-mapper map has written"

SAME = 1e-9
"""Relative difference within which energies repeat; cycles must be equal. Room for sums in another order on another
machine; nothing was measured."""


@dataclass(frozen=True)
class FinishedRun:
    """A finished run.

    Attributes:
        spec: Its input, with the mapping, without constraints.
        mapping: The mapping.
        stats: The mapping's numbers, computed again.
        stored: The contents of its result file.
    """

    spec: Spec
    mapping: Mapping
    stats: Stats
    stored: dict[str, Any]


def read_run(folder: Path | str) -> FinishedRun:
    """Reads and checks the folder of a run.

    Args:
        folder: A folder that `fadiff-mapper map` has written.

    Raises:
        FadiffError: There is no such folder, a file is missing or broken, or the mapping does not give the stored
            numbers again.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FadiffError(f"{folder}: there is no such folder; accepted: {WRITTEN}")
    missing = [name for name in (INPUT, RESULT) if not (folder / name).is_file()]
    if missing:
        raise FadiffError(f"{folder}: {listed(missing)} not found; accepted: {WRITTEN}")
    stored = _stored(folder / RESULT)
    spec = load(str(folder / INPUT), strict=False)
    if spec.mapping is None:
        raise FadiffError(f"{folder / INPUT}: there is no mapping section; accepted: the file as it was written")
    stats = evaluate(spec)
    _check_repeats(folder, stored["stats"], stats)
    return FinishedRun(spec, spec.mapping, stats, stored)


def _stored(path: Path) -> dict[str, Any]:
    """The contents of a result file. Raises FadiffError where a part that is used here is missing or misshapen."""
    accepted = "the file as it was written"
    try:
        contents = json.loads(decoded(read_bytes(path, accepted, LARGEST), Where(str(path)), accepted))
    except (ValueError, RecursionError) as error:
        raise FadiffError(f"{path}: cannot be read: {error}; accepted: {accepted}") from None
    stats = contents.get("stats") if isinstance(contents, dict) else None
    numbers = [stats.get(key) for key in ("cycles", "energy_pj")] if isinstance(stats, dict) else [None]
    if not all(isinstance(number, int | float) for number in numbers):
        raise FadiffError(f"{path}: stats.cycles and stats.energy_pj not found; accepted: {accepted}")
    if not _is_bound(contents.get("bound")):
        raise FadiffError(f"{path}: bound cannot be understood; accepted: {accepted}")
    result: dict[str, Any] = contents
    return result


def _is_bound(stored: Any) -> bool:
    """Whether a value has the shape of a `lower_bound.bound_record`, as far as it is used here."""
    keys = {"metric": str, "where": str, "value": int | float, "source": str}
    return stored is None or (
        isinstance(stored, dict) and stored.get("metric") in METRICS and isinstance(stored.get("sentence"), str)
        and isinstance(stored.get("parts"), list) and all(
            isinstance(part, dict) and all(isinstance(part.get(key), expected) for key, expected in keys.items())
            for part in stored["parts"])
        and all(-SAME <= number < math.inf for entries in (stored, *stored["parts"]) for number in entries.values()
                if isinstance(number, int | float)))


def _check_repeats(folder: Path, stored: dict[str, Any], stats: Stats) -> None:
    """Raises FadiffError where cycles or energy are not those that were stored."""
    for key, today in (("cycles", stats.cycles), ("energy_pj", stats.energy_pj)):
        if not math.isclose(stored[key], today, rel_tol=0 if key == "cycles" else SAME):
            raise FadiffError(f"{folder}: the numbers do not repeat: {RESULT} says {key} {stored[key]}, the mapping of "
                              f"{INPUT} gives {today}; accepted: both files as one run wrote them")
