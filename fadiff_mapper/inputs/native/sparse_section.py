"""Reads `sparse_optimizations`: representation formats, gating and skipping of accesses, and of computes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.inputs.native.arch import whole_number
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.arch import Architecture, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.sparse_optimizations import (
    BITMASK,
    FORMATS,
    UNCOMPRESSED_BITMASK,
    Choice,
    ConditionedAccess,
    LevelOptimizations,
    RankFormat,
    Representation,
    SparseOptimizations,
)
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, anything, mapping, one_of, sequence, text
from fadiff_mapper.inputs.yaml.place import Where

PARTS = ("representation_format", "action_optimization", "compute_optimization")
ACTIONS = {"gating": "gating", "skipping": "skipping", "skipping_spatial": "spatial_skipping"}
"""Timeloop's name of an optimization of accesses -> the field of `LevelOptimizations`."""
GATES = ("gate_on_zero_operand", "gating")
SKIPS = ("skip_on_not_aligned_operands", "skipping")
"""The two names of either optimization of computes."""


@dataclass(frozen=True)
class _Names:
    """Names that the section may use, the levels behind them, and what becomes of keys that Timeloop ignores."""

    arch: Architecture
    problem: Problem
    leniency: Leniency

    def reader(self, node: Any, where: Where) -> Reader:
        """A reader of one mapping of the section."""
        return Reader(mapping(node, where), self.leniency)


def read_sparse_optimizations(node: Any, where: Where, arch: Architecture, problem: Problem,
                              leniency: Leniency = STRICT) -> SparseOptimizations:
    """Reads the section.

    Args:
        node: `{targets: [...]}`, each target with a name and any of `PARTS`.
        where: Its place.
        arch: The architecture, whose levels the targets name.
        problem: The problem, whose data spaces and dimensions they name.
        leniency: Decides about keys that Timeloop ignores.

    Returns:
        The optimizations of every level. Where a level is listed twice, each part of the later entry replaces that of
        the earlier one, as in Timeloop.

    Raises:
        SpecError: An unknown level, data space, dimension, format or option, or a format that Timeloop refuses.
    """
    names = _Names(arch, problem, leniency)
    reader = names.reader(underscored(mapping(node, where)), where)
    reader.take("version", anything, None)
    targets = reader.take("targets", sequence, Seq(where=where))
    reader.finish(" in the sparse optimizations")
    levels = [LevelOptimizations()] * len(arch.levels)
    computes: frozenset[str] = frozenset()
    applied = False
    for i, target in enumerate(targets):
        entry = names.reader(target, targets.at(i))
        name = entry.take("name", text)
        parts = {part: entry.take(part, anything, None) for part in PARTS}
        entry.finish(f' of the target "{name}"')
        applied = applied or any(value is not None for value in parts.values())
        if parts["compute_optimization"] is not None:
            computes = _compute_options(parts["compute_optimization"], entry, name, names)
        if parts["action_optimization"] is not None or parts["representation_format"] is not None:
            level = _level_index(name, entry.at("name"), arch)
            levels[level] = _level_options(levels[level], parts, entry, arch.levels[level], names)
    return SparseOptimizations(tuple(levels), "gate" in computes, "skip" in computes, applied)


def _level_index(name: str, where: Where, arch: Architecture) -> int:
    known = arch.level_names()
    if name not in known:
        raise where.error(f'unknown storage level "{name}"{nearest(name, known)}', listed(known))
    return known.index(name)


def _compute_options(value: Any, entry: Reader, name: str, names: _Names) -> frozenset[str]:
    arithmetic = names.arch.arithmetic.name
    if name != arithmetic:
        raise entry.at("name").error(f'the optimizations of computes name "{name}"', f'the arithmetic, "{arithmetic}"')
    options = sequence(value, entry.at("compute_optimization"))
    found = set()
    for i, option in enumerate(options):
        reader = names.reader(option, options.at(i))
        found.add("gate" if reader.take("type", one_of(*GATES, *SKIPS)) in GATES else "skip")
        reader.finish(" of an optimization of computes")
    return frozenset(found)


def _level_options(before: LevelOptimizations, parts: dict[str, Any], entry: Reader, level: StorageLevel,
                   names: _Names) -> LevelOptimizations:
    """The options of a level after one more target that names it."""
    if parts["action_optimization"] is not None:
        found = _actions(sequence(parts["action_optimization"], entry.at("action_optimization")), names)
        before = replace(before, gating=found.get("gating", before.gating),
                         skipping=found.get("skipping", before.skipping),
                         spatial_skipping=found.get("spatial_skipping", before.spatial_skipping))
    if parts["representation_format"] is not None:
        formats = _formats(mapping(parts["representation_format"], entry.at("representation_format")), level, names)
        lost = [name for name in before.formats if name not in formats]
        if lost:
            raise entry.at("representation_format").error(
                f'the formats of {listed(lost)} at "{level.name}" stand in another target, which Timeloop forgets',
                "all formats of a level in one target")
        before = replace(before, formats=formats)
    return before


def _actions(options: Seq, names: _Names) -> dict[str, tuple[Choice, ...]]:
    """Field of `LevelOptimizations` -> its choices, those of them that the list names."""
    found: dict[str, list[Choice]] = {}
    for i, option in enumerate(options):
        reader = names.reader(option, options.at(i))
        kind = reader.take("type", text)
        if kind not in ACTIONS:
            hint = ' (Timeloop aborts on this word; did you mean "skipping_spatial"?)' * (kind == "spatial_skipping")
            raise reader.at("type").error(f'unknown optimization of accesses "{kind}"{hint}', listed(ACTIONS))
        choices = reader.take("options", sequence, None)
        if choices is None:
            group: Choice = (_conditioned(reader, names),)
        else:
            group = tuple(_conditioned(names.reader(choice, choices.at(j)), names)
                          for j, choice in enumerate(choices))
            reader.take("target", anything, None)
            reader.take("condition_on", anything, None)
            reader.finish(" of an optimization of accesses")
        if not group or (kind == "skipping_spatial" and len(group) != 1):
            raise reader.node.where.error(f"found {len(group)} options", "one option" + (
                "" if kind == "skipping_spatial" else " or more"))
        found.setdefault(ACTIONS[kind], []).append(group)
    return {field: tuple(groups) for field, groups in found.items()}


def _conditioned(reader: Reader, names: _Names) -> ConditionedAccess:
    spaces = names.problem.dataspace_names()
    target = reader.take("target", one_of(*spaces))
    conditions = reader.take("condition_on", sequence)
    reader.finish(" of an option")
    leaders = tuple(one_of(*spaces)(name, conditions.at(i)) for i, name in enumerate(conditions))
    return ConditionedAccess(target, leaders)


def _formats(node: Map, level: StorageLevel, names: _Names) -> dict[str, Representation]:
    reader = names.reader(node, node.where)
    spaces = reader.take("data_spaces", sequence, Seq(where=node.where))
    reader.finish(" of a representation format")
    result = {}
    for i, space in enumerate(spaces):
        entry = names.reader(space, spaces.at(i))
        name = entry.take("name", one_of(*names.problem.dataspace_names()))
        result[name] = _representation(entry, level, names)
    return result


def _representation(entry: Reader, level: StorageLevel, names: _Names) -> Representation:
    order = entry.take("rank_application_order", one_of("inner_to_outer", "outer_to_inner"), "outer_to_inner")
    entry.refuse("compression_rate", "Timeloop reads it and makes no use of it")
    ranks = entry.take("ranks", sequence)
    entry.finish(" of a representation format")
    if not ranks:
        raise ranks.where.error("found no rank", "at least one rank with a format")
    outermost_first = [_rank(rank, ranks.at(i), level, names) for i, rank in enumerate(ranks)]
    formats = tuple(reversed(outermost_first))
    plain = [not rank.compressed for rank in formats]
    for outer, rank in enumerate(formats):
        if rank.compressed and any(plain[:outer]):
            raise ranks.where.error("data representation format not supported,currently do not support lower rank "
                                    f"uncompressed, upper rank compressed formats: {rank.kind}",
                                    "compressed ranks (CP, RLE, B) innermost")
    return Representation(formats, order == "inner_to_outer")


def _rank(node: Any, where: Where, level: StorageLevel, names: _Names) -> RankFormat:
    reader = names.reader(node, where)
    word = reader.take("format", text)
    kind = word.lower()
    if kind not in FORMATS or word not in (kind, word.upper()):
        raise reader.at("format").error(f'unknown format "{word}"', listed(name.upper() for name in FORMATS))
    groups = reader.take("flattened_rankIDs", sequence, Seq(where=where))
    flattened = tuple(_dimensions(group, groups.at(i), names.problem.dimensions) for i, group in enumerate(groups))
    metadata = reader.take("metadata_word_bits", whole_number(0, reader.leniency), 1 if kind == BITMASK else None)
    payload = reader.take("payload_word_bits", whole_number(0, reader.leniency), None)
    reader.finish(" of a rank")
    # Timeloop does not read the widths of an uncompressed bitmask.
    widths = [None if kind == UNCOMPRESSED_BITMASK else bits for bits in (metadata, payload)]
    return RankFormat(kind, flattened, *(_stored_bits(bits, level, where) for bits in widths))


def _dimensions(group: Any, where: Where, known: Sequence[str]) -> tuple[str, ...]:
    entries = sequence(group, where)
    return tuple(one_of(*known)(name, entries.at(i)) for i, name in enumerate(entries))


def _stored_bits(bits: int | None, level: StorageLevel, where: Where) -> int:
    """Bits of a unit in the metadata storage: widened until they divide its width, as Timeloop does.

    Args:
        bits: As specified; None takes the level's default.
        level: The level, with its metadata storage.
        where: The place of the rank.

    Raises:
        SpecError: A unit is wider than the storage.
    """
    storage = level.metadata
    stored = storage.word_bits if bits is None else bits
    if bits and storage.width % bits:
        stored = next((wider for wider in range(bits, 2 * bits) if storage.width % wider == 0), 2 * bits)
    if stored > storage.width:
        raise where.error(f"specified format representation  word bits > metadata storage width at {level.name}",
                          f"at most {storage.width} bits, the metadata_storage_width")
    return stored
