"""Designs that are judged by lower bounds before they are mapped.

**Rounds.** The first designs are the best of some that are spread over the space, judged by their lower bounds. Later
ones come from the least hardware that the best design's mappings need (DOSA's way to draw hardware), walks to better
estimates, some at random and, where the caller hands in a descent, its ends.

**Estimates.** The bounds of all layers by themselves (`search.lower_bound`) are computed without a search, and how
far a design lies above its bound follows from the mapped ones: 0 to 3 % for most designs of DOSA's space, but 14 to
59 % for seven designs with U-Net, the more the smaller the memories are. Bounds allow each layer tiles that no single
order of loops pays for. So the gap has a trend, which reaches beyond the designs mapped, and a part that holds near
them: a Gaussian process with a linear and a squared exponential kernel around the mean gap. Fused groups and
corrections to measured hardware shift all designs by a similar part, which the same difference takes in.

**Borrowed mappings.** Designs without a bound (sparse ones, outputs whose rank is a sum of dimensions) are worth what
the mappings of other designs give on them: a mapping found for one design is legal on every design with room for it,
so the best of all mappings found so far gives an upper bound, at a thousandth of a search's cost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf, log

import numpy as np

from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design.layer_entries import LeastFigures
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, metric_exponents
from fadiff_mapper.design.space import DesignSpace, Point, broken_limit, coordinate, design_area_mm2, points_beside
from fadiff_mapper.fusion.prices import OperatingPoint, chosen, summed
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays, pack


def pooled(specs: Sequence[Spec], designs: Sequence[Sequence[Mapping]], pool: Sequence[Nest] = ()) -> list[Nest]:
    """The mappings of some designs, one batch for each layer, equal ones once.

    Args:
        specs: Every layer on any of the designs.
        designs: For each design the mapping of every layer.
        pool: Mappings of earlier designs, which come first.
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
    """Energy and cycles of all layers with the best mappings of the pool.

    Args:
        specs: Every layer on the design.
        pool: Mappings of each layer from other designs.
        times: How often each layer runs.
        metric: "edp", "energy" or "delay" of the sums.

    Returns:
        The sums over the layers; None where no mapping of some layer is legal on the design.
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
"""Standard deviations in natural logarithms: of the trend per octave, of the part that holds near a design, and of what
a search may miss. On DOSA's space with U-Net the gap falls by 0.1 to 0.17 per octave of a memory."""

REACH = 1.0
"""Octaves over which the part near a design fades. Set by hand."""


def expected_gaps(places: Sequence[np.ndarray], gaps: Sequence[float]) -> Callable[[np.ndarray], float]:
    """The gap that is expected at any place.

    Args:
        places: Coordinates of n mapped designs in octaves, [P] each.
        gaps: Logarithm of their metric less that of their bound.

    Returns:
        A function of coordinates, [P]; never below 0, and 0 everywhere where nothing is known.
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


SMALLEST = 1e-300
"""Stands in for a bound of 0 in logarithms."""

Judge = Callable[[Point], tuple[LeastFigures, float] | None]
"""The bound of a design and its area in mm2, 0 where it is not known; None where it has none."""


def place_of(space: DesignSpace, point: Point) -> np.ndarray:
    """The coordinates of a design in octaves, [P]; a word that differs lies its distance in the list away."""
    return np.array([coordinate(parameter, index) for parameter, index in zip(space.parameters, point, strict=True)])


def metric_logarithm(exponents: np.ndarray, energy: float, cycles: float, area: float) -> float:
    """Logarithm of energy, cycles and area to their exponents; an area of 0 is not known and does not count."""
    return float(exponents @ np.log([energy, cycles, area or 1.0]))


def expected_logarithms(space: DesignSpace, judge: Judge, exponents: np.ndarray,
                        mapped: dict[Point, float]) -> Callable[[Point], float]:
    """Estimates of one round: the expected logarithm of the metric of a design.

    Args:
        space: The space.
        judge: Bounds of designs, kept by the caller.
        exponents: Exponents of energy, cycles and area in the metric of this round.
        mapped: The logarithm of the metric of every mapped design.

    Returns:
        A function of designs, exact for a mapped one; infinite where there is no bound.
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
        """The expected distance above the bound, from the mapped designs that have one."""
        gaps = {point: value - bound for point, value in mapped.items() if (bound := bound_of(point)) < inf}
        return expected_gaps([place_of(space, point) for point in gaps], list(gaps.values()))

    def expected(point: Point) -> float:
        if point in mapped:
            return mapped[point]
        bound = bound_of(point)
        return bound + gap_at()(place_of(space, point)) if bound < inf else inf
    return expected


STRIDES = (3.0, 1.5, 0.75, 0.35, 0.15, 0.0)
"""Octaves of a step, the coarse ones first; the last one goes to the next value. Set by hand."""

LEAST_GAIN = 0.003
"""Part of a metric that a step must gain: bounds have wide plains whose slight slope leads to memories so small that
mappings lie far above them (accumulators of DOSA's space with BERT: 0.1 % of the bound, 14 % of the mapped metric)."""


def walk(space: DesignSpace, start: Point, value_at: Callable[[Point], float], enough: Callable[[], bool]) -> None:
    """Walks to lower values along one parameter at a time.

    Args:
        space: The space.
        start: Where the walk begins.
        value_at: The value of a design, which the caller keeps; infinite for designs that are none.
        enough: Asked before every value; once true, the walk ends.
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


NO_WORSE = 1e-9
"""Rise of the logarithm of a metric that counts as none: above rounding. Nothing was measured."""


def least_hardware(space: DesignSpace, point: Point, value_at: Callable[[Point], float]) -> Point:
    """Lowers one parameter after the other as far as the mappings still run, and no worse than before.

    Args:
        space: The space.
        point: A design that the mappings run on.
        value_at: Logarithm of the metric of these mappings on a design; infinite where they do not run.

    Returns:
        A design of values that are at most those of the first; found by bisection, so that a parameter whose worth
        rises and falls again may stop early.
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
DesignDescent = Callable[[DesignQuestion, Point, SpecsAt, Sequence[Mapping], np.ndarray, int, Callable[[], bool]],
                         Sequence[Point]]
"""Proposes designs, the most promising first, from a mapped one: see `gradient.hardware_descent.descended_designs`."""

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


@dataclass
class BoundDesigns:
    """The proposer of the methods "bounds" and, with a descent, "gradient".

    Attributes:
        specs_at: Every distinct layer on a design, in the order of `DesignQuestion.layers`; raises FadiffError where it
            is none.
        mappings_at: The exact mappings of a feasible design of the archive, in the same order.
        least_at: The bound of a design by its layers, fused or not; None where it has none. Raises OutOfTime once
            the function that it is given is true.
        over: Asked again and again; once true, descents end and no further design is read or judged.
        descent: Proposes further designs from a mapped one; None: nobody does.
    """

    question: DesignQuestion
    specs_at: SpecsAt
    mappings_at: Callable[[Point], tuple[Mapping, ...]]
    least_at: Callable[[Point, Callable[[], bool]], LeastFigures | None]
    over: Callable[[], bool] = lambda: False
    descent: DesignDescent | None = None
    rounds: int = 0  # so far
    judged: dict[Point, tuple[LeastFigures, float] | None] = field(default_factory=dict)  # bounds and areas
    allowed: dict[Point, bool] = field(default_factory=dict)  # whether designs can be read and keep all limits
    parents: set[Point] = field(default_factory=set)  # designs with a descent, or whose least hardware was looked for
    pool: list[Nest] = field(default_factory=list)  # mappings of each layer, to judge designs without a bound
    pooled: list[Point] = field(default_factory=list)  # designs whose mappings are in the pool
    idle_rounds: int = IDLE

    def propose(self, count: int, archive: Sequence[DesignOutcome]) -> list[Point]:
        """See `Proposer.propose`."""
        space, known = self.question.space, {outcome.point for outcome in archive}
        rng = np.random.default_rng([self.question.seed, self.rounds])
        each = np.array([metric_exponents(metric) for metric in self.question.metrics], dtype=np.float64)
        exponents = (rng.dirichlet(np.ones(len(each))) if len(each) > 1 else np.ones(1)) @ each
        mapped = {outcome.point: metric_logarithm(exponents, outcome.energy_pj, outcome.cycles, outcome.area_mm2)
                  for outcome in archive if outcome.feasible}
        ranked = sorted(mapped, key=lambda point: mapped[point])
        estimate = expected_logarithms(space, self._judge, exponents, mapped)
        expected: dict[Point, float] = {outcome.point: inf for outcome in archive if not outcome.feasible}

        def value_at(point: Point) -> float:
            if point not in expected:
                expected[point] = self._value(point, estimate, ranked, exponents)
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
            other = tuple(0 if self.allowed else len(parameter.values) // 2 for parameter in space.parameters)
            return [next((point for point, keeps in self.allowed.items() if keeps), other)]
        # Some limit is to blame: small machines show best how much too low it is.
        refused = (point for point, keeps in self.allowed.items() if not keeps)
        return sorted(refused, key=lambda point: (sum(point), point))[:count]

    def read(self, point: Point) -> tuple[Spec, ...]:
        """Every distinct layer on a design. Raises FadiffError where it is none, and OutOfTime."""
        if self.over():
            raise OutOfTime
        return self.specs_at(point)

    def _candidates(self, rng: np.random.Generator, ranked: Sequence[Point], exponents: np.ndarray,
                    known: Collection[Point]) -> list[Point]:
        """Designs from which a round's walks begin, the best mapped one first.

        After it come its least hardware, in some rounds the ends of a descent from the best design from which none
        began yet, and new designs at random.
        """
        scattered = self._scattered(rng, SCATTERED if ranked else SPREAD, known)
        if not ranked:
            return scattered
        best, least, ends = ranked[0], list[Point](), list[Point]()
        if best not in self.parents:
            own = pooled(self.read(best), [self.mappings_at(best)])
            least = [least_hardware(self.question.space, best, lambda point: self._borrowed(point, own, exponents))]
        fresh = next((point for point in ranked if point not in self.parents), None)
        if fresh is not None and self.rounds % DESCENDS == 1:
            self.parents.add(fresh)
            if self.descent is not None:
                ends = list(self.descent(self.question, fresh, self.read, self.mappings_at(fresh), exponents,
                                         self.question.seed + self.rounds, self.over)[:ENDS])
        return [best, *least, *ends, *scattered]

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
            if len(chosen) < count and all(self._distance(point, other) >= apart for other in chosen):
                chosen.append(point)
        return [*chosen, *(point for point in points if point not in chosen)][:count]

    def _distance(self, point: Point, other: Point) -> float:
        """The distance of two designs in octaves."""
        return float(np.linalg.norm(place_of(self.question.space, point) - place_of(self.question.space, other)))

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

    def _value(self, point: Point, estimate: Callable[[Point], float], ranked: Sequence[Point],
               exponents: np.ndarray) -> float:
        """The logarithm of the metric that a design is expected to have; infinite where it is not allowed.

        Designs without a bound are judged by the mappings of all designs mapped so far, the best `POOL` ones at most.
        """
        if not self._allowed(point):
            return inf
        value = estimate(point)
        if value < inf or not ranked:
            return value
        for other in ranked[:POOL]:
            if other not in self.pooled:
                self.pool = pooled(self.read(other), [self.mappings_at(other)], self.pool)
                self.pooled.append(other)
        distance = min(self._distance(point, other) for other in ranked)
        return self._borrowed(point, self.pool, exponents) - TRUST * distance

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

    def _borrowed(self, point: Point, pool: Sequence[Nest], exponents: np.ndarray) -> float:
        """Logarithm of the metric of a design with the best mappings of a pool; infinite where some layer has none."""
        if not self._allowed(point):
            return inf
        specs = self.read(point)
        total = borrowed_point(specs, pool, self.question.loads, self.question.mapping_metric)
        return metric_logarithm(exponents, total.energy_pj, total.cycles, design_area_mm2(specs[0])) if total else inf
