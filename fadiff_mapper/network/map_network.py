"""Mapping a network: the layers to fuse, the tiling of fused groups, and the mapping of every layer.

Problem. FADiff (arXiv 2511.22348) searches mapping and fusion of a whole network in one descent on a relaxed model.
Decoded, its plan is only as good as that model. Here the descent proposes, and exact evaluation decides.

Method, in the order of `plan_network`:

1. Every distinct layer is mapped by itself (`search`). Factors must divide bounds, so a layer of 7 x 7 points or 197
   tokens keeps few units busy, while tiles of a fused group could fill the array: 7 points may be cut into 4 and 3.
   Estimates of groups therefore also use layers whose bounds are rounded up to numbers with many divisors, mapped for
   speed (`padded_layers`). Short proofs find the mappings with which the layers one by one have the least EDP
   (`one_by_one`).
2. With the method "gradient", tiling factors of all layers and one sigma per link are descended together, from these
   mappings (`gradient.network_descent`, FADiff eqs. 13 to 26).
3. Candidates for fused groups come from enumeration (`fusion.candidates`) and from the descent. Groups that could be in
   the best plan are mapped and evaluated exactly, dynamic programming picks among them (`fusion.prices`), and the
   groups of the plan are refined (`planning`).

Every number of the result is exact; a plan is never worse than the layers one by one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf, prod

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.base.rare_collections import rare_collections
from fadiff_mapper.fusion.prices import other_reads
from fadiff_mapper.fusion.segments import chains
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_nests, layers_of
from fadiff_mapper.network.checkpoint import Checkpoint, opened
from fadiff_mapper.network.layers_alone import layers_alone
from fadiff_mapper.network.network_bound import LeastLayer
from fadiff_mapper.network.one_by_one import best_one_by_one, layer_proof
from fadiff_mapper.network.options import NetworkOptions, layer_search
from fadiff_mapper.network.planning import (
    NetworkDescent,
    OnProgress,
    PlanningRun,
    begin_bounds,
    bound_plans,
    planned_groups,
)
from fadiff_mapper.network.planning_clock import GRACE_S, PlanningClock
from fadiff_mapper.network.result import NetworkResult, network_result
from fadiff_mapper.search.map_layers import map_layers, with_lower_bounds
from fadiff_mapper.search.mapping_task import MappingTask, checked_task
from fadiff_mapper.search.options import AT_ONCE, SearchOptions
from fadiff_mapper.search.result import Result, with_nest
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.workload import Workload

AMPLE_S = 0.4
"""Seconds of processor time for each layer that a time limit must leave for full effort, which uses a part of them and
leaves the rest to fused groups. Set by hand."""


@rare_collections()
def plan_network(workload: Workload, specs: tuple[Spec, ...], options: NetworkOptions, *,
                 mapped: Sequence[Result] = (), checkpoint_file: str | os.PathLike[str] | None = None,
                 on_progress: OnProgress = lambda *_: None, clock: PlanningClock | None = None,
                 descent: NetworkDescent | None = None) -> NetworkResult:
    """Decides which layers of a network to fuse, how to tile the groups, and how to map every layer.

    Results are those of `api.map_network`.

    Args:
        workload: The network.
        specs: The design with every distinct problem of the network, in the order of `workload.distinct()`.
        mapped: The mapping of every distinct layer by itself, from a search with the options of
            `options.layer_search`; empty: layers are searched here.
        checkpoint_file: As for `api.map_network`.
        on_progress: As for `api.map_network`.
        clock: The clock that ends the search; None: the time limit of the options, from now on.
        descent: The descent of the method "gradient"; None for other methods.

    Raises:
        FadiffError: A layer without a legal mapping, or a checkpoint of another network, design or version.
        OutOfTime: Time was over before every layer had a mapping.
    """
    other_reads(workload, specs[0])  # an operation that no compute unit can do is refused before any search
    sparse = sparse_tensors(specs) if options.fuse else ()
    if sparse and options.method == "gradient":
        raise FadiffError(f"method: found gradient with sparse tensors ({listed(sparse)}), whose layers are not fused; "
                          "accepted: annealing")
    options = replace(options, fuse=options.fuse and not sparse and options.calibration is None)
    clock = clock or PlanningClock(options.time_limit, lambda: False)
    saved = opened(checkpoint_file, workload, specs, options)
    results = tuple(_layer_mappings(workload, specs, options, clock, saved, mapped))
    ample = clock.left() * options.workers > AMPLE_S * len(results) and not clock.over()
    layers: Sequence[LeastLayer] = ()
    if ample and not (mapped or options.calibration):   # a caller that gives mappings has bounds, too
        results = tuple(with_lower_bounds(results, options.metric, clock.over))
        budget = AT_ONCE if options.fuse or options.gap is None else inf    # else fused groups get the time
        proofs = [layer_proof(result.spec, result.mapping, budget, clock.over) for result in results]
        layers = [proof.least(bound.energy, bound.delay, bound.edp)
                  for proof, result in zip(proofs, results, strict=True) if (bound := result.bound)]
        if options.metric == "edp" and len(layers) == len(results):
            nests = best_one_by_one(proofs, layers, [entry.times for entry in workload.distinct()],
                                    other_reads(workload, specs[0], metric="edp"), clock.over,
                                    fused=options.fuse and any(len(names) > 1 for names, _ in chains(workload)))
            results = tuple(map(with_nest, results, nests))
    descended = None
    if descent and options.fuse and not clock.over():
        descended = descent(workload, results, options.metric, options.seed, clock.over)
    if descended:
        results = tuple(descended.results)
    padded: list[list[Result]] = [[] for _ in results]
    if options.fuse and ample:
        light = SearchOptions(seed=options.seed, threads=options.workers, effort="light")
        padded = padded_layers(results, light, clock.over)
    run = PlanningRun(workload, options, results, padded, descended, clock, saved, on_progress, layers)
    run.note("layers")
    # a caller that gives mappings has its own reasons and bounds
    planned, explained = options.fuse and not run.over(), not mapped
    groups = planned_groups(run, bounded=explained) if planned else ()
    apart = layers_alone(run, groups) if planned and explained else ()
    status = "interrupted: the best plan so far" if clock.stopped() else (
        f"out of time after {options.time_limit:g} s: the best plan so far" if run.late() or run.cut
        else "search ended")
    if options.calibration:
        status += "; no layers are fused: the calibration was measured on layers by themselves"
    if sparse:
        status += f"; no layers are fused: groups with sparse tensors are not modelled ({listed(sparse)})"
    if run.cut or options.calibration or sparse_tensors(specs):     # only single layers have bounds
        run.results = run.results if mapped else tuple(with_lower_bounds(run.results, options.metric, run.late))
    elif not (mapped or run.bounded):
        begin_bounds(run, run.late)
        bound_plans(run, run.late)
    status += f"; {run.unbounded}" if run.unbounded else ""
    return network_result(workload, run.hardware, list(run.results), descended.sigma if descended else {}, groups,
                          run.history, options.as_dict(), status, clock.spent(), apart, run.least)


def _layer_mappings(workload: Workload, specs: tuple[Spec, ...], options: NetworkOptions, clock: PlanningClock,
                    saved: Checkpoint, mapped_before: Sequence[Result]) -> list[Result]:
    """The best mapping of every distinct layer by itself; layers with most multiply-accumulates are searched first, as
    they matter most where time runs out."""
    calibrated = options.calibration is not None    # the checkpoint keeps mappings that the exact model chose
    known: list[Result | None] = list(mapped_before) or (
        [None] * len(specs) if calibrated else saved.results())
    work = [entry.times * entry.layer.macs for entry in workload.distinct()]
    missing = sorted((index for index, result in enumerate(known) if result is None), key=lambda index: -work[index])
    wanted = [specs[index] for index in missing]
    limited = clock.limit is not None
    deadline = time.monotonic() + clock.left() + GRACE_S if limited else None
    ample = clock.left() * options.workers > AMPLE_S * len(missing)
    # a checkpoint keeps no proofs; with a time limit, bounds come last
    bounds = not (limited or saved.file)
    keep = None if saved.file is None else lambda number, result: saved.keep(missing[number], result)
    try:
        mapped = map_layers(wanted, layer_search(options, "full" if ample else "short"), stopped=clock.stopped,
                            bounds=bounds, deadline=deadline,
                            on_end=None if calibrated else keep, before="quick" if limited else None)
    finally:
        saved.write()
    for index, result in zip(missing, mapped, strict=True):
        known[index] = result
    return [result for result in known if result is not None]


def padded_layers(results: Sequence[Result], options: SearchOptions,
                  stopped: Callable[[], bool]) -> list[list[Result]]:
    """Maps layers, also with padded bounds, for the least cycles inside the outermost level: tiles of a group may keep
    units busy that the layer by itself leaves idle.

    Searches end early once `stopped`.

    Returns:
        For each layer its fastest mapping, and the fastest mappings of its padded problems: with all bounds padded that
        spatial loops may divide, and with one of them padded, as a group may cut a single dimension. Fewer where bounds
        need no padding, or where the constraints leave a padded problem without a legal mapping.
    """
    specs = []
    for index, result in enumerate(results):
        *inner, outermost = result.spec.arch.levels
        # a layer limited by outside bandwidth would gain nothing from more units
        unlimited = replace(outermost, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None)
        spec = replace(result.spec, arch=replace(result.spec.arch, levels=(*inner, unlimited)))
        bounds = spec.problem.bounds
        spread = [level.spatial.fixed for number, level in enumerate(spec.constraints.levels)
                  if prod(spec.arch.fanout(number)) > 1]
        wider = {dim: padded(bound) for dim, bound in bounds.items()
                 if padded(bound) != bound and any(fixed.get(dim) != 1 for fixed in spread)}
        each = [{dim: bound} for dim, bound in wider.items()]
        specs += [(index, replace(spec, problem=replace(spec.problem, bounds={**bounds, **own})))
                  for own in ({}, *([wider] if len(each) > 1 else []), *each)]
    posed: list[tuple[int, Spec, MappingTask]] = []
    for (index, spec), layer in zip(specs, layers_of([spec for _, spec in specs]), strict=True):
        with suppress(FadiffError):  # constraints that the padded bounds cannot meet
            posed.append((index, spec, checked_task(spec, layer)))
    outcomes = search_all([task for *_, task in posed], replace(options, metrics=("delay",)), stopped=stopped)
    legal = [(*own, outcome.nest) for own, outcome in zip(posed, outcomes, strict=True) if outcome.legal]
    stats = evaluate_nests([spec for _, spec, *_ in legal], [task.layer for _, _, task, _ in legal],
                           [nest for *_, nest in legal])
    found: list[list[Result]] = [[] for _ in results]
    for (index, spec, _, nest), own in zip(legal, stats, strict=True):
        found[index].append(with_nest(replace(results[index], spec=spec), nest, own))
    return found


def padded(bound: int) -> int:
    """The least number, at least the bound, that is a power of two or three times a power of two."""
    return min(odd << max(-(-bound // odd) - 1, 0).bit_length() for odd in (1, 3))


def sparse_tensors(specs: Sequence[Spec]) -> tuple[str, ...]:
    """The tensors, by problem, that rule out fused groups: tensors with a density, or all on a sparse design."""
    names = {f"{name} of {spec.problem.name}" for spec in specs for name in (
        spec.problem.dataspace_names() if spec.sparse and spec.sparse.applied else spec.problem.densities)}
    return tuple(sorted(names))
