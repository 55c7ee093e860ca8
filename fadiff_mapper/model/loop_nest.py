"""Loop nests as arrays: many mappings of one problem on one architecture, the batch axis last.

The same arrays serve the exact evaluation (NumPy, integers in float64) and the relaxed model (torch). Axes:
`level` runs from the innermost storage level outwards, `dim` over the problem's dimensions, `tensor` over its
data spaces, `batch` over mappings. The batch lies last so that every step works on long contiguous rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace as find_namespace

from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import DataSpace, Problem

Array: TypeAlias = Any
"""A NumPy array or a torch tensor (their common ground is reached through array_api_compat)."""

STANDARD = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether NumPy itself has all names of the standard, so that no wrapper has to be loaded."""


def array_namespace(array: Array) -> Any:
    """The functions that work on an array: NumPy's or torch's, under the names of the array API standard."""
    return np if STANDARD and isinstance(array, np.ndarray) else find_namespace(array)


Ranks: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""The ranks of one data space; each is a sum of terms (dimension index, coefficient)."""


@dataclass(frozen=True)
class Nest:
    """A batch of mappings.

    temporal, spatial   [level, dim, batch]     factors; spatial ones belong to the fan-out below the level
    order               [level, dim, batch]     dimension indices of the temporal loops, innermost first
    keep                [level, tensor, batch]  1 where the level keeps the data space, else 0
    on_y                [level, dim, batch]     True where the spatial factor lies on the Y axis
    spatial_order       [level, dim, batch]     dimension indices of the spatial loops, innermost first, X before Y
    """

    temporal: Array
    spatial: Array
    order: Array
    keep: Array
    on_y: Array
    spatial_order: Array

    @property
    def batch(self) -> int:
        return int(self.temporal.shape[-1])

    def take(self, rows: Any) -> Nest:
        """The nests of some rows of a NumPy batch: a slice or whole numbers along the batch axis. Copied, so that
        the rows of the result lie side by side in memory."""
        return Nest(*(columns(getattr(self, name), rows) for name in Nest.__dataclass_fields__))


def columns(array: np.ndarray, rows: Any) -> np.ndarray:
    """Some entries of the last axis of an array, copied: a slice or whole numbers (`array[..., rows]` takes ten times
    as long)."""
    if isinstance(rows, slice):
        return np.ascontiguousarray(array[..., rows])
    taken: np.ndarray = np.take(array, rows, axis=-1)
    return taken


@dataclass(frozen=True)
class Active:
    """Where anything happens in at least one row of a batch: what lies outside can be left out of the array work.

    temporal, spatial   [level, dim]      whether some factor exceeds 1
    counted             [level, tensor]   whether the accesses of the level matter: some row keeps the data space
    """

    temporal: np.ndarray
    spatial: np.ndarray
    counted: np.ndarray

    def looping_levels(self) -> list[int]:
        """Levels with temporal loops."""
        return [int(level) for level in np.flatnonzero(self.temporal.any(axis=1))]

    def spatial_dims(self) -> list[int]:
        """Dimensions with spatial loops, at whatever level."""
        return [int(d) for d in np.flatnonzero(self.spatial.any(axis=0))]


def all_active(nest: Nest) -> Active:
    """Nothing may be left out."""
    loops, kept = np.ones(nest.temporal.shape[:2], dtype=np.bool_), np.ones(nest.keep.shape[:2], dtype=np.bool_)
    return Active(loops, loops, kept)


def active_parts(nest: Nest) -> Active:
    """What a NumPy batch makes use of."""
    return Active((nest.temporal > 1).any(axis=-1), (nest.spatial > 1).any(axis=-1), nest.keep.any(axis=-1))


def joined(parts: Sequence[Nest]) -> Nest:
    """Several NumPy batches side by side."""
    return Nest(*(np.concatenate([getattr(part, name) for part in parts], axis=-1)
                  for name in Nest.__dataclass_fields__))


def pack(mappings: Sequence[Mapping], problem: Problem) -> Nest:
    """Mappings as one float64 NumPy batch."""
    index = {name: i for i, name in enumerate(problem.dimensions)}
    names = problem.dimensions

    def table(value: Any, dtype: type) -> np.ndarray:
        rows = [[value(level) for level in mapping.levels] for mapping in mappings]
        return np.ascontiguousarray(np.moveaxis(np.array(rows, dtype=dtype), 0, -1))

    return Nest(
        temporal=table(lambda level: [level.temporal[name] for name in names], np.float64),
        spatial=table(lambda level: [level.spatial[name] for name in names], np.float64),
        order=table(lambda level: [index[name] for name in level.order], np.int64),
        keep=table(lambda level: [name in level.keep for name in problem.dataspace_names()], np.bool_),
        on_y=table(lambda level: [name in level.spatial_order[level.split:] for name in names], np.bool_),
        spatial_order=table(lambda level: [index[name] for name in level.spatial_order], np.int64),
    )


def unpack(nest: Nest, row: int, problem: Problem) -> Mapping:
    """One row of a batch as a mapping."""
    names = problem.dimensions
    levels = []
    for level in range(nest.temporal.shape[0]):
        on_y = nest.on_y[level, :, row]
        spatial_order = [int(d) for d in nest.spatial_order[level, :, row]]
        ordered = [d for d in spatial_order if not on_y[d]] + [d for d in spatial_order if on_y[d]]
        levels.append(LevelMapping(
            temporal={name: round(float(nest.temporal[level, d, row])) for d, name in enumerate(names)},
            order=tuple(names[int(d)] for d in nest.order[level, :, row]),
            spatial={name: round(float(nest.spatial[level, d, row])) for d, name in enumerate(names)},
            spatial_order=tuple(names[d] for d in ordered),
            split=sum(not on_y[d] for d in spatial_order),
            keep=frozenset(name for t, name in enumerate(problem.dataspace_names()) if nest.keep[level, t, row]),
        ))
    return Mapping(tuple(levels))


@dataclass(frozen=True)
class Projection:
    """How dimensions index the data spaces, as constants for array work.

    relevant [tensor, dim]: whether the dimension moves the data space. ranks[tensor]: for each rank its terms
    as (dimension index, coefficient). windowed[tensor]: whether some rank is a sum of several dimensions, so
    that neighbouring tiles can overlap.
    """

    relevant: np.ndarray
    ranks: tuple[Ranks, ...]
    windowed: tuple[bool, ...]
    read_write: tuple[bool, ...]

    def shared_dims(self, tensor: int) -> tuple[int, ...]:
        """Dimensions that share a rank of this data space with another one."""
        return tuple(sorted({d for rank in self.ranks[tensor] if len(rank) > 1 for d, _ in rank}))


def project(problem: Problem) -> Projection:
    """The projection constants of a problem."""
    index = {name: i for i, name in enumerate(problem.dimensions)}

    def ranks(ds: DataSpace) -> Ranks:
        return tuple(tuple((index[term.dimension], term.coefficient) for term in rank) for rank in ds.ranks)

    return Projection(
        relevant=np.array([[name in ds.dimensions for name in problem.dimensions] for ds in problem.dataspaces]),
        ranks=tuple(ranks(ds) for ds in problem.dataspaces),
        windowed=tuple(any(len(rank) > 1 for rank in ds.ranks) for ds in problem.dataspaces),
        read_write=tuple(ds.read_write for ds in problem.dataspaces),
    )
