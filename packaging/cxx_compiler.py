"""The C++ compiler that builds the kernel: one of this machine that works, or Zig's clang from PyPI."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

ZIG_PACKAGE = "ziglang >= 0.13"
"""Wheels with clang, its linker, libc++ and the headers of C libraries, for Linux and macOS on the usual processors."""

PROBE = """#include <vector>
int probe(const std::vector<int>& all) { if (auto size = all.size(); size) return 1; return 0; }
"""
"""A standard header and a statement of C++17."""

SHARED = ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared", "-s"]
"""Links an extension module whose symbols of Python the interpreter provides."""


@dataclass(frozen=True)
class CxxCompiler:
    """A compiler that was tried out.

    Attributes:
        command: The words of its command line, before the files.
        zig: It is Zig's, which writes the names of instruction sets with underscores.
    """

    command: tuple[str, ...]
    zig: bool = False

    def flags(self, level: str) -> list[str]:
        """The flag that allows the instructions of a level such as x86-64-v3; none for the empty name."""
        return [f"-march={level.replace('-', '_') if self.zig else level}"] if level else []

    def accepts(self, level: str) -> bool:
        """Whether the compiler knows a level. Nothing is linked: Zig would compile its libraries for every level."""
        return _works([*self.command, *self.flags(level), "-c"])


def find_compiler(cache: Path) -> CxxCompiler:
    """The compiler of this machine, or Zig's.

    Args:
        cache: Folder for the libraries that Zig compiles when they are first needed.

    Raises:
        SystemExit: There is neither, or Python's own headers are missing.
    """
    compiler = installed_compiler() or _zig_compiler(cache)
    if compiler is None:
        raise SystemExit("no C++17 compiler was found; accepted: g++, clang++, c++ or the one that CXX names, "
                         f'or the package "{ZIG_PACKAGE}", which pip brings along unless --no-build-isolation is given')
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        raise SystemExit(f"{sysconfig.get_path('include')}/Python.h is missing; accepted: a Python with its headers "
                         "(Debian and Ubuntu: apt install python3-dev; Fedora: dnf install python3-devel)")
    return compiler


def installed_compiler() -> CxxCompiler | None:
    """The first compiler of this machine that builds a shared library: CXX, Python's own, or one with a usual name."""
    names = [os.environ.get("CXX"), sysconfig.get_config_var("CXX"), "g++", "clang++", "c++"]
    commands = dict.fromkeys(tuple(shlex.split(name)) for name in names if name)
    return next((CxxCompiler(command) for command in commands if _works(command)), None)


def _zig_compiler(cache: Path) -> CxxCompiler | None:
    """Zig's compiler where its package is installed, for the baseline of this kind of machine.

    Without a target it would compile for this very processor. The C library is the oldest that PyTorch's wheels take.
    """
    if find_spec("ziglang") is None:
        return None
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = os.environ["ZIG_LOCAL_CACHE_DIR"] = str(cache.resolve())
    machine = {"arm64": "aarch64", "ppc64le": "powerpc64le"}.get(platform.machine(), platform.machine())
    musl = "musl" in (sysconfig.get_config_var("SOABI") or "")
    system = "macos" if sys.platform == "darwin" else "linux-musl" if musl else "linux-gnu.2.28"
    return CxxCompiler((sys.executable, "-m", "ziglang", "c++", "-target", f"{machine}-{system}"), zig=True)


def _works(command: Sequence[str]) -> bool:
    """Whether a command compiles a probe and, unless told otherwise, makes a library of it."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(PROBE, encoding="utf-8")
        try:
            done = subprocess.run([*command, "-std=c++17", "-fPIC", *(() if "-c" in command else SHARED), str(source),
                                   "-o", f"{folder}/probe"], capture_output=True, check=False)
        except OSError:
            return False
        return done.returncode == 0
