"""A prepared layer in the form that the compiled kernel takes (`kernel/layer.hpp`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Projection
from fadiff_mapper.model.machine import Machine
from fadiff_mapper.model.priced_interconnects import PricedInterconnect
from fadiff_mapper.model.reuse import Reuse
from fadiff_mapper.spec.arch import Architecture, Arithmetic, StorageLevel

KINDS = ("Legacy", "ReductionTree", "SimpleMulticast")
"""Kinds of interconnects in the order of `Interconnect::Kind` of the kernel."""
NO_LIMIT = -1.0
"""Usable words of a level without a size, for the kernel."""


def compiled_layer(arch: Architecture, projection: Projection, machine: Machine, reuse: Reuse,
                   interconnects: Sequence[PricedInterconnect]) -> _kernel.Layer:
    """The constants of a layer for the compiled kernel.

    Args:
        arch: Limits.
        projection: Ranks of the data spaces.
        machine: Energies and bandwidths as numbers, not torch tensors.
        reuse: Reuse of all mappings.
        interconnects: What their traffic costs.

    Returns:
        The kernel's layer.
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
