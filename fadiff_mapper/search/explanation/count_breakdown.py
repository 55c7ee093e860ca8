"""An access count as the product of the loops that cause it.

    reads of Inputs at Buffer = tile 64 (C8 x P8) x 4 (K loop at DRAM) x 49 (Q loop at DRAM) = 12544

A receiver (the next level inwards that keeps the data space, or the arithmetic) gets its tile once for every iteration
of the loops outside it, from the first loop that moves the data space outwards; so does every other receiver of
different words. Other amounts (overlapping windows, links between neighbours, first-read elision) are added or
subtracted by name, so that the terms always give the exact count.

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
"""Corrections that are not whole (averages over receivers) are written to six decimals."""


@dataclass(frozen=True)
class CountTerm:
    """One factor of a count, or one amount added to the product of its factors."""

    value: int | Decimal  # The factor, or the words; negative if they are subtracted
    text: str             # The tile, loop or fan-out of the factor, or the reason of the amount


@dataclass(frozen=True)
class CountExplanation:
    """One access count and its causes: count = product of the factors + sum of the corrections."""

    level: str                               # Name of the storage level
    dataspace: str                           # Name of the data space
    action: str                              # "reads", "fills" or "updates"
    count: int                               # Words per instance of the level
    factors: tuple[CountTerm, ...]           # A tile, and the loops that refetch it
    corrections: tuple[CountTerm, ...] = ()  # Amounts outside the product
    notes: tuple[str, ...] = ()              # Loops and receivers that cost nothing: a stationary tile, or multicast

    def expression(self) -> str:
        """The formula, such as "64 * 4 * 49 - 12"."""
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


def explain_counts(layer: PreparedLayer, evaluation: Evaluation, row: int = 0) -> tuple[CountExplanation, ...]:
    """Explains every access count of one mapping, a row of an evaluated batch.

    One explanation for each level, data space that it holds, and action, from the outermost level inwards. With
    residual factors it explains full runs, minus the average words that the shorter last runs lack.
    """
    nest = evaluation.nest
    if nest.residual:
        whole = evaluate_nest(layer, replace(nest, temporal_last=None, spatial_last=None), details=True)
        levels, explained = layer.arch.level_names(), []
        for one in explain_counts(layer, whole, row):
            at = levels.index(one.level), layer.problem.dataspace_names().index(one.dataspace), row
            count = round(float(getattr(evaluation.counts, one.action)[at]))
            shorter = " and ".join(
                f"{name}={int(factors[level, d, row])},{int(lasts[level, d, row])} {where} {levels[level]}"
                for level in reversed(range(len(levels)))
                for factors, lasts, where in ((nest.temporal, nest.temporal_last, "at"),
                                              (nest.spatial, nest.spatial_last, "over the fan-out of"))
                for d, name in enumerate(layer.problem.dimensions) if lasts[level, d, row] != factors[level, d, row])
            lacking = CountTerm(decimal_of(count - one.count),
                                f"last runs that are shorter, on average over instances: {shorter}")
            explained.append(replace(one, count=count, corrections=(
                *one.corrections, *([lacking] if lacking.value else []))))
        return tuple(explained)
    _, wanted, _ = exact_traffic(layer, nest, with_hops=False)
    return tuple(explanation for level in reversed(range(len(layer.arch.levels)))
                 for tensor in range(len(layer.problem.dataspaces)) if evaluation.held[level, tensor, row]
                 for explanation in _of_level(layer, evaluation, row, wanted[..., row], level, tensor))


def _of_level(layer: PreparedLayer, evaluation: Evaluation, row: int, wanted: np.ndarray, level: int,
              tensor: int) -> Iterator[CountExplanation]:
    """The explanations of one data space at one level: its updates, its reads, its fills.

    `wanted`: the demand below each boundary, [L, T].
    """
    nest, reuse, levels, dimensions = evaluation.nest, layer.reuse, layer.arch.levels, layer.problem.dimensions
    relevant, written = layer.projection.relevant[tensor], layer.projection.read_write[tensor]
    held = evaluation.held[:, tensor, row]

    def explained(action: str, factors: list[CountTerm], corrections: list[CountTerm],
                  notes: list[str]) -> CountExplanation:
        """An explanation with a last correction for the rounding to whole words."""
        count = round(float(getattr(evaluation.counts, action)[level, tensor, row]))
        rest = count - Decimal(math.prod(factor.value for factor in factors)) - sum(c.value for c in corrections)
        every = [*corrections, CountTerm(rest, "rounded to whole words")]
        shown = [factors[0], *(factor for factor in factors[1:] if factor.value != 1)]
        return CountExplanation(levels[level].name, layer.problem.dataspaces[tensor].name, action, count, tuple(shown),
                                tuple(term for term in every if term.value), tuple(notes))

    def demand(receiver: int) -> tuple[list[CountTerm], list[str]]:
        """A receiver's tile and the temporal loops that refetch it; as notes the loops over which it is stationary.

        From the innermost loop outwards a tile is stationary up to the first loop that moves the data space. This loop
        and every loop outside it deliver the tile again (with `no_reuse` all loops do). The tile has its extent along
        each rank; for the arithmetic (-1) it is one word.
        """
        factors = [CountTerm(1, "1 (word per cycle and unit)")]
        if receiver >= 0:
            words = round(float(evaluation.tile.size[receiver, tensor, row]))
            points, parts = evaluation.tile.below[receiver + 1, :, row], []
            for rank in layer.projection.ranks[tensor]:
                terms = [f"{'' if c == 1 else f'{c}*'}{dimensions[d]}{points[d]:.0f}" for d, c in rank if points[d] > 1]
                surplus = sum(c for d, c in rank if points[d] > 1) - 1
                parts += [f"({' + '.join(terms)} - {surplus})" if surplus > 0 else terms[0]] if terms else []
            factors = [CountTerm(words, f"tile {words}" + (f" ({' x '.join(parts)})" if parts else ""))]
        holds = receiver >= 0 and bool(reuse.held[receiver + 1, tensor])
        over = []
        for outer in range(receiver + 1, len(levels)):
            for d in nest.order[outer, :, row]:
                bound = round(float(nest.temporal[outer, d, row]))
                holds &= not (bound > 1 and relevant[d])
                if bound > 1 and holds:
                    over.append(f"{dimensions[d]}{bound} loop at {levels[outer].name}")
                elif bound > 1:
                    factors.append(CountTerm(bound, f"{bound} ({dimensions[d]} loop at {levels[outer].name})"))
        return factors, [f"held over the {', '.join(over)}"] if over else []

    def sent(action: str, further: list[CountTerm]) -> CountExplanation:
        """The words exchanged with the receivers inside the level; `further`: additional corrections.

        A receiver is the next level inwards that keeps the data space; -1 is the arithmetic. Spatial loops over
        receivers of different words are factors; spatial loops of a multicast are notes.
        """
        receiver = int(max(np.flatnonzero(held[:level] & reuse.coalesced[:level, tensor]), default=-1))
        factors, notes = demand(receiver)
        groups, shares = [], "partial sums added up on the way" if written else "multicast"
        for boundary in range(receiver + 1, level + 1):
            together = []
            for d, factor in enumerate(nest.spatial[boundary, :, row]):
                text = f"{factor:.0f} ({dimensions[d]} over the fan-out of {levels[boundary].name})"
                if factor > 1 and (relevant[d] or not reuse.multicast[boundary, tensor]):
                    groups.append(CountTerm(round(float(factor)), text))
                elif factor > 1:
                    together.append(text)
            notes += [f"{shares}: {' x '.join(together)}"] if together else []
        apart = float(math.prod(group.value for group in groups))
        whole = float(math.prod(factor.value for factor in factors))
        asked, content = wanted[receiver + 1, tensor], evaluation.tally.words[:, level, tensor, row].sum()
        return explained(action, [*factors, *groups], [
            CountTerm(decimal_of((asked - whole) * apart), "windows that overlap with those of the step before"),
            CountTerm(decimal_of(content - asked * apart), "receivers whose windows coincide, or links"),
            *further], notes)

    def first_updates(text: str) -> list[CountTerm]:
        """The words of the partition, whose first update is free unless switched off."""
        if not (written and reuse.first_written[level, tensor] and reuse.coalesced[level, tensor]):
            return []
        return [CountTerm(-decimal_of(evaluation.counts.partition[level, tensor, row]), text)]

    passed_on, outermost = 0.0, level + 1 >= len(levels)
    if not outermost:
        passed_on = evaluation.tally.links[level + 1, tensor, row] / evaluation.tile.instances[level, row]
    links = [] if outermost else [CountTerm(decimal_of(passed_on), "passed on to neighbours over links")]
    if written:
        yield sent("updates", [])
    yield sent("reads", [*links, *first_updates("first writes, for which nothing is read back")])
    if written and not reuse.coalesced[level, tensor]:
        yield sent("fills", links)
    elif not held[level + 1:].any():
        yield explained("fills", [CountTerm(0, "0 (no level further out keeps it)")], links, [])
    else:
        factors, notes = demand(level)
        whole, asked = float(math.prod(factor.value for factor in factors)), wanted[level + 1, tensor]
        arrived = counting.received(evaluation.raw, tensor)[level + 1, row] + passed_on
        yield explained("fills", factors, [
            CountTerm(decimal_of(asked - whole), "windows that overlap with those of the step before"),
            CountTerm(decimal_of(arrived - asked), "words over links, averaged over instances"),
            *first_updates("first visits, for which there is nothing to send down")], notes)


def decimal_of(value: float) -> Decimal:
    """A number as it is written: whole, or to six decimals."""
    exact = Decimal(float(value)).quantize(PLACES)
    return exact.to_integral_value() if exact == exact.to_integral_value() else exact
