"""Designs that are judged by lower bounds before they are mapped.

**Rounds.** Designs of the first round are spread over the space; those with the best lower bounds are mapped. Later
designs come from the least hardware that the best design's mappings need (DOSA's way to draw hardware), walks to better
estimates, random draws and, with a descent, its results.

**Estimates.** The bounds of all layers one by one (`search.lower_bound`) need no search, and the gap between a design
and its bound is predicted from mapped designs. Bounds allow each layer tiles that no single loop order reaches, so the
gap has a trend, which grows as memories shrink, and a local part: a Gaussian process with a linear and a squared
exponential kernel around the mean gap. Fused groups and corrections to measured hardware change all designs by a
similar share, which the gap includes.

**Borrowed mappings.** Designs without a bound (sparse designs, outputs whose rank is a sum of dimensions) are judged by
mappings of other designs: a mapping is legal on every design with room for it, so the best of all mappings found so far
gives an upper bound, at a thousandth of a search's cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf, log

import numpy as np

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, LeastFigures, metric_exponents
from fadiff_mapper.design.space import DesignSpace, Point, broken_limit, coordinate, design_area_mm2, points_beside
from fadiff_mapper.fusion.prices import chosen, summed
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays, pack
from fadiff_mapper.workload import OperatingPoint


def pooled(specs: Sequence[Spec], designs: Sequence[Sequence[Mapping]], pool: Sequence[Nest] = ()) -> list[Nest]:
    """The distinct mappings of some designs, one batch for each layer, after those of `pool`.

    `specs`: all layers on any of the designs; `designs`: for each design the mapping of every layer.
    """
    nests = [pack([mappings[layer] for mappings in designs], spec.problem) for layer, spec in enumerate(specs)]
    if pool:
        nests = [joined([before, own]) for before, own in zip(pool, nests, strict=True)]
    distinct = []
    for nest in nests:
        rows = np.concatenate([array.reshape(-1, nest.batch) for array in nest_arrays(nest)])
        distinct.append(nest.take(np.sort(np.unique(rows, axis=1, return_index=True)[1])))
    return distinct


def borrowed_point(specs: Sequence[Spec], pool: Sequence[Nest], times: Sequence[float],
                   metric: str) -> OperatingPoint | None:
    """Energy and cycles summed over all layers with the best mappings of the pool; None if some layer has no legal one.

    `times`: the runs of each layer; `metric`: "edp", "energy" or "delay" of the sums.
    """
    choices = []
    for spec, nest, often in zip(specs, pool, times, strict=True):
        scores = score(layer_of(spec), nest)
        legal = np.flatnonzero(scores.legal)
        if not len(legal):
            return None
        energy, cycles = scores.energy[legal], scores.cycles[legal]
        order = np.lexsort((energy, cycles))
        least = np.minimum.accumulate(energy[order])
        undominated = order[np.concatenate([[True], energy[order][1:] < least[:-1]])]
        points = sorted(((float(energy[i]), float(cycles[i])) for i in undominated), key=lambda both: both[0] * both[1])
        choices.append([OperatingPoint(often * each, often * its_cycles) for each, its_cycles in points])
    return summed([part[pick] for part, pick in zip(choices, chosen(choices, metric), strict=True)])


TREND, NEAR, NOISE = 0.15, 0.1, 0.01
"""Standard deviations in natural logarithms: of the trend per octave, of the local part, and of the search's misses."""

REACH = 1.0  # octaves over which the local part fades


def expected_gaps(places: Sequence[np.ndarray], gaps: Sequence[float]) -> Callable[[np.ndarray], float]:
    """The expected gap as a function of coordinates [P]: never below 0, and 0 everywhere without data.

    `places`: the coordinates of mapped designs in octaves, [P] each; `gaps`: the logarithms of metric over bound.
    """
    if not places:
        return lambda _: 0.0
    known, values = np.stack(places), np.array(gaps)
    centre, mean = known.mean(axis=0), float(values.mean())

    def kernel(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        squares = ((left[:, None] - right[None]) ** 2).sum(axis=2)
        linear = (left - centre) @ (right - centre).T
        together: np.ndarray = TREND ** 2 * linear + NEAR ** 2 * np.exp(-squares / (2 * REACH ** 2))
        return together
    weights = np.linalg.solve(kernel(known, known) + NOISE ** 2 * np.eye(len(values)), values - mean)
    return lambda place: max(0.0, mean + float((kernel(place[None], known) @ weights)[0]))


SMALLEST = 1e-300  # smallest bound in a logarithm

Judge = Callable[[Point], tuple[LeastFigures, float] | None]
"""The bound of a design and its area in mm2, 0 if unknown; None without a bound."""


def place_of(space: DesignSpace, point: Point) -> np.ndarray:
    """The coordinates of a design in octaves, [P]; the distance of two words is that of their positions in the list."""
    return np.array([coordinate(parameter, index) for parameter, index in zip(space.parameters, point, strict=True)])


def metric_logarithm(exponents: np.ndarray, energy: float, cycles: float, area: float) -> float:
    """Logarithm of energy, cycles and area to their exponents; an area of 0 is unknown and ignored."""
    return float(exponents @ np.log([energy, cycles, area or 1.0]))


def expected_logarithms(space: DesignSpace, judge: Judge, exponents: np.ndarray,
                        mapped: dict[Point, float]) -> Callable[[Point], float]:
    """Estimates of one round: the expected logarithm of a design's metric, exact if mapped, infinite without a bound.

    `exponents`: of energy, cycles and area in the metric; `mapped`: the logarithm of the metric of every mapped
    design.
    """
    energy, cycles, area_exponent = exponents

    def bound_of(point: Point) -> float:
        judged = judge(point)
        if judged is None:
            return inf
        least, area = judged
        return log(max(least.product(energy, cycles), SMALLEST)) + float(area_exponent) * log(area or 1.0)

    @cache
    def gap_at() -> Callable[[np.ndarray], float]:
        """The expected gap to the bound, from the mapped designs with a bound."""
        gaps = {point: value - bound for point, value in mapped.items() if (bound := bound_of(point)) < inf}
        return expected_gaps([place_of(space, point) for point in gaps], list(gaps.values()))

    def expected(point: Point) -> float:
        if point in mapped:
            return mapped[point]
        bound = bound_of(point)
        return bound + gap_at()(place_of(space, point)) if bound < inf else inf
    return expected


STRIDES = (3.0, 1.5, 0.75, 0.35, 0.15, 0.0)
"""Octaves of a step, coarse steps first; the last step goes to the next value."""

LEAST_GAIN = 0.003
"""Share of a metric that a step must gain: bounds fall slightly towards memories so small that mappings lie far above
their bounds."""


def walk(space: DesignSpace, start: Point, value_at: Callable[[Point], float], enough: Over) -> None:
    """Walks from `start` to lower values along one parameter at a time, until `enough` is true.

    `value_at`: cached by the caller, infinite for invalid designs.
    """
    here, value = start, value_at(start)
    for octaves in STRIDES:
        moved = True
        while moved:
            moved = False
            for point in points_beside(space, here, octaves):
                if enough():
                    return
                other = value_at(point)
                if other < value - LEAST_GAIN:
                    here, value, moved = point, other, True
                    break


NO_WORSE = 1e-9  # rise of the logarithm of a metric that counts as rounding


def least_hardware(space: DesignSpace, point: Point, value_at: Callable[[Point], float]) -> Point:
    """Lowers one parameter after the other as far as the mappings still run and are no worse than before.

    `value_at`: the logarithm of the mappings' metric on a design; infinite if they do not run there. Values are found
    by bisection, so that a parameter with several minima may stop early.
    """
    value = value_at(point)
    for axis, parameter in enumerate(space.parameters):
        if not parameter.numeric:
            continue
        too_low, fits = -1, point[axis]
        while fits - too_low > 1:
            middle = (too_low + fits) // 2
            lowered = value_at((*point[:axis], middle, *point[axis + 1:]))
            if lowered <= value + NO_WORSE:
                fits, value = middle, lowered
            else:
                too_low = middle
        point = (*point[:axis], fits, *point[axis + 1:])
    return point


SpecsAt = Callable[[Point], tuple[Spec, ...]]
DesignDescent = Callable[[DesignQuestion, Point, SpecsAt, Sequence[Mapping], np.ndarray, int, Over], Sequence[Point]]
"""Proposes designs, the most promising first, from a mapped design: see
`gradient.hardware_descent.descended_designs`."""

POOL = 48  # designs whose mappings are kept to judge designs without a bound

FIRST, ROUND = 3, 3
"""Most designs of the first and of every later round: few, as each round learns from the one before."""

SPREAD, SCATTERED = 12, 2
"""Random designs judged in the first round, and in every later one, so that all corners of a space are seen."""

ENDS, DESCENDS = 3, 3
"""Results of a descent that are judged, lowest loss first; rounds from one descent to the next, as a descent takes as
long as some ten bounds."""

JUDGED = 8
"""Bounds that a round computes while it walks: proposing designs then takes about as long as mapping them."""

APART = 2.0
"""Least octaves between designs of the first round, fewer from round to round: near designs have similar gaps."""

HYPERCUBES = 32  # most Latin hypercubes drawn to find designs within the limits

IDLE = 10
"""Idle rounds after which a search ends: each judges some ten designs, and better designs rarely follow a second
one."""

TRUST = 0.35
"""Share of the metric that a search is expected to gain over borrowed mappings, for each octave between a design
without a bound and the nearest mapped design."""


@dataclass
class BoundDesigns:
    """The proposer of the methods "bounds" and, with a descent, "gradient"."""

    question: DesignQuestion
    specs_at: SpecsAt  # the layers of `DesignQuestion.layers` on a design; FadiffError for an invalid design
    mappings_at: Callable[[Point], tuple[Mapping, ...]]  # the exact mappings of a feasible design, in the same order
    least_at: Callable[[Point, Over], LeastFigures | None]
    """The bound on the layers of a design one by one; None without a bound. Raises OutOfTime."""
    over: Over = never  # once true, descents end and no further design is read or judged
    descent: DesignDescent | None = None  # proposes further designs from a mapped one
    rounds: int = 0  # rounds so far
    judged: dict[Point, tuple[LeastFigures, float] | None] = field(default_factory=dict)
    allowed: dict[Point, bool] = field(default_factory=dict)  # whether designs are valid and within all limits
    parents: set[Point] = field(default_factory=set)  # designs that had their turn for a descent
    pool: list[Nest] = field(default_factory=list)  # mappings of each layer, for designs without a bound
    pooled: list[Point] = field(default_factory=list)  # designs whose mappings are in the pool
    idle_rounds: float = IDLE

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`."""
        space, known = self.question.space, {outcome.point for outcome in archive}
        rng = np.random.default_rng([self.question.options.seed, self.rounds])
        each = np.array([metric_exponents(metric) for metric in self.question.options.metrics], dtype=np.float64)
        exponents = (rng.dirichlet(np.ones(len(each))) if len(each) > 1 else np.ones(1)) @ each
        mapped = {outcome.point: metric_logarithm(exponents, outcome.energy_pj, outcome.cycles, outcome.area_mm2)
                  for outcome in archive if outcome.feasible}
        ranked = sorted(mapped, key=lambda point: mapped[point])
        estimate = expected_logarithms(space, self._judge, exponents, mapped)
        expected: dict[Point, float] = {outcome.point: inf for outcome in archive if not outcome.feasible}

        def value_at(point: Point) -> float:
            """The expected logarithm of a design's metric; infinite if the design is not allowed.

            Designs without a bound are judged by the mappings of the best `POOL` designs so far.
            """
            if point not in expected:
                value = estimate(point) if self._allowed(point) else inf
                if value == inf and ranked and self._allowed(point):
                    for other in ranked[:POOL]:
                        if other not in self.pooled:
                            self.pool = pooled(self.read(other), [self.mappings_at(other)], self.pool)
                            self.pooled.append(other)
                    value = self._borrowed(point, self.pool, exponents) - TRUST * min(
                        self._distance(point, other) for other in ranked)
                expected[point] = value
            return expected[point]

        with suppress(OutOfTime):  # the designs judged so far are used
            # Walks begin at the best mapped design, at its least hardware, in some rounds at the results of a descent
            # from the best design without one, and at new random designs, spread by Latin hypercubes.
            wanted, scattered = SCATTERED if ranked else SPREAD, dict[Point, None]()
            for _ in range(HYPERCUBES):
                strata = np.stack([rng.permutation(wanted) for _ in space.parameters], axis=1)
                for row in (strata + rng.random(strata.shape)) / wanted:
                    point = tuple(min(int(part * len(parameter.values)), len(parameter.values) - 1)
                                  for part, parameter in zip(row, space.parameters, strict=True))
                    if point not in known and self._allowed(point):
                        scattered[point] = None
                if len(scattered) >= wanted:
                    break
            candidates = list(ranked[:1])
            if ranked and ranked[0] not in self.parents:
                own = pooled(self.read(ranked[0]), [self.mappings_at(ranked[0])])
                candidates.append(least_hardware(space, ranked[0], lambda point: self._borrowed(point, own, exponents)))
            fresh = next((point for point in ranked if point not in self.parents), None)
            if fresh is not None and self.rounds % DESCENDS == 1:
                self.parents.add(fresh)
                if self.descent is not None:
                    candidates += self.descent(self.question, fresh, self.read, self.mappings_at(fresh), exponents,
                                               self.question.options.seed + self.rounds, self.over)[:ENDS]
            for point in [*candidates, *list(scattered)[:wanted]]:
                value_at(point)
            judged, started = len(self.judged), set[Point]()

            def enough() -> bool:
                return len(self.judged) - judged >= JUDGED or self.over()

            while not enough() and (starts := [point for point in expected
                                               if point not in started and expected[point] < inf]):
                start = min(starts, key=lambda point: (expected[point], point))
                started.add(start)
                walk(space, start, value_at, enough)
        self.rounds += 1
        points = [point for point in sorted(expected, key=lambda point: (expected[point], point))
                  if point not in known and self._allowed(point)]
        most, apart, far = min(count, ROUND if mapped else FIRST), APART / (1 + self.rounds), list[Point]()
        for point in points:    # first points that keep their distance, then the others
            if len(far) < most and all(self._distance(point, other) >= apart for other in far):
                far.append(point)
        allowed = [*far, *(point for point in points if point not in far)][:most]
        if allowed or archive:
            return allowed
        if self.over():  # nothing judged: any design, the smallest if others broke limits
            other = tuple(0 if self.allowed else len(parameter.values) // 2 for parameter in space.parameters)
            return [next((point for point, keeps in self.allowed.items() if keeps), other)]
        # All broke limits: the smallest machine shows how far the limits are too low.
        refused = (point for point, keeps in self.allowed.items() if not keeps)
        return sorted(refused, key=lambda point: (sum(point), point))[:count]

    def read(self, point: Point) -> tuple[Spec, ...]:
        """Every distinct layer on a design. Raises FadiffError for an invalid design, and OutOfTime."""
        if self.over():
            raise OutOfTime
        return self.specs_at(point)

    def _distance(self, point: Point, other: Point) -> float:
        """The distance of two designs in octaves."""
        return float(np.linalg.norm(place_of(self.question.space, point) - place_of(self.question.space, other)))

    def _allowed(self, point: Point) -> bool:
        """Whether a point is a valid design within all limits."""
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
        """The bound on the layers of a design one by one, and its area."""
        if point not in self.judged:
            least = self.least_at(point, self.over)
            self.judged[point] = None if least is None else (least, design_area_mm2(self.read(point)[0]))
        return self.judged[point]

    def _borrowed(self, point: Point, pool: Sequence[Nest], exponents: np.ndarray) -> float:
        """Logarithm of a design's metric with the best mappings of a pool; infinite if some layer has no legal one."""
        if not self._allowed(point):
            return inf
        specs = self.read(point)
        total = borrowed_point(specs, pool, self.question.loads, self.question.mapping_metric)
        return metric_logarithm(exponents, total.energy_pj, total.cycles, design_area_mm2(specs[0])) if total else inf
