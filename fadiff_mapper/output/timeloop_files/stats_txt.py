"""The statistics of one mapping as text, in the layout of `timeloop-model.stats.txt`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fadiff_mapper.base.version import __version__
from fadiff_mapper.model.exact.stats import Stats, network_energy
from fadiff_mapper.output.timeloop_files.interconnect_text import network_lines
from fadiff_mapper.output.timeloop_files.level_text import (
    arithmetic_lines,
    leakage_lines,
    level_lines,
    storage_accesses,
)
from fadiff_mapper.output.timeloop_files.printed_numbers import fixed, single, single_ratio, unsigned
from fadiff_mapper.spec.spec import Spec

LABEL = 40
"""Characters of a label of the operational intensity, as in Timeloop's text."""


def stats_txt(spec: Spec, stats: Stats) -> str:
    """The text that `timeloop-model` prints for this mapping, below a first line that names this program.

    As there, levels without accesses and energy and networks without energy are left out, and the summary's area is 0;
    the first line has it.
    Energies are in pJ (fJ per compute in the summary), areas in um^2, bandwidths in words per cycle.

    Args:
        spec: The input.
        stats: Statistics of the mapping.
    """
    lines = [f"# Written by fadiff_mapper {__version__}, in the layout of timeloop-model's statistics; all components "
             f"take {stats.area_mm2:.6g} mm^2, which Timeloop's summary leaves at 0"]
    lines += ["Buffer and Arithmetic Levels", "----------------------------", *_levels(spec, stats)]
    lines += ["Networks", "--------", *_networks(spec, stats)]
    lines += ["", *_operational_intensity(spec, stats), "", ""]
    lines += [*_summary(spec, stats), "", *_per_compute(stats), ""]
    return "\n".join(lines) + "\n"


def _levels(spec: Spec, stats: Stats) -> list[str]:
    """The arithmetic as level 0, and the storage levels that do anything."""
    arithmetic, storage = _paragraphs(stats)
    lines = []
    if stats.arithmetic["energy_pj"]:
        lines += ["Level 0", "-------", *arithmetic(spec, stats.arithmetic)]
    for index, level in enumerate(stats.levels):
        if storage_accesses(level) or level["energy_pj_total"]:
            lines += [f"Level {index + 1}", "-------", *storage(spec, index, stats)]
    return lines


def _paragraphs(stats: Stats) -> tuple[Callable[..., list[str]], Callable[..., list[str]]]:
    """The functions that write a paragraph on the arithmetic and on a storage level."""
    if not _is_sparse(stats):
        return arithmetic_lines, level_lines
    from fadiff_mapper.output.timeloop_files.sparse_level_text import sparse_arithmetic_lines, sparse_level_lines
    return sparse_arithmetic_lines, lambda spec, index, sparse: sparse_level_lines(
        spec, index, sparse, leakage_lines(spec, index, sparse))


def _networks(spec: Spec, stats: Stats) -> list[str]:
    """The interconnects that take energy."""
    lines = []
    for number, network in enumerate(network for network in stats.networks if network_energy(network)):
        lines += [f"Network {number}", "---------", *network_lines(spec, stats, network)]
    return lines


def _reductions(spec: Spec, stats: Stats) -> int:
    """Additions into outputs: all multiply-accumulates but the first of each output."""
    outputs = sum(_outermost_tile(stats, space.name) for space in spec.problem.dataspaces if space.read_write)
    return unsigned(stats.actual_computes - outputs)


def _operations(spec: Spec, stats: Stats) -> int:
    """Multiplications and additions."""
    return unsigned(stats.actual_computes + _reductions(spec, stats))


def _operational_intensity(spec: Spec, stats: Stats) -> list[str]:
    """Operations per byte read or written: at best, and at every level."""
    operations = _operations(spec, stats)
    required = sum(_outermost_tile(stats, name) for name in spec.problem.dataspace_names())
    lines = ["Operational Intensity Stats", "---------------------------"]
    lines += [_labelled("Total elementwise ops", stats.actual_computes),
              _labelled("Total reduction ops", _reductions(spec, stats)),
              _labelled("Total ops", operations), _labelled("Total memory accesses required", required),
              _labelled("Optimal Op per Byte", _ops_per_byte(operations, spec.arch.levels[-1].word_bits, required)), ""]
    for level, level_stats in zip(spec.arch.levels, stats.levels, strict=True):
        lines.append(f"=== {level.name} ===")
        accesses = storage_accesses(level_stats)
        if accesses:
            lines += [_labelled("Total scalar accesses", accesses),
                      _labelled("Op per Byte", _ops_per_byte(operations, level.word_bits, accesses))]
    return lines


def _outermost_tile(stats: Stats, name: str) -> int:
    """Words of the data space at the outermost level that keeps it."""
    tiles: list[int] = [level["dataspaces"][name]["utilized_capacity"]
                        for level in reversed(stats.levels) if name in level["dataspaces"]]
    return tiles[0]


def _ops_per_byte(operations: int, word_bits: int, words: int) -> str:
    return fixed(single_ratio(operations, word_bits * words // 8))


def _labelled(label: str, value: Any) -> str:
    return f"    {label:<{LABEL}}: {value}"


def _summary(spec: Spec, stats: Stats) -> list[str]:
    """The summary; Timeloop multiplies the EDP from cycles in single precision."""
    edp_j_cycle = single(stats.cycles) * stats.energy_pj / 1e12
    return ["Summary Stats", "-------------",
            f"GFLOPs (@1GHz): {fixed(single_ratio(_operations(spec, stats), stats.cycles))}",
            f"Utilization: {fixed(stats.utilization * 100)}%",
            f"Cycles: {stats.cycles}",
            f"Energy: {fixed(stats.energy_pj / 1e6)} uJ",
            f"EDP(J*cycle): {edp_j_cycle:.2e}",
            "Area: 0.00 mm^2"]


def _is_sparse(stats: Stats) -> bool:
    """Whether Timeloop prints its form for sparse designs."""
    if type(stats) is Stats:    # dense designs load nothing of sparse ones
        return False
    from fadiff_mapper.sparse.sparse_stats import SparseStats
    return isinstance(stats, SparseStats) and stats.sections


def _per_compute(stats: Stats) -> list[str]:
    """Energy per multiply-accumulate of every component that takes any, and in total.

    On a sparse design per algorithmic one, then per actual one.
    """
    lines = _per(stats, stats.actual_computes, "Actual Computes" if _is_sparse(stats) else "Computes", "fJ/Compute")
    if not _is_sparse(stats):
        return lines
    return [*_per(stats, stats.computes, "Algorithmic Computes", "fJ/Algorithmic-Compute"), "", *lines]


def _per(stats: Stats, computes: int, title: str, unit: str) -> list[str]:
    units = stats.component_energies()
    width = max(map(len, units)) + 1
    shown = [(name, energy) for name, energy in units.items() if energy] + [("Total", sum(units.values()))]
    return [f"{title} = {computes}", unit,
            *(f"    {name:<{width}}= {fixed(energy * 1000 / computes if computes else math.inf)}"
              for name, energy in shown)]
