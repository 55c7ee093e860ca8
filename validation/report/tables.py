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
    """`title`, a sentence on how to read it, and text cells; the first `words` columns are no numbers."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


MEASURES = ("mappings", "access counts", "modelled ones", "equal counts", "cycles error: mean", "worst", "tau", "rho",
            "energy error: mean", "worst", "tau", "rho")


def overall(summary: Summary) -> Table:
    """Each model over all mappings, and what the paper states for its own."""
    stated = ("FADiff, as published", "", percent(PAPER.accuracy), "", "", "", "", *map(_four, PAPER.cycles), "", "",
              *map(_four, PAPER.energy))
    return Table("Summary", "Access counts: mean of 1 - |error| / count, not below 0, over every level, data space and "
                 "action; modelled ones: those that the model has an equation for. Tau is Kendall's tau-b, rho is "
                 "Spearman's, over all mappings of all layers together.",
                 ("model", *MEASURES), (*((row.model, *_measures(row)) for row in summary.overall), stated))


def grouped(title: str, rows: Sequence[Row]) -> Table:
    """Each model over the groups of `rows`."""
    return Table(title, "", ("", "model", *MEASURES), tuple((row.group, row.model, *_measures(row)) for row in rows), 2)


def by_layer(summary: Summary) -> Table:
    """Rankings of each layer with their confidence intervals."""
    head = ("layer", "model", "mappings", "cycles: tau [95 %]", "rho [95 %]", "tied pairs", "energy: tau [95 %]",
            "rho [95 %]", "tied pairs")
    return Table("Rankings per layer", "Intervals are percentiles over resampled mappings.", head, tuple(
        (row.group, row.model, str(row.mappings), *(text for found in row.rankings.values() for text in _ranks(found)))
        for row in summary.by_layer), 2)


def worst(summary: Summary) -> Table:
    """The worst counts of every model and the loops behind them."""
    return Table("Worst counts", "One per layer, largest ratio first. Loops from the "
                 "outermost inwards with their bounds; those of the data space are marked *, spatial ones are in "
                 "brackets.", ("model", "layer", "access", "Timeloop", "model says", "why", "loops"),
                 tuple(_worst(item) for model in MODELS for item in summary.worst if item.model == model))


def unmodelled(summary: Summary) -> Table:
    """Kinds of access that occur in Timeloop and that a model never predicts."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for cell in summary.cells:
        if not cell.modelled:
            found.setdefault((cell.model, cell.tensor, cell.action), []).append(f"{cell.design}.{cell.level}")
    return Table("Not modelled", "Kinds of access that Timeloop counts and a model never predicts on some design.",
                 ("model", "data space", "action", "levels"),
                 tuple((*key, ", ".join(dict.fromkeys(where))) for key, where in sorted(found.items())))


def prices(found: Sequence[Price]) -> Table:
    """Accelergy's energies beside the others."""
    return Table("Energy tables", "pJ per action; in brackets the ratio to what Accelergy says. Built-in values are "
                 "what Timeloop takes without a table.",
                 ("design", "component", "action", "Accelergy", "bundled", "our estimate", "built-in"),
                 tuple(_price(price) for price in found), 3)


def _price(price: Price) -> tuple[str, ...]:
    def beside(value: float) -> str:
        return f"{value:.4g}" + (f" ({value / price.accelergy:.2f})" if price.accelergy else "")

    return (price.design, price.component, price.action, f"{price.accelergy:g}", *map(
        beside, (price.bundled, price.estimate, price.built_in)))


def _measures(row: Row) -> tuple[str, ...]:
    return (f"{row.mappings:,}", percent(row.accuracy), percent(row.modelled), percent(row.exact),
            *(text for name in row.errors for text in (*_error(row.errors[name]), _four(row.rankings[name].tau),
                                                       _four(row.rankings[name].rho))))


def _four(value: float) -> str:
    return f"{value:.4f}"


def _error(error: Error) -> tuple[str, str]:
    return percent(error.mean), percent(error.worst)


def percent(share: float) -> str:
    """Two decimals, never rounded to a full 0 or 100 that it is not; errors below a millionth are none."""
    if share < 1e-6:
        return "0 %"
    if share > 10:
        return f"{share:.0%}".replace("%", " %")
    return "< 0.01 %" if share < 5e-5 else "> 99.99 %" if 0.99995 <= share < 1 else f"{share:.2%}".replace("%", " %")


def _ranks(found: Ranking) -> tuple[str, str, str]:
    def coefficient(value: float, interval: tuple[float, float]) -> str:
        return f"{value:.4f} [{interval[0]:.3f}, {interval[1]:.3f}]"

    return coefficient(found.tau, found.tau_interval), coefficient(found.rho, found.rho_interval), f"{found.ties:,}"


def _worst(item: Worst) -> tuple[str, ...]:
    question = item.batch.questions[item.row]
    return (item.model, f"{item.batch.task.name} ({question.kind})", f"{item.level} {item.tensor} {item.action}",
            f"{item.measured:,.0f}", f"{item.predicted:,.1f}".removesuffix(".0"), cause(item),
            loops(question.mapping, item.batch.task, item.tensor))
