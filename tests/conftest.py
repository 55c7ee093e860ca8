"""Lets the tests run on a checkout that is only on the path, where `validation/` has not its installed name."""

from __future__ import annotations

import importlib
import importlib.util
import sys

if importlib.util.find_spec("fadiff_validation") is None:
    sys.modules["fadiff_validation"] = importlib.import_module("validation")
