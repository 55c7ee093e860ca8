"""FADiff's Table 1: five networks on two designs, methods beside each other at equal time and at equal evaluations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import optuna  # noqa: F401  the part is left out where an optimiser's library is missing
import pymoo  # noqa: F401

from .course import Axis, course, edp_after
from .methods import DOSA, FULL, METHODS, ONE_TILING, QUICK, TO_THEIR_END, run_method
from .networks import DESIGNS, NETWORKS
from .paper_ratios import ratios, savings
from .part import Cell, Job, Key, Part, Record, Shown, Table
from .spread import spread_text

SEEDS = {"gemmini_large": 5, "gemmini_small": 5}

QUICK_SEEDS = {"gemmini_large": 2, "gemmini_small": 2}

QUICK_DOSA_SEEDS = {"gemmini_large": 1, "gemmini_small": 1}
"""A descent with DOSA's settings takes up to a minute, ten times as long as the other runs."""

AXES: dict[Axis, str] = {"cpu_s": "s of processor time a layer", "evaluations": "evaluations a layer"}

TEXT = (
    "Every distinct layer of a network has the same budget; so a network has as many times as much as it has distinct "
    "layers. Layers take turns. EDP is the sum of energies times the sum of cycles, in pJ x cycles, of the exact "
    "model, with what sums read besides. Each entry is the geometric mean over seeds with its range.",
    "Bayesian is optuna's tree-structured Parzen estimator, genetic is pymoo with GAMMA's operators; these two and "
    "random search propose vectors that stand for legal mappings alone: factors multiply to the bounds, and a mapping "
    "that exceeds a memory is drawn towards the outermost level until it fits. "
    "Ours and DOSA's descent meet illegal mappings on their way and run to their end by themselves: with a larger "
    "budget they do not go on.",
    "An evaluation is a legal mapping whose energy and cycles are asked for, whichever method asks; an illegal one "
    "costs time alone. The last table has both numbers. An entry is empty where no run came so far in its time: 1,000 "
    "trials of the Parzen estimator take half a minute a layer. Ours starts 64 chains a layer at random mappings, few "
    "of them legal, and tries 768 mappings a round: it is made for many evaluations a second, not for few.",
    "The descent with DOSA's settings is ours, on our relaxed model, from random starts; every mapping that it draws "
    "is evaluated exactly, and its steps cost time alone.",
    "\"One tiling for all layers\" is an encoding of public code, shown once, not meant as a method: every place has "
    "one factor for each dimension, the same for all layers and independent of other places. Factors that do not "
    "divide are rounded down to a divisor here, as the exact model has no padded factors. One seed.")


def jobs(quick: bool) -> list[Job]:
    """Seed by seed, so that a run that is stopped has all methods."""
    effort = QUICK if quick else FULL
    found = []
    for seed in range(max(SEEDS.values())):
        for design in DESIGNS:
            for network in NETWORKS:
                for method in METHODS:
                    if seed < seeds_of(method, design, quick):
                        # Methods that end by themselves do not depend on the effort.
                        name = "to its end" if method in TO_THEIR_END else effort.name
                        found.append(Job((network, design, method, f"seed {seed}", name), run_method,
                                         (method, network, design, seed, effort)))
    return sorted(found, key=lambda job: job.key[2] == DOSA) if quick else found


def seeds_of(method: str, design: str, quick: bool) -> int:
    """The number of seeds of a method."""
    if method == ONE_TILING:
        return 1
    return ((QUICK_DOSA_SEEDS if method == DOSA else QUICK_SEEDS) if quick else SEEDS)[design]


def shown(records: Mapping[Key, Record]) -> Shown:
    """Tables at two budgets of each kind, and ratios beside the paper's."""
    effort = QUICK if any(key[4] == QUICK.name for key in records) else FULL
    tables = [table_at(records, axis, limit) for axis in AXES for limit in getattr(effort, axis)]
    return Shown(TEXT, (*tables, ratios(records, effort.cpu_s[1]), savings(records), ends(records)))


def edps(records: Mapping[Key, Record], network: str, design: str, method: str, axis: Axis,
         limit: float) -> list[float]:
    """A method's EDP after a budget of each layer, for each seed whose run has come so far."""
    return [edp_after(course(record, axis), limit * record["distinct"] * (1 + 1e-9))
            for key, record in records.items() if key[:3] == (network, design, method)
            and (method in TO_THEIR_END or spent(record, axis) >= limit * record["distinct"] * (1 - 1e-9))]


def columns(records: Mapping[Key, Record]) -> list[str]:
    """The methods that have records."""
    return [method for method in METHODS if any(key[2] == method for key in records)]


def table_at(records: Mapping[Key, Record], axis: Axis, limit: float) -> Table:
    """EDPs of all methods at one budget."""
    methods = columns(records)
    rows = [(network, design, *(spread_text(edps(records, network, design, method, axis, limit)) for method in methods))
            for design in DESIGNS for network in NETWORKS]
    reached = [column for column, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    rows = [tuple(row[column] for column in reached) for row in rows if any(row[2:])]
    heads = tuple(("network", "design", *methods)[column] for column in reached)
    return Table(f"table1_{limit:g}_{axis}", f"EDP after {limit:g} {AXES[axis]}", heads,
                 tuple(rows), f"Seeds behind an entry: {seeds_told(records)}.")


def seeds_told(records: Mapping[Key, Record]) -> str:
    """The seeds behind the entries of a table, by design, without the method that runs once."""
    counts = {design: Counter(key[:3] for key in records if key[1] == design and key[2] != ONE_TILING).values()
              for design in DESIGNS}
    return ", ".join(f"{design} {min(of)}" + (f" to {max(of)}" if max(of) > min(of) else "")
                     for design, of in counts.items() if of) or "none"


def ends(records: Mapping[Key, Record]) -> Table:
    """Cost and result of the methods that end by themselves."""
    rows: list[tuple[Cell, ...]] = []
    for design in DESIGNS:
        for network in NETWORKS:
            for method in TO_THEIR_END:
                runs = [record for key, record in records.items() if key[:3] == (network, design, method)]
                if runs:
                    rows.append((network, design, method, spread_text([edp_after(course(run, "cpu_s"), math.inf)
                                                                      for run in runs]),
                                 _middle([spent(run, "cpu_s") for run in runs]),
                                 round(_middle([spent(run, "evaluations") for run in runs])),
                                 round(_middle([run["notes"].get("looked_at", 0) for run in runs])), len(runs),
                                 runs[0]["distinct"]))
    return Table("table1_ends", "Methods that end by themselves: what they find in the end",
                 ("network", "design", "method", "EDP", "CPU s, median", "evaluations, median",
                  "with illegal ones, median", "seeds", "distinct layers"), tuple(rows),
                 formats=("", "", "", "", ".1f", ",", ",", "", ""))


def spent(record: Record, axis: Axis) -> float:
    """Processor time or evaluations of a whole run."""
    return float(max(record[axis], sum(layer[axis] for layer in record["layers"])))


def _middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


PART = Part("table1", "FADiff, Table 1: methods side by side", jobs, shown)
