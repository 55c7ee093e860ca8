"""One problem on one architecture, prepared for many evaluations."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.compiled_layer import compiled_layer
from fadiff_mapper.model.expected_shares import ExpectedShares
from fadiff_mapper.model.loop_nest import Projection, project
from fadiff_mapper.model.machine import Machine, machine
from fadiff_mapper.model.priced_interconnects import PricedInterconnect, priced_interconnects
from fadiff_mapper.model.reuse import Reuse, full_reuse
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import ComponentEnergy, Tables, compute_energy, storage_energy


@dataclass(frozen=True)
class PreparedLayer:
    """One problem on one architecture with everything that is the same for all its mappings.

    Attributes:
        arch: The architecture.
        problem: The problem (one layer).
        projection: The ranks of its data spaces as indices.
        machine: Energies and bandwidths of the architecture as arrays.
        energies: pJ per vector access of every storage level, innermost first.
        reuse: The reuse that all mappings of this layer make use of.
        interconnects: Interconnects below the levels, and what their traffic costs.
        shares: Shares of the differentiable model's counts that zeros leave; None: everything.
    """

    arch: Architecture
    problem: Problem
    projection: Projection
    machine: Machine
    energies: tuple[ComponentEnergy, ...]
    reuse: Reuse
    interconnects: tuple[PricedInterconnect, ...]
    shares: ExpectedShares | None = None

    @cached_property
    def compiled(self) -> _kernel.Layer:
        """The same constants for the compiled kernel, made once."""
        return compiled_layer(self.arch, self.projection, self.machine, self.reuse, self.interconnects)

    def resized(self, problem: Problem) -> PreparedLayer:
        """The same shape of problem in other bounds, on which none of the constants depend.

        Args:
            problem: A problem with the dimensions and data spaces of this one.
        """
        other = replace(self, problem=problem)
        vars(other)["compiled"] = self.compiled  # the cached property of the copy
        return other

    @property
    def network_priced(self) -> bool:
        """Whether some interconnect of this architecture costs energy."""
        return any(interconnect.priced for interconnect in self.interconnects)


def prepare_layer(arch: Architecture, problem: Problem, tables: Tables, reuse: Reuse | None = None) -> PreparedLayer:
    """Resolves energies and lays out the constants that every evaluation of this layer needs.

    Args:
        arch: Architecture, with levels from the innermost to the outermost.
        problem: The layer.
        tables: ERT and ART in force; Timeloop's built-in energies stand in for missing entries.
        reuse: Reuse of all mappings; None reuses everything, as Timeloop does by default.

    Returns:
        The layer, ready for `exact.evaluate.evaluate_nest` and `smooth.evaluate.evaluate_smooth`.
    """
    energies = tuple(storage_energy(level, tables) for level in arch.levels)
    per_mac, _ = compute_energy(arch.arithmetic, tables)
    return PreparedLayer(arch, problem, project(problem), machine(arch, problem, energies, per_mac), energies,
                         reuse or full_reuse(len(arch.levels), len(problem.dataspaces)),
                         priced_interconnects(arch, problem, tables))
