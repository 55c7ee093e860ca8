"""Gating and skipping: of accesses, if the tensors that decide about them (leaders) are empty, and of instances.

An access to a tile of the target (follower) is saved if the part of a leader that is needed during the tile's stay in
the next level inwards has no nonzero. The loops between both levels determine this part. Instances that would get an
empty tile are sent nothing, and spatial skipping leaves them out.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.sparse_optimizations import ConditionedAccess
from fadiff_mapper.model.sparse_tiles import NestLoop, StoredMapping

GATED, SKIPPED = 1, 2
"""Kinds of saved accesses, as positions in `sparse_design.KINDS`."""


class Option(NamedTuple):
    """The saving of one alternative of a choice."""

    level: int          # the level whose accesses are saved
    target: int         # the data space
    probability: float  # share of the accesses that is saved
    worth: float        # pJ per tile that Timeloop expects to save: data, and metadata sent inwards, in words of data


class Saving(NamedTuple):
    """Accesses of a data space that a level saves: `GATED` or `SKIPPED`, and the share of the accesses."""

    kind: int
    probability: float


def read_savings(stored: StoredMapping) -> dict[tuple[int, int], Saving]:
    """The savings of all levels, gating before skipping, inner levels before outer ones.

    Among the alternatives of one choice the one that saves most energy counts, of equal ones the last, as in Timeloop.
    If several choices save accesses of the same tile, the most probable choice counts, of equal ones the first. Returns
    the savings by (level, data space). Raises InvalidMapping if a target is stored neither at the level nor further
    out.
    """
    savings: dict[tuple[int, int], Saving] = {}
    levels = stored.design.sparse.levels
    for kind, choices in ((GATED, [level.gating for level in levels]), (SKIPPED, [level.skipping for level in levels])):
        for level, groups in enumerate(choices):
            for group in groups:
                options = [_option(choice, level, stored) for choice in group]
                best = max(reversed(options), key=lambda option: option.worth)
                at = best.level, best.target
                if at not in savings or savings[at].probability < best.probability:
                    savings[at] = Saving(kind, best.probability)
    return savings


def _option(choice: ConditionedAccess, level: int, stored: StoredMapping) -> Option:
    """One option of a choice.

    Spatial loops outside the target loop widen the leader's part, as their instances work at the same time. For a
    spatial target loop the temporal loops up to the next one that moves the target also widen it: the tile stays during
    them. Loops that move target and leader alike (co-iterated ones) narrow the part to one of their iterations, or to
    the iterations in one block of the target's memory. A leader that moves in a loop outside a co-iterated spatial loop
    would have to be read in another order, so it saves nothing.
    """
    design, names = stored.design, stored.design.layer.problem.dataspace_names()
    target = names.index(choice.target)
    source = stored.source(target, level)
    if source is None:
        name = design.layer.arch.levels[level].name
        raise InvalidMapping(name, f"skipping/gating for {choice.target}does not have a source storage for "
                                   f"datastreams{name}")
    tile, space, hardware = stored.columns[target][source], stored.spaces[target], design.layer.arch.levels[source]
    child, followed = tile.child, space.dimensions
    loop, outside, scalar = _target_loop(source, child, target, stored)
    points = dict.fromkeys(loop.points, 1) if scalar else loop.points
    window, loops, stays = dict(points), [loop], bool(loop.axis)
    for outer in outside:
        if outer.bound > 1:
            moves = child is None or outer.dim in followed
            if outer.axis or (stays and not moves):
                window[outer.dim] *= outer.bound
                loops.append(outer)
            stays = stays and (bool(outer.axis) or not moves)
    effectual, words, block = 1.0, math.prod(space.tile_extents(points)), float(design.block[source, target])
    for leader in map(names.index, choice.conditions):
        moved, factors, together = stored.spaces[leader].dimensions, dict[str, float](), 1.0
        for own in () if scalar else loops:
            if loop.axis and factors and own.dim in moved:
                break
            if own.dim in followed & moved:
                factors[own.dim] = factors.get(own.dim, 1.0) * own.bound
                together *= own.bound
        else:
            part, scaling = dict(window), float(math.ceil(block / (words / together)))
            for dim in (dim for dim in design.layer.problem.dimensions if dim in factors):
                part[dim] = math.ceil(part[dim] / (factors[dim] / scaling))
                scaling = scaling / factors[dim]
            if scaling > 1:
                part[loop.dim] = int(part[loop.dim] * scaling)
            effectual *= 1 - stored.empty(leader, part)
    # Timeloop divides whole numbers: metadata narrower than a word counts as 0.
    ratio = hardware.metadata.word_bits // hardware.word_bits
    sent = stored.columns[target][source if child is None else child]
    saved = tile.nonzeros + sent.metadata_units * ratio
    worth = design.layer.energies[source].read / block * saved * (1 - effectual)
    return Option(source, target, 1 - effectual, worth)


def _target_loop(source: int, child: int | None, target: int,
                 stored: StoredMapping) -> tuple[NestLoop, list[NestLoop], bool]:
    """The target loop, the loops outside it up to its level, and whether the leader's part is a single iteration.

    Between two memories the target loop is the innermost loop that moves the target, else the outermost of all. Above
    the arithmetic, where no tile stays, it is the last spatial loop, or an earlier loop that moves the target; without
    spatial loops each iteration counts by itself.
    """
    moved = stored.spaces[target].dimensions
    loops = [loop for level in range(0 if child is None else child + 1, source + 1) for loop in stored.loops[level]]
    if child is None:
        for number, loop in enumerate(stored.loops[0]):
            last_spatial = number + 1 == len(stored.loops[0]) or not stored.loops[0][number + 1].axis
            if last_spatial or (loop.dim in moved and loop.bound > 1):
                return loop, loops[number + 1:], last_spatial and not loop.axis
    for number, loop in enumerate(loops):
        if loop.bound > 1 and loop.dim in moved:
            return loop, loops[number + 1:], False
    return loops[-1], [], False


def sparse_usage(stored: StoredMapping,
                 spanned: np.ndarray) -> tuple[np.ndarray, np.ndarray, dict[tuple[int, int], float]]:
    """Instances in use, of those that a mapping spans [L + 1, 2]. Whole numbers are truncated at each step.

    Skipping at storage level l saves instances of unit l, the next one inwards. Returns the most instances along X and
    Y, [L + 1, T, 2], and the average ones, where empty tiles are sent nowhere, [L + 1, T], as in `SparseEvaluation`;
    and the share of the instances that spatial skipping saves, by the (storage level, data space) that skips some.
    Raises InvalidMapping for a fan-out that is too small for the instances left, FadiffError where Timeloop aborts,
    crashes, or reads beyond its tables.
    """
    design, tensors, units = stored.design, range(len(stored.columns)), range(len(spanned))
    most, names = np.repeat(spanned[:, None], len(tensors), axis=1), design.layer.problem.dataspace_names()
    share, whole = np.ones(most.shape[:2]), spanned.prod(axis=1)[:, None]
    if not design.skips_instances:
        for t in tensors:
            for level, tile in stored.columns[t].items():
                share[level + 1, t] = tile.used
        return most, whole * share, {}
    reference = most.copy()

    def splits(loop: NestLoop, t: int) -> bool:
        """Whether a loop gives instances different tiles of a data space."""
        return bool(loop.axis) and loop.bound > 1 and loop.dim in stored.spaces[t].dimensions

    def in_format(t: int, unit: int) -> bool:
        """Whether the level that sends tiles of a data space to a unit stores them in a format."""
        source = stored.source(t, unit)
        return source is not None and stored.columns[t][source].representation is not None

    def points_inside(unit: int, number: int) -> dict[str, int]:
        """The points that all loops inside loop `number` of a level span."""
        before = [loop for loops in (*stored.loops[:unit], stored.loops[unit][:number]) for loop in loops]
        return before[-1].points if before else dict.fromkeys(stored.loops[0][0].points, 1)

    def shrink(t: int, unit: int, loop: NestLoop, leader: int, points: dict[str, int]) -> None:
        """Reduces the instances of a spatial loop to the most that get a tile of the leader with a nonzero."""
        extents = stored.spaces[leader].tile_extents
        elements = design.models[leader].most_elements(
            extents(points | {loop.dim: points[loop.dim] * loop.bound}), extents(points))
        axis = "XY".index(loop.axis)
        most[unit, t, axis] = int(most[unit, t, axis] * (elements / loop.bound))

    def hand_inwards(t: int, marks: list[bool], *, settled: bool) -> None:
        """Passes savings of outer units to inner ones; in the average only up to the next marked unit."""
        for unit in reversed(units[1:]):
            if not reference[unit, t].all():
                raise FadiffError("Timeloop divides by 0 on this mapping: no instance of a level gets a tile with "
                                  "nonzeros")
            ratio = most[unit, t] / reference[unit, t]
            if (ratio != 1).any():
                if not settled:
                    reference[unit, t] = most[unit, t]
                for inner in reversed(range(unit)):
                    most[inner, t] = np.trunc(most[inner, t] * ratio)
                    if not any(marks[inner:unit]):
                        share[inner, t] *= share[unit, t]

    for t in tensors:  # instances without a tile, as the level outside knows that it would be empty
        for unit, loops in enumerate(stored.loops):
            split = [number for number, loop in enumerate(loops) if splits(loop, t)] if in_format(t, unit) else []
            for number in split:
                points = points_inside(unit, number)
                if number == split[0]:
                    share[unit, t] = 1.0 - stored.empty(t, points)
                shrink(t, unit, loops[number], t, points)
        hand_inwards(t, (share[:, t] != 1).tolist(), settled=False)
    skips = set()
    for level, options in enumerate(design.sparse.levels):
        for (choice,) in options.spatial_skipping:
            target, loops, walked, shares = names.index(choice.target), stored.loops[level], 0, dict[int, float]()
            skips.add((level, target))
            for leader in map(names.index, choice.conditions):
                if not in_format(leader, level):
                    continue
                for number, loop in enumerate(loops):
                    if not splits(loop, leader):
                        continue
                    # Timeloop numbers the loops on from one leader to the next, so that a later one is looked at over
                    # the whole tile of the level.
                    if walked + number > len(loops):
                        raise FadiffError("Timeloop reads beyond its tables on this mapping: spatial skipping on "
                                          "several conditions, of which a later one moves in a spatial loop")
                    points = _widened_while_stationary(stored, target, leader, level, loop,
                                                       points_inside(level, walked + number))
                    shares.setdefault(leader, 1 - stored.empty(leader, points))
                    shrink(target, level, loop, leader, points)
                walked += len(loops)
            share[level, target] = math.prod(shares[leader] for leader in sorted(shares))
    for t in tensors:
        hand_inwards(t, [(unit, t) in skips for unit in units], settled=True)
    arch, sentences, blamed = design.layer.arch, list[str](), dict[int, str]()
    for own in np.moveaxis(most, 1, 0).tolist():
        for unit in reversed(range(len(arch.levels))):
            for axis, name in enumerate("XY"):
                outer = own[unit + 1][axis]
                if not outer:
                    raise FadiffError("Timeloop crashes on this mapping: it divides by the instances of a level of "
                                      "which spatial skipping leaves none")
                needed, there = own[unit][axis] // outer, arch.fanout(unit)[axis]
                if needed > there:
                    sentences.append(f"Required fanout{name} {needed} does not meet hardware constraint {there}")
                    blamed[unit] = "\n".join(sentences)
    if blamed:  # the innermost fan-out that is too small, with the sentences that Timeloop collects
        unit = min(blamed)
        raise InvalidMapping(arch.levels[unit - 1].name if unit else arch.arithmetic.name, blamed[unit])
    return most, whole * share, {(level, t): float(1 - share[level, t]) for level, t in skips}


def _widened_while_stationary(stored: StoredMapping, target: int, leader: int, level: int, loop: NestLoop,
                              inside: dict[str, int]) -> dict[str, int]:
    """The points of an instance, over the temporal loops during which its target tile stays."""
    points, moved = dict(inside), stored.spaces[target].dimensions
    has_child = any(inner < level for inner in stored.columns[target])
    if has_child and loop.dim in moved & stored.spaces[leader].dimensions:
        source = stored.source(target, level)
        end = len(stored.loops) if source is None else source + 1
        for outer in (outer for loops in stored.loops[level:end] for outer in loops):
            if not outer.axis and outer.bound > 1:
                if outer.dim in moved:
                    break
                points[outer.dim] *= outer.bound
    return points
