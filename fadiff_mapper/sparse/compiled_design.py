"""A sparse design in the form that the compiled kernel takes (`kernel/sparse_design.hpp`).

The compiled form has the scores that a search compares. Everything else, and designs with spatial skipping, are left to
`evaluate_sparse.py`, with which tests compare it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.sparse.action_energies import KINDS, ComputeEnergies, StorageEnergies
from fadiff_mapper.sparse.banded_matrix import Box
from fadiff_mapper.sparse.complete_nest import unit_box
from fadiff_mapper.sparse.density_models import Banded, DensityModel, FixedStructured
from fadiff_mapper.sparse.fiber_tree import FiberTree
from fadiff_mapper.sparse.level_cost import block_ratio
from fadiff_mapper.sparse.saved_computes import millionths
from fadiff_mapper.sparse.tile_occupancy import metadata_bits, occupancy_of
from fadiff_mapper.spec.arch import StorageLevel
from fadiff_mapper.spec.sparse_optimizations import (
    FORMATS,
    Choice,
    LevelOptimizations,
    Representation,
    SparseOptimizations,
)

MOST_RANKS, MOST_LEVELS, MOST_LOOPS, MOST_TENSORS = 4, 16, 256, 64
"""Limits of the compiled form, equal to those of `kernel/sparse_design.hpp`."""

ACCESSES = ("read", "fill", "update")

BOX_SIDE = 1 << 26
"""The extents of a banded tensor's tile are one number, the first times this plus the second, as in
`kernel/sparse_design.hpp`."""


def compiled_design(layer: PreparedLayer, sparse: SparseOptimizations, models: tuple[DensityModel, ...],
                    energies: tuple[StorageEnergies, ...],
                    compute_energies: ComputeEnergies) -> _kernel.SparseTables | None:
    """The constants of a layer on a sparse design for the compiled kernel.

    Args:
        layer: The layer, prepared for dense evaluation.
        sparse: The hardware's treatment of zeros.
        models: Density of every data space.
        energies: pJ of the actions of every level.
        compute_energies: pJ of a compute.

    Returns:
        The kernel's design; None where the compiled form does not model the design.
    """
    if not _is_modelled(layer, sparse, models):
        return None
    arch, problem = layer.arch, layer.problem
    names = problem.dataspace_names()
    table: dict[str, Any] = {
        "levels": [_level(level, options, own, names)
                   for level, options, own in zip(arch.levels, sparse.levels, energies, strict=True)],
        "formats": [_format(options.formats.get(name), problem.dimensions)
                    for options in sparse.levels for name in names],
        "gates_computes": sparse.gates_computes, "skips_computes": sparse.skips_computes, "computes": problem.computes,
        "compute_energy": [compute_energies.actual, compute_energies.gated, compute_energies.skipped],
        "density": [model.density if isinstance(model, FixedStructured) else -1.0 for model in models],
        "shaped": [isinstance(model, Banded) for model in models],
        "operand_density": [millionths(model.expected(unit_box(ranks)))
                            for model, ranks in zip(models, layer.projection.ranks, strict=True)],
        "occupancy_of": _TileNumbers(layer, sparse, models),
        "empty_of": lambda tensor, box: _empty(models[tensor], box),
    }
    return _kernel.SparseTables(layer.compiled, table)


def _is_modelled(layer: PreparedLayer, sparse: SparseOptimizations, models: tuple[DensityModel, ...]) -> bool:
    """Whether the compiled form models a design."""
    levels = len(layer.arch.levels)
    return (sparse.applied and not any(options.spatial_skipping for options in sparse.levels)
            and all(len(model.tensor) == 2 and max(model.tensor) < BOX_SIDE for model in models
                    if isinstance(model, Banded))
            and bool(layer.projection.relevant.any(axis=1).all())
            and max((len(own.ranks) for options in sparse.levels for own in options.formats.values()),
                    default=0) <= MOST_RANKS
            and levels <= MOST_LEVELS and 2 * levels * len(layer.problem.dimensions) <= MOST_LOOPS
            and len(models) <= MOST_TENSORS)


def _level(level: StorageLevel, options: LevelOptimizations, energies: StorageEnergies,
           names: Sequence[str]) -> dict[str, Any]:
    """One level."""
    def choices(groups: tuple[Choice, ...]) -> list[list[tuple[int, list[int]]]]:
        return [[(names.index(one.target), [names.index(name) for name in one.conditions]) for one in group]
                for group in groups]

    return {
        "decompresses": level.decompresses, "compresses": level.compresses,
        "metadata_limit": level.usable_metadata_bits, "word_bits": level.word_bits,
        "metadata_width": level.metadata.width, "metadata_word_bits": level.metadata.word_bits,
        "data": [energies.data[kind, access] for kind in KINDS for access in ACCESSES],
        "metadata": [energies.metadata[kind, access] for kind in KINDS for access in ACCESSES],
        "decompression": energies.decompression, "compression": energies.compression, "leak": energies.leak,
        "gating": choices(options.gating), "skipping": choices(options.skipping),
    }


def _format(representation: Representation | None, dimensions: Sequence[str]) -> dict[str, Any] | None:
    if representation is None:
        return None
    return {
        "inner_to_outer": representation.inner_to_outer, "compressed": representation.compressed,
        "ranks": [(FORMATS.index(rank.kind), [[dimensions.index(name) for name in group] for group in rank.flattened],
                   rank.metadata_bits, rank.payload_bits) for rank in representation.ranks],
    }


def _extents(model: DensityModel, box: float) -> Box:
    """The extents that a number of the kernel stands for: those of a banded tensor, else the words."""
    return divmod(int(box), BOX_SIDE) if isinstance(model, Banded) else (int(box),)


def _empty(model: DensityModel, box: float) -> float:
    """The probability that a tile is empty; negative where Timeloop ends on it."""
    try:
        return model.empty(_extents(model, box))
    except FadiffError:
        return -1.0


REJECTED: dict[str, Any] = {
    "used": 1.0, "density": 1.0, "nonzeros": 0.0, "metadata_units": 0.0, "most_words": 0, "most_bits": 0,
    "block_ratio": 1.0, "aborts": False, "rejected": True, "units": []}
"""What stands for a tile on which Timeloop ends."""


class _TileNumbers:
    """The numbers of tiles whose tensors are of no fixed structure; the kernel keeps them."""

    def __init__(self, layer: PreparedLayer, sparse: SparseOptimizations, models: tuple[DensityModel, ...]):
        self.layer, self.sparse, self.models = layer, sparse, models

    def __call__(self, tensor: int, level: int, known_empty: bool, box: float, fibers: list[float],
                 below: list[float]) -> dict[str, Any]:
        """The occupancy of a tile, as the kernel's `Occupancy`; `REJECTED` where Timeloop ends on it."""
        try:
            return self._occupancy(tensor, level, known_empty, box, fibers, below)
        except FadiffError:
            return REJECTED

    def _occupancy(self, tensor: int, level: int, known_empty: bool, number: float, fibers: list[float],
                   below: list[float]) -> dict[str, Any]:
        """The occupancy of a tile.

        Args:
            tensor: Number of the data space.
            level: Number of the level.
            known_empty: Whether the parent sends no empty tiles.
            number: The box of the tile, as a number of the kernel.
            fibers: Coordinates of a fiber of each rank of its format; none without a format.
            below: Boxes below each rank, and that of the fiber of the outermost one.
        """
        name = self.layer.problem.dataspace_names()[tensor]
        format_, model = self.sparse.levels[level].formats.get(name), self.models[tensor]
        box = _extents(model, number)
        tree = FiberTree(((),) * len(fibers), tuple(_extents(model, one) for one in below),
                         tuple(int(one) for one in fibers), format_ is not None and format_.inner_to_outer)
        found = occupancy_of(box, known_empty, format_ if fibers else None, tree if fibers else None, model)
        ratio, aborts = 1.0, False
        if fibers and format_ is not None and format_.compressed:
            try:
                ratio = block_ratio(self.layer.arch.levels[level], box, found.density, model)
            except FadiffError:
                aborts = True
        return {"used": found.used, "density": found.density, "nonzeros": found.nonzeros,
                "metadata_units": found.metadata_units, "most_words": found.most_words,
                "most_bits": metadata_bits(format_, tree, found.most_metadata) if fibers else 0,
                "block_ratio": ratio, "aborts": aborts, "rejected": False, "units": list(found.metadata)}
