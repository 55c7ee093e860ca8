"""Area of every component, from the ART or as the architecture writes it."""

from __future__ import annotations

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.written_components import written_attributes, written_number
from fadiff_mapper.spec.tables import Tables, component_name


def areas(arch: Architecture, tables: Tables) -> dict[str, float]:
    """um^2 per instance by component name.

    The last entry of the ART counts; Timeloop reads an ART only together with an ERT. Without one the area of a
    storage level is its `cluster_area` over the cluster's size, that of the arithmetic its `area`; built in is 0.
    """
    written = written_attributes(arch)

    def own(name: str, key: str) -> float:
        return written_number(written.get(name, {}), key) or 0.0

    found = {level.name: own(level.name, "cluster_area") / level.cluster_size for level in reversed(arch.levels)}
    found[arch.arithmetic.name] = own(arch.arithmetic.name, "area")
    listed = {component_name(full_name): area for full_name, area in tables.art.items()} if tables.ert else {}
    return {name: listed.get(name, area) for name, area in found.items()}
