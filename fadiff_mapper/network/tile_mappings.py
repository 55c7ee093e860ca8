"""Mappings for the tiles of fused groups: each tile is a problem of its own, in a map space that keeps the group legal.

Problem. Every shape of tile of every layer needs an exact mapping that Timeloop accepts, that leaves the resident
tensors of the group in place, and that finishes the sums of an intermediate before the next layer reads it. A search
that is only told of violations (`fusion.group_legality`) would mostly draw illegal mappings.

Constraints. The search of layers (`search.search_many`) runs on tiles, with additional constraints of Timeloop's own
kinds (keep, bypass, fixed factors, loop order). A tensor that stays in its home level is bypassed outside of it, and no
temporal loop outside moves it. Loops that add to an intermediate are inside its home, or directly outside as the
innermost ones. The words of other tensors are taken from the room of each level. In the resulting mapping the outermost
level keeps every data space again, so that `timeloop-model` runs it as it is.

Strategies. There are several ways to finish an intermediate, none of which is always best: all sums at once, each sum
inside the home level, or in turn. Searching every tile in all ways takes three times as long, and one way is best for
nearly all tiles of a layer. A comparison searches all strategies of a layer and records the best. From then on tiles of
the layer are searched with the best strategy, and before any comparison with the first one; other strategies are
searched only if this one has no legal mapping.

Proofs. After the first rounds of a search a short proof (`search.lower_bound.proof`) finds the best mapping of most
tiles; where it leaves a wide gap, or no proof is possible, the search goes on.

Candidates share many tiles, so every outcome is kept until the run ends. It depends on the tile only, so that a resumed
run finds the same plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from math import ceil, inf, prod

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion import FusedGroup, Hardware, layer_steps, step_classes
from fadiff_mapper.fusion.estimates import sum_level
from fadiff_mapper.fusion.fused_group import sums_rest
from fadiff_mapper.fusion.group_cost import TileEvaluations
from fadiff_mapper.fusion.tile_steps import resident_words, space_of
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import KnownLayers, shared_layer
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.search.best_so_far import SearchOutcome
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.options import Effort, SearchOptions
from fadiff_mapper.search.search_many import search_all

SEARCH = SearchOptions(effort=Effort(chains=40, rounds=60, rounds_least=1, chains_agreeing=8, extra_rounds=0,
                                     resplit_rate=0.0, proof=20_000, rounds_before_proof=2, proof_enough=0.1))
"""Options of the search of a tile, set by hand: nearly all proofs take less than a tenth of this budget from any first
mapping; without a proof, shorter searches miss the best mappings of hard tiles."""


class TileStrategy(Enum):
    """How a tile treats the intermediates that it reads and writes; of equally good ones the first wins.

    Attributes:
        whole: Whether whole intermediates of the tile lie in their level at once, or pass through it in pieces.
        sums: How the sums of the written intermediate are finished, inside the home or, if sums may rest there, in it.
            "together": all sums of the tile are kept until all are finished. "inside": all operands of a sum are in
            the home at once. "in turn": one part after the other is finished, by the innermost loops outside the home.
    """

    WHOLE_AND_TOGETHER = (True, "together")
    WHOLE_FROM_INSIDE = (True, "inside")
    PIECES_FROM_INSIDE = (False, "inside")
    PIECES_IN_TURN = (False, "in turn")

    def __init__(self, whole: bool, sums: str):
        self.whole = whole
        self.sums = sums


@dataclass(frozen=True)
class ResidentTile:
    """A data space that lies in a level while a tile runs."""

    space: str  # name of the data space
    level: int  # index of the level
    outside: bool = False  # whether levels outside may keep it too
    handed: bool = False  # whether it is an intermediate, which `TileStrategy` may split into pieces
    # whether it arrives with the tile, as the output of overlapping pools does, and so takes additional room
    apart: bool = False
    partial: bool = False  # whether it is partial sums from an earlier step, which this tile adds to
    resting: bool = False   # whether its unfinished sums may rest in the level while the tile runs
    # factors by which instances divide it: index of a level, dimension of the layer, factor; empty: a single instance
    shares: tuple[tuple[int, str, int], ...] = ()


TileOutcomes = dict[tuple[Hashable, TileStrategy], "SearchOutcome | None"]
"""Outcomes of searches, without histories, by `TileShape.key` and strategy; None where the constraints of a tile allow
no mapping."""


@dataclass
class TileMemory:
    """Shared results of all searches of tiles of one network on one design, all with the same options."""

    # name of the best strategy of each layer, by `TileShape.layer`, where they have been compared
    strategies: dict[str, str] = field(default_factory=dict)
    outcomes: TileOutcomes = field(default_factory=dict)  # outcomes of the searches made so far
    evaluations: TileEvaluations = field(default_factory=TileEvaluations)  # exact evaluations of tiles made so far
    # whole layers prepared for evaluation, each with a text that equal layers under equal constraints share
    layers: dict[Hashable, tuple[PreparedLayer, str]] = field(default_factory=dict)
    shared: KnownLayers = field(default_factory=dict)  # constants that layers of one shape share
    # constraints that all tiles of a layer have in common, by the layer's text, the resident data spaces, and the
    # strategy
    constraints: dict[Hashable, Constraints] = field(default_factory=dict)
    # mappings of the tiles that groups took so far, by the identity of their outcome in `outcomes`
    mappings: dict[int, LayerMapping] = field(default_factory=dict)

    def layer(self, spec: Spec, problem: Problem) -> tuple[PreparedLayer, str]:
        """A layer prepared for evaluation, and its text; `spec` must outlive the memory, `problem` is as in a group."""
        key = (id(spec), problem.dimensions, problem.dataspaces)
        if key not in self.layers:
            self.layers[key] = (shared_layer(replace(spec, problem=problem), self.shared),
                                repr((problem.dimensions, problem.dataspaces, spec.constraints)))
        return self.layers[key]

    def constrained(self, tile: Spec, text: str, held: tuple[ResidentTile, ...], strategy: TileStrategy) -> Constraints:
        """The constraints of a tile with its resident data spaces; `text`: the text of its layer."""
        key = (text, held, strategy)
        if key not in self.constraints:
            self.constraints[key] = with_residents(tile.constraints, tile.problem, held, strategy)
        return cut_to_tile(self.constraints[key], tile.problem)


@dataclass(frozen=True)
class TileShape:
    """A shape of tile of a layer, and the searches that may find its mapping."""

    index: int  # position of the layer in its group
    shape: tuple[int, ...]  # extents of the tile, in the order of the layer's dimensions
    spec: Spec  # the tile on its design
    layer: str  # key of layers whose tiles share the best strategy
    key: Hashable  # key of tiles with equal searches
    room: tuple[float, ...]  # words of every level that are left for the tile, innermost level first
    strategies: tuple[TileStrategy, ...]  # the strategies that could fit
    held: tuple[ResidentTile, ...]  # the data spaces that lie in a level while the tile runs
    sums: tuple[float, float]  # energy and cycles of the network; the tile minimises its share in both
    prepared: tuple[PreparedLayer, str]  # the whole layer prepared for evaluation, and its text

    def task(self, strategy: TileStrategy, memory: TileMemory) -> MappingTask:
        """The search of the tile with one strategy."""
        layer, text = self.prepared
        # a resident data space takes no further words of its level
        lying = {(resident.level, resident.space) for resident in self.held if not resident.apart}
        counted = np.array([[(level, name) not in lying for name in self.spec.problem.dataspace_names()]
                            for level in range(len(self.room))])
        return mapping_task(self.spec, memory.constrained(self.spec, text, self.held, strategy),
                            room=Room(np.array(self.room), counted), sums=self.sums,
                            layer=layer.resized(self.spec.problem))


def with_mappings(hardware: Hardware, groups: Sequence[FusedGroup], specs: Sequence[Sequence[Spec]],
                  sums: tuple[float, float], options: SearchOptions = SEARCH, *, compared: bool = False,
                  stopped: Over = never, memory: TileMemory | None = None) -> list[FusedGroup | None]:
    """Searches mappings for all tiles of some groups, side by side; each minimises its share in the network's sums.

    Args:
        hardware: The design.
        groups: Groups without mappings.
        specs: Spec of every layer of every group, for its constraints.
        sums: Energy and cycles of the network.
        options: Options of the searches.
        compared: Whether layers without a known best strategy are searched with all strategies.
        stopped: Asked again and again; once true, the searches end with their best mappings so far.
        memory: Outcomes of earlier searches, which are reused, and best strategies, which are tried first; new ones are
            added.

    Returns:
        The groups with the best mapping for every tile of every layer, None where some tile has no legal one.
    """
    memory = TileMemory() if memory is None else memory
    wanted = [_tile_shapes(hardware, group, own, sums, memory) for group, own in zip(groups, specs, strict=True)]
    found = iter(_searched([tile for group in wanted for tile in group], options, compared, stopped, memory))
    result = []
    for group, tiles in zip(groups, wanted, strict=True):
        mappings = [_best(tile, next(found).values(), memory.mappings) for tile in tiles]
        result.append(None if None in mappings else replace(group, layers=tuple(
            replace(layer, mappings={tile.shape: mapping for tile, mapping in zip(tiles, mappings, strict=True)
                                     if mapping and tile.index == index})
            for index, layer in enumerate(group.layers))))
    return result


def strategies_known(group: FusedGroup, known: Mapping[str, str]) -> bool:
    """Whether the best strategies of all layers of a group are known, so that comparing them would find nothing new."""
    return all(_layer_key(group, index) in known for index in range(len(group.layers)))


def _layer_key(group: FusedGroup, index: int) -> str:
    """The key of layers whose tiles share the best strategy: same problem, same neighbours in the group or none."""
    problem = group.layers[index].problem
    return (f"{problem.name} {list(problem.bounds.values())} {bool(group.into(index))} "
            f"{bool(group.output_home(index))}")


def _best(tile: TileShape, outcomes: Iterable[SearchOutcome], known: dict[int, LayerMapping]) -> LayerMapping | None:
    """The best legal mapping of a tile, or None, with every data space kept in the outermost level.

    `known`: mappings by the identity of their outcome; a new mapping is added.
    """
    legal = [outcome for outcome in outcomes if outcome.legal]
    if not legal:
        return None
    best, problem = min(legal, key=lambda outcome: outcome.value), tile.spec.problem
    if id(best) not in known:
        *inner, outermost = unpack(best.nest, 0, problem).levels
        mapping = LayerMapping((*inner, replace(outermost, keep=frozenset(problem.dataspace_names()))))
        known[id(best)] = with_reuse(mapping, tile.spec.constraints)
    return known[id(best)]


def _searched(tiles: Sequence[TileShape], options: SearchOptions, compared: bool, stopped: Over,
              memory: TileMemory) -> list[dict[TileStrategy, SearchOutcome]]:
    """Searches some tiles side by side; records the best strategies of layers that are compared.

    Returns:
        For every tile the outcomes by strategy: of all strategies if they are compared, else of one, and of the others
        only where that one has no legal mapping.
    """
    found: list[dict[TileStrategy, SearchOutcome]] = [{} for _ in tiles]
    known = memory.strategies

    def search(wanted: Sequence[Sequence[TileStrategy]]) -> None:
        pairs = [(own, tile, strategy) for own, tile, strategies in zip(found, tiles, wanted, strict=True)
                 for strategy in strategies]
        outcomes = tile_outcomes([(tile, strategy) for _, tile, strategy in pairs], options, stopped, memory)
        for (own, _, strategy), outcome in zip(pairs, outcomes, strict=True):
            if outcome is not None:
                own[strategy] = outcome

    every_way = [compared and tile.layer not in known for tile in tiles]
    # first the best known strategy if it could fit, else the first one that could; none where none could
    first = [([strategy for strategy in tile.strategies if strategy.name == known.get(tile.layer)]
              or list(tile.strategies))[:1] for tile in tiles]
    search([tile.strategies if every else begun for tile, every, begun in zip(tiles, every_way, first, strict=True)])
    search([[] if any(outcome.legal for outcome in own.values()) else [strategy for strategy in tile.strategies
                                                                       if strategy not in own]
            for tile, own in zip(tiles, found, strict=True)])
    compared_tiles = [(tile, own) for tile, own, every in zip(tiles, found, every_way, strict=True) if every]
    for tile, own in sorted(compared_tiles, key=lambda pair: prod(pair[0].shape)):  # the largest tile decides
        if any(outcome.legal for outcome in own.values()):
            known[tile.layer] = min(own.items(), key=lambda pair: round(pair[1].value, 6))[0].name
    return found


def tile_outcomes(wanted: Sequence[tuple[TileShape, TileStrategy]], options: SearchOptions, stopped: Over,
                  memory: TileMemory) -> list[SearchOutcome | None]:
    """Outcomes of the search of tiles, each with one strategy; None where the constraints of a tile allow no mapping.

    Outcomes in `memory` are reused; new ones are added.
    """
    known = memory.outcomes
    every = {(tile.key, strategy): (tile, strategy) for tile, strategy in wanted}
    new = {key: tile.task(strategy, memory) for key, (tile, strategy) in every.items() if key not in known}
    # A tile may contradict constraints that its layer meets, such as a fixed factor of a dimension that it cuts.
    tasks = {key: task for key, task in new.items() if not task.impossible}
    outcomes = search_all(list(tasks.values()), options, stopped=stopped)
    known.update(dict.fromkeys(new))
    known.update(zip(tasks, (replace(outcome, history=()) for outcome in outcomes), strict=True))
    return [known[tile.key, strategy] for tile, strategy in wanted]


def _tile_shapes(hardware: Hardware, group: FusedGroup, specs: Sequence[Spec],
                 sums: tuple[float, float], memory: TileMemory) -> list[TileShape]:
    """All shapes of tiles of a group with their searches, layer by layer; `memory` takes up whole layers."""
    tiles = []
    all_steps = layer_steps(group)
    all_classes = [step_classes(group, layer, steps) for layer, steps in zip(group.layers, all_steps, strict=True)]
    # level on the chip that holds partial sums of each layer between steps; None: no such sums
    sums_at = [(hardware.level(group.sums) if group.sums else sum_level(spec.constraints, spec.problem.output.name))
               if group.sums != hardware.arch.level_names()[-1] and any(step.shares_sums for step in classes) else None
               for classes, spec in zip(all_classes, specs, strict=True)]
    # words of every level that resident tensors leave to each layer's tile
    rooms: list[list[float]] = [[] for _ in group.layers]
    for level in hardware.arch.levels:
        for left, words in zip(rooms, resident_words(group, all_steps, level), strict=True):
            times = 2 if level.name in group.double_buffered else 1
            left.append(inf if level.usable is None else max(level.usable - words, 0.0) / times)
    if (at := sums_at[-1]) is not None and not group.sums:
        # partial sums of the last layer take room from other layers, counted as spread evenly over all instances
        problem = group.layers[-1].problem
        largest = max(problem.resized(step.shape).tensor_size(problem.output) for step in all_classes[-1])
        for left in rooms[:-1]:
            left[at] = max(left[at] - ceil(largest / hardware.arch.levels[at].instances), 0.0)
    for index, (layer, design, room) in enumerate(zip(group.layers, specs, rooms, strict=True)):
        held, prepared = tuple(held_spaces(hardware, group, index, sums_at[index])), memory.layer(design, layer.problem)
        for shape in dict.fromkeys(step.shape for step in all_classes[index]):
            tile = replace(design, problem=layer.problem.resized(shape))
            strategies: Sequence[TileStrategy] = (TileStrategy.WHOLE_FROM_INSIDE, TileStrategy.PIECES_FROM_INSIDE)
            if group.output_home(index):    # else the tile writes no intermediate, and its sums are free
                strategies = [strategy for strategy in TileStrategy
                              if _room_to_finish(hardware, tile, held, strategy, room)]
            tiles.append(TileShape(index, shape, tile, _layer_key(group, index),
                                   (prepared[1], shape, sums, held, *room), tuple(room), tuple(strategies), held, sums,
                                   prepared))
    return tiles


def _room_to_finish(hardware: Hardware, tile: Spec, held: Sequence[ResidentTile], strategy: TileStrategy,
                    room: Sequence[float]) -> bool:
    """Whether a strategy could finish an intermediate: all its sums fit at once, or all operands of one sum do."""
    problem = tile.problem
    output = next(resident for resident in held if resident.space == problem.output.name)
    if strategy.sums == "together" and not output.resting:
        level = hardware.arch.levels[sum_level(tile.constraints, problem.output.name)]
        return level.usable is None or problem.tensor_size(problem.output) <= level.usable * level.instances
    if strategy.sums == "inside":
        lying = {resident.space for resident in held}
        one_sum = {dim: 1 if dim in problem.output.dimensions else extent for dim, extent in problem.bounds.items()}
        return sum(prod(space.tile_extents(one_sum)) for space in problem.dataspaces
                   if space.name not in lying) <= room[output.level]
    return True


def held_spaces(hardware: Hardware, group: FusedGroup, index: int, sums_at: int | None) -> list[ResidentTile]:
    """The data spaces of a layer that lie in a level while its tile runs.

    `sums_at`: the level on the chip that holds its partial sums between steps; None where there are none.
    """
    layer = group.layers[index]
    held = [ResidentTile(name, hardware.level(stay.level)) for name, stay in layer.operands.items()]
    held += [ResidentTile(link.tensor, hardware.level(link.stay.level), handed=True, apart=link.beside,
                          shares=tuple((hardware.level(level), link.dims[dim], number)
                                       for level, dim, number in link.stay.shares))
             for link in group.into(index)]
    output, onwards = layer.problem.output.name, group.links[index:index + 1]
    if at := group.output_home(index):
        held.append(ResidentTile(output, hardware.level(at), any(link.written_whole for link in onwards), handed=True,
                                 resting=sums_rest(hardware, group, index),
                                 shares=tuple((hardware.level(level), dim, number) for link in onwards
                                              for level, dim, number in link.stay.shares)))
    elif sums_at is not None:
        held.append(ResidentTile(output, sums_at, outside=bool(group.sums), partial=bool(group.sums)))
    return held


def with_residents(constraints: Constraints, problem: Problem, held: Sequence[ResidentTile],
                   strategy: TileStrategy) -> Constraints:
    """The constraints of a design and of the resident data spaces, which all tiles of a layer share; only the
    dimensions of the problem matter, not its bounds."""
    levels = list(constraints.levels)
    for resident in held:
        home = resident.level
        levels = list(held_at(replace(constraints, levels=tuple(levels)), home,
                              {resident.space: resident.outside}).levels)
        whole = strategy.whole or not resident.handed or resident.shares
        moving = space_of(problem, resident.space).dimensions if whole else frozenset()
        for index in range(home + 1, len(levels)):
            levels[index] = replace(levels[index], temporal=_ones(levels[index].temporal, moving))
            if resident.shares:     # with other loops several instances would hold or add to the same words
                levels[index] = replace(levels[index], spatial=_ones(levels[index].spatial, problem.dimensions))
        for index, dim, number in resident.shares:
            loops = levels[index].spatial
            levels[index] = replace(levels[index], spatial=replace(loops, fixed=loops.fixed | {dim: number}))
        if resident.space == problem.output.name and not resident.partial and home + 1 < len(levels):
            levels = _finished(levels, constraints, problem, resident, strategy)
    return replace(constraints, levels=tuple(levels))


def held_at(constraints: Constraints, home: int, handed: Mapping[str, bool]) -> Constraints:
    """Constraints that keep data spaces in a level; `handed`: by name, whether levels outside may keep it, too."""
    keeping = list(constraints.levels)
    for name, written in handed.items():
        keeping[home] = replace(keeping[home], keep=keeping[home].keep | {name},
                                bypass=keeping[home].bypass - {name})
        keeping[home + 1:] = [
            here if written else replace(here, keep=here.keep - {name}, bypass=here.bypass | {name})
            for here in keeping[home + 1:]]
    return replace(constraints, levels=tuple(keeping))


def _finished(levels: Sequence[LevelConstraints], design: Constraints, problem: Problem, resident: ResidentTile,
              strategy: TileStrategy) -> list[LevelConstraints]:
    """Constraints that finish the sums of an intermediate inside its home level, or in it where they may rest there."""
    result, output, home = list(levels), problem.output, resident.level
    summed = set(problem.dimensions) - output.dimensions
    for index in range(sum_level(design, output.name) + 1, len(result)):
        if output.name in result[index].spatial.no_reuse:   # each receiver would send its own partial sums
            result[index] = replace(result[index], spatial=_ones(result[index].spatial, summed))
    inside = not resident.resting and any(output.name not in level.bypass for level in design.levels[:home])
    for index in range(home if inside else home + 1, len(result)):
        if strategy.sums == "in turn" and index > home:
            result[index] = _innermost(result[index], problem)
        else:
            ones = summed if strategy.sums == "inside" else output.dimensions
            result[index] = replace(result[index], temporal=_ones(result[index].temporal, ones))
    return result


def _ones(loops: LoopConstraint, dims: Iterable[str]) -> LoopConstraint:
    """The loops with all factors of some dimensions fixed to 1."""
    fixed = dict.fromkeys(dims, 1)
    return replace(loops, fixed=loops.fixed | fixed,
                   minimum={dim: least for dim, least in loops.minimum.items() if dim not in fixed})


def _innermost(level: LevelConstraints, problem: Problem) -> LevelConstraints:
    """The level with reduction loops as innermost ones, and with factors 1 where the design orders loops otherwise.

    Taps come first, so that windows slide: with another loop inside of theirs each tap would fetch a whole window.
    """
    loops, summed = level.temporal, set(problem.dimensions) - problem.output.dimensions
    taps = {term.dimension for space in problem.dataspaces for rank in space.ranks if len(rank) > 1 for term in rank}
    between = sorted(summed - {*loops.inner, *loops.outer}, key=lambda dim: (dim not in taps, dim))
    misplaced = {dim for dim in loops.inner if dim not in summed} | {dim for dim in loops.outer if dim in summed}
    return replace(level, temporal=_ones(replace(loops, inner=(*loops.inner, *between)), misplaced))


def cut_to_tile(constraints: Constraints, problem: Problem) -> Constraints:
    """The constraints of a layer for a tile: factors and minima that the tile cannot have become its extents."""
    bounds = problem.bounds

    def cut(loops: LoopConstraint) -> LoopConstraint:
        return replace(loops, fixed={dim: value if bounds[dim] % value == 0 else bounds[dim]
                                     for dim, value in loops.fixed.items()},
                       minimum={dim: min(value, bounds[dim]) for dim, value in loops.minimum.items()})

    return replace(constraints, levels=tuple(replace(level, temporal=cut(level.temporal), spatial=cut(level.spatial))
                                             for level in constraints.levels))
