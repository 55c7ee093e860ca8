"""Levels of x86-64's instruction set for which the kernel is built, and the one that this processor has.

The levels are those of the x86-64 psABI. All builds give the same results; a higher level works on more mappings with
one instruction. On other processors, and where no build of a higher level was made, there is the one for the baseline.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"})
V4 = V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = {"x86-64-v4": V4, "x86-64-v3": V3}
"""Folder of a build, best first -> features that it needs, in Linux's words."""

BASELINE = "baseline"
"""Name of the build in the package itself: x86-64-v2, or what every processor of another kind has."""


def usable_levels(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The levels whose features processor and operating system offer, best first; none where Linux lists none."""
    features: set[str] = set()
    with suppress(OSError), cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        features.update(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))
    return [level for level, needed in LEVELS.items() if needed <= features]


def level_of(module_file: str | None) -> str:
    """The level that a module was built for, by the folder in which it lies."""
    folder = Path(module_file or "").parent.name
    return folder if folder in LEVELS else BASELINE
