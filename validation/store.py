"""Answers on disk, so that nothing is asked twice: one JSON object per line, looked up by the hash of the question."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.timeloop.run_model import ModelAnswer


def key_of(tool: str, text: str) -> str:
    """The key of an answer: SHA-256 of the tool's digest and the question's text together."""
    return hashlib.sha256(f"{tool}\0{text}".encode()).hexdigest()


class Store:
    """An append-only file of answers: the answers that a killed run had received are there for the next one.

    A last line that was cut off is forgotten. Several threads may add; of several processes the last answer counts.
    """

    def __init__(self, path: Path) -> None:
        """Reads the answers of earlier runs. Raises FadiffError where the file cannot be made or read."""
        self._path, self._lock = path, threading.Lock()
        self._answers: dict[str, ModelAnswer] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            text = path.read_bytes()
        except OSError as error:
            raise FadiffError(f"{path}: cannot be used for answers: {error.strerror}") from None
        if text and not text.endswith(b"\n"):
            self._append(b"\n")
        for line in text.splitlines():
            self._remember(line)

    def get(self, key: str) -> ModelAnswer | None:
        """The answer with a key, or None."""
        return self._answers.get(key)

    def add(self, key: str, answer: ModelAnswer) -> None:
        """Keeps an answer, on disk before this returns. Raises FadiffError where it cannot be kept."""
        line: dict[str, Any] = {"key": key, "result": answer.result, "error": answer.error}
        with self._lock:
            self._answers[key] = answer
            self._append(json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def _remember(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            self._answers[entry["key"]] = ModelAnswer(entry["result"], entry["error"])
        except (ValueError, KeyError, TypeError):
            return  # the end of a run that was killed while it wrote

    def _append(self, line: bytes) -> None:
        """Appends in one write, so that lines of several processes do not mix."""
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
            try:
                written = os.write(descriptor, line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise FadiffError(f"{self._path}: answers cannot be kept: {error.strerror}") from None
        if written < len(line):  # forgotten when it is read again, as one that a kill cut off
            raise FadiffError(f"{self._path}: answers cannot be kept: the disk is full")
