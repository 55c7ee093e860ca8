"""The proof that a mapping is the best of its map space, or a better mapping, and the bound that is left.

Parts of the map space are schemes (`schemes.Scheme`) and, within them, choices of the temporal loops of the outermost
levels. The core bounds parts, and searches small ones for mappings below a limit (`kernel/proof.cpp`); parts that are
too large for that are divided by the loops of one more level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.lower_bound.assemble import percent_above
from fadiff_mapper.search.lower_bound.best_first import Look, best_first
from fadiff_mapper.search.lower_bound.schemes import Layout, Scheme, layouts, schemes
from fadiff_mapper.search.mapspace import MapSpace

BUDGET = 20_000
"""Parts and mappings that the core looks at before a part is divided: some 10 ms, as long as its division takes."""

AT_ONCE = 30_000
"""The same for the bound of a mapping that nobody asked to prove: some 10 to 100 ms, most of it for schemes."""

SOON = 200_000
"""Parts and mappings after which a mapping is searched at full length before its proof goes on: about as long."""

Loops = tuple[tuple[tuple[float, ...], tuple[int, ...]], ...]
"""Temporal loops of the outermost levels, the outermost first: factors and order of each, by dimension."""


@dataclass(frozen=True)
class MappingPart:
    """A part of a map space: a scheme, and the temporal loops of the outermost levels."""

    scheme: Scheme
    outer: Loops = ()


@dataclass(frozen=True)
class MappingProof:
    """What is proved about the mappings of a map space."""

    value: float   # The metric of the best mapping known
    nest: Nest     # That mapping, a nest of one row
    least: float   # No legal mapping has less, but for a billionth (`best_first.TOLERANCE`)
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
    value = metric_of(score(layer, nest), metric)
    core = core_of(layer, space, metric)
    begun: list[Scheme] = []
    parts = mappings = 0

    def begin(scheme: Scheme, placed: Iterable[Layout]) -> float:
        bound: float = core.begin([factor for level in scheme.spatial for factor in level],
                                  [kept for level in scheme.keep for kept in level], list(placed))
        return bound

    def first() -> Iterator[tuple[float, MappingPart]]:
        nonlocal parts
        any_layout = tuple(range(len(space.problem.dimensions))) * len(space.levels)
        for scheme in schemes(space):
            parts += 1
            bound = begin(scheme, [(any_layout, (False,) * len(any_layout))])  # the bound holds for every layout
            if bound < value:
                yield bound, MappingPart(scheme)

    def look(part: MappingPart, limit: float) -> Look[MappingPart, Nest]:
        nonlocal parts, mappings
        if begun != [part.scheme]:
            begin(part.scheme, layouts(space, part.scheme))
            begun[:] = [part.scheme]
        whole, least, found, bounded, evaluated, best = core.search(part.outer, limit, BUDGET)
        parts, mappings = parts + bounded, mappings + evaluated
        better = None if best is None else (found, Nest(*best))
        if whole:
            return Look(better=better, least=least)
        bounded, children = core.divided(part.outer, min(limit, found))
        parts += bounded
        return Look([(bound, MappingPart(part.scheme, (*part.outer, (tuple(factors), tuple(order)))))
                     for bound, factors, order in children], better)

    proof = best_first(first(), look, value, gap, lambda: over() or parts + mappings > budget)
    return MappingProof(proof.value, proof.answer or nest, proof.least, parts, mappings)
