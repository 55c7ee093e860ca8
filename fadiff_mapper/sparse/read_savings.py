"""Gating and skipping of accesses: the probability that the tensors that are looked at are empty.

An access to a tile of the target is saved where the part of a leader that is needed during the tile's stay in the
next level inwards holds no nonzero. The loops between both levels decide about this part.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fadiff_mapper.base.errors import InvalidMapping
from fadiff_mapper.sparse.complete_nest import NestLoop, Points, box_of
from fadiff_mapper.sparse.sparse_layer import SparseLayer
from fadiff_mapper.spec.sparse_optimizations import Choice, ConditionedAccess

GATED, SKIPPED = "gated", "skipped"


@dataclass(frozen=True)
class Saving:
    """Accesses of a data space that a level saves.

    Attributes:
        kind: `GATED` or `SKIPPED`.
        probability: Share of the accesses.
    """

    kind: str
    probability: float


@dataclass(frozen=True)
class _Option:
    """The effect of one option.

    Attributes:
        level: The level whose accesses are saved.
        target: Index of the data space.
        probability: Share of its accesses that are saved.
        worth: pJ that Timeloop expects to be saved per tile.
    """

    level: int
    target: int
    probability: float
    worth: float


def read_savings(layer: SparseLayer) -> dict[tuple[int, int], Saving]:
    """The savings of all levels, gating before skipping, inner levels before outer ones.

    Where several options save accesses of the same tile, the most probable one counts, of equal ones the first.

    Args:
        layer: The mapping with its tiles and occupancies.

    Returns:
        Saving by (level, data space).

    Raises:
        InvalidMapping: A target is stored nowhere at the level or further out.
    """
    savings: dict[tuple[int, int], Saving] = {}
    for kind, choices in ((GATED, [level.gating for level in layer.sparse.levels]),
                          (SKIPPED, [level.skipping for level in layer.sparse.levels])):
        for level, groups in enumerate(choices):
            for group in groups:
                best = _best(group, level, layer)
                place = (best.level, best.target)
                if place not in savings or savings[place].probability < best.probability:
                    savings[place] = Saving(kind, best.probability)
    return savings


def _best(group: Choice, level: int, layer: SparseLayer) -> _Option:
    """The option that saves most energy; of equal ones the last, as in Timeloop."""
    best: _Option | None = None
    for choice in group:
        option = _effect(choice, level, layer)
        if option.worth >= (best.worth if best else 0) or best is None:
            best = option
    assert best is not None
    return best


def _effect(choice: ConditionedAccess, level: int, layer: SparseLayer) -> _Option:
    target = layer.problem.dataspace_names().index(choice.target)
    column = layer.columns[target]
    source = next((other for other in range(level, len(layer.nest)) if other in column), None)
    if source is None:
        raise InvalidMapping(layer.arch.levels[level].name, f"skipping/gating for {choice.target}does not have a "
                             f"source storage for datastreams{layer.arch.levels[level].name}")
    window = _window(source, target, layer)
    effectual = 1.0
    for name in choice.conditions:
        leader = layer.problem.dataspace_names().index(name)
        points = _leader_points(window, source, target, leader, layer)
        if points is not None:
            effectual *= 1 - layer.models[leader].empty(box_of(layer.ranks[leader], points))
    probability = 1 - effectual
    return _Option(source, target, probability, _worth(source, target, probability, layer))


def _worth(source: int, target: int, probability: float, layer: SparseLayer) -> float:
    """pJ per tile that the option saves: data, and the metadata that goes inwards, in words of data."""
    column, hardware = layer.columns[target], layer.arch.levels[source]
    child = column[source].child
    # Timeloop divides whole numbers: metadata that is narrower than a word counts nothing.
    ratio = hardware.metadata.word_bits // hardware.word_bits
    words = (layer.occupancies[target][source].nonzeros
             + layer.occupancies[target][source if child is None else child].metadata_units * ratio)
    return layer.read_energy(source) / hardware.block_size * words * probability


@dataclass(frozen=True)
class _LeaderWindow:
    """The part of the iterations during which a tile of the target stays where it is.

    Attributes:
        loop: The loop whose iterations bring new words of the target.
        target: Points of the target's tile.
        leader: Points over which a leader is looked at.
        loops: The target loop, and the loops outside it that widen the part looked at.
        scalar: Whether it is a single iteration, as at the innermost level.
    """

    loop: NestLoop
    target: Points
    leader: Points
    loops: tuple[NestLoop, ...]
    scalar: bool


def _window(source: int, target: int, layer: SparseLayer) -> _LeaderWindow:
    """Finds the target loop, and the part of the nest that is looked at.

    Spatial loops outside the target loop widen the part, as their instances work at the same time. For a spatial
    target loop the temporal loops up to the next one that moves the target widen it, too: the tile stays during them.
    """
    column = layer.columns[target]
    child = column[source].child
    moved = layer.dims[target]
    loop, position, scalar = _target_loop(source, child, target, layer)
    one = (1,) * len(loop.points)
    points = one if scalar else loop.points
    looked_at = list(points)
    loops = [loop]
    stays = loop.spatial
    for level in range(position[0], source + 1):
        for outer in layer.nest[level][position[1] + 1 if level == position[0] else 0:]:
            if outer.trivial:
                continue
            moves = child is None or outer.dim in moved
            if outer.spatial or (stays and not moves):
                looked_at[outer.dim] *= outer.bound
                loops.append(outer)
            if stays and not outer.spatial and moves:
                stays = False
    return _LeaderWindow(loop, points, tuple(looked_at), tuple(loops), scalar)


def _target_loop(source: int, child: int | None, target: int,
                 layer: SparseLayer) -> tuple[NestLoop, tuple[int, int], bool]:
    """The loop, its (level, number), and whether the part looked at is a single iteration.

    Between two memories the innermost loop that moves the target counts, else the outermost loop of all. Above the
    arithmetic, where nothing stays, the last spatial loop counts, or an earlier one that moves the target; without
    spatial loops each iteration counts by itself.
    """
    moved = layer.dims[target]
    if child is None:
        loops = layer.nest[0]
        for number, loop in enumerate(loops):
            last_spatial = number + 1 == len(loops) or not loops[number + 1].spatial
            if last_spatial or (loop.dim in moved and not loop.trivial):
                return loop, (0, number), last_spatial and not loop.spatial
    for level in range(0 if child is None else child + 1, source + 1):
        for number, loop in enumerate(layer.nest[level]):
            if not loop.trivial and loop.dim in moved:
                return loop, (level, number), False
    return layer.nest[source][-1], (source, len(layer.nest[source]) - 1), False


def _leader_points(window: _LeaderWindow, source: int, target: int, leader: int, layer: SparseLayer) -> Points | None:
    """The points over which one leader is looked at; None where the option is without effect for it.

    Loops that move target and leader alike (co-iterated ones) narrow the part to one of their iterations, or to as
    many as a block of the target's memory takes. A leader that moves in a loop outside a co-iterated spatial one
    would have to be read in another order, which saves nothing.
    """
    factors: dict[int, float] = {}
    together = 1.0
    for loop in () if window.scalar else window.loops:
        if window.loop.spatial and factors and loop.dim in layer.dims[leader]:
            return None
        if loop.dim in layer.dims[target] & layer.dims[leader]:
            factors[loop.dim] = factors.get(loop.dim, 1.0) * loop.bound
            together *= loop.bound
    points = list(window.leader)
    words = math.prod(box_of(layer.ranks[target], window.target))
    scaling = float(math.ceil(layer.arch.levels[source].block_size / (words / together)))
    for dim, factor in sorted(factors.items()):
        points[dim] = math.ceil(points[dim] / (factor / scaling))
        scaling = scaling / factor
    if scaling > 1:
        points[window.loop.dim] = int(points[window.loop.dim] * scaling)
    return tuple(points)
