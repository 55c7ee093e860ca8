"""What was understood of an input."""

from __future__ import annotations

from rich.table import Table

from fadiff_mapper.mapspace import MapSpace, build_mapspace, conflicts, size
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.energy_sources import print_energy_sources
from fadiff_mapper.spec.constraints import LoopConstraint
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import compute_energy, energy_sources, storage_energy


def print_spec(spec: Spec) -> int:
    """All that was understood of an input; returns 1 where no mapping can meet the constraints, else 0."""
    out = console()
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    bounds = " ".join(f"{name}={bound}" for name, bound in spec.problem.bounds.items())
    out.print(f"problem {spec.problem.name}: {bounds}, {spec.problem.computes} multiply-accumulates", markup=False)
    for ds in spec.problem.dataspaces:
        ranks = ", ".join(" + ".join(f"{t.coefficient}*{t.dimension}" if t.name else t.dimension for t in rank)
                          for rank in ds.ranks)
        written = ", written" if ds.read_write else ""
        out.print(f"  {ds.name}[{ranks}]: {spec.problem.tensor_size(ds)} words{written}", markup=False)
    out.print(_levels(spec))
    print_energy_sources(energy_sources(spec.arch, spec.tables))
    out.print(_constraints(spec, space))
    found = size(space)
    out.print(f"map space: {found.total:.4g} = {found.factorizations} factorizations * {found.permutations} orders "
                  f"* {found.bypass} keep/bypass * {found.splits} splits")
    if spec.mapping is not None:
        out.print("mapping: given")
    print_notes(spec)
    reasons = conflicts(space)
    for reason in reasons:
        out.print(f"no mapping can meet the constraints: {reason}", markup=False)
    return 1 if reasons else 0


def _levels(spec: Spec) -> Table:
    rows = table("levels, outermost first", "level", "class", "instances", "fan-out", "words", "word bits", "block",
                   "bandwidth", "pJ read", "pJ fill", "pJ update", "pJ leak", text=2)
    for index in reversed(range(len(spec.arch.levels))):
        level, energy = spec.arch.levels[index], storage_energy(spec.arch.levels[index], spec.tables)
        x, y = spec.arch.fanout(index)
        bandwidth = "/".join(f"{value:g} {what}" for what, value in (
            ("shared", level.shared_bandwidth), ("read", level.read_bandwidth),
            ("write", level.write_bandwidth)) if value)
        rows.add_row(level.name, level.kind, str(level.instances), f"{x} x {y}" if x * y > 1 else "-",
                      "unlimited" if level.usable is None else str(level.usable), str(level.word_bits),
                      str(level.block_size), bandwidth or "unlimited",
                      *(f"{getattr(energy, what):.6g}{'*' if what in energy.built_in else ''}"
                        for what in ("read", "fill", "update", "leak")))
    mac, (price, built_in) = spec.arch.arithmetic, compute_energy(spec.arch.arithmetic, spec.tables)
    rows.add_row(mac.name, mac.kind, str(mac.instances), "-", "-", str(mac.word_bits), "-", "-",
                  f"{price:.6g}{'*' if built_in else ''}")
    rows.caption = "energies per vector access; * is Timeloop's built-in value"
    rows.caption_justify = "left"
    return rows


def _constraints(spec: Spec, space: MapSpace) -> Table:
    rows = table("constraints in force", "level", "temporal", "spatial", "keep", "bypass", "open", text=6)
    for index in reversed(range(len(spec.arch.levels))):
        here, said = space.levels[index], spec.constraints.levels[index]
        fanned = here.fanout != (1, 1)
        rows.add_row(here.name, _loops(said.temporal), _loops(said.spatial) if fanned else "-",
                      ", ".join(sorted(here.keep)), ", ".join(sorted(here.bypass)), ", ".join(sorted(here.open)))
    return rows


def _loops(said: LoopConstraint) -> str:
    parts = [f"{name}{sign}{value}" for sign, limits in (("=", said.fixed), (">=", said.minimum), ("<=", said.maximum))
             for name, value in limits.items()]
    if said.inner or said.outer:
        parts.append("order " + " ".join((*said.inner, "..", *said.outer)))
    return " ".join(parts + ([f"split {said.split}"] if said.split is not None else []))


def print_notes(spec: Spec) -> None:
    """What was understood but has no effect."""
    for note in spec.notes:
        console().print(f"note: {note}", markup=False)
