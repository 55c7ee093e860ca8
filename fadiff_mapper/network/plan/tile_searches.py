"""The searches of tiles, each with one strategy; those that differ in nothing but the room left to the tile share one.

Problem. Operands of other layers that stay on the chip leave less room to a tile, different room in every candidate for
a group. Almost half of the searches for a network of 200 layers differ from an earlier one in nothing else.

Method. Every tile is searched in ample room first: the capacity of each level, halved as often as it still holds the
room left to the tile. A mapping found there that fits the tile's own room is taken, as more room only adds mappings;
where none is legal in ample room, none is taken to be so in less. Only tiles that it does not fit are searched in their
own room. The outcome depends on the tile alone, not on searches before it, so that a resumed run comes to the same
plan.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from math import floor, log

from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.network.plan.tile_constraints import SumCompletion
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.spec import Spec

STEP = 2
"""The factor between two sizes of ample room.

Of the 7,609 searches for a network of 200 layers with all segments enumerated, 5,303 are left with steps of 2 (617 of
them in the tile's own room), 5,223 (1,133) with the whole capacity alone, 5,737 (132) with steps of 1.25; the plans
save 32.76, 32.76 and 32.73 % of the EDP (23 November 2026).
"""


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

SearchKey = tuple[Hashable, TileStrategy, tuple[float, ...]]
"""`TileShape.key` of a tile, the strategy of a search of it, and the room in which it is searched."""

TileOutcomes = dict[SearchOptions, dict[SearchKey, "SearchOutcome | None"]]
"""Outcomes of searches, without their histories, by effort and tile; None where a tile contradicts its constraints."""


@dataclass(frozen=True)
class TileShape:
    """A shape of tile of a layer, and the searches that may find its mapping.

    Attributes:
        index: Position of the layer in its group.
        shape: Extents of the tile, in the order of the layer's dimensions.
        spec: The whole layer on its design.
        layer: Equal for layers whose tiles have the same best strategy.
        key: Equal for tiles whose searches are the same but for their room.
        room: Words of every level that are left for the tile, innermost level first.
        strategies: The strategies that could fit.
        task: Makes the search with one of them in some room.
        fits: Says whether a mapping found with one of them, a nest of one row, runs in the tile's own room.
    """

    index: int
    shape: tuple[int, ...]
    spec: Spec
    layer: str
    key: Hashable
    room: tuple[float, ...]
    strategies: tuple[TileStrategy, ...]
    task: Callable[[TileStrategy, tuple[float, ...]], MappingTask]
    fits: Callable[[TileStrategy, Nest], bool]


def tile_outcomes(wanted: Sequence[tuple[TileShape, TileStrategy]], options: SearchOptions,
                  stopped: Callable[[], bool], before: TileOutcomes) -> list[SearchOutcome | None]:
    """Searches some tiles side by side, each with one strategy.

    Args:
        wanted: The tiles and strategies.
        options: Effort of the searches.
        stopped: Asked again and again; once true, the searches end with what they have.
        before: Outcomes of earlier searches, which are not made again; new ones are added.

    Returns:
        The outcome of every search; None where a tile contradicts its constraints.
    """
    known = before.setdefault(options, {})
    keys = [(tile.key, strategy, tile.room) for tile, strategy in wanted]
    new = {key: pair for key, pair in zip(keys, wanted, strict=True) if key not in known}
    ample = {key: (*key[:2], ample_room(tile.spec.arch, tile.room)) for key, (tile, _) in new.items()}
    _search({ample[key]: pair for key, pair in new.items()}, options, stopped, known)
    tight = {}
    for key, (tile, strategy) in new.items():
        outcome = known[ample[key]]
        if outcome is None or not outcome.legal or tile.fits(strategy, outcome.nest):
            known[key] = outcome
        else:
            tight[key] = tile, strategy
    _search(tight, options, stopped, known)
    return [known[key] for key in keys]


def ample_room(architecture: Architecture, room: Sequence[float]) -> tuple[float, ...]:
    """The room in which a tile is searched first.

    Args:
        architecture: Capacities of the levels.
        room: Words of every level that are left for the tile, innermost level first.

    Returns:
        For every level its capacity, or the smallest part of it that holds the room, in steps of `STEP`.
    """
    return tuple(words if level.usable is None or words < 1 else
                 max(level.usable / STEP ** floor(log(level.usable / words, STEP)), words)  # in spite of rounding
                 for words, level in zip(room, architecture.levels, strict=True))


def _search(wanted: Mapping[SearchKey, tuple[TileShape, TileStrategy]], options: SearchOptions,
            stopped: Callable[[], bool], known: dict[SearchKey, SearchOutcome | None]) -> None:
    """Makes the searches that are not known, and adds them."""
    every = {key: tile.task(strategy, key[2]) for key, (tile, strategy) in wanted.items() if key not in known}
    # A tile may contradict constraints that its layer meets, such as a fixed factor of a dimension that it cuts.
    tasks = {key: task for key, task in every.items() if not task.impossible}
    outcomes = search_all(list(tasks.values()), options, stopped=stopped) if tasks else []
    known.update(dict.fromkeys(every))
    known.update(zip(tasks, (replace(outcome, history=()) for outcome in outcomes), strict=True))
