"""One problem on one architecture: the value that the readers make and all later rooms work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fadiff_mapper.base.text_formats import html_table
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.sparse_optimizations import SparseOptimizations
from fadiff_mapper.inputs.spec.tables import Tables

METRIC_EXPONENTS = {"edp": (1, 1), "energy": (1, 0), "delay": (0, 1)}
"""Metrics of layers, and of networks, that are a product of energy in pJ and cycles: the exponents of both."""
METRICS = (*METRIC_EXPONENTS, "last_level_accesses")  # Timeloop's optimization metrics that a search here minimises too


def metric_of(metric: str, energy: Any, cycles: Any, outermost: Any = None) -> Any:
    """The value of a metric, to be minimised: a number, or an array or tensor of several mappings.

    `energy` is in pJ, `outermost` are the accesses of the outermost level in words.
    """
    if metric == "last_level_accesses":
        return outermost
    energy_power, cycles_power = METRIC_EXPONENTS[metric]
    return energy ** energy_power * cycles ** cycles_power


@dataclass(frozen=True)
class MapperOptions:
    """Options from the input's mapper section."""

    metrics: tuple[str, ...] = ("edp",)  # metrics to minimise, in order of priority
    num_threads: int | None = None  # threads of the search; None leaves it open
    ignored: tuple[tuple[str, str], ...] = ()  # keys without a meaning for the search here, each with the reason


WARNING = "warning: "  # the beginning of a note about input that a strict reading refuses


@dataclass(frozen=True)
class Spec:
    """One problem on one architecture, with everything else that the input gave.

    Attributes:
        arch: The flat architecture.
        problem: The layer.
        constraints: Limits on mappings.
        tables: Energies and areas in force.
        mapping: The mapping in the input, None where there is none.
        mapper: Options from the mapper section.
        literal: Sections as `timeloop-model` reads them, without expressions and templates.
        files: Paths of the input's files; none for a dict.
        sparse: The hardware's treatment of zeros; None where the input has no such section.
        notes: Sentences about input that Timeloop ignores or puts up with (each begins with `WARNING`), about input
            that was understood but has no effect, and about missing energies.
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
    sparse: SparseOptimizations | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes about input that Timeloop ignores or puts up with; a strict reading has none."""
        return tuple(note.removeprefix(WARNING) for note in self.notes if note.startswith(WARNING))

    def _repr_html_(self) -> str:
        """For notebooks: the levels, outermost first, with the arithmetic below them, and the problem's dimensions."""
        arch = self.arch
        rows: list[tuple[object, ...]] = [
            (level.name, level.kind, "unlimited" if level.size is None else level.size, level.word_bits,
             level.instances, f"{level.mesh_x} x {level.mesh_y}", level.read_bandwidth, level.write_bandwidth,
             level.shared_bandwidth) for level in reversed(arch.levels)]
        unit = arch.arithmetic
        rows.append((unit.name, unit.kind, None, unit.word_bits, unit.instances, f"{unit.mesh_x} x {unit.mesh_y}",
                     None, None, None))
        columns = ("level", "class", "capacity (words)", "word bits", "instances", "mesh X x Y",
                   "read bandwidth (words/cycle)", "write bandwidth", "shared bandwidth")
        return (html_table(f"architecture {arch.name}, outermost level first", columns, rows)
                + html_table(f"problem {self.problem.name}, {self.problem.computes:,} multiply-accumulates",
                             ("dimension", "bound"), self.problem.bounds.items()))
