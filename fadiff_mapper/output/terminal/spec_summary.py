"""An input as it was understood: problem, levels, energies, constraints, and the size of the map space."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from rich.table import Table

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.space import DesignSpace, Parameter, Point, Value, design_architecture, parameter_values
from fadiff_mapper.inputs.native.tables import area_sources, total_areas
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.constraints import LoopConstraint
from fadiff_mapper.inputs.spec.spec import WARNING, Spec
from fadiff_mapper.inputs.spec.tables import compute_energy, energy_sources, storage_energy
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.output.terminal.layer_search import print_sources
from fadiff_mapper.search.mapspace import MapSpace, build_mapspace, conflicts, size


def print_spec(spec: Spec) -> int:
    """Prints problem, levels with energies, constraints, map space and notes of an input.

    Args:
        spec: The input.

    Returns:
        The exit code: 1 where no mapping can meet the constraints, 0 otherwise.
    """
    out = console()
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    bounds = " ".join(f"{name}={bound}" for name, bound in spec.problem.bounds.items())
    out.print(f"problem {spec.problem.name}: {bounds}, {spec.problem.computes} multiply-accumulates")
    for ds in spec.problem.dataspaces:
        ranks = ", ".join(" + ".join(f"{t.coefficient}*{t.dimension}" if t.name else t.dimension for t in rank)
                          for rank in ds.ranks)
        written = ", written" if ds.read_write else ""
        out.print(f"  {ds.name}[{ranks}]: {spec.problem.tensor_size(ds)} words{written}")
    out.print(_levels(spec))
    print_sources("energies", energy_sources(spec.arch, spec.tables))
    _print_areas(spec)
    out.print(_constraints(spec, space))
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


def _print_areas(spec: Spec) -> None:
    """Prints the area of all instances of every component and its source, where anything has an area."""
    found = total_areas(spec.arch, spec.tables)
    if total := sum(found.values()):
        parts = ", ".join(f"{name} {area / 1e6:.4g}" for name, area in found.items() if area)
        console().print(f"area {total / 1e6:.6g} mm^2: {parts}")
        print_sources("areas", area_sources(spec.arch, spec.tables))


def _about(number: int) -> str:
    """A whole number of any size with four digits."""
    return f"{number:.4g}" if number < 10 ** 300 else f"{Decimal(number):.4g}"


def _exactly(number: int) -> str:
    """A whole number in full, unless it would fill the screen."""
    return str(number) if number < 10 ** 60 else _about(number)


def _levels(spec: Spec) -> Table:
    """A row per level, outermost first, and one for the arithmetic, with energies in pJ per vector access."""
    rows = table("levels, outermost first", "level", "class", "instances", "fan-out", "words", "word bits", "block",
                   "bandwidth", "pJ read", "pJ fill", "pJ update", "pJ leak", text=2)
    for index in reversed(range(len(spec.arch.levels))):
        level, energy = spec.arch.levels[index], storage_energy(spec.arch.levels[index], spec.tables)
        x, y = spec.arch.fanout(index)
        bandwidth = "/".join(f"{value:g} {port}" for port, value in (
            ("shared", level.shared_bandwidth), ("read", level.read_bandwidth),
            ("write", level.write_bandwidth)) if value)
        rows.add_row(level.name, level.kind, str(level.instances), f"{x} x {y}" if x * y > 1 else "-",
                      "unlimited" if level.usable is None else str(level.usable), str(level.word_bits),
                      str(level.block_size), bandwidth or "unlimited",
                      *(f"{getattr(energy, action):.6g}{'*' if action in energy.built_in else ''}"
                        for action in ("read", "fill", "update", "leak")))
    mac, (price, built_in) = spec.arch.arithmetic, compute_energy(spec.arch.arithmetic, spec.tables)
    rows.add_row(mac.name, mac.kind, str(mac.instances), "-", "-", str(mac.word_bits), "-", "-",
                  f"{price:.6g}{'*' if built_in else ''}")
    rows.caption = "energies per vector access; * is Timeloop's built-in value"
    rows.caption_justify = "left"
    return rows


def _constraints(spec: Spec, space: MapSpace) -> Table:
    """A row per level, outermost first: fixed, least and largest factors, orders, and what must be kept or bypassed."""
    rows = table("constraints in force", "level", "temporal", "spatial", "keep", "bypass", "open", text=6)
    for index in reversed(range(len(spec.arch.levels))):
        level, constraint = space.levels[index], spec.constraints.levels[index]
        has_fanout = level.fanout != (1, 1)
        rows.add_row(level.name, _loops(constraint.temporal), _loops(constraint.spatial) if has_fanout else "-",
                      ", ".join(sorted(level.keep)), ", ".join(sorted(level.bypass)), ", ".join(sorted(level.open)))
    return rows


def _loops(constraint: LoopConstraint) -> str:
    """The constraint on the temporal or spatial loops of one level; orders run from the innermost loop outwards."""
    limits = (("=", constraint.fixed), (">=", constraint.minimum), ("<=", constraint.maximum))
    parts = [f"{name}{sign}{value}" for sign, factors in limits for name, value in factors.items()]
    if constraint.inner or constraint.outer:
        parts.append("order " + " ".join((*constraint.inner, "..", *constraint.outer)))
    return " ".join(parts + ([f"split {constraint.split}"] if constraint.split is not None else []))


def print_notes(spec: Spec) -> None:
    """Prints a line for each statement of the input that Timeloop ignores or that has no effect."""
    for note in spec.notes:
        console().print(note if note.startswith(WARNING) else f"note: {note}")


MOST_SHOWN = 8
"""Values of a parameter that are shown one by one."""

BITS_PER_KB = 8192


def print_space(space: DesignSpace) -> None:
    """Prints parameters, ties and limits, the two designs of all least and all greatest values, and the size.

    Args:
        space: The space, whose paths and expressions have been checked.

    Raises:
        SpecError: A tie cannot be computed.
    """
    out = console()
    rows = table(f"parameters of {space.name}", "name", "path", "values", "count", text=3)
    for parameter in space.parameters:
        rows.add_row(parameter.name, _reach(space, parameter), _values(parameter.values),
                     f"{len(parameter.values):,}")
    out.print(rows)
    if space.ties:
        ties = table("ties", "path", "expression", text=2)
        for path, tie in space.ties.items():
            ties.add_row(path, tie.expression)
        out.print(ties)
    for limit in space.limits:
        out.print(f"limit: {limit.name} at most {limit.most:.6g}")
    if space.energy:
        out.print(f"energies: {space.energy}")
    ends: tuple[tuple[str, Point], ...] = (
        ("least values", tuple(0 for _ in space.parameters)),
        ("greatest values", tuple(len(parameter.values) - 1 for parameter in space.parameters)))
    for name, point in ends:
        out.print(f"{name}: {_design(space, point)}")
    out.print(f"size: {space.size:,} designs" if space.size < 10 ** 60 else f"size: {space.size:.4g} designs")


def _reach(space: DesignSpace, parameter: Parameter) -> str:
    """The path of a parameter, or how it acts without one."""
    if parameter.path:
        return parameter.path
    return "variable of the templates" if parameter.template else "through ties"


def _values(values: Sequence[Value]) -> str:
    """All values, or the first ones and the last where they are many."""
    if len(values) <= MOST_SHOWN:
        return ", ".join(_short(value) for value in values)
    return f"{_short(values[0])}, {_short(values[1])}, ... {_short(values[-1])}"


def _short(value: Value) -> str:
    """A value as messages show it."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _design(space: DesignSpace, point: Point) -> str:
    """The values of a design, its units and the KB on the chip, or why it is no architecture."""
    chosen = ", ".join(f"{name} {_short(value)}" for name, value in parameter_values(space, point).items())
    try:
        arch = design_architecture(space, point)
    except SpecError as error:
        return f"{chosen}: no architecture: {error.problems[0]}"
    return f"{chosen}: {arch.arithmetic.instances:,} units, {_kilobytes(arch):,.6g} KB on the chip"


def _kilobytes(arch: Architecture) -> float:
    """KB of all storage levels with a size together."""
    bits = sum(level.instances * (level.size or 0) * level.word_bits for level in arch.levels if not level.is_dummy)
    return bits / BITS_PER_KB
