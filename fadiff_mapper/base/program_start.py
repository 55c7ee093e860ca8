"""The start of a program in a process of its own: no module from the working folder, no traceback for Ctrl-C.

Modules take a tenth of a second and more to load, NumPy and torch among them, and as long to be taken down. An
exception in between is not safe: class statements and compiled modules turn KeyboardInterrupt into other errors.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended: 128 + SIGINT, as shells have it
LOADING = "<frozen importlib._bootstrap>"  # the file of the code that loads modules, as frames name it
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
"""Keeps Python from the working folder, from which it imports a module before it runs any code (since 3.13)."""


def python_command(path: str, code: str) -> list[str]:
    """The beginning of a command line: this interpreter with code to run; the words of the program follow.

    No module is ever imported from the working folder, where a user's file may be called like one. PYTHONPATH and
    similar variables (`-E`), which belong to the calling program, change nothing. `path` is an expression for the list
    of folders in which modules are looked for; the code finds `sys`, and the words in `sys.argv[1:]`.
    """
    return [sys.executable, "-E", *SAFE_PATH, "-c", f"import sys; sys.path[:] = {path}; {code}"]


def module_path() -> list[str]:
    """The folders in which this process looks for modules; the working folder only where this package lies in it."""
    home, here = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")), os.path.realpath(".")
    path = [folder for folder in map(os.path.abspath, sys.path) if os.path.realpath(folder) != here or here == home]
    return path if home in map(os.path.realpath, path) else [*path, home]


def run_main(module: str) -> int:
    """Loads a module and calls its `main` as the program of this process; returns the exit code.

    Ctrl-C ends the process at once where modules are being loaded, raises KeyboardInterrupt elsewhere, and is ignored
    at the end, when all is written and Python is taken down. Where it is ignored from the start (background jobs), it
    stays so.
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
