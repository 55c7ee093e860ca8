"""The public Python interface: searches of layers, networks and designs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Mapping as AnyMapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.result import DesignResult
from fadiff_mapper.gradient import descent_for_designs, descent_for_network, with_layer_descent
from fadiff_mapper.inputs.load import Source, read_document
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.one_design import Design
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.search import map_layers as layer_search
from fadiff_mapper.search.options import Progress, SearchOptions
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.coverage import require_coverage

if TYPE_CHECKING:
    from fadiff_mapper.calibration.correction import Calibration
    from fadiff_mapper.design.search_design import OnDesign
    from fadiff_mapper.design.space import DesignSpace
    from fadiff_mapper.network.planning import OnProgress


def map_layer(spec: Spec, options: SearchOptions | None = None, *, metric: str | Sequence[str] | None = None,
              seed: int | None = None, time_limit: float | None = None, prove: bool | None = None,
              gap: float | None = None, warm_start: Mapping | None = None,
              on_progress: Callable[[Progress], None] | None = None) -> Result:
    """Finds a mapping of one problem.

    Args:
        spec: The input: architecture, problem, energies, constraints.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds; takes the place of `options.time_limit`.
        prove: Whether to go on until it is proved that no mapping is better; takes the place of `options.prove`.
        gap: Share by which the mapping may be above the least bound when a proof ends; takes the place of
            `options.gap`.
        warm_start: A mapping to start from; the result is at least as good.
        on_progress: Called whenever the best mapping improves.

    Returns:
        The best mapping found, with its numbers and the history of the search.

    Raises:
        FadiffError: An option is out of range, constraints contradict each other, the map space is too large for an
            exhaustive search, the warm start is not a legal mapping, or no legal mapping is found.
    """
    return map_layers([spec], options, metric=metric, seed=seed, time_limit=time_limit, prove=prove, gap=gap,
                      warm_starts=[warm_start],
                      on_progress=on_progress and (lambda _, step: on_progress(step)))[0]


def map_layers(specs: Sequence[Spec], options: SearchOptions | None = None, *,
               metric: str | Sequence[str] | None = None, seed: int | None = None, time_limit: float | None = None,
               prove: bool | None = None, gap: float | None = None, warm_starts: Sequence[Mapping | None] = (),
               on_progress: Callable[[int, Progress], None] | None = None,
               on_better: Callable[[int, Result], None] | None = None,
               stopped: Callable[[], bool] = lambda: False) -> list[Result]:
    """Finds a mapping for each of many problems, all at once; equal problems are mapped once.

    Args:
        specs: The problems, each on its design.
        options: Effort and parts of the search; None is `SearchOptions()`.
        metric: One metric, or several in order of priority; takes the place of `options.metrics`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds for all problems together; takes the place of `options.time_limit`.
        prove: Whether to go on until it is proved that no mapping is better; takes the place of `options.prove`.
        gap: Share by which mappings may be above their least bounds when a proof ends; takes the place of
            `options.gap`.
        warm_starts: For each problem a mapping to start from, or None.
        on_progress: Called with the number of a problem whenever its best mapping improves.
        on_better: Called with the number of a problem and a result to keep: a first one, better ones while the search
            runs, and the last.
        stopped: Asked again and again; once true, the search ends with the best so far.

    Returns:
        One result per problem, in order.

    Raises:
        FadiffError: As for `map_layer`; the results of the other problems have then been passed to `on_better`.
    """
    return layer_search.map_layers(specs, with_layer_descent(options or SearchOptions()), metric=metric, seed=seed,
                                   time_limit=time_limit, prove=prove, gap=gap, warm_starts=warm_starts,
                                   on_progress=on_progress, on_better=on_better, stopped=stopped)


def map_network(workload: Workload, arch_spec: Design, options: NetworkOptions | None = None, *,
                metric: str | None = None, seed: int | None = None, time_limit: float | None = None,
                energy: str = "bundled", strict: bool = True, jinja_data: AnyMapping[str, Any] | None = None,
                checkpoint_file: str | PathLike[str] | None = None,
                allow_partial: bool = False, on_progress: OnProgress = lambda *_: None,
                stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """Plans a whole network: fused groups, their tiles, all mappings.

    Args:
        workload: The network.
        arch_spec: The design: a `Spec` (its problem is left out), a dict, a file or several.
        options: Effort and parts of the search; None is `NetworkOptions()`.
        metric: Metric of the whole network; takes the place of `options.metric`.
        seed: Takes the place of `options.seed`.
        time_limit: Seconds; takes the place of `options.time_limit`.
        energy: Where energies come from that no ERT in the design gives (see `energy.source_names.CHOICES`).
        strict: Whether input of the design that Timeloop ignores is an error, not a warning.
        jinja_data: Variables of the design's Jinja2 templates, as for `load`.
        checkpoint_file: File to which mappings of layers and groups are written as they are found, and from which
            they are read if it exists.
        allow_partial: Whether the network may have operators that are not understood.
        on_progress: Called with a stage and the network's value at every improvement.
        stopped: Asked again and again; once true, the search ends with the best plan so far.

    Returns:
        A plan that is never worse than the layers one by one.

    Raises:
        SpecError: The design or the network is wrong.
        FadiffError: Too little of the network is understood, an option is out of range, a layer has no legal mapping,
            or the checkpoint is of another network, design or version.
    """
    require_coverage(workload, allow_partial, "allow_partial=True")
    from fadiff_mapper.network import map_network as network_search
    options = options or NetworkOptions()
    if jinja_data and not isinstance(arch_spec, Spec):
        sources = [arch_spec] if isinstance(arch_spec, str | PathLike | AnyMapping) else arch_spec
        arch_spec = read_document(*sources, jinja_data=jinja_data)
    return network_search.map_network(
        workload, arch_spec, options, metric=metric, seed=seed, time_limit=time_limit, energy=energy, strict=strict,
        checkpoint_file=checkpoint_file, on_progress=on_progress, stopped=stopped, descent=descent_for_network(options))


def search_design(space: DesignSpace | Source | Sequence[Source], networks: Any, *,
                  metric: str | Sequence[str] = "edp", method: str | None = None,
                  limits: dict[str, float] | None = None, weights: Sequence[float] | None = None,
                  evaluations: int | None = None, time_limit: float | None = None, seed: int = 0, fuse: bool = True,
                  energy: str | None = None, strict: bool = True, prune: bool = True, neighbours: bool = True,
                  jobs: int | None = None, backend: str = "processes", address: str | None = None,
                  shard: tuple[int, int] | None = None, store: str | PathLike[str] | None = None,
                  calibration: Calibration | None = None, allow_partial: bool = False,
                  on_progress: OnDesign = lambda _: None, stopped: Callable[[], bool] = lambda: False) -> DesignResult:
    """Searches the best design of a space for one network or several.

    Args:
        space: An architecture with a section `design_space`: files or a dict as for `load`, or what `read_space` gave.
        networks: A network, or a list: each a `Workload`, or anything that `load_network` reads.
        metric: "edp", "energy", "delay", "area", "edap", or a product such as "energy*area"; two or three of them for
            a front. Of several networks energies and cycles are summed by weight.
        method: "bounds" (the designs of the best lower bounds), "gradient" (also those of descents on hardware,
            mappings and fusion together; needs PyTorch), "random", "exhaustive", "tpe" or "nsga2". By default
            "gradient" where PyTorch is installed, else "bounds", of which a warning tells.
        limits: Upper bounds beside those in the files, such as `{"area_mm2": 3.0}`.
        weights: How often each network runs; once by default.
        evaluations: Designs to map at most; 100 by default, all for an exhaustive search, and as many as fit where
            there is a time limit.
        time_limit: Seconds for the search with its last steps; designs that are being mapped then are given up, but the
            first one where none is known.
        seed: The same seed gives the same answer unless time runs out.
        fuse: Whether networks are planned with fused layers, as `map_network` does; else every layer runs by itself.
        energy: Where energies come from that no table in the design gives (see `energy.source_names.CHOICES`); by
            default as the space says, else "estimate", one source for all designs.
        strict: Whether input of the designs that Timeloop ignores is an error, not a warning.
        prune: Whether designs whose lower bound is no better than a known design are left out.
        neighbours: Whether the designs one value away from the best are mapped at the end, beyond `evaluations`; a
            better one takes its place, until none is better or as many have been mapped again.
        jobs: Designs at work at a time; one for each core by default. The answer does not depend on it.
        backend: "processes" for those of this machine, "dask" or "ray" for a cluster.
        address: The cluster's scheduler.
        shard: (i, n) evaluates every n-th design alone, from the i-th on; for "random" and "exhaustive".
        store: Folder in which all that is evaluated is kept, so that runs go on and share their work.
        calibration: A correction to measured hardware (`read_calibration`) for the cycles of all designs; nothing is
            fused then. None: the exact model.
        allow_partial: Whether a network may have operators that are not understood.
        on_progress: Called after every design.
        stopped: Asked after every design; once true, the search ends with the best so far.

    Returns:
        The best design or the front, all designs evaluated, and the best one's mappings.

    Raises:
        SpecError: The space or a network is wrong.
        FadiffError: An option is out of range, something is not installed, or no design evaluated is feasible; the
            message says which limit is to blame.
    """
    from fadiff_mapper.design.question import DesignOptions, DesignQuestion
    from fadiff_mapper.design.search_design import search_design as design_search
    known, read = _space_of(space, limits, strict), _networks_of(networks, allow_partial)
    question = DesignQuestion(known, read, tuple(weights or (1.0,) * len(read)),
                              (metric,) if isinstance(metric, str) else tuple(metric),
                              fuse and calibration is None, seed, energy or known.energy or "estimate", strict,
                              calibration)
    options = DesignOptions(method, evaluations, time_limit, prune, neighbours, None, jobs, backend, address,
                            shard, None if store is None else Path(store))
    return design_search(question, options, on_progress=on_progress, stopped=stopped,
                         descent=descent_for_designs(method))


def _space_of(space: DesignSpace | Source | Sequence[Source], limits: dict[str, float] | None,
              strict: bool) -> DesignSpace:
    """The space, read where it is files or a dict. Raises FadiffError for limits beside a space that has been read."""
    from fadiff_mapper.design.space import DesignSpace, read_space
    if not isinstance(space, DesignSpace):
        sources = [space] if isinstance(space, str | PathLike | AnyMapping) else space
        return read_space(*sources, limits=limits, strict=strict)
    if limits:
        raise FadiffError("limits: found some beside a space that has been read; accepted: limits of `read_space`")
    return space


def _networks_of(networks: Any, allow_partial: bool) -> tuple[Workload, ...]:
    """The networks, read where they are not yet. Raises FadiffError where too little of one is understood."""
    from fadiff_mapper.workload.readers.load_network import load_network
    read = tuple(each if isinstance(each, Workload) else load_network(each)
                 for each in (networks if isinstance(networks, list | tuple) else [networks]))
    for network in read:
        require_coverage(network, allow_partial, "allow_partial=True")
    return read
