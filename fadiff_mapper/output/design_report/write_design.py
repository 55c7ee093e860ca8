"""Writes the files of a designed machine into a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fadiff_mapper.base.atomic_files import lock, write_files
from fadiff_mapper.base.errors import attempted
from fadiff_mapper.base.html_table import paragraph
from fadiff_mapper.design.evaluation.design_result import DesignResult
from fadiff_mapper.output.design_report.design_files import design_files, network_folders
from fadiff_mapper.output.design_report.design_page import best_sensitivities, design_html


def write_design(result: DesignResult, folder: str | Path) -> None:
    """Writes the files of `design_files` into a folder and its subfolders, and the page.

    Args:
        result: The end of a search.
        folder: The run folder; created where it is missing, locked while files are written.

    Raises:
        FadiffError: Another run holds the folder, or a file cannot be written.
    """
    with lock(Path(folder)):
        write_open_folder(result, folder)


def write_open_folder(result: DesignResult, folder: str | Path,
                      over: Callable[[], bool] = lambda: False) -> DesignResult:
    """The same for a caller that holds the folder's lock.

    Args:
        result: The end of a search.
        folder: The run folder.
        over: Asked again and again; once true, sensitivities are left out of the page, which take long.

    Returns:
        The result with a warning where they were left out.
    """
    for name, files in design_files(result):
        write_files(Path(folder) / name, files)
    sensitivities, unknown = attempted("sensitivities", lambda: best_sensitivities(result, over))
    page, lost = attempted("page", lambda: design_html(result, network_folders(result), sensitivities or (), unknown))
    write_files(folder, {"design.html": page or paragraph(lost)})
    return replace(result, warnings=(*result.warnings, *filter(None, (unknown, lost))))
