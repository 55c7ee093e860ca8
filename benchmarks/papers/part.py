"""A part of the comparison as data: jobs that are run once each, and a pure function from their records to tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]
"""The outcome of a job: JSON values alone."""

Key = tuple[str, ...]
"""Names a job in its part; everything that changes the outcome stands in it."""

Cell = str | int | float | None
"""A cell of a table, unrounded; None where nothing was measured."""


@dataclass(frozen=True)
class Job:
    """A run of the comparison.

    Attributes:
        key: Unique in the part: network, design, method, seed, budgets.
        run: A function of a module, so that it can be sent to another process; returns the record.
        arguments: Its arguments.
    """

    key: Key
    run: Callable[..., Record]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table with raw numbers.

    Attributes:
        name: Name of its CSV file without the suffix, unique over all parts.
        title: The caption.
        columns: Headings.
        rows: Cells, as many as headings.
        note: The way of measuring, and numbers that cannot be compared.
        formats: For each column the format of its numbers, "" for as they are; empty: "" for all.
    """

    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    formats: tuple[str, ...] = ()

    def texts(self) -> list[list[str]]:
        """The cells as they are shown."""
        formats = self.formats or ("",) * len(self.columns)
        return [[cell if isinstance(cell, str) else "" if cell is None else format(cell, how)
                 for cell, how in zip(row, formats, strict=True)] for row in self.rows]


@dataclass(frozen=True)
class Picture:
    """A picture.

    Attributes:
        name: Name of its SVG file without the suffix.
        caption: A sentence that says what is drawn.
        svg: The `svg` element.
    """

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Shown:
    """The contents of a part's section: paragraphs, tables, pictures."""

    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Part:
    """A part of the comparison.

    Attributes:
        name: As on the command line.
        title: Heading of its section.
        jobs: Makes its jobs, of the quick run (True) or the full one.
        shown: Makes its section from the records of these jobs, of which some may be missing.
        source: Another part whose jobs and records these are; empty: its own.
    """

    name: str
    title: str
    jobs: Callable[[bool], Sequence[Job]]
    shown: Callable[[Mapping[Key, Record]], Shown]
    source: str = ""
