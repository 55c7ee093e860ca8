"""Layers on the terminal: the numbers of a mapping, the results of a search, and their explanation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output.run_files import map_txt
from fadiff_mapper.output.terminal.console import Screen, print_corrected, print_notes, print_sources, table

if TYPE_CHECKING:
    from fadiff_mapper.search.explanation.explain_run import FinishedRun, RunExplanation
    from fadiff_mapper.search.result import Result


def print_stats(stats: Stats) -> None:
    """Prints a summary line and a table of accesses, outermost level first.

    Reads, fills and updates are words per instance, as `timeloop-model` counts them; energies are pJ of all instances.
    """
    out = Screen()
    out.print(f"cycles {stats.cycles}   energy {stats.energy_pj / 1e6:.6g} uJ   EDP {stats.edp:.6g} pJ*cycles   "
              f"utilization {stats.utilization:.2%}   computes {_accesses(stats.arithmetic['computes'])}"
              + (f"   area {stats.area_mm2:.6g} mm^2" if stats.area_mm2 else ""))
    print_sources("energies", stats.energy_source)
    if stats.area_mm2:
        print_sources("areas", stats.area_source)
    rows: list[tuple[object, ...]] = []
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            rows.append((level["name"], name, f"{space['utilized_instances']:.6g}", space["utilized_capacity"],
                         *(_accesses(space[access]) for access in ("reads", "fills", "updates")),
                         f"{space['energy_pj_total']:.6g}", level["cycles"]))
            if scales := space.get("scale_factors"):  # their energy is part of the row above
                words = (f"{number:.6g}" for number in scales.values())
                rows.append((level["name"], f"scales of {name}", "", *words, "", ""))
        if level["leakage_energy_pj"]:
            rows.append((level["name"], "leakage", "", "", "", "", "", f"{level['leakage_energy_pj']:.6g}", ""))
    mac = stats.arithmetic
    rows.append((mac["name"], "computes", mac["utilized_instances"], "", "", "", "", f"{mac['energy_pj']:.6g}",
                 mac["cycles"]))
    if stats.network_energy_pj:
        rows.append(("networks", "", "", "", "", "", "", f"{stats.network_energy_pj:.6g}", ""))
    out.print(table(
        "accesses per instance, outermost level first", "level", "data space", "instances", "tile", "reads", "fills",
        "updates", "energy pJ", "cycles", text=2, rows=rows, caption="accesses that happen / of the dense problem; "
        "tiles as stored" if stats.sparse else ""))
    for warning in stats.warnings:
        out.print(f"warning: {warning}")


def _accesses(count: Any) -> str:
    """A number; for a sparse design actual/algorithmic."""
    return f"{count['actual']}/{count['algorithmic']}" if isinstance(count, dict) else str(count)


def print_results(names: Sequence[str], results: Sequence[Result], folder: str) -> None:
    """Prints a single result with its loop nest and all numbers, several results as a table."""
    out = Screen()
    if len(results) == 1:
        from fadiff_mapper.search.lower_bound.assemble import sentence
        result, = results
        out.print(map_txt(result.spec, result.mapping, result.stats))
        print_stats(result.stats)
        print_notes(result.spec)
        out.print(sentence(result.bound, result.metric, result.value))
        out.print(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s); written to {folder}")
        if result.corrected:
            print_corrected(results, names)
        return
    out.print(table("", "problem", "bounds", "cycles", "energy uJ", "EDP pJ*cycles", "utilization", "evaluations",
                    text=2, rows=(
        (name, " ".join(f"{dim}{bound}" for dim, bound in result.spec.problem.bounds.items() if bound > 1),
         result.stats.cycles, f"{result.stats.energy_pj / 1e6:.6g}", f"{result.stats.edp:.6g}",
         f"{result.stats.utilization:.1%}", result.evaluations) for name, result in zip(names, results, strict=True))))
    print_notes(results[0].spec)
    out.print(f"{len(results)} problems, {sum(result.evaluations for result in results)} evaluations, "
              f"{max(result.time_s for result in results):.2f} s; written to {folder}, a folder for each")
    if results[0].corrected:
        print_corrected(results, names)
    for status in dict.fromkeys(result.status for result in results):
        out.print(status)


SHOWN = 1e-6  # elasticities below this are left out of the table: they round to 0 in its four decimals


def print_explained(run: FinishedRun, explained: RunExplanation) -> None:
    """Prints a finished run: the loop nest, its numbers, the lower bound, the sensitivities and every access count.

    The bound is the stored one: it cannot be computed again, as a run does not store its constraints.
    """
    out = Screen()
    out.print(map_txt(run.spec, run.mapping, run.stats))
    print_stats(run.stats)
    bound = explained.bound
    out.print(bound["sentence"] if bound else "no lower bound is stored with this run")
    if bound:
        parts = sorted(bound["parts"], key=lambda part: (part["metric"], -part["value"]))
        out.print(table("the bound's parts: energies add up, the slowest limit sets the time", "of", "where", "source",
                        "value", text=3, rows=(
            (part["metric"], part["where"], part["source"],
             f"{part['value']:.6g} {'pJ' if part['metric'] == 'energy' else 'cycles'}") for part in parts)))
    if run.stats.sections:      # the fate of all accesses of the dense problem, by level and data space
        fates: list[tuple[str, str, dict[str, int]]] = []
        for level in reversed(run.stats.levels):
            fates += [(level["name"], name, {kind: sum(space[access][kind] for access in ("reads", "fills", "updates"))
                                             for kind in ("algorithmic", "actual", "gated", "skipped")})
                      for name, space in level["dataspaces"].items()]
        fates.append((run.stats.arithmetic["name"], "computes", run.stats.arithmetic["computes"]))
        out.print(table(
            "accesses saved, in words per instance: of those of the dense problem some happen, gated ones save "
            "energy, skipped ones time, too; the others are of words that are not stored or never sent",
            "level", "data space", "dense", "happen", "gated", "skipped", "never made", text=2,
            rows=((level, name, *total.values(), 2 * total["algorithmic"] - sum(total.values()))
                  for level, name, total in fates)))
    elif explained.sensitivities:
        out.print(table(
            f"sensitivity of {explained.metric}, largest first: what 1 % more of a constant changes, in %", "level",
            "constant", "at", "value", "change", "per unit", text=3, rows=(
                (entry.level, entry.constant, entry.basis + ("" if entry.certain else " (not confirmed)"),
                 f"{entry.value:.6g} {entry.unit}", f"{entry.elasticity:+.4f}", f"{entry.derivative:+.4g}")
                for entry in explained.sensitivities if abs(entry.elasticity) >= SHOWN),
            caption="fixed mapping: of the exact model; continuous optimum: of the best real-valued factors for the "
                    "loops of this mapping"))
    if explained.lost:
        out.print(explained.lost)
    print_counts(explained)


def print_counts(explained: RunExplanation) -> None:
    """Prints every access count, in words per instance, as a sentence on its own line."""
    for count in explained.counts:
        Screen().print(count.sentence())
