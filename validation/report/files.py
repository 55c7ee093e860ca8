"""A report's files as texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from fadiff_mapper.base.text_formats import csv_text

from ..fused import points_csv
from ..summary import plain
from . import tables
from .context import Context
from .fused import curve_table, looptree_table
from .tables import Table

SHOWN = 200
"""Disagreements and failures that are listed on the page; all of them are in the JSON."""


def report_files(context: Context) -> dict[str, str]:
    """All files of a report.

    Args:
        context: Everything that the report shows.

    Returns:
        File name -> text; `fused.csv` only where fused layers were measured.
    """
    texts = {"report.html": page(context), "report.md": markdown(context),
             "report.json": json.dumps(data(context), indent=1) + "\n", "cells.csv": cells_csv(context)}
    return texts if context.fused is None else texts | {"fused.csv": points_csv(context.fused)}


def verdict(context: Context) -> str:
    """The outcome in a sentence for each model that was compared number by number."""
    check = context.summary.check
    wrong = len(check.disagreements)
    numbers = f"{check.numbers:,} numbers of {context.summary.overall[0].mappings:,} mappings"
    sentences = (f"The exact model gives all {numbers} as Timeloop does." if not wrong
                 else f"The exact model disagrees with Timeloop on {wrong:,} of {numbers}.")
    if context.fused is not None:
        total, wrong = (sum(share.numbers for share in context.fused.looptree.shares),
                        len(context.fused.looptree.differences))
        sentences += (f" The fused model gives all {total:,} numbers as LoopTree does." if not wrong
                      else f" The fused model disagrees with LoopTree on {wrong:,} of {total:,} numbers.")
    return sentences + (f" {len(context.failures):,} questions got no answer." if context.failures else "")


def about(context: Context) -> list[tuple[str, str]]:
    """(name, value) of the tool, the command and the versions on which the figures rest."""
    tool = context.tool
    entries = [("answers from", f"timeloop-model, {tool.backend}, version: {tool.version}"), ("digest", tool.digest),
               ("repeat with", context.command), *context.versions.items()]
    cleared = ", ".join(f"{name}={value}" for name, value in context.cleared.items())
    return [*entries, ("variables cleared", cleared)] if cleared else entries


def page(context: Context) -> str:
    """One page of HTML that needs no other file; names are escaped by the template."""
    from . import figures  # loads matplotlib
    summary = context.summary
    environment = SandboxedEnvironment(autoescape=True, trim_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        agrees=context.agrees, verdict=verdict(context), about=about(context), first=first_tables(context),
        scatter=Markup(figures.scatter(context.batches)),
        heat=[(model, Markup(figures.heat(summary.cells, model))) for model in ("smooth", "paper, as printed")],
        fused=fused_tables(context), curves=Markup(figures.curve_picture(context.fused) if context.fused else ""),
        wordy=[tables.worst(summary), tables.unmodelled(summary)], long=long_tables(context),
        wrong=[*summary.check.disagreements, *(context.fused.looptree.differences if context.fused else ()),
               *context.failures][:SHOWN])


def first_tables(context: Context) -> list[Table]:
    """The tables that every reader needs: overall, by kind of mapping, by operator."""
    summary = context.summary
    return [tables.overall(summary), tables.grouped("By kind of mapping", summary.by_kind),
            tables.grouped("By operator", summary.by_operator)]


def fused_tables(context: Context) -> list[Table]:
    """The tables on fused layers; empty where they were left out."""
    return [looptree_table(context.fused), curve_table(context.fused)] if context.fused else []


def long_tables(context: Context) -> list[Table]:
    """The tables for looking single numbers up: by design, by layer, energies."""
    return [tables.grouped("By design", context.summary.by_design), tables.by_layer(context.summary),
            tables.prices(context.prices)]


def markdown(context: Context) -> str:
    """The report as Markdown, without figures."""
    lines = ["# How accurate is fadiff_mapper?", "", verdict(context), ""]
    lines += [f"- {name}: {value}" for name, value in about(context)]
    for table in (*first_tables(context), *fused_tables(context), tables.worst(context.summary),
                  tables.unmodelled(context.summary), *long_tables(context)):
        if table.rows:
            lines += ["", f"## {table.title}", "", *([table.note, ""] if table.note else []), *_markdown(table)]
    return "\n".join(lines) + "\n"


def _markdown(table: Table) -> list[str]:
    rows: Sequence[Sequence[str]] = (table.head, ["---"] * len(table.head), *table.rows)
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows]


def data(context: Context) -> dict[str, Any]:
    """The report as JSON values, all but the single cells."""
    return {"tool": context.tool.as_dict(), "command": context.command, "versions": context.versions,
            "variables_cleared": context.cleared, "agrees": context.agrees, "failures": list(context.failures),
            **plain(context.summary), "prices": [price.as_dict() for price in context.prices],
            "fused": context.fused and context.fused.as_dict()}


def cells_csv(context: Context) -> str:
    """The accuracies as CSV: a row per model, design, operator, level, data space and action."""
    rows = [asdict(cell) for cell in context.summary.cells]
    return csv_text(list(rows[0]) if rows else ["model"], (row.values() for row in rows))
