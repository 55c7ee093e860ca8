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
    """Input that Timeloop reads without a complaint, and not as its author meant it.

    Attributes:
        where: Its place.
        subject: The key or text in question; a file with the same one several times gets one warning.
        found: The mistake in words, with the nearest accepted key.
        accepted: The accepted alternatives.
        outcome: The treatment that Timeloop gives it, for the warning; empty where `found` says so already.
    """

    where: Where
    subject: str
    found: str
    accepted: str
    outcome: str = "Timeloop ignores it"


@dataclass
class _Warned:
    """A warning and the number of places that it stands for."""

    text: str
    places: int = 1


@dataclass(frozen=True)
class Leniency:
    """Decides about oddities, and collects the warnings of one reading.

    Attributes:
        strict: Whether an oddity is an error.
        collected: The warnings so far, by file and subject.
    """

    strict: bool
    collected: dict[tuple[str, str], _Warned] = field(default_factory=dict)

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
            key = (oddity.where.file, oddity.subject)
            if key in self.collected:
                self.collected[key].places += 1
            else:
                self.collected[key] = _Warned(_warning(oddity))
        return []

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings in the order of the reading, each with file, line and path of its first place."""
        return tuple(warned.text if warned.places == 1 else f"{warned.text} (and {warned.places - 1} more in this file)"
                     for warned in self.collected.values())


STRICT = Leniency(strict=True)
"""Refuses every oddity."""


def _warning(oddity: Oddity) -> str:
    return str(oddity.where.error(f"{oddity.found}: {oddity.outcome}" if oddity.outcome else oddity.found))
