"""Writes the files of a mapped network into a folder."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.output.network_report.network_files import mapping_folders, page_file, plan_files
from fadiff_mapper.results.mapped_network import MappedNetwork

WRITERS = 8
"""Folders that are written at a time, as writing is mostly waiting for the disk: one after the other, 68 folders took
2.7 s on a busy one, and eight at a time 0.2 s."""


def write_network(result: MappedNetwork, folder: str | Path) -> None:
    """Writes the files of `network_files.network_files` into a folder and its subfolders.

    Args:
        result: The plan.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        write_held(result, Path(folder))


def write_held(result: MappedNetwork, folder: Path) -> None:
    """Writes the same files into a folder that the caller holds (`atomic_files.lock`).

    Args:
        result: The plan.
        folder: The run folder.

    Raises:
        FadiffError: A file cannot be written.
    """
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = [pool.submit(write_files, folder / name, files) for name, files in mapping_folders(result)]
        plan = plan_files(result)       # its texts are made while the others go to disk
        for done in writing:
            done.result()
    write_files(folder, plan)           # after the others, as the plan names folders that are there
    write_files(folder, page_file(result))
