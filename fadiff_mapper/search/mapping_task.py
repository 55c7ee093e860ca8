"""One problem to search: its layer prepared for evaluation, its map space, and the terms that it is held to."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer


@dataclass(frozen=True)
class MappingTask:
    """One problem on one design.

    given      a nest to start from
    room       what may be filled where something else lies already, without an axis for the batch
    weights    exponents of energy and of delay in what is minimised, in place of the metrics
    """

    layer: PreparedLayer
    space: MapSpace
    given: Nest | None = None
    room: Room | None = None
    weights: tuple[float, float] | None = None
