"""Area of every component, from the area reference table (ART) or as the architecture writes it."""

from __future__ import annotations

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.written_components import written_attributes, written_number
from fadiff_mapper.spec.tables import Tables, component_name

IN_INPUT = "ART in the input"
IN_ARCHITECTURE = "area in the architecture"
NO_AREA = "none: Timeloop's built-in areas are 0"
"""Sources of areas in words."""


def areas(arch: Architecture, tables: Tables) -> dict[str, float]:
    """Areas as Timeloop takes them.

    Args:
        arch: The architecture. Without an entry in the ART the area of a storage level is its attribute
            `cluster_area` over the cluster's size, that of the arithmetic its `area`; Timeloop's built-in area is 0.
        tables: The tables in force. Timeloop reads an ART only together with an ERT; of several entries for a
            component the last one counts.

    Returns:
        um^2 per instance by component name, outermost first.
    """
    in_table = {component_name(full_name): area for full_name, area in _read_areas(tables).items()}
    return {name: in_table.get(name, area) for name, area in _written_areas(arch).items()}


def area_sources(arch: Architecture, tables: Tables) -> dict[str, str]:
    """Where the area of every component comes from, in words, by its name, outermost first; arguments as for `areas`.

    Levels that stand only for a fan-out have no entry.
    """
    in_table = {component_name(full_name): tables.area_source.get(full_name, IN_INPUT)
                for full_name in _read_areas(tables)}
    stated, fanouts = stated_areas(arch), {level.name for level in arch.levels if level.is_dummy}
    return {name: in_table.get(name, IN_ARCHITECTURE if name in stated else NO_AREA)
            for name in _written_areas(arch) if name not in fanouts}


def _read_areas(tables: Tables) -> dict[str, float]:
    """The ART, unless it stands in the input without an ERT."""
    return tables.art if tables.ert or tables.area_source else {}


def stated_areas(arch: Architecture) -> set[str]:
    """Names of the components whose area the architecture states."""
    return {name for name, area in _written_areas(arch).items() if area}


def _written_areas(arch: Architecture) -> dict[str, float]:
    """um^2 per instance that the architecture states, 0 where it does not, by component name, outermost first."""
    attributes = written_attributes(arch)

    def own(name: str, key: str) -> float:
        return written_number(attributes.get(name, {}), key) or 0.0

    written = {level.name: own(level.name, "cluster_area") / level.cluster_size for level in reversed(arch.levels)}
    return written | {arch.arithmetic.name: own(arch.arithmetic.name, "area")}


def total_areas(arch: Architecture, tables: Tables) -> dict[str, float]:
    """um^2 of all instances by component name, outermost first; arguments as for `areas`."""
    instances = {level.name: level.instances for level in arch.levels}
    instances[arch.arithmetic.name] = arch.arithmetic.instances
    return {name: area * instances[name] for name, area in areas(arch, tables).items()}
