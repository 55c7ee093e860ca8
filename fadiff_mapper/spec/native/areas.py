"""Area of every component, from the area reference table (ART) or as the architecture writes it."""

from __future__ import annotations

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.written_components import written_attributes, written_number
from fadiff_mapper.spec.tables import Tables, component_name


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
    attributes = written_attributes(arch)

    def own(name: str, key: str) -> float:
        return written_number(attributes.get(name, {}), key) or 0.0

    written = {level.name: own(level.name, "cluster_area") / level.cluster_size for level in reversed(arch.levels)}
    written[arch.arithmetic.name] = own(arch.arithmetic.name, "area")
    in_table = {component_name(full_name): area for full_name, area in tables.art.items()} if tables.ert else {}
    return {name: in_table.get(name, area) for name, area in written.items()}


def total_areas(arch: Architecture, tables: Tables) -> dict[str, float]:
    """um^2 of all instances by component name, outermost first; arguments as for `areas`."""
    instances = {level.name: level.instances for level in arch.levels}
    instances[arch.arithmetic.name] = arch.arithmetic.instances
    return {name: area * instances[name] for name, area in areas(arch, tables).items()}
