"""All designs of a search as columns of numbers, a tenth of what they take as objects: searches map thousands."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from math import isnan, nan
from typing import overload

from fadiff_mapper.results.designed_machine import DesignOutcome, NetworkFigures, ParameterValue

OWN = 5
"""Figures of a design: energy, cycles, area, and the bounds on energy and cycles."""

EACH = 5
"""Figures of a network on it: energy and cycles, both unfused, and fused groups."""


class OutcomeTable(Sequence[DesignOutcome]):
    """Outcomes in the order in which they came; reading one makes it anew.

    Attributes:
        values: The values of every parameter of the space, by name in its order.
        networks: The name of every network and how often it runs.
        points: The index of every parameter's value, design by design.
        figures: `OWN` numbers and `EACH` numbers for every network, design by design; not a number: there is none.
        flags: Whether a design is feasible (1), whether it was mapped (2), and whether that was cut short (4).
        reasons: The reason of every design by its number in `words`.
        words: Every reason once.
    """

    def __init__(self, values: Mapping[str, Sequence[ParameterValue]], networks: Sequence[tuple[str, float]]) -> None:
        self.values, self.networks = values, networks
        self.points, self.figures = array("I"), array("d")
        self.flags, self.reasons, self.words = bytearray(), array("I"), list[str]()
        self._numbers: dict[str, int] = {}

    def append(self, outcome: DesignOutcome) -> None:
        """Adds an outcome of a design of the space, with the figures of all networks or of none."""
        self.points.extend(outcome.point)
        self.figures.extend((outcome.energy_pj, outcome.cycles, outcome.area_mm2, *(outcome.bounds or (nan, nan))))
        for each in outcome.networks:
            self.figures.extend((each.energy_pj, each.cycles, each.unfused_energy_pj, each.unfused_cycles,
                                 each.fused_groups))
        if not outcome.networks:
            self.figures.extend([nan] * (EACH * len(self.networks)))
        self.flags.append(outcome.feasible | outcome.mapped << 1 | outcome.cut_short << 2)
        if outcome.reason not in self._numbers:
            self._numbers[outcome.reason] = len(self.words)
            self.words.append(outcome.reason)
        self.reasons.append(self._numbers[outcome.reason])

    def __len__(self) -> int:
        return len(self.flags)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(
            mine == yours for mine, yours in zip(self, other, strict=True))

    @overload
    def __getitem__(self, place: int) -> DesignOutcome: ...

    @overload
    def __getitem__(self, place: slice) -> list[DesignOutcome]: ...

    def __getitem__(self, place: int | slice) -> DesignOutcome | list[DesignOutcome]:
        numbers = range(len(self))[place]
        return self._outcome(numbers) if isinstance(numbers, int) else [self._outcome(number) for number in numbers]

    def _outcome(self, number: int) -> DesignOutcome:
        """The outcome of a design by its number."""
        size, width = len(self.values), OWN + EACH * len(self.networks)
        point = tuple(self.points[number * size:(number + 1) * size])
        energy, cycles, area, *bounds = self.figures[number * width:number * width + OWN]
        rows = [self.figures[start:start + EACH] for start in range(number * width + OWN, (number + 1) * width, EACH)]
        return DesignOutcome(
            point, {name: values[index] for (name, values), index in zip(self.values.items(), point, strict=True)},
            bool(self.flags[number] & 1), self.words[self.reasons[number]], energy, cycles, area,
            tuple(NetworkFigures(name, weight, row[0], row[1], row[2], row[3], int(row[4]))
                  for (name, weight), row in zip(self.networks, rows, strict=True) if not isnan(row[0])),
            bool(self.flags[number] & 2), None if isnan(bounds[0]) else (bounds[0], bounds[1]),
            bool(self.flags[number] & 4))
