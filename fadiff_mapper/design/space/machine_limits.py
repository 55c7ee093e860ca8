"""Limits that need no mapping: area, leakage, units, and expressions over the parameters."""

from __future__ import annotations

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.design.space.design_space import MACHINE_LIMITS, DesignSpace, Limit, Point, parameter_values
from fadiff_mapper.spec.native.areas import total_areas
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import storage_energy
from fadiff_mapper.yaml.expressions import evaluate

UM2_PER_MM2 = 1e6


def broken_limit(space: DesignSpace, point: Point, spec: Spec | None = None) -> str | None:
    """The first limit of the space that a design breaks.

    Args:
        space: The space with its limits.
        point: The design.
        spec: The design as read, with any problem; None judges the expressions over parameters alone.

    Returns:
        A sentence with the limit and the value that breaks it; None where the design meets all limits.

    Raises:
        SpecError: An expression among the limits cannot be computed, or is no number.
    """
    for limit in space.limits:
        value = None if spec is None and limit.name in MACHINE_LIMITS else figure_of_limit(limit, space, point, spec)
        if value is not None and not value <= limit.most:
            return f"{limit.name} is {value:.6g}; the limit is {limit.most:.6g}"
    return None


def design_area_mm2(spec: Spec) -> float:
    """mm2 of all components, from the spec's area table, else as the architecture writes them; 0 where neither does."""
    return sum(total_areas(spec.arch, spec.tables).values()) / UM2_PER_MM2


def leakage_pj(spec: Spec) -> float:
    """pJ that all storage levels leak in one cycle, power gating not counted."""
    return sum(level.instances * storage_energy(level, spec.tables).leak for level in spec.arch.levels)


def figure_of_limit(limit: Limit, space: DesignSpace, point: Point, spec: Spec | None) -> float:
    """The design's value of what a limit bounds.

    Args:
        limit: The limit.
        space: The space.
        point: The design.
        spec: The design as read, with any problem; needed for `MACHINE_LIMITS` alone.
    """
    figures = {"area_mm2": design_area_mm2, "leakage_pj": leakage_pj,
               "units": lambda read: float(read.arch.arithmetic.instances)}
    if limit.name in MACHINE_LIMITS:
        assert spec is not None
        return figures[limit.name](spec)
    return limit_value(limit.name, space, point)


def limit_value(expression: str, space: DesignSpace, point: Point) -> float:
    """The value of an expression over the parameters. Raises SpecError where it is no number."""
    try:
        value = evaluate(expression, parameter_values(space, point))
    except FadiffError as error:
        raise SpecError(f"{space.name}: limit {expression}: {error}") from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SpecError(f"{space.name}: limit {expression}: found {value!r}; accepted: a number")
    return float(value)
