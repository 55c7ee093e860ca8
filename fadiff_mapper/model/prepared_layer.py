"""One problem on one architecture, prepared for many evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import ComponentEnergy, Tables, compute_energy, storage_energy
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.expected_shares import ExpectedShares
from fadiff_mapper.model.loop_nest import Projection, project
from fadiff_mapper.model.machine import Machine, machine
from fadiff_mapper.model.priced_interconnects import PricedInterconnect, priced_interconnects
from fadiff_mapper.model.reuse import Reuse, full_reuse

KINDS = ("Legacy", "ReductionTree", "SimpleMulticast")
"""Kinds of interconnects in the order of `Interconnect::Kind` of the kernel."""
NO_LIMIT = -1.0
"""Usable words of a level without a size, for the kernel."""


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


def compiled_layer(arch: Architecture, projection: Projection, machine: Machine, reuse: Reuse,
                   interconnects: Sequence[PricedInterconnect]) -> _kernel.Layer:
    """The constants of a layer for the compiled kernel.

    Energies and bandwidths of `machine` are numbers, not torch tensors.
    """
    levels = arch.levels
    units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *levels)
    usable = [level.usable for level in levels]
    table: dict[str, Any] = {
        "levels": len(levels), "dims": projection.relevant.shape[1],
        "ranks": [[list(rank) for rank in ranks] for ranks in projection.ranks],
        "written": list(projection.read_write),
        "units": [(unit.instances, unit.mesh_x, unit.mesh_y) for unit in units],
        "usable": [NO_LIMIT if words is None else words for words in usable],
        "least": [(words or 0) * level.min_utilization for words, level in zip(usable, levels, strict=True)],
        "fanout_x": [arch.fanout(level)[0] for level in range(len(levels))],
        "fanout_y": [arch.fanout(level)[1] for level in range(len(levels))],
        "clusters": _flat(machine.clusters), "block": _flat(machine.block), "read": _flat(machine.read),
        "fill": _flat(machine.fill), "update": _flat(machine.update), "leak": _flat(machine.leak),
        "address": _flat(machine.addr_gen), "read_bandwidth": _flat(machine.read_bandwidth),
        "write_bandwidth": _flat(machine.write_bandwidth), "shared_bandwidth": _flat(machine.shared_bandwidth),
        "gated": _flat(machine.gated), "gate": list(machine.gate),
        "bandwidth_scale": _flat(machine.bandwidth_scale),
        "held": _flat(reuse.held), "multicast": _flat(reuse.multicast), "linked": _flat(reuse.linked),
        "first_written": _flat(reuse.first_written), "coalesced": _flat(reuse.coalesced),
        "interconnects": [(KINDS.index(one.kind), one.level, one.reduces, one.hop, one.router, one.ingress, one.adder,
                           [list(of.items()) for of in one.transfers]) for one in interconnects],
        "compute_energy": float(machine.compute_energy), "network_latency": machine.network_latency,
    }
    return _kernel.Layer(table)


def _flat(values: Any) -> list[float]:
    """All numbers of an array in order."""
    return [float(value) for value in np.asarray(values).ravel()]
