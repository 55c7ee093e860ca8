"""Features of a calibration: demands of one tile on the machine, in units that cost some cycles each.

Tensors lie in memory with their channels last. A row is a run of a tile's words that are contiguous in memory; every
row is fetched separately.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.problem import Problem, extent
from fadiff_mapper.kernel._kernel import Correction
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace


@dataclass(frozen=True)
class TensorRoles:
    """The dimensions of a problem with two operands and one output, as indices in the order of the problem."""

    reduced: tuple[int, ...]  # dimensions of both operands, not of the output, and of no window: input channels
    # the other dimensions of both operands that the output lacks: the filter's rows and columns
    windows: tuple[int, ...]
    produced: tuple[int, ...]  # dimensions of weights and output only: output channels
    # dimensions of inputs and output only: rows of a product or pixels and batch of a convolution
    positions: tuple[int, ...]
    sliding: tuple[int, ...]  # positions that share a rank of the inputs with a window, in the order of the problem
    groups: tuple[int, ...]  # dimensions of all three tensors, such as the batch of a batched product
    slides: tuple[tuple[tuple[int, int], ...], ...]  # for every sliding position its rank: dimensions and coefficients
    inputs: int  # index of the sliding operand

    @property
    def stream(self) -> int | None:
        """The dimension streamed through the array: the first sliding position, else the first position, else None."""
        return next(iter((*self.sliding, *self.positions)), None)


def tensor_roles(problem: Problem) -> TensorRoles:
    """The roles of the dimensions, from the projections of a layer. FadiffError if it has not just two operands.

    The inputs are the sliding operand; if none slides, the operand called Inputs, else the second operand.
    """
    operands = [space for space in problem.dataspaces if not space.read_write]
    if len(operands) != 2:
        raise FadiffError(f"{problem.name}: found {len(operands)} operands; accepted by a calibration: problems with "
                          "two operands and one output")
    slide = [any(len(rank) > 1 for rank in space.ranks) for space in operands]
    first = (slide[0] and not slide[1]) or (slide[0] == slide[1] and operands[0].name == "Inputs")
    inputs, weights = operands if first else reversed(operands)
    number = {name: index for index, name in enumerate(problem.dimensions)}
    windowed = {term.dimension: rank for rank in inputs.ranks if len(rank) > 1 for term in rank}

    def indices(of_inputs: bool, of_weights: bool, of_output: bool) -> tuple[int, ...]:
        return tuple(index for name, index in number.items() if (
            name in inputs.dimensions, name in weights.dimensions, name in problem.output.dimensions)
            == (of_inputs, of_weights, of_output))

    slides = [name in windowed for name in problem.dimensions]
    shared, positions = indices(True, True, False), indices(True, False, True)
    sliding = tuple(d for d in positions if slides[d])
    ranks = tuple(tuple((number[term.dimension], term.coefficient) for term in windowed[problem.dimensions[d]])
                  for d in sliding)
    return TensorRoles(tuple(d for d in shared if not slides[d]), tuple(d for d in shared if slides[d]),
                       indices(False, True, True), positions, sliding, indices(True, True, True), ranks,
                       problem.dataspaces.index(inputs))


# A program turns a mapping into a run of tiles. `as_mapped` follows the loops. `gemmini` follows Gemmini's library in
# the runs that DOSA recorded (Hong et al., MICRO 2023). The rules are not documented; they were found by comparing
# cycles of equal tiles:
# - a convolution's output is square, so unequal P and Q both run as the larger of the two;
# - the array has as many rows as columns, a power of two, and a mapping runs on the smallest array that holds it;
# - tiles of a product are passed in whole blocks: a tile of n words is max(n // 16, 1) blocks of the array's side.

BLOCK = int(Correction.BLOCK)
"""Words of a tile that Gemmini's library counts as one block of a product."""
ROUNDING = Correction.ROUNDING
"""Tolerance for quotients of whole numbers."""


@dataclass(frozen=True)
class TiledRun:
    """B mappings of one layer as runs of equal tiles."""

    bounds: Array  # [D, B]. Bounds of the layer that runs.
    tile: Array  # [D, B]. Extents of one tile.
    tiles: Array  # [B]. Tiles of the whole run.
    partial: Array  # [B]. Tiles that add to the same outputs.
    side: Array  # [B]. Side of the smallest square array, a power of two, that holds the spatial loops.
    steps: Array  # [B]. Compute steps of one tile.
    blocks: Array  # [B]. Sets of weights that one tile brings into the array.
    product: bool  # whether it is a matrix product (no window, at most one position), not a convolution


def as_mapped(nest: Nest, bounds: Sequence[int], roles: TensorRoles) -> TiledRun:
    """The run of B mappings as the loops describe it; steps and sets of weights come from the temporal loops of the
    inner levels."""
    xp = array_namespace(nest.temporal)
    column = _column(bounds, nest)
    inner, outer = nest.temporal[:-1], nest.temporal[-1]
    within = xp.prod(inner, axis=0)
    widest = xp.max(xp.prod(nest.spatial, axis=0), axis=0)
    side = _straight_through(widest, 2.0 ** xp.ceil(xp.log2(widest) - ROUNDING))
    product = all(bounds[d] == 1 for d in roles.windows) and sum(bounds[d] > 1 for d in roles.positions) <= 1
    return TiledRun(column, column / outer, over(outer, range(len(bounds))),
                    over(outer, (*roles.reduced, *roles.windows)), side, over(within, range(len(bounds))),
                    over(within, (*roles.reduced, *roles.windows, *roles.produced, *roles.groups)),
                    product)


def gemmini(nest: Nest, bounds: Sequence[int], roles: TensorRoles) -> TiledRun:
    """The run of B mappings by Gemmini's library, see above."""
    xp, mapped, bounds = array_namespace(nest.temporal), as_mapped(nest, bounds, roles), list(bounds)
    side, product = mapped.side, mapped.product
    if not product and roles.sliding:
        for d in roles.sliding:
            bounds[d] = max(bounds[other] for other in roles.sliding)
    rows, counts = [], []
    for d, bound in enumerate(bounds):
        tile = mapped.tile[d]
        if product and d not in roles.groups and d not in roles.windows:
            whole = tile / BLOCK
            blocks = xp.clip(_straight_through(whole, xp.floor(whole + ROUNDING)), 1.0, None)
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
                    product)


PROGRAMS: dict[str, Callable[[Nest, Sequence[int], TensorRoles], TiledRun]] = {
    "as-mapped": as_mapped, "gemmini": gemmini}
"""Programs that run a mapping on the measured hardware, by name."""


def over(array: Array, dims: Sequence[int] | range) -> Array:
    """The product of some rows of [D, B]; ones where there are no rows."""
    result = array_namespace(array).ones_like(array[0])
    for d in dims:
        result = result * array[d]
    return result


def up(value: Array) -> Array:
    """Rounded up; the slope for torch is the slope of the value."""
    return _straight_through(value, array_namespace(value).ceil(value - ROUNDING))


def _straight_through(value: Any, rounded: Any) -> Any:
    """The rounded value forwards, the slope of the unrounded one backwards (straight-through estimator)."""
    return value + (rounded - value).detach() if hasattr(value, "detach") else rounded


def _column(values: Sequence[int], nest: Nest) -> Array:
    like = nest.temporal[-1]
    return array_namespace(like).stack([array_namespace(like).ones_like(row) * float(value)
                                        for row, value in zip(like, values, strict=True)])


BEAT, LINE, PAGE = int(Correction.BEAT), int(Correction.LINE), int(Correction.PAGE)
"""Bytes of a bus transfer, a cache line and a page of virtual memory in Gemmini's system (Chipyard)."""
CACHE = Correction.CACHE
"""Tensor size in bytes at which half of the cache lines miss: half of the system's shared cache."""
WIDEST = int(Correction.WIDEST)
"""Most rows of the array for which a stream of few words pays: larger arrays behave like one of so many rows."""
FEATURES = {
    "tile": ("start-up", "start of a tile"),
    "convolution": ("start-up", "further start of a convolution's tile"),
    "steps": ("compute", "compute step"),
    "streams": ("streams", "row of the array, for each stream of words through it"),
    "input_beats": ("memory", f"{BEAT} bytes of inputs (or a row of fewer)"),
    "input_misses": ("memory", "cache line of inputs that misses"),
    "input_lines": ("memory", "cache line of inputs that misses once for all tiles that share it"),
    "weight_beats": ("memory", f"{BEAT} bytes of weights (or a row of fewer)"),
    "weight_misses": ("memory", "cache line of weights that misses"),
    "weight_lines": ("memory", "cache line of weights that misses once for all tiles that share it"),
    "weight_pages": ("memory", "page of weights"),
    "output_misses": ("memory", "cache line of outputs that misses"),
    "launch": ("once", "start of the run"),
    "first_tile": ("once", f"{BEAT} bytes of the first tile's operands (or a row of fewer)"),
}
"""Feature -> the part of the machine that it occupies ("once": overhead per run, which nothing overlaps), and the unit
that its coefficient prices."""
NAMES = tuple(FEATURES)
MEANING = {name: meaning for name, (_, meaning) in FEATURES.items()}


def feature_table(program: str, problem: Problem, nest: Nest, word_bytes: float) -> tuple[Array, Array]:
    """Nonnegative features of B mappings of one layer: tiles of the whole run, [B], and `NAMES` per tile, [F, B]."""
    roles = tensor_roles(problem)
    run = PROGRAMS[program](nest, list(problem.bounds.values()), roles)
    xp = array_namespace(run.tile)
    # A tile needs the input pixels under its windows, at most stride * bound in each direction.
    pixels, all_pixels = (over(extents, [d for d in roles.positions if d not in roles.sliding])
                          for extents in (run.tile, run.bounds))
    for d, rank in zip(roles.sliding, roles.slides, strict=True):
        along, whole = (extent([(coefficient, points[of]) for of, coefficient in rank])
                        for points in (run.tile, run.bounds))
        most = run.bounds[d] * dict(rank)[d]
        pixels = pixels * xp.where(along < most, along, most)
        all_pixels = all_pixels * whole
    windows = (*roles.windows, *roles.reduced)
    once = xp.ones_like(run.side)
    values = {"tile": once, "convolution": once * float(not run.product), "steps": run.steps}
    for name, rows, all_rows, channels in (
            ("input", pixels, all_pixels, roles.reduced),
            ("weight", over(run.tile, windows), over(run.bounds, windows), roles.produced),
            ("output", over(run.tile, roles.positions), over(run.bounds, roles.positions), roles.produced)):
        # Rows of the tile; bytes of a row, from row to row, and of the whole tensor.
        rows, width = rows * over(run.tile, roles.groups), over(run.tile, channels) * word_bytes
        pitch = over(run.bounds, channels) * word_bytes
        total = all_rows * over(run.bounds, roles.groups) * pitch
        missing = total / (total + CACHE)   # share of the cache lines that miss
        lines, pages = (xp.where(xp.clip(pitch / unit, None, 1.0) > width / unit, xp.clip(pitch / unit, None, 1.0),
                                 width / unit) for unit in (LINE, PAGE))
        values |= {f"{name}_beats": rows * xp.clip(width / BEAT, 1.0, None), f"{name}_misses": rows * lines * missing,
                   f"{name}_lines": rows * width / LINE * missing, f"{name}_pages": rows * pages}
    stream = roles.stream
    along = run.tile[stream] if stream is not None else once
    others = over(run.tile, [d for d in roles.positions if d != stream])
    values |= {"streams": run.blocks * others * up(along / run.side) * xp.clip(run.side, None, float(WIDEST)),
               "output_misses": values["output_misses"] / run.partial, "launch": 1.0 / run.tiles,
               "first_tile": (values["input_beats"] + values["weight_beats"]) / run.tiles}
    return run.tiles, xp.stack([values[name] for name in NAMES])
