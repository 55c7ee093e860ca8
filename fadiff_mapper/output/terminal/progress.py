"""The line on the terminal that follows a search while it runs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TimeElapsedColumn

from fadiff_mapper.output.terminal.console import Screen

if TYPE_CHECKING:
    from fadiff_mapper.design.search_design import DesignProgress
    from fadiff_mapper.search.options import Progress as LayerProgress


class Description(ProgressColumn):
    """A search's message, literally: rich's own column would read names in it as markup."""

    def render(self, task: Task) -> str:
        return task.description


@contextmanager
def progress_line(what: str, quiet: bool, *columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Shows a search's messages, first `what`, and nothing after its end; silent without a terminal or if `quiet`.

    Yields:
        A function that takes `description`, `completed`, `advance` and `total` of `rich.progress.Progress.update`.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda **_: None
        return
    terminal = Screen(stderr=True)
    spinner = SpinnerColumn("line" if terminal.options.ascii_only else "dots")
    with Progress(spinner, Description(), *columns, console=terminal, transient=True) as line:
        task = line.add_task(what, total=None)
        yield lambda **state: line.update(task, **state)


@contextmanager
def layer_progress(names: Sequence[str], quiet: bool) -> Iterator[Callable[[int, LayerProgress], None]]:
    """A line on the terminal that follows the best mappings so far; silent without a terminal or if `quiet`.

    Yields:
        A function to call with a problem's index and its progress.
    """
    latest: dict[int, LayerProgress] = {}
    with progress_line("searching", quiet, TimeElapsedColumn()) as update:

        def show(index: int, step: LayerProgress) -> None:
            latest[index] = step
            value = "no legal mapping yet" if step.metric_value is None else f"best {step.metric_value:.6g}"
            name = f"{names[index]}: " if len(names) > 1 else ""
            legal = f", {sum(seen.legal for seen in latest.values())} of {len(names)} mapped" if len(names) > 1 else ""
            spent = sum(seen.evaluations for seen in latest.values())
            update(description=f"{name}{step.stage}: {value} ({spent} evaluations{legal})")
        yield show


@contextmanager
def network_progress(quiet: bool, time_limit: float | None = None) -> Iterator[Callable[[str, float], None]]:
    """A line on the terminal with the stage, the best value so far and the time; silent without a terminal or if
    `quiet`.

    With a time limit, in seconds, the line shows the remaining time.

    Yields:
        A function to call with the name of a stage and the network's metric.
    """
    with progress_line("searching the layers", quiet, TimeColumn(time_limit)) as update:
        yield lambda stage, value: update(description=f"{stage}: best {value:.6g}")


class TimeColumn(ProgressColumn):
    """The remaining seconds of a limit or, without a limit, the seconds since the start."""

    def __init__(self, time_limit: float | None) -> None:
        super().__init__()
        self.time_limit = time_limit

    def render(self, task: Task) -> str:
        spent = task.elapsed or 0.0
        return f"{spent:.0f} s" if self.time_limit is None else f"{max(self.time_limit - spent, 0.0):.0f} s left"


@contextmanager
def design_progress(metric: str, quiet: bool) -> Iterator[Callable[[DesignProgress], None]]:
    """A line on the terminal that follows the search's best `metric`; silent without a terminal or if `quiet`.

    Yields:
        A function to call after every design.
    """
    with progress_line("searching designs", quiet, BarColumn(bar_width=24)) as update:
        yield lambda state: update(description=described(state, metric), completed=state.evaluations,
                                   total=state.wanted if math.isfinite(state.wanted) else None)


def described(state: DesignProgress, metric: str) -> str:
    """The progress of a search in one line, with the remaining time in hours, minutes and seconds."""
    wanted = f" of {state.wanted:,.0f}" if math.isfinite(state.wanted) else ""
    left = ""
    if math.isfinite(state.left_s):
        minutes, seconds = divmod(round(state.left_s), 60)
        hours, minutes = divmod(minutes, 60)
        left = f", {f'{hours}:{minutes:02}' if hours else minutes}:{seconds:02} left"
    best = f"; best {metric} {state.best.of(metric):.6g}" if state.best else ""
    others = f", {state.pruned:,} left out, {state.refused:,} refused" if state.pruned or state.refused else ""
    return f"{state.evaluations:,}{wanted} designs{others}, {state.rate:.3g}/s{left}{best}"
