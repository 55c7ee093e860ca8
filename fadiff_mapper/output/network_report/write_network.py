"""Writes the files of a mapped network into a folder."""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.output.network_report.network_files import network_files
from fadiff_mapper.results.mapped_network import MappedNetwork


def write_network(result: MappedNetwork, folder: str | Path) -> None:
    """Writes the files of `network_files` into a folder and its subfolders.

    Args:
        result: The plan.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        for name, files in network_files(result).items():
            write_files(Path(folder) / name, files)
