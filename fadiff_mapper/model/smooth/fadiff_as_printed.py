"""The cost model of the FADiff paper (arXiv 2511.22348) as it is printed: equations (4) to (12), loop order ignored.

It is here to be compared with: `validation` measures how far it is from Timeloop, and a search on it shows what the
refinements of `access_counts.py` buy. NumPy or torch alike, axes as in `access_counts.py`; differentiable in the
factors.

The equations speak of one memory hierarchy; on others they are read as follows. "The level inside" of a data space
is the next level inwards that keeps it. Counts are those of one instance. A spatial factor belongs to the fan-out
below its level, so the tiles that a level sends are those of all receivers below one of its instances.
"""

from __future__ import annotations

from fadiff_mapper.model import access_counts as counting
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import cost, usage
from fadiff_mapper.model.loop_nest import Active, Array, Nest, Projection, all_active, array_namespace
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.smooth.evaluate import SMOOTH, SmoothEvaluation


def evaluate_paper(layer: PreparedLayer, nest: Nest, active: Active | None = None, *,
                   windows: bool = False) -> SmoothEvaluation:
    """Counts, cycles (eq. 16) and energy (eqs. 17 to 19) of a batch by the paper's equations.

    `windows` takes the tile of a sliding window as the box it covers, not as the product over its dimensions that
    equation (5) writes. Tiles and instances are the real ones: capacities are not part of the comparison.
    """
    tile, use = counting.tiles(nest, layer.projection, active), usage(nest, active)
    found = paper_counts(nest, layer.projection, use.compute_cycles, active, windows=windows)
    return SmoothEvaluation(tile, use, found, cost(found, use, layer.machine, use.computes, SMOOTH))


def paper_counts(nest: Nest, projection: Projection, compute_cycles: Array, active: Active | None = None, *,
                 windows: bool = False) -> Counts:
    """Equations (4) to (12) at every level; see `traffic` for one data space."""
    xp = array_namespace(nest.temporal)
    outer = outer_iterations(nest, projection)
    tile = counting.tiles(nest, projection, active)
    fills, sent = zip(*(traffic(nest, projection, t, outer[:, t], compute_cycles, windows)
                        for t in range(len(projection.ranks))), strict=True)
    fill, down = xp.stack(fills, axis=1), xp.stack(sent, axis=1)
    written = xp.asarray(projection.read_write)[:, None]
    nothing = xp.zeros_like(down)
    reads, updates = xp.where(written, nothing, down), xp.where(written, down, nothing)
    fill = xp.where(written, nothing, fill)
    return Counts(reads, fill, updates, counting.partitions(tile, SMOOTH, active or all_active(nest)), fill + down)


def traffic(nest: Nest, projection: Projection, tensor: int, outer: Array, compute_cycles: Array,
            windows: bool) -> tuple[Array, Array]:
    """(fills, words exchanged with the level inside) of one data space at every level, [L, B] each.

    The exchange is reads for operands, eq. (7), and updates for outputs, eq. (10); at the innermost level that keeps
    the data space it is that with the arithmetic, eqs. (8) and (11). Outputs are never read back: the paper has no
    equation for it. `outer` [L, B] are the iterations of eq. (6).
    """
    xp = array_namespace(nest.temporal)
    further = counting.kept_further_out(nest.keep)
    box, extent = xp.ones_like(nest.temporal[0]), xp.ones_like(nest.temporal[0])
    visits, fills, exchanged = compute_cycles, [], []
    for level in range(nest.temporal.shape[0]):
        box, extent = box * nest.spatial[level], extent * nest.spatial[level] * nest.temporal[level]
        kept = nest.keep[level, tensor]
        exchanged.append(tile_size(box, projection, tensor, windows) * visits * kept)
        fills.append(tile_size(extent, projection, tensor, windows) * outer[level] * kept * further[level, tensor])
        box, visits = xp.where(kept, extent, box), xp.where(kept, outer[level], visits)
    return xp.stack(fills), xp.stack(exchanged)


def tile_size(extents: Array, projection: Projection, tensor: int, windows: bool) -> Array:
    """Eq. (5), [B]: the product of the factors [D, B] over the dimensions of a data space; the box with `windows`.

    For one step of the arithmetic these are the spatial factors alone, so that times all iterations it is
    Ops / Bcast of eqs. (8), (9) and Ops / Reduce of eqs. (11), (12), per instance.
    """
    if windows:
        return counting.product([counting.rank_extent(extents[None], rank)[0] for rank in projection.ranks[tensor]])
    one = array_namespace(extents).ones_like(extents[0])
    return counting.product([one, *(extents[d] for d in range(extents.shape[0]) if projection.relevant[tensor, d])])


def outer_iterations(nest: Nest, projection: Projection) -> Array:
    """FetchCount of eq. (6) and WriteCount of eq. (10), [L, T, B]: temporal factors of a data space further out.

    Loops that do not move the data space are left out wherever they stand: this is where loop order is ignored.
    """
    xp = array_namespace(nest.temporal)
    one = xp.ones_like(nest.temporal[0, 0])
    here = xp.stack([xp.stack([counting.product([one, *(factors[d] for d in range(factors.shape[0]) if relevant[d])])
                               for relevant in projection.relevant]) for factors in nest.temporal])
    running = [xp.ones_like(here[0])]
    for level in reversed(range(1, nest.temporal.shape[0])):
        running.append(running[-1] * here[level])
    return xp.stack(running[::-1])
