"""A run over many corners: drawn, asked and compared block by block; every corner that differs is made smaller."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.verify import numbers

from ..asking import Answered, ask_all
from ..store import Store
from ..tools import Backend, Tool
from .comparing import mistakes, quantities
from .corner import Corner
from .rules import RULES, corner
from .shrinking import shrunk

BLOCK = 260
"""Corners whose answers are held in memory together, and kept in one file: a plain choice, 20 of each rule."""

SHRUNK = 20
"""Differences that are made smaller: many have one cause, and each takes up to a few hundred runs of the tool."""


@dataclass(frozen=True)
class Difference:
    """A corner that the exact model and Timeloop see differently.

    Attributes:
        number: Its number.
        corner: The corner as drawn.
        smallest: The corner made smaller; as drawn where `SHRUNK` others came before.
        mistakes: A line for every number of the smallest one that differs.
    """

    number: int
    corner: Corner
    smallest: Corner
    mistakes: tuple[str, ...]


@dataclass(frozen=True)
class CornerRun:
    """The outcome.

    Attributes:
        tool: Who answered.
        seed: Of the corners.
        tally: Rule -> "accepted", "rejected", "numbers", "links" (corners with words from neighbours), "different".
        differences: All corners that differ.
        failures: Why a corner got no answer.
    """

    tool: Tool
    seed: int
    tally: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    differences: list[Difference] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every corner got an answer, and the exact model's."""
        return not self.differences and not self.failures


def run_corners(run: CornerRun, count: int, backend: Backend, cache: Path, jobs: int,
                advance: Callable[[], None] = lambda: None) -> None:
    """Asks about the first `count` corners of the run's seed and compares all numbers.

    Args:
        run: The outcome so far, which every block is added to; a caller that is interrupted has it as it stands.
        count: How many corners.
        backend: The real tool.
        cache: Answers are kept in files beside this one, a file for each block, so that a run that was stopped goes on.
        jobs: Runs of the tool at once.
        advance: Called after each answer.
    """
    for start in range(0, count, BLOCK):
        drawn = {number: corner(number, run.seed) for number in range(start, min(start + BLOCK, count))}
        store = Store(cache.with_name(f"{cache.stem}-corners-{run.seed}-{start}.jsonl"))
        answers = ask_all([one.question() for one in drawn.values()], backend, store, jobs, lambda _: advance())
        for (number, one), item in zip(drawn.items(), answers, strict=True):
            _count(run, number, one, item, partial(_mistakes, backend=backend, store=store))


def _count(run: CornerRun, number: int, one: Corner, item: Answered, ask: Callable[[Corner], list[str]]) -> None:
    """Compares one answer and adds it to the run; `ask` says what differs for any other corner."""
    tally = run.tally[one.rule]
    if item.answer is None:
        run.failures.append(f"corner {number}, {one.rule}: {item.failure}")
        return
    tally["accepted" if item.answer.result is not None else "rejected"] += 1
    tally["numbers"] += numbers(item.answer.result or {})
    tally["links"] += item.answer.result is not None and any(
        space["link_transfers"] for network in item.answer.result["networks"]
        for space in network["dataspaces"].values())
    found = mistakes(item.question, item.answer)
    if found:
        tally["different"] += 1
        smallest = shrunk(one, lambda other: bool(quantities(ask(other)) & quantities(found))) \
            if len(run.differences) < SHRUNK else one
        run.differences.append(Difference(number, one, smallest, tuple(ask(smallest) or found)))


def _mistakes(one: Corner, backend: Backend, store: Store) -> list[str]:
    """The differences of one more corner; none where it is no valid input or gets no answer."""
    try:
        question = one.question()
        item, = ask_all([question], backend, store, 1)
        return mistakes(question, item.answer) if item.answer is not None else []
    except FadiffError:
        return []


def rules_met(run: CornerRun) -> list[tuple[str, Counter[str]]]:
    """The tallies in the order of the rules, those without corners left out."""
    return [(name, run.tally[name]) for name in RULES if name in run.tally]
