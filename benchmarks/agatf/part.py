"""AGATF's agent beside no fusion, all the fusion that fits, dynamic programming and our planner, on the exact model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import exp, log
from statistics import fmean, median
from typing import Any

from benchmarks.agatf.embedded_space import embedded
from benchmarks.agatf.evaluation_orders import (
    Ledger,
    all_groups,
    all_that_fits,
    estimates_of,
    hopeful,
    played,
    until,
)
from benchmarks.agatf.exact_groups import space
from benchmarks.agatf.fusion_game import FusionGame
from benchmarks.agatf.import_networks import INPUTS, network
from benchmarks.agatf.planner_course import planner_course, without_second_reads
from benchmarks.agatf.training import trained
from benchmarks.papers.part import Cell, Job, Key, Part, Record, Shown, Table

NETWORKS, DESIGNS = tuple(INPUTS), ("gemmini_large", "gemmini_small")

OTHERS = ("resnet18", "vgg19", "mobilenet_v1", "gpt3_6b7_block", "llama3_8b_prefill", "mixtral_8x7b_prefill")
"""Bundled networks whose shapes the embedding learns from besides the networks that the agent is trained on."""

RESIDUAL = ("resnet50", "mobilenet_v2")
"""Networks that add a tensor to an earlier one."""

QUICK, FULL = (3, 500, 50), (5, 5000, 200)
"""Seeds, episodes of training, and episodes with random actions on a new network."""

BELOW = 0.01
"""The part of an EDP to which a method has to come close."""

ORDERS = ("by our estimates", "by AGATF's cost model", "by estimates that are corrected")
"""Names of the orders of evaluation that look at a prediction for every group."""


def jobs(quick: bool) -> list[Job]:
    """Runs of the planner, of the methods that learn nothing, of agents on a network that they have not seen."""
    seeds, episodes, tries = QUICK if quick else FULL
    every = list(product(NETWORKS, DESIGNS))
    return [*(Job(("planner", *pair, "seed 0"), planner, (*pair, 0)) for pair in every),
            *(Job(("planner, same groups", *pair, "seed 0"), same_groups, (*pair, 0)) for pair in every
              if pair[0] in RESIDUAL),
            *(Job(("no learning", *pair), without_learning, pair) for pair in every),
            *(Job(("agent", name, f"seed {seed}", f"{episodes} episodes", f"{tries} tries"), unseen,
                  (name, seed, episodes, tries)) for seed in range(seeds) for name in NETWORKS)]


def planner(name: str, design: str, seed: int) -> Record:
    """A run of our planner."""
    run = planner_course(network(name), design, seed)
    return {"course": run.course, "searches": run.searches, "layers_s": run.layers_s, "groups_s": run.groups_s}


def same_groups(name: str, design: str, seed: int) -> Record:
    """A run of our planner without the groups that the spaces lack."""
    with without_second_reads():
        return planner(name, design, seed)


def without_learning(name: str, design: str) -> Record:
    """The methods that learn nothing."""
    one = space(name, design)
    naive, naive_plan = all_that_fits(one)
    return {"segments": len(one.number), "cpu_s": sum(group.cpu_s for group in one.groups),
            "naive": {**_record(naive), "plan": naive_plan}, "all": _record(all_groups(one)),
            "estimates": _record(hopeful(one, estimates_of(one)))}


def unseen(name: str, seed: int, episodes: int, tries: int) -> Record:
    """Trains on all other networks, then plans this one on both designs.

    Args:
        name: The network that training leaves out, its shapes too.
        seed: Seed of everything that is learned.
        episodes: Episodes of training.
        tries: Episodes with random actions on the new network.
    """
    seen = [space(other, design) for other in NETWORKS for design in DESIGNS if other != name]
    learned = trained(seen, seed, episodes, OTHERS)
    record: Record = {"cpu_s": dict(learned.cpu_s), "asked": learned.asked, "exact_s": learned.exact_s,
                      "error": learned.embedding.error, "penalties": learned.guide.weights.tolist(), "designs": {}}
    for design in DESIGNS:
        new = embedded(space(name, design), learned.embedding)
        hoped = learned.guide.points(new)
        ledger, plan = played(learned.agent, FusionGame(new, hoped), tries)
        record["designs"][design] = {
            "plan": plan, "agent": _record(ledger),
            "guide": _record(hopeful(new.space, hoped)),
            "correction": _record(hopeful(new.space, learned.correction.points(new)))}
    return record


def _record(ledger: Ledger) -> dict[str, Any]:
    return {"course": ledger.course, "searches": ledger.searches}


def shown(records: Mapping[Key, Record]) -> Shown:
    """The tables of the runs that are there."""
    return Shown((), (edp_table(records), evaluations_table(records), training_table(records)))


def edp_table(records: Mapping[Key, Record]) -> Table:
    """The EDP of every method over that without fusion."""
    rows: list[tuple[Cell, ...]] = []
    for name, design, fixed, planned, agents in _pairs(records):
        whole = records.get(("planner", name, design, "seed 0"))
        unfused = fixed["all"]["course"][0][1]
        own = sorted(exp(agent["plan"] - unfused) for agent in agents)
        learned = (exp(fmean(map(log, own))), own[0], own[-1]) if own else (None, None, None)
        rows.append((name, design, exp(unfused), exp(fixed["naive"]["plan"] - unfused), *learned,
                     exp(fixed["all"]["course"][-1][1] - unfused),
                     *(exp(plan["course"][-1][1] - unfused) if plan else None for plan in (planned, whole))))
    return Table("agatf_edp", "EDP of plans", (
        "network", "design", "EDP without fusion", "all that fits", "agent", "best seed", "worst seed",
        "dynamic programming", "our plan", "our plan, residual operands kept"), tuple(rows),
        "EDP over that without fusion (pJ * cycles; below 1 fusion pays), for the agent the geometric mean over seeds. "
        "The agent plans a network that it was not trained on, once, without random actions. Agent, all that fits and "
        "dynamic programming pick from the same groups, one for each segment; our planner also refines tile sizes, so "
        "its plan can be better than the optimum of these groups. Groups of the product may also keep the second "
        "operand of a sum on the chip, which those read twice: the last column.",
        ("", "", *[".4g"] * 8))


def evaluations_table(records: Mapping[Key, Record]) -> Table:
    """Exact evaluations until within `BELOW` of our plan, and of dynamic programming over all groups."""
    rows: list[tuple[Cell, ...]] = []
    for name, design, fixed, planned, agents in _pairs(records):
        goals = {"our plan": planned["course"][-1][1]} if planned else {}
        for what, goal in (goals | {"optimum of the groups": fixed["all"]["course"][-1][1]}).items():
            learned = [_middle([until(agent[order]["course"], goal, BELOW) for agent in agents])
                       for order in ("guide", "correction", "agent")]
            rows.append((name, design, what, fixed["all"]["searches"],
                         until(planned["course"], goal, BELOW) if planned else None,
                         until(fixed["estimates"]["course"], goal, BELOW), *learned))
    return Table("agatf_evaluations", f"Exact evaluations until within {BELOW:.0%}", (
        "network", "design", "of", "all groups", "our planner", *ORDERS, "agent"), tuple(rows),
        "An evaluation is a search of mappings for all tiles of a group. Learned methods: median over seeds, a seed "
        "that never comes so close counts as never; empty: never. All were trained on the other three networks. In "
        "all columns but our planner's the groups are one for each segment, and what has been evaluated is cut by "
        "dynamic programming.", ("", "", "", *[".0f"] * 6))


def training_table(records: Mapping[Key, Record]) -> Table:
    """The cost of training."""
    rows: list[tuple[Cell, ...]] = []
    for name in NETWORKS:
        runs = [record for key, record in records.items() if key[:2] == ("agent", name)]
        if runs:
            rows.append((name, *(fmean(run["cpu_s"][step] for run in runs) for step in ("embedding", "guide", "agent")),
                         fmean(run["asked"] for run in runs), fmean(run["exact_s"] for run in runs),
                         fmean(run["error"] for run in runs)))
    return Table("agatf_training", "Cost of training", (
        "network left out", "embedding, CPU s", "cost models, CPU s", "agent, CPU s", "groups evaluated",
        "their evaluation, CPU s", "error of the embedding"), tuple(rows),
        "Means over seeds. Groups evaluated are those that the agent asked for in its episodes; the cost models see "
        "all groups of the three networks. Error: mean square of features that come back from the embedding, "
        "in standard deviations.", ("", ".1f", ".1f", ".1f", ".0f", ".0f", ".3f"))


def _pairs(records: Mapping[Key, Record]) -> Iterable[tuple[str, str, Record, Record | None, list[Record]]]:
    """Networks and designs with the runs without learning, of the planner on the same groups, and of agents."""
    for name, design in product(NETWORKS, DESIGNS):
        fixed = records.get(("no learning", name, design))
        source = "planner, same groups" if name in RESIDUAL else "planner"
        planned = records.get((source, name, design, "seed 0"))
        if fixed:
            yield name, design, fixed, planned, [record["designs"][design] for key, record in records.items()
                                                 if key[:2] == ("agent", name)]


def _middle(counts: Sequence[int | None]) -> float | None:
    """The median where "never" is more than any number; None where that is never, or nothing was counted."""
    middle = median(float("inf") if count is None else count for count in counts) if counts else float("inf")
    return None if middle == float("inf") else middle


PART = Part("agatf", "AGATF, an agent that learns which operators to fuse", jobs, shown)
