"""Energies where the input gives none, from figures that were recorded from Accelergy.

SRAM: a small neural network fitted to figures of CACTI. Register files and arithmetic: interpolated figures of
Aladdin. DRAM: the energy per bit of its type. The source of every estimate names its figures and its assumptions.
The figures lie in `timeloop_specs/figures`; `validation/record_figures.py` records them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from fadiff_mapper.energy.recorded_figures import between, dram_bit_energies, figures
from fadiff_mapper.energy.sram_regressor import SramRegressor, sram_regressor
from fadiff_mapper.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.spec.native.written_components import WrittenComponent, written_components
from fadiff_mapper.spec.tables import EnergyTable, Tables, compute_energy, full_name, storage_energy
from fadiff_mapper.yaml.located import LARGEST, SMALLEST, Where

USUAL_DRAM = "LPDDR4"
USUAL_TECHNOLOGY_NM = 45.0
USUAL_CYCLE_SECONDS = 1e-9
"""Assumed where the architecture is silent; type and cycle are assumed by Accelergy and Timeloop, too."""

ALADDIN_NM = 45.0
"""The technology of Aladdin's figures (40 nm counts as the same there)."""
TECHNOLOGY = re.compile(r"(\d+(?:\.\d+)?) *(?:nm)?", re.ASCII)
"""A technology as attributes write it: a number, with the unit or without."""


def estimated(arch: Architecture, given: Tables) -> Tables:
    """Completes tables with estimates.

    Args:
        arch: The architecture.
        given: The tables in the input.

    Returns:
        The tables with a row for every component that they do not price completely. Levels that stand only for a
        fan-out, and components whose energy the architecture states, need none.
    """
    written = written_components(arch)
    regressor = sram_regressor()
    rows = [_storage_row(full_name(arch, level.name), level, written[level.name], regressor)
            for level in reversed(arch.levels) if not level.is_dummy and storage_energy(level, given).built_in]
    if compute_energy(arch.arithmetic, given)[1]:
        mac = arch.arithmetic
        rows.append(_arithmetic_row(full_name(arch, mac.name), mac, written[mac.name]))
    return replace(given, ert=(*given.ert, *rows))


def _storage_row(name: str, level: StorageLevel, written: WrittenComponent, regressor: SramRegressor) -> EnergyTable:
    """The estimated energies of a storage level in pJ; leakage per cycle."""
    if level.is_dram:
        read, write, leak, source = _dram(level, written.attributes)
    elif not level.size:
        read, write, leak, source = 0.0, 0.0, 0.0, "none: a level without capacity"
    elif "regfile" in level.kind:
        read, write, leak, source = _register_file(level, written.attributes)
    else:
        read, write, leak, source = _sram(level, written.attributes, regressor)
    scale = _number(written.component, "energy_scale", 1.0)
    actions = {"read": read, "write": write, "update": write,
               "leak": leak * _number(written.attributes, "global_cycle_seconds", USUAL_CYCLE_SECONDS) / 1e-9}
    return _row(name, {action: energy * scale for action, energy in actions.items()}, source)


Estimate = tuple[float, float, float, str]
"""pJ per read, pJ per write, pJ of leakage in 1 ns, and the source in words."""


def _dram(level: StorageLevel, attributes: Mapping[str, Any]) -> Estimate:
    dram_type = str(attributes.get("type", ""))
    per_bit = dram_bit_energies()
    known = dram_type if dram_type in per_bit else USUAL_DRAM
    energy = per_bit[known] * _width(level)
    assumed = "" if dram_type == known else ", assumed"
    return energy, energy, 0.0, f"estimate: {per_bit[known]:g} pJ per bit ({known}{assumed})"


def _register_file(level: StorageLevel, attributes: Mapping[str, Any]) -> Estimate:
    table, depth = figures("regfile"), _depth(level)
    energy, leak = between(table, "depth", depth, "access_pj"), between(table, "depth", depth, "leak_pj")
    return energy, energy, leak, _aladdin("register files", attributes)


def _sram(level: StorageLevel, attributes: Mapping[str, Any], regressor: SramRegressor) -> Estimate:
    """Energies of the memory of a cluster by the regressor; banks are rounded up to a power of two."""
    technology = _technology(attributes)
    banks = 2 ** math.ceil(math.log2(max(1.0, _number(attributes, "n_banks", 1.0))))
    memory = np.array([_depth(level) * _width(level), _width(level), technology or USUAL_TECHNOLOGY_NM, banks],
                      dtype=np.float64)
    read, write, leak = regressor.energies(memory)
    source = (f"estimate: network fitted to CACTI, {regressor.mean_error:.0%} mean error on held-out figures, "
              f"{regressor.worst_error:.0%} worst on any")
    if technology is None:
        source += f"; {USUAL_TECHNOLOGY_NM:g} nm assumed"
    if not regressor.covers(memory):
        source += "; outside the range of these figures"
    return float(read), float(write), float(leak), source


def _arithmetic_row(name: str, unit: Arithmetic, written: WrittenComponent) -> EnergyTable:
    """One multiply-accumulate: floating point where the class or an exponent says so, else integer."""
    attributes = written.attributes
    exponent, mantissa = (_number(attributes, key, 0.0) for key in ("exponent", "mantissa"))
    if "fpmac" in unit.kind or exponent:
        unit_class, bits = "fpmac", exponent + mantissa or float(unit.word_bits)
    else:
        unit_class, bits = "intmac", _number(attributes, "width", float(unit.word_bits))
    energy = between(figures(unit_class), "width_bits", bits, "compute_pj")
    energy *= _number(written.component, "energy_scale", 1.0)
    return _row(name, {"compute": energy}, _aladdin(f"{unit_class} of {bits:g} bits", attributes))


def _row(name: str, actions: dict[str, float], source: str) -> EnergyTable:
    """A row of estimates.

    Raises:
        SpecError: An energy is beyond the range of numbers that are read: the figures were continued too far.
    """
    for action, energy in actions.items():
        if not energy <= LARGEST:
            raise Where("architecture", path=name).error(
                f'the estimate of "{action}" is {energy:g} pJ ({source})',
                f"sizes and widths whose estimates are at most {LARGEST:g} pJ, or an ERT that states the energy")
    return EnergyTable(name, actions, source)


def _aladdin(component: str, attributes: Mapping[str, Any]) -> str:
    """The source of an estimate from Aladdin's figures, which are not scaled to another technology."""
    technology = _technology(attributes)
    other = technology not in (None, 40.0, ALADDIN_NM)
    return (f"estimate: figures of Aladdin for {component}, {ALADDIN_NM:g} nm"
            + (f"; not scaled to {technology:g} nm" if other else ""))


def _width(level: StorageLevel) -> int:
    """Bits of one access of the memory that a cluster of instances shares."""
    return level.word_bits * level.block_size * level.cluster_size


def _depth(level: StorageLevel) -> int:
    """Rows of the memory: vector accesses that its capacity holds."""
    assert level.size
    return -(-level.size // level.block_size)


def _technology(attributes: Mapping[str, Any]) -> float | None:
    """The technology in nm, from `45nm`, `"45"` or 45; None without a usable number, such as for -1."""
    match = TECHNOLOGY.fullmatch(str(attributes.get("technology", "")).strip())
    return float(match[1]) if match and SMALLEST <= float(match[1]) <= LARGEST else None


def _number(attributes: Mapping[str, Any], key: str, default: float) -> float:
    """An attribute that is a positive number within the range of numbers that are read, else the default."""
    value = attributes.get(key)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST
    return float(value) if usable and value is not None else default
