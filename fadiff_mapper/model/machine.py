"""An architecture as constants for array work: energies, bandwidths, clusters and power gates of every level.

Energies in pJ, bandwidths in words per cycle and instance. Axes as in `access_counts.py`: L, T and B (batch, last).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import ComponentEnergy
from fadiff_mapper.model.loop_nest import Array

UNLIMITED = 1e30
"""Bandwidth of a level without a limit, in words per cycle: not infinite, so that gradients stay finite. Any number
far above every demand does; nothing was measured."""


@dataclass(frozen=True)
class Machine:
    """An architecture as constants for array work.

    Where every column of a batch has a machine of its own, as in `gradient.hardware_descent`, the constants are torch
    tensors, and their axis of length 1 is the batch.

    Attributes:
        clusters: [L, 1]. Clusters of each level; one access of a cluster serves all its members.
        block: [L, 1]. Words per vector access.
        read: [L, 1]. pJ per vector read.
        fill: [L, 1]. pJ per vector write of words from outside.
        update: [L, 1]. pJ per vector write of outputs from below.
        leak: [L, 1]. pJ of leakage per cycle and instance.
        addr_gen: [L, 1]. pJ per generated address.
        read_bandwidth: [L, 1]. Words per cycle and instance; `UNLIMITED` where there is no limit.
        write_bandwidth: [L, 1]. The same for fills and updates together.
        shared_bandwidth: [L, 1]. The same for reads, fills and updates together.
        bandwidth_scale: [L, T, 1]. Factor on the bandwidth that a data space asks for.
        compute_energy: pJ per multiply-accumulate.
        network_latency: Cycles to fill and drain all interconnects.
        gate: For each level the index of the level whose instances are its power gates.
        gated: [L, 1]. Instances of each level behind one power gate.
    """

    clusters: Array
    block: Array
    read: Array
    fill: Array
    update: Array
    leak: Array
    addr_gen: Array
    read_bandwidth: Array
    write_bandwidth: Array
    shared_bandwidth: Array
    bandwidth_scale: np.ndarray
    compute_energy: Array | float
    network_latency: float
    gate: tuple[int, ...]
    gated: Array


def machine(arch: Architecture, problem: Problem, energies: tuple[ComponentEnergy, ...],
            compute_energy: float) -> Machine:
    """The constants of one architecture.

    Args:
        arch: The architecture.
        problem: Gives the order of data spaces for `bandwidth_scale`.
        energies: pJ per vector access of every level, innermost first.
        compute_energy: pJ per multiply-accumulate.

    Returns:
        NumPy arrays in float64.
    """
    def column(values: list[float]) -> np.ndarray:
        return np.array(values, dtype=np.float64)[:, None]

    def unlimited(value: float | None) -> float:
        return UNLIMITED if value is None else value

    levels = arch.levels
    scale = [[level.bandwidth_scale.get(name, 1.0) for name in problem.dataspace_names()] for level in levels]
    names = [level.name for level in levels]
    gate = tuple(names.index(level.power_gated_at or level.name) for level in levels)
    return Machine(
        clusters=column([level.instances // level.cluster_size for level in levels]),
        block=column([level.block_size for level in levels]),
        read=column([energy.read for energy in energies]), fill=column([energy.fill for energy in energies]),
        update=column([energy.update for energy in energies]), leak=column([energy.leak for energy in energies]),
        addr_gen=column([level.addr_gen_energy for level in levels]),
        read_bandwidth=column([unlimited(level.read_bandwidth) for level in levels]),
        write_bandwidth=column([unlimited(level.write_bandwidth) for level in levels]),
        shared_bandwidth=column([unlimited(level.shared_bandwidth) for level in levels]),
        bandwidth_scale=np.array(scale, dtype=np.float64)[..., None],
        compute_energy=compute_energy,
        network_latency=arch.interconnect_latency(),
        gate=gate, gated=column([level.instances / levels[g].instances for level, g in zip(levels, gate, strict=True)]))


@dataclass(frozen=True)
class WordEnergy:
    """pJ per word where vector accesses use all words of their blocks and clusters share nothing.

    Attributes:
        read: [L, 1]. pJ to read a word.
        fill: [L, 1]. pJ to write a word that arrives from outside.
        update: [L, 1]. pJ to write a word of an output that arrives from below.
    """

    read: Array
    fill: Array
    update: Array


def word_energy(machine: Machine) -> WordEnergy:
    """The energy of moving one word in and out of each level: energy per vector access over words per block."""
    return WordEnergy(machine.read / machine.block, machine.fill / machine.block, machine.update / machine.block)


def in_namespace(xp: Any, constant: Any) -> Array:
    """A constant of the machine in an array namespace.

    Torch tensors are returned unchanged: `gradient.hardware_descent` differentiates with respect to them.
    """
    return constant if is_torch_array(constant) else xp.asarray(constant)
