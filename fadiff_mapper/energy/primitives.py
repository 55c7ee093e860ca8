"""The components of an architecture as the primitive kinds for which there are formulas of energy and area."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.energy.recorded_figures import dram_bit_energies
from fadiff_mapper.energy.smooth_figures import USUAL_CYCLE_SECONDS, USUAL_TECHNOLOGY_NM
from fadiff_mapper.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.spec.native.written_components import WrittenComponent, written_components
from fadiff_mapper.yaml.located import LARGEST, SMALLEST

USUAL_DRAM = "LPDDR4"
"""Assumed where the architecture is silent, by Accelergy, too."""
TECHNOLOGY = re.compile(r"(\d+(?:\.\d+)?) *(?:nm)?", re.ASCII)
"""A technology as attributes write it: a number, with the unit or without."""


@dataclass(frozen=True)
class Primitive:
    """One component, or the memory that a cluster of instances shares.

    Attributes:
        kind: One of `smooth_figures.KINDS`.
        attributes: What `smooth_figures` takes for this kind.
        energy_scale: Factor on all its energies.
        area_scale: Factor on its area.
        sharers: Instances of the level that share the component.
        assumed: Attributes about which the architecture is silent, by name.
        dram_type: Type of a DRAM, else empty.
    """

    kind: str
    attributes: dict[str, float]
    energy_scale: float = 1.0
    area_scale: float = 1.0
    sharers: int = 1
    assumed: frozenset[str] = frozenset()
    dram_type: str = ""


def primitives(arch: Architecture) -> dict[str, Primitive]:
    """The components that have energies or an area, by name, outermost first.

    Args:
        arch: The architecture. Levels without capacity that are no DRAM, such as those that stand only for a fan-out,
            are left out.
    """
    written = written_components(arch)
    found = {level.name: _storage(level, written[level.name]) for level in reversed(arch.levels)
             if level.is_dram or (level.size and not level.is_dummy)}
    return found | {arch.arithmetic.name: _arithmetic(arch.arithmetic, written[arch.arithmetic.name])}


def _storage(level: StorageLevel, written: WrittenComponent) -> Primitive:
    attributes = written.attributes
    width = float(level.word_bits * level.block_size * level.cluster_size)  # bits of an access of the whole memory
    cycle = number(attributes, "global_cycle_seconds", USUAL_CYCLE_SECONDS)
    scales = _scales(written) | {"sharers": level.cluster_size}
    if level.is_dram:
        dram_type, per_bit = str(attributes.get("type", "")), dram_bit_energies()
        known = dram_type if dram_type in per_bit else USUAL_DRAM
        return Primitive("DRAM", {"width": width, "bit_pj": per_bit[known], "cycle_seconds": cycle}, **scales,
                         assumed=frozenset() if known == dram_type else frozenset({"type"}), dram_type=known)
    assert level.size
    depth = float(-(-level.size // level.block_size))  # vector accesses that the capacity holds
    technology = technology_nm(attributes)
    shape = {"depth": depth, "width": width, "technology_nm": technology or USUAL_TECHNOLOGY_NM,
             "cycle_seconds": cycle}
    if "regfile" not in level.kind:
        shape |= {name: max(1.0, number(attributes, name, 1.0)) for name in ("n_banks", "n_rw_ports")}
    return Primitive("regfile" if "regfile" in level.kind else "SRAM", shape, **scales,
                     assumed=frozenset() if technology else frozenset({"technology_nm"}))


def _arithmetic(unit: Arithmetic, written: WrittenComponent) -> Primitive:
    """Floating point where the class or an exponent says so, else integer."""
    attributes = written.attributes
    exponent, mantissa = (number(attributes, key, 0.0) for key in ("exponent", "mantissa"))
    if "fpmac" in unit.kind or exponent:
        kind, bits = "fpmac", exponent + mantissa or float(unit.word_bits)
    else:
        kind, bits = "intmac", number(attributes, "width", float(unit.word_bits))
    technology = technology_nm(attributes)
    return Primitive(kind, {"width": bits, "technology_nm": technology or USUAL_TECHNOLOGY_NM,
                            "cycle_seconds": number(attributes, "global_cycle_seconds", USUAL_CYCLE_SECONDS)},
                     **_scales(written), assumed=frozenset() if technology else frozenset({"technology_nm"}))


def _scales(written: WrittenComponent) -> dict[str, Any]:
    return {key: number(written.component, key, 1.0) for key in ("energy_scale", "area_scale")}


def technology_nm(attributes: Mapping[str, Any]) -> float | None:
    """The technology in nm, from `45nm`, `"45"` or 45; None without a usable number, such as for -1."""
    match = TECHNOLOGY.fullmatch(str(attributes.get("technology", "")).strip())
    return float(match[1]) if match and SMALLEST <= float(match[1]) <= LARGEST else None


def number(attributes: Mapping[str, Any], key: str, default: float) -> float:
    """An attribute that is a positive number within the range of numbers that are read, else the default."""
    value = attributes.get(key)
    usable = isinstance(value, int | float) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST
    return float(value) if usable and value is not None else default
