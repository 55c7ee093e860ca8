"""Why a map space is empty: contradictions between constraints, the problem and the hardware, in words.

Each test looks for one reason. Then deletion filtering (`claims.cores`) drops constraints one by one as long as the
contradiction stays, so that a sentence names an irreducible set of them. The tests are sufficient, not complete: an
empty list does not prove that a legal mapping exists. The filter wants tests whose contradictions a further constraint
never resolves. This holds while the factors of every dimension can multiply to its bound; a dimension whose factors
cannot is a conflict by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.mapspace.check_mapping import source
from fadiff_mapper.mapspace.claims import Claim, claims, cores
from fadiff_mapper.mapspace.factorize import divisors, reachable
from fadiff_mapper.mapspace.space import MapSpace


def conflicts(space: MapSpace, over: Over = never) -> list[str]:
    """Finds reasons why no mapping can meet the constraints on this hardware.

    The reasons are factors of a dimension that cannot multiply to its bound, spatial factors beyond a fan-out, a
    forced tile beyond a capacity, a data space that is bypassed everywhere, and a least parallelism out of reach.

    Args:
        space: The map space.
        over: Tells whether time is over.

    Returns:
        A sentence each. One sentence shares no constraint with an earlier one of its sort, so that each has to be
        resolved. None where no contradiction is found, which does not prove that there is a legal mapping.

    Raises:
        OutOfTime: Time was over before all tests were made.
    """
    in_force = claims(space.constraints)
    return [*_factor_conflicts(space, in_force, over), *_fanout_conflicts(space, in_force, over),
            *_capacity_conflicts(space, in_force, over), *_bypass_conflicts(space, in_force),
            *_parallelism_conflicts(space, in_force, over)]


def _choices(space: MapSpace, in_force: Sequence[Claim], level: int, kind: str, dimension: str) -> tuple[int, ...]:
    """The factors of a dimension that hardware and claims allow in a level's temporal or spatial loops, ascending.

    A dummy level has no temporal loop unless a claim says so.
    """
    bound, here = space.problem.bounds[dimension], space.levels[level]
    limits = [claim for claim in in_force if (claim.level, claim.kind, claim.name) == (level, kind, dimension)]
    room = bound
    if kind == "spatial":
        room = max((width for axis, width in zip("XY", here.fanout, strict=True) if axis in here.axes[dimension]),
                   default=1)
    elif space.architecture.levels[level].is_dummy and here.temporal.choices[dimension] == (1,) and not limits:
        room = 1
    return tuple(d for d in divisors(bound) if d <= room and all(limit.allows(d) for limit in limits))


def _reach(space: MapSpace, in_force: Sequence[Claim], dimension: str, levels: range) -> frozenset[int]:
    """The products that all loops of a dimension at some levels can have (divisors of its bound)."""
    places = [_choices(space, in_force, level, kind, dimension) for level in levels for kind in ("spatial", "temporal")]
    return reachable(space.problem.bounds[dimension], places)


def _completable(space: MapSpace, in_force: Sequence[Claim], level: int, dimension: str) -> tuple[int, ...]:
    """The spatial factors of a level that a dimension's other loops can complete to its bound; (1,) if none.

    Without any the factors of the dimension contradict each other, which is a conflict of its own.
    """
    bound, own = space.problem.bounds[dimension], _choices(space, in_force, level, "spatial", dimension)
    if own == (1,):
        return own
    others = [_choices(space, in_force, i, kind, dimension) for i in range(len(space.levels))
              for kind in ("spatial", "temporal") if (i, kind) != (level, "spatial")]
    rest = reachable(bound, others)
    return tuple(factor for factor in own if bound // factor in rest) or (1,)


# Factors of one dimension.

def _unreachable(space: MapSpace, dimension: str, in_force: Sequence[Claim]) -> bool:
    """Whether no choice of factors multiplies to the bound of a dimension."""
    return space.problem.bounds[dimension] not in _reach(space, in_force, dimension, range(len(space.levels)))


def _factor_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for dimension, bound in in_time(space.problem.bounds.items(), over):
        limits = [claim for claim in in_force if claim.kind in ("temporal", "spatial") and claim.name == dimension]
        for culprits in cores(limits, partial(_unreachable, space, dimension), over):
            yield _factor_sentence(space, dimension, bound, culprits)


def _factor_sentence(space: MapSpace, dimension: str, bound: int, culprits: Sequence[Claim]) -> str:
    named = _named(space, culprits)
    product = math.prod(claim.value for claim in culprits)
    if len(culprits) == 1 and culprits[0].kind == "spatial" and culprits[0].value in divisors(bound):
        return f"{named} does not fit on {_fanout_text(space, culprits[0].level)}"
    if any(claim.limit != "fixed" for claim in culprits):
        return f"{dimension}={bound} cannot be split: no factors of it meet {named}"
    verb = f"multiply to {product}, which" if len(culprits) > 1 else "alone"
    if bound % product:
        return f"{dimension}={bound} cannot be split: {named} {verb} does not divide it"
    return f"{dimension}={bound} cannot be split: {named} {verb} leaves {bound // product} that no level can take"


# Spatial factors of one level.

def _fillings(space: MapSpace, level: int, factors: Mapping[str, Sequence[int]]) -> set[tuple[int, int]]:
    """Every (x, y) of a level's fan-out that one spatial factor per dimension can fill, on any axes allowed."""
    (wide, high), axes = space.levels[level].fanout, space.levels[level].axes
    filled = {(1, 1)}
    for name, choices in factors.items():
        steps = {(f if axis == "X" else 1, f if axis == "Y" else 1) for f in choices for axis in (axes[name] or "X")}
        filled = {(x * dx, y * dy) for x, y in filled for dx, dy in steps if x * dx <= wide and y * dy <= high}
    return filled


def _overfull(space: MapSpace, level: int, in_force: Sequence[Claim]) -> bool:
    """Whether even the least spatial factors do not fit together on the fan-out, whatever axes they lie on."""
    return not _fillings(space, level, {name: _completable(space, in_force, level, name)[:1]
                                        for name in space.problem.dimensions})


def _fanout_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for i in in_time(range(len(space.levels)), over):
        for culprits in cores(in_force, partial(_overfull, space, i), over):
            yield f"{_named(space, culprits)} do not fit together on {_fanout_text(space, i)}"


def _fanout_text(space: MapSpace, level: int) -> str:
    x, y = space.levels[level].fanout
    loops = space.constraints.levels[level].spatial
    split = "" if loops.split is None else f" with split={loops.split}{source(loops.sources, 'split')}"
    return f"the fan-out of {x} x {y}{split}"


# Tiles that are forced to be large.

def least_tile(space: MapSpace, in_force: Sequence[Claim], level: int) -> dict[str, int] | None:
    """The smallest tile of a level that the claims leave.

    Args:
        space: The map space.
        in_force: The claims that count.
        level: Number of the storage level.

    Returns:
        Points by dimension, each the least possible by itself; None where a dimension cannot be split at all.
    """
    tile: dict[str, int] = {}
    for dimension, bound in space.problem.bounds.items():
        outer = _reach(space, in_force, dimension, range(level + 1, len(space.levels)))
        inner = _reach(space, in_force, dimension, range(level + 1))
        possible = [size for size in inner if bound // size in outer]
        if not possible:
            return None
        tile[dimension] = min(possible)
    return tile


def _must_keep(space: MapSpace, in_force: Sequence[Claim], level: int) -> set[str]:
    """The data spaces that a level has to keep: told to, as the outermost level, or bypassed at every other one."""
    def bypassed(index: int, name: str) -> bool:
        dummy = space.architecture.levels[index].is_dummy and name in space.levels[index].bypass
        return dummy or any((claim.level, claim.kind, claim.name) == (index, "bypass", name) for claim in in_force)

    indices, outermost = range(len(space.levels)), len(space.levels) - 1
    told = {claim.name for claim in in_force if (claim.level, claim.kind) == (level, "keep")}
    return told | {name for name in space.problem.dataspace_names() if not bypassed(level, name) and (
        (level == outermost and name in space.levels[level].keep)
        or all(bypassed(index, name) for index in indices if index != level))}


def _least_words(space: MapSpace, level: int, in_force: Sequence[Claim]) -> tuple[int, list[str]]:
    """Words that the data spaces kept by force need in the smallest tile, and their names."""
    tile, names = least_tile(space, in_force, level), _must_keep(space, in_force, level)
    spaces = [ds for ds in space.problem.dataspaces if ds.name in names]
    return sum(math.prod(ds.tile_extents(tile)) for ds in spaces) if tile else 0, [ds.name for ds in spaces]


def _too_large(space: MapSpace, level: int, in_force: Sequence[Claim]) -> bool:
    """Whether even the smallest tile is beyond the capacity of a level."""
    usable = space.architecture.levels[level].usable
    return usable is not None and _least_words(space, level, in_force)[0] > usable


def _capacity_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    for i in in_time(range(len(space.levels)), over):
        for culprits in cores(in_force, partial(_too_large, space, i), over):
            yield _capacity_sentence(space, i, culprits)


def _capacity_sentence(space: MapSpace, level: int, culprits: Sequence[Claim]) -> str:
    words, names = _least_words(space, level, culprits)
    tile = least_tile(space, culprits, level) or {}
    extents = " ".join(f"{name}={size}" for name, size in tile.items() if size > 1) or "of one point"
    reasons = f", forced by {_named(space, culprits)}" if culprits else ""
    return (f"{space.levels[level].name} has room for {space.architecture.levels[level].usable} words, but "
            f"{joined(names)} {'needs' if len(names) == 1 else 'need'} at least {words} (tile {extents}){reasons}")


# Data spaces and parallelism.

def _bypass_conflicts(space: MapSpace, in_force: Sequence[Claim]) -> Iterator[str]:
    for name in space.problem.dataspace_names():
        if all(name in level.bypass for level in space.levels):
            yield (f"{name} is kept nowhere: "
                   + _named(space, [claim for claim in in_force if (claim.kind, claim.name) == ("bypass", name)]))


def _most_parallel(space: MapSpace, in_force: Sequence[Claim]) -> float:
    """An upper bound on the share of the fan-outs that a mapping uses: each is filled as well as it can be."""
    share = 1.0
    for i, level in enumerate(space.levels):
        choices = {name: _completable(space, in_force, i, name) for name in space.problem.dimensions}
        share *= max((x * y for x, y in _fillings(space, i, choices)), default=1) / math.prod(level.fanout)
    return share


def _parallelism_conflicts(space: MapSpace, in_force: Sequence[Claim], over: Over) -> Iterator[str]:
    least = space.constraints.min_parallelism

    def too_few(some: Sequence[Claim]) -> bool:
        return _most_parallel(space, some) < least

    for culprits in cores(in_force, too_few, over) if least > 0 else ():
        origin = source(space.constraints.levels[0].sources, "min_parallelism")
        reasons = f" under {_named(space, culprits)}" if culprits else " for these fan-outs and dimensions"
        yield (f"parallelism of {least:g}{origin} is out of reach: at most {_most_parallel(space, culprits):g}"
               f" can be used{reasons}")


def _named(space: MapSpace, culprits: Sequence[Claim]) -> str:
    names = space.architecture.level_names()
    return joined([claim.describe(names) for claim in culprits])


def joined(names: Sequence[str]) -> str:
    """The names as `a, b and c`."""
    return " and ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
