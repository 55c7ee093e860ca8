"""Puts the checkout behind the installed package on the path, so that `benchmarks` is found."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))
