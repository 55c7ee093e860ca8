"""Tables of designs as CSV: one row per design, with its parameters and figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fadiff_mapper.base.csv_text import csv_text

if TYPE_CHECKING:
    from fadiff_mapper.design.evaluation.design_result import DesignOutcome, DesignResult

FIGURES = ("energy_pj", "cycles", "edp", "area_mm2")
ABOUT = ("number", "feasible", "reason", "mapped", "least_energy_pj", "least_cycles")
"""Columns besides the figures and the parameters. `least_` are lower bounds, of designs that they left out."""


def front_csv(result: DesignResult) -> str:
    """The best design, or the front of several metrics: number among all designs, parameters, figures, metrics."""
    numbers = {outcome.point: number for number, outcome in enumerate(result.outcomes, 1)}
    metrics = [metric for metric in result.metrics if metric not in FIGURES]
    rows = [{"number": numbers[outcome.point], **_parameters(outcome), **_figures(outcome),
             **{metric: outcome.of(metric) for metric in metrics}, **_networks(outcome)} for outcome in result.front]
    return _written(("number", *_parameter_columns(result.outcomes), *FIGURES, *metrics,
                     *_network_columns(result.outcomes)), rows)


def designs_csv(outcomes: Sequence[DesignOutcome]) -> str:
    """Every design that was proposed, in the order of proposal; a figure that is not known is an empty cell."""
    rows = ({"number": number, "feasible": outcome.feasible, "reason": outcome.reason, "mapped": outcome.mapped,
             "least_energy_pj": outcome.bounds[0] if outcome.bounds else None,
             "least_cycles": outcome.bounds[1] if outcome.bounds else None,
             **_parameters(outcome), **_figures(outcome), **_networks(outcome)}
            for number, outcome in enumerate(outcomes, 1))
    return _written(("number", *_parameter_columns(outcomes), *FIGURES, *ABOUT[1:], *_network_columns(outcomes)), rows)


def _column(parameter: str) -> str:
    """The heading of a parameter, told apart from a figure of the same name."""
    return f"parameter.{parameter}" if parameter in (*FIGURES, *ABOUT) else parameter


def _parameter_columns(outcomes: Sequence[DesignOutcome]) -> tuple[str, ...]:
    return tuple(map(_column, outcomes[0].parameters)) if outcomes else ()


def _parameters(outcome: DesignOutcome) -> dict[str, Any]:
    return {_column(name): value for name, value in outcome.parameters.items()}


def _figures(outcome: DesignOutcome) -> dict[str, Any]:
    """The figures of a design, without those that are not known."""
    figures = {name: getattr(outcome, name) for name in FIGURES}
    return {name: value for name, value in figures.items() if math.isfinite(value)}


def _network_columns(outcomes: Sequence[DesignOutcome]) -> tuple[str, ...]:
    """The columns of all networks; a single network is what the figures are of already, but for its fused groups."""
    names = next((tuple(_networks(outcome)) for outcome in outcomes if outcome.networks), ())
    return names


def _networks(outcome: DesignOutcome) -> dict[str, Any]:
    """The figures of each network by itself, by column."""
    return {f"{network.name}.{figure}": getattr(network, figure) for network in outcome.networks
            for figure in ("energy_pj", "cycles", "unfused_energy_pj", "unfused_cycles", "fused_groups")}


def _written(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """CSV with a heading; a column that a row lacks is an empty cell."""
    return csv_text(columns, (map(row.get, columns) for row in rows))
