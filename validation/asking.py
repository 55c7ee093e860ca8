"""Puts many questions to a real tool: each in a folder of its own, several at once, none of them twice."""

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
    """A question with its answer; without an answer `failure` gives the reason."""

    question: Question
    answer: ModelAnswer | None
    failure: str = ""


def ask_all(questions: Sequence[Question], backend: Backend, store: Store, jobs: int,
            on_answer: Callable[[Answered], None] = lambda _: None) -> list[Answered]:
    """Asks all questions; a run that fails is reported as such and stops no other.

    Args:
        questions: The mappings to ask about.
        backend: The real tool.
        store: Answers of earlier runs; new answers are added at once, so that a killed run loses none.
        jobs: Runs of the tool at a time.
        on_answer: Called with every answer as it comes, in the thread that asked.

    Returns:
        An entry per question, in their order.
    """
    alone = threading.Lock()

    def ask(question: Question) -> Answered:
        reply = answered(question, backend, store, alone)
        on_answer(reply)
        return reply

    pool = ThreadPoolExecutor(jobs)
    with _settled():
        try:
            return list(pool.map(ask, questions))
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _settled() -> Iterator[None]:
    """Hides all objects that exist already from the garbage collector.

    The XML tree of each answer is large enough to set the collector off, and a pass over everything else took as long
    as reading the answers twice over.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def answered(question: Question, backend: Backend, store: Store, alone: threading.Lock) -> Answered:
    """The answer from the store, else from the tool.

    A run that was killed from outside is tried once more, with no other second try beside it: with many runs at once
    the memory may have run out. No other failure has a known cause that a second try would mend.

    Args:
        question: The mapping to ask about.
        backend: The real tool.
        store: Answers of earlier runs.
        alone: Held during a second try.
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
    """Runs the tool once on a literal input, in a new folder that is removed afterwards. Raises FadiffError."""
    with tempfile.TemporaryDirectory(prefix="fadiff-validate-", ignore_cleanup_errors=True) as folder:
        return backend.ask(text, question.task.dataspaces, Path(folder))
