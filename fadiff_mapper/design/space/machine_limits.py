"""Limits that need no mapping: area, leakage, units, and expressions over the parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.design.space.design_space import MACHINE_LIMITS, DesignSpace, Point, parameter_values
from fadiff_mapper.inputs.native.tables import total_areas
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import storage_energy
from fadiff_mapper.inputs.yaml.expressions import evaluate

UM2_PER_MM2 = 1e6


def broken_limit(space: DesignSpace, point: Point, spec: Spec | None = None,
                 area_mm2: float | None = None) -> str | None:
    """The first limit of the space that a design breaks.

    Args:
        space: The space with its limits.
        point: The design.
        spec: The design as read, with any problem; None judges the expressions over parameters alone.
        area_mm2: Its area where the caller knows it; None computes it.

    Returns:
        A sentence with the limit and the value that breaks it; None where the design meets all limits.

    Raises:
        SpecError: An expression among the limits cannot be computed, or is no number.
    """
    for name, (value, most) in limit_values(space, point, spec, area_mm2).items():
        if not value <= most:
            return f"{name} is {value:.6g}; the limit is {most:.6g}"
    return None


def limit_values(space: DesignSpace, point: Point, spec: Spec | None = None,
                 area_mm2: float | None = None) -> dict[str, tuple[float, float]]:
    """The quantities that the limits bound, at one design.

    Args:
        space: The space with its limits.
        point: The design.
        spec: The design as read, with any problem; None leaves out the limits on figures of the machine.
        area_mm2: Its area where the caller knows it; None computes it.

    Returns:
        Limit -> (value at this design, greatest accepted value), in the order of the space.

    Raises:
        SpecError: As for `broken_limit`.
    """
    values: dict[str, tuple[float, float]] = {}
    for limit in space.limits:
        if limit.name not in MACHINE_LIMITS:
            values[limit.name] = _expression_value(limit.name, space, point), limit.most
        elif spec is not None:
            value = area_mm2 if limit.name == "area_mm2" and area_mm2 is not None else _FIGURES[limit.name](spec)
            values[limit.name] = value, limit.most
    return values


def design_area_mm2(spec: Spec) -> float:
    """mm2 of all components, from the spec's area table, else as the architecture writes them; 0 where neither does."""
    return sum(total_areas(spec.arch, spec.tables).values()) / UM2_PER_MM2


def leakage_pj(spec: Spec) -> float:
    """pJ that all storage levels leak in one cycle, power gating not counted."""
    return sum(level.instances * storage_energy(level, spec.tables).leak for level in spec.arch.levels)


def _expression_value(expression: str, space: DesignSpace, point: Point) -> float:
    """The value of an expression over the parameters. Raises SpecError where it is no number."""
    try:
        value = evaluate(expression, parameter_values(space, point))
    except FadiffError as error:
        raise SpecError(f"{space.name}: limit {expression}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{space.name}: limit {expression}: found {value!r}; accepted: a number")
    return float(value)


_FIGURES: Mapping[str, Callable[[Spec], float]] = {
    "area_mm2": design_area_mm2, "leakage_pj": leakage_pj, "units": lambda spec: spec.arch.arithmetic.instances}
"""How each of `MACHINE_LIMITS` is computed."""
