"""A search as it runs, and what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from fadiff_mapper.report.console import console
from fadiff_mapper.report.spec import print_notes
from fadiff_mapper.report.stats import print_stats

if TYPE_CHECKING:
    from fadiff_mapper.api import Result
    from fadiff_mapper.search import Progress


def print_result(result: Result, folder: str) -> None:
    """The mapping's loop nest, its numbers, and how the search ended."""
    from fadiff_mapper import emit
    out = console()
    out.print(emit.map_txt(result.spec, result.mapping, result.stats), markup=False)
    print_stats(result.stats)
    print_notes(result.spec)
    out.print(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s); written to {folder}",
              markup=False)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line on the terminal that follows the best mapping so far; silent where there is no terminal."""
    terminal = Console(stderr=True)
    if quiet or not terminal.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=terminal, transient=True) as bar:
        task = bar.add_task("searching", total=None)

        def show(step: Progress) -> None:
            value = "no legal mapping yet" if step.metric_value is None else f"best {step.metric_value:.6g}"
            bar.update(task, description=f"{step.stage}: {value} ({step.evaluations} evaluations)")
        yield show
