"""The options of a layer search, and the progress that it reports.

The defaults are measured together by `benchmarks/layer_quality.py` (58 recorded layers on `gemmini_large` and
`gemmini_small`: EDP over the best known one, seconds, the search without each of its parts) and by
`benchmarks/true_optimum.py` (six designs: how often the optimum of a small problem is found, how far the seeds of a
large one differ). `SearchOptions` says of a default what was measured when it was chosen; of those without a remark
nothing is recorded but these figures of all together.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.relaxation.metrics import ILLEGAL, check_metrics

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration


@dataclass(frozen=True)
class Annealing:
    """One cooling schedule of the chains of the refinement (see `refinement.anneal`).

    Attributes:
        rounds: Rounds of moves.
        temperature_start: Temperature of the first round, in natural logarithms of the metric.
        temperature_end: Temperature of the last round; geometric in between.
        rounds_least: Rounds before an early end.
        chains_agreeing: Chains that have met a problem's best mapping, and so end its annealing early.
        greedy: Whether a chain picks the best of the neighbours tried, or each in proportion to
            exp(-value / temperature).
        divided: Share of the moves of factors that divide those of two places anew, in place of shifts.
        adopted: Share of the moves that take all factors of one dimension from another chain.
    """

    rounds: int
    temperature_start: float
    temperature_end: float
    rounds_least: int
    chains_agreeing: int
    greedy: bool
    divided: float
    adopted: float


@dataclass(frozen=True)
class SearchOptions:
    """Effort and parts of a layer search; every number is per problem.

    A search descends on the relaxed model (FADiff, eqs. 1-3 and 20), then anneals on the exact one.

    Attributes:
        metrics: "edp", "energy", "delay", "last_level_accesses", in order of priority; empty: the metrics that the
            input's mapper section asks for, else EDP.
        seed: Seed of every random number; the same seed gives the same mappings unless time runs out.
        time_limit: Seconds for all problems together; None is no limit.
        restarts: Descents side by side, each from random factors and decisions.
        steps: Steps of Adam of each descent. 12 since the refinement is simulated annealing (60 before, at smaller
            steps): the best known mapping on all 58 recorded layers, with a third of the evaluations.
        reorder_every: Steps between two trials of the decisions without a gradient (loop order, keep or bypass).
        learning_rate: Step size of Adam, in octaves of the tiling factors; changed together with `steps`.
        draw_temperature_start: Gumbel-Softmax temperature of the first step (FADiff, eq. 2).
        draw_temperature_end: Gumbel-Softmax temperature of the last step; geometric in between.
        penalty_weight_start: Weight of the penalties in the first step (lambda of FADiff, eq. 20).
        penalty_weight_end: Weight of the penalties in the last step; geometric in between.
        chains: Chains of the refinement, started from the results of the descent. 64 that try more neighbours each,
            instead of 128, reach the best known mappings with 5,000 to 25,000 evaluations.
        rounds: Rounds of the refinement; every chain makes one move a round.
        rounds_further: Rounds for the best chains of problems whose chains have not agreed; 0 leaves this part out.
            180 miss the best value no more often than 240 did before loops could swap divisors.
        chains_further: Chains that go on for `rounds_further`: of unlike values first, so that copies of one local
            optimum crowd out no other.
        neighbours_tried: Random neighbours of a chain's mapping evaluated in each round. 12 in 60 rounds took
            the place of 3 in 120: at equal evaluations, of 20 searches of the five hardest layers on `eyeriss_like`
            none instead of 4 end above 1.001 times the best EDP; a round of 768 mappings costs twice one of 192.
        temperature_start: Temperature of the refinement's first round, in natural logarithms of the metric.
        temperature_end: Temperature of the refinement's last round; geometric in between.
        rounds_least: Rounds before the refinement may end early.
        chains_agreeing: Chains that have met the best mapping, and so end a problem's refinement early. 12 from round
            30 on took the place of 16 from round 20 on; 18 take the place of 12 since the moves of `divided` and
            `adopted_further`, with which chains agree sooner.
        chains_sure: Chains that must have met the best mapping by the end of the further rounds, those of earlier
            searches included; with fewer the search starts again. Counting each search by itself made no run of the
            hardest layers better and took 6 to 14 % more evaluations on three designs. 12 instead of 9 left 1 instead
            of 3 of 80 searches of the layer that misses most, at 17 to 21 % more evaluations of a batch of 49 layers.
        searches: Searches in all, each from new random mappings, where chains disagree; the best mapping of all stays.
            Without `rounds_further` there is one. Of 240 searches of three hard layers (3 x 3 over 256 and 512 channels
            on 14 x 14 on `simba_like`, over 128 on 112 x 112 on `output_stationary`) 16 miss the best by 0.27 to 0.38 %
            with one search, 3 with at most five. At most three left 2 of 80 of the last, at most five none.
        divided: Share of the moves of factors, in all rounds, that divide those of two places anew in place of shifts.
            With `adopted_further` and 18 `chains_agreeing`, 5 instead of 10 of 320 searches of matrix products on four
            designs end over 0.2 % above the best known, 0.02 instead of 0.17 % above it in the mean, with as many
            evaluations; a share of 0.15 (12 agreeing) left 12, and in the further rounds alone 6 and one 28 % above.
            With one search of each of the hard layers above, 16 of 240 miss; 26 with a share of 0.5.
            Searches with little effort are worse off (tiles of fused groups by a tenth) and do without.
        adopted_further: Share of the moves of the further rounds that take all factors of one dimension from another
            chain. Of 147 searches of convolutions on `simba_like` none instead of 1 misses the best by over 0.2 %, of
            80 searches of matrix products none instead of 1; 5 and 4 did before either kind of move. With one search
            of each of the hard layers above, 16 of 240 miss; 26 with a share of 0.03.
        temperature_start_further: `temperature_start` of the further rounds.
        temperature_end_further: `temperature_end` of the further rounds.
        gradient: True starts the refinement from descents on the relaxed model instead of random mappings.
        refinement: False returns the best mapping of the descent.
        orders: False leaves loop orders as they were drawn.
        model: Differentiable model of the descent: "refined" (`model.smooth.evaluate`), or "paper" for FADiff's
            equations as printed (`model.smooth.fadiff_as_printed`).
        imperfect: Search residual factors, too, from the best mapping without them (`residual_search`).
        exhaustive: Evaluate every mapping instead: the true optimum of a small problem.
        exhaustive_limit: Mappings above which an exhaustive search is refused; the default takes some minutes.
        threads: Threads at work; None: the number in the input's mapper section, else all cores. The answer does not
            depend on it.
        calibration: A correction to measured hardware by which the mapping is chosen in the end (see
            `calibrated_choice`); None: the exact model alone.
    """

    metrics: tuple[str, ...] = ()
    seed: int = 0
    time_limit: float | None = None
    restarts: int = 48
    steps: int = 12
    reorder_every: int = 4
    learning_rate: float = 0.3
    draw_temperature_start: float = 4.0
    draw_temperature_end: float = 0.05
    penalty_weight_start: float = 1.0
    penalty_weight_end: float = 8.0
    chains: int = 64
    rounds: int = 60
    rounds_further: int = 180
    chains_further: int = 32
    neighbours_tried: int = 12
    temperature_start: float = 0.3
    temperature_end: float = 0.01
    rounds_least: int = 30
    chains_agreeing: int = 18
    chains_sure: int = 9
    searches: int = 5
    divided: float = 0.3
    adopted_further: float = 0.1
    temperature_start_further: float = 0.03
    temperature_end_further: float = 0.003
    gradient: bool = False
    refinement: bool = True
    orders: bool = True
    model: str = "refined"
    imperfect: bool = False
    exhaustive: bool = False
    exhaustive_limit: int = 20_000_000
    threads: int | None = None
    calibration: Calibration | None = None

    @property
    def priorities(self) -> tuple[str, ...]:
        """The metrics to minimise, in order of priority; EDP where none is named."""
        return self.metrics or ("edp",)

    @property
    def workers(self) -> int:
        """Threads at work: as many as `threads` says, else one per core."""
        return self.threads or os.cpu_count() or 1

    @property
    def annealing(self) -> Annealing:
        """The schedule of the refinement that all problems go through."""
        return Annealing(self.rounds, self.temperature_start, self.temperature_end, self.rounds_least,
                         self.chains_agreeing, greedy=True, divided=self.divided, adopted=0.0)

    @property
    def further_annealing(self) -> Annealing:
        """The schedule for problems whose chains have not agreed.

        They exist because seeds differed by up to 14 % on `simba_like`. Not greedy: chains that disagree take good
        neighbours instead of the best.
        """
        return Annealing(self.rounds_further, self.temperature_start_further, self.temperature_end_further,
                         self.rounds_least, self.chains_agreeing, greedy=False, divided=self.divided,
                         adopted=self.adopted_further)

    @property
    def chains_enough(self) -> int:
        """`chains_sure`, or all chains of the further rounds where these are fewer."""
        return min(self.chains_sure, self.chains, self.chains_further)

    def as_dict(self) -> dict[str, Any]:
        """All options that bear on the result, by name, for the record that is written with it."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__
                  if name not in ("threads", "calibration")}
        return record | {"metrics": self.priorities} | (self.calibration.record() if self.calibration else {})


MODELS = ("refined", "paper")
"""Differentiable models that a descent can follow."""

LARGEST_OPTION = {"seed": 2 ** 63 - 1, "restarts": 4096, "steps": 100_000, "chains": 65536, "rounds": 1_000_000,
                  "threads": 1024, "exhaustive_limit": 10 ** 12, "reorder_every": 100_000, "rounds_further": 1_000_000,
                  "chains_further": 65536, "neighbours_tried": 4096, "rounds_least": 1_000_000,
                  "chains_agreeing": 65536, "chains_sure": 65536, "searches": 1000}
"""The largest value of each whole-numbered option that is checked: limits for safety, against numbers that could only
end in a full memory. Nothing was measured."""


POSITIVE_OPTIONS = ("learning_rate", "draw_temperature_start", "draw_temperature_end", "penalty_weight_start",
                    "penalty_weight_end", "temperature_start", "temperature_end", "temperature_start_further",
                    "temperature_end_further")
"""Options of geometric schedules and the step size, which only make sense above 0."""

SHARES = ("divided", "adopted_further")
"""Options that are shares of something, from 0 to 1."""

LARGEST_RATE = 1e6
"""The largest value of such an option: a limit for safety; nothing was measured."""


def check_options(options: SearchOptions) -> None:
    """Checks options before a search.

    Raises:
        FadiffError: An option is of the wrong type, out of range, or unknown as a metric or model.
    """
    limit = options.time_limit
    if limit is not None and (not isinstance(limit, int | float) or not limit > 0):
        raise FadiffError(f"time limit: found {limit!r}; accepted: seconds greater than 0")
    for name, most in LARGEST_OPTION.items():
        value, least = getattr(options, name), 0 if name in ("seed", "rounds_further", "rounds_least") else 1
        if (not isinstance(value, int) and not (name == "threads" and value is None)) or (
                isinstance(value, int) and not least <= value <= most):
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {most}")
    for name in POSITIVE_OPTIONS:
        value = getattr(options, name)
        if not isinstance(value, int | float) or not 0 < value <= LARGEST_RATE:
            raise FadiffError(f"{name}: found {value!r}; accepted: a number greater than 0, of at most "
                              f"{LARGEST_RATE:g}")
    for name in SHARES:
        value = getattr(options, name)
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise FadiffError(f"{name}: found {value!r}; accepted: a number from 0 to 1")
    if options.model not in MODELS:
        raise FadiffError(f"model: found {options.model!r}; accepted: {listed(MODELS)}")
    if options.imperfect and options.exhaustive:
        raise FadiffError("imperfect: found with exhaustive; accepted: one of them, as residual factors are not "
                          "enumerated")
    check_metrics(options.priorities)


@dataclass(frozen=True)
class Progress:
    """One improvement of a search.

    Attributes:
        time_s: Seconds since the search began.
        evaluations: Mappings evaluated until then.
        legal_evaluations: The legal ones of these.
        value: Value of the best mapping (see `objective.exact_value`): the logarithm of the metric if legal, else
            above `ILLEGAL`.
        stage: The stage that met it: "given", "start", "descent", "orders", "refine", "polish" or "exhaustive".
    """

    time_s: float
    evaluations: int
    legal_evaluations: int
    value: float
    stage: str

    @property
    def legal(self) -> bool:
        """Whether the mapping runs on the design."""
        return self.value < ILLEGAL

    @property
    def metric_value(self) -> float | None:
        """The first metric itself (up to a millionth, where several are given); None before a legal mapping."""
        return math.exp(self.value) if self.legal else None
