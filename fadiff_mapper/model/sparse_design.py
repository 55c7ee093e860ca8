"""A layer on a sparse design: constants of all its mappings, and their scores by the compiled kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.arch import Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.sparse_optimizations import (
    Choice,
    LevelOptimizations,
    Representation,
    SparseOptimizations,
)
from fadiff_mapper.inputs.spec.tables import COMPUTE_ACTIONS, Tables, compute_energy, first_energy, storage_energy
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer

KINDS = {"actual": ("random_", ""), "gated": ("gated_",), "skipped": ("skipped_", "gated_")}
"""Kind of access -> prefixes of its actions in the ERT; Timeloop takes the first that it finds."""
ACCESSES = ("read", "fill", "update")

_kernel.raise_aborted_as(FadiffError)  # where Timeloop ends on a density


NAMES = {(middle, kind, access): tuple(f"{prefix}{middle}{name}" for prefix in prefixes for name in dict.fromkeys(
    (access, "read" if access == "read" else "write")))
    for middle in ("", "metadata_") for kind, prefixes in KINDS.items() for access in ACCESSES}
"""Names of actions in the ERT, in Timeloop's order: "random_fill", "random_write", "fill", "write", and so on."""


def storage_energies(level: StorageLevel, tables: Tables) -> tuple[np.ndarray, tuple[float, float]]:
    """pJ of the actions of a storage level, 0 without an entry in the ERT.

    The level's own `vector_access_energy` replaces the ERT; then only actual accesses to data cost energy. Returns the
    energies of accesses, [2, K, A]: to data, per vector access, and to metadata, per access of its memory; and the
    energies of decompressing and of compressing a word.
    """
    actions = {} if level.vector_access_energy is not None else tables.actions.get(level.name, {})
    plain = storage_energy(level, tables)
    found = np.reshape([first_energy(actions, names) or 0.0 for names in NAMES.values()],
                       (2, len(KINDS), len(ACCESSES)))
    found[0, 0] = [getattr(plain, access) for access in ACCESSES]
    return found, (actions.get("decompression_count", 0.0), actions.get("compression_count", 0.0))


def compute_energies(arithmetic: Arithmetic, tables: Tables) -> tuple[float, float, float]:
    """pJ of a compute by kind. Gated and skipped computes without an entry of their own cost as much as others; without
    an ERT they cost nothing."""
    actions = tables.actions.get(arithmetic.name, {})
    gated = ("mac_gated", "mult_gated", "compute_gated", *COMPUTE_ACTIONS[2:])
    return (compute_energy(arithmetic, tables)[0], first_energy(actions, gated) or 0.0,
            first_energy(actions, ("mac_skipped", "mult_skipped", "compute_skipped", *gated)) or 0.0)


@dataclass(frozen=True)
class SparseDesign:
    """A layer on a sparse design with all constants that its mappings share."""

    layer: PreparedLayer                      # The layer, prepared for dense evaluation
    sparse: SparseOptimizations               # The hardware's treatment of zeros; empty if the input has no such
                                              # section
    models: tuple[_kernel.DensityModel, ...]  # Density of every data space; empty if no optimization is applied
    energies: np.ndarray                      # pJ of accesses to data and to metadata of every level, [2, K, A, L, 1]
    conversions: np.ndarray                   # pJ of decompressing and of compressing a word, [2, L, 1]
    compute_energies: tuple[float, float, float]  # pJ of a compute by kind

    @cached_property
    def word_densities(self) -> list[float]:
        """The probability that a single word is nonzero, by data space."""
        return [model.expected([1] * len(space.ranks))
                for model, space in zip(self.models, self.layer.problem.dataspaces, strict=True)]

    @cached_property
    def block(self) -> np.ndarray:
        """Elements of a vector access, [L, T]."""
        words = np.stack([self.layer.machine.block[:, 0]] * len(self.layer.problem.dataspaces), axis=1)
        if self.layer.machine.element_words is not None:
            whole, _, per = self.layer.machine.element_words[..., 0]
            words = np.maximum(np.floor(words * per / whole), 1.0)
        return words

    @property
    def skips_instances(self) -> bool:
        """Whether some level skips instances (spatial skipping)."""
        return any(level.spatial_skipping for level in self.sparse.levels)

    @cached_property
    def compiled(self) -> _kernel.SparseTables:
        """The same constants for the compiled kernel, made once.

        Raises FadiffError where the design is larger than the kernel's tables.
        """
        arch, problem, sparse = self.layer.arch, self.layer.problem, self.sparse
        ranks = max((len(own.ranks) for options in sparse.levels for own in options.formats.values()), default=0)
        for what, size, most in (("formats of {} ranks", ranks, _kernel.MOST_RANKS),
                                 ("{} storage levels", len(arch.levels), _kernel.MOST_LEVELS),
                                 ("{} loops", 2 * len(arch.levels) * len(problem.dimensions), _kernel.MOST_LOOPS)):
            if size > most:
                raise FadiffError(f"sparse designs with {what.format(size)} are not searched; accepted: at most {most}")
        names, dims = problem.dataspace_names(), problem.dimensions

        def compiled_format(own: Representation | None) -> _kernel.FormatTable:  # no rank where it is stored plainly
            ranks = [] if own is None else [_kernel.RankTable(
                kind=_kernel.RankKind.__members__[rank.kind],
                groups=[sum(1 << dims.index(name) for name in group) for group in rank.flattened],
                metadata_bits=rank.metadata_bits, payload_bits=rank.payload_bits) for rank in own.ranks]
            return _kernel.FormatTable(ranks=ranks, inner_to_outer=own is not None and own.inner_to_outer,
                                       compressed=own is not None and own.compressed)

        def choices(groups: tuple[Choice, ...]) -> list[list[tuple[int, list[int]]]]:
            return [[(names.index(one.target), [names.index(name) for name in one.conditions]) for one in group]
                    for group in groups]

        return _kernel.SparseTables(
            layer=self.layer.compiled,
            levels=[_kernel.SparseLevel(
                decompresses=level.decompresses, compresses=level.compresses,
                metadata_limit=level.usable_metadata_bits, word_bits=level.word_bits,
                metadata_width=level.metadata.width, metadata_word_bits=level.metadata.word_bits,
                data=self.energies[0, ..., number, 0].tolist(), metadata=self.energies[1, ..., number, 0].tolist(),
                decompression=float(self.conversions[0, number, 0]), compression=float(self.conversions[1, number, 0]),
                leak=self.layer.energies[number].leak, gating=choices(options.gating),
                skipping=choices(options.skipping), spatial_skipping=choices(options.spatial_skipping))
                for number, (level, options) in enumerate(zip(arch.levels, sparse.levels, strict=True))],
            formats=[compiled_format(options.formats.get(name)) for options in sparse.levels for name in names],
            gates_computes=sparse.gates_computes, skips_computes=sparse.skips_computes, computes=problem.computes,
            compute_energy=list(self.compute_energies), models=self.models,
            operand_density=[millionths(density) for density in self.word_densities])

    def score(self, nest: Nest) -> Scores:
        """Cycles, energy and legality of a batch, by the compiled kernel; numbers of illegal mappings are 0.

        Mappings on which Timeloop aborts count as illegal. A mapping that fits only because of compression is legal.
        """
        return score(self.layer, nest, sparse=self.compiled)


def millionths(value: float) -> float:
    """A probability rounded to a millionth, half away from zero."""
    return math.floor(value * 1e6 + 0.5) / 1e6


def prepare_sparse(layer: PreparedLayer, sparse: SparseOptimizations | None, tables: Tables) -> SparseDesign:
    """The part of a sparse evaluation that all mappings of a layer share.

    `sparse`: None if the input has no such section. Raises FadiffError for a banded tensor that is no square matrix, on
    which Timeloop aborts.
    """
    sparse = sparse or SparseOptimizations((LevelOptimizations(),) * len(layer.arch.levels), applied=False)
    densities = [(layer.problem.density(space.name), space.tile_extents(layer.problem.bounds))
                 for space in layer.problem.dataspaces]
    models = tuple(_kernel.DensityModel(density.distribution, density.density, density.band_width, extents)
                   for density, extents in densities) if sparse.applied else ()
    energies, conversions = zip(*(storage_energies(level, tables) for level in layer.arch.levels), strict=True)
    return SparseDesign(layer, sparse, models, np.stack(energies, axis=-1)[..., None],
                        np.array(conversions).T[..., None], compute_energies(layer.arch.arithmetic, tables))
