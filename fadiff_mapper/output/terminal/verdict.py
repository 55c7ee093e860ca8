"""The verdict of the real `timeloop-model` on our numbers."""

from __future__ import annotations

import sys
from typing import TextIO

from fadiff_mapper.timeloop.verify import Verdict


def print_verdict(verdict: Verdict, problem: str = "", file: TextIO | None = None) -> int:
    """Prints one line if all numbers are equal, else a line for each that differs.

    Args:
        verdict: The comparison of all numbers.
        problem: Name of the problem, given where there are several.
        file: Where to print; standard output by default.

    Returns:
        The exit code: 0 if all numbers are equal, 1 otherwise.
    """
    out = file or sys.stdout
    prefix = f"{problem}: " if problem else ""
    by = f"verified by {verdict.program.name} ({verdict.identity}, {verdict.program})"
    if verdict.equal:
        print(f"{prefix}{by}: {verdict.numbers} numbers equal", file=out)
        return 0
    print(f"{prefix}not {by}: {len(verdict.differences)} differences in {verdict.numbers} numbers", file=out)
    for line in verdict.differences:
        print(f"  {line}", file=out)
    return 1
