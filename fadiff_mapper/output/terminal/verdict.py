"""What the real `timeloop-model` says to our numbers."""

from __future__ import annotations

import sys
from typing import TextIO

from fadiff_mapper.timeloop.verify import Verdict


def print_verdict(verdict: Verdict, problem: str = "", file: TextIO | None = None) -> int:
    """One line where all numbers are equal, else a line for each that is not; the exit code: 0 or 1.

    `problem` is the name of the one that the verdict belongs to, where there are several.
    """
    out = file or sys.stdout
    whose = f"{problem}: " if problem else ""
    by = f"verified by {verdict.program.name} ({verdict.identity}, {verdict.program})"
    if verdict.equal:
        print(f"{whose}{by}: {verdict.numbers} numbers equal", file=out)
        return 0
    print(f"{whose}not {by}: {len(verdict.differences)} differences in {verdict.numbers} numbers", file=out)
    for line in verdict.differences:
        print(f"  {line}", file=out)
    return 1
