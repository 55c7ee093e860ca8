"""A search of layers as it runs, and its results.

Printing libraries are imported when there is something to print: a first mapping is on disk before.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.table import Table

from fadiff_mapper.base.errors import listed
from fadiff_mapper.base.standard_streams import say
from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.timeloop_files.run_files import map_txt
from fadiff_mapper.search.explanation.explain_run import FinishedRun, RunExplanation

if TYPE_CHECKING:
    from fadiff_mapper.search.options import Progress
    from fadiff_mapper.search.result import Result

def print_stats(stats: Stats) -> None:
    """Prints a summary line and a table of accesses, outermost level first.

    Reads, fills and updates are words per instance, as `timeloop-model` counts them; energies are pJ of all instances.
    """
    out = console()
    out.print(f"cycles {stats.cycles}   energy {stats.energy_pj / 1e6:.6g} uJ   EDP {stats.edp:.6g} pJ*cycles   "
                  f"utilization {stats.utilization:.2%}   computes {_accesses(stats.arithmetic['computes'])}"
                  + (f"   area {stats.area_mm2:.6g} mm^2" if stats.area_mm2 else ""))
    print_sources("energies", stats.energy_source)
    if stats.area_mm2:
        print_sources("areas", stats.area_source)
    rows = table("accesses per instance, outermost level first", "level", "data space", "instances", "tile",
                   "reads", "fills", "updates", "energy pJ", "cycles", text=2)
    if stats.sparse:
        rows.caption = "accesses that happen / of the dense problem; tiles as stored"
        rows.caption_justify = "left"
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            rows.add_row(level["name"], name, f"{space['utilized_instances']:.6g}", str(space["utilized_capacity"]),
                          *(_accesses(space[access]) for access in ("reads", "fills", "updates")),
                          f"{space['energy_pj_total']:.6g}", str(level["cycles"]))
        if level["leakage_energy_pj"]:
            rows.add_row(level["name"], "leakage", "", "", "", "", "", f"{level['leakage_energy_pj']:.6g}", "")
    mac = stats.arithmetic
    rows.add_row(mac["name"], "computes", str(mac["utilized_instances"]), "", "", "", "", f"{mac['energy_pj']:.6g}",
                  str(mac["cycles"]))
    if stats.network_energy_pj:
        rows.add_row("networks", "", "", "", "", "", "", f"{stats.network_energy_pj:.6g}", "")
    out.print(rows)
    for warning in stats.warnings:
        out.print(f"warning: {warning}")


def _accesses(count: Any) -> str:
    """A number, or of one that is split the part that happens before the whole."""
    return f"{count['actual']}/{count['algorithmic']}" if isinstance(count, dict) else str(count)


def print_sources(what: str, sources: Mapping[str, str]) -> None:
    """Prints one line if all components share a source, else one line per source with its components.

    Args:
        what: "energies" or "areas".
        sources: Component -> source, as in `Stats.energy_source` and `Stats.area_source`.
    """
    out = console()
    names: dict[str, list[str]] = {}
    for component, source in sources.items():
        names.setdefault(source, []).append(component)
    for source, components in names.items():
        subject = what if len(names) == 1 else f"{what} of {listed(components)}"
        out.print(f"{subject}: {source}")


def print_results(names: Sequence[str], results: Sequence[Result], folder: str) -> None:
    """Prints one result with its loop nest and all numbers, several as a table.

    Args:
        names: A name per problem.
        results: The results in the same order.
        folder: Where their files are.
    """
    from fadiff_mapper.output.terminal.console import console, print_corrected, table
    from fadiff_mapper.output.terminal.spec_summary import print_notes
    if len(results) == 1:
        _print_one(results[0], folder)
        print_corrected(results, names)
        return
    out = console()
    rows = table("", "problem", "bounds", "cycles", "energy uJ", "EDP pJ*cycles", "utilization", "evaluations", text=2)
    for name, result in zip(names, results, strict=True):
        stats, bounds = result.stats, result.spec.problem.bounds
        rows.add_row(name, " ".join(f"{dim}{bound}" for dim, bound in bounds.items() if bound > 1), str(stats.cycles),
                     f"{stats.energy_pj / 1e6:.6g}", f"{stats.edp:.6g}", f"{stats.utilization:.1%}",
                     str(result.evaluations))
    out.print(rows)
    print_notes(results[0].spec)
    out.print(f"{len(results)} problems, {sum(result.evaluations for result in results)} evaluations, "
              f"{max(result.time_s for result in results):.2f} s; written to {folder}, a folder for each")
    print_corrected(results, names)
    for status in dict.fromkeys(result.status for result in results):
        out.print(status)


def _print_one(result: Result, folder: str) -> None:
    """Loop nest, statistics, notes, lower bound and status of the only result."""
    from fadiff_mapper.output.terminal.console import console
    from fadiff_mapper.output.terminal.spec_summary import print_notes
    from fadiff_mapper.output.timeloop_files.run_files import map_txt
    from fadiff_mapper.search.lower_bound import sentence
    out = console()
    out.print(map_txt(result.spec, result.mapping, result.stats))
    print_stats(result.stats)
    print_notes(result.spec)
    out.print(sentence(result.bound, result.metric, result.value))
    out.print(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s); written to {folder}")


@contextmanager
def progress(names: Sequence[str], quiet: bool) -> Iterator[Callable[[int, Progress], None]]:
    """A line on the terminal that follows the best mappings so far; silent where there is no terminal.

    Args:
        names: A name per problem.
        quiet: Whether to stay silent in any case.

    Yields:
        A function to call with a problem's index and its progress.
    """
    if quiet or sys.stderr is None or not sys.stderr.isatty():
        yield lambda *_: None
        return
    from rich.progress import TimeElapsedColumn

    from fadiff_mapper.output.terminal.console import progress_line
    latest: dict[int, Progress] = {}
    with progress_line("searching", quiet, TimeElapsedColumn()) as update:

        def show(index: int, step: Progress) -> None:
            latest[index] = step
            value = "no legal mapping yet" if step.metric_value is None else f"best {step.metric_value:.6g}"
            name = f"{names[index]}: " if len(names) > 1 else ""
            legal = f", {sum(seen.legal for seen in latest.values())} of {len(names)} mapped" if len(names) > 1 else ""
            spent = sum(seen.evaluations for seen in latest.values())
            update(description=f"{name}{step.stage}: {value} ({spent} evaluations{legal})")
        yield show


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
    if run.stats.sections:
        out.print(_savings(run.stats))
    elif explained.sensitivities:
        out.print(_sensitivities(explained))
    if explained.lost:
        out.print(explained.lost)
    print_counts(explained)


def _savings(stats: Stats) -> Table:
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
