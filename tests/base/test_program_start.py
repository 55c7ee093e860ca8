"""Ctrl-C at any moment of a program: one word, exit code 130, no traceback."""

from __future__ import annotations

import signal
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

SIGNALLED = "os.kill(os.getpid(), signal.SIGINT)"


def ended(code: str, *words: str, folder: Path | None = None, ignored: bool = False) -> tuple[int, str]:
    """Runs code in a process of its own; returns its exit code and what it says of errors."""
    done = subprocess.run(
        [sys.executable, "-c", f"import atexit, os, signal, sys\n{code}", *words], cwd=folder, capture_output=True,
        text=True, timeout=60, check=False,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None)
    return done.returncode, done.stderr


INTERRUPTING = f"""
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {{at!r}}:
            {SIGNALLED}
sys.meta_path.insert(0, Interrupting())
from {{program}} import main
sys.exit(main())
"""


@pytest.mark.parametrize(("program", "at", "words"), [
    ("fadiff_mapper.__main__", "fadiff_mapper.base.program_start", ["--version"]),
    ("fadiff_mapper.__main__", "fadiff_mapper.cli", ["--version"]),
    ("fadiff_mapper.__main__", "argparse", ["check", "none.yaml"]),
    ("fadiff_mapper.__main__", "fadiff_mapper.cli.commands", ["bundled"]),
    ("fadiff_mapper.__main__", "numpy", ["check", "bundled:arch/gemmini_small"]),
    ("fadiff_mapper.__main__", "fadiff_mapper.inputs.load", [
        "map", "bundled:arch/gemmini_small", "bundled:problems/conv", "-o", "out"]),
    ("fadiff_validation.__main__", "fadiff_mapper.cli.arguments", ["--help"]),
])
def test_ctrl_c_while_modules_are_loaded_ends_a_command_at_once(program: str, at: str, words: list[str],
                                                               tmp_path: Path) -> None:
    assert ended(INTERRUPTING.format(program=program, at=at), *words, folder=tmp_path) == (130, "interrupted\n")


@pytest.mark.parametrize(("words", "at"), [(["--version"], "fadiff_mapper.cli"),
                                           (["validate", "--help"], "fadiff_validation.cli")])
def test_commands_of_the_container_begin_so(words: list[str], at: str, tmp_path: Path) -> None:
    docker = Path(__file__).parents[2] / "docker"
    code = f"sys.path.insert(0, {str(docker)!r}); import entry_point; entry_point.DATA = '.'\n"
    assert ended(code + INTERRUPTING.format(program="entry_point", at=at), *words, folder=tmp_path) == (
        130, "interrupted\n")


MAINS = {
    "inside a class statement": (f"""
class Named:
    def __set_name__(self, owner, name):
        {SIGNALLED}
class Owner:
    name = Named()
def main():
    return 0
""", (130, "interrupted\n")),  # Python makes a RuntimeError of an exception there
    "in main": (f"def main():\n    {SIGNALLED}\n    return 0\n", (130, "")),
    "while Python ends": (f"def main():\n    atexit.register(lambda: {SIGNALLED})\n    return 3\n", (3, "")),
}


@pytest.mark.parametrize("when", MAINS)
def test_ctrl_c_leaves_no_traceback(when: str, tmp_path: Path) -> None:
    text, expected = MAINS[when]
    (tmp_path / "program.py").write_text(f"import atexit, os, signal\n{text}")
    start = "from fadiff_mapper.base.program_start import run_main; sys.exit(run_main('program'))"
    assert ended(start, folder=tmp_path) == expected


def test_a_command_that_is_to_ignore_ctrl_c_ignores_it() -> None:
    code = INTERRUPTING.format(program="fadiff_mapper.__main__", at="fadiff_mapper.cli")
    assert ended(code, "--version", ignored=True) == (0, "")


def test_installed_commands_begin_so() -> None:
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg", encoding="utf-8")
    assert setup["options.entry_points"]["console_scripts"].split("\n")[1:] == [
        "fadiff-mapper = fadiff_mapper.__main__:main", "fadiff-validate = fadiff_validation.__main__:main"]
