"""Candidates next to the groups of a plan: a few layers more or fewer at either end, or two neighbours in one.

Problem. Enumeration covers short segments and descent proposes a few long ones; neither asks where one group should
end and the next begin.

Method. Local search around the plan that came out: move either end by up to `FURTHER` layers, or merge neighbours. The
shared loops run over the dimensions of the group's own loops, or there is one loop over any dimension, in tiles of any
size. Loops belong to the last layer of a group; where another layer becomes the last one, they are carried over the
links.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from fadiff_mapper.fusion import FusedGroup, FusedLink, Hardware
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import NetworkPrice
from fadiff_mapper.network.tilings.candidates import candidates_along
from fadiff_mapper.network.tilings.compiled_segment import Translated
from fadiff_mapper.network.tilings.estimate_sheet import Candidate
from fadiff_mapper.network.tilings.layer_estimate import LayerBase, group_bases
from fadiff_mapper.network.tilings.tile_nests import orders

FURTHER = 2
"""Layers by which an end of a group is moved at most. A limit of time, not measured."""

Nodes = tuple[str, ...]
Dims = tuple[str, ...]


def reshaped(hardware: Hardware, plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes],
             segments: Sequence[Segment], bases: Mapping[str, LayerBase], price: NetworkPrice,
             stopped: Callable[[], bool] = lambda: False) -> dict[Hashable, list[Candidate]]:
    """Finds candidates next to the groups of a plan.

    Args:
        hardware: The design.
        plan: Nodes and group of each part of the plan.
        chains: Nodes of every chain of the network.
        segments: All segments that could be groups.
        bases: Each layer by itself, as estimates need it, by name.
        price: The price of parts of the network.
        stopped: Asked before every segment; once true, the others are left out.

    Returns:
        Candidates by the key of their segment.
    """
    by_nodes = {segment.nodes: segment for segment in segments}
    proposed: dict[Hashable, dict[Dims, list[Candidate]]] = {}
    translated: Translated = {}
    for segment, carried in _moved(plan, chains, by_nodes):
        if stopped():
            break
        # Layers that are one problem over all their runs in one segment, and run by run in another, differ in these.
        dims = tuple(dim for dim in carried if dim in segment.problems[-1].bounds)
        key = segment.key
        single = [] if key in proposed else [order for order in orders(segment, 1) if order]
        known = proposed.setdefault(key, {})
        for order in (dims, *single):
            if order not in known:
                known[order] = candidates_along(hardware, segment, order, group_bases(segment, bases), price,
                                                known=translated)
    return {key: [candidate for candidates in known.values() for candidate in candidates]
            for key, known in proposed.items()}


def _moved(plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes],
           by_nodes: Mapping[Nodes, Segment]) -> Iterator[tuple[Segment, Dims]]:
    """Segments with other ends or made of two neighbours, and the dimensions of their loops."""
    position = {name: (chain, index) for chain in chains for index, name in enumerate(chain)}
    for nodes, group in plan:
        chain, start = position[nodes[0]]
        stop = start + len(nodes)
        dims = tuple(loop.dim for loop in group.loops)
        for first in range(max(start - FURTHER, 0), start + FURTHER + 1):
            if segment := by_nodes.get(chain[first:stop]):
                yield segment, dims
        for end in range(stop - FURTHER, stop + FURTHER + 1):
            if segment := by_nodes.get(chain[start:end]):
                yield segment, _carried(dims, group.links[len(segment.links):], segment.links[len(group.links):])
    for (nodes, group), (after, other) in pairwise(sorted(plan, key=lambda part: position[part[0][0]])):
        if segment := by_nodes.get(nodes + after):
            yield segment, tuple(loop.dim for loop in other.loops)
            yield segment, _carried(tuple(loop.dim for loop in group.loops), (), segment.links[len(group.links):])


def _carried(dims: Dims, back: Sequence[FusedLink], on: Sequence[FusedLink]) -> Dims:
    """Dimensions of a layer as those of another one, over some links back or on; dimensions not carried are dropped."""
    for link in reversed(back):
        own = {theirs: mine for mine, theirs in link.dims.items()}
        dims = tuple(own[dim] for dim in dims if dim in own)
    for link in on:
        dims = tuple(link.dims[dim] for dim in dims if dim in link.dims)
    return dims
