"""Mapping a network: the layers to fuse, the tiling of fused groups, and the mapping of every layer.

Problem. FADiff (arXiv 2511.22348) searches mapping and fusion of a whole network in one descent on a relaxed model.
Decoded, its plan is only as good as that model. Here the descent proposes, and exact evaluation decides.

Method, in the order of `map_network`:

1. Every distinct layer is mapped by itself (`search`), with variants that trade energy against cycles
   (`layer_variants`).
2. With the method "gradient", tiling factors of all layers and one sigma per link are descended together, from these
   mappings (`gradient.network_descent`, FADiff eqs. 13 to 26).
3. Candidates for fused groups come from enumeration, from the descent and from around the plan (`fusion.candidates`).
   Groups that could be in the best plan are mapped and evaluated exactly, dynamic programming picks among them
   (`partition`), and the groups of the plan are refined (`planning`).

Every number of the result is exact; a plan is never worse than the layers one by one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from fadiff_mapper.base.errors import listed
from fadiff_mapper.base.rare_collections import rare_collections
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.checkpoint import Checkpoint, opened
from fadiff_mapper.network.layer_variants import best_together, padded_layers, variants
from fadiff_mapper.network.one_design import Design, specs_of
from fadiff_mapper.network.options import NetworkOptions, check, layer_search
from fadiff_mapper.network.outcome import network_result
from fadiff_mapper.network.planning import planned_groups
from fadiff_mapper.network.planning_clock import PlanningClock
from fadiff_mapper.network.planning_run import NetworkDescent, OnProgress, PlanningRun
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.search.map_layers import map_layers, with_bounds
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload

AMPLE_S = 0.4
"""Seconds of processor time for each layer that a limit must leave for full effort, which takes 0.03 to 0.08, and for
variants, which take 0.02: what is left is for fused groups. Set by hand between the two."""


def map_network(workload: Workload, arch_spec: Design, options: NetworkOptions | None = None, *,
                metric: str | None = None, seed: int | None = None, time_limit: float | None = None,
                energy: str = "bundled", strict: bool = True,
                checkpoint_file: str | os.PathLike[str] | None = None,
                on_progress: OnProgress = lambda *_: None, stopped: Callable[[], bool] = lambda: False,
                clock: PlanningClock | None = None, descent: NetworkDescent | None = None) -> NetworkResult:
    """Decides which layers of a network to fuse, how to tile the groups, and how to map every layer.

    Arguments, results and errors are those of `api.map_network`, and beside these:

    Args:
        clock: When to come to an end, of a command that keeps time back for its report; takes the place of `stopped`.
            None: with the time limit of the options, from now on.
        descent: The descent of the method "gradient"; None for other methods.

    Raises:
        OutOfTime: There was no time for a mapping of every layer.
    """
    options = options or NetworkOptions()
    options = replace(options, metric=options.metric if metric is None else metric,
                      seed=options.seed if seed is None else seed,
                      time_limit=options.time_limit if time_limit is None else time_limit)
    check(options)
    clock = clock or PlanningClock(options.time_limit, stopped)  # reading the design counts, too
    return plan_network(workload, specs_of(workload, arch_spec, energy, strict, clock.late()), options,
                        checkpoint_file=checkpoint_file, on_progress=on_progress, clock=clock, descent=descent)


@rare_collections()
def plan_network(workload: Workload, specs: tuple[Spec, ...], options: NetworkOptions, *,
                 mapped: Sequence[Result] = (), checkpoint_file: str | os.PathLike[str] | None = None,
                 on_progress: OnProgress = lambda *_: None, clock: PlanningClock | None = None,
                 descent: NetworkDescent | None = None) -> NetworkResult:
    """Decides as `map_network` does, for a design that has been read, with options in range.

    Args:
        workload: The network.
        specs: The design with every distinct problem of the network, in the order of `workload.distinct()`.
        options: Options of the search.
        mapped: The mapping of every distinct layer by itself, where the caller has searched them with the options of
            `options.layer_search`; empty: they are searched here.

    Raises:
        FadiffError: A layer without a legal mapping, or a checkpoint of another network, design or version.
    """
    sparse = sparse_tensors(specs) if options.fuse else ()
    options = replace(options, fuse=options.fuse and not sparse and options.calibration is None)
    clock = clock or PlanningClock(options.time_limit, lambda: False)
    saved = opened(checkpoint_file, workload, specs, options)
    further = SearchOptions(seed=options.seed, threads=options.workers, effort="light")
    times = [entry.times for entry in workload.distinct()]
    mappings = _layer_mappings(workload, specs, options, clock, saved, mapped, further)
    results = tuple(best_together(mappings, times, options.metric))
    descended = None
    if descent and options.fuse and not clock.over():
        descended = descent(workload, results, options.metric, options.seed, clock.over)
    if descended:
        results = tuple(best_together(descended.mappings, times, options.metric))
    padded: list[list[Result]] = [[] for _ in results]
    if options.fuse and clock.left() * options.workers > AMPLE_S * len(results) and not clock.over_for_layers():
        padded = padded_layers(results, further, clock.over_for_layers)
    run = PlanningRun(workload, options, results, mappings, padded, descended, clock, saved, on_progress)
    run.note("layers")
    # reasons and bounds are for the reader alone; the caller of a given mapping has its own
    groups, apart = planned_groups(run, explain=not mapped) if options.fuse and not run.over() else ((), ())
    status = "interrupted: the best plan so far" if clock.stopped() else (
        f"out of time after {options.time_limit:g} s: the best plan so far" if run.over() or run.cut
        else "search ended")
    if options.calibration:
        status += "; no layers are fused: the calibration was measured on layers by themselves"
    if sparse:
        status += f"; no layers are fused: groups with sparse tensors are not modelled ({listed(sparse)})"
    if not mapped:
        results = tuple(with_bounds(results, run.over))
    return network_result(workload, run.hardware, list(results), descended.sigma if descended else {}, groups,
                          run.history, options.as_dict(), status, clock.spent(), apart)


def _layer_mappings(workload: Workload, specs: tuple[Spec, ...], options: NetworkOptions, clock: PlanningClock,
                    saved: Checkpoint, mapped_before: Sequence[Result], further: SearchOptions) -> list[list[Result]]:
    """For every distinct layer by itself the mappings that could be best for the network, the best alone first.

    They are searched in the order of their multiply-accumulates, which weigh most where time runs out, then, near each
    best one, `further`.
    """
    calibrated = options.calibration is not None    # the checkpoint keeps mappings that the exact model chose
    known: list[Result | None] = list(mapped_before) or (
        [None] * len(specs) if calibrated else saved.results())
    work = [entry.times * entry.layer.macs for entry in workload.distinct()]
    missing = sorted((index for index, result in enumerate(known) if result is None), key=lambda index: -work[index])
    wanted = [specs[index] for index in missing]
    limited = clock.limit is not None
    deadline = time.monotonic() + clock.left_for_layers(len(missing)) if limited else None
    ample = clock.left() * options.workers > AMPLE_S * len(missing)
    keep = None if saved.file is None else lambda number, result: saved.keep(missing[number], result)
    try:
        mapped = map_layers(wanted, layer_search(options, "full" if ample else "short"), stopped=clock.stopped,
                            bounds=False, deadline=deadline,
                            on_end=None if calibrated else keep, before="quick" if limited else None)
    finally:
        saved.write()
    for index, result in zip(missing, mapped, strict=True):
        known[index] = result
    results = [result for result in known if result is not None]
    sparse = any(spec.sparse and spec.sparse.applied for spec in specs)
    if options.metric != "edp" or calibrated or not ample or clock.over_for_layers() or sparse:
        return [[result] for result in results]
    return variants(results, further, clock.over_for_layers)


def sparse_tensors(specs: Sequence[Spec]) -> tuple[str, ...]:
    """The tensors for which no fused group is planned, by problem: those with a density, or all on a sparse design."""
    names = {f"{name} of {spec.problem.name}" for spec in specs for name in (
        spec.problem.dataspace_names() if spec.sparse and spec.sparse.applied else spec.problem.densities)}
    return tuple(sorted(names))
