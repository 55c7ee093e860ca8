"""The values: parameters with the values that they may take, ties, limits, and points of the space they span."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import ceil
from typing import Any, TypeAlias

import numpy as np

from fadiff_mapper.inputs.load import Source
from fadiff_mapper.inputs.yaml.expressions import Literal
from fadiff_mapper.inputs.yaml.located import LARGEST_WHOLE, Map, Reader, integer, kind_of, number, sequence
from fadiff_mapper.inputs.yaml.place import Where

# No list of all values is made: a lazy range may have a thousand million of them.

def coordinate(parameter: Parameter, index: int) -> float:
    """A value of a parameter as a coordinate: log2 where all are positive numbers, else the index."""
    return float(np.log2(float(parameter.values[index]))) if _in_octaves(parameter) else float(index)


def nearest_index(parameter: Parameter, place: float) -> int:
    """The index of the value nearest to a coordinate; of two as near, the lower one."""
    if _in_octaves(parameter):
        return nearest_value(parameter.values, 2.0 ** place)
    return min(max(ceil(place - 0.5), 0), len(parameter.values) - 1)


def _in_octaves(parameter: Parameter) -> bool:
    """Whether all values are positive numbers, so that their coordinates are logarithms."""
    lowest = parameter.values[0]
    return not isinstance(lowest, str) and lowest > 0


def points_beside(space: DesignSpace, point: Point, octaves: float) -> list[Point]:
    """The designs beside one along every parameter, at about a given distance.

    Args:
        space: The space.
        point: The design.
        octaves: The distance in octaves, where a parameter has one; 0 takes the next value.

    Returns:
        At most two designs for each parameter, at least one value away, the lower one first.
    """
    found = []
    for axis, parameter in enumerate(space.parameters):
        here, place = point[axis], coordinate(parameter, point[axis])
        lower = min(nearest_index(parameter, place - octaves), here - 1)
        higher = max(nearest_index(parameter, place + octaves), here + 1)
        found += [(*point[:axis], index, *point[axis + 1:]) for index in (lower, higher)
                  if 0 <= index < len(parameter.values)]
    return found


FORMS = "values: [V, ...], powers_of_two: [LOW, HIGH], or range: [LOW, HIGH] with step: STEP"
TEXT_FORMS = "V,V,... or LOW:HIGH:STEP or LOW:HIGH:x2 (powers of two)"

MOST_LISTED = 100_000
"""Values of one parameter that are not whole numbers in a row: these are held one by one. Not measured."""


def take_values(reader: Reader) -> Sequence[Value]:
    """Reads the values of a parameter.

    Args:
        reader: The parameter's mapping; `values`, or `powers_of_two`, or `range` with `step` is taken from it.

    Returns:
        Numbers in ascending order, as a lazy range where they are equally spaced whole numbers, or words.

    Raises:
        SpecError: There is no such key, there are several, or one of them cannot be understood.
    """
    given = [key for key in ("values", "powers_of_two", "range") if reader.has(key)]
    if len(given) != 1:
        raise reader.node.where.error(f"found {' and '.join(given) or 'no values'}", FORMS)
    if given == ["values"]:
        return reader.take("values", _listed_values)
    if given == ["powers_of_two"]:
        return reader.take("powers_of_two", _powers_of_two)
    low, high = reader.take("range", _bounds)
    step = reader.take("step", number(above=0))
    return _equally_spaced(low, high, step, reader.at("range"))


def values_of_text(text: str, where: Where) -> Sequence[Value]:
    """Reads the values that a command line gives, such as "8,16,32", "1024:32768:1024" or "8:64:x2".

    Raises:
        SpecError: The text has none of the accepted forms.
    """
    bounds = text.split(":")
    if len(bounds) == 3:
        low, high, step = bounds
        if step.strip() == "x2":
            return _powers_of_two([low, high], where)
        low_value, high_value = _bounds([low, high], where)
        return _equally_spaced(low_value, high_value, number(above=0)(_scalar(step), where), where)
    if len(bounds) > 1 or not all(part.strip() for part in text.split(",")):
        raise where.error(f"found {kind_of(text)}", TEXT_FORMS)
    return _listed_values([_scalar(part) for part in text.split(",")], where)


def values_of(given: Any, where: Where) -> Sequence[Value]:
    """Reads values given in Python: a text, a list, or a mapping as in YAML. Raises SpecError."""
    if isinstance(given, str):
        return values_of_text(given, where)
    if isinstance(given, dict):
        reader = Reader(Map(given, where=where))
        values = take_values(reader)
        reader.finish()
        return values
    return _listed_values(given, where)


def _scalar(text: str) -> Value:
    """The number that a text spells, else the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


def _listed_values(value: Any, where: Where) -> Sequence[Value]:
    """Checks a list of different values, numbers or words; numbers are sorted, words are never expressions."""
    given = sequence(value, where)
    if not given:
        raise where.error("found an empty list", "a list of values")
    for i, item in enumerate(given):
        if isinstance(item, bool) or not isinstance(item, int | float | str):
            raise given.at(i).error(f"found {kind_of(item)}", "a number or a word")
    words = [isinstance(item, str) for item in given]
    if any(words) and not all(words):
        raise where.error("found numbers and words", "numbers alone, or words alone")
    values = [Literal(item) if isinstance(item, str) else _whole(number()(item, given.at(i)))
              for i, item in enumerate(given)]
    twice = [item for item, count in Counter(values).items() if count > 1]
    if twice:
        raise where.error(f"found {twice[0]} twice", "different values")
    return tuple(values) if any(words) else tuple(sorted(values))


def _powers_of_two(value: Any, where: Where) -> Sequence[Value]:
    """Checks a pair of powers of two; all powers between them, both included."""
    given = _pair(value, where)
    low, high = (integer(1)(item, where) for item in given)
    for bound in (low, high):
        if bound & (bound - 1):
            raise where.error(f"found {bound}", f"powers of two, such as {1 << (bound.bit_length() - 1)} or "
                                                f"{1 << bound.bit_length()}")
    _check_order(low, high, where)
    return tuple(1 << power for power in range(low.bit_length() - 1, high.bit_length()))


def _bounds(value: Any, where: Where) -> tuple[float, float]:
    """Checks the lower and the upper bound of a range."""
    low, high = (_whole(number()(item, where)) for item in _pair(value, where))
    _check_order(low, high, where)
    return low, high


def _pair(value: Any, where: Where) -> Sequence[Any]:
    given = sequence(value, where)
    if len(given) != 2:
        raise where.error(f"found a list of {len(given)}", "[LOW, HIGH]")
    return given


def _check_order(low: float, high: float, where: Where) -> None:
    if low > high:
        raise where.error(f"found [{low}, {high}]", "a lower bound that is at most the upper one")


def _equally_spaced(low: float, high: float, step: float, where: Where) -> Sequence[Value]:
    """The values low, low + step, ... up to `high`, in decimal arithmetic, so that 0.1 + 2 * 0.1 is 0.3.

    Raises:
        SpecError: There are more than `MOST_LISTED` values, and not all of them are whole numbers, or whole numbers
            are too large for a design.
    """
    low, step = _whole(low), _whole(step)
    if isinstance(low, int) and isinstance(step, int):
        last = int(high // 1)
        if max(-low, last) > LARGEST_WHOLE:
            raise where.error(f"found [{low}, {last}]", f"whole numbers of at most {LARGEST_WHOLE}")
        return range(low, last + 1, step)
    count = int((Decimal(str(high)) - Decimal(str(low))) / Decimal(str(step))) + 1
    if count > MOST_LISTED:
        raise where.error(f"found {count} values", f"at most {MOST_LISTED} values that are not whole numbers")
    return tuple(_whole(float(Decimal(str(low)) + i * Decimal(str(step)))) for i in range(count))


def _whole(value: float) -> float:
    """The number as an integer where it is whole."""
    return int(value) if value == int(value) else value


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
