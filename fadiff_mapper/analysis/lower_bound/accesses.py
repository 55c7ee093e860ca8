"""The least accesses of all levels together, weighted by price: what the arithmetic asks for, and the traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.analysis.lower_bound.parallel import Parallelism, separating
from fadiff_mapper.analysis.lower_bound.traffic import BoundaryTraffic, BoundGround, Keepers, cheapest, unshared
from fadiff_mapper.model.prepared_layer import PreparedLayer


@dataclass(frozen=True)
class AccessPrices:
    """What one word of each action costs, over all instances, [L, T] each."""

    read: np.ndarray
    fill: np.ndarray
    update: np.ndarray


@dataclass(frozen=True)
class KeepChoice:
    """One choice of what is kept where, what may run at once under it and what travels. A data space
    with no level is left out."""

    keepers: Keepers
    states: Parallelism
    crossings: BoundaryTraffic


@dataclass(frozen=True)
class Addend:
    """One addend of a bound, for every state of parallelism [S]."""

    where: str
    value: np.ndarray
    source: str


def least_total(layer: PreparedLayer, ground: BoundGround, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """Addends whose sum no mapping under the choice can undercut in the sum of price * accesses."""
    return _asked(layer, ground, choice, prices) + _sent(layer, ground, choice, prices)


def _asked(layer: PreparedLayer, ground: BoundGround, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """What the arithmetic asks of the innermost level that keeps each data space: a word per MAC and multicast."""
    result = []
    for t, kept in enumerate(choice.keepers):
        if not kept:
            continue
        level, name = kept[0], layer.problem.dataspaces[t].name
        where = f"{layer.arch.levels[level].name} {name}"
        words = layer.problem.computes / choice.states.sharing[:, t]
        source = "one word per multiply-accumulate and multicast"
        if any(max(factors, default=1) > 1 for factors in ground.space.levels[0].spatial.choices.values()):
            # Operands may come over links from a neighbouring unit, all but the first time.
            words = np.full_like(words, ground.touched[t] / unshared(ground, t, -1, level))
            source = "every word once, as units may pass operands on"
        if layer.projection.read_write[t]:
            first = ground.touched[t] * _copies(ground, t, level)
            value = prices.update[level, t] * words + prices.read[level, t] * np.maximum(words - first, 0)
        else:
            value = prices.read[level, t] * _whole(ground, t, level, words, 0.5)
        result.append(Addend(where, value, source))
    return result


def _sent(layer: PreparedLayer, ground: BoundGround, choice: KeepChoice, prices: AccessPrices) -> list[Addend]:
    """What travels between the levels that keep a data space."""
    across = choice.crossings
    fill, read = prices.fill[across.inner, across.tensor], prices.read[across.outer, across.tensor]
    written = np.array(layer.projection.read_write)[across.tensor]
    update = prices.update[across.outer, across.tensor] * written
    if not (fill.any() or read.any() or update.any()):
        return []
    once = ground.touched[across.tensor]
    windowed = np.array(ground.windowed)[across.tensor]
    # The first time, partial sums are not read back. Elsewhere rounding may take from both where windows overlap.
    no_fill = np.where(written, once, windowed * 1.0 * ground.instances[across.inner])
    no_read = np.where(written, once, windowed * 0.5 * ground.instances[across.outer])
    fewer = np.array([unshared(ground, *one) for one in zip(across.tensor, across.inner, across.outer, strict=True)])

    def cost(words: np.ndarray) -> np.ndarray:
        k, words = len(words), words.reshape(len(words), -1)
        parts = ((update, words), (fill, np.maximum(words - no_fill[:k, None], 0)),
                 (read, np.maximum(words / fewer[:k, None] - no_read[:k, None], 0)))
        return np.asarray(sum(price[:k, None] * amount for price, amount in parts))

    words = cheapest(across, cost)
    values = cost(words)[:, 0]
    states = np.ones_like(choice.states.macs)
    result = []
    for t, inner, outer, sent, value in zip(across.tensor, across.inner, across.outer, words, values, strict=True):
        names = [layer.arch.levels[level].name for level in (inner, outer)]
        source = ("every word once" if sent <= ground.touched[t] else
                  f"{sent:.6g} words, {sent / ground.touched[t]:.3g} times each, as {names[0]} cannot hold more")
        where = f"{names[1]} -> {names[0]} {layer.problem.dataspaces[t].name}"
        result.append(Addend(where, value * states, source))
    return result


def _whole(ground: BoundGround, tensor: int, level: int, words: np.ndarray | float, lost: float) -> np.ndarray | float:
    """Words after rounding to whole numbers per instance, which may take up to `lost` from each where windows that
    overlap are averaged over receivers."""
    if not ground.windowed[tensor]:
        return words
    result: np.ndarray = np.maximum(words - lost * ground.instances[level], 0)
    return result


def _copies(ground: BoundGround, tensor: int, level: int) -> float:
    """Instances of a level that can hold partial sums of the same word, each with a first write of its own."""
    spread = 1
    for outer in range(level + 1, len(ground.space.levels)):
        apart = separating(ground.space, outer, tensor)
        spread *= math.prod(max(factors, default=1) for name, factors
                            in ground.space.levels[outer].spatial.choices.items() if name not in apart)
    return float(min(spread, ground.instances[level]))
