"""Asks the real `timeloop-model` whether it gives the same numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.network.result import NetworkResult
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
    """The outcome of a comparison with the real `timeloop-model`.

    Attributes:
        program: The program that was asked.
        identity: A name for its very build.
        numbers: How many numbers it gave; 0 where it rejected the mapping, failed, hung or left half a file.
        differences: A line for each number that differs, or the reason why there are none.
    """

    program: Path
    identity: str
    numbers: int
    differences: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """Whether every number is the same."""
        return not self.differences


def real_model(search_path: str | None = None) -> Path:
    """Looks for the real `timeloop-model`.

    Args:
        search_path: Folders as in PATH; None: the variable PATH itself.

    Raises:
        FadiffError: There is none; launchers of ours do not count.
    """
    program = find_real(MODEL, search_path)
    if program is None:
        raise FadiffError(f"nothing to verify against: no {MODEL} on the PATH (launchers of fadiff-mapper do not "
                          "count); install Timeloop, or run without --verify")
    return program


def verify(spec: Spec, mapping: Mapping, stats: Stats, program: Path, timeout: float = TIMEOUT) -> Verdict:
    """Has the real `timeloop-model` evaluate a mapping and compares every number that it gives.

    Args:
        spec: The input.
        mapping: A mapping of its problem; the program gets both as `fadiff.input.yaml` holds them.
        stats: Our numbers of the mapping.
        program: The real `timeloop-model`.
        timeout: Seconds until the program is ended.
    """
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


def verify_plan(plan: NetworkResult, program: Path) -> Iterator[tuple[str, Verdict]]:
    """Has the real `timeloop-model` run every layer and every tile of a plan, one after the other.

    Args:
        plan: The plan.
        program: The real `timeloop-model`.

    Yields:
        The name of a layer, "NAME (tile)" of a tile, and the comparison.
    """
    for layer in plan.layers:
        yield layer.nodes[0], verify(layer.spec, layer.mapping, layer.stats, program)
    for tile in (tile for group in plan.groups for tile in group.tiles):
        yield f"{tile.node} (tile)", verify(tile.spec, tile.mapping, tile.stats, program)
