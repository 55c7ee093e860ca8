"""Writes the files of a designed machine into a folder."""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.output.design_report.design_files import design_files
from fadiff_mapper.results.designed_machine import DesignedMachine


def write_design(result: DesignedMachine, folder: str | Path) -> None:
    """Writes the files of `design_files` into a folder and its subfolders.

    Args:
        result: The end of a search.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        write_open_folder(result, folder)


def write_open_folder(result: DesignedMachine, folder: str | Path) -> None:
    """The same for a caller that holds the folder's lock."""
    for name, files in design_files(result):
        write_files(Path(folder) / name, files)
