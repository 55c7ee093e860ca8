"""Energies and areas where the input gives none, from figures that were recorded from Accelergy.

SRAM: a small neural network fitted to figures of CACTI. Register files and arithmetic: Aladdin's formulas with
recorded constants. DRAM: the energy per bit of its type, and no area. The source of every estimate names its figures
and its assumptions.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from fadiff_mapper.energy.aladdin_formulas import SINGLE_BITS
from fadiff_mapper.energy.primitives import Primitive, primitives
from fadiff_mapper.energy.smooth_figures import Array, component_figures
from fadiff_mapper.energy.sram_regressor import sram_regressor
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.areas import stated_areas
from fadiff_mapper.spec.tables import (
    EnergyTable,
    Tables,
    component_name,
    compute_energy,
    full_name,
    storage_energy,
)
from fadiff_mapper.yaml.located import LARGEST
from fadiff_mapper.yaml.place import Where

ALADDIN_NM = 45.0
"""The technology of Aladdin's figures (40 nm counts as the same there)."""
NO_CAPACITY = "none: a level without capacity"
MEMORY = ("depth", "width", "technology_nm", "n_banks", "n_rw_ports")
"""Attributes of an SRAM in the order of the network's inputs."""
NOTHING = {"read": 0.0, "write": 0.0, "update": 0.0, "leak": 0.0}
"""Energies of a level without capacity."""
REMEMBERED = 2 ** 16
"""Components whose figures are kept, a plain limit on memory (some 30 MB)."""


def estimated(arch: Architecture, given: Tables) -> Tables:
    """Completes tables with estimates.

    Args:
        arch: The architecture.
        given: The tables in the input.

    Returns:
        The tables with an ERT row for every component that they do not price completely, and an ART row for every one
        whose area neither they nor the architecture state. Levels that stand only for a fan-out need none.
    """
    parts = primitives(arch)
    unpriced = [level.name for level in reversed(arch.levels)
                if not level.is_dummy and storage_energy(level, given).built_in]
    unpriced += [arch.arithmetic.name] if compute_energy(arch.arithmetic, given)[1] else []
    known = {component_name(name) for name in given.art} | stated_areas(arch)
    unmeasured = [name for name in parts if name not in known]
    rows, art, sources = [], {}, {}
    for name in dict.fromkeys((*unpriced, *unmeasured)):
        part, row = parts.get(name), full_name(arch, name)
        actions, area = _prices(part) if part else (NOTHING, 0.0)
        if name in unpriced:
            source = energy_source(part) if part else NO_CAPACITY
            _check(row, actions, "pJ", source)
            rows.append(EnergyTable(row, actions, source))
        if name in unmeasured and part:
            art[row], sources[row] = area, area_source(part)
            _check(row, {"area": area}, "um^2", sources[row])
    return replace(given, ert=(*given.ert, *rows), art=given.art | art, area_source=given.area_source | sources)


def _prices(part: Primitive) -> tuple[dict[str, float], float]:
    """pJ by action, leakage per cycle, and the area of one instance in um^2."""
    actions, area = _figures(part.kind, tuple(part.attributes.items()))
    return ({action: energy * part.energy_scale for action, energy in actions},
            area * part.area_scale / part.sharers)


@lru_cache(maxsize=REMEMBERED)
def _figures(kind: str, attributes: tuple[tuple[str, float], ...]) -> tuple[tuple[tuple[str, float], ...], float]:
    """(pJ by action, um^2) of a component: most of those of a design space are the same in many of its designs."""
    figures = component_figures(kind, dict(attributes), _whole)
    return tuple((action, float(energy)) for action, energy in figures.actions.items()), float(figures.area_um2)


def _whole(value: Array) -> Array:
    return np.ceil(value)


def energy_source(part: Primitive) -> str:
    """The source of an estimated energy in words."""
    if part.kind == "DRAM":
        assumed = ", assumed" if part.assumed else ""
        return f"estimate: {part.attributes['bit_pj']:g} pJ per bit ({part.dram_type}{assumed})"
    if part.kind != "SRAM":
        return _aladdin(part)
    network = sram_regressor()
    mean, worst = (max(errors) for errors in zip(
        *((network.held_out[action][0], network.worst[action]) for action in ("read_pj", "write_pj")), strict=True))
    return f"estimate: network fitted to CACTI, {mean:.0%} mean error on held-out figures, {worst:.0%} worst on any" \
        + _assumptions(part)


def area_source(part: Primitive) -> str:
    """The source of an estimated area in words."""
    if part.kind == "DRAM":
        return "none: DRAM is another chip"
    if part.kind != "SRAM":
        return _aladdin(part)
    network = sram_regressor()
    return (f"estimate: network fitted to CACTI, {network.held_out['area_um2'][0]:.0%} mean error of areas on held-out "
            f"figures, {network.worst['area_um2']:.0%} worst on any") + _assumptions(part)


def _assumptions(part: Primitive) -> str:
    """Assumptions behind the figures of an SRAM, and whether they cover it."""
    attributes = part.attributes
    memory = [attributes[name] for name in MEMORY]
    return ((f"; {attributes['technology_nm']:g} nm assumed" if "technology_nm" in part.assumed else "")
            + ("" if sram_regressor().covers(memory) else "; outside the range of these figures"))


def _aladdin(part: Primitive) -> str:
    """The source of an estimate from Aladdin's figures, which are not scaled to another technology."""
    bits, technology = part.attributes.get("width", SINGLE_BITS), part.attributes["technology_nm"]
    component = "register files" if part.kind == "regfile" else f"{part.kind} of {bits:g} bits"
    return (f"estimate: figures of Aladdin for {component}, {ALADDIN_NM:g} nm"
            + ("" if technology in (40.0, ALADDIN_NM) else f"; not scaled to {technology:g} nm"))


def _check(name: str, values: dict[str, float], unit: str, source: str) -> None:
    """Raises SpecError where an estimate is beyond the range of numbers that are read: continued too far."""
    for what, value in values.items():
        if not value <= LARGEST:
            table = "ART" if unit == "um^2" else "ERT"
            raise Where("architecture", path=name).error(
                f'the estimate of "{what}" is {value:g} {unit} ({source})',
                f"sizes and widths whose estimates are at most {LARGEST:g} {unit}, or an {table} that states it")
