"""Loop factors as Timeloop writes them: "C=2 M=3", "C2 M3", "C=2,M<=8", or a list of such strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.located import Where, kind_of, sequence, text

ACCEPTED = '"C=2 M=3", "C2 M3", "C<=4" or "C>=2", with the dimensions'

# The name ends where the number begins, so "C2M3" is C=2 M=3; with an operator a name may hold digits.
_FACTOR = re.compile(r"(?P<name>[A-Za-z_]\w*?)\s*(?P<operator><=|>=|=*)\s*(?P<value>\d+)(?=[\s,A-Za-z_]|$)")
_IMPERFECT = re.compile(r"\s*,\s*\d+")


@dataclass(frozen=True)
class LoopFactor:
    """One factor, or a limit on one.

    Attributes:
        dimension: Its dimension.
        operator: "=", "<=" or ">=".
        value: At least 1; a 0 in the text, for the whole dimension, is already the dimension's bound.
        where: Place of the text.
    """

    dimension: str
    operator: str
    value: int
    where: Where


def parse_factors(value: Any, where: Where, dimensions: Mapping[str, int], *,
                  bounded: bool = True) -> tuple[LoopFactor, ...]:
    """Reads the factors in a string or a list of strings.

    As in Timeloop, "=" may be left out, 0 stands for the whole dimension (not for the remainder), and text from "#"
    on is a comment.

    Args:
        value: A string or a list of strings.
        where: Its place.
        dimensions: Bound by dimension.
        bounded: Whether a factor may be at most its dimension. The factors of a mapping are checked as a product
            instead.

    Returns:
        The factors in the order of the text.

    Raises:
        SpecError: Imperfect factors (`P=5,3`), and what Timeloop skips in silence: leftover text, a factor above its
            dimension, two values for the same dimension.
    """
    factors: list[LoopFactor] = []
    for part, place in _strings(value, where):
        for factor in _scan(part.split("#")[0], place, dimensions, bounded):
            same = [f for f in factors if (f.dimension, f.operator) == (factor.dimension, factor.operator)]
            if not same:
                factors.append(factor)
            elif same[0].value != factor.value:
                raise place.error(f'found both "{factor_text(same[0])}" and "{factor_text(factor)}"',
                                  "one value for each dimension")
    return tuple(factors)


MOST_DIGITS = 15
"""Digits of a factor; all such whole numbers are exact in float64."""


def factor_text(factor: LoopFactor) -> str:
    """A factor as both dialects read it, such as "C<=4"."""
    return f"{factor.dimension}{factor.operator}{factor.value}"


def factors_text(factors: Sequence[LoopFactor]) -> str:
    """Several factors as one string, which both dialects read."""
    return ",".join(map(factor_text, factors))


def _strings(value: Any, where: Where) -> Iterator[tuple[str, Where]]:
    """The string itself, or each entry of the list; an entry may be split up, as in [C, "=", 2]."""
    if isinstance(value, str):
        yield value, where
        return
    if not isinstance(value, list | tuple):
        raise where.error(f"found {kind_of(value)}", f"a string or a list of strings such as {ACCEPTED}")
    entries = sequence(value, where)
    for i, entry in enumerate(entries):
        whole = "".join(text(piece, entries.at(i)) for piece in entry) if isinstance(entry, list) else entry
        yield text(whole, entries.at(i)), entries.at(i)


def _scan(line: str, where: Where, dimensions: Mapping[str, int], bounded: bool) -> Iterator[LoopFactor]:
    rest = line.strip(" \t\n,")
    while rest:
        match = _FACTOR.match(rest)
        if match is None:
            raise where.error(f'found "{rest.split()[0]}"', f"factors such as {ACCEPTED} {listed(dimensions)}")
        imperfect = _IMPERFECT.match(rest, match.end())
        if imperfect:
            raise where.error(f'the imperfect factor "{rest[:imperfect.end()]}" is not supported',
                              "factors that divide the dimension, such as P=5")
        if len(match["value"]) > MOST_DIGITS:
            raise where.error(f'found a factor of {len(match["value"])} digits', f"at most {MOST_DIGITS} digits")
        yield _factor(match["name"], match["operator"].strip("=") + "=", int(match["value"]), where, dimensions,
                      bounded)
        rest = rest[match.end():].lstrip(" \t\n,")


def _factor(name: str, operator: str, value: int, where: Where, dimensions: Mapping[str, int],
            bounded: bool) -> LoopFactor:
    if name not in dimensions:
        raise where.error(f'unknown dimension "{name}" in "{name}{operator}{value}"'
                          f"{nearest(name, list(dimensions))}", listed(dimensions))
    bound = dimensions[name]
    if value == 0 and operator != "=":
        raise where.error(f'found "{name}{operator}0"', f"a limit of 1 or more (0 is the whole dimension in {name}=0)")
    if bounded and value > bound and operator == "=":
        raise where.error(f'"{name}={value}" is larger than the dimension {name}={bound}',
                          f"factors of {bound}, or 0 for the whole dimension")
    return LoopFactor(name, operator, value or bound, where)
