"""Layers on the terminal: an input as understood, a search as it runs, its results, and their explanation.

A first mapping is on disk before any result is printed, or a module for printing loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.progress import TimeElapsedColumn

from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.constraints import LoopConstraint
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import compute_energy, energy_sources, storage_energy
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.output.run_files import map_txt
from fadiff_mapper.output.terminal.console import (
    Screen,
    print_corrected,
    print_notes,
    print_sources,
    progress_line,
    table,
)
from fadiff_mapper.search.explanation.explain_run import FinishedRun, RunExplanation
from fadiff_mapper.search.mapspace.build import build_mapspace, size
from fadiff_mapper.search.mapspace.conflicts import conflicts

if TYPE_CHECKING:
    from fadiff_mapper.search.options import Progress
    from fadiff_mapper.search.result import Result


def print_spec(spec: Spec) -> int:
    """Prints problem, levels with energies, constraints, map space and notes of an input.

    Returns the exit code: 1 if no mapping can meet the constraints, else 0.
    """
    out = Screen()
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    levels: list[tuple[object, ...]] = []   # one row each, and one for the arithmetic
    for index, level in reversed(list(enumerate(spec.arch.levels))):
        energy, (x, y) = storage_energy(level, spec.tables), spec.arch.fanout(index)
        bandwidth = "/".join(f"{value:g} {port}" for port, value in (
            ("shared", level.shared_bandwidth), ("read", level.read_bandwidth),
            ("write", level.write_bandwidth)) if value)
        levels.append((level.name, level.kind, level.instances, f"{x} x {y}" if x * y > 1 else "-",
                       "unlimited" if level.usable is None else level.usable, level.word_bits, level.block_size,
                       bandwidth or "unlimited", *(
                           f"{getattr(energy, action):.6g}{'*' if action in energy.built_in else ''}"
                           for action in ("read", "fill", "update", "leak"))))
    mac, (price, built_in) = spec.arch.arithmetic, compute_energy(spec.arch.arithmetic, spec.tables)
    levels.append((mac.name, mac.kind, mac.instances, "-", "-", mac.word_bits, "-", "-",
                   f"{price:.6g}{'*' if built_in else ''}"))
    bounds = " ".join(f"{name}={bound}" for name, bound in spec.problem.bounds.items())
    out.print(f"problem {spec.problem.name}: {bounds}, {spec.problem.computes} multiply-accumulates")
    for ds in spec.problem.dataspaces:
        ranks = ", ".join(" + ".join(f"{t.coefficient}*{t.dimension}" if t.name else t.dimension for t in rank)
                          for rank in ds.ranks)
        written = ", written" if ds.read_write else ""
        bits = f" of {float(ds.bits.element):g} bits" if ds.bits else ""
        out.print(f"  {ds.name}[{ranks}]: {spec.problem.tensor_size(ds)} words{bits}{written}")
    out.print(table("levels, outermost first", "level", "class", "instances", "fan-out", "words", "word bits", "block",
                    "bandwidth", "pJ read", "pJ fill", "pJ update", "pJ leak", text=2, rows=levels,
                    caption="energies per vector access; * is Timeloop's built-in value"))
    print_sources("energies", energy_sources(spec.arch, spec.tables))
    for unit in spec.arch.units:
        out.print(f"unit {unit.name} below {spec.arch.levels[unit.level].name}: {unit.instances} x {unit.lanes} lanes; "
                  + ", ".join(f"{name} {each.cycles:g} cycles {each.energy:.6g} pJ"
                              for name, each in unit.operations.items()))
        print_sources(f"energies of {unit.name}", {name: each.source for name, each in unit.operations.items()})
    found = areas(spec.arch, spec.tables)
    if total := sum(area.total for area in found.values()):
        parts = ", ".join(f"{name} {area.total / 1e6:.4g}" for name, area in found.items() if area.total)
        out.print(f"area {total / 1e6:.6g} mm^2: {parts}")
        print_sources("areas", {name: area.source for name, area in found.items() if area.source})
    out.print(table("constraints in force", "level", "temporal", "spatial", "keep", "bypass", "open", text=6, rows=(
        (level.name, _loops(constraint.temporal), _loops(constraint.spatial) if level.fanout != (1, 1) else "-",
         *(", ".join(sorted(names)) for names in (level.keep, level.bypass, level.open)))
        for level, constraint in reversed(list(zip(space.levels, spec.constraints.levels, strict=True))))))
    counts = size(space)
    out.print(f"map space: {_about(counts.total)} = {_exactly(counts.factorizations)} factorizations "
              f"* {_exactly(counts.permutations)} orders * {_exactly(counts.bypass)} keep/bypass "
              f"* {_exactly(counts.splits)} splits")
    if spec.mapping is not None:
        out.print("mapping: given")
    print_notes(spec)
    reasons = conflicts(space)
    for reason in reasons:
        out.print(f"no mapping can meet the constraints: {reason}")
    return 1 if reasons else 0


def _about(number: int) -> str:
    """A whole number of any size with four digits."""
    return f"{number:.4g}" if number < 10 ** 300 else f"{Decimal(number):.4g}"


def _exactly(number: int) -> str:
    """A whole number in full, unless it would fill the screen."""
    return str(number) if number < 10 ** 60 else _about(number)


def _loops(constraint: LoopConstraint) -> str:
    """The constraint on the temporal or spatial loops of one level; orders begin with the innermost loop."""
    limits = (("=", constraint.fixed), (">=", constraint.minimum), ("<=", constraint.maximum))
    parts = [f"{name}{sign}{value}" for sign, factors in limits for name, value in factors.items()]
    if constraint.inner or constraint.outer:
        parts.append("order " + " ".join((*constraint.inner, "..", *constraint.outer)))
    return " ".join(parts + ([f"split {constraint.split}"] if constraint.split is not None else []))


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


@contextmanager
def progress(names: Sequence[str], quiet: bool) -> Iterator[Callable[[int, Progress], None]]:
    """A line on the terminal that follows the best mappings so far; silent without a terminal or if `quiet`.

    Yields:
        A function to call with a problem's index and its progress.
    """
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


SHOWN = 1e-6  # elasticities below this are left out of the table: they round to 0 in its four decimals


def print_explained(run: FinishedRun, explained: RunExplanation) -> None:
    """Prints a finished run: the loop nest, its numbers, the lower bound, the sensitivities and every access count.

    The bound is the stored one, because it depends on constraints that no run stores.
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
