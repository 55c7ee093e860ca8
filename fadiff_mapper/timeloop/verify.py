"""Asks the real `timeloop-model` whether it gives the same numbers."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.merged_input import merged_input
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.timeloop.compare_answers import compared, differences, numbers
from fadiff_mapper.timeloop.find_programs import find_real, identity
from fadiff_mapper.timeloop.run_model import run_text

MODEL = "timeloop-model"
TIMEOUT = 600.0
"""Seconds for one evaluation by Timeloop, which takes minutes where windows slide over long loops."""


@dataclass(frozen=True)
class Verdict:
    """What the comparison gave: how many numbers Timeloop has, and a line for each that is not ours.

    Where Timeloop rejects the mapping, fails, hangs or leaves half a file, `numbers` is 0 and the line says so.
    """

    program: Path
    identity: str
    numbers: int
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        return not self.differences


def real_model(search_path: str | None = None) -> Path:
    """The real `timeloop-model` on the search path (None: PATH). Raises FadiffError where there is none."""
    found = find_real(MODEL, search_path)
    if found is None:
        raise FadiffError(f"nothing to verify against: no {MODEL} on the PATH (launchers of fadiff-mapper do not "
                          "count); install Timeloop, or run without --verify")
    return found


def verify(spec: Spec, mapping: Mapping, stats: Stats, program: Path, timeout: float = TIMEOUT) -> Verdict:
    """Run the program on what `fadiff.input.yaml` holds for this mapping, and compare every number it gives."""
    try:
        with tempfile.TemporaryDirectory(prefix="fadiff-verify-") as folder:
            answer = run_text(merged_input(spec, mapping), spec.problem.dataspace_names(), Path(folder),
                              (str(program),), timeout=timeout)
    except FadiffError as error:
        return Verdict(program, identity(program), 0, (str(error),))
    if answer.result is None:
        return Verdict(program, identity(program), 0, (f"rejected: {answer.error}",))
    return Verdict(program, identity(program), numbers(answer.result),
                   tuple(differences(answer.result, compared(stats))))
