"""Loop nests as arrays: many mappings of one problem on one architecture, the batch axis last.

The same arrays serve the exact evaluation (NumPy, integers in float64) and the differentiable model (torch). Axes:

    L   storage levels, from the innermost (next to the arithmetic) outwards
    D   dimensions of the problem
    T   data spaces (the tensors of the problem)
    B   batch: one column for each mapping

The batch lies last so that every array operation runs over long contiguous rows: a step of the equations touches one
level, dimension or data space of all mappings at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, TypeAlias

import numpy as np

from fadiff_mapper.base.arrays import Array as Array
from fadiff_mapper.base.arrays import array_namespace as array_namespace
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem

Ranks: TypeAlias = tuple[tuple[tuple[int, int], ...], ...]
"""The ranks of one data space; each rank is a sum of terms (dimension index, coefficient)."""


@dataclass(frozen=True)
class Nest:
    """A batch of mappings (Timeloop's directives as arrays).

    From the innermost loop outwards a level has its spatial loops (the fan-out below the level), then its temporal
    loops. A factor of 1 is no loop, wherever the order lists its dimension.

    A factor f with residual r means runs of f iterations, of which the very last has r: the run in which every loop of
    the same dimension further out is in its last iteration. So five points on tiles of two are a factor 3 outside a
    factor 2 with the residual 1. Such a nest is a nest of more points, cut off at the end.
    """

    temporal: Array              # [L, D, B]. Factors of the temporal loops
    spatial: Array               # [L, D, B]. Factors of the spatial loops over the fan-out below each level
    order: Array                 # [L, D, B]. Dimension indices of the temporal loops, innermost first
    keep: Array                  # [L, T, B]. True where the level keeps the data space, False where it is bypassed
    on_y: Array                  # [L, D, B]. True where the spatial factor of a dimension lies on the Y axis; the D
                                 # axis is the dimension, not its position in `spatial_order`
    spatial_order: Array         # [L, D, B]. Dimension indices of the spatial loops, innermost first on each axis
    temporal_last: Array = None  # [L, D, B]. Iterations of the last run of each temporal loop; None: no loop has a
                                 # residual
    spatial_last: Array = None   # [L, D, B]. The same for spatial loops; None if `temporal_last` is None

    @property
    def batch(self) -> int:
        """Number of mappings, B."""
        return int(self.temporal.shape[-1])

    def take(self, rows: Any) -> Nest:
        """The nests of some columns of a NumPy batch, copied; `rows` is a slice or whole numbers."""
        if isinstance(rows, slice):
            return Nest(*(np.ascontiguousarray(array[..., rows]) for array in nest_arrays(self)))
        # `array[..., rows]` takes much longer
        return Nest(*(np.take(array, rows, axis=-1) for array in nest_arrays(self)))

    @property
    def residual(self) -> bool:
        """Whether last runs may be shorter than other runs."""
        return self.temporal_last is not None


def nest_arrays(nest: Nest) -> tuple[Array, ...]:
    """The arrays of a nest in the order of its fields: six, or eight with residuals."""
    dense = (nest.temporal, nest.spatial, nest.order, nest.keep, nest.on_y, nest.spatial_order)
    return (*dense, nest.temporal_last, nest.spatial_last) if nest.residual else dense


@dataclass(frozen=True)
class Active:
    """The parts of a nest that have an effect in at least one column of a batch.

    The equations skip all other parts: a loop of factor 1 in all columns changes no result.
    """

    temporal: np.ndarray  # [L, D]. Whether some temporal factor exceeds 1
    spatial: np.ndarray   # [L, D]. Whether some spatial factor exceeds 1
    counted: np.ndarray   # [L, T]. Whether the traffic into the level matters; by default whether some column keeps the
                          # data space there


def all_active(nest: Nest) -> Active:
    """The `Active` of a nest with all loops and traffic included."""
    loops, kept = np.ones(nest.temporal.shape[:2], dtype=np.bool_), np.ones(nest.keep.shape[:2], dtype=np.bool_)
    return Active(loops, loops, kept)


def active_parts(nest: Nest) -> Active:
    """The loops above 1 and the kept data spaces of a NumPy batch."""
    return Active((nest.temporal > 1).any(axis=-1), (nest.spatial > 1).any(axis=-1), nest.keep.any(axis=-1))


def joined(parts: Sequence[Nest]) -> Nest:
    """Several NumPy batches of the same problem and architecture side by side, in the given order."""
    if any(part.residual for part in parts):
        parts = [part if part.residual else replace(part, temporal_last=part.temporal, spatial_last=part.spatial)
                 for part in parts]
    return Nest(*(np.concatenate(arrays, axis=-1) for arrays in zip(*map(nest_arrays, parts), strict=True)))


def pack(mappings: Sequence[Mapping], problem: Problem, *, residuals: bool = False) -> Nest:
    """Mappings as one NumPy batch.

    All mappings have the same number of levels. Factors are float64, orders int64, `keep` and `on_y` bool. Raises
    FadiffError for residual factors unless `residuals` are permitted.
    """
    imperfect = any(mapping.imperfect for mapping in mappings)
    if imperfect and not residuals:
        raise FadiffError("residual factors such as P=4,2 are not supported here; accepted: factors that divide their "
                          "dimensions (residual ones in evaluate and map --imperfect)")
    names, dataspaces = problem.dimensions, problem.dataspace_names()
    index = {name: i for i, name in enumerate(names)}

    def table(dtype: type, value: Callable[[LevelMapping], list[Any]]) -> np.ndarray:
        rows = [[value(level) for level in mapping.levels] for mapping in mappings]
        return np.ascontiguousarray(np.moveaxis(np.array(rows, dtype=dtype), 0, -1))

    return Nest(
        table(np.float64, lambda level: [level.temporal[name] for name in names]),
        table(np.float64, lambda level: [level.spatial[name] for name in names]),
        table(np.int64, lambda level: [index[name] for name in level.order]),
        table(np.bool_, lambda level: [name in level.keep for name in dataspaces]),
        table(np.bool_, lambda level: [name in level.spatial_order[level.split:] for name in names]),
        table(np.int64, lambda level: [index[name] for name in level.spatial_order]),
        *((table(np.float64, lambda level: [level.temporal_last.get(name, level.temporal[name]) for name in names]),
           table(np.float64, lambda level: [level.spatial_last.get(name, level.spatial[name]) for name in names]))
          if imperfect else ()))


def unpack(nest: Nest, row: int, problem: Problem) -> Mapping:
    """One column of a batch as a mapping, with factors rounded to the nearest integer.

    Reuse is full: directives that switch it off are not part of a nest.
    """
    names, dataspaces = problem.dimensions, problem.dataspace_names()

    def residuals(factors: list[float], lasts: list[float]) -> dict[str, int]:
        return {name: round(last) for name, factor, last in zip(names, factors, lasts, strict=True) if last != factor}

    levels = []
    for temporal, spatial, order, keep, on_y, spatial_order, *lasts in zip(
            *(array[..., row].tolist() for array in nest_arrays(nest)), strict=True):  # lists: single entries are slow
        ordered = [d for d in spatial_order if not on_y[d]] + [d for d in spatial_order if on_y[d]]
        levels.append(LevelMapping(
            dict(zip(names, map(round, temporal), strict=True)), tuple(names[d] for d in order),
            dict(zip(names, map(round, spatial), strict=True)), tuple(names[d] for d in ordered),
            split=on_y.count(False), keep=frozenset(compress(dataspaces, keep)),
            temporal_last=residuals(temporal, lasts[0]) if lasts else {},
            spatial_last=residuals(spatial, lasts[1]) if lasts else {}))
    return Mapping(tuple(levels))


def cut_off(nest: Nest, bounds: Sequence[float] | np.ndarray) -> Nest:
    """Mappings of more points than the bounds, cut off at the bounds.

    The factors, any whole numbers from 1, decide the residuals: points are numbered in mixed radix, from the innermost
    loop outwards, and the digits of the last point are the residuals minus one. Loops beyond the last point vanish, and
    the outermost temporal loop takes the remaining points. The mappings cover the bounds [D] exactly; if the factors
    divide the bounds, last runs are as long as other runs.
    """
    left = np.repeat(np.asarray(bounds, dtype=np.float64)[:, None], nest.batch, axis=1)
    whole = {name: np.empty_like(nest.temporal) for name in ("temporal", "spatial")}
    last = {name: np.empty_like(nest.temporal) for name in whole}
    for level in range(len(nest.temporal)):
        for name, factors in (("spatial", nest.spatial), ("temporal", nest.temporal)):
            outermost = level == len(nest.temporal) - 1 and name == "temporal"
            whole[name][level] = left if outermost else np.minimum(factors[level], left)
            last[name][level] = (left - 1) % whole[name][level] + 1
            left = np.ceil(left / whole[name][level])
    return replace(nest, **whole, temporal_last=last["temporal"], spatial_last=last["spatial"])


def without_lasts(nest: Nest) -> Nest:
    """The nest as a dense one if no last run is shorter than others; else itself."""
    if nest.residual and (nest.temporal_last == nest.temporal).all() and (nest.spatial_last == nest.spatial).all():
        return replace(nest, temporal_last=None, spatial_last=None)
    return nest


@dataclass(frozen=True)
class Projection:
    """How dimensions index the data spaces, as constants for array work."""

    relevant: np.ndarray          # [T, D]. Whether the dimension moves the data space, that is, occurs in one of its
                                  # ranks
    ranks: tuple[Ranks, ...]      # For each data space its ranks, each a tuple of terms (dimension index, coefficient)
    windowed: tuple[bool, ...]    # For each data space whether some rank is a sum of several dimensions, so that
                                  # neighbouring tiles can overlap (sliding windows with a halo)
    read_write: tuple[bool, ...]  # For each data space whether it is an output

    @cached_property
    def adding(self) -> np.ndarray:
        """Whether loops over a dimension may add up words of an output, [T, D]; never words of an operand."""
        adding = ~self.relevant
        for t, written in enumerate(self.read_write):
            adding[t, list(self.shared_dims(t))] = True
            adding[t] &= written
        return adding

    def shared_dims(self, dataspace: int) -> tuple[int, ...]:
        """Indices of the dimensions that share a rank of this data space with another dimension."""
        return tuple(sorted({d for rank in self.ranks[dataspace] if len(rank) > 1 for d, _ in rank}))


def project(problem: Problem) -> Projection:
    """The projection of a problem: names of dimensions replaced by their indices."""
    index, spaces = {name: i for i, name in enumerate(problem.dimensions)}, problem.dataspaces
    return Projection(
        np.array([[name in space.dimensions for name in problem.dimensions] for space in spaces]),
        tuple(tuple(tuple((index[term.dimension], term.coefficient) for term in rank) for rank in space.ranks)
              for space in spaces),
        tuple(any(len(rank) > 1 for rank in space.ranks) for space in spaces),
        tuple(space.read_write for space in spaces))
