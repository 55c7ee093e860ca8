"""The tables of a report, as rows of text: the page and the Markdown show the same ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..accuracy import Error, Worst
from ..models import MODELS
from ..ranking import Ranking
from ..summary import PAPER, Row, Summary
from ..tables import Price
from .causes import cause, loops


@dataclass(frozen=True)
class Table:
    """A table of a report.

    Attributes:
        title: Heading.
        note: Sentences on how to read it.
        head: Headings of the columns.
        rows: Cells as text.
        words: How many of the first columns hold words, not numbers.
    """

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


MEASURES = ("mappings", "access counts", "modelled ones", "equal counts", "cycles error: mean", "worst", "tau", "rho",
            "energy error: mean", "worst", "tau", "rho")
"""Headings of the columns of `_measures`."""


def overall(summary: Summary) -> Table:
    """Each model over all mappings, and the figures that the paper states for its own."""
    stated = ("FADiff, as published", "", percent(PAPER.accuracy), "", "", "", "", *map(_four, PAPER.cycles), "", "",
              *map(_four, PAPER.energy))
    return Table("Summary", "Access counts: mean of 1 - |error| / count, not below 0, over every level, data space and "
                 "action; modelled ones: those that the model has an equation for. Tau is Kendall's tau-b, rho is "
                 "Spearman's, over all mappings of all layers together.",
                 ("model", *MEASURES), (*((row.model, *_measures(row)) for row in summary.overall), stated))


def grouped(title: str, rows: Sequence[Row]) -> Table:
    """A row per group and model, as `rows` has them."""
    return Table(title, "", ("", "model", *MEASURES), tuple((row.group, row.model, *_measures(row)) for row in rows), 2)


def by_layer(summary: Summary) -> Table:
    """Rank correlations of each layer with their confidence intervals."""
    head = ("layer", "model", "mappings", "cycles: tau [95 %]", "rho [95 %]", "tied pairs", "energy: tau [95 %]",
            "rho [95 %]", "tied pairs")
    return Table("Rankings per layer", "Intervals are percentiles over resampled mappings.", head, tuple(
        (row.group, row.model, str(row.mappings),
         *(text for ranking in row.rankings.values() for text in _ranks(ranking))) for row in summary.by_layer), 2)


def worst(summary: Summary) -> Table:
    """The worst counts of every model and the loops behind them."""
    return Table("Worst counts", "One per layer, largest ratio first. Loops from the "
                 "outermost inwards with their bounds; those of the data space are marked *, spatial ones are in "
                 "brackets.", ("model", "layer", "access", "Timeloop", "model says", "why", "loops"),
                 tuple(_worst(item) for model in MODELS for item in summary.worst if item.model == model))


def unmodelled(summary: Summary) -> Table:
    """Kinds of access that occur in Timeloop and that a model never predicts on some design."""
    missing: dict[tuple[str, str, str], list[str]] = {}
    for cell in summary.cells:
        if not cell.modelled:
            missing.setdefault((cell.model, cell.tensor, cell.action), []).append(f"{cell.design}.{cell.level}")
    return Table("Not modelled", "Kinds of access that Timeloop counts and a model never predicts on some design.",
                 ("model", "data space", "action", "levels"),
                 tuple((*key, ", ".join(dict.fromkeys(levels))) for key, levels in sorted(missing.items())))


def prices(entries: Sequence[Price]) -> Table:
    """Accelergy's energies beside those of the other sources."""
    return Table("Energy tables", "pJ per action; in brackets the ratio to what Accelergy says. Built-in values are "
                 "what Timeloop takes without a table.",
                 ("design", "component", "action", "Accelergy", "bundled", "our estimate", "built-in"),
                 tuple(_price(price) for price in entries), 3)


def _price(price: Price) -> tuple[str, ...]:
    def beside(value: float) -> str:
        return f"{value:.4g}" + (f" ({value / price.accelergy:.2f})" if price.accelergy else "")

    return (price.design, price.component, price.action, f"{price.accelergy:g}", *map(
        beside, (price.bundled, price.estimate, price.built_in)))


def _measures(row: Row) -> tuple[str, ...]:
    """The cells under `MEASURES`."""
    return (f"{row.mappings:,}", percent(row.accuracy), percent(row.modelled), percent(row.exact),
            *(text for name in row.errors for text in (*_error(row.errors[name]), _four(row.rankings[name].tau),
                                                       _four(row.rankings[name].rho))))


def _four(value: float) -> str:
    return f"{value:.4f}"


def _error(error: Error) -> tuple[str, str]:
    return percent(error.mean), percent(error.worst)


def percent(share: float) -> str:
    """A share in percent with two decimals, rounded to 0 or 100 only if it is; shares below a millionth count as 0."""
    if share < 1e-6:
        return "0 %"
    if share > 10:
        return f"{share:.0%}".replace("%", " %")
    return "< 0.01 %" if share < 5e-5 else "> 99.99 %" if 0.99995 <= share < 1 else f"{share:.2%}".replace("%", " %")


def _ranks(ranking: Ranking) -> tuple[str, str, str]:
    """tau and rho with their intervals, and the tied pairs."""
    def coefficient(value: float, interval: tuple[float, float]) -> str:
        return f"{value:.4f} [{interval[0]:.3f}, {interval[1]:.3f}]"

    return (coefficient(ranking.tau, ranking.tau_interval), coefficient(ranking.rho, ranking.rho_interval),
            f"{ranking.ties:,}")


def _worst(item: Worst) -> tuple[str, ...]:
    question = item.batch.questions[item.row]
    return (item.model, f"{item.batch.task.name} ({question.kind})", f"{item.level} {item.tensor} {item.action}",
            f"{item.measured:,.0f}", f"{item.predicted:,.1f}".removesuffix(".0"), cause(item),
            loops(question.mapping, item.batch.task, item.tensor))
