"""A program's process from its first moment to its last: Ctrl-C leaves no traceback in any of them.

Modules take a tenth of a second and more to load, NumPy and torch among them, and as long to be taken down. An
exception in between is not safe: class statements and compiled modules turn KeyboardInterrupt into other errors.
"""

from __future__ import annotations

import os
import signal
from importlib import import_module
from types import FrameType

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C ended: 128 + SIGINT, as shells have it."""

LOADING = "<frozen importlib._bootstrap>"
"""The file of the code that loads modules, as frames name it."""


def run_main(module: str) -> int:
    """Loads a module and calls its `main` as the program of this process.

    Ctrl-C ends the process at once where modules are being loaded, raises KeyboardInterrupt elsewhere, and is ignored
    at the end, when all is written and Python is taken down. Where it is ignored from the start, as in background jobs
    of a shell, it stays so.

    Args:
        module: A module with a function `main` that takes nothing and returns the exit code.

    Returns:
        The exit code.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        return int(import_module(module).main())
    except KeyboardInterrupt:  # in the moment before or after `main` cares for it
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Handles SIGINT."""
    while frame is not None:
        if frame.f_code.co_filename == LOADING:
            os.write(2, b"interrupted\n")
            os._exit(INTERRUPTED)
        frame = frame.f_back
    raise KeyboardInterrupt
