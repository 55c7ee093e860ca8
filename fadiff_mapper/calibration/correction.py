"""The correction itself: cycles of real hardware from the features of a mapping.

    cycles = tiles * ( (s^p + c^p + t^p + m^p)^(1/p) + o )

s, c, t, m are the cycles of a tile's start-up, compute, streams and memory, o what the whole run pays once: each the
sum of features times coefficients that are not negative. The norm lies between the sum of the parts (p = 1, nothing
overlaps) and the longest of them (p large, everything does); Timeloop's model is the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.calibration.features import GROUPS, NAMES, ONCE, features
from fadiff_mapper.calibration.tensor_roles import tensor_roles
from fadiff_mapper.calibration.tiled_run import PROGRAMS
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.yaml.place import shortened


@dataclass(frozen=True)
class FitVerdict:
    """A correction beside the exact model on the same measured points.

    Attributes:
        points: Measured points.
        spearman: Rank correlation of the corrected cycles with the measured ones; of the points of all folds
            together, where there are folds.
        error: Mean of |predicted / measured - 1|.
        exact_spearman: Rank correlation of the exact model's cycles.
        exact_error: Their mean error.
    """

    points: int
    spearman: float
    error: float
    exact_spearman: float
    exact_error: float

    @property
    def better(self) -> bool:
        """Whether the correction beats the exact model in rank and in error."""
        return self.spearman > self.exact_spearman and self.error < self.exact_error


@dataclass(frozen=True)
class Calibration:
    """A fitted correction.

    Attributes:
        program: The software that runs a mapping on the hardware, one of `tiled_run.PROGRAMS`.
        levels: Names of the storage levels of the architecture, innermost first.
        word_bytes: Bytes of a word in the outermost level.
        coefficients: [F]. Cycles per unit of each feature, in the order of `features.NAMES`.
        norm: p, at least 1.
        unseen: The verdict on layers that the fit did not see.
        searched: The verdict on points that a search proposed; None where the measurements mark none.
    """

    program: str
    levels: tuple[str, ...]
    word_bytes: float
    coefficients: tuple[float, ...]
    norm: float
    unseen: FitVerdict
    searched: FitVerdict | None = None

    @property
    def useful(self) -> bool:
        """Whether it beats the exact model on unseen layers, and on searched points where there are some."""
        return self.unseen.better and (self.searched is None or self.searched.better)

    def check_architecture(self, arch: Architecture) -> None:
        """Refuses an architecture with other storage levels. Raises FadiffError."""
        if arch.level_names() != self.levels:
            raise FadiffError(f"calibration: found the storage levels {listed(arch.level_names())}; accepted: those of "
                              f"the architecture that was measured, {shortened(listed(self.levels))}")

    def cycles(self, problem: Problem, nest: Nest) -> Array:
        """Cycles on the measured hardware.

        Args:
            problem: A layer with two operands.
            nest: B mappings of it; the factors may be torch tensors, of which the result is a differentiable function.

        Returns:
            [B]. Predicted cycles.

        Raises:
            FadiffError: The problem has another number of operands.
        """
        tiles, table = feature_table(self.program, problem, nest, self.word_bytes)
        return predict(tiles, table, self.coefficients, self.norm)

    def record(self) -> dict[str, Any]:
        """The calibration among the options of a run, for the record that is written with it."""
        return {"calibration": {"program": self.program, "norm": self.norm,
                                "cycles_per": dict(zip(NAMES, self.coefficients, strict=True))}}


def feature_table(program: str, problem: Problem, nest: Nest, word_bytes: float) -> tuple[Array, Array]:
    """Tiles of the whole run, [B], and features per tile, [F, B], of mappings of one layer.

    Args:
        program: One of `tiled_run.PROGRAMS`.
        problem: The layer.
        nest: B mappings.
        word_bytes: Bytes of a word.
    """
    roles = tensor_roles(problem)
    run = PROGRAMS[program](nest, list(problem.bounds.values()), roles)
    return run.tiles, features(run, roles, word_bytes)


def predict(tiles: Array, table: Array, coefficients: Sequence[float] | np.ndarray, norm: float) -> Array:
    """The formula at the top of this file.

    Args:
        tiles: [B]. Tiles of the run.
        table: [F, B]. Features per tile, in the order of `features.NAMES`.
        coefficients: [F]. Cycles per unit of each feature.
        norm: p.

    Returns:
        [B]. Cycles.
    """
    xp = array_namespace(table)
    cycles = {name: table[row] * float(coefficients[row]) for row, name in enumerate(NAMES)}
    parts = xp.stack([sum((cycles[name] for name in names[1:]), start=cycles[names[0]]) for names in GROUPS.values()])
    longest = xp.max(parts, axis=0)  # divided by, so that no power overflows
    joined = longest * xp.sum((parts / longest) ** norm, axis=0) ** (1.0 / norm)
    return tiles * (joined + sum((cycles[name] for name in ONCE[1:]), start=cycles[ONCE[0]]))
