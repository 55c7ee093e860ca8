"""Templates as values: text that is a template, the work that a template may do, and its rendered text.

Few inputs are templates, and Jinja takes long to load: `jinja_sandbox` renders the ones that are.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

# Plain safety limits.
MAX_UNITS = 1_000_000  # work of a file with all it includes: steps, calls, elements, characters in portions of 16
MAX_SECONDS = 5.0  # seconds of processor time for one file with all it includes, so that a busy machine changes nothing


@dataclass
class Budget:
    """The work that may still be done; shared by a file and all that it includes."""

    units: int = MAX_UNITS  # units left: loop steps, calls, elements, and characters in portions of 16
    # When the time is up, on the clock of `time.thread_time`.
    deadline: float = field(default_factory=lambda: time.thread_time() + MAX_SECONDS)

    def charge(self, units: int) -> None:
        """Spends units. Raises ValueError once there are none left, or the time is up."""
        self.units -= units
        if self.units < 0:
            raise ValueError(f"the template does too much work; accepted: at most {MAX_UNITS} loop steps and values")
        if time.thread_time() > self.deadline:
            raise ValueError(f"the template takes too long; accepted: at most {MAX_SECONDS:g} seconds")

    def weigh(self, value: Any) -> Any:
        """Spends the units of a value, nested elements included, and returns the value."""
        waiting = [value]
        while waiting:
            item = waiting.pop()
            self.charge(1 + len(item) // 16 if isinstance(item, str) else 1)
            if isinstance(item, dict):
                waiting += [*item, *item.values()]
            elif isinstance(item, list | tuple | set | frozenset):
                waiting += item
        return value

    def steps(self, values: Iterable[Any]) -> Iterator[Any]:
        """The same values one by one, one unit each."""
        for value in values:
            self.charge(1)
            yield value


@dataclass(frozen=True)
class Rendered:
    """A rendered template."""

    text: str  # the text
    lines: tuple[tuple[str, int], ...]  # for each line of the text the file and line (from 1) in which it was written


def is_template(text: str) -> bool:
    """Whether the text has template syntax at all; other text is never touched."""
    return any(opening in text for opening in ("{{", "{%", "{#"))
