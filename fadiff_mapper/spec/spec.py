"""One problem on one architecture, as everything behind the readers sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.mapper import MapperOptions
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import Tables


@dataclass(frozen=True)
class Spec:
    """One problem on one architecture, with what else the input gave.

    `literal` holds the sections as `timeloop-model` reads them (no expressions, no templates); `notes` are
    sentences about what was understood but has no effect.
    """

    arch: Architecture
    problem: Problem
    constraints: Constraints
    tables: Tables
    mapping: Mapping | None = None
    mapper: MapperOptions = field(default_factory=MapperOptions)
    literal: dict[str, Any] = field(default_factory=dict, repr=False)
    files: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
