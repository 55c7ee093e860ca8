"""Places in the input, and errors and warnings about input at a place.

A mistake is an error of one line, with file, line and YAML path. Input that Timeloop ignores or puts up with is an
error for a strict reader, a warning for a lenient one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from fadiff_mapper.base.errors import MOST_PROBLEMS, SpecError
from fadiff_mapper.base.standard_streams import printable, shortened


class Where(NamedTuple):
    """A place in the input."""

    file: str  # the file as messages show it, or another word for the source, such as "input"
    line: int | None = None  # line from 1; None where there is no text
    path: str = ""  # YAML path, such as "architecture.nodes[2].name"; "" is the whole document

    def child(self, key: object) -> Where:
        """The place of an entry in the same line: a number is an index of a list, anything else a key."""
        path = f"{self.path}[{key}]" if isinstance(key, int) else f"{self.path}.{key}" if self.path else str(key)
        return Where(self.file, self.line, path)

    def __str__(self) -> str:
        file = printable(self.file)
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {shortened(self.path)}" if self.path else place

    def error(self, found: str, accepted: str = "") -> SpecError:
        """The error of one line for this place: the mistake in words, and the accepted alternatives, if any."""
        return SpecError(f"{self}: {shortened(found)}" + (f"; accepted: {shortened(accepted)}" if accepted else ""))


@dataclass(frozen=True)
class Oddity:
    """Input that Timeloop reads without a complaint, and not as its author meant it."""

    where: Where
    subject: str  # the key or text in question; a file with the same one several times gets one warning
    found: str  # the mistake in words, with the nearest accepted key
    accepted: str  # the accepted alternatives
    outcome: str = "Timeloop ignores it"  # its treatment, for the warning; empty where `found` says so


@dataclass(frozen=True)
class Leniency:
    """Decides about oddities, and collects the warnings of one reading."""

    strict: bool  # whether an oddity is an error
    # File and subject -> the first warning, and the number of places that it covers.
    collected: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    def meet(self, oddities: Iterable[Oddity]) -> None:
        """Collects a warning for each oddity, or refuses all of them in one SpecError where `strict`."""
        mistakes = self.mistakes(oddities)
        if mistakes:
            raise SpecError(*mistakes)

    def mistakes(self, oddities: Iterable[Oddity]) -> list[str]:
        """The lines of `meet`'s error, for a caller with more to complain about; empty unless `strict`."""
        if self.strict:
            lines = [str(oddity.where.error(oddity.found, oddity.accepted)) for oddity in oddities]
            more = len(lines) - MOST_PROBLEMS + 1
            return lines if more <= 1 else [*lines[:-more], f"{more} more of this sort"]
        for oddity in oddities:
            found = f"{oddity.found}: {oddity.outcome}" if oddity.outcome else oddity.found
            key = (oddity.where.file, oddity.subject)
            text, places = self.collected.get(key) or (str(oddity.where.error(found)), 0)
            self.collected[key] = text, places + 1
        return []

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings in the order of the reading, each with file, line and path of its first place."""
        return tuple(text if places == 1 else f"{text} (and {places - 1} more in this file)"
                     for text, places in self.collected.values())


STRICT = Leniency(strict=True)  # refuses every oddity
