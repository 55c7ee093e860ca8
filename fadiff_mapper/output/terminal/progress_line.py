"""A line on the terminal that follows a search."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import Progress, ProgressColumn, SpinnerColumn, Task

from fadiff_mapper.output.terminal.console import Screen


class Description(ProgressColumn):
    """What a search says of itself, as it is: rich's own column would take names in it for markup."""

    def render(self, task: Task) -> str:
        """The text of the column."""
        return task.description


@contextmanager
def progress_line(what: str, quiet: bool, *columns: ProgressColumn) -> Iterator[Callable[..., None]]:
    """Shows what a search says, and after its end nothing; silent where standard error is no terminal.

    Args:
        what: What it says first.
        quiet: Whether to stay silent in any case.
        *columns: Columns behind that.

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
