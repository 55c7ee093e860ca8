"""Parts of the kernel one by one (`kernel/parts.cpp`), a module that the build of the kernel makes in the checkout.

And the scores of arrays, which those of the kernel must equal.
"""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

from fadiff_mapper.model.energy_latency import outermost_accesses
from fadiff_mapper.model.evaluate import Evaluation, Scores
from fadiff_mapper.model.legality import excess

FILE = Path(__file__).parents[1] / "fadiff_mapper" / "kernel" / f"_parts{EXTENSION_SUFFIXES[0]}"
LOADER = ExtensionFileLoader("_parts", str(FILE))
SPEC = spec_from_loader("_parts", LOADER)
assert SPEC is not None
parts: Any = module_from_spec(SPEC)
"""The functions; they take the classes of `_kernel`."""
LOADER.exec_module(parts)


def scores_of(evaluation: Evaluation) -> Scores:
    """The scores of an evaluated batch."""
    return Scores(evaluation.cycles, evaluation.energy, outermost_accesses(evaluation.counts, evaluation.use),
                  evaluation.legal, excess(evaluation.checks))
