"""A search of layers as it runs, and its results.

Printing libraries are imported when there is something to print: a first mapping is on disk before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fadiff_mapper.search.options import Progress
    from fadiff_mapper.search.result import Result


def print_results(names: Sequence[str], results: Sequence[Result], folder: str) -> None:
    """Prints one result with its loop nest and all numbers, several as a table.

    Args:
        names: A name per problem.
        results: The results in the same order.
        folder: Where their files are.
    """
    from fadiff_mapper.output.terminal.calibration_summary import print_corrected
    from fadiff_mapper.output.terminal.console import console, table
    from fadiff_mapper.output.terminal.spec_summary import print_notes
    if len(results) == 1:
        _print_one(results[0], folder)
        print_corrected(results, names)
        return
    out = console()
    rows = table("", "problem", "bounds", "cycles", "energy uJ", "EDP pJ*cycles", "utilization", "evaluations", text=2)
    for name, result in zip(names, results, strict=True):
        stats, bounds = result.stats, result.spec.problem.bounds
        rows.add_row(name, " ".join(f"{dim}{bound}" for dim, bound in bounds.items() if bound > 1), str(stats.cycles),
                     f"{stats.energy_pj / 1e6:.6g}", f"{stats.edp:.6g}", f"{stats.utilization:.1%}",
                     str(result.evaluations))
    out.print(rows)
    print_notes(results[0].spec)
    out.print(f"{len(results)} problems, {sum(result.evaluations for result in results)} evaluations, "
              f"{max(result.time_s for result in results):.2f} s; written to {folder}, a folder for each")
    print_corrected(results, names)
    for status in dict.fromkeys(result.status for result in results):
        out.print(status)


def _print_one(result: Result, folder: str) -> None:
    """Loop nest, statistics, notes, lower bound and status of the only result."""
    from fadiff_mapper.analysis.lower_bound import sentence
    from fadiff_mapper.output.terminal.console import console
    from fadiff_mapper.output.terminal.mapping_stats import print_stats
    from fadiff_mapper.output.terminal.spec_summary import print_notes
    from fadiff_mapper.output.timeloop_files.map_txt import map_txt
    out = console()
    out.print(map_txt(result.spec, result.mapping, result.stats))
    print_stats(result.stats)
    print_notes(result.spec)
    out.print(sentence(result.bound, result.metric, result.value))
    out.print(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s); written to {folder}")


@contextmanager
def progress(names: Sequence[str], quiet: bool) -> Iterator[Callable[[int, Progress], None]]:
    """A line on the terminal that follows the best mappings so far; silent where there is no terminal.

    Args:
        names: A name per problem.
        quiet: Whether to stay silent in any case.

    Yields:
        A function to call with a problem's index and its progress.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import TimeElapsedColumn

    from fadiff_mapper.output.terminal.progress_line import progress_line
    latest: dict[int, Progress] = {}
    with progress_line("searching", quiet, TimeElapsedColumn()) as update:

        def show(index: int, step: Progress) -> None:
            latest[index] = step
            value = "no legal mapping yet" if step.metric_value is None else f"best {step.metric_value:.6g}"
            name = f"{names[index]}: " if len(names) > 1 else ""
            legal = f", {sum(seen.legal for seen in latest.values())} of {len(names)} mapped" if len(names) > 1 else ""
            spent = sum(seen.evaluations for seen in latest.values())
            update(description=f"{name}{step.stage}: {value} ({spent} evaluations{legal})")
        yield show
