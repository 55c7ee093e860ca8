"""Text for a terminal, a pipe or a log, and the exit of a program that prints it.

Names of files, layers and levels come from inputs. So all text passes through `shown`, whether it is printed here or in
tables (`output/terminal/console.py`): no character controls the terminal, and its encoding has all characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.program_start import INTERRUPTED

MOST_SHOWN = 1000  # characters of one part of a message
LONGEST_LINE = 3000  # characters of an error's line, as file names may be as long as a command line


def printable(text: str, kept: str = "") -> str:
    """The text with unprintable characters, except `kept` ones, as Python writes them, such as `\\x1b`."""
    return text if text.isprintable() else "".join(
        letter if letter.isprintable() or letter in kept else repr(letter)[1:-1] for letter in text)


def shortened(words: str) -> str:
    """The words of a message in one line of printable characters; a long text is cut in the middle.

    Input is quoted in messages, whatever its length and characters.
    """
    words = words if len(words) <= MOST_SHOWN else f"{words[:MOST_SHOWN // 2]} ... {words[-MOST_SHOWN // 2:]}"
    return printable(words)


def shown(text: str, encoding: str | None) -> str:
    """The text in printable characters of a stream's encoding (None: Unicode); lines and tabs stay."""
    encoding = encoding or "utf-8"
    return printable(text, "\n\t").encode(encoding, "backslashreplace").decode(encoding)


def say(text: str, stream: TextIO | None = None, flush: bool = False) -> None:
    """Prints a text and an end of line to a stream; None: standard output, which may be closed."""
    stream = stream or sys.stdout
    if stream is not None:
        print(shown(text, getattr(stream, "encoding", None)), file=stream, flush=flush)


def say_error(error: object, mark: str = "error: ") -> None:
    """Prints the lines of a message, `mark` before each, to standard error, if it is open; long lines are cut."""
    for line in str(error).splitlines():
        cut = line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE // 2]} ... {line[-LONGEST_LINE // 2:]}"
        if sys.stderr is not None:
            try:
                say(f"{mark}{cut}", sys.stderr)
            except (OSError, ValueError):  # a full disk; a stream that was closed
                drop_output(sys.stderr)


def drop_output(stream: TextIO) -> None:
    """Redirects a standard stream that has failed to nowhere, so that Python's last flush does not fail again."""
    with suppress(OSError, ValueError, AttributeError):  # it is a text in memory, or closed
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def ended(work: Callable[[], int], failed: int, mark: str = "error: ") -> int:
    """Does the work of a program, which returns the exit code, and prints expected errors as lines.

    After an error the exit code is `failed`, and its lines have `mark` in front. If the reader of the output has ended,
    as in `| head`, the exit code is 0."""
    # No file gets the number of a closed standard stream: compiled libraries write warnings to number 2 in any case.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)
    try:
        code = work()
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except FadiffError as error:
        say_error(error, mark)
    except KeyboardInterrupt:
        say_error("interrupted", "")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output(sys.stdout)
        return 0
    except OSError as error:  # such as a full disk
        if error.filename is None:
            drop_output(sys.stdout)
        say_error(f"{error.filename or 'standard output'}: {error.strerror or error}", mark)
    except (MemoryError, RecursionError) as error:
        say_error(f"the input is too large for this machine: {type(error).__name__}", mark)
    return failed
