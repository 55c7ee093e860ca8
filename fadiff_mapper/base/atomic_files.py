"""A run's folder: only one run writes to it at a time, and each file is there whole or not at all.

Texts are written beside their destination, forced to disk and then renamed, as `rename(2)` replaces a file in one
step. An advisory lock (`flock(2)`) holds the folder; the system drops it when its process ends.

Renaming replaces whatever has the name, so only regular files are replaced: a device or a link would be lost. A link to
a file is not followed, because it would lead out of the folder; a user can name its target instead. A link to a folder
is followed, as runs are often kept on another disk.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError

REMAINS = re.compile(r"\.(?:(?P<name>.+)\.)?(?P<process>\d{1,9})\.(?:partial|probe)", re.DOTALL)
"""Names of files that are being written, and of probes, with the number of the process."""
LOCK_NAME = ".fadiff.lock"  # the file in a run's folder that its process holds locked


def write_files(folder: Path | str, files: Mapping[str, str | bytes], mode: int = 0o666) -> None:
    """Writes files (name -> content; text as UTF-8) into a folder, which is made where it does not exist.

    Every file is first written in full beside its destination and forced to disk; only then all of them are
    renamed. So a full disk, a missing permission or an interruption leaves the files of before untouched, and
    no reader ever sees half a file. `mode` are the permissions before the user's mask is taken off. Raises FadiffError
    with the file and the reason where a file cannot be written, or something else than a regular file has its name.
    """
    folder = Path(folder)
    _make(folder)
    check_names(folder, files)
    _remove_remains(folder, files)
    partial = {name: folder / f".{name}.{os.getpid()}.partial" for name in files}
    try:
        for name, content in files.items():
            with _reported(folder / name):
                _write(partial[name], content, mode)
        for name, path in partial.items():
            with _reported(folder / name):
                os.replace(path, folder / name)
    finally:
        for path in partial.values():
            with suppress(OSError):
                path.unlink()
    with suppress(OSError):     # the renames go to disk where the file system can do that for folders
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def append_line(path: Path, line: bytes) -> int:
    """Appends a line to a file that only this process writes, and others may read; returns its first byte's place.

    The line is there whole or not at all, unless the process is killed meanwhile: readers must ignore a last line
    without an end. Nothing is forced to disk, so that a crash of the machine may lose the newest lines. Folders around
    the file are made where they do not exist. Raises FadiffError as `write_files` does.
    """
    check_names(path.parent, [path.name])
    _make(path.parent)
    with _reported(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        try:
            start, left = os.fstat(descriptor).st_size, memoryview(line)
            try:
                while left:
                    left = left[os.write(descriptor, left):]
            except BaseException:
                os.ftruncate(descriptor, start)
                raise
        finally:
            os.close(descriptor)
    return start


def check_writable(folder: Path | str) -> None:
    """Makes the folder and writes a probe into it, so that a long run fails at its start. Raises FadiffError."""
    folder = Path(folder)
    _make(folder)
    _remove_remains(folder, ())
    probe = folder / f".{os.getpid()}.probe"
    try:
        with _reported(folder):
            _write(probe, "")
    finally:
        with suppress(OSError):
            probe.unlink()


def check_names(folder: Path | str, names: Iterable[str], inputs: Collection[Path | str] = ()) -> None:
    """Checks the names of files that will be written, so that a long run does not fail at its end.

    Raises FadiffError for names that lead out of the folder, are no files, or are `inputs`, which the run reads.
    """
    for name in names:
        path = Path(folder) / name
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise FadiffError(f'{folder}: cannot write "{name}": not the name of a file')
        with _reported(path), suppress(FileNotFoundError, NotADirectoryError):  # there is no folder: `_make` reports it
            mode = path.lstat().st_mode
            if stat.S_ISDIR(mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if stat.S_ISLNK(mode):
                raise FadiffError(f"{path}: cannot be written: it is a link to {os.readlink(path)}; accepted: the name "
                                  "of the file itself, or a new one")
            if not stat.S_ISREG(mode):
                raise FadiffError(f"{path}: cannot be written: it is no regular file; accepted: a file, or a new name")
            for source in inputs:
                with suppress(OSError, ValueError):  # a missing input is reported by its reader
                    if os.path.samefile(path, source):
                        raise FadiffError(f"{path}: cannot be written: this command reads it; accepted: another output")


@contextmanager
def lock(folder: Path | str, written: Mapping[Path, Iterable[str]] | None = None,
         read: Iterable[str | os.PathLike[str]] = ()) -> Iterator[None]:
    """Holds a folder for one run, as a context manager.

    The folder is made where it does not exist, and removed again where nothing was written. The lock belongs to the
    process, and ends with it. `written`: folder -> names of the files that the run will write; `read`: the files that
    it reads. Raises FadiffError where another run holds the folder (with its process id), where the folder cannot be
    written to, or a name cannot be written (`check_names`).
    """
    inputs = list(map(Path, read))
    for place, names in (written or {}).items():
        check_names(place, names, inputs)
    folder = Path(folder)
    new = not folder.exists()
    _make(folder)
    path = folder / LOCK_NAME
    check_names(folder, [LOCK_NAME])
    with _reported(path):
        while True:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with suppress(FileNotFoundError):
                    if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                        break
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                os.close(descriptor)
                raise FadiffError(f"another run writes to {folder} (pid {holder or 'unknown'})") from None
            except BaseException:
                os.close(descriptor)
                raise
            # The previous holder removed this file after we had opened it: a lock on it would exclude no other run.
            os.close(descriptor)
    try:
        with _reported(path):  # the process's id, for the message of the next run
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)
        if new:
            with suppress(OSError):  # the run left files
                folder.rmdir()


def _make(folder: Path) -> None:
    """Makes the folder and those around it. Raises FadiffError."""
    with _reported(folder):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            what = "a link that leads to none" if folder.is_symlink() else "a file"
            raise FadiffError(f"{folder}: there is {what} where the folder should be") from None


def _remove_remains(folder: Path, names: Collection[str]) -> None:
    """Removes probes, and parts of the named files, that were left by processes that were killed while they wrote."""
    with suppress(OSError):  # a folder that cannot be listed can still be written to
        for entry in list(os.scandir(folder)):
            match = REMAINS.fullmatch(entry.name)
            if match and (match["name"] is None or match["name"] in names):
                with suppress(OSError):
                    try:
                        os.kill(int(match["process"]), 0)
                    except (ProcessLookupError, OverflowError):
                        os.unlink(entry.path)


def _write(path: Path, content: str | bytes, mode: int = 0o666) -> None:
    """Writes a whole new file and forces it to disk, in place of a file that an earlier process of our number left."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with open(descriptor, "wb") as file:
        # A file name that is no Unicode, quoted in a text, must not stop the writing.
        file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
        file.flush()
        os.fsync(descriptor)


@contextmanager
def _reported(path: Path) -> Iterator[None]:
    """Turns failures of the operating system into errors that name the path."""
    try:
        yield
    except OSError as error:
        raise FadiffError(f"{path}: cannot be written: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise FadiffError(f"{str(path)!r}: cannot be written: {error}") from None
