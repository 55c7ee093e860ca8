"""Pages of `docs/results/` and the figures of README, made from templates and recorded data."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path

import jinja2

from benchmarks.provenance import heading, row

from .data import Record, Table, read_record
from .plots import PLOTS, numbers
from .runs import PAGES, RUNS

TEMPLATES = Path(__file__).with_name("pages")
ROOT = Path(__file__).parents[2]
README_BLOCK = re.compile(r"(<!-- results: .* -->\n).*?(<!-- end of results -->)", re.DOTALL)


def written(data: Path) -> dict[str, str]:
    """The text of every page by its name, "index" and "readme" (a part of README.md) included.

    Args:
        data: The folder of the records.
    """
    records = {file.stem: read_record(file) for file in sorted(data.glob("*.json"))}
    used: list[str] = []  # the records that a page shows

    def find(source: str, title: str = "") -> Table:
        used.append(source)
        return next(table for table in records[source].tables if title in ("", table.title))

    def table(source: str, title: str = "", *columns: str) -> str:
        return find(source, title).markdown(*columns)

    def sections(source: str) -> str:
        used.append(source)
        return "\n\n".join("\n\n".join(filter(None, [f"### {table.title}", table.markdown(), table.note]))
                           for table in records[source].tables)

    def cell(source: str, title: str, column: str, **where: str) -> str:
        """The cell below a heading in the first row in which other columns have the values of `where`."""
        table = find(source, title)
        return next(cells for cells in table.rows
                    if all(cells[table.columns.index(key)] == value for key, value in where.items())
                    )[table.columns.index(column)]

    def plot(name: str, text: str) -> str:
        used.extend(PLOTS[name][1])
        return f"![{text}](plots/{name}.svg)"

    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(TEMPLATES), undefined=jinja2.StrictUndefined,
                                     trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)
    environment.globals |= {"find": find, "table": table, "sections": sections, "cell": cell, "plot": plot,
                            "records": records, "pages": PAGES, "runs": RUNS, "title": page_title}
    environment.filters |= {"numbers": known_numbers, "median": statistics.median,
                            "geometric_mean": statistics.geometric_mean}
    texts = {}
    for name in [*PAGES, "index", "readme"]:
        used.clear()
        text = environment.get_template(f"{name}.md.jinja").render()
        texts[name] = text if name in ("index", "readme") else f"{text.rstrip()}\n\n{measured(used, records)}"
    return texts


def known_numbers(cells: Sequence[str]) -> list[float]:
    """The numbers of cells, without those that have none."""
    return [float(value) for value in numbers(cells) if value == value]


def measured(used: list[str], records: dict[str, Record]) -> str:
    """The section of a page on its data: what was run, at which commit, when and where."""
    lines = ["## How to repeat", "", f"`python -m benchmarks.results {' '.join(dict.fromkeys(used))}`"]
    lines += ["", heading("data", "command", "commit", "date", "machine")]
    for name in dict.fromkeys(used):
        record = records[name]
        lines.append(row(f"[{name}](data/{name}.json)", f"`{record.command}`", record.commit, record.date,
                         record.machine))
    return "\n".join(lines) + "\n"


def page_title(name: str) -> str:
    """The heading of a page, from its template."""
    return (TEMPLATES / f"{name}.md.jinja").read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")


def with_results(readme: str, text: str) -> str:
    """README.md with the figures between its two marks."""
    return README_BLOCK.sub(lambda block: block[1] + text.rstrip() + "\n" + block[2], readme)
