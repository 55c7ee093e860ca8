"""The verdict of the real `timeloop-model` on our numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.timeloop.verify import Verdict, verify_plan

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult


def print_verdict(verdict: Verdict, problem: str = "", file: TextIO | None = None) -> int:
    """Prints one line if all numbers are equal, else a line for each that differs.

    Args:
        verdict: The comparison of all numbers.
        problem: Name of the problem, given where there are several.
        file: Where to print; standard output by default.

    Returns:
        The exit code: 0 if all numbers are equal, 1 otherwise.
    """
    prefix = f"{problem}: " if problem else ""
    by = f"verified by {verdict.program.name} ({verdict.identity}, {verdict.program})"
    if verdict.equal:
        say(f"{prefix}{by}: {verdict.numbers} numbers equal", file)
        return 0
    say(f"{prefix}not {by}: {len(verdict.differences)} differences in {verdict.numbers} numbers", file)
    for line in verdict.differences:
        say(f"  {line}", file)
    return 1


def print_plan_verdicts(result: NetworkResult, program: Path) -> bool:
    """Has the real `timeloop-model` run every layer and every tile of a plan, and prints a verdict for each.

    Args:
        result: The plan.
        program: The real program, see `timeloop.verify.real_model`.

    Returns:
        Whether a number differs.
    """
    verdicts = [print_verdict(verdict, name) for name, verdict in verify_plan(result, program)]
    return any(verdicts)
