"""Writes the files of a mapped network into a folder."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.network_report.network_files import mapping_folders, page_file, plan_files

AHEAD = 32
"""Folders whose texts are made before they are written: a plain limit."""

WRITERS = 8
"""Folders that are written at a time, as writing is mostly waiting for the disk: one after the other, 68 folders took
2.7 s on a busy one, and eight at a time 0.2 s."""


def write_network(result: NetworkResult, folder: str | Path) -> None:
    """Writes the files of `network_files.network_files` into a folder and its subfolders.

    Args:
        result: The plan.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        write_held(result, Path(folder))


def write_held(result: NetworkResult, folder: Path, over: Over = never) -> NetworkResult:
    """Writes the same files into a folder that the caller holds (`atomic_files.lock`).

    Args:
        result: The plan.
        folder: The run folder.
        over: Tells whether there is time for the files of the plan alone; the folders that are left are not written.

    Returns:
        The plan; its status says how many folders there was no time for.

    Raises:
        FadiffError: A file cannot be written.
    """
    missing: list[str] = []
    with ThreadPoolExecutor(WRITERS) as pool:
        writing: list[Future[None]] = []
        for name, texts in mapping_folders(result):
            if over():
                missing.append(name)
                continue
            if len(writing) >= AHEAD:   # else texts pile up, and folders that are still written when time is over
                writing.pop(0).result()
            writing.append(pool.submit(write_files, folder / name, texts()))
        if missing:
            result = replace(result, status=f"{result.status}; there was no time to write {len(missing):,} of the "
                                            "folders of mappings")
        plan = plan_files(result, frozenset(missing))  # its texts are made while the others go to disk
        for done in writing:
            done.result()
    write_files(folder, plan)           # after the others, as the plan names folders that are there
    write_files(folder, page_file(result))
    return result
