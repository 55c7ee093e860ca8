"""Energies and areas where the input gives none, from figures that were recorded from Accelergy.

SRAM: a small neural network fitted to figures of CACTI. Register files and arithmetic: Aladdin's formulas with recorded
constants. DRAM: the energy per bit of its type, and no area. Every source names its figures and assumptions.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import is_array_api_obj

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.arrays import Array, array_namespace
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.native.arch import WrittenComponent, written_components
from fadiff_mapper.inputs.spec import tables
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.yaml.located import LARGEST, SMALLEST
from fadiff_mapper.inputs.yaml.place import Where

USUAL_TECHNOLOGY_NM = 45.0
USUAL_CYCLE_SECONDS = 1e-9
USUAL_DRAM = "LPDDR4"
USUAL_DRAM_BIT_PJ = 8.0
"""Defaults of attributes; the last two belong together. Accelergy assumes this DRAM, too."""
ALADDIN_NM = 45.0  # the technology of Aladdin's figures (40 nm counts as the same there)
TECHNOLOGY = re.compile(r"(\d+(?:\.\d+)?) *(?:nm)?", re.ASCII)
"""A technology as attributes write it: a number, with the unit or without."""
NO_CAPACITY = "none: a level without capacity"
NOTHING = {"read": 0.0, "write": 0.0, "update": 0.0, "leak": 0.0}  # energies of a level without capacity
REMEMBERED = 2 ** 16  # components whose figures are kept, a plain limit on memory (some 30 MB)

# The tables lie in `timeloop_specs/figures`; `validation/record_figures.py` records them.

Figures = dict[str, np.ndarray]  # columns of equal length by name, energies in pJ, areas in um^2


@cache
def figures(name: str) -> Figures:
    """A recorded table, "sram", "sram_held_out", "regfile", "intmac" or "fpmac", read once and not to be written to."""
    header, *rows = _rows(name)
    return {column: np.array(values, dtype=np.float64)
            for column, values in zip(header, zip(*rows, strict=True), strict=True)}


@cache
def dram_bit_energies() -> dict[str, float]:
    """pJ per bit by the type of a DRAM, such as "LPDDR4"."""
    return {dram_type: float(energy) for dram_type, energy in _rows("dram")[1:]}


def _rows(name: str) -> list[list[str]]:
    """Header and rows of a table, without the comments that name its origin."""
    text = (bundled_files.ROOT / "figures" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(line for line in text.splitlines() if not line.startswith("#")))


# A register file is one register, and an address comparator for every row, so that its width costs nothing; a
# multiply-accumulate is an adder, linear in the bits, and a multiplier, quadratic in them. Both reproduce the
# recorded figures to their digits. All figures are for 40 and 45 nm.

REGISTER_FILE = ("access_pj", "leak_pj", "area_um2")  # outputs of `register_file`, in order; leakage in 1 ns
ARITHMETIC = ("compute_pj", "area_um2")  # outputs of `arithmetic`, in order
SINGLE_BITS = 32  # bits up to which a floating-point unit is a share of one of single precision
FASTEST_NS, SLOWEST_NS, WHOLE_NS = 0.75, 10.0, 6
"""Aladdin has a figure for clocks up to the first, one above the second, and one per ns between, up to the third."""


def register_file(depth: Any, address_bits: Any) -> tuple[Any, ...]:
    """The figures that `REGISTER_FILE` names, of a register file of `depth` rows and addresses of so many bits."""
    table = figures("regfile")  # the shallowest register file has no comparator
    deepest = table["depth"][-1] * math.log2(table["depth"][-1])
    return tuple(float(table[name][0]) + float((table[name][-1] - table[name][0]) / deepest) * depth * address_bits
                 for name in REGISTER_FILE)


def arithmetic(unit_class: str, bits: Any, cycle_seconds: float) -> tuple[Any, ...]:
    """Energy and area of a multiply-accumulate unit.

    `unit_class` is "intmac" or "fpmac"; `bits` of an operand, exponent and mantissa together, may be an array of NumPy
    or torch. Returns `ARITHMETIC`, each of the shape of `bits`.
    """
    clock = clock_ns(cycle_seconds)
    integer = unit_class == "intmac"
    single, double = (_arithmetic_constants(unit_class, clock, wide and not integer) for wide in (False, True))
    if integer:
        return tuple(adder * bits + multiplier * bits * bits for adder, multiplier in single)
    where = array_namespace(bits).where
    return tuple(where(bits <= SINGLE_BITS, a * bits + m * bits * bits, da * bits + dm * bits * bits)
                 for (a, m), (da, dm) in zip(single, double, strict=True))


def clock_ns(cycle_seconds: float) -> float:
    """The clock period in ns, of those in the recorded tables, at which Aladdin prices a cycle time."""
    cycle = cycle_seconds * 1e9
    if cycle <= FASTEST_NS:
        return 0.5
    return 11.0 if cycle > SLOWEST_NS else float(min(WHOLE_NS, math.ceil(round(cycle, 6))))


@cache
def _arithmetic_constants(unit_class: str, clock: float, wide: bool) -> tuple[tuple[float, float], ...]:
    """For each figure of `ARITHMETIC`, (share of the adder per bit, of the multiplier per squared bit) at this clock.

    `wide`: whether to fit floating-point units of double precision.
    """
    table = figures(unit_class)
    rows = table["cycle_ns"] == clock
    if unit_class == "fpmac":
        rows &= (table["width_bits"] > SINGLE_BITS) == wide
    bits = table["width_bits"][rows]
    # Divided by the figures, so that the fit minimises relative errors.
    solutions = [np.linalg.lstsq(np.stack([bits, bits ** 2], axis=-1) / table[name][rows, None],
                                 np.ones_like(bits), rcond=None)[0] for name in ARITHMETIC]
    return tuple((float(adder), float(multiplier)) for adder, multiplier in solutions)


# FADiff (arXiv 2511.22348, section 2.1) models the energy per access of on-chip buffers as a small multi-layer
# perceptron of their capacity; here depth, width, technology, banks and ports are inputs, and leakage and area
# outputs as well. Every path from a `RISING` input to an output has positive weights, so that a larger memory never
# costs less: CACTI's own figures rise overall but jump locally, and a search must not exploit the jumps.
# `validation/train_sram_network.py` fits the network and records its errors.

INPUTS = ("depth", "width_bits", "technology_nm", "n_banks", "n_rw_ports")  # axis of the inputs, in order
RISING = ("depth", "width_bits", "n_rw_ports")  # inputs with which every output rises
OUTPUTS = ("read_pj", "write_pj", "leak_pj", "area_um2")  # axis of the outputs, in order; leakage per cycle of 1 ns
LEAST_ROWS = 64
LEAST_BITS = 32
"""The smallest bank about which Accelergy's plug-in asks CACTI; `asked` scales smaller banks as the plug-in does."""
DECODER = 0.3  # share of the access energy that does not fall with the width of a line
FEW_ROWS = 0.78  # exponent of the access energy in the rows of a bank, below `LEAST_ROWS`


@dataclass(frozen=True)
class SramRegressor:
    """A fully connected network plus a power law, from normalised binary logarithms to normalised binary logarithms."""

    shift: tuple[np.ndarray, np.ndarray]  # means that are taken off the logarithms, (inputs [5], outputs [4])
    scale: tuple[np.ndarray, np.ndarray]  # deviations by which they are divided, (inputs [5], outputs [4])
    skip: np.ndarray  # exponents of the power law on normalised logarithms, [4, 5]; they give slopes where tanh is flat
    layers: tuple[tuple[np.ndarray, np.ndarray], ...]  # (weights [out, in], bias [out]) of each layer; tanh between
    held_out: dict[str, tuple[float, float]]  # mean and worst relative error of each output on held-out figures
    worst: dict[str, float]  # largest relative error of each output on any figure
    least: tuple[float, ...]  # the smallest inputs that the fit has seen
    most: tuple[float, ...]  # the largest inputs that the fit has seen

    def estimate(self, memories: Any) -> Any:
        """`OUTPUTS` [..., 4], in pJ and um^2, of memories with `INPUTS` [..., 5], NumPy or torch; differentiable."""
        xp = array_namespace(memories)
        memories, share = asked(memories)

        def constant(values: np.ndarray) -> Any:
            return values if isinstance(memories, np.ndarray) else xp.asarray(values, dtype=memories.dtype)

        inputs = (xp.log2(memories) - constant(self.shift[0])) / constant(self.scale[0])
        values = inputs
        for index, (weights, bias) in enumerate(self.layers):
            values = values @ constant(weights.T) + constant(bias)
            values = values if index == len(self.layers) - 1 else xp.tanh(values)
        values = values + inputs @ constant(self.skip.T)
        return share * 2 ** (values * constant(self.scale[1]) + constant(self.shift[1]))


def asked(memories: Any) -> tuple[Any, Any]:
    """Prices banks too small for CACTI as shares of larger banks, as Accelergy's plug-in does.

    Takes `INPUTS` [..., 5], NumPy or torch. Returns the `INPUTS` of the memories about which CACTI is asked, [..., 5],
    and the share of each of their `OUTPUTS`, [..., 4]. Leakage and area are proportional to rows and bits.
    """
    xp = array_namespace(memories)
    depth, width, banks = memories[..., 0], memories[..., 1], memories[..., 3]
    rows, bits = xp.maximum(depth, LEAST_ROWS * banks), xp.maximum(width, LEAST_BITS + 0 * width)
    few, narrow = depth / rows, width / bits
    access, whole = ((1 - DECODER) * narrow + DECODER) * few ** FEW_ROWS, narrow * few
    larger = xp.stack([rows, bits, *(memories[..., i] for i in range(2, len(INPUTS)))], axis=-1)
    return larger, xp.stack([access, access, whole, whole], axis=-1)


@cache
def sram_regressor() -> SramRegressor:
    """The bundled network, read once."""
    return from_dict(json.loads((bundled_files.ROOT / "figures" / "sram_network.json").read_text(encoding="utf-8")))


def from_dict(content: dict[str, Any]) -> SramRegressor:
    """The network that the content of a file such as `figures/sram_network.json` describes."""
    def pair(key: str) -> tuple[np.ndarray, np.ndarray]:
        return np.array(content[key]["inputs"]), np.array(content[key]["outputs"])

    held_out, fit = content["held_out_error"], content["fit_error"]
    return SramRegressor(
        shift=pair("shift"), scale=pair("scale"), skip=np.array(content["skip"]),
        layers=tuple((np.array(layer["weights"]), np.array(layer["bias"])) for layer in content["layers"]),
        held_out={name: (held_out[name]["mean"], held_out[name]["worst"]) for name in OUTPUTS},
        worst={name: max(held_out[name]["worst"], fit[name]["worst"]) for name in OUTPUTS},
        least=tuple(content["least"]), most=tuple(content["most"]))


# Components. The smooth formulas are those of the estimate; where hardware rounds up, to whole bits of an address or
# to a power of two of banks, the smooth form does not. All of them rise with depth and width. They take numbers, arrays
# of NumPy and tensors of torch, through which gradients flow.

Attributes: TypeAlias = Mapping[str, Array]  # numbers count as arrays


@dataclass(frozen=True)
class ComponentFigures:
    """The figures of one component; each has the shape to which its attributes broadcast."""

    actions: dict[str, Array]  # pJ of "read", "write", "update", "leak" (a cycle) of a memory, "compute" of arithmetic
    area_um2: Array  # area in um^2


NEEDED = {"SRAM": ("depth", "width"), "regfile": ("depth",), "intmac": ("width",), "fpmac": ("width",),
          "DRAM": ("width",)}
"""The kinds of components with a formula, and their attributes that have no default."""


def smooth_figures(kind: str, attributes: Attributes, up: Callable[[Array], Array] = lambda value: value
                   ) -> ComponentFigures:
    """The figures of a component, differentiable in its attributes.

    Args:
        kind: One of `NEEDED`.
        attributes: By name, numbers or arrays that broadcast. SRAM: depth (rows), width (bits), n_banks (1),
            n_rw_ports (1), technology_nm (45), cycle_seconds (1e-9). regfile: depth, cycle_seconds. intmac and fpmac:
            width (bits; exponent and mantissa together), cycle_seconds (a number). DRAM: width (bits of an access),
            bit_pj (8). Others have no effect.
        up: Rounds bits of an address and logarithms of banks up; not by default.

    Returns:
        Energies in pJ and area in um^2.

    Raises:
        FadiffError: There is no formula for components of this kind, or an attribute is missing.
    """
    if kind not in NEEDED:
        raise FadiffError(f"found a component of kind {kind!r}; accepted: {listed(NEEDED)}")
    missing = [name for name in NEEDED[kind] if name not in attributes]
    if missing:
        raise FadiffError(f"a component of kind {kind} lacks {listed(missing)}; accepted: a positive number")
    cycle = attributes.get("cycle_seconds", USUAL_CYCLE_SECONDS)
    if kind in ("intmac", "fpmac"):
        bits, = _arrays(attributes["width"])
        compute, area = arithmetic(kind, bits, cycle)
        return ComponentFigures({"compute": compute}, area)
    if kind == "DRAM":  # off the chip: its area is 0, as in Accelergy
        read = write = attributes["width"] * attributes.get("bit_pj", USUAL_DRAM_BIT_PJ)
        return ComponentFigures({"read": read, "write": write, "update": write, "leak": 0 * read}, 0 * read)
    if kind == "SRAM":
        depth, width, technology, *counts = _arrays(
            attributes["depth"], attributes["width"], attributes.get("technology_nm", USUAL_TECHNOLOGY_NM),
            attributes.get("n_banks", 1.0), attributes.get("n_rw_ports", 1.0))
        xp = array_namespace(depth)
        inputs = [depth, width, technology, *(2 ** up(xp.log2(count)) for count in counts)]
        figures = sram_regressor().estimate(xp.stack(inputs, axis=-1))
        read, write, leak, area = (figures[..., i] for i in range(4))
    else:
        depth, = _arrays(attributes["depth"])
        read, leak, area = register_file(depth, up(array_namespace(depth).log2(depth)))
        write = read
    # Leakage is recorded for a clock cycle of 1 ns.
    return ComponentFigures({"read": read, "write": write, "update": write, "leak": leak * (cycle / 1e-9)}, area)


def _arrays(*values: Array) -> list[Array]:
    """The values as arrays of floats of one shape: tensors of torch where one of them is a tensor, else NumPy's."""
    def is_array(value: Array) -> bool:
        return bool(is_array_api_obj(value)) and not isinstance(value, np.generic)

    arrays = [value for value in values if is_array(value)]
    if not arrays:
        return [np.asarray(value, dtype=np.float64) for value in values]
    xp = array_namespace(arrays[0])
    dtype = next((array.dtype for array in arrays if xp.isdtype(array.dtype, "real floating")), xp.float64)
    return list(xp.broadcast_arrays(*(xp.astype(value, dtype) if is_array(value) else xp.asarray(value, dtype=dtype)
                                      for value in values)))


@dataclass(frozen=True)
class Primitive:
    """One component, or the memory that a cluster of instances shares."""

    kind: str  # one of `NEEDED`
    attributes: dict[str, float]  # as `smooth_figures` takes them for this kind
    energy_scale: float = 1.0  # factor on all its energies
    area_scale: float = 1.0  # factor on its area
    sharers: int = 1  # instances of the level that share the component
    assumed: bool = False  # whether the technology, or the type of a DRAM, is a default
    dram_type: str = ""  # type of a DRAM, else empty


def primitives(arch: Architecture) -> dict[str, Primitive]:
    """The components that have energies or an area, by name, outermost first.

    Levels without capacity that are no DRAM, such as levels that only add a fan-out, are left out.
    """
    written = written_components(arch.native)
    units: list[StorageLevel | Arithmetic] = [
        level for level in reversed(arch.levels) if level.is_dram or (level.size and not level.is_dummy)]
    return {unit.name: _primitive(unit, written[unit.name]) for unit in (*units, arch.arithmetic)}


def _primitive(unit: StorageLevel | Arithmetic, written: WrittenComponent) -> Primitive:
    attributes = written.attributes

    def positive(key: str, default: float, values: Mapping[str, Any] = attributes) -> float:
        """An attribute that is a positive number within the range of numbers that are read, else the default."""
        value = values.get(key)
        usable = isinstance(value, int | float) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST
        return float(value) if usable and value is not None else default

    scales: dict[str, Any] = {key: positive(key, 1.0, written.component) for key in ("energy_scale", "area_scale")}
    cycle = positive("global_cycle_seconds", USUAL_CYCLE_SECONDS)
    # `45nm`, `"45"` or 45; without a usable number, such as for -1, the usual one is assumed.
    match = TECHNOLOGY.fullmatch(str(attributes.get("technology", "")).strip())
    technology = float(match[1]) if match and SMALLEST <= float(match[1]) <= LARGEST else None
    shape = {"technology_nm": technology or USUAL_TECHNOLOGY_NM, "cycle_seconds": cycle}
    if isinstance(unit, Arithmetic):  # floating point where the class or an exponent says so, else integer
        exponent, mantissa = positive("exponent", 0.0), positive("mantissa", 0.0)
        floating = "fpmac" in unit.kind or exponent
        bits = exponent + mantissa or float(unit.word_bits) if floating else positive("width", float(unit.word_bits))
        return Primitive("fpmac" if floating else "intmac", {"width": bits} | shape, **scales, assumed=not technology)
    width = float(unit.word_bits * unit.block_size * unit.cluster_size)  # bits of an access of the whole memory
    if unit.is_dram:
        dram_type, per_bit = str(attributes.get("type", "")), dram_bit_energies()
        known = dram_type if dram_type in per_bit else USUAL_DRAM
        return Primitive("DRAM", {"width": width, "bit_pj": per_bit[known], "cycle_seconds": cycle}, **scales,
                         sharers=unit.cluster_size, assumed=known != dram_type, dram_type=known)
    assert unit.size
    shape = {"depth": float(-(-unit.size // unit.block_size)), "width": width} | shape  # depth in vector accesses
    if "regfile" not in unit.kind:
        shape |= {name: max(1.0, positive(name, 1.0)) for name in ("n_banks", "n_rw_ports")}
    return Primitive("regfile" if "regfile" in unit.kind else "SRAM", shape, **scales, sharers=unit.cluster_size,
                     assumed=not technology)


def estimated(arch: Architecture, given: tables.Tables) -> tables.Tables:
    """Completes the tables in the input with estimates.

    Adds an ERT row for every component that lacks an energy, and an ART row for every component whose area neither the
    tables nor the architecture state. Levels that only add a fan-out need no rows.
    """
    parts = primitives(arch)
    lacking = tables.unpriced(arch, given)
    unpriced = [name for name in (*reversed(arch.level_names()), arch.arithmetic.name) if name in lacking]
    known = {tables.component_name(name) for name in given.art} | {level.name for level in arch.levels if level.area}
    known |= {arch.arithmetic.name} if arch.arithmetic.area else set()
    unmeasured = [name for name in parts if name not in known]
    rows, art, sources = [], {}, {}

    def check(name: str, values: dict[str, float], unit: str, table: str, source: str) -> None:
        for what, value in values.items():
            if not value <= LARGEST:
                raise Where("architecture", path=name).error(
                    f'the estimate of "{what}" is {value:g} {unit} ({source})',
                    f"sizes and widths whose estimates are at most {LARGEST:g} {unit}, or an {table} that states it")

    for name in dict.fromkeys((*unpriced, *unmeasured)):
        part, row = parts.get(name), tables.full_name(arch, name)
        actions, area, source, area_source = NOTHING, 0.0, NO_CAPACITY, ""
        if part:
            per_action, whole_area = _figures(part.kind, tuple(part.attributes.items()))
            actions = {action: energy * part.energy_scale for action, energy in per_action}
            area = whole_area * part.area_scale / part.sharers
            source, area_source = _sources(part)
        if name in unpriced:
            check(row, actions, "pJ", "ERT", source)
            rows.append(tables.EnergyTable(row, actions, source))
        if name in unmeasured:
            art[row], sources[row] = area, area_source
            check(row, {"area": area}, "um^2", "ART", area_source)
    return replace(given, ert=(*given.ert, *rows), art=given.art | art, area_source=given.area_source | sources)


@lru_cache(maxsize=REMEMBERED)
def _figures(kind: str, attributes: tuple[tuple[str, float], ...]) -> tuple[tuple[tuple[str, float], ...], float]:
    """(pJ by action, um^2) of a component; cached, as many designs of a space share a component."""
    figures = smooth_figures(kind, dict(attributes), np.ceil)
    return tuple((action, float(energy)) for action, energy in figures.actions.items()), float(figures.area_um2)


def _sources(part: Primitive) -> tuple[str, str]:
    """Where the energies and the area of a component come from, and what is assumed."""
    attributes = part.attributes
    if part.kind == "DRAM":
        return (f"estimate: {attributes['bit_pj']:g} pJ per bit ({part.dram_type}{', assumed' * part.assumed})",
                "none: DRAM is another chip")
    technology = attributes["technology_nm"]
    if part.kind != "SRAM":
        component = ("register files" if part.kind == "regfile" else
                     f"{part.kind} of {attributes.get('width', SINGLE_BITS):g} bits")
        source = (f"estimate: figures of Aladdin for {component}, {ALADDIN_NM:g} nm"
                  + ("" if technology in (40.0, ALADDIN_NM) else f"; not scaled to {technology:g} nm"))
        return source, source
    network = sram_regressor()
    means, worst = zip(*((network.held_out[action][0], network.worst[action]) for action in ("read_pj", "write_pj")),
                       strict=True)
    memory = [attributes[name] for name in ("depth", "width", "technology_nm", "n_banks", "n_rw_ports")]
    covered = all(least <= value <= most
                  for least, value, most in zip(network.least, memory, network.most, strict=True))
    assumed = f"; {technology:g} nm assumed" * part.assumed + "; outside the range of these figures" * (not covered)
    return (f"estimate: network fitted to CACTI, {max(means):.0%} mean error on held-out figures, {max(worst):.0%} "
            f"worst on any{assumed}",
            f"estimate: network fitted to CACTI, {network.held_out['area_um2'][0]:.0%} mean error of areas on held-out "
            f"figures, {network.worst['area_um2']:.0%} worst on any{assumed}")
