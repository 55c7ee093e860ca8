"""What the command line prints: tables, progress, and a summary of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from fadiff_mapper.doctor import Finding
from fadiff_mapper.inputs import Spec
from fadiff_mapper.mapspace import MapSpace, build_mapspace, conflicts, size
from fadiff_mapper.spec.constraints import LoopConstraint
from fadiff_mapper.spec.tables import compute_energy, storage_energy
from fadiff_mapper.stats import Stats

if TYPE_CHECKING:
    from fadiff_mapper.api import Result
    from fadiff_mapper.search import Progress


WIDE = 200
"""Columns of a table that goes to a file or a pipe."""


def _console() -> Console:
    console = Console(highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(highlight=False, soft_wrap=True, width=WIDE)


def _table(title: str, *columns: str, text: int = 1) -> Table:
    """A table whose first `text` columns are words and whose others are numbers."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index < text else "right", overflow="fold")
    return table


def print_spec(spec: Spec) -> int:
    """All that was understood of an input; returns 1 where no mapping can meet the constraints, else 0."""
    console = _console()
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    bounds = " ".join(f"{name}={bound}" for name, bound in spec.problem.bounds.items())
    console.print(f"problem {spec.problem.name}: {bounds}, {spec.problem.computes} multiply-accumulates", markup=False)
    for ds in spec.problem.dataspaces:
        ranks = ", ".join(" + ".join(f"{t.coefficient}*{t.dimension}" if t.name else t.dimension for t in rank)
                          for rank in ds.ranks)
        written = ", written" if ds.read_write else ""
        console.print(f"  {ds.name}[{ranks}]: {spec.problem.tensor_size(ds)} words{written}", markup=False)
    console.print(_levels(spec))
    console.print(f"energies: {spec.tables.source}", markup=False)
    console.print(_constraints(spec, space))
    found = size(space)
    console.print(f"map space: {found.total:.4g} = {found.factorizations} factorizations * {found.permutations} orders "
                  f"* {found.bypass} keep/bypass * {found.splits} splits")
    if spec.mapping is not None:
        console.print("mapping: given")
    print_notes(spec)
    reasons = conflicts(space)
    for reason in reasons:
        console.print(f"no mapping can meet the constraints: {reason}", markup=False)
    return 1 if reasons else 0


def _levels(spec: Spec) -> Table:
    table = _table("levels, outermost first", "level", "class", "instances", "fan-out", "words", "word bits", "block",
                   "bandwidth", "pJ read", "pJ fill", "pJ update", "pJ leak", text=2)
    for index in reversed(range(len(spec.arch.levels))):
        level, energy = spec.arch.levels[index], storage_energy(spec.arch.levels[index], spec.tables)
        x, y = spec.arch.fanout(index)
        bandwidth = "/".join(f"{value:g} {what}" for what, value in (
            ("shared", level.shared_bandwidth), ("read", level.read_bandwidth),
            ("write", level.write_bandwidth)) if value)
        table.add_row(level.name, level.kind, str(level.instances), f"{x} x {y}" if x * y > 1 else "-",
                      "unlimited" if level.usable is None else str(level.usable), str(level.word_bits),
                      str(level.block_size), bandwidth or "unlimited",
                      *(f"{getattr(energy, what):.6g}{'*' if what in energy.built_in else ''}"
                        for what in ("read", "fill", "update", "leak")))
    mac, (price, built_in) = spec.arch.arithmetic, compute_energy(spec.arch.arithmetic, spec.tables)
    table.add_row(mac.name, mac.kind, str(mac.instances), "-", "-", str(mac.word_bits), "-", "-",
                  f"{price:.6g}{'*' if built_in else ''}")
    table.caption = "energies per vector access; * is Timeloop's built-in value"
    table.caption_justify = "left"
    return table


def _constraints(spec: Spec, space: MapSpace) -> Table:
    table = _table("constraints in force", "level", "temporal", "spatial", "keep", "bypass", "open", text=6)
    for index in reversed(range(len(spec.arch.levels))):
        here, said = space.levels[index], spec.constraints.levels[index]
        fanned = here.fanout != (1, 1)
        table.add_row(here.name, _loops(said.temporal), _loops(said.spatial) if fanned else "-",
                      ", ".join(sorted(here.keep)), ", ".join(sorted(here.bypass)), ", ".join(sorted(here.open)))
    return table


def _loops(said: LoopConstraint) -> str:
    parts = [f"{name}{sign}{value}" for sign, limits in (("=", said.fixed), (">=", said.minimum), ("<=", said.maximum))
             for name, value in limits.items()]
    if said.inner or said.outer:
        parts.append("order " + " ".join((*said.inner, "..", *said.outer)))
    return " ".join(parts + ([f"split {said.split}"] if said.split is not None else []))


def print_notes(spec: Spec) -> None:
    """What was understood but has no effect."""
    for note in spec.notes:
        _console().print(f"note: {note}", markup=False)


def print_stats(stats: Stats) -> None:
    """Summary and access counts, level by level."""
    console = _console()
    console.print(f"cycles {stats.cycles}   energy {stats.energy_pj / 1e6:.6g} uJ   EDP {stats.edp:.6g} pJ*cycles   "
                  f"utilization {stats.utilization:.2%}   computes {stats.computes}")
    console.print(f"energies: {stats.energy_source}", markup=False)
    table = _table("accesses per instance, outermost level first", "level", "data space", "instances", "tile",
                   "reads", "fills", "updates", "energy pJ", "cycles", text=2)
    for level in reversed(stats.levels):
        for name, space in level["dataspaces"].items():
            table.add_row(level["name"], name, str(space["utilized_instances"]), str(space["utilized_capacity"]),
                          str(space["reads"]), str(space["fills"]), str(space["updates"]),
                          f"{space['energy_pj_total']:.6g}", str(level["cycles"]))
        if level["leakage_energy_pj"]:
            table.add_row(level["name"], "leakage", "", "", "", "", "", f"{level['leakage_energy_pj']:.6g}", "")
    mac = stats.arithmetic
    table.add_row(mac["name"], "computes", str(mac["utilized_instances"]), "", "", "", "", f"{mac['energy_pj']:.6g}",
                  str(mac["cycles"]))
    if stats.network_energy_pj:
        table.add_row("networks", "", "", "", "", "", "", f"{stats.network_energy_pj:.6g}", "")
    console.print(table)


def print_result(result: Result, folder: str) -> None:
    """The mapping's loop nest, its numbers, and how the search ended."""
    from fadiff_mapper import emit
    console = _console()
    console.print(emit.map_txt(result.spec, result.mapping, result.stats), markup=False)
    print_stats(result.stats)
    print_notes(result.spec)
    console.print(f"{result.status} ({result.evaluations} evaluations, {result.time_s:.2f} s); written to {folder}",
                  markup=False)


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[Progress], None]]:
    """A line on the terminal that follows the best mapping so far; silent where there is no terminal."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Bar(*columns, console=console, transient=True) as bar:
        task = bar.add_task("searching", total=None)

        def show(step: Progress) -> None:
            value = "no legal mapping yet" if step.metric_value is None else f"best {step.metric_value:.6g}"
            bar.update(task, description=f"{step.stage}: {value} ({step.evaluations} evaluations)")
        yield show


def print_findings(findings: list[Finding]) -> None:
    """What `doctor` found."""
    table = _table("", "", "found", "enables", text=3)
    for finding in findings:
        table.add_row(finding.name, finding.found or "not found", finding.enables)
    _console().print(table)
