"""Recorded runs: a JSON file each, with what was run at which commit, when and where, and the tables that came out."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.provenance import heading, row


@dataclass(frozen=True)
class Table:
    """A table as a script printed it: cells are text."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""

    def column(self, name: str) -> list[str]:
        """The cells below a heading."""
        return [cells[self.columns.index(name)] for cells in self.rows]

    def cells(self, number: int, *columns: str) -> list[str]:
        """Some cells of a row."""
        return [self.rows[number][self.columns.index(name)] for name in columns]

    def markdown(self, *columns: str) -> str:
        """The table, or some of its columns."""
        kept = [self.columns.index(name) for name in columns] or range(len(self.columns))
        return "\n".join([heading(*(self.columns[index] for index in kept)),
                          *(row(*(cells[index] for index in kept)) for cells in self.rows)])


@dataclass(frozen=True)
class Record:
    """A run: its command, the commit of the package, the day, the machine, and its tables."""

    command: str
    commit: str
    date: str
    machine: str
    tables: list[Table]


def read_record(file: Path) -> Record:
    """A record from its file."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return Record(**content | {"tables": [Table(**table) for table in content["tables"]]})


def record_text(record: Record) -> str:
    """A record as JSON, with a line for each row of a table."""
    text = json.dumps(asdict(record), indent=1, ensure_ascii=False)
    return re.sub(r"\[\n\s+((?:\"(?:[^\"\\]|\\.)*\",?\s*)+)\]",
                  lambda cells: "[" + re.sub(r"\n\s+", " ", cells[1].strip()) + "]", text) + "\n"


def read_tables(text: str) -> list[Table]:
    """The tables of a Markdown text, each with the heading above it and the paragraphs below it."""
    tables: list[Table] = []
    for block in re.split(r"^(?=#+ )", text, flags=re.MULTILINE):
        title = block.partition("\n")[0].lstrip("# ") if block.startswith("#") else ""
        parts = re.split(r"((?:^\|.*\n?)+)", block, flags=re.MULTILINE)
        for table, after in zip(parts[1::2], parts[2::2], strict=True):
            columns, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")]
                                 for line in table.strip().split("\n"))
            note = "\n\n".join(part.strip() for part in after.strip().split("\n\n"))
            tables.append(Table(title, columns, rows, note))
    return tables


@dataclass(frozen=True)
class Figure:
    """A cell of a table in two records of one run."""

    place: str  # title of the table, text that its row begins with, and column
    recorded: str
    here: str

    @property
    def apart(self) -> float:
        """The relative difference of two numbers; 0 for equal cells, infinite for other text."""
        if self.recorded == self.here:
            return 0.0
        try:
            first, second = (float(cell.removesuffix("%").replace(",", "")) for cell in (self.recorded, self.here))
        except ValueError:
            return float("inf")
        return abs(second - first) / abs(first) if first else float("inf")


def figures_of_both(recorded: Record, here: Record) -> Iterator[Figure]:
    """The figures of the rows that two records of one run share, named by the first cells that tell all rows apart."""
    for table in here.tables:
        for other in recorded.tables:
            if (other.title, other.columns) != (table.title, table.columns):
                continue
            named = next((number for number in range(1, len(other.columns)) if len(
                {tuple(cells[:number]) for cells in other.rows}) == len(other.rows)), len(other.columns))
            rows = {tuple(cells[:named]): cells for cells in other.rows}
            for cells in table.rows:
                known = rows.get(tuple(cells[:named]), [])
                for column, first, second in list(zip(other.columns, known, cells, strict=False))[named:]:
                    place = ", ".join(word for word in (table.title, *cells[:named], column) if word)
                    yield Figure(place, first, second)
