"""Builds the compiled kernel, `fadiff_mapper.kernel._kernel`; everything else about the package stands in setup.cfg.

On x86-64 the module is built for several levels of the instruction set. All give the same results, bit for bit, and
differ in speed alone; `fadiff_mapper/kernel/instruction_sets.py` picks one when the program starts.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pybind11
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

sys.path.insert(0, str(Path(__file__).parent / "packaging"))
from cxx_compiler import SHARED, CxxCompiler, find_compiler

KERNEL = Path("fadiff_mapper", "kernel")
BINDINGS = tuple(KERNEL / name for name in (
    "module.cpp", "estimate_bindings.cpp", "proof_bindings.cpp", "sparse_bindings.cpp", "straight_through.cpp"))
"""Files that meet Python. They take longer to compile than all others together and hardly any time of a run, so they
are compiled once, for the baseline. No vector of the processor may therefore pass by value between them and the other
files: registers depend on the level."""

SOURCES = [*BINDINGS, *sorted(path for path in KERNEL.glob("*.cpp") if path not in BINDINGS)]
PARTS = Path("tests", "kernel", "parts.cpp")
"""Parts of the kernel one by one, for tests: a module of its own, `_parts`, made where the tests are there."""

DEPENDS = sorted(KERNEL.glob("*.hpp"))

X86 = platform.machine() in ("x86_64", "AMD64")
BASELINE = "x86-64-v2" if X86 else ""
HIGHER = ("x86-64-v3", "x86-64-v4") if X86 and sys.platform == "linux" else ()

FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-DNDEBUG",
         "-ffp-contract=off"]  # products are rounded before they are added, on every processor
INCLUDES = [f"-I{path}" for path in dict.fromkeys(
    [sysconfig.get_path("include"), sysconfig.get_path("platinclude"), pybind11.get_include()])]


class BuildKernel(build_ext):
    """Compiles all files for all levels side by side, then links one module per level."""

    def build_extensions(self) -> None:
        """Builds every module into the place where setuptools expects it."""
        compiler = find_compiler(Path(self.build_temp, "zig"))
        self.extensions[:] = [ext for ext in self.extensions if ext.level == BASELINE or compiler.accepts(ext.level)]
        baseline = BASELINE if compiler.accepts(BASELINE) else ""
        units = [(source, ext.level) for source in SOURCES for ext in self.extensions
                 if source not in BINDINGS or ext.level == BASELINE]
        with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))) as pool:
            objects = dict(zip(units, pool.map(
                lambda unit: self._compile(compiler, unit[0], unit[1] if unit[1] != BASELINE else baseline), units),
                strict=True))
        for ext in self.extensions:
            target = Path(self.get_ext_fullpath(ext.name))
            target.parent.mkdir(parents=True, exist_ok=True)
            self._link(compiler, [objects[source, BASELINE if source in BINDINGS else ext.level] for source in SOURCES],
                       target)
            # Beside the sources too, so that Python started in the checkout, which finds these first, has the kernel.
            beside = KERNEL.joinpath(ext.level if ext.level != BASELINE else "", target.name)
            if not self.inplace and beside.resolve() != target.resolve():
                beside.parent.mkdir(exist_ok=True)
                shutil.copyfile(target, beside)

        if PARTS.exists():
            own = [objects[source, BASELINE] for source in SOURCES if source not in BINDINGS]
            self._link(compiler, [self._compile(compiler, PARTS, baseline), *own],
                       KERNEL / Path(self.get_ext_filename("_parts")).name)

    def _compile(self, compiler: CxxCompiler, source: Path, level: str) -> Path:
        """The object of one file, compiled unless one is there that is newer than all that it is made of."""
        flags = [*shlex.split(os.environ.get("CXXFLAGS", "")), *FLAGS, *compiler.flags(level), "-MMD"]
        key = hashlib.sha256(repr([compiler, flags, pybind11.__version__]).encode()).hexdigest()[:16]
        made = Path(self.build_temp, f"{source.stem}-{key}.o")
        made.parent.mkdir(parents=True, exist_ok=True)
        listed = made.with_suffix(".d")  # by -MMD: the rule of a makefile, object: files
        files = [Path(word) for word in shlex.split(listed.read_text())[1:] if word.strip()] if listed.exists() else []
        if not files or not made.exists() or any(
                not path.exists() or path.stat().st_mtime >= made.stat().st_mtime for path in files):
            self._run([*compiler.command, *flags, *INCLUDES, f"-I{KERNEL}", "-c", str(source), "-o", str(made)])
        return made

    def _link(self, compiler: CxxCompiler, objects: Sequence[Path], target: Path) -> None:
        """Makes a module of some objects."""
        self._run([*compiler.command, *shlex.split(os.environ.get("LDFLAGS", "")), *SHARED,
                   "-O3",  # Zig compiles its libraries with what stands here
                   *map(str, objects), "-o", str(target)])

    def _run(self, command: Sequence[str]) -> None:
        """Runs the compiler; what it says is printed."""
        print(shlex.join(command), flush=True)
        if code := subprocess.run(command, check=False).returncode:
            raise SystemExit(f"the kernel could not be built: exit code {code} of: {shlex.join(command)}")

    def copy_extensions_to_source(self) -> None:
        """For an editable installation; setuptools does not make the folders of the levels."""
        for ext in self.extensions:
            KERNEL.joinpath(ext.level if ext.level != BASELINE else "").mkdir(exist_ok=True)
        super().copy_extensions_to_source()


class Kernel(Extension):
    """The module for one level: that of the baseline in the package itself, others in a folder named by the level."""

    def __init__(self, level: str) -> None:
        self.level = level
        folder = "" if level == BASELINE else f"{level}."
        super().__init__(f"fadiff_mapper.kernel.{folder}_kernel", [str(path) for path in SOURCES],
                         depends=[str(path) for path in DEPENDS])


setup(ext_modules=[Kernel(level) for level in (BASELINE, *HIGHER)], cmdclass={"build_ext": BuildKernel})
