"""Starts a program in its own process: without modules from the working folder, without a traceback for Ctrl-C.

Modules such as NumPy and torch take long to load and to shut down. KeyboardInterrupt is not safe meanwhile: class
statements and compiled modules turn it into other errors.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType

INTERRUPTED = 130  # the exit code of a program that Ctrl-C ended: 128 + SIGINT, as shells have it
LOADING = "<frozen importlib._bootstrap>"  # file name, in frames, of the code that loads modules
SAFE_PATH = ("-P",) if sys.version_info >= (3, 11) else ()
"""Keeps the working folder off the module path: since 3.13 Python imports a module before it runs any code."""


def python_command(path: str, code: str) -> list[str]:
    """The beginning of a command line: this interpreter with code to run; the words of the program follow.

    No module is imported from the working folder, where a user's file may have a module's name. PYTHONPATH and similar
    variables are ignored (`-E`), as they belong to the calling program. `path` is a Python expression for the module
    path. The code can use `sys`, with the words in `sys.argv[1:]`.
    """
    return [sys.executable, "-E", *SAFE_PATH, "-c", f"import sys; sys.path[:] = {path}; {code}"]


def module_path() -> list[str]:
    """The folders in which this process looks for modules; the working folder only where this package lies in it."""
    home, here = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..")), os.path.realpath(".")
    path = [folder for folder in map(os.path.abspath, sys.path) if os.path.realpath(folder) != here or here == home]
    return path if home in map(os.path.realpath, path) else [*path, home]


def run_main(module: str) -> int:
    """Loads a module and calls its `main` as the program of this process; returns the exit code.

    Ctrl-C ends the process at once while modules are loaded, raises KeyboardInterrupt while the program runs, and is
    ignored at the end, when all is written and Python shuts down. If it is ignored from the start (background jobs), it
    stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        return int(import_module(module).main())
    except KeyboardInterrupt:  # just before or after `main` handles it
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
