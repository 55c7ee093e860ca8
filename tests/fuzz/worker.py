"""Runs commands of the package one after the other in one process: a request a line on standard input, a report a line
on standard output, with the time and the memory that it took. The parent watches both meanwhile, and ends a worker that
takes too much of either."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import resource
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path


def run(program: str, words: Sequence[str]) -> int:
    """One command: the command line's, or the launchers'. The exit code."""
    if program == "launcher":
        from fadiff_mapper.timeloop.launchers import main
    else:
        from fadiff_mapper.cli import main
    try:
        return main(list(words)) or 0
    except SystemExit as end:  # argparse
        return end.code if isinstance(end.code, int) else 1


def processor() -> float:
    """Seconds of processor time of this process and of its child processes that have ended."""
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, (
        resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def forget_peak() -> None:
    """Lets the system count this process's most memory from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def peak(of_children: int) -> int:
    """The most bytes in memory, of this process since `forget_peak` or of a child process.

    Args:
        of_children: The most kilobytes of any child process before, which the system counts over all of them.
    """
    own = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return 1024 * max(own, children if children > of_children else 0)


def unseemly(text: str) -> str:
    """What no command may print: what steers a terminal, and sentences of analyses that failed by a fault of ours."""
    found = re.search(r"no [a-z ]+: [A-Z]\w*(?:Error|Exception|Warning): .*", text)
    steering = re.search(r"[^\n\t -~\u00a0-\U0010ffff].*|.*[\u202a-\u202e\u2066-\u2069].*", text)
    return next((f"printed: {match[0]!r}" for match in (found, steering) if match), "")


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8")
    for line in sys.stdin:
        request = json.loads(line)
        os.chdir(request["folder"])
        said, errors, broken, start = io.StringIO(), io.StringIO(), "", processor()
        forget_peak()
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's: of overflows and invalid values
            try:
                code = run(request["program"], request["words"])
            except BaseException:  # whatever it is: no command may end like this
                code, broken = -1, traceback.format_exc()
        broken = broken or unseemly(said.getvalue() + errors.getvalue())
        print(json.dumps({"code": code, "errors": errors.getvalue(), "broken": broken,
                          "seconds": processor() - start, "bytes": peak(of_children)}), file=answers, flush=True)


if __name__ == "__main__":
    main()
