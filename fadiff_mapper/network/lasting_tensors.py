"""Tensors that stay on the chip from one group of a plan to another.

Problem. Between two groups of a plan, or layers by themselves, a tensor goes to the outermost level and comes back. If
the home has room for all of it, it may stay there instead, from the group that makes it to the last one that reads it.
All groups that run meanwhile have less room, so that the choice of tensors depends on the choice of groups.

Method. A *lasting tensor* lies whole in the only level that can be a home. The best cover of a row of layers
(`fusion.prices`) is a shortest path over the layers. Here its states also say which tensors lie in the home. Each
group, or layer by itself, has several versions, which differ in the lasting tensors found in the home, in those left
there, and in the room of all. The estimate of a version is the cost of the group less the words that are no longer read
from or written to the outermost level. As in `planning`, the plan that would be best if estimates held is evaluated
exactly, again and again, until it consists of evaluated versions. Groups that share lasting tensors run one right after
the other, so no other layer may have to run in between.

The bound on all plans (`network_bound`) is a shortest path over the same states (`row_steps`).
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any, TypeAlias

from fadiff_mapper.fusion import FusedGroup, Hardware, Stay
from fadiff_mapper.fusion.estimates import Candidate, homes
from fadiff_mapper.fusion.prices import CoverPart, NetworkPrice, WordCosts, least_path
from fadiff_mapper.fusion.segments import chains, shared_operands
from fadiff_mapper.fusion.tile_steps import layer_steps, resident_words, space_of
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.options import LONGEST
from fadiff_mapper.network.result import EvaluatedGroup
from fadiff_mapper.workload import OperatingPoint, Workload


@dataclass(frozen=True)
class LastingTensor:
    """A tensor that may lie whole in the home from group to group."""

    maker: int  # position in the row of the layer that writes the tensor; -1: the tensor comes from outside the row
    readers: tuple[tuple[int, str], ...]  # positions of the layers that read it, in order, each with its data space
    elements: int  # elements of all runs together
    room: int  # words of the home that the tensor occupies

    @property
    def last(self) -> int:
        """Position in the row of the last layer that reads the tensor."""
        return self.readers[-1][0]


@dataclass(frozen=True)
class LastingRow:
    """A row of layers (`segments.chains`) with the tensors that may stay on the chip from group to group."""

    names: tuple[str, ...]
    tensors: tuple[LastingTensor, ...]

    @cached_property
    def coming(self) -> list[list[int]]:
        """For each layer the numbers of the tensors that may enter the home while it runs: its output, and operands
        from outside the row."""
        found: list[list[int]] = [[] for _ in self.names]
        for number, tensor in enumerate(self.tensors):
            for position in [tensor.maker] if tensor.maker >= 0 else [reader for reader, _ in tensor.readers]:
                found[position].append(number)
        return found


def lasting_rows(workload: Workload, hardware: Hardware, specs: Mapping[str, Spec]) -> list[LastingRow]:
    """All rows of layers of a network with their lasting tensors; `specs`: every layer on the design, by name.

    A tensor may last if one layer makes it and a single other one reads it unchanged, or if it comes from outside the
    row and several layers read it. The home must have room for the whole tensor, and the constraints of its layers must
    allow it there. Designs with several possible homes have no rows.
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
    """Whether the constraints of a layer let a whole tensor lie in the home and in no level between home and outermost
    level. Bypassing the home forbids operands only: an output lies there as an intermediate of a group does."""
    space, (own, *between, outermost) = space_of(spec.problem, name), spec.constraints.levels[home:]
    fixed = [(dim, factor) for level in (*between, outermost)
             for dim, factor in (*level.temporal.fixed.items(), *level.temporal.minimum.items())]
    return not (any(name in level.keep for level in between) or (name in own.bypass and not space.read_write)
                or any(dim in space.dimensions and factor != 1 for dim, factor in fixed))


@dataclass(frozen=True)
class Residents:
    """Lasting tensors that lie in the home while a part of a plan runs, a group or a layer by itself."""

    after: frozenset[int]  # numbers in the row of the tensors that stay for later parts
    operands: frozenset[tuple[int, str, bool]]  # layer of the part, operand, whether already in the home
    made: bool  # whether the output of the part is a lasting tensor
    room: int  # words of the home that all lasting tensors occupy
    read: int  # elements that the part reads from the home instead of the outermost level
    written: int  # elements of the output, if it lasts


NOBODY = Residents(frozenset(), frozenset(), False, 0, 0, 0)
"""No lasting tensors."""


def residents(row: LastingRow, place: range, there: frozenset[int], usable: float) -> Iterator[Residents]:
    """All choices of lasting tensors while the layers at a place of a row run as one part. `there`: numbers of the
    tensors in the home before; `usable`: usable words of the home."""
    tensors = row.tensors
    kept = {number for number in there if tensors[number].last >= place.stop}
    new = sorted({number for position in place for number in row.coming[position] if number not in there
                  and tensors[number].last >= place.stop and tensors[number].maker in (-1, place[-1])})
    for chosen in range(1 << len(new)):
        left = [number for bit, number in enumerate(new) if chosen >> bit & 1]
        room = sum(tensors[number].room for number in (*there, *left))
        if room > usable:
            continue
        made = [number for number in left if tensors[number].maker in place]
        found = [number for number in there if any(reader in place for reader, _ in tensors[number].readers)]
        operands = set()
        for number in {*found, *left}.difference(made):
            own = [(reader - place.start, operand) for reader, operand in tensors[number].readers if reader in place]
            operands |= {(*each, number in there or each != own[0]) for each in own}    # its first reader fetches it
        yield Residents(frozenset({*kept, *left}), frozenset(operands), bool(made), room,
                        sum(tensors[number].elements for number in found),
                        sum(tensors[number].elements for number in made))


State: TypeAlias = tuple[int, frozenset[int], float]
"""Layers of a row that have run, tensors in the home, and the position by which the last part that shares them ends."""

NEW_ROW: State = (0, frozenset(), 0)
"""The state before the first layer of a row."""


@dataclass(frozen=True)
class RowStep:
    """Layers of a row that run as one part of a plan."""

    before: State
    after: State
    residents: Residents


def row_steps(row: LastingRow, parts: Container[tuple[str, ...]], in_one_go: Container[tuple[str, ...]],
              usable: float) -> Iterator[RowStep]:
    """All steps on paths through a row of layers; a step into a state comes before all steps from that state.

    Parts that share lasting tensors run one right after the other, within layers from the first of them that can run
    `in_one_go` (at most `LONGEST`). Where `LONGEST` layers can, the limit is dropped, so that long rows have few
    states. `parts`: the layers of each part, every single layer included; `usable`: usable words of the home.
    """
    names = row.names
    states: list[dict[State, None]] = [{NEW_ROW: None}, *({} for _ in names)]
    for start in range(len(names)):
        ends = range(start + 1, min(start + LONGEST, len(names)) + 1)
        far = max((stop for stop in ends if names[start:stop] in in_one_go), default=start)
        stops = [stop for stop in ends if names[start:stop] in parts]
        for before in states[start]:
            _, there, limit = before
            last = limit if there else inf if far == ends[-1] else far
            for stop in stops:
                if there and stop > last:
                    break
                for own in residents(row, range(start, stop), there, usable):
                    if not own.after:
                        after: State = stop, own.after, 0
                    elif stop < last:
                        after = stop, own.after, last
                    else:   # no later part may read these tensors
                        continue
                    states[stop][after] = None
                    yield RowStep(before, after, own)


VersionKey: TypeAlias = tuple[int, frozenset[tuple[int, str, bool]], bool, int]
"""The identity of a part, its operands that are lasting tensors (see `Residents.operands`), whether its output is a
lasting tensor, and the words that all lasting tensors occupy."""


@dataclass(frozen=True)
class PlanPart:
    """A group, or a layer by itself as a group of one layer, with mappings; equal parts share one object."""

    candidate: Candidate  # with its exact energy and cycles
    inside: float  # estimate of the least cycles inside of the outermost level
    evaluated: EvaluatedGroup | None  # None for a layer by itself


@dataclass(frozen=True)
class PartVersion:
    """A part of a plan with lasting tensors, at its place in a row, or the part without any."""

    part: PlanPart
    nodes: tuple[str, ...]  # names of its layers
    step: RowStep
    point: OperatingPoint  # an estimate; exact without lasting tensors

    @property
    def key(self) -> VersionKey:
        """The key under which equal versions share one exact evaluation."""
        own = self.step.residents
        return id(self.part), own.operands, own.made, own.room

    def group(self, level: str) -> FusedGroup:
        """The group of this version with a home; it takes the mappings of its part, which may not be legal here."""
        own, group = self.step.residents, self.part.candidate.group
        layers, stay = list(group.layers), Stay(level, frozenset(loop.dim for loop in group.loops))
        for index, operand, there in sorted(own.operands):
            layer = layers[index]
            layers[index] = replace(
                layer, operands={**layer.operands, operand: stay}, lasting={**layer.lasting, operand: there},
                shared={name: first for name, first in layer.shared.items() if name != operand})
        return replace(group, layers=tuple(layers), output_at=level if own.made else "",
                       lasting_words={level: own.room})


@dataclass
class LastingCover:
    """All rows of layers of a network, with all groups and layers that may cover them."""

    rows: Sequence[LastingRow]
    parts: Mapping[tuple[str, ...], Sequence[PlanPart]]
    in_one_go: Container[tuple[str, ...]]
    home: StorageLevel
    costs: WordCosts
    # versions with lasting tensors evaluated so far; None for one that cannot run
    exact: dict[VersionKey, EvaluatedGroup | None] = field(default_factory=dict)
    # energy and cycles of evaluated versions, by key without the occupied words
    alike: dict[Hashable, OperatingPoint] = field(default_factory=dict)

    @cached_property
    def versions(self) -> list[list[PartVersion]]:
        """The versions of all parts for each row; a version into a state comes before all versions from that state."""
        found: list[list[PartVersion]] = [[] for _ in self.rows]
        usable = inf if self.home.usable is None else self.home.usable
        for row, versions in zip(self.rows, found, strict=True):
            for step in row_steps(row, self.parts, self.in_one_go, usable):
                nodes, own = row.names[step.before[0]:step.after[0]], step.residents
                for part in self.parts[nodes]:
                    point = part.candidate.estimate
                    cycles = max(point.cycles - (own.read + own.written) / self.costs.bandwidth,
                                 min(part.inside, point.cycles))
                    versions.append(PartVersion(part, nodes, step, OperatingPoint(
                        point.energy_pj - own.read * self.costs.read[-1] - own.written * self.costs.written, cycles)))
        return found

    def unknown(self, version: PartVersion) -> bool:
        """Whether a version has not been evaluated exactly."""
        return version.step.residents.room > 0 and version.key not in self.exact

    def learn(self, found: Mapping[VersionKey, EvaluatedGroup | None]) -> None:
        """Records the exact cost of versions; None for a version that cannot run."""
        self.exact |= found
        self.alike |= {key[:-1]: outcome.point for key, outcome in found.items() if outcome}

    def hoped(self, version: PartVersion) -> OperatingPoint:
        """Expected cost of a version that is not evaluated: exact with other words in the home, else the estimate."""
        return self.alike.get(version.key[:-1], version.point)

    def crowded(self, version: PartVersion) -> bool:
        """Whether the tensors that stay while a version runs leave no word of the home to its tiles."""
        group, usable = version.group(self.home.name), self.home.usable
        return usable is not None and max(resident_words(group, layer_steps(group), self.home)) >= usable

    def cover_parts(self, cover: Sequence[PartVersion]) -> list[CoverPart[Any]]:
        """The groups of a cover with exact cost, or with an estimate where there is none."""
        found: list[CoverPart[Any]] = []
        for version in cover:
            if self.unknown(version):
                found.append(CoverPart(version.nodes, self.hoped(version), version))
            elif outcome := self.exact.get(version.key) or version.part.evaluated:
                found.append(CoverPart(version.nodes, outcome.point, outcome))
        return found

    def best(self, price: NetworkPrice, hopeful: bool = True) -> list[PartVersion]:
        """The cheapest cover at some prices; `hopeful`: estimates count for versions that are not evaluated."""
        def at(version: PartVersion) -> float:
            """The price of a version; infinite if it cannot run, or is not evaluated and estimates do not count."""
            if self.unknown(version):
                return price(self.hoped(version)) if hopeful else inf
            outcome = self.exact.get(version.key, version)
            return price(outcome.point) if outcome else inf

        while True:
            cover: list[PartVersion] = []
            for row, versions in zip(self.rows, self.versions, strict=True):
                end: State = len(row.names), frozenset(), 0
                cover += least_path(((version.step.before, version.step.after, at(version), version)
                                     for version in versions), NEW_ROW, end)[1]
            crowded = [version.key for version in cover if self.unknown(version) and self.crowded(version)]
            if not crowded:
                return cover
            self.exact.update(dict.fromkeys(crowded))


def runs_of(cover: Sequence[PartVersion]) -> list[tuple[str, ...]]:
    """The layers of each group of a cover; groups that share lasting tensors are joined."""
    found = list[tuple[str, ...]]()
    for version in cover:
        found.append((found.pop() if version.step.before[1] else ()) + version.nodes)
    return [nodes for nodes in found if len(nodes) > 1]
