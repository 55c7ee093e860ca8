"""Writes the files of a mapped layer into a folder."""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.output.timeloop_files.run_files import run_files
from fadiff_mapper.search.result import Result


def write_layer(result: Result, folder: str | Path) -> None:
    """Writes the files of `run_files` into a folder, all or none.

    Args:
        result: The mapped layer.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        write_files(Path(folder), run_files(result))
