"""How measured hardware walks through a layer: in tiles that come from the outermost level, one after another.

A program decides what a mapping makes of a layer. `as_mapped` takes the loops at their word. `gemmini` knows what
Gemmini's library did in the runs that DOSA recorded (Hong et al., MICRO 2023; found by comparing cycles of equal
tiles, not documented there):

- a convolution's output is square, so that P unequal Q runs as the larger of the two in both directions;
- the array has as many rows as columns, a power of two, and a mapping runs on the smallest one that holds it;
- tiles of a product are handed over in whole blocks: a tile of n words is n // 16 blocks of the array's side, at
  least one, whatever the side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.calibration.tensor_roles import TensorRoles
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace

BLOCK = 16
"""Words of a tile that Gemmini's library counts as one block of a product."""


@dataclass(frozen=True)
class TiledRun:
    """B mappings of one layer as runs of equal tiles.

    Attributes:
        bounds: [D, B]. Bounds of the layer that runs.
        tile: [D, B]. Extents of one tile.
        tiles: [B]. Tiles of the whole run.
        partial: [B]. Tiles that add to the same outputs.
        side: [B]. Side of the smallest square array, a power of two, that holds the spatial loops.
        steps: [B]. Compute steps of one tile.
        blocks: [B]. Sets of weights that one tile brings into the array.
        product: [B]. 1 for a product of matrices (no window, at most one position), 0 for a convolution.
    """

    bounds: Array
    tile: Array
    tiles: Array
    partial: Array
    side: Array
    steps: Array
    blocks: Array
    product: Array


def as_mapped(nest: Nest, bounds: Sequence[int], roles: TensorRoles) -> TiledRun:
    """The run that the loops describe.

    Args:
        nest: B mappings, of NumPy or torch.
        bounds: [D]. Bounds of the layer.
        roles: Its dimensions.

    Returns:
        The run; steps and sets of weights are the temporal loops below the outermost level.
    """
    xp = array_namespace(nest.temporal)
    extent = _column(bounds, nest)
    inner, outer = nest.temporal[:-1], nest.temporal[-1]
    within = xp.prod(inner, axis=0)
    weights = (*roles.reduced, *roles.windows, *roles.produced, *roles.groups)
    return TiledRun(extent, extent / outer, over(outer, range(len(bounds))),
                    over(outer, (*roles.reduced, *roles.windows)), _side(nest), over(within, range(len(bounds))),
                    over(within, weights), _flag(nest, _is_product(bounds, roles)))


def gemmini(nest: Nest, bounds: Sequence[int], roles: TensorRoles) -> TiledRun:
    """The run that Gemmini's library makes of a mapping, see the top of this file.

    Args:
        nest: B mappings, of NumPy or torch.
        bounds: [D]. Bounds of the layer.
        roles: Its dimensions.
    """
    xp, product = array_namespace(nest.temporal), _is_product(bounds, roles)
    mapped, side = as_mapped(nest, bounds, roles), _side(nest)
    bounds = list(bounds)
    if not product and roles.sliding:
        for d in roles.sliding:
            bounds[d] = max(bounds[other] for other in roles.sliding)
    rows, counts = [], []
    for d, bound in enumerate(bounds):
        tile = mapped.tile[d]
        if product and d not in roles.groups and d not in roles.windows:
            blocks = xp.clip(down(tile / BLOCK), 1.0, None)
            counts.append(up(up(bound / side) / blocks))
            tile = xp.clip(blocks * side, None, float(bound))
        else:
            counts.append(up(bound / tile))
        rows.append(tile)
    tile, count = xp.stack(rows), xp.stack(counts)
    sets = math.prod((up(tile[d] / side) for d in (*roles.reduced, *roles.produced)),
                     start=over(tile, (*roles.windows, *roles.groups)))
    return TiledRun(_column(bounds, nest), tile, over(count, range(len(bounds))),
                    over(count, (*roles.reduced, *roles.windows)), side, sets * over(tile, roles.positions), sets,
                    mapped.product)


Program = Callable[[Nest, Sequence[int], TensorRoles], TiledRun]

PROGRAMS: dict[str, Program] = {"as-mapped": as_mapped, "gemmini": gemmini}
"""What runs a mapping on the measured hardware, by name."""


def over(array: Array, dims: Sequence[int] | range) -> Array:
    """The product of some rows of [D, B]; ones where there are none."""
    result = array_namespace(array).ones_like(array[0])
    for d in dims:
        result = result * array[d]
    return result


def up(value: Array) -> Array:
    """Rounded up; for torch the slope is that of the value itself."""
    return _straight(value, array_namespace(value).ceil(value - ROUNDING))


def down(value: Array) -> Array:
    """Rounded down; for torch the slope is that of the value itself."""
    return _straight(value, array_namespace(value).floor(value + ROUNDING))


ROUNDING = 1e-9
"""Quotients of whole numbers this near to a whole number are that number."""


def _straight(value: Any, rounded: Any) -> Any:
    """The rounded value with the slope of the value."""
    return value + (rounded - value).detach() if hasattr(value, "detach") else rounded


def _side(nest: Nest) -> Array:
    """The least power of two that is not below any dimension's spatial factor."""
    xp = array_namespace(nest.spatial)
    widest = xp.max(xp.prod(nest.spatial, axis=0), axis=0)
    return _straight(widest, 2.0 ** xp.ceil(xp.log2(widest) - ROUNDING))


def _column(values: Sequence[int], nest: Nest) -> Array:
    """Numbers of the dimensions as [D, B]."""
    like = nest.temporal[-1]
    return array_namespace(like).stack([array_namespace(like).ones_like(row) * float(value)
                                        for row, value in zip(like, values, strict=True)])


def _flag(nest: Nest, value: bool) -> Array:
    return array_namespace(nest.temporal).ones_like(nest.temporal[0, 0]) * float(value)


def _is_product(bounds: Sequence[int], roles: TensorRoles) -> bool:
    """Whether the layer is a product of matrices: no window above 1, at most one position above 1."""
    return (all(bounds[d] == 1 for d in roles.windows)
            and sum(bounds[d] > 1 for d in roles.positions) <= 1)
