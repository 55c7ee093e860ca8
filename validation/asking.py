"""Puts many questions to a real tool, each in a folder of its own, several at once, none of them twice."""

from __future__ import annotations

import gc
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.run_model import ModelAnswer, ModelKilled

from .questions import Question
from .store import Store, key_of
from .tools import Backend


@dataclass(frozen=True)
class Answered:
    """A question and the answer to it; `failure` says why there is none."""

    question: Question
    answer: ModelAnswer | None
    failure: str = ""


def ask_all(questions: Sequence[Question], backend: Backend, store: Store, jobs: int,
            on_answer: Callable[[Answered], None] = lambda _: None) -> list[Answered]:
    """All answers, in the order of the questions. A run that fails is reported as such and stops no other."""
    alone = threading.Lock()

    def one(question: Question) -> Answered:
        found = answered(question, backend, store, alone)
        on_answer(found)
        return found

    pool = ThreadPoolExecutor(jobs)
    with _settled():
        try:
            return list(pool.map(one, questions))
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _settled() -> Iterator[None]:
    """Spares the garbage collector what is there already: the trees of each answer would have it look through all
    of it again and again, which took as long as reading the answers twice over."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def answered(question: Question, backend: Backend, store: Store, alone: threading.Lock) -> Answered:
    """From the store, or from the tool.

    A run that was killed from outside is tried once more, no other second try beside it: with many at once the
    memory may have run out. No other failure has a known cause that a second try would mend.
    """
    text = question.task.text(question.mapping)
    key = key_of(backend.tool.digest, text)
    answer = store.get(key)
    try:
        if answer is None:
            try:
                answer = once(text, question, backend)
            except ModelKilled:
                with alone:
                    answer = once(text, question, backend)
            store.add(key, answer)
    except FadiffError as error:
        return Answered(question, None, str(error))
    return Answered(question, answer)


def once(text: str, question: Question, backend: Backend) -> ModelAnswer:
    """One run in a new folder, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="fadiff-validate-", ignore_cleanup_errors=True) as folder:
        return backend.ask(text, question.task.dataspaces, Path(folder))
