"""Plain values that remember where they were written, and the typed reading of them.

A loaded document is made of `Map` (a dict), `Seq` (a list) and plain scalars. A `Map` or `Seq` knows its own `Where`
and the place of each of its entries, so every later complaint can name file, line and YAML path. A `Reader` takes the
keys of one `Map`, checks their types, and complains about unknown keys, which Timeloop drops in silence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.inputs.yaml.expressions import resolve
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

T = TypeVar("T")
L = TypeVar("L", bound="Located")
Check = Callable[[Any, Where], T]  # (value, place) -> the value as the wanted type, or a SpecError with the place
CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
"""Characters that no text has: they steer terminals, turn the direction of the text, or cannot be written."""
MOST_SHOWN_BITS = 1024
"""Bits of a whole number that is shown in a message; Python refuses to write numbers of more than 4,300 digits."""


class Located:
    """A mapping or sequence that knows its place, its tag, such as "!Component", and the places of written entries."""

    def __init__(self, items: Any = (), *, where: Where, tag: str | None = None,
                 places: Mapping[Any, Where] | None = None):
        super().__init__(items)  # type: ignore[call-arg]  # of the dict or list beside it
        self.where, self.tag, self.places = where, tag, dict(places or {})  # places by key or index

    def at(self, key: object) -> Where:
        """Place of an entry; for a missing entry, or one without a place of its own, a child of the whole's place."""
        return self.places.get(key) or self.where.child(key)

    def having(self: L, items: Any) -> L:
        """The same with other entries at the same places."""
        return type(self)(items, where=self.where, tag=self.tag, places=self.places)


class Map(Located, dict[Any, Any]):
    """A YAML mapping that knows its places."""


class Seq(Located, list[Any]):
    """A YAML sequence that knows its places."""

    def placed(self) -> Iterator[tuple[Any, Where]]:
        """Each entry with its place."""
        return ((item, self.at(i)) for i, item in enumerate(self))


def placed_list(entries: Iterable[tuple[Any, Where]], where: Where, tag: str | None = None) -> Seq:
    """The list of some entries, each with its place."""
    entries = list(entries)
    return Seq([item for item, _ in entries], where=where, tag=tag,
               places={index: place for index, (_, place) in enumerate(entries)})


def with_places(value: Any, where: Where) -> Any:
    """Turns dicts and lists into `Map` and `Seq`, recursively, with places below `where`; a `Map` or `Seq` stays."""
    if isinstance(value, Map | Seq):
        return value
    if isinstance(value, dict):
        return Map({key: with_places(item, where.child(key)) for key, item in value.items()}, where=where)
    if isinstance(value, list | tuple):
        return Seq([with_places(item, where.child(i)) for i, item in enumerate(value)], where=where)
    return value


def plain(value: Any) -> Any:
    """The same value as ordinary dicts and lists, for writing it out; tags and places are lost."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


def kind_of(value: object) -> str:
    """The name of a value's type for a message, scalars with the value itself (at most 60 characters)."""
    if isinstance(value, int) and value.bit_length() > MOST_SHOWN_BITS:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    names = {str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    name = next((name for base, name in names.items() if isinstance(value, base)), "")
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "..."
    return f"{name} ({shown})" if name else "nothing" if value is None else type(value).__name__


# Checks: (value, where) -> value of the right type, or SpecError.

LARGEST = 1e30  # the largest number that is read: sums and products of a few such numbers stay within a float's range
SMALLEST = 1e-30  # the smallest number but 0 that is read, without its sign: quotients stay within a float's range
LARGEST_WHOLE = 2 ** 53  # the largest whole number that is read: up to here counts in float64 are exact


def number(value: Any, where: Where, minimum: float | None = None, above: float | None = None) -> float:
    """Checks for a finite number, at least `minimum` or greater than `above`; the type, int or float, is kept.

    Text such as "1e-9" counts, too, as YAML 1.1 reads such a number as text.
    """
    wanted = "a number" + (f" >= {minimum:g}" if minimum is not None else "") + (
        f" > {above:g}" if above is not None else "")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise where.error(f"found {kind_of(value)}", wanted) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise where.error(f"found {kind_of(value)}", wanted)
    if not abs(value) <= LARGEST:  # infinite values, and those that are no number, too
        raise where.error(f"found {kind_of(value)}", f"{wanted}, of at most {LARGEST:g}")
    if value and abs(value) < SMALLEST:
        raise where.error(f"found {kind_of(value)}", f"{wanted}, of at least {SMALLEST:g} where it is not 0")
    if (minimum is not None and value < minimum) or (above is not None and value <= above):
        raise where.error(f"found {value}", wanted)
    return value


def integer(value: Any, where: Where, minimum: int | None = None) -> int:
    """Checks for a whole number of at least `minimum`; 16.0 and "16" count as 16."""
    if type(value) is int and abs(value) <= LARGEST_WHOLE and (minimum is None or value >= minimum):
        return value
    wanted = "a whole number" + (f" >= {minimum}" if minimum is not None else "")
    real = number(value, where)
    if abs(real) > LARGEST_WHOLE:
        raise where.error(f"found {kind_of(value)}", f"{wanted}, of at most 2^53")
    if real != int(real) or (minimum is not None and real < minimum):
        raise where.error(f"found {value!r}", wanted)
    return int(real)


natural: Check[int] = partial(integer, minimum=0)  # a check for a whole number of at least 0
positive: Check[int] = partial(integer, minimum=1)  # a check for a whole number of at least 1


def text(value: Any, where: Where) -> str:
    """Checks for a string; a bare number is taken as its digits, as a level may be named 3."""
    if isinstance(value, str):
        if not value.isprintable() and (control := CONTROL.search(value)):
            raise where.error(f"the character {control[0]!r} stands in a text", "printable characters")
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
        return str(value)
    raise where.error(f"found {kind_of(value)}", "a string")


TRUTH = {"true": True, "yes": True, "y": True, "on": True, "false": False, "no": False, "n": False, "off": False}
"""The words for truth values of YAML 1.1, which Timeloop reads."""


def boolean(value: Any, where: Where) -> bool:
    """Checks for true or false, also as one of `TRUTH`, which YAML 1.2 and this program load as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in TRUTH:
        return TRUTH[value.lower()]
    raise where.error(f"found {kind_of(value)}", "true or false")


def mapping(value: Any, where: Where) -> Map:
    """Checks for a mapping; a plain dict becomes a `Map`."""
    if isinstance(value, dict):
        return value if isinstance(value, Map) else with_places(value, where)
    raise where.error(f"found {kind_of(value)}", "a mapping")


def sequence(value: Any, where: Where) -> Seq:
    """Checks for a list; a plain list or tuple becomes a `Seq`."""
    if isinstance(value, list | tuple):
        return value if isinstance(value, Seq) else with_places(list(value), where)
    raise where.error(f"found {kind_of(value)}", "a list")


def anything(value: Any, where: Where) -> Any:
    """Accepts every value, for keys that are read elsewhere or have no effect."""
    return value


def one_of(*accepted: str) -> Check[str]:
    """A check for one of the given words."""
    return partial(known, accepted=accepted)


def known(name: Any, where: Where, accepted: Collection[str], word: str = "") -> str:
    """Checks for one of the accepted names. SpecError names the nearest one; `word` is the noun for a name in it."""
    if name not in accepted:
        found = f'unknown {word} "{name}"' if word else f"found {kind_of(name)}"
        raise where.error(f"{found}{nearest(str(name), list(accepted))}", listed(accepted))
    return str(name)


def each(check: Check[T]) -> Check[tuple[T, ...]]:
    """A check for a list whose entries pass another check, read as a tuple."""
    return lambda value, where: tuple(check(entry, place) for entry, place in sequence(value, where).placed())


REQUIRED: Any = object()  # the default of a key that must be there


@dataclass(frozen=True, eq=False)
class Kind:
    """The values that a key accepts."""

    read: Callable[[Any, Where, Leniency], Any]  # (value, place, leniency) -> the right type, or a SpecError
    words: str  # the accepted values in words
    schema: dict[str, Any]  # the same as JSON Schema, null aside


@dataclass(frozen=True)
class Key:
    """One key of the input."""

    spellings: tuple[str, ...]  # its name, then other spellings; the first spelling in the input counts
    kind: Kind  # the values that it accepts; null counts as absent
    default: Any  # the value where it is absent; `REQUIRED` where it must be there
    meaning: str  # a few words for the reference


Table = Mapping[str, Key]  # the keys of one mapping by their names


@dataclass
class Reader:
    """Takes keys from one `Map`; `finish` complains about unknown keys, which Timeloop drops in silence."""

    node: Map  # the mapping that is read
    table: Table  # its keys
    leniency: Leniency = STRICT  # decides whether an unknown key is an error
    asked: list[str] = field(default_factory=list)  # all keys asked for so far, in order
    names: Mapping[str, object] | None = None  # what expressions in values may name; None: values are plain

    def at(self, name: str) -> Where:
        """Place of a key."""
        return self.node.at(name)

    def read(self, name: str, *default: Any, check: Check[Any] | None = None) -> Any:
        """Reads the value of a key of the table; a null counts as absent.

        Of several spellings of the key the first that is there counts. A given default replaces the table's; defaults
        are returned unchecked. `check` reads the value, as written, in place of the table's kind where the accepted
        values depend on other input; others are worked out with `names` first. Raises SpecError for a value that is
        not accepted, and where a key without a default is absent.
        """
        key = self.table[name]
        self.asked += key.spellings
        for spelling in key.spellings:
            value, where = self.node.get(spelling), self.node.at(spelling)
            if value is not None:
                if check is not None:
                    return check(value, where)
                return key.kind.read(value if self.names is None else resolve(value, where, self.names), where,
                                     self.leniency)
        found = default[0] if default else key.default
        if found is REQUIRED:
            raise self.node.where.error(f'the key "{name}" is missing', listed(key.spellings))
        return found

    def refuse(self, name: str, why: str) -> None:
        """Refuses a key of valid Timeloop input that is not modelled here; null, false, 0 and empty values may stay."""
        if self.read(name):
            raise self.node.at(name).error(f'"{name}" is not supported: {why}')

    def finish(self, context: str = "", whole: bool = True) -> None:
        """Reports keys that no reader asked for and that are not in the table, each with the nearest known key.

        `context`: words after the key in the message, such as " of a coefficient". `whole`: whether the whole table is
        accepted, be it asked for or not.
        """
        table = [name for key in self.table.values() for name in key.spellings if whole]
        accepted = list(dict.fromkeys([*table, *self.asked]))
        if not self.node.keys() <= set(accepted):
            self.leniency.meet(
                Oddity(self.node.at(key), f"key {key}{context}",
                       f'unknown key "{key}"{context}{nearest(str(key), accepted)}', listed(accepted))
                for key in self.node if key not in accepted)


def readers(rows: Seq, table: Table, leniency: Leniency = STRICT) -> Iterator[Reader]:
    """One reader for each mapping in a list, all with the keys of the same table."""
    return (Reader(mapping(row, where), table, leniency) for row, where in rows.placed())
