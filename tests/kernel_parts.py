"""Parts of the kernel one by one (`kernel/parts.cpp`), a module that the build of the kernel makes in the checkout.

And the scores of arrays, which those of the kernel must equal.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.evaluate import Evaluation, Scores
from fadiff_mapper.model.legality import LegalityCheck, Room
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search import refinement
from fadiff_mapper.search.layer_family import LayerFamily

FILE = Path(__file__).parents[1] / "fadiff_mapper" / "kernel" / f"_parts{EXTENSION_SUFFIXES[0]}"
LOADER = ExtensionFileLoader("_parts", str(FILE))
SPEC = spec_from_loader("_parts", LOADER)
assert SPEC is not None
parts: Any = module_from_spec(SPEC)
"""The functions; they take the classes of `_kernel`."""
LOADER.exec_module(parts)


def space_table(family: LayerFamily, residuals: bool = False) -> dict[str, Any]:
    """The tables of a family's first map space as the kernel is handed them, arguments by name."""
    with patch.object(refinement, "SpaceTables", lambda layer, **tables: tables):
        found: Any = refinement.compiled_space(family, 0, residuals=residuals)
    return dict(found)


def excess(checks: list[LegalityCheck]) -> np.ndarray:
    """Distance from legality, [B]: the sum over broken limits of |log2(asked / available)|, and 0.1 for each."""
    total = np.zeros(len(checks[0].broken))
    for check in checks:
        ratio = np.maximum(check.amount, 1e-9) / max(check.limit, 1e-9)
        total += check.broken * (np.abs(np.log2(ratio)) + 0.1)
    return total


def scores_of(evaluation: Evaluation) -> Scores:
    """The scores of an evaluated batch."""
    return Scores(evaluation.cycles, evaluation.energy, outermost_accesses(evaluation.counts, evaluation.tile),
                  evaluation.legal, excess(evaluation.checks))


def unrounded_scores(layer: PreparedLayer, nest: Nest, room: Room | None = None) -> Scores:
    """Scores of mappings with residuals without Timeloop's faults of rounding, of the kernel."""
    words, counted = (None, None) if room is None else (room.words, room.counted)
    cycles, energy, outermost, excess, legal = parts.unrounded_scores(layer.compiled, nest_arrays(nest), words, counted)
    return Scores(cycles, energy, outermost, legal.astype(np.bool_), excess)
