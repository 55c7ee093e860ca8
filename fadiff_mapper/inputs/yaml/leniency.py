"""Input that Timeloop ignores or puts up with: an error for a strict reader, a warning for a lenient one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fadiff_mapper.base.errors import MOST_PROBLEMS, SpecError

if TYPE_CHECKING:
    from fadiff_mapper.inputs.yaml.place import Where


@dataclass(frozen=True)
class Oddity:
    """Input that Timeloop reads without a complaint, and not as its author meant it."""

    where: Where
    subject: str  # the key or text in question; a file with the same one several times gets one warning
    found: str  # the mistake in words, with the nearest accepted key
    accepted: str  # the accepted alternatives
    # The treatment that Timeloop gives it, for the warning; empty where `found` says so already.
    outcome: str = "Timeloop ignores it"


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


STRICT = Leniency(strict=True)
"""Refuses every oddity."""


