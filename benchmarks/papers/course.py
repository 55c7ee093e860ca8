"""The course of a search: EDP of the whole network against processor time or evaluations.

An evaluation is a legal mapping whose energy and cycles are asked for. An illegal one costs time alone, as for
`timeloop-mapper`, which counts valid mappings: methods that draw legal mappings and methods that leave the illegal ones
behind are counted alike.

A method that maps layers one by one is recorded layer by layer. Its course is that of layers that take turns: after
each turn every layer has had equally much, but for those whose search has ended. So a network has an EDP from the
moment when every layer has its first legal mapping.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from .part import Record

Axis = Literal["cpu_s", "evaluations"]


@dataclass
class LayerCourse:
    """The improvements of one layer's search.

    Attributes:
        times: Runs of the layer in its network.
        points: Processor time in s and legal mappings evaluated since the layer's search began, energy in pJ and
            cycles of one run.
        cpu_s: Processor time at the end of the search.
        evaluations: Legal mappings evaluated until then.
    """

    times: int
    points: list[tuple[float, int, float, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    evaluations: int = 0

    def note(self, cpu_s: float, evaluations: int, energy_pj: float, cycles: float) -> None:
        """Notes the state of the search, and the mapping if it has the least EDP so far."""
        self.cpu_s, self.evaluations = cpu_s, evaluations
        if not self.points or energy_pj * cycles < self.points[-1][2] * self.points[-1][3]:
            self.points.append((cpu_s, evaluations, energy_pj, cycles))

    def end(self, cpu_s: float, evaluations: int) -> None:
        """Notes the end of the search."""
        self.cpu_s, self.evaluations = cpu_s, evaluations


@dataclass
class NetworkCourse:
    """The course of one run.

    Attributes:
        layers: The courses of layers that are mapped one by one; none for methods that map whole networks alone.
        joined: Energy in pJ and cycles that every mapping of the network has besides its layers'.
        whole: Improvements of the whole network after that: processor time in s and legal mappings evaluated since the
            beginning of the run, and EDP in pJ x cycles.
        distinct: Distinct layers of the network, by which budgets are multiplied.
        cpu_s: Processor time at the end of the run, of methods that map whole networks.
        evaluations: Evaluations at its end, likewise.
        notes: Anything else, for the record.
    """

    layers: list[LayerCourse]
    joined: tuple[float, float]
    distinct: int
    whole: list[tuple[float, int, float]] = field(default_factory=list)
    cpu_s: float = 0.0
    evaluations: int = 0
    notes: Record = field(default_factory=dict)

    def as_record(self) -> Record:
        """The course as JSON values."""
        return {"layers": [{"times": layer.times, "points": layer.points, "cpu_s": layer.cpu_s,
                            "evaluations": layer.evaluations} for layer in self.layers],
                "joined": self.joined, "distinct": self.distinct, "whole": self.whole,
                "cpu_s": self.cpu_s, "evaluations": self.evaluations, "notes": self.notes}


def course(record: Record, axis: Axis) -> list[tuple[float, float]]:
    """The EDPs of a recorded run, each lower than those before.

    Args:
        record: As of `NetworkCourse.as_record`.
        axis: Processor time or evaluations.

    Returns:
        Pairs of processor time in s or evaluations, and EDP in pJ x cycles, in order.
    """
    number = ("cpu_s", "evaluations").index(axis)
    pairs = _turns(record, axis, number)
    pairs += [(point[number], point[2]) for point in record["whole"]]
    falling: list[tuple[float, float]] = []
    for where, edp in sorted(pairs):
        if not falling or edp < falling[-1][1]:
            falling.append((where, edp))
    return falling


def _turns(record: Record, axis: Axis, number: int) -> list[tuple[float, float]]:
    """The courses of layers, joined."""
    layers = record["layers"]
    ends = [layer[axis] for layer in layers]
    events = sorted((point[number], index, point[2], point[3]) for index, layer in enumerate(layers)
                    for point in layer["points"])
    state: list[tuple[float, float] | None] = [None] * len(layers)
    pairs = []
    for turn, index, energy, cycles in events:
        state[index] = (energy, cycles)
        if None not in state:
            spent = sum(min(turn, end) for end in ends)
            pairs.append((spent, network_edp(record, [point for point in state if point])))
    return pairs


def network_edp(record: Record, points: Sequence[tuple[float, float]]) -> float:
    """EDP of a network from energy and cycles of one run of each of its layers."""
    energy, cycles = record["joined"]
    for layer, point in zip(record["layers"], points, strict=True):
        energy, cycles = energy + layer["times"] * point[0], cycles + layer["times"] * point[1]
    edp: float = energy * cycles
    return edp


def edp_after(pairs: Sequence[tuple[float, float]], limit: float) -> float:
    """The EDP of a course at a limit; infinite before the first legal mapping."""
    return min((edp for where, edp in pairs if where <= limit), default=math.inf)
