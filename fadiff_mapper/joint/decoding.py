"""From where a descent ended to plans: links with sigma above a half are fused, by the loops of the drawn factors.

What a restart has at the outermost level of a group's last layer, along dimensions that the link carries, are the
group's tile loops, in that order. The rest of a candidate is found as for those that are enumerated: what stays on the
chip, halo kept or recomputed, and, where the tiles do not fit, more steps.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

import numpy as np

from fadiff_mapper.exact import score
from fadiff_mapper.fusion import Hardware, TileLoop
from fadiff_mapper.joint.candidates import MOST_STEPS, ways_to_run
from fadiff_mapper.joint.descent import Descended
from fadiff_mapper.joint.estimate import LayerBase
from fadiff_mapper.joint.relaxed import RelaxedNetwork
from fadiff_mapper.joint.segments import Segment
from fadiff_mapper.joint.sheet import Candidate, Price
from fadiff_mapper.joint.tile_nests import cuts_whole
from fadiff_mapper.joint.unfused import task_of, with_nest
from fadiff_mapper.nest import Nest
from fadiff_mapper.result import Result

FUSED = 0.5
"""Sigma above which a link is fused."""

HALVINGS = 4
"""How often a tile that does not fit is cut in halves."""


def decoded_groups(hardware: Hardware, segments: Sequence[Segment], network: RelaxedNetwork, ended: Descended,
                   bases: Mapping[str, LayerBase], price: Price) -> dict[Hashable, list[Candidate]]:
    """For every segment that is fused in some restarts, the groups that these mean."""
    found: dict[Hashable, dict[tuple[TileLoop, ...], list[Candidate]]] = {}
    for segment in segments:
        known = found.setdefault(segment.key, {})
        for loops in _loops(segment, network, ended):
            if loops not in known:
                known[loops] = _that_fit(hardware, segment, loops, [bases[name] for name in segment.nodes], price)
    return {key: [one for group in known.values() for one in group] for key, known in found.items()}


def _loops(segment: Segment, network: RelaxedNetwork, ended: Descended) -> dict[tuple[TileLoop, ...], None]:
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


def _that_fit(hardware: Hardware, segment: Segment, loops: tuple[TileLoop, ...],
              bases: Sequence[LayerBase], price: Price) -> list[Candidate]:
    """The ways to run a segment in given loops, or in more steps of them where it does not fit."""
    bounds = segment.problems[-1].bounds
    for _ in range(HALVINGS + 1):
        if prod(-(-bounds[loop.dim] // loop.tile) for loop in loops) > MOST_STEPS:
            return []
        found = ways_to_run(hardware, segment, loops, bases, price)
        if found:
            return found
        loops = _halved(segment, loops)
    return []


def _halved(segment: Segment, loops: tuple[TileLoop, ...]) -> tuple[TileLoop, ...]:
    """The outermost loop with half its tile; where there is none, one over the largest dimension that may be cut."""
    last = segment.problems[-1]
    if not loops:
        dims = [dim for dim in segment.links[-1].dims.values()
                if dim in last.output.dimensions and not cuts_whole(segment, dim)]
        loops = tuple(TileLoop(dim, last.bounds[dim]) for dim in sorted(dims, key=lambda dim: -last.bounds[dim])[:1])
    return tuple(replace(loop, tile=-(-loop.tile // 2)) if place == 0 else loop for place, loop in enumerate(loops))


def decoded_layers(results: Sequence[Result], network: RelaxedNetwork, ended: Descended) -> list[list[Result]]:
    """For every result itself and the legal mappings of its sites that are better in energy or in cycles."""
    ways = [[result] for result in results]
    at = {id(result): place for place, result in enumerate(results)}
    for site, nest in zip(network.sites, ended.nests, strict=True):
        scores = score(task_of(site.result.spec).layer, nest)
        stats = site.result.stats
        better = scores.legal & ((scores.energy < stats.energy_pj) | (scores.cycles < stats.cycles))
        ways[at[id(site.result)]] += [with_nest(site.result, nest, int(column)) for column in np.flatnonzero(better)]
    return ways
