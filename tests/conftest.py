"""Lets the tests run on a checkout that is only on the path, where `validation/` has not its installed name, on a busy
machine, where no test fails because it took long, and as a background job, which ignores Ctrl-C. Random tests take the
same few cases in every run, `tests/draw` many new ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import signal
import sys

from hypothesis import settings

if importlib.util.find_spec("fadiff_validation") is None:
    sys.modules["fadiff_validation"] = importlib.import_module("validation")

signal.signal(signal.SIGINT, signal.default_int_handler)  # programs that tests start inherit whether it is ignored

settings.register_profile("repeatable", deadline=None, derandomize=True, max_examples=25)
settings.register_profile("drawn", deadline=None, print_blob=True, max_examples=200)
settings.load_profile("repeatable")
