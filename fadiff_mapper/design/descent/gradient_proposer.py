"""The proposer that descends from the best designs so far, and judges designs before they are mapped.

Rounds. The first designs are the best of some that are spread over the space, judged by their lower bounds. Later ones
come from four sources: ends of joint descents from the best designs (`joint_descent`), the least hardware that the best
design's mappings need (DOSA's way to draw hardware), walks to better estimates (`estimate_walk`), and some at random.
The bounds of the candidates, raised by what mapped designs near them lie above theirs (`design_estimates`), say which
of them are worth a search of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design.descent.borrowed_mappings import borrowed_point, extended, pooled
from fadiff_mapper.design.descent.design_estimates import DesignEstimates, metric_logarithm, place_of
from fadiff_mapper.design.descent.estimate_walk import walk
from fadiff_mapper.design.descent.least_hardware import least_hardware
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.least_figures import LeastFigures
from fadiff_mapper.design.proposers.proposer import Proposer
from fadiff_mapper.design.space import Point, broken_limit, design_area_mm2
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.results.designed_machine import DesignOutcome, metric_exponents
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

if TYPE_CHECKING:
    from fadiff_mapper.design.descent.joint_descent import ProposedDesign
    from fadiff_mapper.design.descent.joint_networks import JointNetworks

SpecsAt = Callable[[Point], tuple[Spec, ...]]
MappingsAt = Callable[[Point], tuple[Mapping, ...]]
LeastAt = Callable[[Point, Callable[[], bool]], LeastFigures | None]

POOL = 48
"""Designs whose mappings are kept for judging designs without a bound. Set by hand."""

FIRST, ROUND = 3, 3
"""Designs of the first round and of every later one at most: what they show is worth more than to map many at once.
Set by hand on DOSA's space."""

SPREAD, SCATTERED = 12, 2
"""Designs at random that the first round judges, and every later one, so that no corner of a space goes unseen."""

ENDS, DESCENDS = 3, 3
"""Ends of a descent that are judged, those of the lowest loss; and of how many rounds one descends. A descent takes as
long as some ten bounds with BERT, and the designs found there were the same without any."""

JUDGED = 8
"""Bounds that a round computes while it walks. A bound takes a third to a quarter of the time of a search of mappings,
so that a proposal costs about as much as the mapping of what it proposes."""

APART = 2.0
"""Octaves between the designs of the first round at least, less from round to round: designs side by side say the same
about how far designs lie above their bounds. Set by hand."""

HYPERCUBES = 32
"""Latin hypercubes that are drawn at most to find designs that keep the limits. Set by hand."""

IDLE = 10
"""Idle rounds after which a search ends: each judges some ten designs before it proposes the best of them. ResNet-18 on
1,536 designs, ten seeds: none found a better design after more than one idle round, and without this end a run went on
judging for minutes."""

TRUST = 0.35
"""Part of the metric that a search is expected to gain over borrowed mappings for each octave that a design without a
bound lies from the nearest mapped one. Set by hand."""


def gradient_proposer(question: DesignQuestion, specs_at: SpecsAt, mappings_at: MappingsAt,
                      least_at: LeastAt, over: Callable[[], bool] = lambda: False) -> Proposer:
    """The proposer of the method "gradient".

    Args:
        question: The question.
        specs_at: Every distinct layer on a design, in the order of `DesignQuestion.layers`; raises
            FadiffError where it is none.
        mappings_at: The exact mappings of a feasible design of the archive, in the same order.
        least_at: The bound of a design by its layers, fused or not; None where it has none. Raises OutOfTime once
            the function that it is given is true.
        over: Asked again and again; once true, descents end and no further design is read or judged.
    """
    return _GradientProposer(question, specs_at, mappings_at, least_at, over)


@dataclass
class _GradientProposer:
    """State between the rounds.

    Attributes:
        question: The question.
        specs_at: Reads a design.
        mappings_at: The mappings of a mapped design.
        least_at: Bounds a design.
        over: Whether time is over.
        rounds: Rounds so far.
        judged: The bound and the area of the designs judged so far; None where they have no bound.
        allowed: Whether designs can be read and keep all limits.
        parents: Designs from which a descent began.
        pool: Mappings of each layer for judging designs without a bound.
        pooled: Designs whose mappings are in the pool.
        idle_rounds: See `Proposer`.
    """

    question: DesignQuestion
    specs_at: SpecsAt
    mappings_at: MappingsAt
    least_at: LeastAt
    over: Callable[[], bool]
    rounds: int = 0
    judged: dict[Point, tuple[LeastFigures, float] | None] = field(default_factory=dict)
    allowed: dict[Point, bool] = field(default_factory=dict)
    parents: set[Point] = field(default_factory=set)
    pool: list[Nest] = field(default_factory=list)
    pooled: list[Point] = field(default_factory=list)
    idle_rounds: int = IDLE

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`."""
        known = {outcome.point for outcome in archive}
        mapped = [outcome for outcome in archive if outcome.feasible]
        rng = np.random.default_rng([self.question.seed, self.rounds])
        exponents = self._exponents(rng)
        ranked = sorted(mapped, key=lambda outcome: _logarithm(outcome, exponents))
        estimates = DesignEstimates(self.question.space, self._judge, exponents,
                                    {outcome.point: _logarithm(outcome, exponents) for outcome in mapped})
        expected: dict[Point, float] = {outcome.point: inf for outcome in archive if not outcome.feasible}

        def value_at(point: Point) -> float:
            if point not in expected:
                expected[point] = self._value(point, estimates, ranked)
            return expected[point]
        with suppress(OutOfTime):  # what has been judged by then must do
            for point in self._candidates(rng, ranked, exponents, known):
                value_at(point)
            self._walk(expected, value_at)
        self.rounds += 1
        allowed = self._apart([point for point in sorted(expected, key=lambda point: (expected[point], point))
                               if point not in known and self._allowed(point)],
                              min(count, ROUND if mapped else FIRST))
        if allowed or archive:
            return allowed
        if self.over():  # nothing was judged: any design that may do, the smallest one where others broke limits
            other = tuple(0 if self.allowed else len(parameter.values) // 2
                          for parameter in self.question.space.parameters)
            return [next((point for point, keeps in self.allowed.items() if keeps), other)]
        # Some limit is to blame: small machines show best how much too low it is.
        refused = (point for point, keeps in self.allowed.items() if not keeps)
        return sorted(refused, key=lambda point: (sum(point), point))[:count]

    @cached_property
    def networks(self) -> JointNetworks:
        """The layers of all networks."""
        from fadiff_mapper.design.descent.joint_networks import joint_networks  # loads torch
        return joint_networks(self.question)

    def read(self, point: Point) -> tuple[Spec, ...]:
        """Every distinct layer on a design. Raises FadiffError where it is none, and OutOfTime."""
        if self.over():
            raise OutOfTime
        return self.specs_at(point)

    def _exponents(self, rng: np.random.Generator) -> np.ndarray:
        """The exponents of energy, cycles and area that this round minimises: those of the metrics, mixed at random."""
        exponents = np.array([metric_exponents(metric) for metric in self.question.metrics], dtype=np.float64)
        weights = rng.dirichlet(np.ones(len(exponents))) if len(exponents) > 1 else np.ones(1)
        mixed: np.ndarray = weights @ exponents
        return mixed

    def _candidates(self, rng: np.random.Generator, ranked: Sequence[DesignOutcome], exponents: np.ndarray,
                    known: Collection[Point]) -> list[Point]:
        """Designs from which a round's walks begin, the best mapped one first."""
        scattered = self._scattered(rng, SCATTERED if ranked else SPREAD, known)
        if not ranked:
            return scattered
        best = ranked[0]
        least = [] if best.point in self.parents else [self._least(best, exponents)]
        return [best.point, *least, *self._descended(ranked, exponents), *scattered]

    def _walk(self, expected: dict[Point, float], value_at: Callable[[Point], float]) -> None:
        """Walks from the best estimates to better ones until enough designs have been judged."""
        judged, started = len(self.judged), set[Point]()

        def enough() -> bool:
            return len(self.judged) - judged >= JUDGED or self.over()
        while not enough():
            starts = [point for point in expected if point not in started and expected[point] < inf]
            if not starts:
                return
            start = min(starts, key=lambda point: (expected[point], point))
            started.add(start)
            walk(self.question.space, start, value_at, enough)

    def _apart(self, points: Sequence[Point], count: int) -> list[Point]:
        """The first points that keep their distance from those before, then the first of the others."""
        apart, chosen = APART / (1 + self.rounds), list[Point]()
        for point in points:
            place = place_of(self.question.space, point)
            if len(chosen) < count and all(
                    np.linalg.norm(place - place_of(self.question.space, other)) >= apart for other in chosen):
                chosen.append(point)
        return [*chosen, *(point for point in points if point not in chosen)][:count]

    def _allowed(self, point: Point) -> bool:
        """Whether a point is a design that keeps all limits."""
        if point not in self.allowed:
            space = self.question.space
            try:
                self.allowed[point] = not broken_limit(space, point) and not broken_limit(
                    space, point, self.read(point)[0])
            except OutOfTime:
                raise
            except FadiffError:
                self.allowed[point] = False
        return self.allowed[point]

    def _judge(self, point: Point) -> tuple[LeastFigures, float] | None:
        """The bound of a design by its layers, fused or not, and its area."""
        if point not in self.judged:
            least = self.least_at(point, self.over)
            self.judged[point] = None if least is None else (least, design_area_mm2(self.read(point)[0]))
        return self.judged[point]

    def _value(self, point: Point, estimates: DesignEstimates, ranked: Sequence[DesignOutcome]) -> float:
        """The logarithm of the metric that a design is expected to have; infinite where it is not allowed."""
        if not self._allowed(point):
            return inf
        value = estimates.of(point)
        if value < inf or not ranked:
            return value
        self._pool(ranked)
        place = place_of(self.question.space, point)
        distance = min(float(np.linalg.norm(place - place_of(self.question.space, outcome.point)))
                       for outcome in ranked)
        return self._borrowed(point, self.pool, estimates.exponents) - TRUST * distance

    def _scattered(self, rng: np.random.Generator, count: int, known: Collection[Point]) -> list[Point]:
        """New designs that keep the limits, spread over the space by Latin hypercubes."""
        parameters, found = self.question.space.parameters, dict[Point, None]()
        for _ in range(HYPERCUBES):
            strata = np.stack([rng.permutation(count) for _ in parameters], axis=1)
            for row in (strata + rng.random(strata.shape)) / count:
                point = tuple(min(int(part * len(parameter.values)), len(parameter.values) - 1)
                              for part, parameter in zip(row, parameters, strict=True))
                if point not in known and self._allowed(point):
                    found[point] = None
            if len(found) >= count:
                break
        return list(found)[:count]

    def _pool(self, ranked: Sequence[DesignOutcome]) -> None:
        """Adds the mappings of the designs that were mapped since the last round, the best `POOL` ones at most."""
        for outcome in ranked[:POOL]:
            if outcome.point not in self.pooled:
                specs, mappings = self.read(outcome.point), self.mappings_at(outcome.point)
                self.pool = extended(self.pool, specs, mappings) if self.pool else pooled(specs, [mappings])
                self.pooled.append(outcome.point)

    def _borrowed(self, point: Point, pool: Sequence[Nest], exponents: np.ndarray) -> float:
        """Logarithm of the metric of a design with the best mappings of a pool; infinite where some layer has none."""
        if not self._allowed(point):
            return inf
        specs = self.read(point)
        total = borrowed_point(specs, pool, self.question.loads, self.question.mapping_metric)
        return metric_logarithm(exponents, total.energy_pj, total.cycles, design_area_mm2(specs[0])) if total else inf

    def _least(self, best: DesignOutcome, exponents: np.ndarray) -> Point:
        """The least hardware for the mappings of a design."""
        own = pooled(self.read(best.point), [self.mappings_at(best.point)])
        return least_hardware(self.question.space, best.point, lambda point: self._borrowed(point, own, exponents))

    def _descended(self, ranked: Sequence[DesignOutcome], exponents: np.ndarray) -> list[Point]:
        """The best ends of a joint descent from the best design from which none began yet, in some of the rounds."""
        fresh = [outcome.point for outcome in ranked if outcome.point not in self.parents]
        if not fresh or self.rounds % DESCENDS != 1:
            return []
        self.parents.add(fresh[0])
        return [design.point for design in self._descent(fresh[0], exponents)][:ENDS]

    def _descent(self, parent: Point, exponents: np.ndarray) -> list[ProposedDesign]:
        """The ends of the descents from one design; none where designs are sparse, as the relaxed model is dense."""
        # These load torch, which takes a second or more, and no descent begins before a design has been mapped.
        from fadiff_mapper.design.descent.hardware_curves import curves_around
        from fadiff_mapper.design.descent.joint_descent import proposed_designs
        from fadiff_mapper.design.descent.joint_networks import relaxed_around
        specs, space = self.read(parent), self.question.space
        if any(spec.sparse and spec.sparse.applied for spec in specs):
            return []
        network = relaxed_around(self.networks, self._widest(specs), specs, self.mappings_at(parent))

        def spec_at(point: Point) -> Spec:
            return self.read(point)[0]
        area = exponents[2] / max(exponents[:2].max(), 1e-9)
        return proposed_designs(space, curves_around(space, parent, spec_at), network, self.question.mapping_metric,
                                np.array([area]), self.question.seed + self.rounds, stopped=self.over)

    def _widest(self, specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        """The layers on the design of all greatest values, whose factors hold those of all designs, where it is one."""
        from fadiff_mapper.design.descent.hardware_figures import structure  # loads torch
        point = tuple(len(parameter.values) - 1 if parameter.numeric else 0
                      for parameter in self.question.space.parameters)
        try:
            widest = self.read(point)
        except OutOfTime:
            raise
        except FadiffError:
            return specs
        return widest if structure(widest[0]) == structure(specs[0]) else specs


def _logarithm(outcome: DesignOutcome, exponents: np.ndarray) -> float:
    """Logarithm of the mixed metric of a mapped design."""
    return metric_logarithm(exponents, outcome.energy_pj, outcome.cycles, outcome.area_mm2)
