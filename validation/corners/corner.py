"""A corner: a small machine, a shape and a mapping, all as plain values, so that each can be drawn and made smaller."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import DataSpace, Term

from ..questions import Question
from ..tasks import ModelTask

READ_ENERGY, WRITE_ENERGY, UPDATE_ENERGY, LEAK, COMPUTE_ENERGY = 1.25, 1.5, 1.75, 0.0625, 0.5
"""pJ of the innermost level's actions; level i costs i + 1 times as much. Made up: sums of them are exact in binary."""


@dataclass(frozen=True)
class CornerLevel:
    """One storage level.

    Attributes:
        fan: Receivers below one instance, along X and along Y.
        entries: Words; None is unlimited, which Timeloop allows a DRAM only.
        attributes: Further attributes in Timeloop's words.
    """

    fan: tuple[int, int]
    entries: int | None
    attributes: dict[str, Any]


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
        return {"architecture": _architecture(self.levels), "ERT": _energies(len(self.levels)),
                "problem": _problem(self.spaces, self.bounds)}

    def question(self) -> Question:
        """The question to ask; tasks of equal documents have equal names."""
        document = self.document()
        digest = hashlib.sha256(json.dumps(document).encode()).hexdigest()[:12]
        return Question(ModelTask("corner", f"{self.rule} {digest}", document, {}), self.rule, self.mapping)


def _architecture(levels: tuple[CornerLevel, ...]) -> dict[str, Any]:
    """The tree, outermost level first: every mesh is the product of the fan-outs further out."""
    local, wide, high = [], 1, 1
    for index, level in reversed(list(enumerate(levels))):
        outermost = index == len(levels) - 1
        size = {} if level.entries is None else {"entries": level.entries}
        local.append({"name": f"L{index}", "class": "DRAM" if outermost else "SRAM", "attributes": {
            "instances": wide * high, "meshX": wide, "meshY": high, **size, **level.attributes}})
        wide, high = wide * level.fan[0], high * level.fan[1]
    local.append({"name": "MAC", "class": "mac",
                  "attributes": {"instances": wide * high, "meshX": wide, "meshY": high, "word_bits": 8}})
    return {"version": 0.3, "subtree": [{"name": "chip", "local": local}]}


def _energies(levels: int) -> dict[str, Any]:
    """The energy table, so that Timeloop does not look for one."""
    actions = {"read": READ_ENERGY, "write": WRITE_ENERGY, "update": UPDATE_ENERGY, "leak": LEAK}
    tables = [{"name": f"chip.L{index}", "actions": [
        {"name": name, "energy": energy * (index + 1)} for name, energy in actions.items()]} for index in range(levels)]
    compute = {"name": "chip.MAC", "actions": [{"name": "compute", "energy": COMPUTE_ENERGY}]}
    return {"version": 0.4, "tables": [*tables, compute]}


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
