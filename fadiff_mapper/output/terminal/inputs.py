"""An input on the terminal, as it was understood: one design and one problem, or a space of designs."""

from __future__ import annotations

from decimal import Decimal

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.space import DesignSpace, Point, design_architecture, parameter_values
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.constraints import LoopConstraint
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import BITS_PER_KIB, compute_energy, energy_sources, storage_energy
from fadiff_mapper.output.terminal.console import Screen, print_notes, print_sources, short, table
from fadiff_mapper.search.mapspace.build import build_mapspace, size
from fadiff_mapper.search.mapspace.conflicts import conflicts


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


MOST_LISTED = 8  # values of a parameter that are shown one by one


def print_space(space: DesignSpace) -> None:
    """Prints parameters, ties and limits of a space, its smallest and its largest design, and the number of designs.

    Raises SpecError if a tie cannot be computed.
    """
    out = Screen()
    out.print(table(f"parameters of {space.name}", "name", "path", "values", "count", text=3, rows=(
        (parameter.name, parameter.path or ("variable of the templates" if parameter.template else "through ties"),
         ", ".join(map(short, parameter.values)) if len(parameter.values) <= MOST_LISTED else
         "{}, {}, ... {}".format(*(short(parameter.values[place]) for place in (0, 1, -1))),
         f"{len(parameter.values):,}")
        for parameter in space.parameters)))
    if space.ties:
        out.print(table("ties", "path", "expression", text=2, rows=(
            (path, tie.expression) for path, tie in space.ties.items())))
    for name, most in space.limits.items():
        out.print(f"limit: {name} at most {most:.6g}")
    if space.energy:
        out.print(f"energies: {space.energy}")
    out.print(f"least values: {_design(space, tuple(0 for _ in space.parameters))}")
    greatest = tuple(len(parameter.values) - 1 for parameter in space.parameters)
    out.print(f"greatest values: {_design(space, greatest)}")
    out.print(f"size: {space.size:,} designs" if space.size < 10 ** 60 else f"size: {space.size:.4g} designs")


def _design(space: DesignSpace, point: Point) -> str:
    """The values of a design, its units and the KB of all storage levels together, or the reason why it is invalid."""
    chosen = ", ".join(f"{name} {short(value)}" for name, value in parameter_values(space, point).items())
    try:
        arch = design_architecture(space, point)
    except SpecError as error:
        return f"{chosen}: no architecture: {error.problems[0]}"
    bits = sum(level.instances * (level.size or 0) * level.word_bits for level in arch.levels if not level.is_dummy)
    return f"{chosen}: {arch.arithmetic.instances:,} units, {bits / BITS_PER_KIB:,.6g} KB on the chip"
