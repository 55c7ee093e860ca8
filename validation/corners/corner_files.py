"""The files of a run over corners."""

from __future__ import annotations

import json
from typing import Any

from .rules import RULES
from .running import CornerRun, Difference, rules_met

COLUMNS = ("accepted", "rejected", "numbers", "links", "different")
"""Columns of the table, keys of a tally."""

SHOWN = 12
"""Numbers of one corner that are listed in the report; all of them are in the JSON."""


def corner_files(run: CornerRun, command: str) -> dict[str, str]:
    """All files.

    Args:
        run: The outcome.
        command: The command line that repeats it.

    Returns:
        File name -> text: the report as Markdown and as JSON, and the smallest input of each difference, which
        `timeloop-model` runs as it is.
    """
    inputs = {f"corner-{item.number}.yaml": _text(item) for item in run.differences}
    return {"corners.md": markdown(run, command), "corners.json": json.dumps(data(run), indent=1) + "\n", **inputs}


def verdict(run: CornerRun) -> str:
    """The outcome in a sentence."""
    total = _total(run)
    asked = total["accepted"] + total["rejected"]
    sentence = (f"The exact model gives all {total['numbers']:,} numbers and {total['rejected']:,} rejections of "
                f"{asked:,} corners as Timeloop does." if not run.differences
                else f"The exact model disagrees with Timeloop on {len(run.differences):,} of {asked:,} corners.")
    return sentence + (f" {len(run.failures):,} corners got no answer." if run.failures else "")


def markdown(run: CornerRun, command: str) -> str:
    """The report as Markdown."""
    head = ("rule", *COLUMNS, "what it is")
    rows = [(name, *(f"{tally[column]:,}" for column in COLUMNS), RULES[name].says) for name, tally in rules_met(run)]
    total = _total(run)
    rows.append(("all", *(f"{total[column]:,}" for column in COLUMNS), ""))
    lines = ["# Corners", "", verdict(run), "", *("| " + " | ".join(row) + " |" for row in (
        head, ("---", *("---:" for _ in COLUMNS), "---"), *rows)), "",
        f"Asked: timeloop-model, {run.tool.backend}, version {run.tool.version}, {run.tool.digest}.",
        f"Repeat with: `{command}`.", ""]
    for item in run.differences:
        lines += [f"## Corner {item.number}, {item.smallest.rule}", "",
                  f"Smallest input: corner-{item.number}.yaml", "",
                  *(f"- {text}" for text in item.mistakes[:SHOWN]), ""]
    lines += [f"- no answer: {text}" for text in run.failures]
    return "\n".join(lines).rstrip() + "\n"


def data(run: CornerRun) -> dict[str, Any]:
    """The report as JSON values."""
    return {"tool": run.tool.as_dict(), "seed": run.seed, "agrees": run.agrees,
            "rules": {name: {column: tally[column] for column in COLUMNS} for name, tally in rules_met(run)},
            "differences": [{"number": item.number, "rule": item.corner.rule, "mistakes": list(item.mistakes)}
                            for item in run.differences],
            "failures": run.failures}


def _total(run: CornerRun) -> dict[str, int]:
    return {column: sum(tally[column] for tally in run.tally.values()) for column in COLUMNS}


def _text(item: Difference) -> str:
    """The smallest input as literal YAML."""
    question = item.smallest.question()
    return question.task.text(question.mapping)
