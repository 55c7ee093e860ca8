"""Lets the tests run on a checkout that is only on the path, where `validation/` has not its installed name, and on a
busy machine: no test fails because it took long. Random tests take the same cases in every run, `tests/draw` new ones.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys

from hypothesis import settings

if importlib.util.find_spec("fadiff_validation") is None:
    sys.modules["fadiff_validation"] = importlib.import_module("validation")

settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.register_profile("drawn", deadline=None, print_blob=True)
settings.load_profile("repeatable")
