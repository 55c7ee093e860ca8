"""The compiler that builds the kernel: one that works, or one from PyPI."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from shutil import which
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def cxx_compiler(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """`packaging/cxx_compiler.py`, which is no part of the package."""
    monkeypatch.syspath_prepend(str(ROOT / "packaging"))
    import cxx_compiler
    yield cxx_compiler
    del sys.modules["cxx_compiler"]


def script(path: Path, text: str) -> Path:
    """A program in the shell's language."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_no_compiler_is_found_on_an_empty_path(cxx_compiler: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    assert cxx_compiler.installed_compiler() is None


def test_a_compiler_that_fails_is_passed_over(cxx_compiler: ModuleType, tmp_path: Path,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    broken, working = script(tmp_path / "g++", "exit 1"), script(tmp_path / "clang++", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CXX", f"{broken} -m64")
    assert cxx_compiler.installed_compiler().command == ("clang++",)
    monkeypatch.setenv("CXX", f"{working} -m64")
    assert cxx_compiler.installed_compiler().command == (str(working), "-m64")


def test_a_build_without_a_compiler_says_what_to_install(cxx_compiler: ModuleType, tmp_path: Path,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cxx_compiler, "installed_compiler", lambda: None)
    monkeypatch.setattr(cxx_compiler, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"no C\+\+17 compiler was found; accepted: g\+\+.*ziglang"):
        cxx_compiler.find_compiler(tmp_path)


def test_zig_compiles_for_any_processor_of_the_kind_and_names_levels_its_own_way(
        cxx_compiler: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cxx_compiler, "installed_compiler", lambda: None)
    monkeypatch.setattr(cxx_compiler, "find_spec", lambda name: object())
    monkeypatch.setenv("ZIG_GLOBAL_CACHE_DIR", "")
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", "")
    script_include = tmp_path / "Python.h"
    script_include.write_text("")
    monkeypatch.setattr(cxx_compiler.sysconfig, "get_path", lambda name: str(tmp_path))
    compiler = cxx_compiler.find_compiler(tmp_path)
    assert "-target" in compiler.command
    assert compiler.flags("x86-64-v3") == ["-march=x86_64_v3"] and compiler.flags("") == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--target=aarch64-linux-gnu"]], ids=["this processor", "aarch64"])
def test_the_kernel_compiles_with_clang_too(options: list[str]) -> None:
    if which("clang++") is None or (options and which("aarch64-linux-gnu-g++") is None):  # whose headers Clang reads
        pytest.skip("clang++, or g++-aarch64-linux-gnu for its headers, is not installed")
    pybind11 = pytest.importorskip("pybind11")
    kernel = ROOT / "fadiff_mapper" / "kernel"
    folders = kernel, pybind11.get_include(), sysconfig.get_path("include")
    subprocess.run(["clang++", *options, "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", "-ffp-contract=off",
                    *(f"-I{folder}" for folder in folders), *sorted(kernel.glob("*.cpp"))], check=True)


def test_everything_that_the_kernel_is_built_from_is_in_a_source_archive() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text(encoding="utf-8")
    assert "recursive-include fadiff_mapper/kernel *.cpp *.hpp" in manifest and "graft packaging" in manifest


def test_sources_are_left_out_of_wheels() -> None:
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["options.package_data"]["fadiff_mapper.kernel"] == "*.pyi"
