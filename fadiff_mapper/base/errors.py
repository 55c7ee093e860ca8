"""The one family of errors: where, what was found, and what is accepted.

Everything that a user can get wrong ends in a `FadiffError` whose text is ready to print. The command
line turns it into exit code 2, as it does failures of the operating system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


class FadiffError(Exception):
    """Base of all errors that are meant for the user. Its text is one or several plain lines."""


class SpecError(FadiffError):
    """An input file says something that cannot be understood or is not supported.

    `problems` holds one line per mistake, each "file:line: yaml.path: what; accepted: ...".
    """

    def __init__(self, *problems: str):
        self.problems: tuple[str, ...] = problems
        super().__init__("\n".join(problems))


class InvalidMapping(FadiffError):
    """A mapping that the architecture cannot run, with Timeloop's reason.

    `level` is the name of the storage or arithmetic level that is to blame, `reason` is the sentence
    that `timeloop-model` prints after "couldn't map level NAME: ".
    """

    def __init__(self, level: str, reason: str):
        self.level = level
        self.reason = reason
        super().__init__(f"couldn't map level {level}: {reason}")


def listed(names: Iterable[object]) -> str:
    """`a, b, c`, or `nothing` where there is none."""
    return ", ".join(str(name) for name in names) or "nothing"


def nearest(word: str, accepted: Sequence[str]) -> str:
    """` (did you mean "x"?)` where one of the accepted words is near, else an empty string."""
    lower = {name.lower(): name for name in reversed(accepted)}
    found = get_close_matches(word.lower(), list(lower), n=1, cutoff=0.6)
    return f' (did you mean "{lower[found[0]]}"?)' if found else ""
