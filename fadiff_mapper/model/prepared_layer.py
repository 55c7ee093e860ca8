"""One problem on one architecture, prepared for many evaluations."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.model.energy_latency import Machine, machine
from fadiff_mapper.model.loop_nest import Projection, project
from fadiff_mapper.model.reuse import Reuse, full_reuse
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import ComponentEnergy, Tables, compute_energy, storage_energy


@dataclass(frozen=True)
class PreparedLayer:
    """One problem on one architecture, with what its mappings may reuse, prepared for evaluation."""

    arch: Architecture
    problem: Problem
    projection: Projection
    machine: Machine
    energies: tuple[ComponentEnergy, ...]
    compute_energy_built_in: bool
    reuse: Reuse

    @property
    def network_priced(self) -> bool:
        """Whether moving words between levels costs energy on this architecture."""
        return any(level.interconnect.energy_per_hop or level.interconnect.router_energy
                   or level.interconnect.energy_per_ingress for level in self.arch.levels)


def prepare_layer(arch: Architecture, problem: Problem, tables: Tables, reuse: Reuse | None = None) -> PreparedLayer:
    """Resolve energies and lay out the constants that every evaluation of this layer needs.

    Without `reuse`, everything is reused.
    """
    energies = tuple(storage_energy(level, tables) for level in arch.levels)
    per_mac, built_in = compute_energy(arch.arithmetic, tables)
    return PreparedLayer(arch, problem, project(problem), machine(arch, problem, energies, per_mac), energies, built_in,
                         reuse or full_reuse(len(arch.levels), len(problem.dataspaces)))
