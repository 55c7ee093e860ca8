"""Demands of one tile on the machine, in units whose price is a number of cycles: the features of a calibration.

Tensors are taken to lie with their channels last: the words of one pixel or one filter position side by side. Rows are
the runs of a tile's words that lie side by side in memory; every row is fetched by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.calibration.tensor_roles import TensorRoles
from fadiff_mapper.calibration.tiled_run import TiledRun, over, up
from fadiff_mapper.model.loop_nest import Array, array_namespace

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
