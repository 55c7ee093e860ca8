"""The least accesses of all levels together, weighted by price: operands of the arithmetic, and traffic between levels.

One function serves every metric. With energies per word as prices the sum is a bound on access energy; with cycles per
word of one level's bandwidth on the delay; with 1 for each word of the outermost level on its accesses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.analysis.lower_bound.least_traffic import BoundaryTraffic, BoundInputs, Keepers, cheapest, unshared
from fadiff_mapper.analysis.lower_bound.parallel import Parallelism
from fadiff_mapper.model.prepared_layer import PreparedLayer


@dataclass(frozen=True)
class AccessPrices:
    """Prices per word of each action, all instances together, in the unit of the bound.

    Attributes:
        read: Price of a word read, [L, T].
        fill: Price of a word filled, [L, T].
        update: Price of a word updated, [L, T].
    """

    read: np.ndarray
    fill: np.ndarray
    update: np.ndarray


@dataclass(frozen=True)
class KeepChoice:
    """One choice of the levels that keep each data space, with the parallelism and the traffic under it.

    Attributes:
        keepers: For each data space the levels that keep it; a data space with none is left out of the bound.
        states: States of parallelism.
        crossings: The least traffic between the levels.
    """

    keepers: Keepers
    states: Parallelism
    crossings: BoundaryTraffic


@dataclass(frozen=True)
class Addend:
    """One addend of a bound.

    Attributes:
        where: The level, the data space or the two levels that it belongs to, in words.
        value: The addend for each state of parallelism, [S].
        source: The reason why no mapping can have less, in words.
    """

    where: str
    value: np.ndarray
    source: str


def least_total(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """The least sum of price * accesses under one choice of the data spaces kept.

    Args:
        layer: The problem on its architecture.
        inputs: The quantities of its map space.
        choice: The levels that keep each data space.
        prices: Prices per word.

    Returns:
        Addends; for each state of parallelism no mapping can undercut their sum.
    """
    return _operands(layer, inputs, choice, prices) + _traffic(layer, inputs, choice, prices)


def _operands(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """Accesses by the arithmetic at the innermost level that keeps each data space: a word per MAC and multicast.

    Outputs are updated once for each, and read back (partial sums) but for the first time of every word.
    """
    result = []
    for t, kept in enumerate(choice.keepers):
        if not kept:
            continue
        level, name = kept[0], layer.problem.dataspaces[t].name
        where = f"{layer.arch.levels[level].name} {name}"
        words = layer.problem.computes / choice.states.sharing[:, t]
        source = "one word per multiply-accumulate and multicast"
        if inputs.spread.below(0) > 1:
            # Operands may come over links from a neighbouring unit, all but the first time.
            words = np.full_like(words, inputs.touched[t] / unshared(inputs, t, -1, level))
            source = "every word once, as units may pass operands on"
        if layer.projection.read_write[t]:
            first = inputs.touched[t] * _copies(inputs, t, level)
            value = prices.update[level, t] * words + prices.read[level, t] * np.maximum(words - first, 0)
        else:
            value = prices.read[level, t] * _rounded_down(inputs, t, level, words, 0.5)
        result.append(Addend(where, value, source))
    return result


def _traffic(layer: PreparedLayer, inputs: BoundInputs, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """Words between the levels that keep a data space: filled inside and read outside, outputs updated outside too."""
    across = choice.crossings
    fill, read = prices.fill[across.inner, across.tensor], prices.read[across.outer, across.tensor]
    written = np.array(layer.projection.read_write)[across.tensor]
    update = prices.update[across.outer, across.tensor] * written
    if not (fill.any() or read.any() or update.any()):
        return []
    once, fewer = across.once, across.unshared
    windowed = np.array(inputs.windowed)[across.tensor]
    # The first time, partial sums are not read back. Elsewhere rounding may take from both where windows overlap.
    no_fill = np.where(written, once, windowed * 1.0 * inputs.instances[across.inner])
    no_read = np.where(written, once, windowed * 0.5 * inputs.instances[across.outer])

    def cost(words: np.ndarray) -> np.ndarray:  # of the first len(words) crossings, in any number of alternatives
        c, words = len(words), words.reshape(len(words), -1)
        parts = ((update, words), (fill, np.maximum(words - no_fill[:c, None], 0)),
                 (read, np.maximum(words / fewer[:c, None] - no_read[:c, None], 0)))
        return np.asarray(sum(price[:c, None] * amount for price, amount in parts))

    words = cheapest(across, cost)
    values = cost(words)[:, 0]
    states = np.ones_like(choice.states.macs)
    result = []
    for t, inner, outer, sent, value in zip(across.tensor, across.inner, across.outer, words, values, strict=True):
        names = [layer.arch.levels[level].name for level in (inner, outer)]
        source = ("every word once" if sent <= inputs.touched[t] else
                  f"{sent:.6g} words, {sent / inputs.touched[t]:.3g} times each, as {names[0]} cannot hold more")
        where = f"{names[1]} -> {names[0]} {layer.problem.dataspaces[t].name}"
        result.append(Addend(where, value * states, source))
    return result


def _rounded_down(inputs: BoundInputs, tensor: int, level: int, words: np.ndarray | float,
                  lost: float) -> np.ndarray | float:
    """Words after rounding to whole numbers per instance.

    Timeloop averages windows that overlap over their receivers; rounding may then take up to `lost` words from each
    instance.
    """
    if not inputs.windowed[tensor]:
        return words
    result: np.ndarray = np.maximum(words - lost * inputs.instances[level], 0)
    return result


def _copies(inputs: BoundInputs, tensor: int, level: int) -> float:
    """Instances of a level that can hold partial sums of the same word at most.

    Each of them has a first write of its own, for which nothing is read back.
    """
    spread = 1
    for outer in range(level + 1, len(inputs.space.levels)):
        apart = inputs.spread.apart[outer][tensor]
        spread *= math.prod(widest for name, widest in inputs.spread.widest[outer].items() if name not in apart)
    return float(min(spread, inputs.instances[level]))
