"""A finished run explained: bound, sensitivities, and access counts as products of loops."""

from __future__ import annotations

import json

from rich.table import Table

from fadiff_mapper.analysis.explain_run import RunExplanation
from fadiff_mapper.analysis.finished_run import FinishedRun
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.mapping_stats import print_stats
from fadiff_mapper.output.timeloop_files.map_txt import map_txt

SHOWN = 1e-6
"""Elasticities below this are left out of the table."""


def print_explained(run: FinishedRun, explained: RunExplanation) -> None:
    """The loop nest, its numbers, the bound, the sensitivities and every count."""
    out = console()
    out.print(map_txt(run.spec, run.mapping, run.stats), markup=False)
    print_stats(run.stats)
    bound = explained.bound
    out.print(bound["sentence"] if bound else "no lower bound is stored with this run", markup=False)
    if bound:
        rows = table("the bound's parts: energies add up, the slowest limit sets the time", "of", "where", "source",
                     "value", text=3)
        for part in sorted(bound["parts"], key=lambda part: (part["metric"], -part["value"])):
            unit = "pJ" if part["metric"] == "energy" else "cycles"
            rows.add_row(part["metric"], part["where"], part["source"], f"{part['value']:.6g} {unit}")
        out.print(rows)
    out.print(_sensitivities(explained))
    print_counts(explained)


def _sensitivities(explained: RunExplanation) -> Table:
    rows = table(f"sensitivity of {explained.metric}, largest first: what 1 % more of a constant changes, in %",
                 "level", "constant", "at", "value", "change", "per unit", text=3)
    for one in explained.sensitivities:
        if abs(one.elasticity) >= SHOWN:
            rows.add_row(one.level, one.constant, one.basis + ("" if one.certain else " (not confirmed)"),
                         f"{one.value:.6g} {one.unit}", f"{one.elasticity:+.4f}", f"{one.derivative:+.4g}")
    rows.caption = ("fixed mapping: of the exact model; continuous optimum: of the best real-valued factors for the "
                    "loops of this mapping")
    rows.caption_justify = "left"
    return rows


def print_counts(explained: RunExplanation) -> None:
    """Access counts per instance, in words, a line each."""
    for count in explained.counts:
        console().print(count.sentence(), markup=False)


def print_json(explained: RunExplanation) -> None:
    """All of it for other programs."""
    print(json.dumps(explained.to_dict(), indent=1, ensure_ascii=False))
