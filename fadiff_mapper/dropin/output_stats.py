"""The numbers of a run under the names, and in the units, that Timeloop's Python front end uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from fadiff_mapper.dropin.programs import ProgramOutcome
from fadiff_mapper.model.exact.stats import Stats, actual_count
from fadiff_mapper.output.timeloop_files.map_txt import map_txt
from fadiff_mapper.spec.native.written_components import written_attributes, written_number
from fadiff_mapper.spec.spec import Spec

CYCLE_KEYS = ("GLOBAL_CYCLE_SECONDS", "global_cycle_seconds")
"""Names of the variable, or attribute, that holds the seconds of a cycle."""

DEFAULT_CYCLE = 1e-9
"""Seconds of a cycle where none of them is given."""


@dataclass(frozen=True)
class OutputStats:
    """The result of `call_mapper` and `call_model`: seconds, joules and square meters, all instances together.

    The attributes are those of the class of this name in Timeloop's Python front end; `stats` is our addition.

    Attributes:
        percent_utilization: Computes over MAC instances times cycles, in percent.
        computes: Multiply-accumulates.
        cycles: Cycles.
        cycle_seconds: Seconds of a cycle.
        per_component_energy: Joules by component.
        per_component_area: Square meters by component.
        accesses: Words by level and action (reads, fills, updates), all data spaces together.
        mapping: The loop nest as text.
        stats: All other numbers, exact and in pJ.
        variables: The `variables` section of the input.
    """

    percent_utilization: float
    computes: int
    cycles: int
    cycle_seconds: float
    per_component_energy: dict[str, float]
    per_component_area: dict[str, float]
    accesses: dict[str, dict[str, float]]
    mapping: str
    stats: Stats
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def latency(self) -> float:
        """Seconds."""
        return self.cycles * self.cycle_seconds

    @property
    def energy(self) -> float:
        """Joules."""
        return self.stats.energy_pj * 1e-12

    @property
    def edp(self) -> float:
        """Joule * seconds."""
        return self.energy * self.latency

    @property
    def area(self) -> float:
        """Square meters."""
        return sum(self.per_component_area.values())

    @property
    def computes_per_second(self) -> float:
        """Multiply-accumulates per second."""
        return self.computes / self.latency

    @property
    def computes_per_second_per_square_meter(self) -> float:
        """Infinite where no component has an area."""
        return self.computes_per_second / self.area if self.area else inf

    @property
    def computes_per_joule(self) -> float:
        """Infinite where all energies are 0."""
        return self.computes / self.energy if self.energy else inf

    def access(self, key: str) -> Any:
        """An attribute, or one of the variables. Raises AttributeError."""
        return self.variables[key] if key in self.variables else getattr(self, key)

    def per_compute(self, key: str) -> Any:
        """An attribute, or each value of one that is a dict, over the number of computes."""
        value = getattr(self, key)
        if isinstance(value, dict):
            return {name: part / self.computes for name, part in value.items()}
        return value / self.computes


def output_stats(done: ProgramOutcome) -> OutputStats:
    """The numbers of one run in the front end's units."""
    spec, stats = done.spec, done.stats
    return OutputStats(
        percent_utilization=stats.utilization * 100, computes=stats.computes, cycles=stats.cycles,
        cycle_seconds=_cycle_seconds(spec),
        per_component_energy={name: pj * 1e-12 for name, pj in stats.component_energies().items()},
        per_component_area={name: um2 * 1e-12 for name, um2 in stats.areas_um2.items()},
        accesses={level["name"]: _accesses(level) for level in stats.levels},
        mapping=map_txt(spec, done.mapping, stats), stats=stats, variables=dict(spec.literal.get("variables", {})))


def _cycle_seconds(spec: Spec) -> float:
    """Seconds of a cycle as the front end looks for them: a variable, else a component's attribute, else 1 ns."""
    given = (spec.literal.get("variables") or {}, *written_attributes(spec.arch).values())
    values = (written_number(attributes, key) for attributes in given for key in CYCLE_KEYS)
    return next((value for value in values if value), DEFAULT_CYCLE)


def _accesses(level: dict[str, Any]) -> dict[str, float]:
    """Words of one level by action, all its instances and data spaces together."""
    return {action: float(sum(actual_count(space[action]) * space["utilized_instances"]
                              for space in level["dataspaces"].values()))
            for action in ("reads", "fills", "updates")}
