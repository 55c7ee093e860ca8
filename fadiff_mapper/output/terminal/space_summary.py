"""A space of designs as it was understood: parameters with their values, ties, limits, size, and its two ends."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.space import DesignSpace, Parameter, Point, Value, design_architecture, parameter_values
from fadiff_mapper.output.terminal.console import console, table
from fadiff_mapper.spec.arch import Architecture

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
