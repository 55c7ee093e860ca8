"""Our measurements beside the numbers of FADiff's Table 1: ratios of EDPs, and what fusion saves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import fmean

import yaml

from .course import course, edp_after
from .methods import DOSA, FUSED, METHODS, ONE_TILING, UNFUSED
from .networks import DESIGNS, NETWORKS
from .part import Cell, Key, Record, Table
from .spread import geometric_mean

PAPER = Path(__file__).with_name("fadiff_table1.yaml")

IN_PAPER = {DOSA: "DOSA", "Bayesian": "Bayesian", "genetic": "genetic", ONE_TILING: "genetic"}
"""The paper's columns that ratios are put beside. Its encodings are not published; ratios of its size are those of one
tiling for all layers."""


@cache
def paper() -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The paper's EDPs by network, design and method."""
    content: Mapping[str, Mapping[str, Mapping[str, float]]] = yaml.safe_load(PAPER.read_text(encoding="utf-8"))
    return content


def edps_within(records: Mapping[Key, Record], network: str, design: str, method: str,
                seconds: float = math.inf) -> list[float]:
    """A method's EDP after so much processor time a layer, for each seed."""
    return [edp_after(course(record, "cpu_s"), seconds * record["distinct"] * (1 + 1e-9))
            for key, record in records.items() if key[:3] == (network, design, method)]


def ratios(records: Mapping[Key, Record], limit: float) -> Table:
    """EDP of each method over that of our plan, beside the paper's ratio over FADiff's.

    Args:
        records: Of Table 1.
        limit: Processor time a layer in s of the methods that do not end by themselves.
    """
    methods = [method for method in METHODS if method != FUSED and any(key[2] == method for key in records)]
    heads = [head for method in methods for head in (method, *([f"{method}: paper"] if method in IN_PAPER else []))]
    rows: list[tuple[Cell, ...]] = []
    for design in DESIGNS:
        block = {network: row for network in NETWORKS if (row := _ratio_row(records, network, design, methods, limit))}
        rows += [(network, design, *row) for network, row in block.items()]
        if block:
            rows.append(("geometric mean", design, *map(_mean, zip(*block.values(), strict=True))))
    title = f"EDP over that of our plan, after {limit:g} s of processor time a layer, beside FADiff's Table 1"
    return Table("table1_ratios", title, ("network", "design", *heads), tuple(rows),
                 "Ratios of geometric means over seeds. Columns of the paper are its EDPs over FADiff's; they come "
                 "from another energy model, other start points and other budgets, so that only orders of magnitude "
                 f"compare. Ours and \"{DOSA}\" are taken at their ends.", ("", "", *(".3g" for _ in heads)))


def _ratio_row(records: Mapping[Key, Record], network: str, design: str, methods: Sequence[str],
               limit: float) -> list[Cell]:
    """The ratios of a network; empty without a plan of ours."""
    ours = edps_within(records, network, design, FUSED)
    if not ours:
        return []
    cells: list[Cell] = []
    for method in methods:
        found = edps_within(records, network, design, method, math.inf if method in (DOSA, UNFUSED) else limit)
        ratio = geometric_mean(found) / geometric_mean(ours) if found else math.inf
        cells.append(ratio if ratio < math.inf else "none legal" if found else None)
        if method in IN_PAPER:
            cells.append(paper()[network][design][IN_PAPER[method]] / paper()[network][design]["FADiff"])
    return cells


def _mean(cells: Sequence[Cell]) -> Cell:
    """The geometric mean of a column; none where a number is missing."""
    numbers = [cell for cell in cells if isinstance(cell, float)]
    return geometric_mean(numbers) if len(numbers) == len(cells) else None


def savings(records: Mapping[Key, Record]) -> Table:
    """Savings of fusion in each network's EDP, beside the paper's and their means."""
    rows: list[tuple[Cell, ...]] = []
    for design in DESIGNS:
        block = [(network, design, *_savings_row(records, network, design)) for network in NETWORKS]
        rows += [*block, ("mean", design, *(
            None if None in column else fmean(column) for column in list(zip(*block, strict=True))[2:]))]
    return Table("table1_savings", "The part of the EDP that fusion saves, network by network", (
        "network", "design", "paper: FADiff against DOSA", "ours against ours without fusion",
        f"ours against \"{DOSA}\""), tuple(rows),
        "The paper's \"18 / 13 %\" are its means here. DOSA and FADiff differ in more than fusion, as they search "
        "layers in different ways; ours without fusion has the same search of layers as ours. Geometric means over "
        "seeds, at the end of each run.", ("", "", ".1%", ".2%", ".1%"))


def _savings_row(records: Mapping[Key, Record], network: str, design: str) -> tuple[float | None, ...]:
    """Savings of a network: the paper's, and ours against each of two methods."""
    theirs, ours = paper()[network][design], edps_within(records, network, design, FUSED)
    against = (edps_within(records, network, design, method) for method in (UNFUSED, DOSA))
    return (1 - theirs["FADiff"] / theirs["DOSA"],
            *(1 - geometric_mean(ours) / geometric_mean(other) if ours and other else None for other in against))
