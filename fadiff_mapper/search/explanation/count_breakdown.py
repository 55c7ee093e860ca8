"""An access count as the product of the loops that cause it.

    reads of Inputs at Buffer = tile 64 (C8 x P8) x 4 (K loop at DRAM) x 49 (Q loop at DRAM) = 12544

A receiver (the next level inwards that keeps the data space, or the arithmetic) is sent its tile once for every
iteration of the loops outside it, from the first one on that moves the data space; and so is every other receiver
that wants different words. Amounts that are no product (windows that overlap, links between neighbours, first writes
that need no read) are added or taken off by name, so that the arithmetic on the page always gives the exact count.

Axes: L levels, T data spaces; counts are per instance of a level, in words. Boundary b lies below level b.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np

from fadiff_mapper.model import access_counts as counting
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest, exact_traffic
from fadiff_mapper.model.prepared_layer import PreparedLayer

ACTIONS = ("reads", "fills", "updates")

PLACES = Decimal("0.000001")
"""Corrections that are no whole numbers (averages over receivers) are written to six decimals."""


@dataclass(frozen=True)
class CountFactor:
    """One factor of a count.

    Attributes:
        value: The factor.
        text: The tile, loop or fan-out that it stands for.
    """

    value: int
    text: str


@dataclass(frozen=True)
class CountCorrection:
    """One amount added to the product of the factors.

    Attributes:
        value: Words; negative where they are taken off.
        text: The reason.
    """

    value: Decimal
    text: str


@dataclass(frozen=True)
class CountExplanation:
    """One access count and its causes: count = product of the factors + sum of the corrections.

    Attributes:
        level: Name of the storage level.
        dataspace: Name of the data space.
        action: "reads", "fills" or "updates".
        count: Words per instance of the level.
        factors: A tile, and the loops for which it is sent again.
        corrections: Amounts that are no product.
        notes: Loops and receivers that cost nothing: a tile is held over them, or they share a word.
    """

    level: str
    dataspace: str
    action: str
    count: int
    factors: tuple[CountFactor, ...]
    corrections: tuple[CountCorrection, ...] = ()
    notes: tuple[str, ...] = ()

    def expression(self) -> str:
        """The arithmetic alone, such as "64 * 4 * 49 - 12"."""
        product = " * ".join(str(factor.value) for factor in self.factors)
        return product + "".join(f" {'-' if c.value < 0 else '+'} {abs(c.value)}" for c in self.corrections)

    def sentence(self) -> str:
        """Action, data space, level, factors, corrections, count and notes in one line."""
        product = " x ".join(f"{factor.text}" for factor in self.factors)
        more = "".join(f" {'-' if c.value < 0 else '+'} {abs(c.value)} ({c.text})" for c in self.corrections)
        notes = "".join(f"; {note}" for note in self.notes)
        return f"{self.action} of {self.dataspace} at {self.level} = {product}{more} = {self.count}{notes}"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain values, for JSON."""
        return {"level": self.level, "dataspace": self.dataspace, "action": self.action, "count": self.count,
                "expression": self.expression(),
                "factors": [{"value": factor.value, "text": factor.text} for factor in self.factors],
                "corrections": [{"value": float(c.value), "text": c.text} for c in self.corrections],
                "notes": list(self.notes)}


@dataclass(frozen=True)
class _Case:
    """One row of an evaluation.

    Attributes:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The row that is explained.
        wanted: Words that one receiver below each boundary asks for, [L, T].
    """

    layer: PreparedLayer
    evaluation: Evaluation
    row: int
    wanted: np.ndarray


def explain_counts(layer: PreparedLayer, evaluation: Evaluation, row: int = 0) -> tuple[CountExplanation, ...]:
    """Explains every access count of one mapping.

    Args:
        layer: The problem on its architecture.
        evaluation: The exact evaluation of a batch.
        row: The row of the batch that is explained.

    Returns:
        One explanation for each level, data space that it holds, and action, from the outermost level inwards. With
        residuals it is the one of whole runs, less the words that the shorter last runs lack on average over instances.
    """
    nest = evaluation.nest
    if nest.residual:
        whole = evaluate_nest(layer, replace(nest, temporal_last=None, spatial_last=None), details=True)
        return tuple(_cut_off(layer, evaluation, row, one) for one in explain_counts(layer, whole, row))
    wanted = exact_traffic(layer, nest, with_hops=False).wanted
    case = _Case(layer, evaluation, row, wanted[..., row])
    return tuple(explanation for level in reversed(range(len(layer.arch.levels)))
                 for tensor in range(len(layer.problem.dataspaces)) if evaluation.held[level, tensor, row]
                 for explanation in _of_level(case, level, tensor))


def _cut_off(layer: PreparedLayer, evaluation: Evaluation, row: int, whole: CountExplanation) -> CountExplanation:
    """The explanation of a count of whole runs, with the words that shorter last runs lack."""
    nest, levels = evaluation.nest, layer.arch.level_names()
    at = levels.index(whole.level), layer.problem.dataspace_names().index(whole.dataspace), row
    count = round(float(getattr(evaluation.counts, whole.action)[at]))
    shorter = " and ".join(
        f"{name}={int(factors[level, d, row])},{int(lasts[level, d, row])} {where} {levels[level]}"
        for level in reversed(range(len(levels)))
        for factors, lasts, where in ((nest.temporal, nest.temporal_last, "at"),
                                      (nest.spatial, nest.spatial_last, "over the fan-out of"))
        for d, name in enumerate(layer.problem.dimensions) if lasts[level, d, row] != factors[level, d, row])
    lacking = CountCorrection(decimal_of(count - whole.count),
                              f"last runs that are shorter, on average over instances: {shorter}")
    return replace(whole, count=count, corrections=(*whole.corrections, *([lacking] if lacking.value else [])))


def _of_level(case: _Case, level: int, tensor: int) -> Iterator[CountExplanation]:
    """The explanations of one data space at one level: its updates, its reads, its fills."""
    written = case.layer.projection.read_write[tensor]
    links = _over_links(case, level, tensor)
    if not written:
        yield _sent(case, level, tensor, "reads", links)
        yield _filled(case, level, tensor)
        return
    yield _sent(case, level, tensor, "updates", [])
    yield _sent(case, level, tensor, "reads",
                [*links, *_first_updates(case, level, tensor, "first writes, for which nothing is read back")])
    if case.layer.reuse.coalesced[level, tensor]:
        yield _filled(case, level, tensor)
    else:
        yield _sent(case, level, tensor, "fills", links)


def _first_updates(case: _Case, level: int, tensor: int, text: str) -> list[CountCorrection]:
    """The words of the partition, which cost nothing the first time; nothing where the switches say otherwise."""
    reuse = case.layer.reuse
    if not (reuse.first_written[level, tensor] and reuse.coalesced[level, tensor]):
        return []
    return [CountCorrection(-decimal_of(case.evaluation.counts.partition[level, tensor, case.row]), text)]


def _over_links(case: _Case, level: int, tensor: int) -> list[CountCorrection]:
    """The words that neighbours of an instance take from it over links, as a correction."""
    if level + 1 >= len(case.layer.arch.levels):
        return []
    words = case.evaluation.tally.links[level + 1, tensor, case.row] / case.evaluation.use.instances[level, case.row]
    return [CountCorrection(decimal_of(words), "passed on to neighbours over links")]


def _sent(case: _Case, level: int, tensor: int, action: str, further: list[CountCorrection]) -> CountExplanation:
    """A count of words that a level exchanges with the receivers inside it; `further` are more corrections of it."""
    receiver = _receiver(case, level, tensor)
    factors, notes = _demand(case, receiver, tensor)
    groups: list[CountFactor] = []
    for boundary in range(receiver + 1, level + 1):
        separate, shared = _spread(case, boundary, tensor)
        groups += separate
        notes += shared
    apart = math.prod(group.value for group in groups)
    whole = math.prod(factor.value for factor in factors)
    wanted, content = case.wanted[receiver + 1, tensor], case.evaluation.tally.words[:, level, tensor, case.row].sum()
    corrections = [CountCorrection(decimal_of((wanted - whole) * apart),
                                   "windows that overlap with those of the step before"),
                   CountCorrection(decimal_of(content - wanted * apart), "receivers whose windows coincide, or links"),
                   *further]
    return _explanation(case, (level, tensor, action), [*factors, *groups], corrections, notes)


def _filled(case: _Case, level: int, tensor: int) -> CountExplanation:
    """The count of words that a level gets from further out."""
    key = (level, tensor, "fills")
    if not case.evaluation.held[level + 1:, tensor, case.row].any():
        return _explanation(case, key, [CountFactor(0, "0 (no level further out keeps it)")],
                            _over_links(case, level, tensor), [])
    factors, notes = _demand(case, level, tensor)
    whole, wanted = math.prod(factor.value for factor in factors), case.wanted[level + 1, tensor]
    evaluation, row = case.evaluation, case.row
    share = counting.received(evaluation.raw, tensor)[level + 1, row]
    arrived = share + evaluation.tally.links[level + 1, tensor, row] / evaluation.use.instances[level, row]
    corrections = [CountCorrection(decimal_of(wanted - whole), "windows that overlap with those of the step before"),
                   CountCorrection(decimal_of(arrived - wanted), "words over links, averaged over instances")]
    if case.layer.projection.read_write[tensor]:
        corrections += _first_updates(case, level, tensor, "first visits, for which there is nothing to send down")
    return _explanation(case, key, factors, corrections, notes)


def _receiver(case: _Case, level: int, tensor: int) -> int:
    """The next level inwards that holds the data space for several uses; -1 is the arithmetic."""
    held = case.evaluation.held[:level, tensor, case.row] & case.layer.reuse.coalesced[:level, tensor]
    kept = np.flatnonzero(held)
    return int(kept[-1]) if len(kept) else -1


def _demand(case: _Case, receiver: int, tensor: int) -> tuple[list[CountFactor], list[str]]:
    """A receiver's tile and the temporal loops for which it is sent again; as notes those over which it is held.

    From the innermost loop outwards a tile is held up to the first loop that moves the data space; that loop and every
    one outside it costs another delivery (unless `no_reuse` says that nothing is held).
    """
    layer, nest = case.layer, case.evaluation.nest
    names, levels = layer.problem.dimensions, layer.arch.levels
    factors = [_tile(case, receiver, tensor)]
    holds = receiver >= 0 and bool(layer.reuse.held[receiver + 1, tensor])
    held: list[str] = []
    for level in range(receiver + 1, len(levels)):
        for d in nest.order[level, :, case.row]:
            bound = round(float(nest.temporal[level, d, case.row]))
            holds &= not (bound > 1 and layer.projection.relevant[tensor, d])
            if bound > 1 and holds:
                held.append(f"{names[d]}{bound} loop at {levels[level].name}")
            elif bound > 1:
                factors.append(CountFactor(bound, f"{bound} ({names[d]} loop at {levels[level].name})"))
    return factors, [f"held over the {', '.join(held)}"] if held else []


def _tile(case: _Case, receiver: int, tensor: int) -> CountFactor:
    """A receiver's tile with its extent along each rank; for the arithmetic one word."""
    if receiver < 0:
        return CountFactor(1, "1 (word per cycle and unit)")
    words = round(float(case.evaluation.tile.size[receiver, tensor, case.row]))
    points = case.evaluation.tile.below[receiver + 1, :, case.row]
    names, parts = case.layer.problem.dimensions, []
    for rank in case.layer.projection.ranks[tensor]:
        terms = [f"{'' if c == 1 else f'{c}*'}{names[d]}{points[d]:.0f}" for d, c in rank if points[d] > 1]
        surplus = sum(c for d, c in rank if points[d] > 1) - 1
        parts += [f"({' + '.join(terms)} - {surplus})" if surplus > 0 else terms[0]] if terms else []
    return CountFactor(words, f"tile {words}" + (f" ({' x '.join(parts)})" if parts else ""))


def _spread(case: _Case, boundary: int, tensor: int) -> tuple[list[CountFactor], list[str]]:
    """The spatial loops over receivers that want different words; as notes those over receivers that share them."""
    layer, name = case.layer, case.layer.arch.levels[boundary].name
    apart, together = [], []
    for d, factor in enumerate(case.evaluation.nest.spatial[boundary, :, case.row]):
        text = f"{layer.problem.dimensions[d]} over the fan-out of {name}"
        if factor > 1 and (layer.projection.relevant[tensor, d] or not layer.reuse.multicast[boundary, tensor]):
            apart.append(CountFactor(round(float(factor)), f"{factor:.0f} ({text})"))
        elif factor > 1:
            together.append(f"{factor:.0f} ({text})")
    shares = "partial sums added up on the way" if layer.projection.read_write[tensor] else "multicast"
    return apart, [f"{shares}: {' x '.join(together)}"] if together else []


def _explanation(case: _Case, key: tuple[int, int, str], factors: list[CountFactor], corrections: list[CountCorrection],
                 notes: list[str]) -> CountExplanation:
    """Puts an explanation together, with a last correction for the rounding to whole words."""
    level, tensor, action = key
    count = round(float(getattr(case.evaluation.counts, action)[level, tensor, case.row]))
    product = Decimal(math.prod(factor.value for factor in factors))
    rest = count - product - sum((c.value for c in corrections), Decimal(0))
    every = [*corrections, CountCorrection(rest, "rounded to whole words")]
    shown = [CountFactor(factors[0].value, factors[0].text)] + [f for f in factors[1:] if f.value != 1]
    return CountExplanation(case.layer.arch.levels[level].name, case.layer.problem.dataspaces[tensor].name, action,
                            count,
                            tuple(shown), tuple(c for c in every if c.value), tuple(notes))


def decimal_of(value: float) -> Decimal:
    """A number as it is written: whole, or to six decimals."""
    exact = Decimal(float(value)).quantize(PLACES)
    return exact.to_integral_value() if exact == exact.to_integral_value() else exact
