"""The proposer that descends from the best designs so far, and judges designs before they are mapped.

Rounds. The first designs are spread over the space. Later ones come from four sources: ends of joint descents from the
best designs (`joint_descent`), the least hardware that the best design's mappings need (DOSA's way to draw hardware),
designs one step from the best one along each parameter, and some at random. The mappings of the archive, evaluated
exactly on every candidate (`borrowed_mappings`), say which of them are worth a search of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.descent.borrowed_mappings import borrowed_point, extended, pooled
from fadiff_mapper.design.descent.hardware_curves import coordinates, curves_around
from fadiff_mapper.design.descent.hardware_figures import structure
from fadiff_mapper.design.descent.joint_descent import ProposedDesign, proposed_designs
from fadiff_mapper.design.descent.joint_networks import JointNetworks, joint_networks, relaxed_around
from fadiff_mapper.design.descent.least_hardware import least_hardware
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.proposers.proposer import Proposer
from fadiff_mapper.design.space import Point, broken_limit, design_area_mm2
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.results.designed_machine import DesignOutcome, metric_exponents
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec

SpecsAt = Callable[[Point], tuple[Spec, ...]]
MappingsAt = Callable[[Point], tuple[Mapping, ...]]

PARENTS = 2
"""Designs of the archive from which a round descends, the best one and one of the others. Set by hand."""

POOL = 48
"""Designs whose mappings are kept for judging others: judging costs one evaluation of each. Set by hand."""

SCATTERED = 24
"""Designs at random that a round judges, so that no corner of a space goes unseen. Set by hand."""

FIRST, ROUND = 3, 4
"""Designs of the first round and of every later one at most: what they show is worth more than to map many at once.
Set by hand on BERT and DOSA's space."""

HYPERCUBES = 32
"""Latin hypercubes that are drawn at most to find designs that keep the limits. Set by hand."""

LEARNED_FROM = 6
"""Mapped candidates from which `TRUST` is learned. Set by hand."""

TRUST = 0.35
"""Part of a candidate's judged metric that a search of its own is expected to gain for each octave that it lies from
the nearest mapped design, until the archive says otherwise. Set by hand; learned from the second round on."""


def gradient_proposer(question: DesignQuestion, specs_at: SpecsAt, mappings_at: MappingsAt) -> Proposer:
    """The proposer of the method "gradient".

    Args:
        question: The question.
        specs_at: Every distinct layer on a design, in the order of `DesignQuestion.layers`; raises
            FadiffError where it is none.
        mappings_at: The exact mappings of a feasible design of the archive, in the same order.
    """
    return _GradientProposer(question, specs_at, mappings_at, joint_networks(question))


@dataclass
class _Judgement:
    """A candidate as it was judged when it was proposed: the judged logarithm and the distance in octaves."""

    value: float
    distance: float


@dataclass
class _GradientProposer:
    """State between the rounds.

    Attributes:
        question: The question.
        read: Reads a design.
        mappings_at: The mappings of a mapped design.
        networks: The layers of all networks.
        rounds: Rounds so far.
        specs: Designs that were read, None for those that are none or break a limit.
        pool: Mappings of each layer for judging designs; empty before the first one is mapped.
        pooled: Designs whose mappings are in the pool.
        judged: The candidates that were proposed.
    """

    question: DesignQuestion
    read: SpecsAt
    mappings_at: MappingsAt
    networks: JointNetworks
    rounds: int = 0
    specs: dict[Point, tuple[Spec, ...] | None] = field(default_factory=dict)
    pool: list[Nest] = field(default_factory=list)
    pooled: list[Point] = field(default_factory=list)
    judged: dict[Point, _Judgement] = field(default_factory=dict)

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`."""
        known = {outcome.point for outcome in archive}
        mapped = [outcome for outcome in archive if outcome.feasible]
        rng = np.random.default_rng([self.question.seed, self.rounds])
        self.rounds += 1
        if not mapped:
            return self._scattered(rng, min(count, FIRST), known)
        exponents = self._exponents(rng)
        ranked = sorted(mapped, key=lambda outcome: _logarithm(outcome, exponents))
        self._pool(ranked)
        candidates = [*self._descended(ranked, exponents), self._least(ranked[0], exponents),
                      *self._neighbours(ranked[0].point), *self._scattered(rng, SCATTERED, known)]
        trust = self._trust(mapped, exponents)
        expected: dict[Point, float] = {}
        for point in dict.fromkeys(candidates):
            if point not in known and self._specs(point):
                value, distance = self._borrowed(point, self.pool, exponents), self._distance(point, mapped)
                self.judged[point] = _Judgement(value, distance)
                expected[point] = value - trust * distance
        return sorted(expected, key=lambda point: (expected[point], point))[:min(count, ROUND)]

    def _exponents(self, rng: np.random.Generator) -> np.ndarray:
        """The exponents of energy, cycles and area that this round minimises: those of the metrics, mixed at random."""
        exponents = np.array([metric_exponents(metric) for metric in self.question.metrics], dtype=np.float64)
        weights = rng.dirichlet(np.ones(len(exponents))) if len(exponents) > 1 else np.ones(1)
        mixed: np.ndarray = weights @ exponents
        return mixed

    def _specs(self, point: Point) -> tuple[Spec, ...] | None:
        """The layers on a design; None where it is no design or breaks a limit."""
        if point not in self.specs:
            try:
                specs = None if broken_limit(self.question.space, point) else self.read(point)
                self.specs[point] = None if specs and broken_limit(self.question.space, point, specs[0]) else specs
            except FadiffError:
                self.specs[point] = None
        return self.specs[point]

    def _scattered(self, rng: np.random.Generator, count: int, known: Collection[Point]) -> list[Point]:
        """New designs that keep the limits, spread over the space by Latin hypercubes."""
        parameters, found = self.question.space.parameters, dict[Point, None]()
        for _ in range(HYPERCUBES):
            strata = np.stack([rng.permutation(count) for _ in parameters], axis=1)
            for row in (strata + rng.random(strata.shape)) / count:
                point = tuple(min(int(part * len(parameter.values)), len(parameter.values) - 1)
                              for part, parameter in zip(row, parameters, strict=True))
                if point not in known and self._specs(point):
                    found[point] = None
            if len(found) >= count:
                break
        return list(found)[:count]

    def _pool(self, ranked: Sequence[DesignOutcome]) -> None:
        """Adds the mappings of the designs that were mapped since the last round, the best `POOL` ones at most."""
        for outcome in ranked[:POOL]:
            if outcome.point not in self.pooled:
                specs, mappings = self._specs(outcome.point), self.mappings_at(outcome.point)
                if specs:
                    self.pool = (extended(self.pool, specs, mappings) if self.pool else pooled(specs, [mappings]))
                    self.pooled.append(outcome.point)

    def _borrowed(self, point: Point, pool: Sequence[Nest], exponents: np.ndarray) -> float:
        """Logarithm of the metric of a design with the best mappings of a pool; infinite where some layer has none."""
        specs = self._specs(point)
        total = specs and borrowed_point(specs, pool, self.question.loads, self.question.mapping_metric)
        if not specs or not total:
            return inf
        return _metric(exponents, total.energy_pj, total.cycles, design_area_mm2(specs[0]))

    def _least(self, best: DesignOutcome, exponents: np.ndarray) -> Point:
        """The least hardware for the mappings of a design."""
        specs = self._specs(best.point)
        assert specs is not None
        own = pooled(specs, [self.mappings_at(best.point)])
        return least_hardware(self.question.space, best.point, lambda point: self._borrowed(point, own, exponents))

    def _neighbours(self, point: Point) -> list[Point]:
        """Designs beside one along every parameter: one and two values away, and a 32nd, 16th and 8th of its values."""
        found = []
        for axis, parameter in enumerate(self.question.space.parameters):
            steps = {max(1, len(parameter.values) >> shift) for shift in (31, 5, 4, 3)} | {2}
            for index in sorted({point[axis] + sign * step for step in steps for sign in (-1, 1)}):
                if 0 <= index < len(parameter.values):
                    found.append((*point[:axis], index, *point[axis + 1:]))
        return found

    def _descended(self, ranked: Sequence[DesignOutcome], exponents: np.ndarray) -> list[Point]:
        """The ends of joint descents from the best design, and from others in turn."""
        others = ranked[1:1 + 2 * PARENTS]
        parents = [ranked[0], *(others[self.rounds % len(others):][:PARENTS - 1] if others else ())]
        return [design.point for parent in parents for design in self._descent(parent.point, exponents)]

    def _descent(self, parent: Point, exponents: np.ndarray) -> list[ProposedDesign]:
        """The ends of the descents from one design; none where designs are sparse, as the relaxed model is dense."""
        specs, space = self._specs(parent), self.question.space
        assert specs is not None
        if any(spec.sparse and spec.sparse.applied for spec in specs):
            return []
        network = relaxed_around(self.networks, self._widest(specs), specs, self.mappings_at(parent))

        def spec_at(point: Point) -> Spec:
            return self.read(point)[0]
        area = exponents[2] / max(exponents[:2].max(), 1e-9)
        return proposed_designs(space, curves_around(space, parent, spec_at), network, self.question.mapping_metric,
                                np.array([area]), self.question.seed + self.rounds)

    def _widest(self, specs: tuple[Spec, ...]) -> tuple[Spec, ...]:
        """The layers on the design of all greatest values, whose factors hold those of all designs, where it is one."""
        point = tuple(len(parameter.values) - 1 if parameter.numeric else 0
                      for parameter in self.question.space.parameters)
        try:
            widest = self.read(point)
        except FadiffError:
            return specs
        return widest if structure(widest[0]) == structure(specs[0]) else specs

    def _distance(self, point: Point, mapped: Sequence[DesignOutcome]) -> float:
        """Octaves from a design to the nearest mapped one; a word that differs counts as one."""
        here = self._place(point)
        return min(float(np.linalg.norm(here - self._place(outcome.point))) for outcome in mapped)

    def _place(self, point: Point) -> np.ndarray:
        """The coordinates of a design, [P]."""
        return np.array([coordinates(parameter)[index]
                         for parameter, index in zip(self.question.space.parameters, point, strict=True)])

    def _trust(self, mapped: Sequence[DesignOutcome], exponents: np.ndarray) -> float:
        """The gain of a search over borrowed mappings for each octave of distance, from the candidates mapped so far.

        Fitted with an offset, as fused layers gain on top; between nothing and twice `TRUST`.
        """
        pairs = [(judgement.distance, judgement.value - _logarithm(outcome, exponents)) for outcome in mapped
                 if (judgement := self.judged.get(outcome.point)) and judgement.value < inf]
        if len(pairs) < LEARNED_FROM or len({distance for distance, _ in pairs}) < 2:
            return TRUST
        distances, gains = np.array(pairs).T
        slope = float(np.polyfit(distances, gains, 1)[0])
        return float(np.clip(slope, 0.0, 2 * TRUST))


def _logarithm(outcome: DesignOutcome, exponents: np.ndarray) -> float:
    """Logarithm of the mixed metric of a mapped design."""
    return _metric(exponents, outcome.energy_pj, outcome.cycles, outcome.area_mm2)


def _metric(exponents: np.ndarray, energy: float, cycles: float, area: float) -> float:
    """Logarithm of energy, cycles and area to their exponents; an area of 0 is not known and does not count."""
    return float(exponents @ np.log([energy, cycles, area or 1.0]))
