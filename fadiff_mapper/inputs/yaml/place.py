"""The place of input: file, line and YAML path, and the error of one line that names them."""

from __future__ import annotations

from typing import NamedTuple

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.base.standard_streams import printable

MOST_SHOWN = 1000
"""Characters of one part of a message."""


class Where(NamedTuple):
    """A place in the input."""

    file: str  # the file as messages show it, or another word for the source, such as "input"
    line: int | None = None  # line from 1; None where there is no text
    path: str = ""  # YAML path, such as "architecture.nodes[2].name"; "" is the whole document

    def child(self, key: object, line: int | None = None) -> Where:
        """The place of an entry: a number is an index of a list, anything else a key. `line` defaults to this one's."""
        return Where(self.file, self.line if line is None else line, self.path_of(key))

    def path_of(self, key: object) -> str:
        """YAML path of an entry, as `child` has it."""
        return f"{self.path}[{key}]" if isinstance(key, int) else f"{self.path}.{key}" if self.path else str(key)

    def __str__(self) -> str:
        file = printable(self.file)
        place = file if self.line is None else f"{file}:{self.line}"
        return f"{place}: {shortened(self.path)}" if self.path else place

    def error(self, found: str, accepted: str = "") -> SpecError:
        """The error of one line for this place: the mistake in words, and the accepted alternatives, if any."""
        return SpecError(f"{self}: {shortened(found)}" + (f"; accepted: {shortened(accepted)}" if accepted else ""))


def shortened(words: str) -> str:
    """The words of a message in one line of printable characters, long ones cut in the middle.

    Input is quoted in messages, whatever its length and characters.
    """
    words = words if len(words) <= MOST_SHOWN else f"{words[:MOST_SHOWN // 2]} ... {words[-MOST_SHOWN // 2:]}"
    return printable(words)
