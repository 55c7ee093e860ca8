"""Input files: regular ones of bounded size, as text.

Other files are refused: reading a pipe blocks, a device may never end, and opening some devices has effects. System
files such as /proc/kmsg are regular and endless, but state size 0; so at most the stated size of a file is read.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import nearest
from fadiff_mapper.inputs.yaml.place import Where

MAX_BYTES = 4 << 20  # bytes of one YAML file, a plain safety limit


def open_input(path: Path, accepted: str, most: int) -> tuple[BinaryIO, int]:
    """Opens a file of at most so many bytes to read; `accepted` is the wanted file in messages.

    Raises SpecError where there is no such file, or it cannot be opened, is too large, or is no regular file.
    """
    where = Where(str(path))
    try:
        if (folder := os.environ.get(bundled_files.WITHIN)) and not any(
                path.resolve().is_relative_to(root) for root in (folder, bundled_files.ROOT)):
            raise where.error("lies outside of the folder", f"files below {folder}")
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise where.error("is a folder", accepted)
        if not stat.S_ISREG(status.st_mode):
            raise where.error("is not a regular file", accepted)
        if status.st_size > most:
            raise where.error(f"has {status.st_size / (1 << 20):.1f} MiB", f"at most {most >> 20} MiB")
        # O_NONBLOCK: if a pipe has just taken the file's place, opening it does not block.
        return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb"), status.st_size
    except FileNotFoundError:
        beside: list[str] = []
        with suppress(OSError):
            beside = [entry.name for entry in path.parent.iterdir()][:1000]
        raise where.error(f"no such file{nearest(path.name, beside)}") from None
    except (OSError, ValueError) as error:
        raise where.error(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def read_text(path: Path, accepted: str = "a YAML file", most: int = MAX_BYTES) -> str:
    """The text of a file of UTF-8 with or without a byte order mark; arguments and errors as of `open_input`.

    Raises SpecError, too, with the line of the first byte that is no text.
    """
    file, size = open_input(path, accepted, most)
    try:
        with file:
            raw = file.read(size)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise Where(str(path)).error(f"cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        line = raw[:error.start].count(b"\n") + 1
        raise Where(str(path), line).error("is not UTF-8 text", accepted) from None
    if "\0" in text:
        line = text[:text.index("\0")].count("\n") + 1
        raise Where(str(path), line).error("is a binary file", accepted)
    return text
