"""From where a descent ended to plans: links with sigma above a half are fused, by the loops of the drawn factors.

What a restart has at the outermost level of a group's last layer, along dimensions that the link carries, are the
group's tile loops, in that order. The rest of a candidate is found as for those that are enumerated: what stays on the
chip, halo kept or recomputed, and other tile sizes where these promise more or those of the restart do not fit.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from fadiff_mapper.fusion import Hardware, TileLoop
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.descent.descend import DescentEnd
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.network.layers.unfused import task_of, with_nest
from fadiff_mapper.network.tilings.candidates import ways_along
from fadiff_mapper.network.tilings.estimate import LayerBase
from fadiff_mapper.network.tilings.estimate_sheet import Candidate, Price
from fadiff_mapper.network.tilings.tile_nests import cuts_whole
from fadiff_mapper.results.mapped_layer import MappedLayer

FUSED = 0.5
"""Sigma above which a link is fused."""

Loops = dict[tuple[str, ...], set[tuple[int, ...]]]
"""Orders of loops and the tile sizes that they come in."""


def decoded_groups(hardware: Hardware, segments: Sequence[Segment], network: RelaxedNetwork, ended: DescentEnd,
                   bases: Mapping[str, LayerBase], price: Price) -> dict[Hashable, list[Candidate]]:
    """For every segment that is fused in some restarts, the groups that these mean."""
    wanted: dict[Hashable, tuple[Segment, Loops]] = {}
    for segment in segments:
        _, sizes = wanted.setdefault(segment.key, (segment, {}))
        for loops in _loops(segment, network, ended):
            sizes.setdefault(tuple(loop.dim for loop in loops), set()).add(tuple(loop.tile for loop in loops))
    return {key: [one for dims, tiles in sizes.items()
                  for one in _ways(hardware, segment, dims, tiles, [bases[name] for name in segment.nodes], price)]
            for key, (segment, sizes) in wanted.items()}


def _loops(segment: Segment, network: RelaxedNetwork, ended: DescentEnd) -> dict[tuple[TileLoop, ...], None]:
    """The tile loops of a segment in the restarts that fuse it, without repetition."""
    ties = [network.tie_of[pair] for pair in pairwise(segment.nodes)]
    restarts = np.flatnonzero((ended.sigma[ties] > FUSED).all(axis=0))
    nest = ended.nests[network.site_of[segment.nodes[-1]]]
    return dict.fromkeys(tile_loops(segment, nest, int(restart)) for restart in restarts)


def tile_loops(segment: Segment, nest: Nest, column: int) -> tuple[TileLoop, ...]:
    """The loops at the outermost level of a segment's last layer that its link carries, outermost first; one that
    sums stands inside."""
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    names = [last.dimensions[int(d)] for d in nest.order[-1, :, column][::-1]]
    steps = dict(zip(last.dimensions, nest.temporal[-1, :, column], strict=True))
    loops = [TileLoop(dim, -(-last.bounds[dim] // round(float(steps[dim])))) for dim in names
             if steps[dim] > 1 and dim in linked and not cuts_whole(segment, dim)]
    return tuple(sorted(loops, key=lambda loop: loop.dim not in last.output.dimensions))


def _ways(hardware: Hardware, segment: Segment, dims: tuple[str, ...], tiles: Collection[tuple[int, ...]],
          bases: Sequence[LayerBase], price: Price) -> list[Candidate]:
    """The ways to run a segment in an order of loops; where none fits without a loop, in one over the largest dimension
    that may be cut."""
    found = ways_along(hardware, segment, dims, bases, price, tiles)
    if dims or found:
        return found
    last = segment.problems[-1]
    cut = [dim for dim in segment.links[-1].dims.values()
           if dim in last.output.dimensions and not cuts_whole(segment, dim)]
    return ways_along(hardware, segment, (max(cut, key=lambda dim: last.bounds[dim]),), bases, price) if cut else []


def decoded_layers(results: Sequence[MappedLayer], network: RelaxedNetwork,
                   ended: DescentEnd) -> list[list[MappedLayer]]:
    """For every result itself and the legal mappings of its sites that are better in energy or in cycles."""
    ways = [[result] for result in results]
    at = {id(result): place for place, result in enumerate(results)}
    for site, nest in zip(network.sites, ended.nests, strict=True):
        scores = score(task_of(site.result.spec).layer, nest)
        stats = site.result.stats
        better = scores.legal & ((scores.energy < stats.energy_pj) | (scores.cycles < stats.cycles))
        ways[at[id(site.result)]] += [with_nest(site.result, nest, int(column)) for column in np.flatnonzero(better)]
    return ways
