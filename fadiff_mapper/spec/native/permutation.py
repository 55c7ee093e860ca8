"""Loop orders as Timeloop writes them, innermost loop first: "RSP", "R S P", "RS_PQ", or a list of names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.yaml.located import kind_of, sequence, text
from fadiff_mapper.yaml.place import Where

SEPARATOR = "_"
"""Between the innermost and the outermost loops of a partial order: the loops in between are free."""


def parse_permutation(
    value: Any, where: Where, dimensions: Collection[str], *, commas: bool = False,
    idle: Collection[str] = (), leniency: Leniency = STRICT
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads a permutation.

    The loops before `_` (all of them, where there is none) are the innermost ones, the loops after it the outermost.
    In a string every letter is a dimension and blanks do not count; longer names stand apart, in a list or between
    blanks. Text from "#" on is a comment, as in Timeloop.

    Args:
        value: A string or a list of strings.
        where: Its place.
        dimensions: Names of the problem's dimensions.
        idle: Dimensions without a loop here. Where those that are left out are idle too, Timeloop puts up with an idle
            one that stands twice: both are loops of one iteration.
        leniency: Decides about these.
        commas: Whether a string may hold commas, which the v0.4 front end reads; `timeloop-model` crashes on them.

    Returns:
        (innermost, outermost) dimensions, both from the inside outwards.

    Raises:
        SpecError: An unknown dimension, a dimension named twice, a second `_`, a comma.
    """
    names = [name for token, place in _tokens(value, where, commas) for name in _names(token, place, dimensions)]
    if names.count(SEPARATOR) > 1:
        raise where.error(f'found "{SEPARATOR}" {names.count(SEPARATOR)} times', f'at most one "{SEPARATOR}"')
    for name in sorted({name for name in names if names.count(name) > 1}):
        found = f'the dimension "{name}" stands twice in the permutation'
        if not {name, *(left for left in dimensions if left not in names)} <= {*idle}:
            raise where.error(found, "each dimension once")
        leniency.meet([Oddity(where, f"permutation {value}", found, "each dimension once",
                              "it has no loop here")])
    names = list(dict.fromkeys(names))
    split = names.index(SEPARATOR) if SEPARATOR in names else len(names)
    return tuple(names[:split]), tuple(names[split + 1:])


def permutation_text(inner: Sequence[str], outer: Sequence[str] = ()) -> str:
    """An order as one string of letters, which the native dialect reads.

    Args:
        inner: The innermost dimensions, innermost first; their names are single letters.
        outer: The outermost dimensions, innermost first.
    """
    return "".join(inner) + (SEPARATOR + "".join(outer) if outer else "")


def _tokens(value: Any, where: Where, commas: bool) -> list[tuple[str, Where]]:
    """The words of a string, or the entries of a list, with their places."""
    if isinstance(value, str):
        line = value.split("#")[0]
        if "," in line and not commas:
            raise where.error(f'found commas in "{value}"', "letters side by side, innermost first")
        return [(token, where) for token in line.replace(",", " ").split()]
    if isinstance(value, list | tuple):
        entries = sequence(value, where)
        return [(text(entry, entries.at(i)).strip(), entries.at(i)) for i, entry in enumerate(entries)]
    raise where.error(f"found {kind_of(value)}", "a string of dimensions, innermost first, or a list of them")


def _names(token: str, where: Where, dimensions: Collection[str]) -> list[str]:
    """One dimension or separator, or the letters of the token where each of them is one."""
    known = {*dimensions, SEPARATOR}
    if token in known:
        return [token]
    if all(letter in known for letter in token):
        return list(token)
    wrong = next(letter for letter in token if letter not in known) if max(map(len, known)) == 1 else token
    raise where.error(f'unknown dimension "{wrong}" in the permutation{nearest(wrong, list(dimensions))}',
                      listed(dimensions))
