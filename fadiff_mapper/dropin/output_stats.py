"""The numbers of a run under the names, and in the units, that Timeloop's Python front end uses."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import Any

from fadiff_mapper.dropin.programs import ProgramOutcome
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.timeloop_files.map_txt import map_txt
from fadiff_mapper.spec.native.areas import areas
from fadiff_mapper.spec.native.written_components import written_attributes, written_number
from fadiff_mapper.spec.spec import Spec

CYCLE_KEYS = ("GLOBAL_CYCLE_SECONDS", "global_cycle_seconds")
DEFAULT_CYCLE = 1e-9


@dataclass(frozen=True)
class OutputStats:
    """What `call_mapper` and `call_model` return: seconds, joules and square meters, all instances together.

    `accesses` are words by level: reads, fills and updates of all data spaces. `mapping` is the loop nest as text,
    `stats` holds everything else, exact and in pJ.
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
        return self.cycles * self.cycle_seconds

    @property
    def energy(self) -> float:
        return self.stats.energy_pj * 1e-12

    @property
    def edp(self) -> float:
        """Joule * seconds."""
        return self.energy * self.latency

    @property
    def area(self) -> float:
        return sum(self.per_component_area.values())

    @property
    def computes_per_second(self) -> float:
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
    """The numbers of one run."""
    spec, stats = done.spec, done.stats
    return OutputStats(
        percent_utilization=stats.utilization * 100, computes=stats.computes, cycles=stats.cycles,
        cycle_seconds=_cycle_seconds(spec),
        per_component_energy={name: pj * 1e-12 for name, pj in stats.component_energies().items()},
        per_component_area=_total_areas(spec), accesses={level["name"]: _accesses(level) for level in stats.levels},
        mapping=map_txt(spec, done.mapping, stats), stats=stats, variables=dict(spec.literal.get("variables", {})))


def _cycle_seconds(spec: Spec) -> float:
    """As the front end finds it: a variable, else an attribute of a component, else a nanosecond."""
    given = (spec.literal.get("variables") or {}, *written_attributes(spec.arch).values())
    found = (written_number(attributes, key) for attributes in given for key in CYCLE_KEYS)
    return next((value for value in found if value), DEFAULT_CYCLE)


def _total_areas(spec: Spec) -> dict[str, float]:
    """Square meters by component."""
    instances = {level.name: level.instances for level in spec.arch.levels}
    instances[spec.arch.arithmetic.name] = spec.arch.arithmetic.instances
    return {name: area * instances[name] * 1e-12 for name, area in areas(spec.arch, spec.tables).items()}


def _accesses(level: dict[str, Any]) -> dict[str, float]:
    return {kind: float(sum(space[kind] * space["utilized_instances"] for space in level["dataspaces"].values()))
            for kind in ("reads", "fills", "updates")}
