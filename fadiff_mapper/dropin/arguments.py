"""The command line of `timeloop-mapper` and `timeloop-model`: input files in any order, and `-o FOLDER`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError

MAPPER, MODEL = "timeloop-mapper", "timeloop-model"
PROGRAMS = (MAPPER, MODEL)

OWN_RESULT = "timeloop-mapper.map.yaml"
"""Timeloop leaves this name out of its input, so that `*.yaml` can be given in a folder of results."""


@dataclass(frozen=True)
class ProgramArguments:
    """The input files, and the folder for the results; `left_out` are files that are not read."""

    files: tuple[str, ...]
    output: Path = Path(".")
    left_out: tuple[str, ...] = ()


def read_arguments(arguments: Sequence[str], folder: Path = Path(".")) -> ProgramArguments:
    """As Timeloop, run in `folder`, reads them: the last `-o` counts and must exist. Raises FadiffError.

    Unlike there, a word that looks like an option is an error, not the name of a file.
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
