"""Lets the tests run on a checkout that is only on the path, where `validation/` has not its installed name, and on a
busy machine: no test fails because it took long."""

from __future__ import annotations

import importlib
import importlib.util
import sys

from hypothesis import settings

if importlib.util.find_spec("fadiff_validation") is None:
    sys.modules["fadiff_validation"] = importlib.import_module("validation")

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
