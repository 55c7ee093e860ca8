"""The proof that a mapping is the best of its map space; or else a better mapping, and a bound.

Best-first branch and bound: the part with the least bound is opened next, until no part can hold a better mapping.
Parts of the map space are schemes (all spatial factors, and the data spaces that levels keep) and, within them, choices
of the temporal loops of the outermost levels. The compiled core bounds parts, and searches small ones for mappings
below a limit (`kernel/proof.cpp`); larger parts are divided by the loops of one more level.

A certificate lists all parts below the limit; `validation/check_certificate.py` states each rule once more and
checks a certificate against the input by itself.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import count
from math import inf
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
from fadiff_mapper.search.lower_bound.refine import refine
from fadiff_mapper.search.mapspace.build import MapSpace, reachable

BUDGET = 20_000
"""Parts and mappings that the core looks at before a part is divided: about as long as its division takes."""

SURE = 20_000
"""Schemes bounded between two looks at the clock. So many are bounded whatever the budget, as nothing is proved before
all schemes are bounded."""

SCHEME = 8
"""Parts that a scheme counts for in a budget, as listing and bounding it takes longer."""

TOLERANCE = _kernel.PROOF_TOLERANCE
"""Relative improvement that counts as better, as sums differ in their last bits."""

Loops = tuple[_kernel.LevelLoops, ...]
"""Temporal loops of the outermost levels, the outermost first."""

OpenPart = tuple[float, int, _kernel.Scheme, Loops]
"""A part of the map space: its bound, its number by age, its scheme, and its fixed temporal loops."""


def schemes(layer: PreparedLayer, space: MapSpace) -> _kernel.SchemeWalk:
    """Enumerates the schemes of a map space that fit the meshes and whose temporal loops can reach the bounds, with the
    layouts of each."""
    problem, names = space.problem, space.problem.dimensions
    fan_outs = [_kernel.OpenFanOut(
        factors=[level.spatial.choices[name] for name in names],
        **{part: list(map(names.index, getattr(level.spatial, part))) for part in ("inner", "between", "outer")},
        split=-1 if limits.spatial.split is None else limits.spatial.split,
        on_x=["X" in level.axes[name] for name in names], on_y=["Y" in level.axes[name] for name in names])
        for level, limits in zip(space.levels, space.constraints.levels, strict=True)]
    return _kernel.SchemeWalk(layer.compiled, _kernel.OpenSchemes(
        bounds=list(problem.bounds.values()), fan_outs=fan_outs,
        in_time=[sorted(reachable(bound, [level.temporal.choices[name] for level in space.levels]))
                 for name, bound in problem.bounds.items()],
        keeps=[kept.ravel().tolist() for kept in space.every_keep],
        least=space.constraints.min_parallelism * space.available))


@dataclass(frozen=True)
class MappingProof:
    """The outcome of a proof about all mappings of a map space."""

    value: float   # The metric of the best mapping found
    nest: Nest     # That mapping, a nest of one row
    least: float   # Lower bound on the metric of all legal mappings, up to a billionth (`TOLERANCE`)
    parts: int     # Parts of the map space that were bounded
    mappings: int  # Mappings evaluated

    @property
    def gap(self) -> float:
        """Share by which the best mapping found may be above the best possible one; 0: proved best."""
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
    """The reason in the input why no mapping of a layer can be proved best; None if it can."""
    reuse = layer.reuse
    if not all(kind.all() for kind in (reuse.held[1:], reuse.multicast, reuse.linked, reuse.first_written,
                                       reuse.coalesced)):
        return "constraints on reuse"
    if any(written and any(len(rank) > 1 or rank[0].coefficient != 1 for rank in dataspace.ranks)
           for written, dataspace in zip(layer.projection.read_write, layer.problem.dataspaces, strict=True)):
        return "an output with a sum or a stride in a rank"
    return "a coefficient of 0" if without_bound(layer) else None


def limit_of(value: float, gap: float) -> float:
    """The limit below which a mapping is better than a known value by more than the gap and the tolerance."""
    return value * (1 - TOLERANCE) / (1 + gap)


def units_below(layer: PreparedLayer, metric: str, limit: float, sums: tuple[float, float] = (1.0, 1.0)) -> float:
    """The least units in use of any mapping below a limit: with fewer units, the arithmetic by itself reaches the
    limit in cycles and energy."""
    energy = layer.problem.computes * float(layer.machine.compute_energy)
    cycles = {"edp": limit / energy if energy else inf, "delay": limit,
              "share": (limit - energy / sums[0]) * sums[1]}.get(metric, inf) - layer.machine.network_latency
    return layer.problem.computes / cycles * (1 - TOLERANCE) if cycles > 0 else inf


def value_of(layer: PreparedLayer, nest: Nest, metric: str, sums: tuple[float, float] = (1.0, 1.0)) -> float:
    """The metric of a nest of one row; "share": in energy and cycles of a network, `sums`."""
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

    `nest`: a legal mapping within all constraints, one row; the layer has no reason in `unprovable`. `sums`: of the
    metric "share"; `room`: as in `MappingTask`. `gap`: the share by which the best mapping may exceed the least bound
    in the end. The proof ends with its bound so far once `over` is true, or when about `budget` parts and mappings have
    been looked at. The bound is 0 if these do not include all schemes: designs that leave every spatial loop free have
    millions.
    """
    value, core = value_of(layer, nest, metric, sums), core_of(layer, space, metric, sums, room)
    walk, units = schemes(layer, space), units_below(layer, metric, limit_of(value, gap), sums)
    heap: list[OpenPart] = []
    parts, mappings, numbers = 0, 0, count()
    while True:
        looked, found = core.begin_each(walk, value, SURE, units)  # for every layout
        parts += looked
        heap += [(bound, next(numbers), scheme, ()) for bound, scheme in found]
        if looked < SURE:
            break
        if SCHEME * parts >= budget or over():
            return MappingProof(value, nest, 0.0, parts, mappings)  # a scheme without a bound may hold any mapping
    heapq.heapify(heap)
    budget -= (SCHEME - 1) * parts
    begun: _kernel.Scheme | None = None  # the scheme that the core looks at
    stuck = inf  # least bound of unsearched mappings in parts that cannot be divided

    def deciding() -> list[OpenPart]:
        """The part with the least bound, if it may hold a better mapping."""
        return heap[:1] if heap and heap[0][0] < limit_of(value, gap) and parts + mappings <= budget else []

    def opened(part: OpenPart) -> int:
        """Searches a small part for its best mapping; divides a larger one."""
        nonlocal value, nest, parts, mappings, begun, stuck
        heapq.heappop(heap)
        (bound, _, scheme, outer), limit, looked = part, limit_of(value, gap), parts + mappings
        if scheme is not begun:
            bound = max(bound, core.begin(scheme, walk.layouts(scheme)))
            begun = scheme
            if bound >= limit:
                return 1
        whole, least, lowest, bounded, evaluated, best = core.search(outer, limit, int(min(BUDGET, budget - looked)))
        parts, mappings = parts + bounded, mappings + evaluated
        if best is not None:
            value, nest = lowest, Nest(*best)
        if whole:
            stuck = min(stuck, max(least, bound))
        else:
            bounded, children = core.divided(outer, min(limit, lowest))
            parts += bounded
            for below, loops in children:
                heapq.heappush(heap, (max(below, bound), next(numbers), scheme, (*outer, loops)))
        return parts + mappings - looked
    refine(deciding, opened, over=over)
    # mappings that were left out are not below the limit, which only falls
    limit = limit_of(value, gap)
    short = [bound for bound in (stuck, *(bound for bound, *_ in heap[:1])) if bound < limit]
    return MappingProof(value, nest, min(short, default=value / (1 + gap)), parts, mappings)


ALL = 1 << 60
"""A budget without an end."""


def certificate(layer: PreparedLayer, space: MapSpace, metric: str, nest: Nest, gap: float,
                sums: tuple[float, float] = (1.0, 1.0)) -> dict[str, Any]:
    """The certificate that no mapping of a map space is better than a given one by more than a gap.

    `sums`: of the metric "share". Returns plain data: the mapping with its value, the limit for all other mappings, and
    the parts below it. A part has its bound and the parts that it is divided into, without those at or above the limit;
    or, if all its loops are fixed, the least value of its mappings and their number. Raises FadiffError if a mapping is
    below the limit, or mappings are left out.
    """
    if layer.machine.element_words is not None:
        raise FadiffError("certificate: found bits of tensors, which its checker does not know; accepted: a problem "
                          "without bits")
    value = value_of(layer, nest, metric, sums)
    limit, core, levels = limit_of(value, gap), core_of(layer, space, metric, sums), len(space.levels)

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

    found, walk = [], schemes(layer, space)
    for scheme in walk:
        bound = core.begin(scheme, walk.layouts(scheme))
        if bound < limit:
            spatial, keep = (np.reshape(values, (levels, -1)).tolist() for values in (scheme.spatial, scheme.keep))
            found.append({"bound": bound, "spatial": spatial, "keep": keep, "parts": divided(())})
    return {"version": 1, "metric": metric, "gap": gap, "value": value, "limit": limit,
            "bounds": dict(space.problem.bounds),
            "mapping": {**{name: getattr(nest, name)[..., 0].astype(int).tolist() for name in
                           ("temporal", "spatial", "order")}, "keep": nest.keep[..., 0].tolist()},
            "schemes": found}
