"""The one family of errors. Messages state the place, the text found, and the accepted values.

A user's mistake ends in a `FadiffError` whose text is ready to print; the command line ends with exit code 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TypeVar

T = TypeVar("T")
MOST_PROBLEMS = 50  # mistakes of one input that a message lists


class FadiffError(Exception):
    """Base of all errors that are meant for the user. Its text is one or several plain lines."""


class SpecError(FadiffError):
    """An input file says something that cannot be understood or is not supported.

    Attributes:
        problems: One line per mistake, each "file:line: yaml.path: what was found; accepted: ...".
    """

    def __init__(self, *problems: str):
        self.problems: tuple[str, ...] = problems
        more = [f"and {len(problems) - MOST_PROBLEMS} more mistakes"] if len(problems) > MOST_PROBLEMS else []
        super().__init__("\n".join([*problems[:MOST_PROBLEMS], *more]))


@contextmanager
def noted(mistakes: list[str]) -> Iterator[None]:
    """Collects the lines of a SpecError raised inside the block; the program goes on after the block."""
    try:
        yield
    except SpecError as error:
        mistakes += error.problems


class InvalidMapping(FadiffError):
    """A mapping that the architecture cannot run, with Timeloop's reason.

    Attributes:
        level: Name of the storage or arithmetic level that is to blame.
        reason: The sentence that `timeloop-model` prints after "couldn't map level NAME: ".
    """

    def __init__(self, level: str, reason: str):
        self.level = level
        self.reason = reason
        super().__init__(f"couldn't map level {level}: {reason}")


class OutOfTime(FadiffError):
    """Time was over, or Ctrl-C came, before there was a result."""

    def __init__(self, message: str = "out of time"):
        super().__init__(message)


def attempted(what: str, work: Callable[[], T]) -> tuple[T | None, str]:
    """Does work on a finished result, such as its lower bound or its page, whose failure must not lose the result.

    Returns the work's value and "", or None and a line that `what` is missing and why, programming errors included.
    """
    try:
        return work(), ""
    except Exception as error:
        reason = ("there was no time" if isinstance(error, OutOfTime) else
                  str(error) if isinstance(error, FadiffError) else f"{type(error).__name__}: {error}")
        return None, f"no {what}: {' '.join(reason.split())}"


def listed(names: Iterable[object]) -> str:
    """The names as `a, b, c` for a message; `nothing` where there is none."""
    return ", ".join(str(name) for name in names) or "nothing"


def nearest(word: str, accepted: Sequence[str]) -> str:
    """A hint for a misspelt word: ` (did you mean "x"?)`, or "" where no accepted word is similar.

    Similar is difflib's ratio of at least 0.6, its default; case does not count.
    """
    by_lower_case = {name.lower(): name for name in reversed(accepted)}  # reversed: of equal names the first counts
    matches = get_close_matches(word.lower(), list(by_lower_case), n=1, cutoff=0.6)
    return f' (did you mean "{by_lower_case[matches[0]]}"?)' if matches else ""
