"""A calibration as a file: JSON, so that it can be read, compared and loaded without running anything."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.calibration.correction import Calibration, FitVerdict
from fadiff_mapper.calibration.features import MEANING, NAMES
from fadiff_mapper.calibration.tiled_run import PROGRAMS
from fadiff_mapper.yaml.input_file import read_bytes
from fadiff_mapper.yaml.located import kind_of
from fadiff_mapper.yaml.place import shortened

VERSION = 1
"""Version of the file; other versions are refused."""

WRITTEN = "a file that `fadiff-mapper calibrate` has written"

LARGEST_FILE = 1 << 20
"""Bytes that are read at most; a calibration has about two thousand."""

LARGEST = 1e12
"""The largest coefficient, in cycles: a limit for safety."""

LEAST = {"tile": 1e-9}
"""Cycles that a coefficient has at least, so that no prediction is 0; the others may be 0."""

KEYS = {"fadiff_calibration", "program", "levels", "word_bytes", "norm", "cycles_per", "meaning", "unseen_layers",
        "searched_points"}


def calibration_text(calibration: Calibration) -> str:
    """The text of the file."""
    verdicts = {"unseen_layers": calibration.unseen, "searched_points": calibration.searched}
    content = {
        "fadiff_calibration": VERSION, "program": calibration.program, "levels": list(calibration.levels),
        "word_bytes": calibration.word_bytes, "norm": calibration.norm,
        "cycles_per": dict(zip(NAMES, calibration.coefficients, strict=True)),
        "meaning": {name: f"cycles per {MEANING[name]}" for name in NAMES},
    } | {name: asdict(verdict) for name, verdict in verdicts.items() if verdict}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def read_calibration(file: str | os.PathLike[str], *, force: bool = False) -> Calibration:
    """Reads a calibration.

    Args:
        file: The file that `calibrate` wrote.
        force: Whether one that does not beat the exact model is accepted.

    Raises:
        FadiffError: The file cannot be read or is no calibration, or it does not beat the exact model.
    """
    calibration = _calibration(_content(Path(file)), str(file))
    if not calibration.useful and not force:
        raise FadiffError(f"{file}: this calibration does not beat the exact model: {sentence(calibration)}; accepted: "
                          "one that does, or --force")
    return calibration


def sentence(calibration: Calibration) -> str:
    """The verdicts in words."""
    parts = [("layers not learned from", calibration.unseen), ("points that a search proposed", calibration.searched)]
    return "; ".join(f"{name}: rank correlation {verdict.spearman:.3f} (exact model {verdict.exact_spearman:.3f}), "
                     f"mean error {verdict.error:.1%} ({verdict.exact_error:.1%})"
                     for name, verdict in parts if verdict)


def _content(file: Path) -> dict[str, Any]:
    """The object in the file. Raises FadiffError."""
    try:
        content = json.loads(read_bytes(file, WRITTEN, LARGEST_FILE))
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict) or "fadiff_calibration" not in content:
        raise FadiffError(f"{file}: found no calibration; accepted: {WRITTEN}")
    if content["fadiff_calibration"] != VERSION:
        raise FadiffError(f"{file}: fadiff_calibration: found {kind_of(content['fadiff_calibration'])}; "
                          f"accepted: {VERSION}")
    if set(content) - KEYS:
        raise FadiffError(f"{file}: found the keys {shortened(listed(sorted(set(content) - KEYS)))}; accepted: "
                          f"{listed(sorted(KEYS))}")
    return content


def _calibration(content: dict[str, Any], file: str) -> Calibration:
    """The checked content as a value. Raises FadiffError."""
    program, levels, coefficients = (content.get(name) for name in ("program", "levels", "cycles_per"))
    if not isinstance(program, str) or program not in PROGRAMS:
        raise FadiffError(f"{file}: program: found {kind_of(program)}; accepted: {listed(PROGRAMS)}")
    if not isinstance(levels, list) or not levels or not all(isinstance(name, str) for name in levels):
        raise FadiffError(f"{file}: levels: found {kind_of(levels)}; accepted: names of storage levels")
    if not isinstance(coefficients, dict) or set(coefficients) != set(NAMES):
        raise FadiffError(f"{file}: cycles_per: accepted: a number for each of {listed(NAMES)}")
    values = tuple(_number(f"{file}: cycles_per.{name}", coefficients[name], LEAST.get(name, 0.0), LARGEST)
                   for name in NAMES)
    searched = content.get("searched_points")
    word_bytes = _number(f"{file}: word_bytes", content.get("word_bytes"), 1e-3, 1e3)
    return Calibration(program, tuple(levels), word_bytes, values,
                       _number(f"{file}: norm", content.get("norm"), 1.0, 1e4),
                       _verdict(content.get("unseen_layers"), f"{file}: unseen_layers"),
                       None if searched is None else _verdict(searched, f"{file}: searched_points"))


def _verdict(content: Any, where: str) -> FitVerdict:
    names = list(FitVerdict.__dataclass_fields__)
    if not isinstance(content, dict) or set(content) != set(names):
        raise FadiffError(f"{where}: accepted: {listed(names)}")
    points, *figures = (_number(f"{where}.{name}", content[name], -1.0, 1e15) for name in names)
    return FitVerdict(int(points), *figures)


def _number(where: str, value: Any, least: float, most: float) -> float:
    """A number within limits. Raises FadiffError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise FadiffError(f"{where}: found {kind_of(value)}; accepted: a number from {least:g} to {most:g}")
    return float(value)
