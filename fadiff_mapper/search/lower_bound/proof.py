"""The proof that a mapping is the best of its map space, or a better mapping, and the bound that is left.

Best-first branch and bound: the part of the least bound is looked at next, until none can hold a better mapping. Parts
of the map space are schemes (`Scheme`) and, within them, choices of the temporal loops of the outermost levels. The
core bounds parts, and searches small ones for mappings below a limit (`kernel/proof.cpp`); parts that are too large for
that are divided by the loops of one more level.

A certificate writes all parts below the limit down; `validation/check_certificate.py` states each rule once more and
checks a certificate against the input by itself.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from operator import contains, floordiv, mod
from typing import Any

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.spec import metric_of
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.lower_bound.assemble import percent_above, without_bound
from fadiff_mapper.search.mapspace.build import MapSpace, between_on_x, orders_at, reachable

BUDGET = 20_000
"""Parts and mappings that the core looks at before a part is divided: about as long as its division takes."""

SURE = 20_000
"""Schemes that are bounded whatever the budget and the time, as nothing is proved before all schemes are bounded."""

SCHEME = 8
"""Parts for which a scheme counts in a budget, as it takes longer to list and to bound."""

TOLERANCE = _kernel.PROOF_TOLERANCE
"""Share by which a mapping must be better to count as better, as sums differ in their last bits."""

Loops = tuple[_kernel.LevelLoops, ...]
"""Temporal loops of the outermost levels, the outermost first."""

Layout = tuple[tuple[int, ...], tuple[bool, ...]]
"""Spatial loops of all levels, [L * D] each: dimensions from the innermost loop outwards, and by dimension whether its
loop lies on Y."""

Reach = frozenset[tuple[int, int]]
"""Units along X and Y that spatial loops may take."""


@dataclass(frozen=True)
class Scheme:
    """All spatial factors of a mapping and the data spaces that levels keep, level by level from the innermost."""

    spatial: tuple[int, ...]  # Spatial factors of each level, [L * D]
    keep: tuple[bool, ...]    # Whether each level keeps each data space, [L * T]


def schemes(space: MapSpace) -> Iterator[Scheme]:
    """Every scheme of a map space of which the meshes have room and whose temporal loops can reach the bounds."""
    problem, keeps = space.problem, [tuple(kept.ravel().tolist()) for kept in space.every_keep]
    left_to_time = [reachable(bound, [level.temporal.choices[name] for level in space.levels])
                    for name, bound in problem.bounds.items()]
    least, whole = space.constraints.min_parallelism * space.available, math.prod(problem.bounds.values())
    begun: list[tuple[tuple[int, ...], Reach, tuple[int, ...]]] = [
        (tuple(problem.bounds.values()), frozenset({(1, 1)}), ())]
    for level in reversed(range(len(space.levels))):
        widths, further = _widths(space, level), []
        fitting: dict[Reach, list[tuple[tuple[int, ...], Reach]]] = {}  # factors that fit, and the units then in use
        for left, reach, spatial in begun:
            if reach not in fitting:
                fitting[reach] = [(factors, wider) for factors, extents in widths.items()
                                  if (wider := _fitting(space, level, reach, extents))]
            further += [(tuple(map(floordiv, left, factors)), wider, (*factors, *spatial))
                        for factors, wider in fitting[reach] if not any(map(mod, left, factors))]
        begun = further
    for left, _, spatial in begun:
        if all(map(contains, left_to_time, left)) and whole // math.prod(left) >= least:
            for keep in keeps:
                yield Scheme(spatial, keep)


def layouts(space: MapSpace, scheme: Scheme) -> list[Layout]:
    """Every layout of a scheme's spatial loops that the meshes have room for.

    Loops of one iteration lie where the constraints would have them with more, as a search may go on from there.
    """
    dims = range(len(space.problem.dimensions))
    begun: list[tuple[Reach, Layout]] = [(frozenset({(1, 1)}), ((), ()))]  # units in use, and the levels further out
    for level in reversed(range(len(space.levels))):
        factors = scheme.spatial[level * len(dims):(level + 1) * len(dims)]
        axes = [space.levels[level].axes[name] for name in space.problem.dimensions]
        loops, split = space.levels[level].spatial, space.constraints.levels[level].spatial.split
        on_x = len(dims) if split is None else between_on_x(split, len(loops.inner), len(loops.between))
        single = tuple(d for d in dims if factors[d] == 1)
        free = [d for d in single if axes[d] == "XY"]
        own = []
        for order, on_y in orders_at(space, 2 * level, [d for d in dims if factors[d] > 1]):
            taken = sum(axes[d] == "XY" for d in order if d not in on_y)
            along_y = on_y.union(free[on_x - taken:], (d for d in single if axes[d] == "Y"))
            own.append(((*order, *single), tuple(d in along_y for d in dims), frozenset({_extents(factors, on_y)})))
        begun = [(wider, ((*order, *outer), (*on_y, *outer_on_y))) for reach, (outer, outer_on_y) in begun
                 for order, on_y, extents in own if (wider := _fitting(space, level, reach, extents))]
    return [layout for _, layout in begun]


def _fitting(space: MapSpace, level: int, reach: Reach, extents: Reach) -> Reach:
    """Units along X and Y in use below a level, from those above it and the extents of its loops, where they fit."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
    wider = {(x * dx, y * dy) for x, y in reach for dx, dy in extents}
    return frozenset((x, y) for x, y in wider if x <= unit.mesh_x and y <= unit.mesh_y and x * y <= unit.instances)


def _widths(space: MapSpace, level: int) -> dict[tuple[int, ...], Reach]:
    """The spatial factors that a level can have, with the extents along X and Y that its layouts can give them."""
    unit = space.architecture.levels[level - 1] if level else space.architecture.arithmetic
    choices: list[tuple[int, ...]] = [()]
    for name in space.problem.dimensions:
        choices = [(*some, factor) for some in choices for factor in space.levels[level].spatial.choices[name]
                   if math.prod(some) * factor <= unit.instances]
    found = {}
    sides: dict[tuple[int, ...], set[frozenset[int]]] = {}  # dimensions on Y, by the dimensions with a loop
    for factors in choices:
        loops = tuple(d for d, factor in enumerate(factors) if factor > 1)
        if loops not in sides:
            sides[loops] = {on_y for _, on_y in orders_at(space, 2 * level, loops)}
        extents = {_extents(factors, on_y) for on_y in sides[loops]}
        fitting = frozenset((x, y) for x, y in extents if x <= unit.mesh_x and y <= unit.mesh_y)
        if fitting:
            found[factors] = fitting
    return found


def _extents(factors: tuple[int, ...], on_y: frozenset[int]) -> tuple[int, int]:
    """Units along X and Y that spatial loops take, by the dimensions on Y."""
    y = math.prod(map(factors.__getitem__, on_y))
    return math.prod(factors) // y, y


@dataclass(frozen=True)
class MappingProof:
    """What is proved about the mappings of a map space."""

    value: float   # The metric of the best mapping known
    nest: Nest     # That mapping, a nest of one row
    least: float   # No legal mapping has less, but for a billionth (`TOLERANCE`)
    parts: int     # Parts of the map space that were bounded
    mappings: int  # Mappings evaluated

    @property
    def gap(self) -> float:
        """Share by which the best mapping may be above the best possible; 0: it is the best."""
        return max(self.value / self.least - 1, 0.0) if self.least > 0 else 0.0 if self.value == 0 else inf

    @property
    def claim(self) -> str:
        """The proof in words, without its size; the percentage is rounded up."""
        return ("nothing is proved" if self.gap == inf else "proved: no mapping is better" if not self.gap else
                f"proved: at most {percent_above(self.gap)} above the best possible")

    @property
    def sentence(self) -> str:
        """The proof in words, and its size."""
        return f"{self.claim}; {self.parts:,} parts of the map space bounded, {self.mappings:,} mappings evaluated"


def unprovable(layer: PreparedLayer) -> str | None:
    """What stands against a proof that a mapping of a layer is the best, as found in the input; None: nothing."""
    reuse = layer.reuse
    if not all(kind.all() for kind in (reuse.held[1:], reuse.multicast, reuse.linked, reuse.first_written,
                                       reuse.coalesced)):
        return "constraints on reuse"
    if any(written and any(len(rank) > 1 or rank[0].coefficient != 1 for rank in dataspace.ranks)
           for written, dataspace in zip(layer.projection.read_write, layer.problem.dataspaces, strict=True)):
        return "an output with a sum or a stride in a rank"
    return "a coefficient of 0" if without_bound(layer) else None


def value_of(layer: PreparedLayer, nest: Nest, metric: str, sums: tuple[float, float] = (1.0, 1.0)) -> float:
    """The metric of the only mapping of a batch; "share": in the energy and cycles of a network, `sums`."""
    scores = score(layer, nest)
    if metric == "share":
        return float(scores.energy[0] / sums[0] + scores.cycles[0] / sums[1])
    return float(metric_of(metric, scores.energy, scores.cycles, scores.last_level_accesses)[0])


def core_of(layer: PreparedLayer, space: MapSpace, metric: str, sums: tuple[float, float] = (1.0, 1.0),
            room: Room | None = None) -> _kernel.Prover:
    """The compiled part of a proof."""
    names, loops = space.problem.dimensions, [level.temporal for level in space.levels]
    orders = {part: [list(map(names.index, getattr(own, part))) for own in loops]
              for part in ("inner", "between", "outer")}
    factors = [own.choices[name] for own in loops for name in names]
    return _kernel.Prover(layer.compiled, [float(bound) for bound in space.problem.bounds.values()],
                          _kernel.OpenLoops(factors=factors, **orders), _kernel.Metric.__members__[metric], sums,
                          *((room.words[:, None], room.counted[..., None]) if room else (None, None)))


def prove(layer: PreparedLayer, space: MapSpace, metric: str, nest: Nest, *, gap: float = 0.0, over: Over = never,
          budget: float = inf, sums: tuple[float, float] = (1.0, 1.0), room: Room | None = None) -> MappingProof:
    """Searches for a mapping that is better than a known one, until it is proved that there is none.

    `unprovable` has nothing against the layer; `nest` is a mapping that is legal in the room, one row. `sums` are those
    of the metric "share"; `room` is as of `MappingTask`. `gap` is the share by which the best mapping may exceed the
    least bound in the end. The proof ends with what it has once `over` is true, or when about
    `budget` parts and mappings have been looked at. Nothing is proved where these are not even all schemes, of which
    designs that leave every spatial loop free have millions.
    """
    value, core = value_of(layer, nest, metric, sums), core_of(layer, space, metric, sums, room)
    heap: list[tuple[float, int, Scheme, Loops]] = []  # bounds and parts, numbered in the order of their making
    parts = mappings = number = 0
    for scheme in schemes(space):
        if parts >= SURE and (SCHEME * parts >= budget or over()):
            return MappingProof(value, nest, 0.0, parts, mappings)  # schemes without a bound may have any mapping
        parts += 1
        bound = core.begin(scheme.spatial, scheme.keep, [])     # for every layout
        if bound < value:
            heap.append((bound, number := number + 1, scheme, ()))
    heapq.heapify(heap)
    spent = SCHEME * parts
    begun: Scheme | None = None  # the scheme that the core looks at
    placed = cache(partial(layouts, space))
    stuck = inf  # least bound of mappings that were left out in parts that cannot be divided
    while heap and heap[0][0] < (limit := value * (1 - TOLERANCE) / (1 + gap)) and not over() and spent <= budget:
        bound, _, scheme, outer = heapq.heappop(heap)
        if scheme is not begun:
            bound = max(bound, core.begin(scheme.spatial, scheme.keep, placed(scheme)))
            begun = scheme
            if bound >= limit:
                continue
        whole, least, found, bounded, evaluated, best = core.search(outer, limit, int(min(BUDGET, budget - spent)))
        parts, mappings, spent = parts + bounded, mappings + evaluated, spent + bounded + evaluated
        if best is not None:
            value, nest = found, Nest(*best)
        if whole:
            stuck = min(stuck, max(least, bound))
            continue
        bounded, children = core.divided(outer, min(limit, found))
        parts, spent = parts + bounded, spent + bounded
        for below, loops in children:
            heapq.heappush(heap, (max(below, bound), number := number + 1, scheme, (*outer, loops)))
    # what was left out reaches the limit, which only falls
    limit = value * (1 - TOLERANCE) / (1 + gap)
    short = [bound for bound in (stuck, *(bound for bound, *_ in heap[:1])) if bound < limit]
    return MappingProof(value, nest, min(short, default=value / (1 + gap)), parts, mappings)


ALL = 1 << 60
"""A budget without an end."""


def certificate(layer: PreparedLayer, space: MapSpace, metric: str, nest: Nest, gap: float) -> dict[str, Any]:
    """The certificate that no mapping of a map space is better than a given one by more than a gap.

    Returns plain data: the mapping with its value, the limit that others were held to, and the parts below it. A part
    has its bound and the parts that it is divided into, of which those at the limit or above it are left out; or, once
    all its loops are fixed, the least value of its mappings and how many there are. Raises FadiffError if a mapping is
    below the limit, or some are not evaluated.
    """
    if layer.machine.element_words is not None:
        raise FadiffError("certificate: found bits of tensors, which its checker does not know; accepted: a problem "
                          "without bits")
    value = value_of(layer, nest, metric)
    limit, core, levels = value * (1 - TOLERANCE) / (1 + gap), core_of(layer, space, metric), len(space.levels)

    def divided(outer: Loops) -> list[dict[str, Any]]:
        parts = []
        for bound, loops in core.divided(outer, inf)[1]:
            if bound >= limit:  # as the checker does, which bounds each choice by itself
                continue
            inner = (*outer, loops)
            part: dict[str, Any] = {"bound": bound, "factors": list(map(int, loops.factors)), "order": loops.order}
            if len(inner) < levels - 1:
                part["parts"] = divided(inner)
            else:
                _, least, best, _, mappings, _ = core.search(inner, inf, ALL)
                if least < limit or best < limit:
                    raise FadiffError("certificate: found a better mapping; accepted: the one that was proved")
                part |= {"least": None if best == inf else best, "mappings": mappings}
            parts.append(part)
        return parts

    found = []
    for scheme in schemes(space):
        bound = core.begin(scheme.spatial, scheme.keep, layouts(space, scheme))
        if bound < limit:
            spatial, keep = (np.reshape(values, (levels, -1)).tolist() for values in (scheme.spatial, scheme.keep))
            found.append({"bound": bound, "spatial": spatial, "keep": keep, "parts": divided(())})
    return {"version": 1, "metric": metric, "gap": gap, "value": value, "limit": limit,
            "bounds": dict(space.problem.bounds),
            "mapping": {**{name: getattr(nest, name)[..., 0].astype(int).tolist() for name in
                           ("temporal", "spatial", "order")}, "keep": nest.keep[..., 0].tolist()},
            "schemes": found}
