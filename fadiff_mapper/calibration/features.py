"""Demands of one tile on the machine, in units whose price is a number of cycles: the features of a calibration.

Tensors are taken to lie with their channels last: the words of one pixel or one filter position side by side. Rows are
the runs of a tile's words that lie side by side in memory; every row is fetched by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.model.loop_nest import Array, Nest, array_namespace


@dataclass(frozen=True)
class TensorRoles:
    """The dimensions of a problem with two operands and one output, as indices in the order of the problem.

    Attributes:
        reduced: Dimensions of both operands and not of the output that no window holds: input channels.
        windows: The other dimensions of both operands that the output lacks: the filter's rows and columns.
        produced: Dimensions of weights and output alone: output channels.
        positions: Dimensions of inputs and output alone, rows of a product or pixels and batch of a convolution.
        sliding: Positions that share a rank with a window, in the order of the problem.
        groups: Dimensions of all three tensors, such as the batch of a batched product.
        strides: For every sliding position the window that shares its rank, the position's coefficient (the stride)
            and the window's (the dilation).
    """

    reduced: tuple[int, ...]
    windows: tuple[int, ...]
    produced: tuple[int, ...]
    positions: tuple[int, ...]
    sliding: tuple[int, ...]
    groups: tuple[int, ...]
    strides: tuple[tuple[int, int, int], ...]

    @property
    def stream(self) -> int | None:
        """The dimension that runs through the array one word after another: the first position that slides, else the
        first one; None where there is no position."""
        return next(iter((*self.sliding, *self.positions)), None)


def tensor_roles(problem: Problem) -> TensorRoles:
    """Reads the roles off the projections; names count only where no operand slides.

    Args:
        problem: A layer with two operands and one output.

    Raises:
        FadiffError: The problem has another number of operands.
    """
    inputs, weights = _operands(problem)
    output = problem.output
    number = {name: index for index, name in enumerate(problem.dimensions)}
    windowed = {term.dimension: rank for rank in inputs.ranks if len(rank) > 1 for term in rank}

    def those(of_inputs: bool, of_weights: bool, of_output: bool) -> tuple[str, ...]:
        return tuple(name for name in problem.dimensions if (
            name in inputs.dimensions, name in weights.dimensions, name in output.dimensions)
            == (of_inputs, of_weights, of_output))

    shared, positions = those(True, True, False), those(True, False, True)
    sliding = [name for name in positions if name in windowed]
    strides = []
    for name in sliding:
        terms = {term.dimension: term.coefficient for term in windowed[name]}
        window = next((other for other in terms if other != name), name)
        strides.append((number[window], terms[name], terms[window] if window != name else 0))

    def indices(names: tuple[str, ...] | list[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in names)

    return TensorRoles(indices([name for name in shared if name not in windowed]),
                       indices([name for name in shared if name in windowed]), indices(those(False, True, True)),
                       indices(positions), indices(sliding), indices(those(True, True, True)), tuple(strides))


def _operands(problem: Problem) -> tuple[DataSpace, DataSpace]:
    """Inputs and weights: inputs slide; where no operand does, they are called Inputs, or stand second."""
    operands = [space for space in problem.dataspaces if not space.read_write]
    if len(operands) != 2:
        raise FadiffError(f"{problem.name}: found {len(operands)} operands; accepted by a calibration: problems with "
                          "two operands and one output")
    slide = [any(len(rank) > 1 for rank in space.ranks) for space in operands]
    first = (slide[0] and not slide[1]) or (slide[0] == slide[1] and operands[0].name == "Inputs")
    return (operands[0], operands[1]) if first else (operands[1], operands[0])


# A program decides what a mapping makes of a layer. `as_mapped` takes the loops at their word. `gemmini` knows what
# Gemmini's library did in the runs that DOSA recorded (Hong et al., MICRO 2023; found by comparing cycles of equal
# tiles, not documented there):
#
# - a convolution's output is square, so that P unequal Q runs as the larger of the two in both directions;
# - the array has as many rows as columns, a power of two, and a mapping runs on the smallest one that holds it;
# - tiles of a product are handed over in whole blocks: a tile of n words is n // 16 blocks of the array's side, at
#   least one, whatever the side.

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


BEAT, LINE, PAGE = 16, 64, 4096
"""Bytes of a bus transfer, of a cache line and of a page of virtual memory: those of Gemmini's system (Chipyard)."""

CACHE = 2.0 ** 18
"""Bytes of a tensor of which half the lines miss the shared cache (512 KiB there). Not fitted."""

WIDEST = 16
"""Rows of the array that a stream of few words is charged for at most; with 32 or 64 rows no more were seen."""

GROUPS: dict[str, tuple[str, ...]] = {
    "start-up": ("tile", "convolution"),
    "compute": ("steps",),
    "streams": ("streams",),
    "memory": ("input_beats", "input_misses", "input_lines", "weight_beats", "weight_misses", "weight_lines",
               "weight_pages", "output_misses"),
}
"""Features by the part of the machine that they occupy; the parts overlap, tile by tile."""

ONCE = ("launch", "first_tile")
"""Features of the whole run that nothing overlaps, per tile."""

NAMES = tuple(name for group in GROUPS.values() for name in group) + ONCE
"""All features in the order of `features`."""

MEANING = {
    "tile": "start of a tile", "convolution": "further start of a convolution's tile",
    "steps": "compute step",
    "streams": "row of the array, for each stream of words through it",
    "input_beats": f"{BEAT} bytes of inputs (or a row of fewer)", "input_misses": "cache line of inputs that misses",
    "input_lines": "cache line of inputs that misses once for all tiles that share it",
    "weight_beats": f"{BEAT} bytes of weights (or a row of fewer)",
    "weight_misses": "cache line of weights that misses",
    "weight_lines": "cache line of weights that misses once for all tiles that share it",
    "weight_pages": "page of weights",
    "output_misses": "cache line of outputs that misses",
    "launch": "start of the run", "first_tile": f"{BEAT} bytes of the first tile's operands (or a row of fewer)",
}
"""What the coefficient of each feature is the price of, in cycles."""


@dataclass(frozen=True)
class TileInMemory:
    """One tensor's tile in memory: arrays [B], in bytes but for `rows`.

    Attributes:
        rows: Runs of words that lie side by side.
        width: Bytes of a row.
        pitch: Bytes from one row to the next.
        whole: Bytes of the whole tensor.
    """

    rows: Array
    width: Array
    pitch: Array
    whole: Array

    def beats(self) -> Array:
        """Bus transfers."""
        return self.rows * _least(self.width / BEAT, 1.0)

    def misses(self) -> Array:
        """Cache lines that miss: the more the larger the tensor is."""
        lines = _larger(_most(self.pitch / LINE, 1.0), self.width / LINE)
        return self.rows * lines * self._missing()

    def lines(self) -> Array:
        """Cache lines that miss where the line of a narrow row is still there for the tiles beside it."""
        return self.rows * self.width / LINE * self._missing()

    def _missing(self) -> Array:
        """The share of the lines that misses."""
        return self.whole / (self.whole + CACHE)

    def pages(self) -> Array:
        """Pages that are touched."""
        return self.rows * _larger(_most(self.pitch / PAGE, 1.0), self.width / PAGE)


def features(run: TiledRun, roles: TensorRoles, word_bytes: float) -> Array:
    """All features per tile.

    Args:
        run: B runs of one layer.
        roles: The layer's dimensions.
        word_bytes: Bytes of a word.

    Returns:
        [F, B] in the order of `NAMES`, none negative.
    """
    xp = array_namespace(run.tile)
    inputs, weights, outputs = _stored(run, roles, word_bytes)
    stream = roles.stream
    along = run.tile[stream] if stream is not None else xp.ones_like(run.side)
    others = over(run.tile, [d for d in roles.positions if d != stream])
    streams = run.blocks * others * up(along / run.side) * _most(run.side, float(WIDEST))
    values = {
        "tile": xp.ones_like(run.side), "convolution": 1.0 - run.product,
        "steps": run.steps, "streams": streams,
        "input_beats": inputs.beats(), "input_misses": inputs.misses(), "input_lines": inputs.lines(),
        "weight_beats": weights.beats(), "weight_misses": weights.misses(), "weight_lines": weights.lines(),
        "weight_pages": weights.pages(),
        "output_misses": outputs.misses() / run.partial,
        "launch": 1.0 / run.tiles, "first_tile": (inputs.beats() + weights.beats()) / run.tiles,
    }
    return xp.stack([values[name] for name in NAMES])


def _stored(run: TiledRun, roles: TensorRoles, word_bytes: float) -> tuple[TileInMemory, TileInMemory, TileInMemory]:
    """Inputs, weights and outputs of a tile."""
    groups = over(run.tile, roles.groups)

    def stored(rows: Array, whole_rows: Array, channels: Sequence[int]) -> TileInMemory:
        pitch = over(run.bounds, channels) * word_bytes
        return TileInMemory(rows * groups, over(run.tile, channels) * word_bytes, pitch,
                      whole_rows * over(run.bounds, roles.groups) * pitch)

    windows = (*roles.windows, *roles.reduced)
    return (stored(_pixels(run.tile, run.bounds, roles), _pixels(run.bounds, None, roles), roles.reduced),
            stored(over(run.tile, windows), over(run.bounds, windows), roles.produced),
            stored(over(run.tile, roles.positions), over(run.bounds, roles.positions), roles.produced))


def _pixels(extents: Array, bounds: Array | None, roles: TensorRoles) -> Array:
    """Pixels of the inputs that tiles of some extents read; at most stride * bound along each direction."""
    still = [d for d in roles.positions if d not in roles.sliding]
    result = over(extents, still)
    for d, (window, stride, dilation) in zip(roles.sliding, roles.strides, strict=True):
        along = (extents[d] - 1) * stride + 1 + dilation * (extents[window] - 1)
        result = result * (along if bounds is None else _smaller(along, bounds[d] * stride))
    return result


def _least(value: Array, least: float) -> Array:
    return array_namespace(value).clip(value, least, None)


def _most(value: Array, most: float) -> Array:
    return array_namespace(value).clip(value, None, most)


def _larger(left: Array, right: Array) -> Array:
    return array_namespace(left).where(left > right, left, right)


def _smaller(left: Array, right: Array) -> Array:
    return array_namespace(left).where(left < right, left, right)
