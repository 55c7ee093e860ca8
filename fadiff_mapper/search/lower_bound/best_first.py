"""Best-first branch and bound: the part of the least bound is looked at next, until none can hold a better answer."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic, TypeVar

from fadiff_mapper.base.deadline import Over, never

Part = TypeVar("Part")
Answer = TypeVar("Answer")

TOLERANCE = 1e-9
"""Share by which an answer must be better to count as better, as sums differ in their last bits; equal to TOLERANCE of
`kernel/proof.cpp`."""


@dataclass(frozen=True)
class Look(Generic[Part, Answer]):
    """All that a look at one part brings."""

    parts: Iterable[tuple[float, Part]] = ()    # Bounds and parts that together hold every candidate below the limit
                                                # that was not evaluated
    better: tuple[float, Answer] | None = None  # Value and answer of the best candidate below the limit among those
                                                # evaluated; None: there is none
    least: float = inf                          # Bound of candidates that can be neither evaluated nor divided further;
                                                # infinite: there are none


@dataclass(frozen=True)
class Proof(Generic[Answer]):
    """The state of a branch and bound when it ended."""

    value: float           # Value of the best answer
    answer: Answer | None  # The best answer; None: the first one, that was given
    least: float           # No candidate has a value below it, but for `TOLERANCE`
    opened: int            # Parts looked at


def best_first(parts: Iterable[tuple[float, Part]], look: Callable[[Part, float], Look[Part, Answer]], value: float,
               gap: float = 0.0, over: Over = never) -> Proof[Answer]:
    """Proves an answer to be the best one, or finds a better one.

    `parts` are bounds and parts that together hold every candidate. `look` evaluates or divides a part; candidates of
    the limit or more, its second argument, do not matter. `value` is that of the first answer, to be minimised. The
    best answer exceeds the least bound by the `gap` at most, unless `over` was true before a look, or some parts can be
    neither evaluated nor divided.
    """
    heap = [(bound, number, part) for number, (bound, part) in enumerate(parts)]
    heapq.heapify(heap)
    number, opened, answer, stuck = len(heap), 0, None, inf

    def limit() -> float:
        return value * (1 - TOLERANCE) / (1 + gap)

    while heap and heap[0][0] < limit() and not over():
        bound, _, part = heapq.heappop(heap)
        found = look(part, limit())
        opened += 1
        if found.better:
            value, answer = found.better
        stuck = min(stuck, max(found.least, bound))
        for below, child in found.parts:
            heapq.heappush(heap, (max(below, bound), number, child))
            number += 1
    # what was left out reaches the limit, which only falls
    short = [bound for bound in (stuck, *(bound for bound, *_ in heap[:1])) if bound < limit()]
    return Proof(value, answer, min(short, default=value / (1 + gap)), opened)
