"""One search shared by several processes: an optuna study as a journal of JSON lines in the folder of the store.

The journal's lock is optuna's symbolic link, as `flock(2)` fails on network file systems. A lock whose process was
killed is taken over after 30 s.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from fadiff_mapper.base.atomic_files import append_line, check_names
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.version import __version__
from fadiff_mapper.design.layer_entries import digest_of
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.space import design_document
from fadiff_mapper.inputs.yaml.located import plain
from fadiff_mapper.workload.readers.network_text import network_text


class StudyJournal:
    """A backend of optuna's `JournalStorage`: one operation a line, whole or not at all.

    `lock` is one of optuna's locks of journals. A last line without an end, from a process that was killed while
    writing, is not read, and is cut off before the next line is written.
    """

    def __init__(self, file: Path, lock: Any) -> None:
        self.file, self.lock = file, lock
        self.starts = [0]  # the first byte of every line read so far, and of the next line

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """The operations from a number on. Raises FadiffError for a damaged line."""
        with suppress(FileNotFoundError), self.file.open("rb") as file:
            file.seek(self.starts[log_number_from])
            for number, line in enumerate(file, log_number_from + 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    operation = json.loads(line)
                except ValueError:
                    raise FadiffError(f"{self.file}, line {number}: damaged; accepted: a new name of a study") from None
                if number == len(self.starts):
                    self.starts.append(self.starts[-1] + len(line))
                yield operation

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Appends operations to the journal. Raises FadiffError if they cannot be written."""
        self.lock.acquire()
        try:
            with suppress(FileNotFoundError), self.file.open("r+b") as file:
                if file.seek(0, os.SEEK_END):
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":
                        file.seek(0)
                        file.truncate(file.read().rfind(b"\n") + 1)
            append_line(self.file, "".join(json.dumps(log) + "\n" for log in logs).encode())
        finally:
            with suppress(RuntimeError):  # taken over by another process
                self.lock.release()


def open_study(optuna: Any, file: Path, question: DesignQuestion, method: str) -> tuple[Any, bool]:
    """The optuna study of a question in a journal, with optuna's default sampler, and whether this process began it.

    Raises FadiffError for a study of another question, and where the file cannot be read or written.
    """
    space, options = question.space, question.options
    ends = [tuple(place * (len(parameter.values) - 1) for parameter in space.parameters) for place in (0, 1)]
    name = digest_of(["study", __version__, method, [plain(design_document(space, point)) for point in ends],
                      [(each.name, each.path, list(each.values)) for each in space.parameters],
                      sorted((path, tie.expression) for path, tie in space.ties.items()),
                      sorted(space.limits.items()),
                      [network_text(network) for network in question.networks], question.weights, options.metrics,
                      question.fuse, options.seed, question.energy, space.strict,
                      options.calibration and options.calibration.record()])
    check_names(file.parent, [file.name])
    try:
        # absolute: optuna takes the age of a lock from the file that its link names
        journal = StudyJournal(file, optuna.storages.journal.JournalFileSymlinkLock(str(file.absolute())))
        storage, begun = optuna.storages.JournalStorage(journal), False
        if not optuna.get_all_study_names(storage):
            with suppress(optuna.exceptions.DuplicatedStudyError):
                optuna.create_study(storage=storage, study_name=name, directions=["minimize"] * len(options.metrics))
                begun = True
        if optuna.get_all_study_names(storage)[0] != name:
            raise FadiffError(f"{file}: holds a search of another space, network, method, option, seed or version; "
                              "accepted: the same question, or a new name of a study")
        return optuna.load_study(study_name=name, storage=storage), begun
    except OSError as error:
        raise FadiffError(f"{file}: cannot be read and written: {error.strerror or error}") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        raise FadiffError(f"{file}: damaged; accepted: a new name of a study") from None
