"""The files of a designed machine: architectures, tables of all designs, mappings, and one page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from fadiff_mapper.base.atomic_files import write_files
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import attempted
from fadiff_mapper.base.text_formats import csv_text, json_text, paragraph
from fadiff_mapper.design.result import DesignOutcome, DesignResult
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.network.result import plans_among
from fadiff_mapper.output import RUN_FILES, STORE
from fadiff_mapper.output.design_page import best_sensitivities, design_html
from fadiff_mapper.output.network_files import safe_name, write_held
from fadiff_mapper.output.run_files import course
from fadiff_mapper.output.schema import schema_file, schema_line

FRONT = "front"  # the subfolder with the architecture of every design of a front of several metrics


def design_files(result: DesignResult) -> Iterator[tuple[str, dict[str, str]]]:
    """The files of a run folder, without its page and the folders of the networks.

    Yields:
        Folder, and its texts by file name: the folder "" with the best design's architecture, both tables and the run
        as JSON; and `FRONT`.
    """
    best = {"architecture.yaml": architecture_yaml(result, 1, ""), **schema_file("arch")} if result.documents else {}
    yield "", {**best, "front.csv": front_csv(result), "designs.csv": designs_csv(result.outcomes),
               "fadiff.design.json": design_json(result)}
    if len(result.front) > 1:
        yield FRONT, {f"{number:03d}.yaml": architecture_yaml(result, number, "../") for number in
                      range(1, len(result.documents) + 1)}


def network_folders(result: DesignResult) -> tuple[str, ...]:
    """A folder for each network: its name, with its number if another network, folder or file has that name."""
    names = [safe_name(network.workload.name) for network in result.mapped_networks]
    taken = [name if names.count(name) == 1 and name not in (FRONT, STORE, *RUN_FILES) else f"{name}_{number}"
             for number, name in enumerate(names, 1)]
    if len(set(taken)) < len(names):    # another network has such a name with a number
        taken = [f"{name}_{number}" for number, name in enumerate(names, 1)]
    return tuple(taken)


def architecture_yaml(result: DesignResult, number: int, schema_folder: str) -> str:
    """The architecture of design `number` of the front, from 1, below comments with its parameters and its schema."""
    outcome = result.front[number - 1]
    values = ", ".join(f"{name} {value}" for name, value in outcome.parameters.items())
    comment = "".join(letter if letter.isprintable() else " " for letter in f"{result.name}: {values}")
    return f"# {comment}\n{schema_line('arch', schema_folder)}{dump(result.documents[number - 1])}"


def design_json(result: DesignResult) -> str:
    """The run as JSON: space, options, front, final figures, history, versions.

    All seconds are under `timing`: the files of equal runs differ only in this key.
    """
    content = {
        "space": result.name, "size": result.space_size, "limits": result.limits, "metrics": list(result.metrics),
        "status": result.status, "notes": [f"warning: {each}" for each in result.warnings],
        "options": result.options, "proposed": len(result.outcomes), "mapped": result.evaluations,
        "pruned": result.pruned, "refused": result.refused, "gap": result.gap, "pruned_gap": result.pruned_gap,
        "lower_bound": result.bound, "gap_among": plans_among(result.options["fuse"]) if result.bound else None,
        "front": [_record(outcome) for outcome in result.front],
        "final": {"source": result.final_source, "designs": [_record(outcome) for outcome in result.final]},
        "neighbours": [_record(outcome) for outcome in result.neighbours],
        "hypervolume": result.hypervolume, "reference": list(result.reference),
        **course(result.history, result.time_s)}
    return json_text(content) + "\n"


def _record(outcome: DesignOutcome) -> dict[str, Any]:
    """A design as plain values; unknown figures are null."""
    figures = {name: value if (value := getattr(outcome, name)) < float("inf") else None for name in FIGURES}
    return {"parameters": dict(outcome.parameters), "feasible": outcome.feasible, "reason": outcome.reason, **figures,
            "networks": [asdict(network) for network in outcome.networks]}


FIGURES = ("energy_pj", "cycles", "edp", "area_mm2")
ABOUT = ("number", "feasible", "reason", "mapped", "least_energy_pj", "least_cycles")
"""Columns besides the figures and the parameters; `least_` columns are lower bounds."""


def front_csv(result: DesignResult) -> str:
    """The best design, or the front of several metrics: number among all designs, parameters, figures, metrics."""
    numbers = {outcome.point: number for number, outcome in enumerate(result.outcomes, 1)}
    metrics = [metric for metric in result.metrics if metric not in FIGURES]
    return _table(result.outcomes, metrics, (
        (outcome, {"number": numbers[outcome.point], **{metric: outcome.of(metric) for metric in metrics}})
        for outcome in result.front))


def designs_csv(outcomes: Sequence[DesignOutcome]) -> str:
    """Every proposed design, in the order of proposal; an unknown figure is an empty cell."""
    return _table(outcomes, ABOUT[1:], (
        (outcome, {"number": number, "feasible": outcome.feasible, "reason": outcome.reason, "mapped": outcome.mapped,
                   "least_energy_pj": outcome.bounds.energy_pj if outcome.bounds else None,
                   "least_cycles": outcome.bounds.cycles if outcome.bounds else None})
        for number, outcome in enumerate(outcomes, 1)))


def _table(outcomes: Sequence[DesignOutcome], further: Sequence[str],
           rows: Iterable[tuple[DesignOutcome, dict[str, Any]]]) -> str:
    """CSV of designs with the cells of further columns: numbers, parameters, figures, further columns, networks.

    A parameter named like another column gets a prefix; an unknown figure is an empty cell.
    """
    def parameters(outcome: DesignOutcome) -> dict[str, Any]:
        return {f"parameter.{name}" if name in (*FIGURES, *ABOUT) else name: value
                for name, value in outcome.parameters.items()}

    def networks(outcome: DesignOutcome) -> dict[str, Any]:
        return {f"{network.name}.{figure}": getattr(network, figure) for network in outcome.networks
                for figure in ("energy_pj", "cycles", "unfused_energy_pj", "unfused_cycles", "fused_groups")}

    def cells(outcome: DesignOutcome, others: dict[str, Any]) -> dict[str, Any]:
        figures = {name: value for name in FIGURES if math.isfinite(value := getattr(outcome, name))}
        return {**parameters(outcome), **figures, **others, **networks(outcome)}

    columns = ("number", *(parameters(outcomes[0]) if outcomes else ()), *FIGURES, *further,
               *next((tuple(networks(outcome)) for outcome in outcomes if outcome.networks), ()))
    return csv_text(columns, (map(cells(outcome, others).get, columns) for outcome, others in rows))


def write_open_folder(result: DesignResult, folder: str | Path, over: Over = never) -> DesignResult:
    """Writes all files of a search of designs for a caller that holds the folder's lock.

    Once `over` is true, the page leaves out its slow sensitivities, and the returned result has a warning.
    """
    for name, files in design_files(result):
        write_files(Path(folder) / name, files)
    for name, network in zip(network_folders(result), result.mapped_networks, strict=True):
        write_held(network, Path(folder) / name)
    sensitivities, unknown = attempted("sensitivities", lambda: best_sensitivities(result, over))
    page, lost = attempted("page", lambda: design_html(result, network_folders(result), sensitivities or (), unknown))
    write_files(folder, {"design.html": page or paragraph(lost)})
    return replace(result, warnings=(*result.warnings, *filter(None, (unknown, lost))))
