"""Loop factors as Timeloop writes them: "C=2 M=3", "C2 M3", "C=2,M<=8", or a list of such strings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.yaml.located import kind_of, sequence, text
from fadiff_mapper.yaml.place import Where

ACCEPTED = '"C=2 M=3", "C2 M3", "C<=4" or "C>=2", with the dimensions'

# The name ends where the number begins, so "C2M3" is C=2 M=3; with an operator a name may hold digits.
_FACTOR = re.compile(r"(?P<name>[A-Za-z_]\w*?)\s*(?P<operator><=|>=|=*)\s*(?P<value>\d+)(?=[\s,A-Za-z_]|$)")
_FOUND_FACTOR = re.compile(r"[A-Za-z_]\w*?\s*(?:<=|>=|=*)\s*\d+(?:,\d+)?")
_UNREAD = re.compile(r"^[^\sA-Za-z_,]+")
_RESIDUAL = re.compile(r"\s*,\s*(?P<last>\d+)(?=[\s,A-Za-z_]|$)")


@dataclass(frozen=True)
class LoopFactor:
    """One factor, or a limit on one.

    Attributes:
        dimension: Its dimension.
        operator: "=", "<=" or ">=".
        value: At least 1; a 0 in the text, for the whole dimension, is already the dimension's bound.
        where: Place of the text.
        last: The residual of an imperfect factor (`P=4,2`): iterations of the last run. None: as many as in all runs.
    """

    dimension: str
    operator: str
    value: int
    where: Where
    last: int | None = None


def parse_factors(value: Any, where: Where, dimensions: Mapping[str, int], *, bounded: bool = True,
                  residuals: bool = False, leniency: Leniency = STRICT) -> tuple[LoopFactor, ...]:
    """Reads the factors in a string or a list of strings.

    As in Timeloop, "=" may be left out, 0 stands for the whole dimension (not for the remainder), and text from "#"
    on is a comment.

    Args:
        value: A string or a list of strings.
        where: Its place.
        dimensions: Bound by dimension.
        bounded: Whether a factor may be at most its dimension. The factors of a mapping are checked as a product
            instead.
        residuals: Whether a factor may have a residual.
        leniency: Decides about input that Timeloop skips: a factor above its dimension, leftover text, and the first
            of two values for the same dimension.

    Returns:
        The factors in the order of the text, without those that are skipped.

    Raises:
        SpecError: A residual that is out of range or has no place here (`P=5,3`), a dimension that is unknown, and,
            where strict, whatever Timeloop skips.
    """
    factors: list[LoopFactor] = []
    for part, place in _strings(value, where):
        for factor in _scan(part.split("#")[0], place, dimensions, residuals, leniency):
            if bounded and factor.operator == "=" and factor.value > dimensions[factor.dimension]:
                leniency.meet([_above(factor, dimensions)])
                continue
            same = [f for f in factors if (f.dimension, f.operator) == (factor.dimension, factor.operator)]
            if not same:
                factors.append(factor)
            elif (same[0].value, same[0].last) != (factor.value, factor.last):
                leniency.meet([_twice(same[0], factor)])
                factors[factors.index(same[0])] = factor
    return tuple(factors)


def _above(factor: LoopFactor, dimensions: Mapping[str, int]) -> Oddity:
    name, bound = factor.dimension, dimensions[factor.dimension]
    return Oddity(factor.where, f"{name}={factor.value} of {bound}",
                  f'"{name}={factor.value}" is larger than the dimension {name}={bound}',
                  f"factors of {bound}, or 0 for the whole dimension",
                  f"Timeloop ignores it, {name} is free here")


def _twice(first: LoopFactor, second: LoopFactor) -> Oddity:
    return Oddity(second.where, f"{factor_text(first)} and {factor_text(second)}",
                  f'found both "{factor_text(first)}" and "{factor_text(second)}"', "one value for each dimension",
                  "Timeloop takes the second")


MOST_DIGITS = 15
"""Digits of a factor; all such whole numbers are exact in float64."""


def factor_text(factor: LoopFactor) -> str:
    """A factor as both dialects read it, such as "C<=4"."""
    residual = "" if factor.last is None else f",{factor.last}"
    return f"{factor.dimension}{factor.operator}{factor.value}{residual}"


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


def _scan(line: str, where: Where, dimensions: Mapping[str, int], residuals: bool,
          leniency: Leniency) -> Iterator[LoopFactor]:
    rest = line.strip(" \t\n,")
    while rest:
        match = _FACTOR.match(rest)
        if match is None:
            leniency.meet([Oddity(where, f"text {rest}", f'found "{rest.split()[0]}"',
                                  f"factors such as {ACCEPTED} {listed(dimensions)}")])
            rest = _from_next_factor(rest)
            continue
        residual = _RESIDUAL.match(rest, match.end())
        if residual and not residuals:
            leniency.meet([_cut_short(rest[:match.end()], residual, where)])
            rest, residual = rest[:match.end()] + rest[residual.end():], None
        if len(match["value"]) > MOST_DIGITS:
            raise where.error(f'found a factor of {len(match["value"])} digits', f"at most {MOST_DIGITS} digits")
        factor = _factor(match["name"], match["operator"].strip("=") + "=", int(match["value"]), where, dimensions)
        yield _with_residual(factor, residual, where) if residual else factor
        rest = rest[(residual or match).end():].lstrip(" \t\n,")


def _cut_short(factor: str, residual: re.Match[str], where: Where) -> Oddity:
    """A residual in a constraint, where Timeloop's reader searches for the next name behind the number."""
    found = f"{factor}{residual[0]}"
    return Oddity(where, found, f'the residual of "{found}" has no meaning in a constraint',
                  "factors such as P=5; residuals in a mapping alone", f"Timeloop reads {factor}")


def _with_residual(factor: LoopFactor, residual: re.Match[str], where: Where) -> LoopFactor:
    """An exact factor with its residual, which follows its comma at once, as Timeloop reads it."""
    found = f"{factor_text(factor)}{residual[0]}"
    last = int(residual["last"][:MOST_DIGITS])
    if residual[0] != f",{residual['last']}":
        raise where.error(f'found a blank in the imperfect factor "{found}"', f'"{factor_text(factor)},{last}"')
    if factor.operator != "=" or not 1 <= last <= factor.value:
        raise where.error(f'found the imperfect factor "{found}"',
                          f"a residual from 1 to the factor, such as {factor.dimension}={factor.value},1")
    return replace(factor, last=None if last == factor.value else last)


def _from_next_factor(text: str) -> str:
    """The text from the next factor on, as Timeloop searches for one; empty where there is none.

    Timeloop takes the digits of "K=2.0" and goes on searching behind them.
    """
    following = _FOUND_FACTOR.search(text)
    if following is None:
        return ""
    return f"{following[0]} {_UNREAD.sub('', text[following.end():], count=1)}"


def _factor(name: str, operator: str, value: int, where: Where, dimensions: Mapping[str, int]) -> LoopFactor:
    if name not in dimensions:
        raise where.error(f'unknown dimension "{name}" in "{name}{operator}{value}"'
                          f"{nearest(name, list(dimensions))}", listed(dimensions))
    if value == 0 and operator != "=":
        raise where.error(f'found "{name}{operator}0"', f"a limit of 1 or more (0 is the whole dimension in {name}=0)")
    return LoopFactor(name, operator, value or dimensions[name], where)
