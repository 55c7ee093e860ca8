"""Faults in Timeloop's count of user-defined networks, which the exact evaluation repeats."""

from __future__ import annotations

from collections.abc import Iterator

from fadiff_mapper.model.exact.interconnect import InterconnectUse
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.priced_interconnects import BOTH_WAYS, PricedInterconnect


def interconnect_faults(layer: PreparedLayer, use: InterconnectUse, instances: list[int], row: int) -> Iterator[str]:
    """Sentences on the faults that change the energy of one mapping.

    Args:
        layer: The prepared layer.
        use: Traffic of its interconnects.
        instances: Instances of every level in use.
        row: Column of the mapping in the batch.
    """
    named = {noc.name for noc in layer.arch.named_interconnects}
    for number, noc in enumerate(layer.interconnects):
        if noc.name in named and noc.priced:
            yield from _faults(noc, use, number, instances[noc.level], row)


def _faults(noc: PricedInterconnect, use: InterconnectUse, number: int, instances: int, row: int) -> Iterator[str]:
    """The faults about one interconnect."""
    if noc.ways != BOTH_WAYS and noc.kind != "ReductionTree":
        yield f'the network "{noc.name}" carries words one way alone, and Timeloop counts those of both ways on it'
    if noc.kind == "ReductionTree" and instances > 1 and use.spent[number, :, row].any():
        yield (f'of the reduction tree "{noc.name}" Timeloop counts the energy of one instance, and {instances} '
               "instances of the level outside it are in use")
    if noc.kind == "SimpleMulticast" and (use.words[:, number, :, row] > 0).sum(axis=0).max() > 1:
        yield (f'of the words on the network "{noc.name}" that go to different numbers of receivers Timeloop counts '
               "the energy of those with the most receivers alone")
