"""Residency of the operands that come from outside a group: along which loops each stays in the home level.

Problem. An operand that stays (weights along rows, the halo of the first input) is fetched once instead of in every
step, and takes room from the tiles. LoopTree calls this retention; for groups of many layers the product of all
choices is too large to be priced.

Method. An operand stays along the innermost of the loops whose steps share words of it, along more and more of them as
long as that saves words. All combinations are priced up to a limit; beyond, two greedy sequences.

Arrays are [B], one entry per choice of tile sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from fadiff_mapper.fusion import Stay
from fadiff_mapper.fusion.groups.tile_steps import moved_rank
from fadiff_mapper.network.tilings.loop_cuts import LoopCut, fetched, held
from fadiff_mapper.spec.problem import DataSpace, Problem

MOST_COMBINATIONS = 48
"""Residency choices of one nest up to which the full product is priced.

A limit of time, not measured by itself.
"""


@dataclass(frozen=True)
class OperandResidency:
    """A residency of an operand that comes from outside the group.

    Attributes:
        stay: Where it stays and along which loops; None if it passes.
        words: Words that lie there, 0 if it passes, [B].
        reads: Words fetched from outside over all steps, [B].
    """

    stay: Stay | None
    words: np.ndarray
    reads: np.ndarray


ResidencyChoice = tuple[dict[str, OperandResidency], ...]
"""For every layer the residency of each operand that comes from outside."""


def residencies_of(space: DataSpace, problem: Problem, home: str, cuts: Sequence[LoopCut],
                   every: np.ndarray) -> list[OperandResidency]:
    """Lists the residencies of an operand that save words.

    Args:
        space: The operand.
        problem: The layer.
        home: Name of the level in which the operand would stay.
        cuts: Cuts of the layer by the shared loops.
        every: Ones, [B].

    Returns:
        Fetched in every step first, then kept along more and more of the innermost loops whose steps share words.
    """
    residencies = [OperandResidency(None, 0.0 * every, fetched(space, problem, cuts, ()) * every)]
    sharing = [cut.loop for cut in cuts if cut.dim is None or cut.dim not in space.dimensions
               or len(moved_rank(space, cut.dim)[1]) > 1]
    for start in reversed(range(len(sharing))):
        across = frozenset(sharing[start:])
        reads = fetched(space, problem, cuts, across) * every
        if (reads < residencies[-1].reads * (1 - 1e-9)).any():
            residencies.append(OperandResidency(Stay(home, across), held(space, problem, cuts, across) * every,
                                                reads))
    return residencies


def residency_choices(operands: Sequence[Mapping[str, list[OperandResidency]]]) -> list[ResidencyChoice]:
    """Lists the residency choices to price: the full product, or two greedy sequences.

    Above `MOST_COMBINATIONS` combinations, one operand after the other is made resident in two orders: saved words
    per occupied word, and smallest footprint first; every intermediate state is a choice.

    Args:
        operands: For every layer the residencies of each operand, by data space.
    """
    residencies = [choices for layer in operands for choices in layer.values()]
    names = [list(layer) for layer in operands]
    picks = (product(*(range(len(choices)) for choices in residencies))
             if prod(len(choices) for choices in residencies) <= MOST_COMBINATIONS else _greedy_sequences(residencies))
    every = []
    for pick in picks:
        chosen = iter([choices[number] for choices, number in zip(residencies, pick, strict=True)])
        every.append(tuple({name: next(chosen) for name in own} for own in names))
    return every


def _greedy_sequences(residencies: Sequence[list[OperandResidency]]) -> Iterator[tuple[int, ...]]:
    """The residency of each operand by number, step by step, in both orders."""
    steps = [(operand, number, float(choices[number].words.mean() - choices[number - 1].words.mean()),
              float(choices[number - 1].reads.mean() - choices[number].reads.mean()))
             for operand, choices in enumerate(residencies) for number in range(1, len(choices))]
    yield (0,) * len(residencies)
    for order in (sorted(steps, key=lambda step: -step[3] / max(step[2], 1.0)),
                  sorted(steps, key=lambda step: step[2])):
        taken = [0] * len(residencies)
        for operand, number, _, _ in order:
            taken[operand] = max(taken[operand], number)
            yield tuple(taken)
