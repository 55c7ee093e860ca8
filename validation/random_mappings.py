"""Random mappings that exercise the model rather than being good.

Factors are handed out prime by prime, so that every factorization can occur. Faults can be built in on purpose, because
rejections are recorded as well.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, joined
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.layer_family import family_of, random_decisions
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace

FAULTS = ("capacity", "fanout", "nowhere")
"""Faults that `random_mapping` builds in on purpose: tiles too large, too many instances, a data space kept nowhere."""

SEEDS_APART = 1000
"""Distance between the seeds of two attempts to draw enough legal nests: attempts of neighbouring seeds stay apart."""

UNEVEN = 3
"""Exponent of the random shares of a dimension's octaves in `random_nests`: greater values give lopsided mappings more
often."""

Factors = list[dict[str, int]]
"""For each level, innermost first, the factor of every dimension."""


def random_mapping(arch: Architecture, problem: Problem, rng: random.Random, fault: str = "") -> Mapping:
    """A mapping that respects the hardware (fan-outs, capacities) and no constraint, or breaks it as `fault` says.

    Loops of bound 1 stand anywhere in an order; a dimension lies on one axis of a fan-out.

    Args:
        arch: The architecture.
        problem: The layer.
        rng: The source of all draws.
        fault: One of `FAULTS`, or none.
    """
    keep = _keep(arch, problem, rng, fault)
    pool = [(name, prime) for name, bound in problem.bounds.items() for prime in primes(bound)]
    rng.shuffle(pool)
    spatial, side = _spatial(arch, problem, rng, pool, 2 if fault == "fanout" else 1)
    temporal = _temporal(arch, problem, rng, pool, spatial, keep, fault == "capacity")
    levels = []
    for i in range(len(arch.levels)):
        order, (wide, high) = rng.sample(problem.dimensions, len(problem.dimensions)), arch.fanout(i)
        axis = {name: side[i].get(name) or ("X" if high == 1 or (wide > 1 and rng.random() < 0.5) else "Y")
                for name in order}
        on_x, on_y = ([name for name in rng.sample(order, len(order)) if axis[name] == letter] for letter in "XY")
        levels.append(LevelMapping(temporal[i], tuple(order), spatial[i], (*on_x, *on_y), len(on_x),
                                   frozenset(keep[i])))
    return Mapping(tuple(levels))


def forgetful(mapping: Mapping, arch: Architecture, names: Sequence[str], rng: random.Random) -> Mapping:
    """The mapping with reuse switched off at random (Timeloop's `no_reuse`).

    Args:
        mapping: The mapping.
        arch: The architecture; without a fan-out below a level its multicast stays as it is.
        names: The data spaces.
        rng: The source of all draws.
    """
    levels = []
    for i, level in enumerate(mapping.levels):
        in_time, in_space = (frozenset(name for name in names if rng.random() < share)
                             for share in rng.choices((0.0, 0.3, 1.0), k=2))
        levels.append(replace(level, no_temporal_reuse=in_time,
                              no_multicast=in_space if math.prod(arch.fanout(i)) > 1 else frozenset()))
    return Mapping(tuple(levels))


def primes(number: int) -> list[int]:
    """The prime factors of a number, ascending, as often as they divide it."""
    factors, prime = [], 2
    while number > 1:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return factors


def _keep(arch: Architecture, problem: Problem, rng: random.Random, fault: str) -> list[set[str]]:
    """The data spaces that each level keeps; now and then the outermost level bypasses one that is kept further in."""
    names = problem.dataspace_names()
    keep = []
    for level in arch.levels[:-1]:
        kept = {name for name in names if rng.random() < 0.7} if not level.is_dummy else set[str]()
        while level.usable is not None and len(kept) > level.usable:
            kept.remove(rng.choice(sorted(kept)))
        keep.append(kept)
    keep.append(set(names))
    lost = rng.choice(names)
    if fault == "nowhere":
        return [kept - {lost} for kept in keep]
    if rng.random() < 0.1 and any(lost in kept for kept in keep[:-1]):
        keep[-1].discard(lost)
    return keep


def _spatial(arch: Architecture, problem: Problem, rng: random.Random, pool: list[tuple[str, int]],
             oversize: int) -> tuple[Factors, list[dict[str, str]]]:
    """Takes primes out of the pool for the spatial loops: (factors, axis of every dimension that has one, by level).

    The spatial factors take up to `oversize` times the hardware's fan-out.
    """
    spatial: Factors = [dict.fromkeys(problem.dimensions, 1) for _ in arch.levels]
    side: list[dict[str, str]] = [{} for _ in arch.levels]
    for i in rng.sample(range(len(arch.levels)), len(arch.levels)):
        for axis, width in zip("XY", arch.fanout(i), strict=True):
            room = width * oversize if width > 1 else 1
            while rng.random() > 0.12:
                fitting = [(name, p) for name, p in pool if p <= room and side[i].get(name, axis) == axis]
                if not fitting:
                    break
                name, prime = rng.choice(fitting)
                pool.remove((name, prime))
                spatial[i][name] *= prime
                side[i][name] = axis
                room //= prime
    return spatial, side


def _temporal(arch: Architecture, problem: Problem, rng: random.Random, pool: Sequence[tuple[str, int]],
              spatial: Factors, keep: Sequence[set[str]], overfill: bool) -> Factors:
    """Hands the remaining primes to levels at random, each pushed outwards until all tiles fit."""
    last = len(arch.levels) - 1
    temporal: Factors = [dict.fromkeys(problem.dimensions, 1) for _ in arch.levels]
    weight = [rng.choice((0.2, 1, 1, 3)) if not level.is_dummy or rng.random() < 0.1 else 0.0 for level in arch.levels]
    for name, prime in pool:
        level = rng.choices(range(last + 1), weight)[0]
        while True:
            temporal[level][name] *= prime
            if level == last or overfill or _fits(arch, problem, temporal, spatial, keep):
                break
            temporal[level][name] //= prime
            level += 1
    return temporal


def _fits(arch: Architecture, problem: Problem, temporal: Factors, spatial: Factors, keep: Sequence[set[str]]) -> bool:
    """Whether every level has room for the tiles that it keeps."""
    tile = dict.fromkeys(problem.dimensions, 1)
    for i, level in enumerate(arch.levels):
        tile = {name: points * temporal[i][name] * spatial[i][name] for name, points in tile.items()}
        words = sum(math.prod(ds.tile_extents(tile)) for ds in problem.dataspaces if ds.name in keep[i])
        if level.usable is not None and words > level.usable:
            return False
    return True


def random_nests(layer: PreparedLayer, space: MapSpace, batch: int, seed: int = 0) -> Nest:
    """Random mappings within the constraints, deterministic by seed: random octaves, rounded to divisors.

    They may exceed a capacity or a fan-out.
    """
    family, rng = family_of(layer, [space]), np.random.default_rng(seed)
    tables = family.factors
    looping: np.ndarray = np.any(tables.allowed[0, ..., 1:], axis=-1)
    weight = rng.random((*looping.shape, batch)) ** UNEVEN * np.any(looping, axis=1, keepdims=True)[..., None]
    bounds = np.array(list(space.problem.bounds.values()))
    octaves = weight / weight.sum(axis=0).clip(min=1e-9) * np.log2(bounds)[:, None]
    factors, slopes = np.empty_like(octaves), np.empty_like(octaves)
    _kernel.draw_columns(octaves, None, 1.0, 1.0, np.zeros(batch, dtype=np.int64), tables.divisor, tables.completable,
                         tables.quotient.astype(np.int64), tables.bound, factors, slopes)
    choices = random_decisions(family, batch, rng)
    return Nest(factors[1::2].copy(), factors[0::2].copy(), choices.order, choices.keep, choices.on_y,
                choices.spatial_order)


def constrained_nests(layer: PreparedLayer, spec: Spec, count: int, seed: int) -> Nest:
    """Up to `count` legal nests within the constraints of the spec, drawn as the search draws its starting points.

    Args:
        layer: The spec's layer.
        spec: The input with its constraints.
        count: Nests wanted; fewer come where legal ones are rare.
        seed: Of the draws.
    """
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    legal: list[Nest] = []
    for attempt in range(40):
        nest = random_nests(layer, space, 10 * count, seed + attempt * SEEDS_APART)
        legal.append(nest.take(np.flatnonzero(score(layer, nest).legal)))
        if sum(part.batch for part in legal) >= count:
            break
    return joined(legal).take(slice(0, count))


def abbreviated(directives: Sequence[dict[str, Any]], problem: Problem, rng: random.Random) -> list[dict[str, Any]]:
    """A mapping as a user may write it: factors of 1 and idle loops left out, 0 for a whole dimension.

    Args:
        directives: The mapping in full.
        problem: The layer.
        rng: Decides what is abbreviated, and how.

    Returns:
        Directives that mean the same to Timeloop, in random order.
    """
    short = []
    for directive in directives:
        if directive["type"] == "datatype":
            if not directive["bypass"] and rng.random() < 0.5:
                continue
            short.append(directive | {"type": rng.choice(("datatype", "bypass"))})
            continue
        factors = {name: int(value) for name, value in (part.split("=") for part in directive["factors"].split())}
        loops = {name: value for name, value in factors.items() if value > 1}
        if not loops and "no_reuse" not in directive and rng.random() < 0.7:
            continue
        sign, gap = rng.choice((("=", " "), ("=", ","), ("", " ")))
        text = gap.join(f"{name}{sign}{_written(name, value, problem, rng)}" for name, value in loops.items())
        order = directive["permutation"]
        if directive["type"] == "temporal" and rng.random() < 0.5:  # an idle loop may stand anywhere
            order = "".join(name for name in order if name in loops)
        short.append(directive | {"factors": text, "permutation": rng.choice(("", " ")).join(order)})
    rng.shuffle(short)
    return short


def _written(name: str, value: int, problem: Problem, rng: random.Random) -> int:
    return 0 if value == problem.bounds[name] and rng.random() < 0.3 else value

