"""The question of a search of designs, and the options of the search."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import inf
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.design.result import metric_exponents
from fadiff_mapper.design.space import DesignSpace
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.network.options import NetworkOptions, layer_search
from fadiff_mapper.search.options import SearchOptions, check_options
from fadiff_mapper.workload import Operator, Workload


@dataclass(frozen=True)
class DesignQuestion:
    """The question for the best design of a space for some networks."""

    space: DesignSpace
    networks: tuple[Workload, ...]
    weights: tuple[float, ...]  # how often each network runs; energies and cycles are summed with them
    metrics: tuple[str, ...] = ("edp",)  # to minimise, see `result.metric_exponents`; several for a front
    fuse: bool = True  # whether layers may be fused (`network.map_network`)
    seed: int = 0  # of every random number
    energy: str = "estimate"  # source of energies missing in the design's tables, see `inputs.load.load`
    strict: bool = True  # whether input of the design that Timeloop ignores is an error
    calibration: Calibration | None = None
    """A correction to measured hardware; with it all cycles are corrected, and nothing is fused or pruned by bounds."""

    @cached_property
    def layers(self) -> tuple[Operator, ...]:
        """The distinct layers of all networks in the order of their first appearance."""
        found: dict[Hashable, Operator] = {}
        for network in self.networks:
            for entry in network.distinct():
                found.setdefault(entry.layer.key, entry.layer)
        return tuple(found.values())

    @cached_property
    def runs(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """For each network its distinct layers, in the order of `Workload.distinct`: number in `layers`, and runs
        in one run of the network."""
        number = {layer.key: index for index, layer in enumerate(self.layers)}
        return tuple(tuple((number[entry.layer.key], entry.times) for entry in network.distinct())
                     for network in self.networks)

    @cached_property
    def loads(self) -> tuple[float, ...]:
        """How often each of `layers` runs in all networks together, times their weights."""
        runs = [0.0] * len(self.layers)
        for network, weight in zip(self.runs, self.weights, strict=True):
            for layer, times in network:
                runs[layer] += weight * times
        return tuple(runs)

    @property
    def mapping_metric(self) -> str:
        """The metric that mappings and plans minimise: of energy and cycles those on which some metric depends; the EDP
        where none does."""
        exponents = [metric_exponents(metric) for metric in self.metrics]
        needed = tuple(int(any(each[axis] for each in exponents)) for axis in range(2))
        return next((name for name, powers in METRIC_EXPONENTS.items() if powers == needed), "edp")

    @property
    def network_options(self) -> NetworkOptions:
        """The search of every network, as in `map_network`; designs run in parallel, so each takes one thread."""
        return NetworkOptions(self.mapping_metric, self.fuse, self.seed, threads=1, calibration=self.calibration)

    @property
    def layer_options(self) -> SearchOptions:
        """The search of every unfused layer."""
        return layer_search(self.network_options)


def check_question(question: DesignQuestion) -> None:
    """Raises FadiffError for invalid metrics, networks, weights or seed."""
    check_options(question.layer_options)
    for metric in question.metrics:
        metric_exponents(metric)
    if not 1 <= len(set(question.metrics)) == len(question.metrics) <= 3:
        raise FadiffError(f"metric: found {listed(question.metrics)}; accepted: one to three different metrics")
    if question.fuse and question.calibration:
        raise FadiffError("calibration: found fuse=True; accepted: layers by themselves, as they were measured")
    if not question.networks or len(question.networks) != len(question.weights):
        raise FadiffError(f"weights: found {len(question.weights)} for {len(question.networks)} networks; accepted: "
                          "one for each of at least one network")
    for weight in question.weights:
        if not 0 < weight < float("inf"):
            raise FadiffError(f"weights: found {weight!r}; accepted: numbers greater than 0")


METHODS = ("bounds", "gradient", "random", "exhaustive", "tpe", "nsga2")

UNTAUGHT = ("random", "exhaustive")
"""Methods whose designs do not depend on earlier outcomes, so that a run can be split into shards."""

SHARING = ("tpe", "nsga2")  # methods whose search several processes can share

MOST_BOUNDED = 100_000  # designs of a space whose gap is proven: a day of bounds on a dozen cores

EVALUATIONS = 100  # designs that are mapped by default, without a time limit

TAUGHT_ROUND, UNTAUGHT_ROUND = 8, 64
"""Designs of a round. Rounds are short for methods that learn from earlier rounds, and do not depend on the number of
workers, so that the answer does not."""


@dataclass(frozen=True)
class DesignOptions:
    """How to search the answer to a `DesignQuestion`; see `api.search_design`."""

    method: str | None = None  # one of `METHODS`; None: "gradient" if PyTorch is installed, else "bounds"
    evaluations: int | None = None  # None: `EVALUATIONS`, or no limit (exhaustive, or with a time limit)
    time_limit: float | None = None  # seconds for the search with its last steps; None: no limit
    prune: bool = True  # whether to skip a design whose lower bound is no better than a known design
    neighbours: bool = True  # whether to map designs beside the best one at the end, see `search_design.settled`
    per_round: int | None = None  # designs proposed at a time; None: by the method. The answer depends on it
    shard: tuple[int, int] | None = None  # (i, n): evaluates only the i-th of every n proposed designs, from 1
    gap: float | None = None
    """Share by which the best design may be above the best plan of the whole space: all other designs are bounded, and
    mapped where they could be better by more. None: designs that were not proposed are not looked at."""
    store: Path | None = None  # of all evaluations, shared with other runs; None: only for this run
    study: str | None = None  # of methods `SHARING`: name of a search in the store that runs share; None: no sharing

    @property
    def round(self) -> int:
        return self.per_round or (UNTAUGHT_ROUND if self.method in UNTAUGHT else TAUGHT_ROUND)

    @property
    def most_mapped(self) -> float:
        if self.evaluations is None:
            endless = self.method == "exhaustive" or self.time_limit is not None
            return float("inf") if endless else EVALUATIONS
        return self.evaluations if self.shard is None else -(-self.evaluations // self.shard[1])


def check_design_options(options: DesignOptions, question: DesignQuestion) -> None:
    """Raises FadiffError for an option out of its range, or options that exclude each other or the question."""
    if options.method not in METHODS:
        raise FadiffError(f"method: found {options.method!r}; accepted: {listed(METHODS)}")
    for name in ("evaluations", "per_round"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise FadiffError(f"{name.replace('_', ' ')}: found {value!r}; accepted: a whole number from 1")
    if options.time_limit is not None and not options.time_limit > 0:
        raise FadiffError(f"time limit: found {options.time_limit!r}; accepted: seconds greater than 0")
    if options.gap is not None:
        if not isinstance(options.gap, int | float) or not 0 <= options.gap < inf:
            raise FadiffError(f"gap: found {options.gap!r}; accepted: a share of 0 or more, such as 0.01")
        if options.shard is not None or not options.prune:
            raise FadiffError(f"gap: found with {'a shard' if options.shard else 'prune=False'}; accepted: one of them")
        if len(question.metrics) > 1 or question.calibration:
            raise FadiffError(f"gap: found with {'several metrics' if len(question.metrics) > 1 else 'a calibration'}, "
                              "with which nothing is proven; accepted: one of them")
        if question.space.size > MOST_BOUNDED:
            raise FadiffError(f"gap: found a space of {question.space.size:,} designs; accepted: at most "
                              f"{MOST_BOUNDED:,}, as each of them is bounded")
    if options.shard is not None:
        number, shards = options.shard
        if not 1 <= number <= shards:
            raise FadiffError(f"shard: found {number}/{shards}; accepted: i/n with i from 1 to n")
        if options.method not in UNTAUGHT:
            raise FadiffError(f"shard: the method {options.method} learns from every design, so that its designs "
                              f"cannot be dealt out; accepted: the methods {listed(UNTAUGHT)}")
        if options.store is None:
            raise FadiffError("shard: found no store, in which shards put together what they find; accepted: a folder")
    if options.study is not None:
        if options.method not in SHARING:
            raise FadiffError(f"study: found with the method {options.method}; accepted: the methods {listed(SHARING)}")
        if options.store is None:
            raise FadiffError("study: found no store, which keeps what its runs find; accepted: a folder")
