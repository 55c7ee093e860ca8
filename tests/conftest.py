"""Lets the tests run on a checkout that is only on the path, where `validation/` has not its installed name, on a busy
machine, where no test fails because it took long, and as a background job, which ignores Ctrl-C. Random tests take the
same few cases in every run, `tests/draw` many new ones. And the fixtures of several rooms.
"""

from __future__ import annotations

import importlib
import importlib.util
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

if importlib.util.find_spec("fadiff_validation") is None:
    sys.modules["fadiff_validation"] = importlib.import_module("validation")

signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests start inherit whether it is ignored

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("drawn", deadline=None, print_blob=True, max_examples=200)
settings.load_profile("repeatable")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own: nothing is read from the user's, or written there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the scripts that measure, which can be imported."""
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    return folder
