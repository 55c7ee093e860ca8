"""A finished run explained: bound, sensitivities, and access counts as products of loops."""

from __future__ import annotations

from rich.table import Table

from fadiff_mapper.analysis.explain_run import RunExplanation
from fadiff_mapper.analysis.finished_run import FinishedRun
from fadiff_mapper.base.json_text import json_text
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.mapping_stats import print_stats
from fadiff_mapper.output.timeloop_files.map_txt import map_txt
from fadiff_mapper.sparse.sparse_stats import SparseStats

SHOWN = 1e-6
"""Elasticities below this are left out of the table: they round to 0 in its four decimals. Nothing was measured."""


def print_explained(run: FinishedRun, explained: RunExplanation) -> None:
    """Prints a finished run: the loop nest, its numbers, the lower bound, the sensitivities and every access count.

    Args:
        run: The run as read from its folder.
        explained: Its explanation; the bound is the stored one, because it rests on constraints that no run stores.
    """
    out = console()
    out.print(map_txt(run.spec, run.mapping, run.stats))
    print_stats(run.stats)
    bound = explained.bound
    out.print(bound["sentence"] if bound else "no lower bound is stored with this run")
    if bound:
        rows = table("the bound's parts: energies add up, the slowest limit sets the time", "of", "where", "source",
                     "value", text=3)
        for part in sorted(bound["parts"], key=lambda part: (part["metric"], -part["value"])):
            unit = "pJ" if part["metric"] == "energy" else "cycles"
            rows.add_row(part["metric"], part["where"], part["source"], f"{part['value']:.6g} {unit}")
        out.print(rows)
    if isinstance(run.stats, SparseStats) and run.stats.sections:
        out.print(_savings(run.stats))
    elif explained.sensitivities:
        out.print(_sensitivities(explained))
    if explained.lost:
        out.print(explained.lost)
    print_counts(explained)


def _savings(stats: SparseStats) -> Table:
    """A row per data space and level: the fate of all accesses of the dense problem."""
    rows = table("accesses saved, in words per instance: of those of the dense problem some happen, gated ones save "
                 "energy, skipped ones time, too; the others are of words that are not stored or never sent",
                 "level", "data space", "dense", "happen", "gated", "skipped", "never made", text=2)
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            total = {kind: sum(space[access][kind] for access in ("reads", "fills", "updates"))
                     for kind in ("algorithmic", "actual", "gated", "skipped")}
            rows.add_row(level["name"], name, *(str(count) for count in total.values()),
                         str(2 * total["algorithmic"] - sum(total.values())))
    computes = stats.arithmetic["computes"]
    rows.add_row(stats.arithmetic["name"], "computes", *(str(count) for count in computes.values()),
                 str(2 * computes["algorithmic"] - sum(computes.values())))
    return rows


def _sensitivities(explained: RunExplanation) -> Table:
    """A row per constant of the machine that the metric follows."""
    rows = table(f"sensitivity of {explained.metric}, largest first: what 1 % more of a constant changes, in %",
                 "level", "constant", "at", "value", "change", "per unit", text=3)
    for entry in explained.sensitivities:
        if abs(entry.elasticity) >= SHOWN:
            rows.add_row(entry.level, entry.constant, entry.basis + ("" if entry.certain else " (not confirmed)"),
                         f"{entry.value:.6g} {entry.unit}", f"{entry.elasticity:+.4f}", f"{entry.derivative:+.4g}")
    rows.caption = ("fixed mapping: of the exact model; continuous optimum: of the best real-valued factors for the "
                    "loops of this mapping")
    rows.caption_justify = "left"
    return rows


def print_counts(explained: RunExplanation) -> None:
    """Prints every access count, in words per instance, as a sentence on a line of its own."""
    for count in explained.counts:
        console().print(count.sentence())


def print_json(explained: RunExplanation) -> None:
    """Prints the whole explanation as JSON, for other programs."""
    say(json_text(explained.to_dict(), ascii_only=True))
