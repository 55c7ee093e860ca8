"""The search of tiles by strategy: how a tile treats the intermediates that it reads and writes.

Problem. How an intermediate is finished has no single best answer: all sums at once, each inside the home level, or in
turn. Searching every tile in all ways takes three times as long, and one way is the best for nearly all tiles of a
layer.

Method. A thorough search compares all strategies in short searches, goes deep into those that come close to the best,
and notes the best one of each layer. Any other search takes that one, or else the first, and the others only where it
has no legal mapping. Candidates share many tiles, so that every outcome is kept for as long as the run lasts: a search
is deterministic, and one that was made before is not made again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import inf, prod

from fadiff_mapper.network.plan.tile_constraints import SumCompletion
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.spec.spec import Spec


class TileStrategy(Enum):
    """How a tile treats the intermediates that it reads and writes.

    Attributes:
        whole: Whether the mapping has them whole in their level at once, or goes through them piece by piece.
        completion: How the sums of the written one are finished.
    """

    WHOLE_AND_TOGETHER = (True, SumCompletion.TOGETHER)
    WHOLE_FROM_INSIDE = (True, SumCompletion.INSIDE)
    PIECES_FROM_INSIDE = (False, SumCompletion.INSIDE)
    PIECES_IN_TURN = (False, SumCompletion.IN_TURN)

    def __init__(self, whole: bool, completion: SumCompletion):
        self.whole = whole
        self.completion = completion


STRATEGIES = tuple(TileStrategy)
"""For layers that write an intermediate; of equally good mappings the first counts."""

LAST_LAYER_STRATEGIES = (TileStrategy.WHOLE_FROM_INSIDE, TileStrategy.PIECES_FROM_INSIDE)
"""For the last layer, which writes no intermediate, so that its completion plays no role."""


CLOSE = 0.35
"""Logarithm of the metric by which a strategy may be worse than the best one and yet be searched again.

The short search of a tile in the GPT-3 block misses the best mapping by 0.30; otherwise a plain limit.
"""


@dataclass(frozen=True)
class TileEffort:
    """Effort of the searches of tiles.

    Attributes:
        options: Effort of a search.
        deep: In a thorough search, which compares all strategies, the effort of a second search of those that come
            close to the best; None takes one strategy that has a legal mapping.
        again: Whether a thorough search compares the strategies of layers whose best one is known already.
    """

    options: SearchOptions
    deep: SearchOptions | None = None
    again: bool = True

    @property
    def thorough(self) -> bool:
        """Whether all strategies are compared."""
        return self.deep is not None

    def of(self, seed: int, threads: int) -> TileEffort:
        """The effort with a seed and a number of threads."""
        return replace(self, options=replace(self.options, seed=seed, threads=threads),
                       deep=self.deep and replace(self.deep, seed=seed, threads=threads))


BestStrategies = dict[str, str]
"""Name of the best strategy of each layer, by `TileShape.layer`, where a thorough search has compared them."""

TileOutcomes = dict[Hashable, "SearchOutcome | None"]
"""Outcomes of searches, without their histories, by `TileShape.key`, strategy and effort; None where a tile contradicts
its constraints."""


@dataclass(frozen=True)
class TileShape:
    """A shape of tile of a layer, and the searches that may find its mapping.

    Attributes:
        index: Position of the layer in its group.
        shape: Extents of the tile, in the order of the layer's dimensions.
        spec: The whole layer on its design.
        layer: Equal for layers whose tiles have the same best strategy.
        key: Equal for tiles whose searches are the same.
        strategies: The strategies that could fit.
        task: Makes the search with one of them.
    """

    index: int
    shape: tuple[int, ...]
    spec: Spec
    layer: str
    key: Hashable
    strategies: tuple[TileStrategy, ...]
    task: Callable[[TileStrategy], MappingTask]


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
        For every tile the outcomes by strategy: of all, or of one and, where that is never legal, of the others.
    """
    found: list[dict[TileStrategy, SearchOutcome]] = [{} for _ in tiles]

    def search(wanted: Sequence[Sequence[TileStrategy]], options: SearchOptions) -> None:
        keys: dict[tuple[int, TileStrategy], Hashable] = {
            (index, strategy): (tiles[index].key, strategy, options)
            for index, strategies in enumerate(wanted) for strategy in strategies}
        new = {key: pair for pair, key in keys.items() if key not in before}
        every = {key: tiles[index].task(strategy) for key, (index, strategy) in new.items()}
        # A tile may contradict constraints that its layer meets, such as a fixed factor of a dimension that it cuts.
        tasks = {key: task for key, task in every.items() if not task.impossible}
        outcomes = search_all(list(tasks.values()), options, stopped=stopped) if tasks else []
        before.update(dict.fromkeys(every))
        before.update(zip(tasks, (replace(outcome, history=()) for outcome in outcomes), strict=True))
        for (index, strategy), key in keys.items():
            if (outcome := before[key]) is not None:
                found[index][strategy] = min(found[index].get(strategy, outcome), outcome, key=lambda one: one.value)

    every_way = [compares(tile, effort, known) for tile in tiles]
    search([tile.strategies if compared else _first(tile, known)
            for tile, compared in zip(tiles, every_way, strict=True)], effort.options)
    search([[] if any(outcome.legal for outcome in own.values()) else [strategy for strategy in tile.strategies
                                                                       if strategy not in own]
            for tile, own in zip(tiles, found, strict=True)], effort.options)
    if effort.deep is not None:
        search([_close(own) if compared else [] for own, compared in zip(found, every_way, strict=True)], effort.deep)
    return found


def compares(tile: TileShape, effort: TileEffort, known: BestStrategies) -> bool:
    """Whether a search compares all strategies of a tile.

    Args:
        tile: The tile.
        effort: Effort of the search.
        known: The best strategies before it.
    """
    return effort.thorough and (effort.again or tile.layer not in known)


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
