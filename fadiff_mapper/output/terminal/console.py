"""The console and the shape of its tables, which all commands share."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDE = 200
"""Characters per line of a file or a pipe: a plain limit, wider than every table of the command line."""


def console() -> Console:
    """Standard output: as wide as the terminal, or `WIDE` characters where no terminal is there to ask."""
    screen = Console(highlight=False, soft_wrap=True)
    return screen if screen.is_terminal else Console(highlight=False, soft_wrap=True, width=WIDE)


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
