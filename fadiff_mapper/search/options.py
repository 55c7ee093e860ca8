"""The options of a layer search, its efforts, and the progress that it reports."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from fadiff_mapper.base.errors import FadiffError, listed, nearest
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS, METRICS
from fadiff_mapper.kernel import _kernel

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration
    from fadiff_mapper.model.loop_nest import Nest

LayerDescent: TypeAlias = "Callable[..., Nest]"
"""Descends from random mappings of a family. Takes the running state of the search (`best_so_far.SearchState`), which
counts every evaluated mapping, and a random generator. Returns the best mapping of every restart, equally many columns
for every member in turn (see `gradient.layer_descent`)."""

ILLEGAL = _kernel.ILLEGAL
"""Value above that of every legal mapping (a logarithm); illegal mappings add their excess to it."""

SAME = _kernel.SAME
"""Difference of values, in natural logarithms of a metric, below which mappings are equally good."""

AT_ONCE = 200_000
"""Budget of a short proof, in parts and mappings: enough for most layers, in about the time of the search it ends."""


@dataclass(frozen=True)
class Effort:
    """Schedule of the search of one layer; users name one of `EFFORTS`."""

    chains: int = 64                     # Chains of the refinement; with more, each chain gets too few of the
                                         # evaluations
    rounds: int = 60                     # Rounds of the refinement; every chain makes one move a round, and longer
                                         # cooling finds nothing better
    neighbours: int = 12                 # Random neighbours of a chain's mapping evaluated in each round; more of them
                                         # in fewer rounds fill the lanes of the compiled evaluation
    rounds_least: int = 30               # Rounds before the refinement may end early: while hot, chains may agree on a
                                         # poor mapping
    chains_agreeing: int = 18            # Chains that must have found the best mapping for a problem's refinement to
                                         # end early: easy layers need no more rounds
    extra_rounds: int = 180              # Rounds for the best chains of problems whose chains have not agreed; 0 leaves
                                         # this part out
    extra_chains: int = 32               # Chains that continue in the extra rounds, of unlike values first, so that
                                         # copies of one local optimum crowd out no other
    min_agreeing_chains: int = 9         # Chains, of all searches together, that must have found the best mapping by
                                         # the end of the extra rounds; otherwise the search starts again, as finding
                                         # it was luck
    searches: int = 5                    # Most searches, each from new random mappings, of which the best mapping
                                         # stays; only hard layers take more than one. 0 returns the best mapping of the
                                         # descent, as the papers' methods do
    resplit_rate: float = 0.3            # Share of the moves of factors that redistribute the factors of two places:
                                         # matrix products need them, short searches do without
    crossover_rate: float = 0.1          # Share of the moves of the extra rounds that take all factors of one dimension
                                         # from another chain, which joins the finds of two chains
    proof: int = AT_ONCE                 # Budget in parts and mappings of a short proof after the first rounds, which
                                         # ends the search if no mapping is better; 0: no proof
    rounds_before_proof: int = 6         # Rounds before the short proof: after more it closes for no more layers
    proof_enough: float = 0.0            # Gap of the short proof that ends the search: chains hardly ever find better
                                         # mappings once a gap is so small
    descent: LayerDescent | None = None  # Descent whose results the refinement starts from, for the method "gradient";
                                         # None: random mappings


EFFORTS = {
    "light": Effort(chains=16, rounds=25, neighbours=8, rounds_least=1, chains_agreeing=4, extra_rounds=0,
                    resplit_rate=0.0, proof=0),
    "quick": Effort(chains=24, rounds=30, neighbours=8, rounds_least=10, chains_agreeing=6, extra_rounds=0,
                    resplit_rate=0.0, proof=0),
    "short": Effort(chains=32, rounds=45, neighbours=8, rounds_least=15, chains_agreeing=6, extra_rounds=60,
                    searches=1, proof=0),
    "full": Effort(),
}
"""Efforts by name. "light": for mappings near a known one. "quick": a first search of every layer if time is short.
"short": for layers under a tight time limit. "full": for a layer by itself."""

METHODS = ("annealing", "gradient", "exhaustive")
"""Methods of a layer's search: simulated annealing on the exact model; the same from the ends of gradient descents on
the smooth model (FADiff); every mapping."""

MODELS = ("refined", "paper")
"""Differentiable models that a descent can follow: `model.smooth`, or FADiff's equations as printed."""

EXHAUSTIVE_LIMIT = 20_000_000
"""Mappings above which an exhaustive search is refused by default: some minutes."""


@dataclass(frozen=True)
class SearchOptions:
    """Options of a layer search.

    Attributes:
        metrics: "edp", "energy", "delay", "last_level_accesses", in order of priority; empty: the metrics that the
            input's mapper section asks for, else EDP.
        seed: Seed of every random number; the same seed gives the same mappings unless time runs out. The method
            "exhaustive" draws none.
        time_limit: Seconds for all problems together; None is no limit.
        threads: Threads; None: the number in the input's mapper section, else all cores. The answer does not depend on
            it.
        method: "annealing", "gradient" (needs PyTorch) or "exhaustive"; see `METHODS`.
        model: Differentiable model of the gradient: "refined", or "paper" for FADiff's equations as printed.
        effort: "light", "quick", "short" or "full" (or an `Effort`, for callers inside the package).
        imperfect: Search residual factors, too, from the best mapping without them (`residual_search`).
        exhaustive_limit: Mappings above which the method "exhaustive" is refused.
        calibration: A correction to measured hardware by which the mapping is chosen in the end (see
            `calibrated_choice`); None: only the exact model.
        prove: Go on until it is proved that no mapping is better in the first metric (`lower_bound.proof`); with the
            effort "full" a quick search comes first, and the full search only if the proof takes long.
        gap: Share by which the mapping may be above the proved bound when a proof ends.
    """

    metrics: tuple[str, ...] = ()
    seed: int = 0
    time_limit: float | None = None
    threads: int | None = None
    method: str = "annealing"
    model: str = "refined"
    effort: str | Effort = "full"
    imperfect: bool = False
    exhaustive_limit: int = EXHAUSTIVE_LIMIT
    calibration: Calibration | None = None
    prove: bool = False
    gap: float = 0.0

    @property
    def priorities(self) -> tuple[str, ...]:
        """The metrics to minimise, in order of priority; EDP where none is named."""
        return tuple(self.metrics) or ("edp",)

    @property
    def workers(self) -> int:
        """Threads at work: as many as `threads` says, else one per core."""
        return self.threads or os.cpu_count() or 1

    @property
    def schedule(self) -> Effort:
        """The schedule that `effort` names."""
        return EFFORTS[self.effort] if isinstance(self.effort, str) else self.effort

    def as_dict(self) -> dict[str, Any]:
        """All options that determine the result, by name, for the record of a run."""
        plain = replace(self.schedule, descent=None)
        numbers = {name: value for name, value in vars(plain).items() if name != "descent"}
        left_out = ("threads", "calibration", *(() if self.prove else ("prove", "gap")))
        record = {name: value for name, value in vars(self).items() if name not in left_out}
        return (record | {"metrics": self.priorities,
                          "effort": next((name for name, known in EFFORTS.items() if known == plain), numbers)}
                | (self.calibration.record() if self.calibration else {}))


MOST_THREADS = 1024
"""Most threads: a safety limit."""


def check_options(options: SearchOptions) -> None:
    """Raises FadiffError where an option is out of range, or has no effect beside another one."""
    check_time_limit(options.time_limit)
    for name, least, most in (("seed", 0, 2 ** 63 - 1), ("threads", 1, MOST_THREADS),
                              ("exhaustive_limit", 1, 10 ** 12)):
        value = getattr(options, name)
        if not (name == "threads" and value is None) and not (isinstance(value, int) and least <= value <= most):
            raise FadiffError(f"{name}: found {value!r}; accepted: a whole number from {least} to {most}")
    efforts = (*EFFORTS, options.effort) if isinstance(options.effort, Effort) else tuple(EFFORTS)
    for name, accepted in (("method", METHODS), ("model", MODELS), ("effort", efforts)):
        if getattr(options, name) not in accepted:
            raise FadiffError(f"{name}: found {getattr(options, name)!r}; accepted: {listed(accepted)}")
    exhaustive = options.method == "exhaustive"
    refuse_model_without_gradient(options.model, options.method)
    if exhaustive and options.effort != "full":
        raise FadiffError(f"effort: found {options.effort!r} with the method exhaustive, which evaluates all mappings; "
                          "accepted: one of them")
    if not exhaustive and options.exhaustive_limit != EXHAUSTIVE_LIMIT:
        raise FadiffError(f"exhaustive_limit: found with the method {options.method}; accepted: the method exhaustive")
    check_gap(options.gap)
    if options.gap and not options.prove:
        raise FadiffError("gap: found without prove; accepted: both, or neither")
    others = (("imperfect factors", options.imperfect), ("the method exhaustive", exhaustive),
              ("a calibration", options.calibration is not None))
    for name, asked, apart in (("proof", options.prove, others), ("imperfect", options.imperfect, others[1:])):
        for other, found in apart:
            if asked and found:
                raise FadiffError(f"{name}: found with {other}; accepted: one of them")
    if not isinstance(options.metrics, list | tuple):
        raise FadiffError(f"metric: found {options.metrics!r}; accepted: {listed(METRICS)}, or a list of them")
    for metric in options.metrics:
        if metric not in METRICS:
            raise FadiffError(f'unknown metric "{metric}"{nearest(str(metric), METRICS)}; accepted: {listed(METRICS)}')
    if len(set(options.metrics)) < len(options.metrics):
        raise FadiffError(f"metric: found {listed(options.metrics)}; accepted: each metric once")
    if options.calibration is not None:
        refuse_calibration_without_cycles(options.priorities)


def check_time_limit(limit: float | None) -> None:
    """Raises FadiffError for a time limit that is not a positive number of seconds."""
    if limit is not None and (not isinstance(limit, int | float) or not limit > 0):
        raise FadiffError(f"time limit: found {limit!r}; accepted: seconds greater than 0")


def check_gap(gap: float) -> None:
    """Raises FadiffError for a gap that is no share."""
    if not isinstance(gap, int | float) or not 0 <= gap < math.inf:
        raise FadiffError(f"gap: found {gap!r}; accepted: a share of 0 or more, such as 0.01")


def refuse_calibration_without_cycles(metrics: Sequence[str]) -> None:
    """Raises FadiffError for a calibration without effect: none of the metrics depends on cycles."""
    fitting = [name for name, (_, cycles) in METRIC_EXPONENTS.items() if cycles]
    if not {*fitting} & {*metrics}:
        raise FadiffError(f"calibration: found with the metric {listed(metrics)}, which does not depend on cycles; "
                          f"accepted: {' or '.join(fitting)}, at least as a further metric of a layer")


def refuse_model_without_gradient(model: str, method: str) -> None:
    """Raises FadiffError for a differentiable model that no descent follows."""
    if model != MODELS[0] and method != "gradient":
        raise FadiffError(f"model: found {model!r} with the method {method}; accepted: the method gradient, which "
                          "descends on it")


@dataclass(frozen=True)
class Progress:
    """One improvement of a search.

    Attributes:
        time_s: Seconds since the search began.
        evaluations: Mappings evaluated until then.
        legal_evaluations: The legal ones of these.
        value: Value of the best mapping (see `best_so_far.exact_value`): the logarithm of the metric if legal, else
            above `ILLEGAL`.
        stage: The stage that found it: "given", "start", "descent", "orders", "refine", "polish", "exhaustive" or
            "proof".
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
