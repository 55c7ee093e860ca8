"""Contents of the parts as files: one self-contained page, tables as CSV, pictures as SVG, documents as Markdown."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import jinja2

from benchmarks.provenance import heading, row

from .part import Part, Shown, Table

Section = tuple[Part, Shown]

PAGE = "papers.html"

WRITTEN = "<!-- Written by the command from here on; what stands above is by hand and stays. -->"
"""A line of a page of the documentation."""

WIDTH = 120
"""Letters of a line of Markdown."""


def files(sections: Sequence[Section], provenance: str, left_out: Sequence[str]) -> Mapping[str, str]:
    """File name -> text of the page, all tables and all pictures.

    Args:
        sections: The parts with their contents.
        provenance: A sentence on commits, days and machines.
        left_out: Sentences on parts and jobs that are missing.
    """
    texts = {f"{table.name}.csv": csv_text(table) for _, content in sections for table in content.tables}
    texts |= {f"{picture.name}.svg": picture.svg for _, content in sections for picture in content.pictures}
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=True,
                                     trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    page = environment.get_template("page.html.jinja").render(sections=sections, provenance=provenance,
                                                              left_out=left_out)
    return {**texts, PAGE: page}


def csv_text(table: Table) -> str:
    """A table as CSV with raw numbers."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return text.getvalue()


def markdown(sections: Sequence[Section], command: str, provenance: str, left_out: Sequence[str],
             before: str = "") -> str:
    """The tables as a page of the documentation.

    Args:
        sections: The parts with their contents.
        command: The command that made them.
        provenance: A sentence on commits, days and machines.
        left_out: Sentences on parts and jobs that are missing.
        before: The page as it was; what stands above `WRITTEN` in it stays.
    """
    kept, mark, _ = before.partition(WRITTEN)
    lines = [kept.rstrip() if mark else "# The papers side by side", "", WRITTEN, "", "```sh", command, "```", "",
             *_wrapped([provenance, *left_out])]
    for part, content in sections:
        lines += [f"## {part.title}", "", *_wrapped(content.text)]
        for table in content.tables:
            lines += [f"### {table.title}", "", heading(*table.columns), *(row(*cells) for cells in table.texts()), "",
                      *_wrapped([table.note] if table.note else [])]
    return "\n".join(lines).rstrip() + "\n"


def _wrapped(paragraphs: Sequence[str]) -> list[str]:
    """Paragraphs as lines, each with an empty one behind it."""
    return [line for paragraph in paragraphs for line in (*textwrap.wrap(paragraph, WIDTH, break_on_hyphens=False), "")]
