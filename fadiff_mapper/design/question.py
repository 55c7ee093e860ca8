"""The question of a search of designs: space, networks and options; and the workers that evaluate designs."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf
from os import PathLike

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.design.result import metric_exponents
from fadiff_mapper.design.space import DesignSpace
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.network.options import NetworkOptions, layer_search
from fadiff_mapper.search.options import MOST_THREADS, SearchOptions, check_gap, check_options, check_time_limit
from fadiff_mapper.workload import Operator, Workload

METHODS = ("bounds", "gradient", "random", "exhaustive", "tpe", "nsga2")

UNTAUGHT = ("random", "exhaustive")
"""Methods whose proposals do not depend on earlier outcomes, so that a run can be split into shards."""

SHARING = ("tpe", "nsga2")  # methods whose search several processes can share

MOST_BOUNDED = 100_000  # most designs of a space with a proven gap, as each design is bounded: a limit of time

EVALUATIONS = 100  # designs that are mapped by default, without a time limit

TAUGHT_ROUND, UNTAUGHT_ROUND = 8, 64
"""Designs of a round. Rounds are short for methods that learn from earlier rounds. They do not depend on the number of
workers, so that the answer does not either."""


@dataclass(frozen=True)
class DesignOptions:
    """Options of a search of designs.

    Attributes:
        metrics: "edp", "energy", "delay", "area", "edap", or products such as "energy*area"; two or three of them for a
            front. Of several networks energies and cycles are summed by weight.
        fuse: Whether networks are planned with fused layers, as `map_network` does; else every layer runs by itself.
        seed: The same seed gives the same answer unless time runs out.
        time_limit: Seconds for the search with its last steps; designs that are being mapped then are given up, except
            the first if no design is known yet. None is no limit.
        method: "bounds" (the designs with the best lower bounds), "gradient" (also those of descents on hardware,
            mappings and fusion together; needs PyTorch), "random", "exhaustive", "tpe" or "nsga2". None: "gradient" if
            PyTorch is installed, else "bounds" with a warning.
        evaluations: Most designs to map. None: 100, all for an exhaustive search, and as many as fit if there is a time
            limit.
        gap: Share by which the best design may be above the best plan on any design of the space: at the end all other
            designs are bounded, and mapped if they could be better by more. None: other designs are not considered.
        calibration: A correction to measured hardware for the cycles of all designs; then nothing is fused, and no
            design is pruned by bounds. None: the exact model.
        prune: Whether designs whose lower bound is no better than a known design are left out.
        neighbours: Whether the designs one value away from the best are mapped at the end, beyond `evaluations`. A
            better one becomes the best, until none is better or as many further designs were mapped.
        per_round: Designs proposed at a time, on which the answer depends. None: 8, for "random" and "exhaustive" 64. A
            cluster with more workers than that keeps all of them busy only with larger rounds.
    """

    metrics: tuple[str, ...] = ("edp",)
    fuse: bool = True
    seed: int = 0
    time_limit: float | None = None
    method: str | None = None
    evaluations: int | None = None
    gap: float | None = None
    calibration: Calibration | None = None
    prune: bool = True
    neighbours: bool = True
    per_round: int | None = None

    @property
    def round(self) -> int:
        """Designs proposed at a time."""
        return self.per_round or (UNTAUGHT_ROUND if self.method in UNTAUGHT else TAUGHT_ROUND)


BACKENDS = ("processes", "dask", "ray")  # processes of this machine, and the two kinds of cluster


@dataclass(frozen=True)
class DesignWorkers:
    """The workers that evaluate the designs of a search, and the store that several runs share.

    Attributes:
        jobs: Designs at work at a time; None: one for each core. The answer does not depend on it. None with an
            `address`.
        backend: "processes" of this machine, "dask" or "ray" for a cluster.
        address: The scheduler of a cluster, such as `tcp://host:8786`: all its workers take part. None: a cluster is
            started on this machine.
        store: Folder that keeps all evaluations, so that runs continue and share their work. None: `store` in the
            output folder, if there is one.
        shard: (i, n) evaluates only every n-th design, from the i-th on; for "random" and "exhaustive".
        study: Name of a search in the store, for "tpe" and "nsga2": all runs of the same question with this name share
            one search, in any number of processes. None: this run searches by itself.
    """

    jobs: int | None = None
    backend: str = "processes"
    address: str | None = None
    store: str | PathLike[str] | None = None
    shard: tuple[int, int] | None = None
    study: str | None = None

    def check(self) -> None:
        """Raises FadiffError for invalid or contradictory options."""
        if self.jobs is not None and not (isinstance(self.jobs, int) and 1 <= self.jobs <= MOST_THREADS):
            raise FadiffError(f"jobs: found {self.jobs!r}; accepted: a whole number from 1 to {MOST_THREADS}")
        if self.backend not in BACKENDS:
            raise FadiffError(f"backend: found {self.backend!r}; accepted: {listed(BACKENDS)}")
        if self.address is not None and self.backend == "processes":
            raise FadiffError(f"address: found {self.address!r} with the backend processes, which are of this machine; "
                              "accepted: an address with the backends dask and ray")
        if self.jobs is not None and self.address is not None:
            raise FadiffError(f"jobs: found {self.jobs} with the address {self.address}; accepted: one of them, as all "
                              "workers of a cluster take part")


@dataclass(frozen=True)
class DesignQuestion:
    """The question for the best design of a space for some networks."""

    space: DesignSpace
    networks: tuple[Workload, ...]
    weights: tuple[float, ...]  # runs of each network, the weights of its energy and cycles in the sums
    options: DesignOptions

    @property
    def fuse(self) -> bool:
        """Whether layers may be fused; not with a calibration, which was measured on single layers."""
        return self.options.fuse and self.options.calibration is None

    @property
    def energy(self) -> str:
        """The source of energies missing in the design's tables, see `inputs.load.load`: one for all designs."""
        return self.space.energy or "estimate"

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
        """For each network its distinct layers, in the order of `Workload.distinct`: number in `layers`, and runs of
        the layer in one run of the network."""
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
        """The metric that mappings and plans minimise: the product of those of energy and cycles on which some metric
        of the designs depends; EDP if none does."""
        exponents = [metric_exponents(metric) for metric in self.options.metrics]
        needed = tuple(int(any(each[axis] for each in exponents)) for axis in range(2))
        return next((name for name, powers in METRIC_EXPONENTS.items() if powers == needed), "edp")

    @property
    def network_options(self) -> NetworkOptions:
        """Options for planning each network, as in `map_network`; one thread, as designs run in parallel."""
        return NetworkOptions(self.mapping_metric, self.fuse, self.options.seed, threads=1,
                              calibration=self.options.calibration)

    @property
    def layer_options(self) -> SearchOptions:
        """Options for the search of every layer by itself."""
        return layer_search(self.network_options)

    def most_mapped(self, shard: tuple[int, int] | None) -> float:
        """Most designs that a run, or its shard, maps; infinite without a limit."""
        asked = self.options.evaluations
        if asked is None:
            return inf if self.options.method == "exhaustive" or self.options.time_limit is not None else EVALUATIONS
        return ceil(asked / shard[1]) if shard else asked


def check_question(question: DesignQuestion, workers: DesignWorkers) -> None:
    """Raises FadiffError for an option out of its range, or options that exclude each other or the question."""
    options, shard = question.options, workers.shard
    if options.method not in METHODS:
        raise FadiffError(f"method: found {options.method!r}; accepted: {listed(METHODS)}")
    for name in ("evaluations", "per_round"):
        value = getattr(options, name)
        if value is not None and (not isinstance(value, int) or value < 1):
            raise FadiffError(f"{name.replace('_', ' ')}: found {value!r}; accepted: a whole number from 1")
    check_time_limit(options.time_limit)
    if options.gap is not None:
        check_gap(options.gap)
        if shard is not None or not options.prune:
            raise FadiffError(f"gap: found with {'a shard' if shard else 'prune=False'}; accepted: one of them")
        if len(options.metrics) > 1 or options.calibration:
            raise FadiffError(f"gap: found with {'several metrics' if len(options.metrics) > 1 else 'a calibration'}, "
                              "with which nothing is proven; accepted: one of them")
        if question.space.size > MOST_BOUNDED:
            raise FadiffError(f"gap: found a space of {question.space.size:,} designs; accepted: at most "
                              f"{MOST_BOUNDED:,}, as each of them is bounded")
    if shard is not None:
        number, shards = shard
        if not 1 <= number <= shards:
            raise FadiffError(f"shard: found {number}/{shards}; accepted: i/n with i from 1 to n")
        if options.method not in UNTAUGHT:
            raise FadiffError(f"shard: the method {options.method} learns from every design, so that its designs "
                              f"cannot be dealt out; accepted: the methods {listed(UNTAUGHT)}")
        if workers.store is None:
            raise FadiffError("shard: found no store, in which shards put together what they find; accepted: a folder")
    if workers.study is not None:
        if options.method not in SHARING:
            raise FadiffError(f"study: found with the method {options.method}; accepted: the methods {listed(SHARING)}")
        if workers.store is None:
            raise FadiffError("study: found no store, which keeps what its runs find; accepted: a folder")
    workers.check()
    check_options(question.layer_options)
    for metric in options.metrics:
        metric_exponents(metric)
    if not 1 <= len(set(options.metrics)) == len(options.metrics) <= 3:
        raise FadiffError(f"metric: found {listed(options.metrics)}; accepted: one to three different metrics")
    if not question.networks or len(question.networks) != len(question.weights):
        raise FadiffError(f"weights: found {len(question.weights)} for {len(question.networks)} networks; accepted: "
                          "one for each of at least one network")
    for weight in question.weights:
        if not 0 < weight < inf:
            raise FadiffError(f"weights: found {weight!r}; accepted: numbers greater than 0")
