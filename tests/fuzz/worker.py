"""Runs commands of the package one after the other in one process: a request a line on standard input, a report a line
on standard output. The parent watches time and memory, and ends a worker that takes too much of either."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import traceback
import warnings
from collections.abc import Sequence


def run(program: str, words: Sequence[str]) -> int:
    """One command: the command line's, or the launchers'. The exit code."""
    if program == "launcher":
        from fadiff_mapper.dropin.launched import main
    else:
        from fadiff_mapper.cli import main
    try:
        return main(list(words)) or 0
    except SystemExit as end:  # argparse
        return end.code if isinstance(end.code, int) else 1


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    sys.stdin = io.TextIOWrapper(os.fdopen(os.dup(0), "rb"), encoding="utf-8")
    for line in sys.stdin:
        request = json.loads(line)
        os.chdir(request["folder"])
        said, errors, broken, start = io.StringIO(), io.StringIO(), "", time.perf_counter()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(errors), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's: of overflows and invalid values
            try:
                code = run(request["program"], request["words"])
            except BaseException:  # whatever it is: no command may end like this
                code, broken = -1, traceback.format_exc()
        print(json.dumps({"code": code, "errors": errors.getvalue(), "broken": broken,
                          "seconds": time.perf_counter() - start}), file=answers, flush=True)


if __name__ == "__main__":
    main()
