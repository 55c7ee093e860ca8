"""From the end of a descent to candidates: links with sigma above a half are fused, in tiles of the drawn factors.

Problem. Restarts end with factors of every layer's loops and a sigma per link; a plan needs fused groups with shared
tile loops. FADiff decodes "into integer factors and binary fusion decisions" and leaves the rest open.

Method. In every restart, a segment is proposed where all its sigmas exceed a half. Its shared loops are the drawn
loops at the outermost level of its last layer, along dimensions that the link carries, in their order. The rest of a
candidate is chosen as for enumerated ones (`tilings`): operands that stay, halo retained or recomputed, and other tile
sizes where these promise more or the restart's own do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from fadiff_mapper.fusion import Hardware, TileLoop
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.descent.descend import DescentEnd
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.network.layers.edp_prices import NetworkPrice
from fadiff_mapper.network.layers.unfused import with_nest
from fadiff_mapper.network.tilings.candidates import candidates_along
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.layer_estimate import LayerBase, group_bases
from fadiff_mapper.network.tilings.tile_nests import cuts_whole
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.mapping_task import mapping_task

FUSED = 0.5
"""Sigma above which a link is fused: the middle of [0, 1], not a tuned value."""

LoopSizes = dict[tuple[str, ...], set[tuple[int, ...]]]
"""Tile sizes in which each order of loops comes: dimensions, outermost first -> points of a tile along each."""


def decoded_groups(hardware: Hardware, segments: Sequence[Segment], network: RelaxedNetwork, ended: DescentEnd,
                   bases: Mapping[str, LayerBase], price: NetworkPrice,
                   stopped: Callable[[], bool] = lambda: False) -> dict[Hashable, list[Candidate]]:
    """Decodes the candidates of every segment that some restarts fuse.

    Args:
        hardware: The design.
        segments: Segments that could be groups.
        network: The relaxed network.
        ended: The end of its descent.
        bases: Each layer by itself, as estimates need it, by name.
        price: The price of parts of the network.
        stopped: Asked before every segment; once true, the others are left out.

    Returns:
        Candidates by the key of their segment; equal segments of different layers share them.
    """
    proposed: dict[Hashable, tuple[Segment, LoopSizes]] = {}
    for segment in segments:
        if stopped():
            break
        _, sizes = proposed.setdefault(segment.key, (segment, {}))
        tied = all(pair in network.tie_of for pair in pairwise(segment.nodes))  # not where layers run unequally often
        for loops in _proposed_loops(segment, network, ended) if tied else ():
            sizes.setdefault(tuple(loop.dim for loop in loops), set()).add(tuple(loop.tile for loop in loops))
    return {key: [candidate for dims, tiles in sizes.items() for candidate in _candidates(
                hardware, segment, dims, tiles, group_bases(segment, bases), price)]
            for key, (segment, sizes) in proposed.items() if not stopped()}


def _proposed_loops(segment: Segment, network: RelaxedNetwork,
                    ended: DescentEnd) -> dict[tuple[TileLoop, ...], None]:
    """The tile loops of a segment in the restarts that fuse it, without repetition and in the restarts' order."""
    ties = [network.tie_of[pair] for pair in pairwise(segment.nodes)]
    restarts = np.flatnonzero((ended.sigma[ties] > FUSED).all(axis=0))
    nest = ended.nests[network.site_of[segment.nodes[-1]]]
    return dict.fromkeys(tile_loops(segment, nest, int(restart)) for restart in restarts)


def tile_loops(segment: Segment, nest: Nest, column: int) -> tuple[TileLoop, ...]:
    """Reads the shared loops off the nest of a segment's last layer.

    Args:
        segment: The segment.
        nest: Nests of its last layer, one per restart.
        column: The restart.

    Returns:
        The loops at the outermost level that the last link carries, outermost first. Loops that add to the same outputs
        come last, inside the others: so their sums can stay.
    """
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    names = [last.dimensions[int(d)] for d in nest.order[-1, :, column][::-1]]
    steps = dict(zip(last.dimensions, nest.temporal[-1, :, column], strict=True))
    loops = [TileLoop(dim, -(-last.bounds[dim] // round(float(steps[dim])))) for dim in names
             if steps[dim] > 1 and dim in linked and not cuts_whole(segment, dim)]
    return tuple(sorted(loops, key=lambda loop: loop.dim not in last.output.dimensions))


def _candidates(hardware: Hardware, segment: Segment, dims: tuple[str, ...], tiles: Collection[tuple[int, ...]],
                bases: Sequence[LayerBase], price: NetworkPrice) -> list[Candidate]:
    """Candidates in one order of loops; where none fits without a loop, in one over the largest dimension to cut."""
    candidates = candidates_along(hardware, segment, dims, bases, price, tiles)
    if dims or candidates:
        return candidates
    last = segment.problems[-1]
    cut = [dim for dim in segment.links[-1].dims.values()
           if dim in last.output.dimensions and not cuts_whole(segment, dim)]
    if not cut:
        return []
    return candidates_along(hardware, segment, (max(cut, key=lambda dim: last.bounds[dim]),), bases, price)


def decoded_layers(results: Sequence[MappedLayer], network: RelaxedNetwork,
                   ended: DescentEnd) -> list[list[MappedLayer]]:
    """Adds to every layer's mapping those that the descent drew and that beat it in energy or in cycles.

    Args:
        results: The best mapping of each distinct layer by itself.
        network: The relaxed network.
        ended: The end of its descent.

    Returns:
        For each layer its own mapping first, then the legal drawn ones, all with exact counts.
    """
    mappings = [[result] for result in results]
    position = {id(result): index for index, result in enumerate(results)}
    for site, nest in zip(network.sites, ended.nests, strict=True):
        scores = score(mapping_task(site.result.spec).layer, nest)
        stats = site.result.stats
        better = scores.legal & ((scores.energy < stats.energy_pj) | (scores.cycles < stats.cycles))
        mappings[position[id(site.result)]] += [with_nest(site.result, nest.take([column]))
                                                for column in np.flatnonzero(better)]
    return mappings
