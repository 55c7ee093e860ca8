"""The spatial choices of a map space: the first division of a proof."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.search.enumerate import _orders
from fadiff_mapper.search.mapspace import MapSpace, available, reachable

Layout = tuple[tuple[int, ...], tuple[bool, ...]]
"""Order of a level's spatial loops, innermost first, and by dimension whether the loop lies on Y."""


@dataclass(frozen=True)
class Scheme:
    """All spatial factors of a mapping, and the data spaces that levels keep.

    Attributes:
        spatial: Spatial factors, [L][D].
        keep: Whether each level keeps each data space, [L][T].
        layouts: For each level the layouts of its loops that fit; every combination fits.
    """

    spatial: tuple[tuple[int, ...], ...]
    keep: tuple[tuple[bool, ...], ...]
    layouts: tuple[tuple[tuple[int, ...], tuple[bool, ...]], ...]
