"""The correction: cycles of real hardware from the features of a mapping.

    cycles = tiles * ( (s^p + c^p + t^p + m^p)^(1/p) + o )

s, c, t, m are a tile's cycles for start-up, compute, streams and memory, o is the overhead per run. Each is the sum of
its features times nonnegative coefficients. With p = 1 the parts add up, as nothing overlaps; with large p the longest
part counts, as everything overlaps, which is Timeloop's model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.base.standard_streams import shortened
from fadiff_mapper.calibration.features import FEATURES, MEANING, NAMES, PROGRAMS, feature_table, tensor_roles
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.inputs.yaml.located import kind_of
from fadiff_mapper.kernel._kernel import Correction, Program
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace


@dataclass(frozen=True)
class FitVerdict:
    """The errors of a correction and of the exact model on the same measured points."""

    points: int  # measured points
    spearman: float  # rank correlation of the corrected with the measured cycles, over the points of all folds together
    error: float  # mean of |predicted / measured - 1|
    exact_spearman: float  # rank correlation of the exact model's cycles
    exact_error: float  # mean error of the exact model's cycles

    @property
    def better(self) -> bool:
        """Whether the correction beats the exact model in rank and in error."""
        return self.spearman > self.exact_spearman and self.error < self.exact_error


@dataclass(frozen=True)
class Calibration:
    """A fitted correction."""

    program: str  # the software that runs a mapping on the hardware, one of `features.PROGRAMS`
    levels: tuple[str, ...]  # names of the storage levels of the architecture, innermost first
    word_bytes: float  # bytes of a word in the outermost level
    coefficients: tuple[float, ...]  # [F]. Cycles per unit of each feature, in the order of `features.NAMES`.
    norm: float  # p, at least 1
    unseen: FitVerdict  # the verdict on held-out layers
    # the verdict on points that a search proposed; None where the measurements mark none
    searched: FitVerdict | None = None

    @property
    def useful(self) -> bool:
        """Whether the correction beats the exact model on held-out layers, and on searched points, if there are any.
        """
        return self.unseen.better and (self.searched is None or self.searched.better)

    def check_architecture(self, arch: Architecture) -> None:
        """Raises FadiffError for an architecture with other storage levels."""
        if arch.level_names() != self.levels:
            raise FadiffError(f"calibration: found the storage levels {listed(arch.level_names())}; accepted: those of "
                              f"the architecture that was measured, {shortened(listed(self.levels))}")

    def cycles(self, problem: Problem, nest: Nest) -> Array:
        """Predicted cycles on the measured hardware, [B], for B mappings of a layer; differentiable for torch tensors.

        Raises:
            FadiffError: The problem has not exactly two operands.
        """
        tiles, table = feature_table(self.program, problem, nest, self.word_bytes)
        return predict(tiles, table, self.coefficients, self.norm)

    def compiled(self, problem: Problem) -> Correction:
        """The correction for the compiled search of a layer; raises FadiffError as `cycles` does."""
        roles = tensor_roles(problem)
        return Correction(
            program=Program.__members__[self.program], bounds=[float(bound) for bound in problem.bounds.values()],
            stream=-1 if roles.stream is None else roles.stream, word_bytes=self.word_bytes, norm=self.norm,
            reduced=roles.reduced, windows=roles.windows, produced=roles.produced, positions=roles.positions,
            groups=roles.groups, sliding=roles.sliding, inputs=roles.inputs, coefficients=self.coefficients)

    def record(self) -> dict[str, Any]:
        """The calibration as it is written into the record of a run."""
        return {"calibration": {"program": self.program, "norm": self.norm,
                                "cycles_per": dict(zip(NAMES, self.coefficients, strict=True))}}


def predict(tiles: Array, table: Array, coefficients: Sequence[float] | np.ndarray, norm: float) -> Array:
    """The formula at the top of this file, [B], from the number of tiles [B] and the features per tile [F, B]."""
    xp = array_namespace(table)
    by_part: dict[str, Array] = {}
    for row, (part, _) in enumerate(FEATURES.values()):
        cycles = table[row] * float(coefficients[row])
        by_part[part] = by_part[part] + cycles if part in by_part else cycles
    once = by_part.pop("once")
    longest = xp.max(xp.stack(list(by_part.values())), axis=0)  # keeps powers from overflowing
    # Powers are the C library's, as in the compiled form: NumPy's `**` differs from it in the last bit.
    total = sum(xp.float_power(cycles / longest, norm) for cycles in by_part.values())
    joined = longest * xp.float_power(total, 1.0 / norm)
    return tiles * (joined + once)


VERSION = 1
WRITTEN = "a file that `fadiff-mapper calibrate` has written"
LARGEST_FILE = 1 << 20
"""Bytes that are read at most, far above the size of a calibration: a safety limit."""
LARGEST = 1e12
"""The largest coefficient accepted, in cycles: a safety limit."""
LEAST = {"tile": 1e-9}
"""Least coefficients, in cycles, so that no prediction is 0; the others may be 0."""
KEYS = {"fadiff_calibration", "program", "levels", "word_bytes", "norm", "cycles_per", "meaning", "unseen_layers",
        "searched_points"}


def calibration_text(calibration: Calibration) -> str:
    verdicts = {"unseen_layers": calibration.unseen, "searched_points": calibration.searched}
    content = {
        "fadiff_calibration": VERSION, "program": calibration.program, "levels": list(calibration.levels),
        "word_bytes": calibration.word_bytes, "norm": calibration.norm,
        "cycles_per": dict(zip(NAMES, calibration.coefficients, strict=True)),
        "meaning": {name: f"cycles per {MEANING[name]}" for name in NAMES},
    } | {name: asdict(verdict) for name, verdict in verdicts.items() if verdict}
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def read_calibration(file: str | os.PathLike[str], *, force: bool = False) -> Calibration:
    """Reads a calibration that `calibrate` wrote; `force` also accepts one that does not beat the exact model.

    Raises:
        FadiffError: The file cannot be read or is no calibration, or it does not beat the exact model.
    """
    try:
        content = json.loads(read_text(Path(file), WRITTEN, LARGEST_FILE))
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
    program, levels, coefficients = (content.get(name) for name in ("program", "levels", "cycles_per"))
    if not isinstance(program, str) or program not in PROGRAMS:
        raise FadiffError(f"{file}: program: found {kind_of(program)}; accepted: {listed(PROGRAMS)}")
    if not isinstance(levels, list) or not levels or not all(isinstance(name, str) for name in levels):
        raise FadiffError(f"{file}: levels: found {kind_of(levels)}; accepted: names of storage levels")
    if not isinstance(coefficients, dict) or set(coefficients) != set(NAMES):
        raise FadiffError(f"{file}: cycles_per: accepted: a number for each of {listed(NAMES)}")

    def number(name: str, value: Any, least: float, most: float) -> float:
        """A number within limits. Raises FadiffError."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise FadiffError(f"{file}: {name}: found {kind_of(value)}; accepted: a number from {least:g} to {most:g}")
        return float(value)

    def verdict(name: str) -> FitVerdict:
        fields, figures = list(FitVerdict.__dataclass_fields__), content.get(name)
        if not isinstance(figures, dict) or set(figures) != set(fields):
            raise FadiffError(f"{file}: {name}: accepted: {listed(fields)}")
        points, *others = (number(f"{name}.{field}", figures[field], -1.0, 1e15) for field in fields)
        return FitVerdict(int(points), *others)

    values = tuple(number(f"cycles_per.{name}", coefficients[name], LEAST.get(name, 0.0), LARGEST) for name in NAMES)
    calibration = Calibration(
        program, tuple(levels), number("word_bytes", content.get("word_bytes"), 1e-3, 1e3), values,
        number("norm", content.get("norm"), 1.0, 1e4), verdict("unseen_layers"),
        None if content.get("searched_points") is None else verdict("searched_points"))
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
