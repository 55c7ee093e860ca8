"""The console and the shape of its tables, which all commands share."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fadiff_mapper.base.standard_streams import shown

WIDE = 200
"""Characters per line of a file or a pipe: a plain limit, wider than every table of the command line."""


class Screen(Console):
    """A console that takes every text as it is, without markup, and shows it as `standard_streams.shown` does.

    Args:
        stderr: Whether it is standard error, not standard output.
        width: Characters per line; None: as the terminal has.
    """

    def __init__(self, stderr: bool = False, width: int | None = None) -> None:
        super().__init__(stderr=stderr, width=width, soft_wrap=True, highlight=False, markup=False, emoji=False)

    def render_str(self, text: str, **options: Any) -> Text:
        """The text in printable characters; rich takes all strings through here, those of tables, too."""
        return super().render_str(shown(text, self.encoding), **options)

    def on_broken_pipe(self) -> None:
        """Leaves a pipe that nobody reads to the command, whose exit code it is; rich's own would be another."""
        raise   # the error that rich is handling


def console() -> Screen:
    """Standard output: as wide as the terminal, or `WIDE` characters where no terminal is there to ask."""
    screen = Screen()
    return screen if screen.is_terminal else Screen(width=WIDE)


def table(title: str, *columns: str, text: int = 1) -> Table:
    """An empty table without borders.

    Args:
        title: Stands above the table.
        *columns: Headings.
        text: The first so many columns hold words and stand to the left, the others numbers and stand to the right.
    """
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < text else "right", overflow="fold")
    return table
