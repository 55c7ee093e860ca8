"""The least accesses of all levels together, weighted by price: what the arithmetic asks for, and the traffic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fadiff_mapper.bound.parallel import Parallelism, separating
from fadiff_mapper.bound.traffic import Ground, Keepers, least_traffic, unshared
from fadiff_mapper.exact import Layer


@dataclass(frozen=True)
class Prices:
    """What one word of each action costs, over all instances, [L, T] each."""

    read: np.ndarray
    fill: np.ndarray
    update: np.ndarray


@dataclass(frozen=True)
class Choice:
    """One choice of what is kept where, and what may run at once under it. A data space with no level is left out."""

    keepers: Keepers
    states: Parallelism


@dataclass(frozen=True)
class Addend:
    """One addend of a bound, for every state of parallelism [S]."""

    where: str
    value: np.ndarray
    source: str


def least_total(layer: Layer, ground: Ground, choice: Choice, prices: Prices) -> list[Addend]:
    """Addends whose sum no mapping under the choice can undercut in the sum of price * accesses."""
    return _asked(layer, ground, choice, prices) + _sent(layer, ground, choice, prices)


def _asked(layer: Layer, ground: Ground, choice: Choice, prices: Prices) -> list[Addend]:
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


def _sent(layer: Layer, ground: Ground, choice: Choice, prices: Prices) -> list[Addend]:
    """What travels between the levels that keep a data space."""
    states = np.ones_like(choice.states.macs)
    crossings = [(t, inner, outer) for t, kept in enumerate(choice.keepers) for inner, outer in pairwise(kept)]
    written = layer.projection.read_write
    price = np.zeros((len(choice.keepers), len(layer.arch.levels)))
    for t, inner, outer in crossings:
        price[t, inner] = prices.fill[inner, t] + prices.read[outer, t] / unshared(ground, t, inner, outer)
        price[t, inner] += prices.update[outer, t] if written[t] else 0.0
    if not price.any():
        return []
    words = least_traffic(ground, choice.keepers, price)
    result = []
    for t, inner, outer in crossings:
        sent, once = words[t, inner], float(ground.touched[t])
        if written[t]:
            value = prices.update[outer, t] * sent + (prices.read[outer, t] + prices.fill[inner, t]) * (sent - once)
        else:
            value = prices.fill[inner, t] * _whole(ground, t, inner, sent, 1.0) + prices.read[outer, t] * _whole(
                ground, t, outer, sent / unshared(ground, t, inner, outer), 0.5)
        names = [layer.arch.levels[level].name for level in (inner, outer)]
        source = ("every word once" if sent <= once else
                  f"{sent:.6g} words, {sent / once:.3g} times each, as {names[0]} cannot hold more")
        result.append(Addend(f"{names[1]} -> {names[0]} {layer.problem.dataspaces[t].name}", value * states, source))
    return result


def _whole(ground: Ground, tensor: int, level: int, words: np.ndarray | float, lost: float) -> np.ndarray | float:
    """Words after rounding to whole numbers per instance, which may take up to `lost` from each where windows that
    overlap are averaged over receivers."""
    if not ground.windowed[tensor]:
        return words
    result: np.ndarray = np.maximum(words - lost * ground.instances[level], 0)
    return result


def _copies(ground: Ground, tensor: int, level: int) -> float:
    """Instances of a level that can hold partial sums of the same word, each with a first write of its own."""
    spread = 1
    for outer in range(level + 1, len(ground.space.levels)):
        apart = separating(ground.space, outer, tensor)
        spread *= math.prod(max(factors, default=1) for name, factors
                            in ground.space.levels[outer].spatial.choices.items() if name not in apart)
    return float(min(spread, ground.instances[level]))
