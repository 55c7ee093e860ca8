"""The differentiable cost model: the shared equations without what has no smooth form.

At integer factors it differs from the exact evaluation only where windows meet several moving loops (`windows.py`) or
are handed on between neighbours (`spread.py`), in the rounding of counts and vector accesses, and in the energy of
networks. `benchmarks/smooth_distance.py` measures how much that is. Cycles differ with the counts where a level is
asked for more words than it can send.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fadiff_mapper import counts as counting
from fadiff_mapper.cost import Cost, Usage, cost, usage
from fadiff_mapper.counts import Counts, Delivery, Rounding, Tiles
from fadiff_mapper.exact import Layer
from fadiff_mapper.nest import Active, Array, Nest, Projection, all_active, array_namespace
from fadiff_mapper.reuse import Reuse


def _same(values: Array) -> Array:
    return values


SMOOTH = Rounding(nearest=_same, down=_same, up=_same)


@dataclass(frozen=True)
class SmoothEvaluation:
    """What the relaxed model says of a batch of nests; axes and units as in `exact.Evaluation`."""

    tile: Tiles
    use: Usage
    counts: Counts
    cost: Cost


def evaluate_smooth(layer: Layer, nest: Nest, active: Active | None = None) -> SmoothEvaluation:
    """Counts, cycles and energy of nests, NumPy or torch alike, differentiable in their factors.

    `active` names the loops that may exceed 1 at all (see `relax.drawable_parts`); the others cost no time.
    """
    tile = counting.tiles(nest, layer.projection, active)
    use = usage(nest, active)
    wanted = counting.demand(nest, layer.projection, tile, active, layer.reuse)
    raw = counting.delivery(nest, layer.projection, wanted, active, layer.reuse)
    raw = sent_once(raw, nest, layer.projection, tile, active or all_active(nest), layer.reuse)
    tally = counting.bypassed(raw, nest.keep)
    found = counting.accesses(nest, layer.projection, tile, raw, tally, use.instances, SMOOTH, active)
    return SmoothEvaluation(tile, use, found, cost(found, use, layer.machine, use.computes, SMOOTH))


def sent_once(raw: Delivery, nest: Nest, projection: Projection, tile: Tiles, active: Active,
              reuse: Reuse | None) -> Delivery:
    """The tally when receivers whose windows coincide in space, though their loops differ, are sent them together."""
    xp = array_namespace(nest.temporal)
    shares, one = [], xp.ones_like(nest.spatial[:, 0])
    for t, ranks in enumerate(projection.ranks):
        share = one
        for rank in ranks:
            if len(rank) == 2 and all(active.spatial[:, d].any() for d, _ in rank):
                share = share * distinct_windows(nest.spatial, tile.below, rank)
        if reuse is not None and share is not one:
            share = xp.where(xp.asarray(reuse.multicast[:, t])[:, None], share, one)
        shares.append(share)
    if all(share is one for share in shares):
        return raw
    distinct = xp.stack(shares, axis=1)
    return replace(raw, words=raw.words * distinct, multicast=raw.multicast / distinct, scatter=raw.scatter * distinct)


def distinct_windows(spatial: Array, below: Array, rank: tuple[tuple[int, int], ...]) -> Array:
    """Share of the windows below each boundary that are not another one's, along a rank of two dimensions, [L, B].

    `spatial` and `below` [L, D, B]: spatial loops, and the points that a step of each goes on, per dimension. Of p
    steps of length a beside r of length b, a = kb with a whole k, (p - 1) max(r - k, 0) windows are met again;
    where neither length is a multiple of the other, we take them for different.
    """
    xp = array_namespace(spatial)
    (first, a), (second, b) = ((spatial[:, d], coefficient * below[:, d]) for d, coefficient in rank)
    p, r = xp.where(a < b, second, first), xp.where(a < b, first, second)
    long, short = xp.maximum(a, b), xp.minimum(a, b)
    ratio = xp.round(long / short)
    again = (p - 1) * (r - ratio) * ((r > ratio) & (ratio * short == long))
    return 1 - again / (p * r)
