"""A fused group as an input of LoopTree (`v4fused`): problem, mapping, architecture and energies.

The same input runs in LoopTree, Timeloop's model of fused layers, and in `fadiff_mapper.evaluate_fused`, so that
another program can judge a plan.
"""

from __future__ import annotations

from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, Hardware
from fadiff_mapper.output.looptree_files.einsums import looptree_problem
from fadiff_mapper.output.looptree_files.inexpressible import beyond_looptree
from fadiff_mapper.output.looptree_files.mapping_tree import looptree_mapping, stored_levels
from fadiff_mapper.spec.arch import StorageLevel
from fadiff_mapper.spec.tables import compute_energy, storage_energy
from fadiff_mapper.yaml.load import dump
from fadiff_mapper.yaml.located import Map
from fadiff_mapper.yaml.place import Where

FIRST_LINE = ("# An input of LoopTree (v4fused), with tags such as !Component: read by timeloopfe.v4fused and "
              "fadiff_mapper.evaluate_fused, refused by YAML readers that know no tags.\n")


def looptree_yaml(group: FusedGroup, hardware: Hardware, *, alike: bool = True) -> str:
    """The document of `to_looptree` as YAML text; its first line names the readers, for the tags are LoopTree's own.

    The arguments and errors are those of `to_looptree`.
    """
    return FIRST_LINE + dump(to_looptree(group, hardware, alike=alike))


def to_looptree(group: FusedGroup, hardware: Hardware, *, alike: bool = True) -> dict[str, Any]:
    """One run of a legal group as a document for LoopTree and `evaluate_fused`.

    Layer i, counted from 1, is `E<i>`, its dimension D `D_<i>`, its data space T `T_<i>`; an intermediate has the name
    that its writer gives it. DRAM traffic, operations and the occupancy of resident tensors are those of `group_cost`.
    Traffic inside a tile is the same where LoopTree and Timeloop count alike: LoopTree also lets neighbouring units
    hand words on, and words of inner levels outlive the steps of the other layers.

    Args:
        group: A group without violations.
        hardware: Architecture and energies on which it runs.
        alike: LoopTree has one loop nest per layer. If true, a layer whose tiles of different shapes have different
            loops is refused; if false, the loops of the largest tile serve tiles of all shapes.

    Returns:
        The sections `problem`, `mapping`, `architecture` and `ERT` (pJ per word).

    Raises:
        FadiffError: LoopTree cannot express the group; the text gives the first reason.
    """
    reasons = beyond_looptree(group, hardware, alike)
    if reasons:
        raise FadiffError(f"LoopTree cannot express this group: {reasons[0]}")
    levels = [hardware.arch.levels[level] for level in stored_levels(hardware)]
    return {"problem": looptree_problem(group), "mapping": looptree_mapping(group, hardware),
            "architecture": _architecture(hardware, levels), "ERT": _energies(hardware, levels)}


def _architecture(hardware: Hardware, levels: list[StorageLevel]) -> dict[str, Any]:
    """The section `architecture`: the levels that store anything, outermost first, and the arithmetic."""
    arithmetic = hardware.arch.arithmetic
    nodes = [_component(level.name, level.kind, {"datawidth": level.word_bits, "width": level.word_bits
                                                 * level.block_size} | _depth(level)) for level in levels]
    nodes.append(_component(arithmetic.name, arithmetic.kind, {"datawidth": arithmetic.word_bits,
                                                               "width": arithmetic.word_bits}))
    return {"version": 0.4, "nodes": nodes}


def _depth(level: StorageLevel) -> dict[str, int]:
    """Blocks of all instances together, because the tree treats the instances of a level as one unit."""
    return {} if level.size is None else {"depth": level.size * level.instances // level.block_size}


def _component(name: str, component_class: str, attributes: dict[str, int]) -> Map:
    return Map({"name": name, "class": component_class, "attributes": attributes}, where=Where("architecture"),
               tag="!Component")


def _energies(hardware: Hardware, levels: list[StorageLevel]) -> dict[str, Any]:
    """The section `ERT` in pJ per word; LoopTree's writes take the price of Timeloop's fills, not of its updates."""
    tables = []
    for level in levels:
        energy = storage_energy(level, hardware.tables)
        tables.append(_table(level.name, {"read": energy.read / level.block_size,
                                          "write": energy.fill / level.block_size}))
    arithmetic = hardware.arch.arithmetic
    tables.append(_table(arithmetic.name, {"compute": compute_energy(arithmetic, hardware.tables)[0]}))
    return {"version": "0.4", "tables": tables}


def _table(name: str, actions: dict[str, float]) -> dict[str, Any]:
    return {"name": name, "actions": [{"name": action, "arguments": {}, "energy": energy}
                                      for action, energy in actions.items()]}
