"""The proof that a mapping is the best of its map space, or a better mapping, and the bound that is left.

Best-first branch and bound: the part of the least bound is looked at next, until none can hold a better mapping. Parts
of the map space are schemes (`schemes.Scheme`) and, within them, choices of the temporal loops of the outermost levels.
The core bounds parts, and searches small ones for mappings below a limit (`kernel/proof.cpp`); parts that are too large
for that are divided by the loops of one more level.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from math import inf

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.lower_bound.assemble import percent_above
from fadiff_mapper.search.lower_bound.schemes import Scheme, layouts, schemes
from fadiff_mapper.search.mapspace.build import MapSpace

BUDGET = 20_000
"""Parts and mappings that the core looks at before a part is divided: some 10 ms, as long as its division takes."""

AT_ONCE = 30_000
"""The same for the bound of a mapping that nobody asked to prove: some 10 to 100 ms, most of it for schemes."""

SOON = 200_000
"""Parts and mappings after which a mapping is searched at full length before its proof goes on: about as long."""

TOLERANCE = 1e-9
"""Share by which a mapping must be better to count as better, as sums differ in their last bits; equal to TOLERANCE of
`kernel/proof.cpp`."""

Loops = tuple[tuple[tuple[float, ...], tuple[int, ...]], ...]
"""Temporal loops of the outermost levels, the outermost first: factors and order of each, by dimension."""


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
    def sentence(self) -> str:
        """The proof in words; the percentage is rounded up."""
        above = f"at most {percent_above(self.gap)} above the best possible"
        return (f"proved: {above if self.gap else 'no mapping is better'}; {self.parts:,} parts of the map space "
                f"bounded, {self.mappings:,} mappings evaluated")


def unprovable(layer: PreparedLayer) -> str | None:
    """What stands against a proof that a mapping of a layer is the best, as found in the input; None: nothing."""
    reuse = layer.reuse
    if not all(kind.all() for kind in (reuse.held[1:], reuse.multicast, reuse.linked, reuse.first_written,
                                       reuse.coalesced)):
        return "constraints on reuse"
    if any(written and any(len(rank) > 1 or rank[0].coefficient != 1 for rank in dataspace.ranks)
           for written, dataspace in zip(layer.projection.read_write, layer.problem.dataspaces, strict=True)):
        return "an output with a sum or a stride in a rank"
    return None


def metric_of(scores: Scores, metric: str) -> float:
    """The metric of the only mapping of a batch."""
    return float({"edp": scores.energy * scores.cycles, "energy": scores.energy, "delay": scores.cycles,
                  "last_level_accesses": scores.last_level_accesses}[metric][0])


def core_of(layer: PreparedLayer, space: MapSpace, metric: str) -> _kernel.Prover:
    """The compiled part of a proof."""
    names = space.problem.dimensions
    orders = [([names.index(name) for name in loops.inner], [names.index(name) for name in loops.between],
               [names.index(name) for name in loops.outer]) for loops in (level.temporal for level in space.levels)]
    return _kernel.Prover(layer.compiled, [float(bound) for bound in space.problem.bounds.values()],
                          [[[float(factor) for factor in level.temporal.choices[name]] for name in names]
                           for level in space.levels], orders, METRICS.index(metric))


def prove(layer: PreparedLayer, space: MapSpace, metric: str, nest: Nest, *, gap: float = 0.0, over: Over = never,
          budget: float = inf) -> MappingProof:
    """Searches for a mapping that is better than a known one, until it is proved that there is none.

    `unprovable` has nothing against the layer; `nest` is a legal mapping, one row. `gap` is the share by which the best
    mapping may exceed the least bound in the end. The proof ends with what it has once `over` is true, or when about
    `budget` parts and mappings have been looked at.
    """
    value, core = metric_of(score(layer, nest), metric), core_of(layer, space, metric)
    any_layout = tuple(range(len(space.problem.dimensions))) * len(space.levels)
    heap: list[tuple[float, int, Scheme, Loops]] = []  # bounds and parts, numbered in the order of their making
    parts = mappings = number = 0
    for scheme in schemes(space):
        parts += 1
        # the bound holds for every layout
        bound = core.begin(scheme.spatial, scheme.keep, [(any_layout, (False,) * len(any_layout))])
        if bound < value:
            heap.append((bound, number := number + 1, scheme, ()))
    heapq.heapify(heap)
    begun: Scheme | None = None  # the scheme that the core looks at
    stuck = inf  # least bound of mappings that were left out in parts that cannot be divided
    while heap and heap[0][0] < (limit := value * (1 - TOLERANCE) / (1 + gap)) and not over() and (
            parts + mappings <= budget):
        bound, _, scheme, outer = heapq.heappop(heap)
        if scheme is not begun:
            core.begin(scheme.spatial, scheme.keep, list(layouts(space, scheme)))
            begun = scheme
        whole, least, found, bounded, evaluated, best = core.search(outer, limit, BUDGET)
        parts, mappings = parts + bounded, mappings + evaluated
        if best is not None:
            value, nest = found, Nest(*best)
        if whole:
            stuck = min(stuck, max(least, bound))
            continue
        bounded, children = core.divided(outer, min(limit, found))
        parts += bounded
        for below, factors, order in children:
            heapq.heappush(heap, (max(below, bound), number := number + 1, scheme,
                                  (*outer, (tuple(factors), tuple(order)))))
    # what was left out reaches the limit, which only falls
    limit = value * (1 - TOLERANCE) / (1 + gap)
    short = [bound for bound in (stuck, *(bound for bound, *_ in heap[:1])) if bound < limit]
    return MappingProof(value, nest, min(short, default=value / (1 + gap)), parts, mappings)
