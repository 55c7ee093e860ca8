"""Reads `sparse_optimizations`: representation formats, gating and skipping of accesses, and of computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec import keys
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
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, Table, known, mapping, one_of, sequence
from fadiff_mapper.inputs.yaml.place import Where

ACTIONS = {"gating": "gating", "skipping": "skipping", "skipping_spatial": "spatial_skipping"}
"""Timeloop's name of an optimization of accesses -> the field of `LevelOptimizations`."""


@dataclass(frozen=True)
class _Names:
    """Names that the section may use, the levels behind them, and the treatment of keys that Timeloop ignores."""

    arch: Architecture
    problem: Problem
    leniency: Leniency

    def readers(self, nodes: Seq, table: Table) -> list[Reader]:
        """Readers of the mappings in a list of the section."""
        return [Reader(mapping(node, nodes.at(i)), self.leniency, table) for i, node in enumerate(nodes)]

    def each(self, nodes: Seq, *known: str) -> tuple[str, ...]:
        """The names in a list, all of them known ones."""
        return tuple(one_of(*known)(name, nodes.at(i)) for i, name in enumerate(nodes))


def read_sparse_optimizations(node: Any, where: Where, arch: Architecture, problem: Problem,
                              leniency: Leniency = STRICT) -> SparseOptimizations:
    """Reads the section, `{targets: [...]}`, each target with a name and any of its three parts.

    Where a level is listed twice, each part of the later entry replaces the same part of the earlier one, as in
    Timeloop. Raises SpecError for an unknown level, data space, dimension, format or option, or a format that Timeloop
    refuses.
    """
    names = _Names(arch, problem, leniency)
    reader = Reader(underscored(mapping(node, where)), leniency, keys.SPARSE)
    targets = reader.read("targets", Seq(where=where))
    reader.finish(" in the sparse optimizations")
    levels, level_names = [LevelOptimizations()] * len(arch.levels), arch.level_names()
    computes: set[str] = set()
    applied = False
    for i, target in enumerate(targets):
        entry = Reader(mapping(target, targets.at(i)), leniency, keys.SPARSE_TARGET)
        name = entry.read("name")
        entry.finish(f' of the target "{name}"')
        parts = {part: entry.node.get(part) for part in keys.SPARSE_TARGET if part != "name"}
        applied = applied or any(value is not None for value in parts.values())
        if parts["compute_optimization"] is not None:
            if name != arch.arithmetic.name:
                raise entry.at("name").error(f'the optimizations of computes name "{name}"',
                                             f'the arithmetic, "{arch.arithmetic.name}"')
            computes = set()
            for option in names.readers(entry.read("compute_optimization"), keys.COMPUTE_OPTIMIZATION):
                computes.add("gate" if option.read("type") in keys.GATES else "skip")
                option.finish(" of an optimization of computes")
        if parts["action_optimization"] is not None or parts["representation_format"] is not None:
            level = level_names.index(known(name, level_names, entry.at("name"), "storage level"))
            if parts["action_optimization"] is not None:
                levels[level] = replace(levels[level], **_actions(entry.read("action_optimization"), names))
            if parts["representation_format"] is not None:
                formats = _formats(entry.read("representation_format"), arch.levels[level], names)
                lost = [space for space in levels[level].formats if space not in formats]
                if lost:
                    raise entry.at("representation_format").error(
                        f'the formats of {listed(lost)} at "{name}" stand in another target, which Timeloop forgets',
                        "all formats of a level in one target")
                levels[level] = replace(levels[level], formats=formats)
    return SparseOptimizations(tuple(levels), "gate" in computes, "skip" in computes, applied)


def _actions(options: Seq, names: _Names) -> dict[str, Any]:
    """Field of `LevelOptimizations` -> its choices, as far as the list names them."""
    found: dict[str, list[Choice]] = {}
    for reader in names.readers(options, keys.ACTION_OPTIMIZATION):
        kind = reader.read("type")
        if kind not in ACTIONS:
            hint = ' (Timeloop aborts on this word; did you mean "skipping_spatial"?)' * (kind == "spatial_skipping")
            raise reader.at("type").error(f'unknown optimization of accesses "{kind}"{hint}', listed(ACTIONS))
        choices = reader.read("options")
        if choices is None:
            group: Choice = (_conditioned(reader, names),)
        else:
            group = tuple(_conditioned(choice, names) for choice in names.readers(choices, keys.OPTION))
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
    return ConditionedAccess(target, names.each(conditions, *spaces))


def _formats(node: Map, level: StorageLevel, names: _Names) -> dict[str, Representation]:
    reader = Reader(node, names.leniency, keys.REPRESENTATION_FORMAT)
    spaces = reader.read("data_spaces", Seq(where=node.where))
    reader.finish(" of a representation format")
    result = {}
    for i, space in enumerate(spaces):
        entry = Reader(mapping(space, spaces.at(i)), names.leniency, keys.FORMAT)
        name = entry.take("name", one_of(*names.problem.dataspace_names()))
        order = entry.read("rank_application_order")
        entry.refuse("compression_rate", "Timeloop reads it and makes no use of it")
        ranks = entry.read("ranks")
        entry.finish(" of a representation format")
        if not ranks:
            raise ranks.where.error("found no rank", "at least one rank with a format")
        innermost_first = tuple(reversed([
            _rank(mapping(rank, ranks.at(j)), ranks.at(j), level, names) for j, rank in enumerate(ranks)]))
        for outer, rank in enumerate(innermost_first):
            if rank.compressed and not all(inner.compressed for inner in innermost_first[:outer]):
                raise ranks.where.error("data representation format not supported,currently do not support lower rank "
                                        f"uncompressed, upper rank compressed formats: {rank.kind}",
                                        "compressed ranks (CP, RLE, B) innermost")
        result[name] = Representation(innermost_first, order == "inner_to_outer")
    return result


def _rank(node: Map, where: Where, level: StorageLevel, names: _Names) -> RankFormat:
    reader = Reader(node, names.leniency, keys.RANK)
    word = reader.read("format")
    kind = word.lower()
    if kind not in FORMATS or word not in (kind, word.upper()):
        raise reader.at("format").error(f'unknown format "{word}"', listed(name.upper() for name in FORMATS))
    groups = reader.read("flattened_rankIDs", Seq(where=where))
    flattened = tuple(names.each(sequence(group, groups.at(i)), *names.problem.dimensions)
                      for i, group in enumerate(groups))
    metadata = reader.read("metadata_word_bits", 1 if kind == BITMASK else None)
    payload = reader.read("payload_word_bits")
    reader.finish(" of a rank")
    # Timeloop does not read the widths of an uncompressed bitmask.
    widths = [None if kind == UNCOMPRESSED_BITMASK else bits for bits in (metadata, payload)]
    return RankFormat(kind, flattened, *(_stored_bits(bits, level, where) for bits in widths))


def _stored_bits(bits: int | None, level: StorageLevel, where: Where) -> int:
    """Bits of a unit in the metadata storage: widened until they divide its width, as Timeloop does.

    None takes the level's default. Raises SpecError where a unit is wider than the storage.
    """
    storage = level.metadata
    stored = storage.word_bits if bits is None else bits
    if bits and storage.width % bits:
        stored = next((wider for wider in range(bits, 2 * bits) if storage.width % wider == 0), 2 * bits)
    if stored > storage.width:
        raise where.error(f"specified format representation  word bits > metadata storage width at {level.name}",
                          f"at most {storage.width} bits, the metadata_storage_width")
    return stored
