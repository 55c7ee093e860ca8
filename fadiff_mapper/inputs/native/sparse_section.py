"""Reads `sparse_optimizations`: representation formats, gating and skipping of accesses, and of computes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fadiff_mapper.base.errors import listed
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.spec import sparse_optimizations as sparse
from fadiff_mapper.inputs.spec.arch import Architecture, StorageLevel
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.yaml.located import REQUIRED, Map, Reader, Seq, each, known, mapping, one_of, readers
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Where

ACTIONS = {"gating": "gating", "skipping": "skipping", "skipping_spatial": "spatial_skipping"}
"""Timeloop's name of an optimization of accesses -> the field of `LevelOptimizations`."""


def read_sparse_optimizations(node: Any, where: Where, arch: Architecture, problem: Problem,
                              leniency: Leniency = STRICT) -> sparse.SparseOptimizations:
    """Reads the section, `{targets: [...]}`, each target with a name and any of its three parts.

    As in Timeloop, each part of a later entry for a level replaces the same part of an earlier one.
    """
    reader = Reader(underscored(mapping(node, where)), keys.SPARSE, leniency)
    targets = reader.read("targets", Seq(where=where))
    reader.finish(" in the sparse optimizations")
    levels, level_names = [sparse.LevelOptimizations()] * len(arch.levels), arch.level_names()
    computes: set[str] = set()
    applied = False
    for entry in readers(targets, keys.SPARSE_TARGET, leniency):
        name = entry.read("name")
        entry.finish(f' of the target "{name}"')
        parts = {part: entry.node.get(part) for part in keys.SPARSE_TARGET if part != "name"}
        applied = applied or any(value is not None for value in parts.values())
        if parts["compute_optimization"] is not None:
            if name != arch.arithmetic.name:
                raise entry.at("name").error(f'the optimizations of computes name "{name}"',
                                             f'the arithmetic, "{arch.arithmetic.name}"')
            computes = set()
            for option in readers(entry.read("compute_optimization"), keys.COMPUTE_OPTIMIZATION, leniency):
                computes.add("gate" if option.read("type") in keys.GATES else "skip")
                option.finish(" of an optimization of computes")
        if parts["action_optimization"] is not None or parts["representation_format"] is not None:
            level = level_names.index(known(name, entry.at("name"), level_names, "storage level"))
            if parts["action_optimization"] is not None:
                levels[level] = replace(levels[level], **_actions(entry.read("action_optimization"), problem, leniency))
            if parts["representation_format"] is not None:
                formats = _formats(entry.read("representation_format"), arch.levels[level], problem, leniency)
                lost = [space for space in levels[level].formats if space not in formats]
                if lost:
                    raise entry.at("representation_format").error(
                        f'the formats of {listed(lost)} at "{name}" stand in another target, which Timeloop forgets',
                        "all formats of a level in one target")
                levels[level] = replace(levels[level], formats=formats)
    return sparse.SparseOptimizations(tuple(levels), "gate" in computes, "skip" in computes, applied)


def _actions(options: Seq, problem: Problem, leniency: Leniency) -> dict[str, Any]:
    """Field of `LevelOptimizations` -> its choices, for the fields that the list names."""
    found: dict[str, list[sparse.Choice]] = {}
    for reader in readers(options, keys.ACTION_OPTIMIZATION, leniency):
        kind = reader.read("type")
        if kind not in ACTIONS:
            hint = ' (Timeloop aborts on this word; did you mean "skipping_spatial"?)' * (kind == "spatial_skipping")
            raise reader.at("type").error(f'unknown optimization of accesses "{kind}"{hint}', listed(ACTIONS))
        choices = reader.read("options")
        if choices is None:
            group: sparse.Choice = (_conditioned(reader, problem),)
        else:
            group = tuple(_conditioned(choice, problem) for choice in readers(choices, keys.OPTION, leniency))
            reader.finish(" of an optimization of accesses")
        if not group or (kind == "skipping_spatial" and len(group) != 1):
            raise reader.node.where.error(f"found {len(group)} options", "one option" + (
                "" if kind == "skipping_spatial" else " or more"))
        found.setdefault(ACTIONS[kind], []).append(group)
    return {field: tuple(groups) for field, groups in found.items()}


def _conditioned(reader: Reader, problem: Problem) -> sparse.ConditionedAccess:
    spaces = problem.dataspace_names()
    target = reader.read("target", REQUIRED, check=one_of(*spaces))
    conditions = reader.read("condition_on", REQUIRED)
    reader.finish(" of an option")
    return sparse.ConditionedAccess(target, each(one_of(*spaces))(conditions, conditions.where))


def _formats(node: Map, level: StorageLevel, problem: Problem, leniency: Leniency) -> dict[str, sparse.Representation]:
    reader = Reader(node, keys.REPRESENTATION_FORMAT, leniency)
    spaces = reader.read("data_spaces", Seq(where=node.where))
    reader.finish(" of a representation format")
    result = {}
    for entry in readers(spaces, keys.FORMAT, leniency):
        name = entry.read("name", check=one_of(*problem.dataspace_names()))
        order = entry.read("rank_application_order")
        entry.refuse("compression_rate", "Timeloop reads it and makes no use of it")
        ranks = entry.read("ranks")
        entry.finish(" of a representation format")
        if not ranks:
            raise ranks.where.error("found no rank", "at least one rank with a format")
        innermost_first = tuple(reversed([_rank(rank, level, problem) for rank in readers(ranks, keys.RANK, leniency)]))
        for outer, rank in enumerate(innermost_first):
            if rank.compressed and not all(inner.compressed for inner in innermost_first[:outer]):
                raise ranks.where.error("data representation format not supported,currently do not support lower rank "
                                        f"uncompressed, upper rank compressed formats: {rank.kind}",
                                        "compressed ranks (CP, RLE, B) innermost")
        result[name] = sparse.Representation(innermost_first, order == "inner_to_outer")
    return result


def _rank(reader: Reader, level: StorageLevel, problem: Problem) -> sparse.RankFormat:
    word, where = reader.read("format"), reader.node.where
    kind = word.lower()
    if kind not in sparse.FORMATS or word not in (kind, word.upper()):
        raise reader.at("format").error(f'unknown format "{word}"', listed(name.upper() for name in sparse.FORMATS))
    groups = reader.read("flattened_rankIDs", Seq(where=where))
    flattened = tuple(each(one_of(*problem.dimensions))(group, at) for group, at in groups.placed())
    metadata = reader.read("metadata_word_bits", 1 if kind == sparse.BITMASK else None)
    payload = reader.read("payload_word_bits")
    reader.finish(" of a rank")
    # Timeloop ignores the widths of an uncompressed bitmask, and widens other widths until they divide the storage's.
    storage, stored = level.metadata, []
    for bits in (metadata, payload):
        unit = storage.word_bits if bits is None or kind == sparse.UNCOMPRESSED_BITMASK else bits
        if bits and kind != sparse.UNCOMPRESSED_BITMASK and storage.width % bits:
            unit = next((wider for wider in range(bits, 2 * bits) if storage.width % wider == 0), 2 * bits)
        if unit > storage.width:
            raise where.error(f"specified format representation  word bits > metadata storage width at {level.name}",
                              f"at most {storage.width} bits, the metadata_storage_width")
        stored.append(unit)
    return sparse.RankFormat(kind, flattened, *stored)
