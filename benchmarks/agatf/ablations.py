"""Our own parts switched off, one by one, on all bundled designs and three networks: which of them pay, and where.

Two kinds of runs, one of each for every network and design:

    layers   every distinct layer by itself, with and without descent, refinement, the refined model
    groups   the network's plan with groups from enumeration, from the descent, or from both
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import product
from math import exp, log
from statistics import fmean
from unittest import mock

from benchmarks.papers.part import Job, Part, Record, Shown, Table
from fadiff_mapper import NetworkOptions, SearchOptions, load_network, map_layers
from fadiff_mapper.base import bundled_files
from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.gradient.network_descent import descended_network
from fadiff_mapper.network import planning
from fadiff_mapper.network.map_network import plan_network
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.options import layer_search
from fadiff_mapper.network.planning import NetworkDescent
from fadiff_mapper.search.options import Effort

NETWORKS = ("gpt3_6b7_block", "mobilenet_v1", "resnet18")
DESIGNS = ("gemmini_large", "gemmini_small", "eyeriss_like", "simba_like", "weight_stationary", "output_stationary")

PAPER = partial(descend, model="paper")
LAYERS: Mapping[str, Effort] = {
    "default": Effort(),
    "descent before": Effort(descent=descend),
    "descent before, paper's model": Effort(descent=PAPER),
    "descent alone": Effort(descent=descend, searches=0),
    "descent alone, paper's model": Effort(descent=PAPER, searches=0),
}
"""Searches of a layer, the default first: annealing on the exact model."""

GROUPS: Mapping[str, NetworkDescent | None] = {
    "enumeration": None,
    "descent": descended_network,
    "both": descended_network,
    "descent, paper's model": partial(descended_network, model="paper"),
}
"""Sources of candidate groups, the default first; without `ENUMERATING` no groups are enumerated."""
ENUMERATING = ("enumeration", "both")

SWITCHES = (
    ("descent before the refinement of a layer", "layers", "descent before", "default"),
    ("refinement of a layer, after a descent", "layers", "descent before", "descent alone"),
    ("refined model, before the refinement", "layers", "descent before", "descent before, paper's model"),
    ("refined model, without refinement", "layers", "descent alone", "descent alone, paper's model"),
    ("enumeration of groups in place of the descent", "groups", "enumeration", "descent"),
    ("descent beside the enumeration of groups", "groups", "both", "enumeration"),
    ("refined model, groups from the descent", "groups", "descent", "descent, paper's model"),
)
"""(name, kind of run, with it, without it)."""

ALIKE = 1e-3
"""The part of an EDP below which two searches count as equally good."""


def jobs(quick: bool) -> list[Job]:
    """A run of each kind for every network, design and seed; quick has a single seed, else there are three."""
    kinds = {"layers": layers_of, "groups": groups_of}
    return [Job((name, design, kind, f"seed {seed}"), kinds[kind], (name, design, seed))
            for seed in range(1 if quick else 3) for design, name, kind in product(DESIGNS, NETWORKS, kinds)]


def layers_of(name: str, design: str, seed: int) -> Record:
    """Maps every distinct layer of a network with each search of `LAYERS`.

    Returns:
        For each search the EDP of every layer in pJ * cycles, the evaluations and CPU seconds of all.
    """
    specs = specs_of(load_network(f"bundled:networks/{name}"), bundled_files.find(f"arch/{design}"))
    record: Record = {}
    for label, effort in LAYERS.items():
        start = time.process_time()
        results = map_layers(specs, SearchOptions(("edp",), seed, threads=1, effort=effort))
        record[label] = {"edp": [result.stats.edp for result in results],
                         "evaluations": sum(result.evaluations for result in results),
                         "cpu_s": time.process_time() - start}
    return record


def groups_of(name: str, design: str, seed: int) -> Record:
    """Plans a network with groups from each source of `GROUPS`, from the same mappings of its layers.

    Returns:
        For each source the plan's EDP and that without fusion in pJ * cycles, its groups, the layers of the longest,
        and CPU seconds without the search of layers.
    """
    network = load_network(f"bundled:networks/{name}")
    specs = specs_of(network, bundled_files.find(f"arch/{design}"))
    mapped = map_layers(specs, layer_search(NetworkOptions(seed=seed, threads=1)))
    record: Record = {}
    for label, descent in GROUPS.items():
        start = time.process_time()
        proposals_alone = mock.patch.object(planning.HopedSteps, "unlisted", lambda _: [])
        with nullcontext() if label in ENUMERATING else proposals_alone:
            plan = plan_network(network, specs, NetworkOptions(seed=seed, threads=1), mapped=mapped, descent=descent)
        record[label] = {"edp": plan.stats.edp, "unfused_edp": plan.unfused_stats.edp, "groups": len(plan.groups),
                         "longest": max((len(group.nodes) for group in plan.groups), default=1),
                         "cpu_s": time.process_time() - start}
    return record


def shown(records: Mapping[tuple[str, ...], Record]) -> Shown:
    """The tables of all runs that are there."""
    return Shown(tables=(switches(records), layers_table(records), groups_table(records)))


def switches(records: Mapping[tuple[str, ...], Record]) -> Table:
    """For every switch and design: over the networks, how the EDP changes with it and in how many runs."""
    rows = []
    for name, kind, with_it, without in SWITCHES:
        for design in (*DESIGNS, "all"):
            runs = [record for key, record in records.items() if key[2] == kind and design in (key[1], "all")]
            if runs:
                changes = [change(run[with_it]["edp"], run[without]["edp"]) for run in runs]
                rows.append((name, design, len(runs), exp(fmean(changes)) - 1, exp(min(changes)) - 1,
                             exp(max(changes)) - 1, sum(one < -ALIKE for one in changes),
                             sum(one > ALIKE for one in changes),
                             sum(run[with_it]["cpu_s"] for run in runs) / sum(run[without]["cpu_s"] for run in runs)))
    return Table("ablations_switches", "What each part brings", (
        "part", "design", "runs", "EDP with it", "least", "greatest", "better in", "worse in", "CPU time"), tuple(rows),
        "EDP with the part over EDP without it, less 1: geometric mean over networks and seeds, least and greatest; "
        f"better in, worse in: runs in which it changes by more than {ALIKE:.1%}. A run of layers counts with the "
        "geometric mean of its distinct layers. CPU time: with the part over without it.",
        ("", "", "", ".2%", ".2%", ".2%", "", "", ".2f"))


def change(with_it: float | Sequence[float], without: float | Sequence[float]) -> float:
    """Mean logarithm of EDP with a part over EDP without it, of one network or of its layers."""
    if isinstance(with_it, Sequence) and isinstance(without, Sequence):
        return fmean(log(a / b) for a, b in zip(with_it, without, strict=True))
    assert isinstance(with_it, int | float) and isinstance(without, int | float)
    return log(with_it / without)


def layers_table(records: Mapping[tuple[str, ...], Record]) -> Table:
    """For every design and search the EDP of layers over the best that any search here found."""
    rows = []
    for design, search in product(DESIGNS, LAYERS):
        runs = [record for key, record in records.items() if key[1:3] == (design, "layers")]
        if runs:
            ratios = [ratio for run in runs for ratio in over_best(run, search)]
            rows.append((design, search, len(ratios), exp(fmean(map(log, ratios))), max(ratios),
                         sum(ratio > 1 + ALIKE for ratio in ratios),
                         sum(run[search]["evaluations"] for run in runs) / len(ratios),
                         sum(run[search]["cpu_s"] for run in runs) / len(ratios)))
    return Table("ablations_layers", "Searches of single layers", (
        "design", "search", "layers", "EDP / best", "worst", "missed", "evaluations", "CPU s"), tuple(rows),
        "EDP over the best of all searches in this table with the same seed, geometric mean over distinct layers; "
        f"missed: layers worse by more than {ALIKE:.1%}; evaluations and CPU seconds per layer, the descent's steps "
        "in the seconds only. Efforts are the defaults: what a part saves is not spent on others.",
        ("", "", "", ".4f", ".3f", "", ".0f", ".3f"))


def over_best(run: Record, search: str) -> Iterator[float]:
    """EDP of every layer with a search over the best of all searches."""
    for layer, edp in enumerate(run[search]["edp"]):
        yield edp / min(other["edp"][layer] for other in run.values())


def groups_table(records: Mapping[tuple[str, ...], Record]) -> Table:
    """A row per network and design: what the plan saves with each source of groups."""
    rows = []
    for key, run in records.items():
        if key[2] == "groups":
            unfused = min(plan["unfused_edp"] for plan in run.values())
            rows.append((*key[:2], key[3], unfused, *(1 - run[source]["edp"] / unfused for source in GROUPS),
                         *(run[source]["cpu_s"] for source in GROUPS)))
    return Table("ablations_groups", "Sources of fused groups", (
        "network", "design", "seed", "unfused EDP", *GROUPS, *(f"CPU s, {source}" for source in GROUPS)), tuple(rows),
        "The part of the EDP without fusion (pJ * cycles, the best of the four runs) that the plan saves.",
        ("", "", "", ".4g", *[".2%"] * len(GROUPS), *[".1f"] * len(GROUPS)))


PART = Part("ablations", "Our own parts, switched off one by one", jobs, shown)
