"""The evaluation of one mapping on a sparse design, from its dense evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from itertools import compress

import numpy as np

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.model.energy_latency import slowdown
from fadiff_mapper.model.exact.evaluate import Evaluation
from fadiff_mapper.model.legality import NOWHERE
from fadiff_mapper.model.sparse.accesses import (
    Computes,
    DenseCounts,
    Operand,
    Pair,
    TileAccesses,
    saved_accesses,
    saved_computes,
)
from fadiff_mapper.model.sparse.costs import StoredSpace, TileCost, check_arithmetic, check_level, tile_cost
from fadiff_mapper.model.sparse.design import SparseDesign, millionths
from fadiff_mapper.model.sparse.formats import StoredMapping, stored_mapping
from fadiff_mapper.model.sparse.instances import InstanceUse, instance_use
from fadiff_mapper.model.sparse.savings import Saving, read_savings


@dataclass(frozen=True)
class LevelUse:
    """One storage level.

    Attributes:
        cycles: Cycles that it needs.
        slowdown: Share of the asked bandwidth that it can give.
        instances: Largest average number of instances in use, at least 1.
        leakage: pJ.
        energy: pJ, all instances together, with leakage.
        tiles: Cost of each data space that the level keeps, by index.
    """

    cycles: int
    slowdown: float
    instances: float
    leakage: float
    energy: float
    tiles: dict[int, TileCost]


@dataclass(frozen=True)
class SparseEvaluation:
    """All numbers of one mapping.

    Attributes:
        mapping: The mapping with its tiles and occupancies.
        counts: Dense counts by data space and level.
        accesses: Accesses by data space and level.
        computes: Computes.
        compute_energy: pJ of the arithmetic.
        compute_cycles: Cycles of the arithmetic.
        use: Instances in use.
        levels: Storage levels, innermost first.
        cycles: Cycles of the whole run.
        energy: pJ, interconnects included.
        savings: Savings by (level, data space).
    """

    mapping: StoredMapping
    counts: tuple[dict[int, DenseCounts], ...]
    accesses: tuple[dict[int, TileAccesses], ...]
    computes: Computes
    compute_energy: float
    compute_cycles: int
    use: InstanceUse
    levels: tuple[LevelUse, ...]
    cycles: int
    energy: float
    savings: AnyMapping[tuple[int, int], Saving]


def evaluate_sparse(design: SparseDesign, dense: Evaluation, row: int, mapping: Mapping) -> SparseEvaluation:
    """Evaluates one mapping.

    Args:
        design: The layer on its design.
        dense: A dense evaluation of a batch with the mapping.
        row: Its column in the batch.
        mapping: The mapping itself.

    Raises:
        InvalidMapping: Timeloop would reject the mapping.
        FadiffError: Timeloop aborts on it, or its numbers are undefined.
    """
    arch, problem = design.layer.arch, design.layer.problem
    names = problem.dataspace_names()
    mapping = Mapping(tuple(replace(level, keep=frozenset(compress(names, dense.held[index, :, row])))
                            for index, level in enumerate(mapping.levels)))
    if any(all(name not in level.keep for level in mapping.levels) for name in names):
        raise InvalidMapping(arch.arithmetic.name, NOWHERE)
    untouched = [check for check in dense.checks if check.constraint == "untouched" and check.broken[row]]
    if untouched:
        raise InvalidMapping(untouched[0].level, untouched[0].reason(row))
    stored = stored_mapping(design, mapping)
    savings = read_savings(stored) if design.sparse.applied else {}
    use = instance_use(stored, tuple((int(x), int(y)) for x, y in zip(
        dense.use.expansion_x[:, row], dense.use.expansion_y[:, row], strict=True)))
    counts, accesses, shares = [], [], []
    for t, space in enumerate(problem.dataspaces):
        column, occupancies = stored.columns[t], stored.occupancies[t]
        counts.append(_dense_counts(dense, row, t, stored))
        done, share = saved_accesses(
            counts[t], column, {level: occupancies[level].density for level, tile in column.items() if tile.ranks},
            {level: saving for (level, target), saving in savings.items() if target == t},
            {level: skipped for (level, target), skipped in use.skipped.items() if target == t},
            written=space.read_write)
        accesses.append(done)
        shares.append(share)
    computes = Computes(problem.computes, problem.computes, 0, 0)
    if design.sparse.applied:
        operands = [Operand(millionths(design.word_densities[t]), bool(stored.columns[t][min(stored.columns[t])].ranks),
                            shares[t]) for t, space in enumerate(problem.dataspaces) if not space.read_write]
        computes = saved_computes(problem.computes, operands, gates=design.sparse.gates_computes,
                                  skips=design.sparse.skips_computes)
    check_arithmetic(arch.arithmetic, use.arithmetic)
    units = int(use.arithmetic.average)  # Timeloop counts whole units here
    if not units:
        raise FadiffError("Timeloop divides by 0 on this mapping: spatial skipping leaves no arithmetic unit")
    cycles = math.ceil((computes.actual + computes.gated) / units)
    levels = _levels(stored, accesses, use, cycles)
    prices = design.compute_energies
    compute_energy = (computes.actual * prices.actual + computes.skipped * prices.skipped
                      + computes.gated * prices.gated)
    energy = sum((level.energy for level in levels), compute_energy)
    energy += float(dense.network.total[row]) if dense.network is not None else 0.0
    total = max(cycles, *(level.cycles for level in levels)) + design.layer.machine.network_latency
    return SparseEvaluation(stored, tuple(counts), tuple(accesses), computes, compute_energy, cycles, use, levels,
                            int(total), energy, savings)


def _dense_counts(dense: Evaluation, row: int, dataspace: int, stored: StoredMapping) -> dict[int, DenseCounts]:
    """The dense counts of one data space, and the metadata that they touch without savings."""
    counts = {}
    for level, tile in stored.columns[dataspace].items():
        reads, fills, updates = (int(array[level, dataspace, row]) for array in (
            dense.counts.reads, dense.counts.fills, dense.counts.updates))
        formats: list[tuple[Pair, ...]] = [
            tuple((math.ceil(metadata * (count / tile.words)), math.ceil(payload * (count / tile.words)))
                  for metadata, payload in stored.occupancies[dataspace][level].metadata)
            for count in (reads, fills, updates)]
        reductions = reads if stored.spaces[dataspace].read_write else 0
        counts[level] = DenseCounts(reads, fills, updates, reductions, *formats)
    return counts


def _levels(stored: StoredMapping, accesses: list[dict[int, TileAccesses]], use: InstanceUse,
            compute_cycles: int) -> tuple[LevelUse, ...]:
    """Cycles and energy of all levels; the innermost one that the mapping does not fit is rejected."""
    design, levels = stored.design, stored.design.layer.arch.levels
    machine, models = design.layer.machine, design.models or (None,) * len(stored.spaces)
    tiles: list[dict[int, TileCost]] = []
    for number, level in enumerate(levels):
        spaces = {t: StoredSpace(level, column[number], stored.occupancies[t][number], models[t], accesses[t][number],
                                 use.levels[number][t], stored.spaces[t].read_write)
                  for t, column in enumerate(stored.columns) if number in column}
        check_level(level, list(spaces.values()), use.levels[number])
        tiles.append({t: tile_cost(one, design.energies[number], compute_cycles,
                                   level.bandwidth_scale.get(stored.spaces[t].name, 1.0)) for t, one in spaces.items()})
    read, write = (np.array([[sum(getattr(tile, way) for tile in own.values())] for own in tiles], dtype=np.float64)
                   for way in ("read", "write"))
    slow = slowdown(read, write, machine)[:, 0].tolist()
    cycles = [math.ceil(compute_cycles / share) for share in slow]
    busy = max(compute_cycles, *cycles)
    leaking = [max(1.0, *(instances.average for instances in units)) for units in use.levels]
    result = []
    for number, level in enumerate(levels):
        behind = float(machine.gated[number, 0])
        leakage = design.energies[number].leak * busy * (
            behind * leaking[machine.gate[number]] if behind > 1 else leaking[number])
        energy = 0.0  # added up as in Timeloop, data space by data space: the order decides how a half is printed
        for t in range(len(stored.spaces)):
            own = 0.0
            if t in tiles[number]:
                tile = tiles[number][t]
                address = tile.addresses * level.addr_gen_energy
                own = tile.energy * use.levels[number][t].average + address * tile.clusters
            energy += own + leakage / len(stored.spaces)
        result.append(LevelUse(cycles[number], slow[number], leaking[number], leakage, energy, tiles[number]))
    return tuple(result)
