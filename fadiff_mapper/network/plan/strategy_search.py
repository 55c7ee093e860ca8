"""The search of tiles by strategy: how a tile treats the intermediates that it reads and writes.

Problem. How an intermediate is finished has no single best answer: all sums at once, each inside the home level, or in
turn. Searching every tile in all ways takes three times as long, and one way is the best for nearly all tiles of a
layer.

Method. A thorough search compares all strategies of a layer in short searches, goes deep into those that come close to
the best, and notes the best one. From then on tiles of the layer are searched with that one, and where nothing has been
compared with the first; with the others only where it has no legal mapping. Candidates share many tiles, so that every
outcome is kept for as long as the run lasts: a search is deterministic, and one that was made before is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf, prod

from fadiff_mapper.network.plan.tile_searches import TileOutcomes, TileShape, TileStrategy, tile_outcomes
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome

CLOSE = 0.35
"""Logarithm of the metric by which a strategy may be worse than the best one and yet be searched again.

The short search of a tile in the GPT-3 block misses the best mapping by 0.30; otherwise a plain limit.
"""


@dataclass(frozen=True)
class TileEffort:
    """Effort of the searches of tiles.

    Attributes:
        options: Effort of a search.
        deep: In a thorough search, which compares all strategies of layers whose best one is not known yet, the effort
            of a second search of those that come close to the best; None takes one strategy that has a legal mapping.
        known_too: Whether a thorough search goes deep into tiles of layers whose best strategy is known, too.
    """

    options: SearchOptions
    deep: SearchOptions | None = None
    known_too: bool = True

    @property
    def thorough(self) -> bool:
        """Whether tiles are searched a second time, deeper, and strategies compared where none is known to be best."""
        return self.deep is not None

    def of(self, seed: int, threads: int) -> TileEffort:
        """The effort with a seed and a number of threads."""
        return replace(self, options=replace(self.options, seed=seed, threads=threads),
                       deep=self.deep and replace(self.deep, seed=seed, threads=threads))


BestStrategies = dict[str, str]
"""Name of the best strategy of each layer, by `TileShape.layer`, where a thorough search has compared them."""


def searched(tiles: Sequence[TileShape], effort: TileEffort, stopped: Callable[[], bool], known: BestStrategies,
             before: TileOutcomes) -> list[dict[TileStrategy, SearchOutcome]]:
    """Searches some tiles side by side.

    Args:
        tiles: The tiles.
        effort: Effort of the searches.
        stopped: Asked again and again; once true, the searches end with what they have.
        known: Strategies to begin with.
        before: Outcomes of earlier searches, which are not made again; new ones are added.

    Returns:
        For every tile the outcomes by strategy: of all where they are compared, or of one and, where that is never
        legal, of the others.
    """
    found: list[dict[TileStrategy, SearchOutcome]] = [{} for _ in tiles]

    def search(wanted: Sequence[Sequence[TileStrategy]], options: SearchOptions) -> None:
        pairs = [(own, tile, strategy) for own, tile, strategies in zip(found, tiles, wanted, strict=True)
                 for strategy in strategies]
        outcomes = tile_outcomes([(tile, strategy) for _, tile, strategy in pairs], options, stopped, before)
        for (own, _, strategy), outcome in zip(pairs, outcomes, strict=True):
            if outcome is not None:
                own[strategy] = min(own.get(strategy, outcome), outcome, key=lambda one: one.value)

    every_way = [compares(tile, effort, known) for tile in tiles]
    search([tile.strategies if compared else _first(tile, known)
            for tile, compared in zip(tiles, every_way, strict=True)], effort.options)
    search([[] if any(outcome.legal for outcome in own.values()) else [strategy for strategy in tile.strategies
                                                                       if strategy not in own]
            for tile, own in zip(tiles, found, strict=True)], effort.options)
    if effort.deep is not None:
        search([_close(own) if compared or effort.known_too else [] for own, compared
                in zip(found, every_way, strict=True)], effort.deep)
    return found


def compares(tile: TileShape, effort: TileEffort, known: BestStrategies) -> bool:
    """Whether a search compares all strategies of a tile.

    Args:
        tile: The tile.
        effort: Effort of the search.
        known: The best strategies before it.
    """
    return effort.thorough and tile.layer not in known


def _close(outcomes: dict[TileStrategy, SearchOutcome]) -> list[TileStrategy]:
    """The strategies that come close to the best one, of equally good ones the first; all where none is legal yet."""
    most = min((outcome.value for outcome in outcomes.values() if outcome.legal), default=inf) + CLOSE
    different = {round(outcome.value, 6): strategy for strategy, outcome in reversed(outcomes.items())}
    return [strategy for value, strategy in reversed(different.items()) if value <= most]


def _first(tile: TileShape, known: BestStrategies) -> list[TileStrategy]:
    """The strategy to begin with: the best known one if it could fit, else the first; empty where none fits."""
    return sorted(tile.strategies, key=lambda strategy: strategy.name != known.get(tile.layer))[:1]


def note_best(compared: Iterable[tuple[TileShape, dict[TileStrategy, SearchOutcome]]], known: BestStrategies) -> None:
    """Notes the best strategy of each layer: that of its largest tile; of equally good ones the first.

    Args:
        compared: Tiles with their outcomes by strategy, of all strategies.
        known: Taken over into these.
    """
    for tile, outcomes in sorted(compared, key=lambda pair: prod(pair[0].shape)):
        if any(outcome.legal for outcome in outcomes.values()):
            known[tile.layer] = min(outcomes, key=lambda strategy: round(outcomes[strategy].value, 6)).name
