"""One mapping with everything that the steps of the sparse analysis read."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.sparse.complete_nest import CompleteNest, Ranks
from fadiff_mapper.sparse.density_models import DensityModel
from fadiff_mapper.sparse.stored_tiles import Column
from fadiff_mapper.sparse.tile_occupancy import Occupancy
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.sparse_optimizations import SparseOptimizations
from fadiff_mapper.spec.tables import ComponentEnergy


@dataclass(frozen=True)
class SparseLayer:
    """A mapping of a layer onto a sparse design. Lists over data spaces are in the order of the problem.

    Attributes:
        arch: The architecture.
        problem: The layer.
        sparse: The hardware's treatment of zeros.
        energies: pJ per vector access of every level.
        nest: All loops of the mapping.
        ranks: Ranks of every data space as indices.
        dims: Indices of the dimensions that move each data space.
        models: Density of every data space.
        columns: Tiles of every data space by level.
        occupancies: Their occupancies by level.
    """

    arch: Architecture
    problem: Problem
    sparse: SparseOptimizations
    energies: tuple[ComponentEnergy, ...]
    nest: CompleteNest
    ranks: tuple[Ranks, ...]
    dims: tuple[frozenset[int], ...]
    models: tuple[DensityModel, ...]
    columns: tuple[Column, ...]
    occupancies: tuple[dict[int, Occupancy], ...]

    def read_energy(self, level: int) -> float:
        """pJ per vector read of a level."""
        return self.energies[level].read

    def outermost(self, dataspace: int) -> int:
        """The outermost level that keeps a data space."""
        return max(self.columns[dataspace])
