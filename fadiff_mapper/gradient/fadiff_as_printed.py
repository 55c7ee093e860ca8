"""The cost model of the FADiff paper (arXiv 2511.22348) as it is printed: equations (4) to (12), loop order ignored.

A baseline: `validation` measures its distance from Timeloop, and `benchmarks/layer_quality.py --ablations` searches
with it to show the effect of our refinements. Works on NumPy and torch, axes as in `access_counts.py`; differentiable
in the factors.

The equations are for one memory hierarchy. On other hierarchies we read them as follows. "The level inside" of a data
space is the next level inwards that keeps it. Counts are per instance. A spatial factor belongs to the fan-out below
its level, so a level sends the tiles of all receivers below one instance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from fadiff_mapper.model.access_counts import Counts, element_words, kept_further_out, partitions
from fadiff_mapper.model.energy_latency import cost
from fadiff_mapper.model.evaluate import NestEvaluation
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth import SMOOTH, evaluate_smooth
from fadiff_mapper.model.tiles import rank_extent, tiles


def evaluate_paper(layer: PreparedLayer, nest: Nest, active: Active | None = None, *,
                   windows: bool = False) -> NestEvaluation:
    """Counts (eqs. (4) to (12)), cycles (eq. (16)) and energy (eqs. (17) to (19)) of B mappings, as printed.

    Tiles and instances are the exact model's, as capacities are not part of the comparison. With `windows` a sliding
    window's tile is the box that it covers, not the product of dimensions in eq. (5).
    """
    xp, projection = array_namespace(nest.temporal), layer.projection
    tile = tiles(nest, projection, active)
    outer = outer_iterations(nest, projection)
    fills, sent = zip(*(traffic(nest, projection, t, outer[:, t], tile.compute_cycles, windows)
                        for t in range(len(projection.ranks))), strict=True)
    fill, down = xp.stack(fills, axis=1), xp.stack(sent, axis=1)
    written = xp.asarray(projection.read_write)[:, None]  # the paper has no reads or fills of outputs
    nothing = xp.zeros_like(down)
    reads, updates = xp.where(written, nothing, down), xp.where(written, down, nothing)
    fill = xp.where(written, nothing, fill)
    counts = Counts(reads, fill, updates, partitions(tile, SMOOTH, active or all_active(nest)), fill + down)
    if layer.machine.element_words is not None:  # as in the other models: the paper has one width of words
        counts = replace(counts, words=element_words(counts, nest, projection, *layer.machine.element_words))
    return NestEvaluation(tile, counts, lambda: cost(counts, tile, layer.machine, SMOOTH))


LAYER_MODELS: dict[str, Callable[[PreparedLayer, Nest, Active | None], NestEvaluation]] = {
    "refined": evaluate_smooth, "paper": evaluate_paper}
"""Differentiable models of a layer by name (`search.options.MODELS`)."""


def traffic(nest: Nest, projection: Projection, dataspace: int, outer: Array, compute_cycles: Array,
            windows: bool) -> tuple[Array, Array]:
    """Fills (eq. (4)) of every level with one data space, and words exchanged with the level inside, [L, B] each.

    The exchange with the level inside is reads for operands, eq. (7), and updates for outputs, eq. (10); the innermost
    level that keeps the data space exchanges with the arithmetic, eqs. (8) and (11). Outputs are never read back: the
    paper has no equation for it. `outer` [L, B] are the iterations of eq. (6), `compute_cycles` [B] the product of all
    temporal loops.
    """
    xp = array_namespace(nest.temporal)
    further = kept_further_out(nest.keep)
    box, extent = xp.ones_like(nest.temporal[0]), xp.ones_like(nest.temporal[0])
    visits, fills, exchanged = compute_cycles, [], []
    for level in range(nest.temporal.shape[0]):
        box, extent = box * nest.spatial[level], extent * nest.spatial[level] * nest.temporal[level]
        kept = nest.keep[level, dataspace]
        exchanged.append(tile_size(box, projection, dataspace, windows) * visits * kept)
        fills.append(tile_size(extent, projection, dataspace, windows) * outer[level] * kept
                     * further[level, dataspace])
        box, visits = xp.where(kept, extent, box), xp.where(kept, outer[level], visits)
    return xp.stack(fills), xp.stack(exchanged)


def tile_size(extents: Array, projection: Projection, dataspace: int, windows: bool) -> Array:
    """Words of a tile, [B], by eq. (5): the product of the factors [D, B] over the dimensions of a data space.

    One step of the arithmetic has only the spatial factors; times all iterations the product is Ops / Bcast of eqs.
    (8), (9) and Ops / Reduce of eqs. (11), (12), per instance. With `windows`: the box of the ranks.
    """
    if windows:
        return math.prod(rank_extent(extents[None], rank)[0] for rank in projection.ranks[dataspace])
    one = array_namespace(extents).ones_like(extents[0])
    return math.prod((extents[d] for d in range(extents.shape[0]) if projection.relevant[dataspace, d]), start=one)


def outer_iterations(nest: Nest, projection: Projection) -> Array:
    """FetchCount of eq. (6) and WriteCount of eq. (10): a data space's temporal factors outside each level, [L, T, B].

    Loops that do not move the data space are left out at any position: here the paper ignores loop order.
    """
    xp = array_namespace(nest.temporal)
    one = xp.ones_like(nest.temporal[0, 0])
    here = xp.stack([xp.stack([math.prod((factors[d] for d in range(factors.shape[0]) if relevant[d]), start=one)
                               for relevant in projection.relevant]) for factors in nest.temporal])
    running = [xp.ones_like(here[0])]
    for level in reversed(range(1, nest.temporal.shape[0])):
        running.append(running[-1] * here[level])
    return xp.stack(running[::-1])
