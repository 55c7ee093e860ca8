"""Spaces of designs: an architecture with parameters, ties and limits, and the ordinary architecture of every point."""

from fadiff_mapper.design.space.design_space import (
    DesignSpace,
    Limit,
    Parameter,
    Point,
    Tie,
    Value,
    coordinate,
    nearest_index,
    nearest_point,
    parameter_values,
    points_beside,
)
from fadiff_mapper.design.space.machine_limits import broken_limit, design_area_mm2, leakage_pj, limit_values
from fadiff_mapper.design.space.read_space import (
    SECTION,
    design_architecture,
    design_document,
    is_space,
    read_space,
    tied_values,
)

__all__ = [
    "SECTION", "DesignSpace", "Limit", "Parameter", "Point", "Tie", "Value", "broken_limit", "coordinate",
    "design_architecture", "design_area_mm2", "design_document", "is_space", "leakage_pj", "limit_values",
    "nearest_index", "nearest_point", "parameter_values", "points_beside", "read_space", "tied_values"]
