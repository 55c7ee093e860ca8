"""The values: parameters with the values that they may take, ties, limits, and points of the space they span."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fadiff_mapper.inputs.load import Source
from fadiff_mapper.yaml.located import Map
from fadiff_mapper.yaml.place import Where

Value: TypeAlias = int | float | str
"""A value of a parameter: a number, or a word such as "LPDDR4"."""

Point: TypeAlias = tuple[int, ...]
"""A design: for every parameter the index of its value."""

MACHINE_LIMITS = ("area_mm2", "leakage_pj", "units")
"""Limits on figures of the machine: its area, its leakage in pJ per cycle, its multiply-accumulate units."""

SOMEWHERE = Where("space")
"""The place of a parameter that was made by a program."""


@dataclass(frozen=True)
class Parameter:
    """A quantity of the architecture that a search may choose.

    Attributes:
        name: Its name in expressions and results.
        path: The entry of the architecture that takes its value, such as "Scratchpad.attributes.depth"; "" where it
            acts through ties or templates alone.
        values: Its values: numbers in ascending order (a long range is lazy), or words in the order written.
        template: Whether it is a variable of the files' Jinja2 templates.
        where: Its place, for messages.
    """

    name: str
    path: str
    values: Sequence[Value]
    template: bool = False
    where: Where = SOMEWHERE

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers."""
        return not isinstance(self.values[0], str)


@dataclass(frozen=True)
class Tie:
    """An entry of the architecture that follows from the parameters.

    Attributes:
        path: The entry, such as "Scratchpad.attributes.shared_bandwidth".
        expression: Its value as an expression over the parameters.
        where: Its place, for messages.
    """

    path: str
    expression: str
    where: Where


@dataclass(frozen=True)
class Limit:
    """An upper bound on a design.

    Attributes:
        name: One of `MACHINE_LIMITS`, or an expression over the parameters.
        most: The largest value that is accepted.
    """

    name: str
    most: float


@dataclass(frozen=True)
class DesignSpace:
    """All designs that an architecture with free parameters stands for.

    Attributes:
        name: Name of the space, that of its first file.
        parameters: The free quantities, in the order of a point's indices.
        ties: Entries that follow from the parameters, by their paths.
        limits: Upper bounds that every accepted design meets.
        document: The architecture and all other sections as written, without `design_space`.
        energy: The source of energies that the space names, as in `inputs.load.load`; None where it names none.
        files: Paths of the files.
        sources: Where the document was read from; it is read again for every design where templates have parameters.
        jinja_data: The fixed variables of the templates.
        strict: Whether input of a design that Timeloop ignores is an error, as in `inputs.load.load`.
    """

    name: str
    parameters: tuple[Parameter, ...]
    ties: Mapping[str, Tie]
    limits: tuple[Limit, ...]
    document: Map = field(repr=False)
    energy: str | None = None
    files: tuple[str, ...] = ()
    sources: tuple[Source, ...] = field(default=(), repr=False)
    jinja_data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    strict: bool = True

    @property
    def size(self) -> int:
        """The number of designs, those beyond the limits counted."""
        return math.prod(len(parameter.values) for parameter in self.parameters)


def parameter_values(space: DesignSpace, point: Point) -> dict[str, Value]:
    """The value of every parameter at a point, by name in the order of the space."""
    return {parameter.name: parameter.values[index] for parameter, index in zip(space.parameters, point, strict=True)}


def nearest_point(space: DesignSpace, values: Mapping[str, float | str]) -> Point:
    """The point whose values are nearest to the given ones.

    Args:
        space: The space.
        values: A number for every numeric parameter, one of its words for every other.

    Returns:
        For each parameter the index of the nearest value: by the difference of logarithms where all its values and the
        given one are positive, by the plain difference elsewhere; of two equally near the smaller one.
    """
    return tuple(nearest_value(parameter.values, values[parameter.name]) for parameter in space.parameters)


def nearest_value(accepted: Sequence[Any], wanted: Any) -> int:
    """The index of the nearest of ascending numbers, or of an equal word."""
    if isinstance(wanted, str):
        return list(accepted).index(wanted)
    above = bisect_left(accepted, wanted)
    if above in (0, len(accepted)):
        return min(above, len(accepted) - 1)
    low, high = accepted[above - 1], accepted[above]
    nearer = wanted * wanted <= low * high if accepted[0] > 0 and wanted > 0 else wanted - low <= high - wanted
    return above - 1 if nearer else above
