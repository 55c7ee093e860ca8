"""Mappings for the tiles of fused groups: each tile is a problem of its own, in a map space that keeps the group legal.

Problem. Every shape of tile of every layer needs an exact mapping that Timeloop accepts, that leaves the resident
tensors of the group in place, and that finishes the sums of an intermediate before the next layer reads it.

Method. The search of layers (`search.search_many`) runs on tiles, with more constraints: a tensor that stays in its
home level is bypassed outside it and whole inside it, and the words that other tensors occupy (`tile_steps`) are taken
from the room of each level. How an intermediate is finished has no single best answer: `strategy_search` tries several.
In the mapping that comes out the outermost level keeps every data space again, so that `timeloop-model` runs it as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, inf, prod

import numpy as np

from fadiff_mapper.fusion import FusedGroup, Hardware, layer_steps, step_classes
from fadiff_mapper.fusion.stored_words import resident_words
from fadiff_mapper.fusion.tile_evaluation import TileEvaluations
from fadiff_mapper.fusion.tile_steps import LayerSteps, StepClass
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.exact.evaluate_spec import KnownLayers, shared_layer
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.network.plan.strategy_search import BestStrategies, TileEffort, compares, note_best, searched
from fadiff_mapper.network.plan.tile_constraints import ResidentTile, SumCompletion, cut_to_tile, with_residents
from fadiff_mapper.network.plan.tile_searches import (
    LAST_LAYER_STRATEGIES,
    STRATEGIES,
    TileOutcomes,
    TileShape,
    TileStrategy,
)
from fadiff_mapper.network.tilings.layer_estimate import sum_level
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec


@dataclass
class TileMemory:
    """Outcomes and prepared layers that all searches of tiles of one network on one design share.

    Attributes:
        outcomes: Outcomes of the searches made so far.
        evaluations: Exact evaluations of tiles made so far.
        layers: Whole layers prepared for evaluation, with a text that is equal for equal layers under equal
            constraints.
        shared: Constants that layers of one shape share.
        constraints: Constraints that all tiles of a layer have in common, by the layer's text, the data spaces that
            are held, and how sums are finished.
        mappings: Mappings of the tiles that groups took so far, by the identity of their outcome in `outcomes`.
    """

    outcomes: TileOutcomes = field(default_factory=dict)
    evaluations: TileEvaluations = field(default_factory=TileEvaluations)
    layers: dict[Hashable, tuple[PreparedLayer, str]] = field(default_factory=dict)
    shared: KnownLayers = field(default_factory=dict)
    constraints: dict[Hashable, Constraints] = field(default_factory=dict)
    mappings: dict[int, Mapping] = field(default_factory=dict)

    def layer(self, spec: Spec, problem: Problem) -> tuple[PreparedLayer, str]:
        """A layer prepared for evaluation, and its text.

        Args:
            spec: The layer on its design; it outlives the memory.
            problem: The layer as it stands in a group.
        """
        key = (id(spec), problem.dimensions, problem.dataspaces)
        if key not in self.layers:
            self.layers[key] = (shared_layer(replace(spec, problem=problem), self.shared),
                                repr((problem.dimensions, problem.dataspaces, spec.constraints)))
        return self.layers[key]

    def constrained(self, spec: Spec, text: str, held: tuple[ResidentTile, ...],
                    completion: SumCompletion) -> Constraints:
        """The constraints of a layer's tiles, `tile_constraints.constrained`.

        Args:
            spec: The tile on its design.
            text: Text of its layer, see `layer`.
            held: Data spaces that lie in a level while it runs.
            completion: How sums of an intermediate among them are finished.
        """
        key = (text, held, completion)
        if key not in self.constraints:
            self.constraints[key] = with_residents(spec.constraints, spec.problem, held, completion)
        return cut_to_tile(self.constraints[key], spec.problem)


@dataclass(frozen=True)
class TilePlace:
    """The memories of the design as the tiles of one layer of a group find them, with intermediates whole or not.

    Attributes:
        held: Data spaces that lie in a level while a tile runs.
        room: Words that are left for it.
    """

    held: tuple[ResidentTile, ...]
    room: Room


def with_mappings(hardware: Hardware, groups: Sequence[FusedGroup], specs: Sequence[Sequence[Spec]],
                  sums: tuple[float, float], effort: TileEffort,
                  stopped: Callable[[], bool] = lambda: False,
                  known: BestStrategies | None = None, memory: TileMemory | None = None) -> list[FusedGroup | None]:
    """Searches mappings for all tiles of some groups, side by side.

    Args:
        hardware: The design.
        groups: Groups without mappings.
        specs: Spec of every layer of every group, for its constraints.
        sums: Energy and cycles of the network; tiles minimise their share in both (see `MappingTask`).
        effort: Effort of the searches.
        stopped: Asked again and again; once true, the searches end with what they have.
        known: Strategies to begin with; those that a thorough search finds best are added.
        memory: Searches made before, which are not made again; new ones are added.

    Returns:
        The groups with the best mapping for every tile of every layer, None where some tile has no legal one.
    """
    memory = TileMemory() if memory is None else memory
    known = {} if known is None else known
    wanted = [_tile_shapes(hardware, group, own, sums, memory) for group, own in zip(groups, specs, strict=True)]
    tiles = [tile for group in wanted for tile in group]
    outcomes = searched(tiles, effort, stopped, known, memory.outcomes)
    compared = [pair for pair in zip(tiles, outcomes, strict=True) if compares(pair[0], effort, known)]
    note_best(compared, known)
    found = iter(outcomes)
    result = []
    for group, tiles in zip(groups, wanted, strict=True):
        mappings = {(tile.index, tile.shape): _best(tile, next(found).values(), memory.mappings) for tile in tiles}
        result.append(None if None in mappings.values() else replace(group, layers=tuple(
            replace(layer, mappings={shape: mapping for (number, shape), mapping in mappings.items()
                                     if number == index and mapping})
            for index, layer in enumerate(group.layers))))
    return result


def _layer_key(group: FusedGroup, index: int) -> str:
    """Equal for layers whose tiles have the same best strategy: the same problem at the same kind of place."""
    problem = group.layers[index].problem
    return f"{problem.name} {list(problem.bounds.values())} {index > 0} {index < len(group.links)}"


def strategies_known(group: FusedGroup, known: BestStrategies) -> bool:
    """Whether the best strategies of all layers of a group are known, so that comparing them would find nothing new.

    Args:
        group: The group.
        known: The best strategies so far.
    """
    return all(_layer_key(group, index) in known for index in range(len(group.layers)))


def _best(tile: TileShape, outcomes: Iterable[SearchOutcome], known: dict[int, Mapping]) -> Mapping | None:
    """The best legal mapping of a tile, or None; `known`: mappings by their outcome, which take up a new one."""
    legal = [outcome for outcome in outcomes if outcome.legal]
    if not legal:
        return None
    best = min(legal, key=lambda outcome: outcome.value)
    if id(best) not in known:
        problem = tile.spec.problem.resized(tile.shape)
        known[id(best)] = with_reuse(_kept_outermost(unpack(best.nest, 0, problem), problem), tile.spec.constraints)
    return known[id(best)]


def _kept_outermost(mapping: Mapping, problem: Problem) -> Mapping:
    """The mapping with every data space kept in the outermost level, from where `timeloop-model` starts."""
    outermost: LevelMapping = mapping.levels[-1]
    return Mapping((*mapping.levels[:-1], replace(outermost, keep=frozenset(problem.dataspace_names()))))


def _tile_shapes(hardware: Hardware, group: FusedGroup, specs: Sequence[Spec],
                 sums: tuple[float, float], memory: TileMemory) -> list[TileShape]:
    """All shapes of tiles of a group with their searches, layer by layer; `memory` takes up whole layers."""
    tiles = []
    all_steps = layer_steps(group)
    all_classes = [step_classes(group, layer, steps) for layer, steps in zip(group.layers, all_steps, strict=True)]
    rooms_of = _rooms(hardware, group, specs[-1], all_steps, all_classes[-1])
    for index, (layer, classes, design) in enumerate(zip(group.layers, all_classes, specs, strict=True)):
        spec = replace(design, problem=layer.problem)
        places = _places(hardware, group, index, spec, _goes_on(group, classes), rooms_of[index])
        prepared, text = memory.layer(design, layer.problem)
        for shape in dict.fromkeys(step.shape for step in classes):
            problem = layer.problem.resized(shape)
            tiles.append(TileShape(
                index, shape, spec, _layer_key(group, index),
                (text, shape, sums, *(place.held for place in places.values())), tuple(rooms_of[index]),
                tuple(_fitting(hardware, spec, problem, index < len(group.links), places, rooms_of[index])),
                partial(_tile_task, spec, problem, prepared, text, places, sums, memory),
                partial(_fits, prepared, places)))
    return tiles


def _places(hardware: Hardware, group: FusedGroup, index: int, spec: Spec, goes_on: bool,
            rooms: Sequence[float]) -> dict[bool, TilePlace]:
    """What the tiles of a layer find in the memories, by whether they have intermediates whole at once."""
    places = {}
    for whole in (True, False):
        held = tuple(held_spaces(hardware, group, index, spec, goes_on, whole))
        lying = {(resident.level, resident.space) for resident in held if not resident.apart}
        counted = [[(level, name) not in lying for name in spec.problem.dataspace_names()]
                   for level in range(len(rooms))]
        places[whole] = TilePlace(held, Room(np.array(rooms), np.array(counted)))
    return places


def _fitting(hardware: Hardware, spec: Spec, problem: Problem, writes_intermediate: bool,
             places: AnyMapping[bool, TilePlace], rooms: Sequence[float]) -> Iterator[TileStrategy]:
    """The strategies that could fit a tile, `problem`, of a layer."""
    for strategy in STRATEGIES if writes_intermediate else LAST_LAYER_STRATEGIES:
        if not writes_intermediate or _room_to_finish(hardware, spec, problem, places[strategy.whole].held,
                                                      strategy.completion, rooms):
            yield strategy


def _tile_task(spec: Spec, problem: Problem, layer: PreparedLayer, text: str, places: AnyMapping[bool, TilePlace],
               sums: tuple[float, float], memory: TileMemory, strategy: TileStrategy,
               room: tuple[float, ...]) -> MappingTask:
    """The search of a tile, `problem`, of a layer with one strategy in some room, words of every level."""
    tile, place = replace(spec, problem=problem), places[strategy.whole]
    return mapping_task(tile, memory.constrained(tile, text, place.held, strategy.completion),
                        room=replace(place.room, words=np.array(room)), sums=sums, layer=layer.resized(problem))


def _fits(layer: PreparedLayer, places: AnyMapping[bool, TilePlace], strategy: TileStrategy, nest: Nest) -> bool:
    """Whether a mapping of a tile of a layer, a nest of one row, runs in the room that the tile finds."""
    room = places[strategy.whole].room
    return bool(score(layer, nest, room=Room(room.words[:, None], room.counted[..., None])).legal[0])


def _room_to_finish(hardware: Hardware, spec: Spec, problem: Problem, held: Sequence[ResidentTile],
                    completion: SumCompletion, rooms: Sequence[float]) -> bool:
    """Whether an intermediate could be finished so: all its sums fit at once, or all operands of one sum do."""
    home = next(resident.level for resident in held if resident.space == problem.output.name)
    summed = set(problem.dimensions) - problem.output.dimensions
    if completion is SumCompletion.TOGETHER:
        level = hardware.arch.levels[sum_level(spec)]
        return level.usable is None or problem.tensor_size(problem.output) <= level.usable * level.instances
    if completion is SumCompletion.INSIDE:
        lying = {resident.space for resident in held}
        passing = [space for space in problem.dataspaces if space.name not in lying]
        tile = {dim: extent if dim in summed else 1 for dim, extent in problem.bounds.items()}
        return sum(prod(space.tile_extents(tile)) for space in passing) <= rooms[home]
    return True


def held_spaces(hardware: Hardware, group: FusedGroup, index: int, spec: Spec, goes_on: bool,
                whole: bool) -> list[ResidentTile]:
    """Lists the data spaces of a layer that lie in a level while its tile runs.

    Args:
        hardware: The design.
        group: The group.
        index: The layer.
        spec: The layer on its design.
        goes_on: Whether its sums stay from one step to another.
        whole: Whether intermediates are there whole at once.
    """
    layer = group.layers[index]
    held = [ResidentTile(name, hardware.level(stay.level)) for name, stay in layer.operands.items()]
    if index:
        before = group.links[index - 1]
        held.append(ResidentTile(before.tensor, hardware.level(before.stay.level), whole=whole, apart=before.beside))
    output = layer.problem.output.name
    if index < len(group.links):
        after = group.links[index]
        held.append(ResidentTile(output, hardware.level(after.stay.level), after.written_whole, whole))
    elif goes_on:
        held.append(ResidentTile(output, sum_level(spec)))
    return held


def _rooms(hardware: Hardware, group: FusedGroup, last: Spec, all_steps: Sequence[LayerSteps],
           last_classes: Iterable[StepClass]) -> list[list[float]]:
    """For each layer the words of every level that are left for its tile, beside all that lies there while it runs.

    Sums of the last layer that go on take room from the others, as if they were spread over all instances.
    """
    rooms: list[list[float]] = [[] for _ in group.layers]
    for level in hardware.arch.levels:
        for left, words in zip(rooms, resident_words(group, all_steps, level.name), strict=True):
            left.append(inf if level.usable is None else max(level.usable - words, 0.0))
    if _goes_on(group, last_classes):
        sums_at, problem = sum_level(last), group.layers[-1].problem
        sums = max(problem.resized(step.shape).tensor_size(problem.output) for step in last_classes)
        for left in rooms[:-1]:
            left[sums_at] = max(left[sums_at] - ceil(sums / hardware.arch.levels[sums_at].instances), 0.0)
    return rooms


def _goes_on(group: FusedGroup, classes: Iterable[StepClass]) -> bool:
    """Whether sums of a layer stay from one step to another."""
    return not group.spilled and any(not (step.first_sum and step.last_sum) for step in classes)
