"""One problem on one architecture, prepared for many evaluations."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_torch_array

from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import ComponentEnergy, Tables, compute_energy, storage_energy
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.interconnects import PricedInterconnect, priced_interconnects
from fadiff_mapper.model.loop_nest import Array, Projection, array_namespace, project
from fadiff_mapper.model.reuse import Reuse, full_reuse

UNLIMITED = _kernel.UNLIMITED
"""Bandwidth of a level without a limit, in words per cycle: far above every demand, finite for the gradients."""


@dataclass(frozen=True)
class Machine:
    """An architecture as constants for array work.

    If every column of a batch has a machine of its own, as in `gradient.hardware_descent`, the constants are torch
    tensors, and their axis of length 1 is the batch.
    """

    clusters: Array                # [L, 1]. Clusters of each level; one access of a cluster serves all its members
    block: Array                   # [L, 1]. Words per vector access
    read: Array                    # [L, 1]. pJ per vector read
    fill: Array                    # [L, 1]. pJ per vector write of words from outside
    update: Array                  # [L, 1]. pJ per vector write of outputs from below
    leak: Array                    # [L, 1]. pJ of leakage per cycle and instance
    addr_gen: Array                # [L, 1]. pJ per generated address
    read_bandwidth: Array          # [L, 1]. Words per cycle and instance; `UNLIMITED` without a limit
    write_bandwidth: Array         # [L, 1]. Words per cycle and instance for fills and updates together
    shared_bandwidth: Array        # [L, 1]. Words per cycle and instance for reads, fills and updates together
    bandwidth_scale: np.ndarray    # [L, T, 1]. Factor on the demanded bandwidth of a data space
    compute_energy: Array | float  # pJ per multiply-accumulate
    network_latency: float         # Cycles to fill and drain all interconnects
    gate: tuple[int, ...]          # For each level the index of the level whose instances are its power gates
    gated: Array                   # [L, 1]. Instances of each level behind one power gate
    # [3, L, T, 1]. Words of each level that an element of each data space takes, and that a partial sum takes: both are
    # whole numbers, divided by the third row; None: one word each
    element_words: np.ndarray | None = None

    def needed(self, size: Array) -> Array:
        """Words of the levels that tiles of `size` [L, T, B] take, without rounding up.

        An output takes the room of its partial sums.
        """
        if self.element_words is None:
            return size
        _, partial, per = map(array_namespace(size).asarray, self.element_words)
        return size * partial / per

    def whole_words(self, size: np.ndarray) -> np.ndarray:
        """Whole words of the levels that tiles of one mapping, [L, T], take."""
        words: np.ndarray = np.ceil(self.needed(size[..., None]))[..., 0]
        return words


def words_of_elements(arch: Architecture, problem: Problem) -> np.ndarray | None:
    """`Machine.element_words`."""
    if all(space.bits is None for space in problem.dataspaces):
        return None
    table = np.empty((3, len(arch.levels), len(problem.dataspaces), 1))
    for level, t in np.ndindex(table.shape[1:3]):
        space, bits = problem.dataspaces[t], arch.levels[level].word_bits
        whole, partial = space.words(bits), space.words(bits, partial=True)
        per = math.lcm(whole.denominator, partial.denominator)
        table[:, level, t, 0] = int(whole * per), int(partial * per), per
    return table


def element_shares(arch: Architecture, problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """Words of each level that an element of each data space takes, and that a partial sum takes, [L, T] each."""
    table = words_of_elements(arch, problem)
    if table is None:
        return (np.ones((len(arch.levels), len(problem.dataspaces))),) * 2
    whole, partial, per = table[..., 0]
    return whole / per, partial / per


class WordEnergy(NamedTuple):
    """pJ per word read, filled (from outside) and updated (from below), [L, 1] each."""

    read: Array
    fill: Array
    update: Array


def word_energy(machine: Machine) -> WordEnergy:
    """The energy of a word if vector accesses use all words of their blocks and each cluster has one member in use."""
    return WordEnergy(machine.read / machine.block, machine.fill / machine.block, machine.update / machine.block)


def in_namespace(xp: Any, constant: Any) -> Array:
    """A constant of the machine in an array namespace; torch tensors, which carry gradients, stay as they are."""
    return constant if is_torch_array(constant) else xp.asarray(constant)


NO_LIMIT = -1.0
"""Usable words of a level without a size, for the kernel."""


@dataclass(frozen=True)
class PreparedLayer:
    """One problem on one architecture with all constants that its mappings share."""

    arch: Architecture
    problem: Problem                       # The problem (one layer)
    projection: Projection                 # The ranks of its data spaces as indices
    machine: Machine                       # Energies and bandwidths of the architecture as arrays
    energies: tuple[ComponentEnergy, ...]  # pJ per vector access of every storage level, innermost first
    reuse: Reuse                           # The reuse that all mappings of this layer make use of
    interconnects: tuple[PricedInterconnect, ...]  # Interconnects below the levels, with the energy of their traffic

    @cached_property
    def compiled(self) -> _kernel.Layer:
        """The same constants for the compiled kernel, made once; constants of the machine must not be torch tensors."""
        arch, projection, machine, reuse = self.arch, self.projection, self.machine, self.reuse
        columns = {name: [float(value) for value in getattr(machine, name)[:, 0]] for name in (
            "clusters", "block", "read", "fill", "update", "leak", "read_bandwidth", "write_bandwidth",
            "shared_bandwidth", "gated")}
        levels = []
        for number, level in enumerate(arch.levels):
            (fanout_x, fanout_y), words = arch.fanout(number), level.usable
            levels.append(_kernel.Level(
                usable=NO_LIMIT if words is None else words, least=(words or 0) * level.min_utilization,
                fanout_x=fanout_x, fanout_y=fanout_y, address=float(machine.addr_gen[number, 0]),
                gate=machine.gate[number],
                **{name: values[number] for name, values in columns.items()}))
        units: tuple[Arithmetic | StorageLevel, ...] = (arch.arithmetic, *arch.levels)
        dims, table = projection.relevant.shape[1], machine.element_words
        whole, partial, per = ([], [], []) if table is None else table.reshape(3, -1).tolist()
        return _kernel.Layer(
            dims=dims, spaces=[_kernel.DataSpaceTable(ranks=ranks, written=written, dims=dims)
                               for ranks, written in zip(projection.ranks, projection.read_write, strict=True)],
            levels=levels, whole=whole, partial=partial, per=per,
            units=[_kernel.Unit(instances=unit.instances, mesh_x=unit.mesh_x, mesh_y=unit.mesh_y) for unit in units],
            bandwidth_scale=machine.bandwidth_scale.ravel().tolist(),
            **{name: getattr(reuse, name).ravel().tolist() for name in (
                "held", "multicast", "linked", "first_written", "coalesced")},
            interconnects=[_kernel.InterconnectTable(
                kind=_kernel.InterconnectKind.__members__[one.kind], level=one.level, reduces=one.reduces, hop=one.hop,
                router=one.router, ingress=one.ingress, adder=one.adder,
                transfers=[list(of.items()) for of in one.transfers]) for one in self.interconnects],
            compute_energy=float(machine.compute_energy), network_latency=machine.network_latency)

    def resized(self, problem: Problem) -> PreparedLayer:
        """The layer with other bounds, on which no constant depends."""
        other = replace(self, problem=problem)
        vars(other)["compiled"] = self.compiled  # the cached property of the copy
        return other

    @property
    def network_priced(self) -> bool:
        """Whether some interconnect of this architecture costs energy."""
        return any(interconnect.priced for interconnect in self.interconnects)


def prepare_layer(arch: Architecture, problem: Problem, tables: Tables, reuse: Reuse | None = None) -> PreparedLayer:
    """Resolves energies and computes the constants that every evaluation of this layer needs.

    Timeloop's built-in energies replace missing entries of the tables; without `reuse` there is full reuse, as in
    Timeloop.
    """
    levels, names = arch.levels, arch.level_names()
    energies = tuple(storage_energy(level, tables) for level in levels)
    # Levels that name an interconnect wait for it, instead of for the wires of their own attributes.
    waits = sum(level.interconnect.fill_latency + level.interconnect.drain_latency for level in levels)
    for named in arch.named_interconnects:
        for below, latency in ((named.inwards, "fill_latency"), (named.outwards, "drain_latency")):
            if below is not None:
                waits += named.wires.fill_latency - getattr(levels[below].interconnect, latency)
    gate = tuple(names.index(level.power_gated_at or level.name) for level in levels)
    clusters, block, read, fill, update, leak, addr_gen, *bandwidths = np.array([
        (level.instances // level.cluster_size, level.block_size, own.read, own.fill, own.update, own.leak,
         level.addr_gen_energy, *(UNLIMITED if words is None else words for words in (
             level.read_bandwidth, level.write_bandwidth, level.shared_bandwidth)))
        for level, own in zip(levels, energies, strict=True)], dtype=np.float64).T[..., None]
    machine = Machine(
        clusters, block, read, fill, update, leak, addr_gen, bandwidths[0], bandwidths[1], bandwidths[2],
        np.array([[level.bandwidth_scale.get(name, 1.0) for name in problem.dataspace_names()] for level in levels],
                 dtype=np.float64)[..., None],
        compute_energy(arch.arithmetic, tables)[0], waits, gate,
        np.array([[level.instances / levels[g].instances] for level, g in zip(levels, gate, strict=True)]),
        words_of_elements(arch, problem))
    return PreparedLayer(arch, problem, project(problem), machine, energies,
                         reuse or full_reuse(len(levels), len(problem.dataspaces)),
                         priced_interconnects(arch, problem, tables))
