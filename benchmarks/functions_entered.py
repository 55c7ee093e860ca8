"""How many functions and modules of the package one command enters: a measure of how much has to be read to follow it.

    python benchmarks/functions_entered.py [map network design]

Counted are the distinct functions that run at least once, in any thread, without the bodies of modules and classes,
lambdas and comprehensions, and the distinct files that they stand in. Each command runs in a process of its own.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import CodeType, FrameType

import fadiff_mapper

COMMANDS = {
    "map": ["map", "bundled:arch/gemmini_large", "bundled:layers/resnet18/conv3x3_64_64_56_s1"],
    "network": ["network", "bundled:networks/mobilenet_v1", "bundled:arch/gemmini_large", "--time-limit", "10"],
    "design": ["design", "bundled:spaces/gemmini_small", "bundled:networks/mobilenet_v1", "--time-limit", "20"],
}
"""Small commands by name, each without its output folder."""

PACKAGE = str(Path(fadiff_mapper.__file__).parent)


def entered(arguments: list[str]) -> tuple[int, int]:
    """Runs a command in this process; returns how many functions, and files, of the package it entered."""
    codes: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from fadiff_mapper.cli import main
        if main(arguments):
            raise SystemExit(f"{' '.join(arguments)} failed")
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    own = {(code.co_filename, code.co_firstlineno) for code in codes if code.co_filename.startswith(PACKAGE)
           and code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")}
    return len(own), len({file for file, _ in own})


def main() -> None:
    """Prints one line per command."""
    if sys.argv[1:2] == ["--one"]:
        functions, modules = entered(sys.argv[2:])
        print(f"{functions} functions in {modules} modules")
        return
    for name in sys.argv[1:] or COMMANDS:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, __file__, "--one", *COMMANDS[name], "-o", f"{folder}/out"],
                                  check=True, capture_output=True, text=True)
        print(f"{name}: {done.stdout.splitlines()[-1]}")


if __name__ == "__main__":
    main()
