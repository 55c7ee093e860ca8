"""The command line of `timeloop-mapper` and `timeloop-model`: input files in any order, and `-o FOLDER`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError

MAPPER, MODEL = "timeloop-mapper", "timeloop-model"

PROGRAMS = (MAPPER, MODEL)
"""The programs of Timeloop that this package stands in for."""

OWN_RESULT = "timeloop-mapper.map.yaml"
"""Timeloop leaves this name out of its input, so that `*.yaml` can be given in a folder of results."""


@dataclass(frozen=True)
class ProgramArguments:
    """The command line of a program, read.

    Attributes:
        files: The input files.
        output: The folder for the results.
        left_out: Files that are named but not read (see `OWN_RESULT`).
    """

    files: tuple[str, ...]
    output: Path = Path(".")
    left_out: tuple[str, ...] = ()


def read_arguments(arguments: Sequence[str], folder: Path = Path(".")) -> ProgramArguments:
    """Reads a command line as Timeloop does: the last `-o` counts, and its folder must exist.

    Unlike there, a word that looks like an option is an error, not the name of a file.

    Args:
        arguments: The words after the program's name.
        folder: The folder that the program runs in.

    Raises:
        FadiffError: An option is unknown or lacks its folder, the output folder does not exist, or no file is named.
    """
    files: list[str] = []
    output = folder
    rest = iter(arguments)
    for word in rest:
        if word == "-o":
            name = next(rest, None)
            if not name:
                raise FadiffError("-o: no folder follows; accepted: -o FOLDER")
            output = folder / name
        elif word.startswith("-"):
            raise FadiffError(f'unknown option "{word}"; accepted: input files and -o FOLDER')
        else:
            files.append(word)
    if not output.is_dir():
        raise FadiffError(f"cannot access output directory: {output}")
    kept = tuple(name for name in files if name != OWN_RESULT)
    if not kept:
        raise FadiffError("no input files; accepted: input files and -o FOLDER")
    return ProgramArguments(kept, output, tuple(name for name in files if name == OWN_RESULT))
