"""Groups next to those of a plan: a few layers more or fewer at either end, or two neighbours in one.

Enumeration and descent propose groups by themselves; where one ends and the next begins is settled here, around the
plan that came out. The loops run over the dimensions of the group's own, or there is one loop over any dimension, in
tiles of any size. They belong to its last layer; where another becomes the last one, they are carried over the links.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise

from fadiff_mapper.fusion import FusedGroup, FusedLink, Hardware
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.tilings.candidates import ways_along
from fadiff_mapper.network.tilings.estimate import LayerBase
from fadiff_mapper.network.tilings.estimate_sheet import Candidate, Price
from fadiff_mapper.network.tilings.tile_nests import orders

FURTHER = 2
"""Layers by which an end of a group is moved at most."""

Nodes = tuple[str, ...]
Dims = tuple[str, ...]


def reshaped(hardware: Hardware, plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes],
             segments: Sequence[Segment], bases: Mapping[str, LayerBase],
             price: Price) -> dict[Hashable, list[Candidate]]:
    """The groups next to those of a plan (nodes and group of each), by the key of their segment."""
    by_nodes = {segment.nodes: segment for segment in segments}
    found: dict[Hashable, dict[Dims, list[Candidate]]] = {}
    for segment, dims in _moved(plan, chains, by_nodes):
        key = segment.key
        single = [] if key in found else [order for order in orders(segment) if len(order) == 1]
        known = found.setdefault(key, {})
        for some in (dims, *single):
            if some not in known:
                known[some] = ways_along(hardware, segment, some, [bases[name] for name in segment.nodes], price)
    return {key: [one for group in known.values() for one in group] for key, known in found.items()}


def _moved(plan: Sequence[tuple[Nodes, FusedGroup]], chains: Sequence[Nodes],
           by_nodes: Mapping[Nodes, Segment]) -> Iterator[tuple[Segment, Dims]]:
    """The segments that come about, and the dimensions of their loops."""
    at = {name: (chain, place) for chain in chains for place, name in enumerate(chain)}
    for nodes, group in plan:
        chain, start = at[nodes[0]]
        stop = start + len(nodes)
        dims = tuple(loop.dim for loop in group.loops)
        for first in range(max(start - FURTHER, 0), start + FURTHER + 1):
            if segment := by_nodes.get(chain[first:stop]):
                yield segment, dims
        for end in range(stop - FURTHER, stop + FURTHER + 1):
            if segment := by_nodes.get(chain[start:end]):
                yield segment, _carried(dims, group.links[len(segment.links):], segment.links[len(group.links):])
    for (nodes, group), (after, other) in pairwise(sorted(plan, key=lambda one: at[one[0][0]])):
        if segment := by_nodes.get(nodes + after):
            yield segment, tuple(loop.dim for loop in other.loops)
            yield segment, _carried(tuple(loop.dim for loop in group.loops), (), segment.links[len(group.links):])


def _carried(dims: Dims, back: Sequence[FusedLink], on: Sequence[FusedLink]) -> Dims:
    """Dimensions of a layer as those of another one, some links back or on."""
    for link in reversed(back):
        own = {theirs: mine for mine, theirs in link.dims.items()}
        dims = tuple(own[dim] for dim in dims if dim in own)
    for link in on:
        dims = tuple(link.dims[dim] for dim in dims if dim in link.dims)
    return dims
