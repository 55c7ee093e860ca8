"""A corner: a small machine, a shape and a mapping, all as plain values, so that each can be drawn and made smaller."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Term

from ..questions import Question
from ..tasks import ModelTask

READ_ENERGY, WRITE_ENERGY, UPDATE_ENERGY, LEAK, COMPUTE_ENERGY = 1.25, 1.5, 1.75, 0.0625, 0.5
"""pJ of the innermost level's actions; level i costs i + 1 times as much. Made up: sums of them are exact in binary."""

AREA = 400.0
"""um^2 of the innermost level, as made up."""


@dataclass(frozen=True)
class CornerNetwork:
    """One interconnect that is a component of its own.

    Attributes:
        kind: Its class in Timeloop's words.
        inwards: Whether it carries words inwards.
        outwards: Whether it carries partial sums outwards.
        attributes: Its attributes in Timeloop's words.
        energies: Its entries in the energy table.
    """

    kind: str
    inwards: bool
    outwards: bool
    attributes: dict[str, Any]
    energies: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class CornerLevel:
    """One storage level.

    Attributes:
        fan: Receivers below one instance, along X and along Y.
        entries: Words; None is unlimited, which Timeloop allows a DRAM only.
        attributes: Further attributes in Timeloop's words.
        networks: Interconnects of their own below the level.
    """

    fan: tuple[int, int]
    entries: int | None
    attributes: dict[str, Any]
    networks: tuple[CornerNetwork, ...] = ()


@dataclass(frozen=True)
class Corner:
    """One question; the bounds of the problem are what the factors of the mapping multiply to.

    Attributes:
        rule: The rule that it is built for, a key of `rules.RULES`.
        levels: Storage levels, innermost first; the arithmetic lies below the first one.
        spaces: The tensors.
        mapping: Loops and kept tensors of every level.
    """

    rule: str
    levels: tuple[CornerLevel, ...]
    spaces: tuple[DataSpace, ...]
    mapping: Mapping

    @property
    def bounds(self) -> dict[str, int]:
        """Extent of every dimension."""
        levels = self.mapping.levels
        return {name: math.prod(level.temporal[name] * level.spatial[name] for level in levels)
                for name in levels[0].temporal}

    def document(self) -> dict[str, Any]:
        """Machine, energies and problem in Timeloop's native dialect, without the mapping."""
        named = any(level.networks for level in self.levels)
        return {"architecture": _architecture(self.levels), "ERT": _energies(self.levels),
                "problem": _problem(self.spaces, self.bounds)} | (
                    {"ART": _areas(len(self.levels))} if named else {})

    def question(self) -> Question:
        """The question to ask; tasks of equal documents have equal names."""
        document = self.document()
        digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12]
        return Question(ModelTask("corner", f"{self.rule} {digest}", document, {}), self.rule, self.mapping)


def _architecture(levels: tuple[CornerLevel, ...]) -> dict[str, Any]:
    """The tree, outermost level first: every mesh is the product of the fan-outs further out."""
    local: list[dict[str, Any]] = []
    wide = high = 1
    outside: dict[str, str] = {}  # networks that the level further out names
    for index, level in reversed(list(enumerate(levels))):
        outermost = index == len(levels) - 1
        size = {} if level.entries is None else {"entries": level.entries}
        local.append({"name": f"L{index}", "class": "DRAM" if outermost else "SRAM", "attributes": {
            "instances": wide * high, "meshX": wide, "meshY": high, **size, **level.attributes,
            **_named(outside, "fill", "drain"), **_named(_names(level, index), "read", "update")}})
        outside = _names(level, index)
        local += [{"name": f"N{index}_{number}", "class": network.kind, "attributes": network.attributes}
                  for number, network in enumerate(level.networks)]
        wide, high = wide * level.fan[0], high * level.fan[1]
    local.append({"name": "MAC", "class": "mac",
                  "attributes": {"instances": wide * high, "meshX": wide, "meshY": high, "word_bits": 8,
                                 **_named(outside, "operand", "result")}})
    return {"version": 0.3, "subtree": [{"name": "chip", "local": local}]}


def _names(level: CornerLevel, index: int) -> dict[str, str]:
    """The names of a level's own interconnects by direction."""
    names: dict[str, str] = {}
    for number, network in enumerate(level.networks):
        names |= {"in": f"N{index}_{number}"} if network.inwards else {}
        names |= {"out": f"N{index}_{number}"} if network.outwards else {}
    return names


def _named(names: dict[str, str], inwards: str, outwards: str) -> dict[str, str]:
    """The attributes by which a level refers to them."""
    keys = {"in": f"network_{inwards}", "out": f"network_{outwards}"}
    return {keys[way]: name for way, name in names.items()}


def _energies(levels: tuple[CornerLevel, ...]) -> dict[str, Any]:
    """The energy table, so that Timeloop does not look for one."""
    actions = {"read": READ_ENERGY, "write": WRITE_ENERGY, "update": UPDATE_ENERGY, "leak": LEAK}
    tables = [{"name": f"chip.L{index}", "actions": [
        {"name": name, "energy": energy * (index + 1)} for name, energy in actions.items()]}
        for index in range(len(levels))]
    compute = {"name": "chip.MAC", "actions": [{"name": "compute", "energy": COMPUTE_ENERGY}]}
    networks = [{"name": f"chip.N{index}_{number}", "actions": [dict(entry) for entry in network.energies]}
                for index, level in enumerate(levels) for number, network in enumerate(level.networks)
                if network.energies]
    return {"version": 0.4, "tables": [*tables, compute, *networks]}


def _areas(levels: int) -> dict[str, Any]:
    """The area table, from which the length of a hop follows where none is written."""
    names = [*(f"chip.L{index}" for index in range(levels)), "chip.MAC"]
    return {"version": 0.4, "tables": [{"name": name, "area": AREA * (index + 1)} for index, name in enumerate(names)]}


def _problem(spaces: tuple[DataSpace, ...], bounds: dict[str, int]) -> dict[str, Any]:
    """Shape and instance; a coefficient of 3 is the shape's default for the name "by3"."""
    used = sorted({term.coefficient for space in spaces for rank in space.ranks for term in rank} - {1})
    return {"shape": {
        "name": "corner", "dimensions": list(bounds),
        "coefficients": [{"name": f"by{value}", "default": value} for value in used],
        "data_spaces": [{"name": space.name, "projection": [[_term(term) for term in rank] for rank in space.ranks]}
                        | ({"read_write": True} if space.read_write else {}) for space in spaces]},
        "instance": dict(bounds)}


def _term(term: Term) -> list[str]:
    return [term.dimension] if term.coefficient == 1 else [term.dimension, f"by{term.coefficient}"]
