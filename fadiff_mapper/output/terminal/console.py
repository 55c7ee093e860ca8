"""The console and the shape of its tables."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

WIDE = 200
"""Columns of a table that goes to a file or a pipe."""


def console() -> Console:
    """Standard output: as wide as the terminal, else wide enough for every table."""
    found = Console(highlight=False, soft_wrap=True)
    return found if found.is_terminal else Console(highlight=False, soft_wrap=True, width=WIDE)


def table(title: str, *columns: str, text: int = 1) -> Table:
    """A table whose first `text` columns are words and whose others are numbers."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < text else "right", overflow="fold")
    return table
