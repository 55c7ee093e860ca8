"""The evaluation of one mapping on a sparse design, from its dense evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.exact.evaluate import Evaluation
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.sparse.action_energies import ComputeEnergies, StorageEnergies, compute_energies, storage_energies
from fadiff_mapper.sparse.compiled_design import compiled_design
from fadiff_mapper.sparse.complete_nest import complete_nest, unit_box
from fadiff_mapper.sparse.density_models import DensityModel, check_model, density_model
from fadiff_mapper.sparse.format_analysis import check_formats, stored_columns
from fadiff_mapper.sparse.instances import Dense, InstanceUse, instance_use, temporal_use
from fadiff_mapper.sparse.level_cost import Stored, TileCost, slowdown, tile_cost
from fadiff_mapper.sparse.read_savings import Saving, read_savings
from fadiff_mapper.sparse.saved_accesses import ColumnSavings, DenseCounts, Pair, TileAccesses, saved_accesses
from fadiff_mapper.sparse.saved_computes import Computes, Operand, millionths, saved_computes
from fadiff_mapper.sparse.sparse_layer import SparseLayer
from fadiff_mapper.sparse.sparse_legality import check_arithmetic, check_level
from fadiff_mapper.sparse.tile_occupancy import dense_occupancy, expected_occupancy
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.sparse_optimizations import LevelOptimizations, SparseOptimizations
from fadiff_mapper.spec.tables import Tables


@dataclass(frozen=True)
class SparseDesign:
    """A layer on a sparse design with everything that is the same for all its mappings.

    Attributes:
        layer: The layer, prepared for dense evaluation.
        sparse: The hardware's treatment of zeros; empty where the input has no such section.
        models: Density of every data space.
        energies: pJ of the actions of every level.
        compute_energies: pJ of a compute.
    """

    layer: PreparedLayer
    sparse: SparseOptimizations
    models: tuple[DensityModel, ...]
    energies: tuple[StorageEnergies, ...]
    compute_energies: ComputeEnergies

    @cached_property
    def compiled(self) -> _kernel.SparseTables | None:
        """The same constants for the compiled kernel, made once; None where it does not model the design."""
        return compiled_design(self.layer, self.sparse, self.models, self.energies, self.compute_energies)


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

    mapping: SparseLayer
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


def no_optimizations(levels: int) -> SparseOptimizations:
    """The optimizations of an input without such a section."""
    return SparseOptimizations((LevelOptimizations(),) * levels, applied=False)


def prepare_sparse(layer: PreparedLayer, sparse: SparseOptimizations | None, tables: Tables) -> SparseDesign:
    """The part of a sparse evaluation that all mappings of a layer share.

    Args:
        layer: The layer, prepared for dense evaluation.
        sparse: The hardware's treatment of zeros; None where the input has no such section.
        tables: The tables in force.
    """
    sparse = sparse or no_optimizations(len(layer.arch.levels))
    models = tuple(density_model(layer.problem.density(space.name), space.tile_extents(layer.problem.bounds))
                   for space in layer.problem.dataspaces) if sparse.applied else ()
    return SparseDesign(layer, sparse, models,
                        tuple(storage_energies(level, tables) for level in layer.arch.levels),
                        compute_energies(layer.arch.arithmetic, tables))


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
        raise InvalidMapping(arch.arithmetic.name, "one of the tensors is bypassed in all storage levels")
    untouched = [check for check in dense.checks if check.constraint == "untouched" and check.broken[row]]
    if untouched:
        raise InvalidMapping(untouched[0].level, untouched[0].reason(row))
    check_formats(arch, problem, design.sparse, mapping)
    for model in design.models:
        check_model(model)
    layer = _with_occupancies(design, mapping)
    spanned: Dense = tuple((int(x), int(y)) for x, y in zip(dense.use.expansion_x[:, row],
                                                           dense.use.expansion_y[:, row], strict=True))
    counts = tuple(_dense_counts(dense, row, t, layer) for t in range(len(problem.dataspaces)))
    savings = read_savings(layer) if design.sparse.applied else {}
    use = instance_use(layer, spanned) if design.sparse.applied else temporal_use(layer, spanned)
    results = [_column_accesses(layer, t, counts[t], savings, use) for t in range(len(problem.dataspaces))]
    accesses = tuple(accesses for accesses, _ in results)
    computes = _computes(layer, [shares for _, shares in results])
    check_arithmetic(arch.arithmetic, use.arithmetic)
    units = int(use.arithmetic.average)  # Timeloop counts whole units here
    if not units:
        raise FadiffError("Timeloop divides by 0 on this mapping: spatial skipping leaves no arithmetic unit")
    cycles = math.ceil((computes.actual + computes.gated) / units)
    levels = _levels(design, layer, accesses, use, cycles)
    prices = design.compute_energies
    compute_energy = (computes.actual * prices.actual + computes.skipped * prices.skipped
                      + computes.gated * prices.gated)
    energy = sum((level.energy for level in levels), compute_energy)
    energy += float(dense.network.total[row]) if dense.network is not None else 0.0
    total = max(cycles, *(level.cycles for level in levels)) + design.layer.machine.network_latency
    return SparseEvaluation(layer, counts, accesses, computes, compute_energy, cycles, use, levels, int(total), energy,
                            savings)


def _with_occupancies(design: SparseDesign, mapping: Mapping) -> SparseLayer:
    """The mapping with its tiles, fiber trees and occupancies."""
    arch, problem = design.layer.arch, design.layer.problem
    nest = complete_nest(mapping, arch, problem)
    columns = stored_columns(arch, problem, design.sparse, mapping, nest)
    relevant = design.layer.projection.relevant
    dims = tuple(frozenset(int(d) for d in row.nonzero()[0]) for row in relevant)
    occupancies = tuple({
        level: expected_occupancy(tile, column, design.models[t]) if design.sparse.applied else dense_occupancy(tile)
        for level, tile in column.items()} for t, column in enumerate(columns))
    return SparseLayer(arch, problem, design.sparse, design.layer.energies, nest, design.layer.projection.ranks, dims,
                       design.models, tuple(columns), occupancies)


def _dense_counts(dense: Evaluation, row: int, dataspace: int, layer: SparseLayer) -> dict[int, DenseCounts]:
    """The dense counts of one data space, and the metadata that they touch without savings."""
    counts = {}
    for level, tile in layer.columns[dataspace].items():
        at = level, dataspace, row
        reads, fills, updates = (int(array[at]) for array in (
            dense.counts.reads, dense.counts.fills, dense.counts.updates))
        units = layer.occupancies[dataspace][level].metadata
        formats: list[tuple[Pair, ...]] = [
            tuple((math.ceil(metadata * (count / tile.words)), math.ceil(payload * (count / tile.words)))
                  for metadata, payload in units) for count in (reads, fills, updates)]
        reductions = reads if layer.problem.dataspaces[dataspace].read_write else 0
        counts[level] = DenseCounts(reads, fills, updates, reductions, *formats)
    return counts


def _column_accesses(layer: SparseLayer, dataspace: int, counts: dict[int, DenseCounts],
                     savings: AnyMapping[tuple[int, int], Saving],
                     use: InstanceUse) -> tuple[dict[int, TileAccesses], list[float]]:
    """The accesses of one data space, and the shares of computes that it saves."""
    column, occupancies = layer.columns[dataspace], layer.occupancies[dataspace]
    densities = {level: occupancies[level].density for level, tile in column.items() if tile.has_metadata}
    own = ColumnSavings(layer.problem.dataspaces[dataspace].read_write,
                        {level: saving for (level, t), saving in savings.items() if t == dataspace},
                        {level: use.skipped[level, t] for level, t in use.skips if t == dataspace})
    return saved_accesses(counts, column, densities, own)


def _computes(layer: SparseLayer, shares: list[list[float]]) -> Computes:
    """The computes of the run."""
    algorithmic = layer.problem.computes
    if not layer.sparse.applied:
        return Computes(algorithmic, algorithmic, 0, 0)
    operands = []
    for t, space in enumerate(layer.problem.dataspaces):
        if space.read_write:
            continue
        column = layer.columns[t]
        density = millionths(layer.models[t].expected(unit_box(layer.ranks[t])))
        operands.append(Operand(density, column[min(column)].has_metadata, shares[t][-1] if shares[t] else None))
    taken = [share for t, space in enumerate(layer.problem.dataspaces) if not space.read_write for share in shares[t]]
    return saved_computes(algorithmic, taken, operands, gates=layer.sparse.gates_computes,
                          skips=layer.sparse.skips_computes)


def _levels(design: SparseDesign, layer: SparseLayer, accesses: tuple[dict[int, TileAccesses], ...], use: InstanceUse,
            compute_cycles: int) -> tuple[LevelUse, ...]:
    """Cycles and energy of all levels; the innermost one that the mapping does not fit is rejected."""
    tiles: list[dict[int, TileCost]] = []
    slow: list[float] = []
    for number, level in enumerate(layer.arch.levels):
        stored = {t: Stored(level, column[number], layer.occupancies[t][number], layer.models[t] if layer.models
                            else None, accesses[t][number], use.levels[number][t], space.read_write)
                  for t, (space, column) in enumerate(zip(layer.problem.dataspaces, layer.columns, strict=True))
                  if number in column}
        check_level(level, list(stored.values()), use.levels[number])
        tiles.append({t: tile_cost(one, design.energies[number], compute_cycles,
                                   level.bandwidth_scale.get(layer.problem.dataspaces[t].name, 1.0))
                      for t, one in stored.items()})
        slow.append(slowdown(level, list(tiles[-1].values())))
    cycles = [math.ceil(compute_cycles / share) for share in slow]
    busy = max(compute_cycles, *cycles)
    leaking = [max(1.0, *(instances.average for instances in units)) for units in use.levels]
    result = []
    for number in range(len(layer.arch.levels)):
        gate = design.layer.machine.gate[number]
        behind = float(design.layer.machine.gated[number, 0])
        leakage = design.energies[number].leak * busy * (behind * leaking[gate] if behind > 1 else leaking[number])
        result.append(LevelUse(cycles[number], slow[number], leaking[number], leakage,
                               _level_energy(layer, number, tiles[number], use, leakage), tiles[number]))
    return tuple(result)


def _level_energy(layer: SparseLayer, number: int, tiles: dict[int, TileCost], use: InstanceUse,
                  leakage: float) -> float:
    """pJ of one level, added up as in Timeloop, data space by data space with its share of the leakage.

    The order decides how a half is rounded in print.
    """
    spaces = len(layer.problem.dataspaces)
    energy = 0.0
    for t in range(spaces):
        own = 0.0
        if t in tiles:
            address = tiles[t].addresses * layer.arch.levels[number].addr_gen_energy
            own = tiles[t].energy * use.levels[number][t].average + address * tiles[t].clusters
        energy += own + leakage / spaces
    return energy
