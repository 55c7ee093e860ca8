"""The exact evaluation: what `timeloop-model` computes, for a whole batch of mappings of one problem at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.model import access_counts as counting
from fadiff_mapper.model.access_counts import Counts, Delivery, Rounding, Tiles
from fadiff_mapper.model.energy_latency import Cost, Usage, cost, outermost_accesses, usage
from fadiff_mapper.model.exact.interconnect import InterconnectUse, interconnect_use
from fadiff_mapper.model.legality import LegalityCheck, Room, excess, legal, limits
from fadiff_mapper.model.loop_nest import Nest, active_parts, pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import Tables

CHUNK = 8192
"""Mappings per step of a large batch: few enough that the arrays stay in the processor's cache."""

WORTH_A_THREAD = 1024
"""Mappings below which another thread costs more than it brings."""


def _nearest(values: np.ndarray) -> np.ndarray:
    """Half away from zero, as C++ rounds (counts are not negative)."""
    floor = np.floor(values)
    result: np.ndarray = floor + (values - floor >= 0.5)
    return result


EXACT = Rounding(nearest=_nearest, down=np.floor, up=np.ceil)


@dataclass(frozen=True)
class Evaluation:
    """All exact results of a batch; see the classes named for axes and units.

    `raw` is the traffic as if every level kept everything, `tally` after bypassing. `legal` [B] says which rows
    Timeloop would accept; the numbers of the others mean nothing.
    """

    nest: Nest
    tile: Tiles
    use: Usage
    raw: Delivery
    tally: Delivery
    counts: Counts
    cost: Cost
    network: InterconnectUse | None
    checks: list[LegalityCheck]
    legal: np.ndarray

    @property
    def cycles(self) -> np.ndarray:
        cycles: np.ndarray = self.cost.cycles
        return cycles

    @property
    def energy(self) -> np.ndarray:
        """Total energy in pJ, networks included, [B]."""
        energy: np.ndarray = self.cost.energy if self.network is None else self.cost.energy + self.network.total
        return energy


def evaluate_nest(layer: PreparedLayer, nest: Nest, *, details: bool = False, room: Room | None = None) -> Evaluation:
    """Evaluate one batch. `details` also counts hops where no network costs energy."""
    from fadiff_mapper.model.exact.sliding_window_walk import exact_demand
    from fadiff_mapper.model.exact.spatial_transfers import exact_delivery

    networks = details or layer.network_priced
    active = active_parts(nest)
    if networks:  # every boundary has a network, kept data space or not
        active = replace(active, counted=np.ones_like(active.counted))
    with np.errstate(divide="ignore", invalid="ignore"):
        tile = counting.tiles(nest, layer.projection, active)
        use = usage(nest, active)
        wanted = counting.demand(nest, layer.projection, tile, active, layer.reuse)
        wanted = exact_demand(nest, layer.projection, tile, wanted, active, layer.reuse)
        closed_form = counting.delivery(nest, layer.projection, wanted, active, layer.reuse)
        spread_out = exact_delivery(nest, layer.projection, layer.arch, tile, closed_form, active, layer.reuse,
                                    networks)
        raw = spread_out.delivery
        tally = counting.bypassed(raw, nest.keep)
        result = counting.accesses(nest, layer.projection, tile, raw, tally, use.instances, EXACT, active)
        network = interconnect_use(layer.arch, layer.projection, nest.keep, tally, spread_out.hop_words,
                                   result.partition,
                                   use.instances) if networks else None
        total = cost(result, use, layer.machine, use.computes, EXACT)
        checks = limits(nest, tile, use, layer.arch, room)
    return Evaluation(nest, tile, use, raw, tally, result, total, network, checks, legal(checks))


def evaluate_one(arch: Architecture, problem: Problem, tables: Tables, mapping: Mapping, *,
                 details: bool = False) -> tuple[PreparedLayer, Evaluation]:
    """One mapping, with the reuse that it allows, as a batch of one row, and the layer it was evaluated on."""
    layer = prepare_layer(arch, problem, tables, reuse_of(mapping, problem.dataspace_names()))
    return layer, evaluate_nest(layer, pack([mapping], problem), details=details)


@dataclass(frozen=True)
class Scores:
    """What a search needs of a batch, [B] each.

    Cycles, energy in pJ, accesses of the outermost level in words, whether the mapping is legal, and by how many
    octaves it breaks its limits if not.
    """

    cycles: np.ndarray
    energy: np.ndarray
    last_level_accesses: np.ndarray
    legal: np.ndarray
    excess: np.ndarray


def scores_of(found: Evaluation) -> Scores:
    """The scores of an evaluated batch."""
    return Scores(found.cycles, found.energy, outermost_accesses(found.counts, found.use), found.legal,
                  excess(found.checks))


def score(layer: PreparedLayer, nest: Nest, *, threads: int = 1, room: Room | None = None) -> Scores:
    """Cycles, energy and legality of a batch of any size, in chunks, on several threads."""
    size = min(CHUNK, max(WORTH_A_THREAD, -(-nest.batch // threads)))
    parts = [slice(start, start + size) for start in range(0, nest.batch, size)]

    def one(part: slice) -> Scores:
        return scores_of(evaluate_nest(layer, nest.take(part), room=room and room.take(part)))

    if threads > 1 and len(parts) > 1:
        with ThreadPoolExecutor(threads) as pool:
            return _join(list(pool.map(one, parts)))
    return _join([one(part) for part in parts])


def _join(parts: Sequence[Scores]) -> Scores:
    return Scores(*(np.concatenate([getattr(part, name) for part in parts]) for name in Scores.__dataclass_fields__))
