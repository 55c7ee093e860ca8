"""Energy per action, leakage and area of one component as functions of its attributes, smooth in all of them.

The formulas are those of the estimate (`estimated_tables`); where hardware rounds up, to whole bits of an address or
to a power of two of banks, the smooth form does not. All of them rise with depth and width. They take numbers, arrays
of NumPy and tensors of torch, through which gradients flow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.energy.aladdin_formulas import arithmetic, register_file
from fadiff_mapper.energy.sram_regressor import INPUTS, sram_regressor

Array: TypeAlias = Any
"""A number, or an array of NumPy or torch."""
Attributes: TypeAlias = Mapping[str, Array]
Rounding: TypeAlias = Callable[[Array], Array]

USUAL_TECHNOLOGY_NM = 45.0
USUAL_CYCLE_SECONDS = 1e-9
USUAL_DRAM_BIT_PJ = 8.0
"""Taken where attributes are silent; the last one is that of LPDDR4."""


@dataclass(frozen=True)
class ComponentFigures:
    """The figures of one component; each has the shape to which its attributes broadcast.

    Attributes:
        actions: pJ by action: "read", "write", "update" and "leak" (per cycle) of a memory, "compute" of arithmetic.
        area_um2: Area in um^2.
    """

    actions: dict[str, Array]
    area_um2: Array


def smooth_figures(kind: str, attributes: Attributes) -> ComponentFigures:
    """The figures of a component, differentiable in its attributes.

    Args:
        kind: One of `KINDS`.
        attributes: By name, numbers or arrays that broadcast. SRAM: depth (rows), width (bits), n_banks (1),
            n_rw_ports (1), technology_nm (45), cycle_seconds (1e-9). regfile: depth, cycle_seconds. intmac and fpmac:
            width (bits; exponent and mantissa together), cycle_seconds (a number). DRAM: width (bits of an access),
            bit_pj (8). Others have no effect.

    Returns:
        Energies in pJ and area in um^2.

    Raises:
        FadiffError: There is no formula for components of this kind, or an attribute is missing.
    """
    return component_figures(kind, attributes, _same)


def component_figures(kind: str, attributes: Attributes, up: Rounding) -> ComponentFigures:
    """As `smooth_figures`; `up` rounds bits of an address and logarithms of banks up, or leaves them as they are."""
    if kind not in KINDS:
        raise FadiffError(f"found a component of kind {kind!r}; accepted: {listed(KINDS)}")
    needed = [name for name in ("depth", "width") if name in NEEDED[kind] and name not in attributes]
    if needed:
        raise FadiffError(f"a component of kind {kind} lacks {listed(needed)}; accepted: a positive number")
    return KINDS[kind](attributes, up)


def _same(value: Array) -> Array:
    return value


def _sram(attributes: Attributes, up: Rounding) -> ComponentFigures:
    depth, width, technology, banks, ports = _arrays(
        attributes["depth"], attributes["width"], attributes.get("technology_nm", USUAL_TECHNOLOGY_NM),
        attributes.get("n_banks", 1.0), attributes.get("n_rw_ports", 1.0))
    xp = array_namespace(depth)
    inputs = dict(zip(INPUTS, (depth, width, technology, *(2 ** up(xp.log2(count)) for count in (banks, ports))),
                      strict=True))
    figures = sram_regressor().estimate(xp.stack(list(inputs.values()), axis=-1))
    read, write, leak, area = (figures[..., i] for i in range(4))
    return _memory(read, write, leak * _cycles(attributes), area)


def _register_file(attributes: Attributes, up: Rounding) -> ComponentFigures:
    depth, = _arrays(attributes["depth"])
    access, leak, area = register_file(depth, up(array_namespace(depth).log2(depth)))
    return _memory(access, access, leak * _cycles(attributes), area)


def _dram(attributes: Attributes, up: Rounding) -> ComponentFigures:
    """DRAM is on no chip of the design: its area is 0, as Accelergy has it."""
    energy = attributes["width"] * attributes.get("bit_pj", USUAL_DRAM_BIT_PJ)
    return _memory(energy, energy, 0 * energy, 0 * energy)


def _unit(unit_class: str) -> Callable[[Attributes, Rounding], ComponentFigures]:
    def figures(attributes: Attributes, up: Rounding) -> ComponentFigures:
        bits, = _arrays(attributes["width"])
        compute, area = arithmetic(unit_class, bits, attributes.get("cycle_seconds", USUAL_CYCLE_SECONDS))
        return ComponentFigures({"compute": compute}, area)
    return figures


KINDS: dict[str, Callable[[Attributes, Rounding], ComponentFigures]] = {
    "SRAM": _sram, "regfile": _register_file, "intmac": _unit("intmac"), "fpmac": _unit("fpmac"), "DRAM": _dram}
"""The formula of each kind of component."""
NEEDED = {"SRAM": ("depth", "width"), "regfile": ("depth",), "intmac": ("width",), "fpmac": ("width",),
          "DRAM": ("width",)}
"""Attributes that have no default."""


def _memory(read: Array, write: Array, leak: Array, area: Array) -> ComponentFigures:
    return ComponentFigures({"read": read, "write": write, "update": write, "leak": leak}, area)


def _cycles(attributes: Attributes) -> Array:
    """The clock cycle in ns: leakage is recorded for 1 ns."""
    return attributes.get("cycle_seconds", USUAL_CYCLE_SECONDS) / 1e-9


def _arrays(*values: Array) -> list[Array]:
    """The values as arrays of floats of one namespace and shape: torch's where one of them is a tensor."""
    arrays = [value for value in values if is_array_api_obj(value) and not isinstance(value, np.generic)]
    if not arrays:
        return [np.asarray(value, dtype=np.float64) for value in values]
    xp = array_namespace(*arrays)
    dtype = next((array.dtype for array in arrays if xp.isdtype(array.dtype, "real floating")), xp.float64)
    return list(xp.broadcast_arrays(*(xp.astype(value, dtype) if is_array_api_obj(value)
                                      and not isinstance(value, np.generic) else xp.asarray(value, dtype=dtype)
                                      for value in values)))
