"""Tensors that stay on the chip from one group of a plan to another.

Problem. Between two groups of a plan, or layers by themselves, a tensor goes to the outermost level and comes back. If
the home has room for all of it, it may stay there instead, from the group that makes it to the last one that reads it.
It takes its room from all groups that run meanwhile, so that the choice depends on what they are.

Method. A *lasting tensor* lies whole in the only level that can be a home. The best cover of a row of layers
(`fusion.prices`) is a shortest path over the layers; here its states also say which tensors lie in the home, and each
group, or layer by itself, comes in versions: which lasting tensors it finds there, which it leaves there, and how much
room all of them take. A version is estimated as the group without the words that it neither reads from the outermost
level nor writes there. As in `planning`, the plan that would be best if estimates held is evaluated exactly, again and
again, until it consists of evaluated versions. Groups that share lasting tensors run one right after the other, so
their layers are those of a segment.

Bound. A layer that finds or leaves lasting tensors becomes a layer by itself if it also reads and writes their words at
the outermost level. So it costs at least as much as the best mapping by itself, less these words (`most_saved`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np

from fadiff_mapper.fusion import FusedGroup, Hardware, Stay
from fadiff_mapper.fusion.estimates import Candidate, homes
from fadiff_mapper.fusion.prices import CoverPart, NetworkPrice, OperatingPoint, WordCosts, summed
from fadiff_mapper.fusion.segments import chains, shared_operands
from fadiff_mapper.fusion.tile_steps import space_of
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.prepared_layer import UNLIMITED, element_shares, prepare_layer, word_energy
from fadiff_mapper.network.result import EvaluatedGroup
from fadiff_mapper.workload import Workload


@dataclass(frozen=True)
class LastingTensor:
    """A tensor that may lie whole in the home from group to group."""

    maker: int  # position in its row of the layer that makes it; -1: it comes from outside the row
    readers: tuple[tuple[int, str], ...]  # positions of the layers that read it, in order, each with its data space
    elements: int  # of all runs together
    room: int  # words of the home that it takes

    @property
    def last(self) -> int:
        """Position of its last reader."""
        return self.readers[-1][0]


@dataclass(frozen=True)
class LastingRow:
    """A row of layers (`segments.chains`) with the tensors that may stay on the chip from group to group."""

    names: tuple[str, ...]
    tensors: tuple[LastingTensor, ...]


def lasting_rows(workload: Workload, hardware: Hardware, specs: Mapping[str, Spec]) -> list[LastingRow]:
    """All rows of layers of a network.

    A tensor may stay if one layer makes it and another one reads it, as it is, with no other reader; or if it comes
    from outside the row and several layers read it. All of it fits into the home, and no constraint of its layers
    stands against it. Designs on which several levels could be homes have none.

    Args:
        workload: The network.
        hardware: The design.
        specs: Every layer of the network on the design, by name.
    """
    if len(homes(hardware)) != 1:
        return []
    home = hardware.level(homes(hardware)[0])
    level = hardware.arch.levels[home]
    nodes = {node.name: node for node in workload.nodes}
    charged = {operator.node for operator in workload.vector_operators()} if hardware.arch.units else set()
    found = []
    for names, links in chains(workload):
        operators = [layer for name in names if (layer := nodes[name].layer)]
        tensors = []
        for maker, link in enumerate(links):
            output, repeat = operators[maker].problem.output, operators[maker].repeat
            if not (link.also_read_by or link.elsewhere or charged & {*link.through}
                    or any(axis.pools for axis in link.axes)) and _may_lie(specs[names[maker]], output.name, home):
                elements = repeat * operators[maker].problem.tensor_size(output)
                tensors.append(LastingTensor(maker, ((names.index(link.consumer), link.operand),), elements,
                                             output.room(elements, level.word_bits)))
        readers: dict[tuple[int, str], list[tuple[int, str]]] = {}
        for shared in shared_operands(names, links, operators, nodes):
            readers.setdefault((shared.first, shared.tensor), []).append((shared.layer, shared.operand))
        for (first, operand), others in readers.items():
            space = space_of(operators[first].problem, operand)
            elements = operators[first].problem.tensor_size(space)
            tensors.append(LastingTensor(-1, ((first, operand), *others), elements,
                                         space.room(elements, level.word_bits)))
        found.append(LastingRow(names, tuple(
            tensor for tensor in tensors if (level.usable is None or tensor.room <= level.usable)
            and all(_may_lie(specs[names[reader]], operand, home) for reader, operand in tensor.readers))))
    return found


def _may_lie(spec: Spec, name: str, home: int) -> bool:
    """Whether the constraints of a layer let all of a tensor lie in the home, and nowhere between it and the outermost
    level. An output goes there as an intermediate of a group does, which no bypass forbids."""
    space, (own, *between, outermost) = space_of(spec.problem, name), spec.constraints.levels[home:]
    fixed = [(dim, factor) for level in (*between, outermost)
             for dim, factor in (*level.temporal.fixed.items(), *level.temporal.minimum.items())]
    return not (any(name in level.keep for level in between) or (name in own.bypass and not space.read_write)
                or any(dim in space.dimensions and factor != 1 for dim, factor in fixed))


@dataclass(frozen=True)
class LastingEnds:
    """The lasting tensors that a layer may find in the home, or leave there."""

    names: tuple[str, ...]  # the layers of its row
    tensors: Mapping[str, LastingTensor]  # by data space of the layer

    def beyond(self, nodes: Sequence[str]) -> frozenset[str]:
        """The data spaces that are lasting tensors for a group of some layers, this one among them: those that are made
        or read outside of it."""
        return frozenset(space for space, tensor in self.tensors.items() if tensor.maker < 0 or not (
            self.names[tensor.maker] in nodes and self.names[tensor.last] in nodes))


def lasting_ends(rows: Sequence[LastingRow], specs: Mapping[str, Spec]) -> dict[str, LastingEnds]:
    """The lasting tensors of each layer; `specs` are the layers on the design."""
    ends = {}
    for row in rows:
        own: list[dict[str, LastingTensor]] = [{} for _ in row.names]
        for tensor in row.tensors:
            for reader, space in tensor.readers[tensor.maker < 0:]:     # from outside, the first one brings it
                own[reader][space] = tensor
            if tensor.maker >= 0:
                own[tensor.maker][specs[row.names[tensor.maker]].problem.output.name] = tensor
        ends.update({name: LastingEnds(row.names, tensors) for name, tensors in zip(row.names, own, strict=True)})
    return ends


def most_saved(spec: Spec, home: int, ends: LastingEnds, repeat: int) -> OperatingPoint:
    """Energy and cycles that a layer by itself can save at most, in all runs, as lasting tensors are neither written to
    the outermost level nor read from there into the home, of which the index is given."""
    machine, names = prepare_layer(spec.arch, spec.problem, spec.tables).machine, spec.problem.dataspace_names()
    energy, shares = word_energy(machine), element_shares(spec.arch, spec.problem)[0]

    limits = np.minimum(np.minimum(machine.shared_bandwidth, machine.read_bandwidth), machine.write_bandwidth)[:, 0]
    saved = []
    for space, tensor in ends.tensors.items():
        words = tensor.elements * shares[:, names.index(space)]
        demand = words * machine.bandwidth_scale[:, names.index(space), 0]
        pj = energy.update[-1, 0] * words[-1] if space == spec.problem.output.name else (
            energy.read[-1, 0] * words[-1] + energy.fill[home, 0] * words[home])
        # Timeloop rounds the cycles of each run up
        saved.append(OperatingPoint(float(pj), repeat + max(
            float(demand[level] / limits[level]) if limits[level] < UNLIMITED else 0.0 for level in (home, -1))))
    return summed(saved)


VersionKey: TypeAlias = tuple[int, frozenset[tuple[int, str, bool]], bool, int]
"""The identity of a part, the operands of its layers that are lasting tensors with whether each is there already,
whether its output is one, and the room of all."""


@dataclass(frozen=True)
class PlanPart:
    """A group, or a layer by itself as a group of one layer, with mappings; equal ones of a network share one."""

    candidate: Candidate  # with its exact energy and cycles
    inside: float  # cycles that it needs on the chip at least, as is estimated
    evaluated: EvaluatedGroup | None  # None for a layer by itself


@dataclass(frozen=True)
class PartVersion:
    """A part of a plan with lasting tensors, at its place in a row; without any, the part as it is."""

    part: PlanPart
    start: int  # positions in the row of its first layer, and behind its last one
    stop: int
    before: frozenset[int]  # numbers of the tensors that lie in the home before it runs
    after: frozenset[int]  # and of those that lie there for later parts
    key: VersionKey
    estimate: OperatingPoint

    @property
    def room(self) -> int:
        """Words of the home that all lasting tensors take while it runs."""
        return self.key[-1]

    def group(self, level: str) -> FusedGroup:
        """The group of this version, with the mappings of its part, which may not suit it; the home is given."""
        _, operands, made, room = self.key
        group = self.part.candidate.group
        layers, stay = list(group.layers), Stay(level, frozenset(loop.dim for loop in group.loops))
        for index, operand, there in sorted(operands):
            layer = layers[index]
            layers[index] = replace(
                layer, operands={**layer.operands, operand: stay}, lasting={**layer.lasting, operand: there},
                shared={name: first for name, first in layer.shared.items() if name != operand})
        return replace(group, layers=tuple(layers), output_at=level if made else "", lasting_words={level: room})


@dataclass
class LastingCover:
    """A row of layers, with all that may be part of its cover."""

    row: LastingRow
    parts: Sequence[Sequence[PlanPart]]  # for each position of the row the parts that begin there
    usable: float  # words of the home
    costs: WordCosts
    in_one_go: Collection[tuple[str, ...]]  # layers of the row that can run one right after the other
    # versions with lasting tensors evaluated so far, those of all rows; None for one that cannot run
    exact: dict[VersionKey, EvaluatedGroup | None]
    # versions by the position where they begin, and the tensors that lie in the home before
    versions: dict[tuple[int, frozenset[int]], list[PartVersion]] = field(default_factory=dict)

    def unknown(self, version: PartVersion) -> bool:
        """Whether a version has an estimate only."""
        return version.room > 0 and version.key not in self.exact

    def cover_parts(self, cover: Sequence[PartVersion]) -> list[CoverPart[Any]]:
        """The groups of a cover; of those that are not evaluated the estimates."""
        found: list[CoverPart[Any]] = []
        for version in cover:
            outcome = self.exact.get(version.key) if version.room else version.part.evaluated
            if outcome is not None:
                found.append(CoverPart(self.row.names[version.start:version.stop], outcome.point, outcome))
            elif version.room:
                found.append(CoverPart(self.row.names[version.start:version.stop], version.estimate, version))
        return found

    def runs(self, cover: Sequence[PartVersion]) -> list[tuple[str, ...]]:
        """The layers of the groups of a cover, those that share lasting tensors together."""
        found = list[tuple[str, ...]]()
        for version in cover:
            found.append((found.pop() if version.before else ()) + self.row.names[version.start:version.stop])
        return [nodes for nodes in found if len(nodes) > 1]

    def best(self, price: NetworkPrice, hopeful: bool = True) -> list[PartVersion]:
        """The cheapest cover at some prices, with the estimates of versions that are not evaluated, or without these.
        """
        # A state: position in the row; start of the parts so far that share tensors, -1 if none does; tensors in the
        # home. With each the least price, the last part, and the state before it.
        State = tuple[int, int, frozenset[int]]
        longest = max(map(len, self.in_one_go), default=0)
        first: State = (0, -1, frozenset())
        least: dict[State, tuple[float, PartVersion | None, State]] = {first: (0.0, None, first)}
        waiting: list[list[State]] = [[first], *([] for _ in self.row.names)]
        for position in range(len(self.row.names)):
            for state in waiting[position]:
                before, begun, there = least[state][0], state[1], state[2]
                start = begun if there else position
                for version in self._versions(position, there):
                    if version.after and version.stop - start >= longest:
                        continue    # no part can follow that finds these tensors
                    if there and not version.after and self.row.names[begun:version.stop] not in self.in_one_go:
                        continue
                    value = before + self._price(version, price, hopeful)
                    now = version.stop, start if version.after else -1, version.after
                    if now not in least:
                        waiting[version.stop].append(now)
                    if now not in least or value < least[now][0]:
                        least[now] = value, version, state
        cover: list[PartVersion] = []
        state = (len(self.row.names), -1, frozenset())
        while state != first:
            _, last, state = least[state]
            assert last
            cover.insert(0, last)
        return cover

    def _price(self, version: PartVersion, price: NetworkPrice, hopeful: bool) -> float:
        """The price of a version; infinite for one that cannot run, or of which nothing else is hoped."""
        if not version.room or version.key not in self.exact:
            return price(version.estimate) if hopeful or not version.room else inf
        outcome = self.exact[version.key]
        return inf if outcome is None else price(outcome.point)

    def _versions(self, start: int, there: frozenset[int]) -> list[PartVersion]:
        """Versions of the parts that begin at a position, with tensors that lie in the home then."""
        if (start, there) not in self.versions:
            self.versions[start, there] = [
                version for part in self.parts[start]
                for version in self._of_part(part, range(start, start + len(part.candidate.group.layers)), there)]
        return self.versions[start, there]

    def _of_part(self, part: PlanPart, place: range, there: frozenset[int]) -> Iterator[PartVersion]:
        """Versions of a part at its place in the row."""
        tensors, point = self.row.tensors, part.candidate.estimate
        kept = {number for number in there if tensors[number].last >= place.stop}
        new = [number for number, tensor in enumerate(tensors) if number not in there and tensor.last >= place.stop
               and (tensor.maker == place[-1] or (tensor.maker < 0 and any(
                   reader in place for reader, _ in tensor.readers)))]
        for chosen in range(1 << len(new)):
            left = [number for bit, number in enumerate(new) if chosen >> bit & 1]
            room = sum(tensors[number].room for number in (*there, *left))
            if room > self.usable:
                continue
            made = [number for number in left if tensors[number].maker in place]
            found = [number for number in there if any(reader in place for reader, _ in tensors[number].readers)]
            operands = set()
            for number in {*found, *left}.difference(made):
                own = [(reader - place.start, operand) for reader, operand in tensors[number].readers
                       if reader in place]  # all but the first find it there
                operands |= {(*each, number in there or each != own[0]) for each in own}
            read, written = (sum(tensors[number].elements for number in some) for some in (found, made))
            estimate = OperatingPoint(
                point.energy_pj - read * self.costs.read[-1] - written * self.costs.written,
                max(point.cycles - (read + written) / self.costs.bandwidth, min(part.inside, point.cycles)))
            yield PartVersion(part, place.start, place.stop, there, frozenset({*kept, *left}),
                              (id(part), frozenset(operands), bool(made), room), estimate)
