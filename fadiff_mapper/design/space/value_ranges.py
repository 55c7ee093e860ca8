"""The values of a parameter: `values`, `powers_of_two` or `range` with `step` in YAML, or a text of one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from fadiff_mapper.design.space.design_space import Value
from fadiff_mapper.yaml.expressions import Literal
from fadiff_mapper.yaml.located import LARGEST_WHOLE, Map, Reader, integer, kind_of, number, sequence
from fadiff_mapper.yaml.place import Where

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
