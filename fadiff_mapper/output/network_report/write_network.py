"""Writes the files of a mapped network into a folder."""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.output.network_report.network_files import network_files
from fadiff_mapper.results.mapped_network import MappedNetwork


def write_network(result: MappedNetwork, folder: str | Path) -> None:
    """Write the plan and the files of every layer into a folder; see `network_files`. Raises FadiffError."""
    with lock(Path(folder)):
        for name, files in network_files(result).items():
            write_files(Path(folder) / name, files)
