"""Accesses and computes of one mapping that remain on a sparse design, from its dense evaluation.

Accesses and computes happen (actual), are gated, or are skipped. Numbers are rounded where Timeloop rounds them, and
wrap like its 64-bit unsigned integers: a negative count is 2^64 less. Axes beside those of `access_counts.py`:
K kinds (`sparse_design.KINDS`), A accesses (`sparse_design.ACCESSES`), R ranks of formats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from typing import NamedTuple

import numpy as np

from fadiff_mapper.base.errors import FadiffError, InvalidMapping
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.energy_latency import summed_cost, used_clusters
from fadiff_mapper.model.evaluate import EXACT, Evaluation, SparseEvaluation
from fadiff_mapper.model.legality import NOWHERE, limits, rejection, violations
from fadiff_mapper.model.sparse_design import KINDS, SparseDesign, millionths
from fadiff_mapper.model.sparse_savings import GATED, SKIPPED, Saving, read_savings, sparse_usage
from fadiff_mapper.model.sparse_tiles import StoredTile, ordered_sum, stored_mapping

WRAP = 2 ** 64
"""Timeloop counts in 64-bit unsigned integers; the processor makes 0 of a double beyond them."""
TOLERANCE = 0.00001
"""Largest distance of a probability from [0, 1] that Timeloop accepts."""
READ, FILL, UPDATE = range(3)
"""Positions in `sparse_design.ACCESSES`."""
ACTUAL = 0
"""Position in `sparse_design.KINDS`, as `GATED` and `SKIPPED`."""

VECTOR_THRESHOLDS = _kernel.VECTOR_THRESHOLDS
"""Words per vector access -> for each tenth of the density the blocks of a tile from which on compressed words count as
filling their blocks: Timeloop's table. Smaller tiles are summed up occupancy by occupancy."""


def unsigned(values: np.ndarray) -> np.ndarray:
    """Doubles converted to 64-bit unsigned integers as the compiler does it.

    Raises FadiffError if a value is not a number.
    """
    if (np.abs(values) < WRAP / 2).all():
        return values.astype(np.int64).astype(np.uint64)
    if not np.isfinite(values).all():
        raise FadiffError("Timeloop's counts are undefined here: a probability is no number, as where every tile of a "
                          "tensor is full and its level takes that for the share of empty tiles")
    return np.array([int(value) % WRAP for value in values.ravel()], dtype=np.uint64).reshape(values.shape)


def evaluate_sparse(design: SparseDesign, dense: Evaluation, mapping: Mapping) -> SparseEvaluation:
    """Evaluates one mapping from its evaluation on the dense design, a batch of one; `counts` remain the dense ones.

    Raises InvalidMapping if Timeloop would reject it, FadiffError if it aborts or its numbers are undefined.
    """
    layer, arch, problem, machine = design.layer, design.layer.arch, design.layer.problem, design.layer.machine
    names = problem.dataspace_names()
    if not layer.reuse.coalesced.all():  # Timeloop may forget levels
        mapping = Mapping(tuple(replace(level, keep=frozenset(compress(names, held)))
                                for level, held in zip(mapping.levels, dense.held[..., 0], strict=True)))
    if any(all(name not in level.keep for level in mapping.levels) for name in names):
        raise InvalidMapping(arch.arithmetic.name, NOWHERE)
    if untouched := [check for check in dense.checks if check.constraint == "untouched" and check.broken[0]]:
        raise InvalidMapping(untouched[0].level, untouched[0].reason(0))
    stored = stored_mapping(design, mapping)
    savings = read_savings(stored) if design.sparse.applied else {}
    spanned = np.concatenate([dense.tile.expansion_x, dense.tile.expansion_y], axis=1).astype(np.int64)
    most, average, skipped = sparse_usage(stored, spanned)

    tiles = [(level, t, tile) for t, column in enumerate(stored.columns) for level, tile in column.items()]
    shape = len(arch.levels), len(names)
    ranks = max((len(tile.ranks) for _, _, tile in tiles), default=0)
    expected, bits_each = np.zeros((*shape, ranks, 2)), np.zeros((*shape, ranks, 2), dtype=np.uint64)
    tile_words, most_words, block_ratios = np.ones(shape), np.zeros(shape), np.ones(shape)
    most_bits = np.zeros(shape[0])
    for level, t, tile in tiles:
        tile_words[level, t], most_words[level, t] = tile.words, tile.most_words
        most_bits[level] += tile.metadata_bits(tile.most_metadata)
        for rank, (own, each) in enumerate(zip(tile.ranks, tile.metadata, strict=False)):
            expected[level, t, rank] = each
            if tile.counts(rank) and arch.levels[level].metadata.width:
                bits_each[level, t, rank] = own.metadata_bits, own.payload_bits
    algorithmic = np.stack([dense.counts.reads, dense.counts.fills, dense.counts.updates])[..., 0]  # [A, L, T]
    touched = unsigned(np.ceil(expected * (algorithmic / tile_words)[..., None, None]))
    left, shares = zip(*(saved_accesses(
        algorithmic[..., t], touched[:, :, t], column, {level: own for (level, at), own in savings.items() if at == t},
        {level: own for (level, at), own in skipped.items() if at == t}, written=space.read_write)
        for t, (space, column) in enumerate(zip(problem.dataspaces, stored.columns, strict=True))), strict=True)
    words, units, reductions, compressions, decompressions, wrapped = (
        np.stack(parts, axis=min(3, parts[0].ndim)) for parts in zip(*left, strict=True))
    computes = (problem.computes, 0, 0)
    if design.sparse.applied:
        computes = saved_computes(problem.computes, [
            Operand(millionths(design.word_densities[t]), bool(column[min(column)].ranks), shares[t])
            for t, column in enumerate(stored.columns) if not problem.dataspaces[t].read_write],
            gates=design.sparse.gates_computes, skips=design.sparse.skips_computes)

    arithmetic_units, largest = int(average[0].max()), most.max(axis=1)  # Timeloop counts whole units here
    cycles = math.ceil((computes[ACTUAL] + computes[GATED]) / arithmetic_units) if arithmetic_units else 0
    in_use = replace(
        dense.tile, expansion_x=largest[:, :1], expansion_y=largest[:, 1:], compute_cycles=np.array([float(cycles)]),
        computes=np.array([float(problem.computes)]), average=np.maximum(1.0, average[1:].max(axis=1, keepdims=True)))
    checks = limits(dense.nest, machine.whole_words(most_words)[..., None], in_use, arch, metadata=most_bits[:, None])
    broken = violations(checks, 0)
    blamed = [arch.arithmetic.name, *arch.level_names()].index(broken[0].level) if broken else len(arch.levels) + 1
    if blamed and not arithmetic_units:
        raise FadiffError("Timeloop divides by 0 on this mapping: spatial skipping leaves no arithmetic unit")
    used, reserved = average[1:], most[1:].prod(axis=-1)
    for level, t, tile in sorted(tiles, key=lambda one: one[:2]):  # Timeloop looks at one level after the other
        if level + 1 < blamed:
            if design.models:
                block_ratios[level, t] = block_ratio(arch.levels[level], int(design.block[level, t]), tile,
                                                     design.models[t])
            if used[level, t] > 0 and not (reserved[level, t] and cycles):
                raise FadiffError("Timeloop divides by 0 on this mapping: no instances or no computes are left")
    if broken:
        raise rejection(broken)

    word, block, width = np.array([(level.word_bits, level.block_size, level.metadata.width or 1)
                                   for level in arch.levels], dtype=np.uint64).T[..., None]
    stored_words = words
    if dense.counts.words is not None:  # elements are packed: whole words of the levels
        lying, of = (values[..., 0].astype(np.uint64) for values in (dense.counts.words.stored, dense.counts.words.per))
        stored_words = words * lying // of + (words * lying % of > 0)
    busy, bits = stored_words[ACTUAL] + stored_words[GATED], (units * bits_each).sum(axis=(-2, -1))
    busy_bits = bits[ACTUAL] + bits[GATED]
    bits_written = busy_bits[FILL] + busy_bits[UPDATE]
    read, written = busy[READ] + busy_bits[READ] // word, busy[FILL] + busy[UPDATE] + bits_written // word
    read_bits, written_bits, every_read, every_written = (
        values.astype(object) for values in (busy_bits[READ], bits_written, read, written))
    format_shares = np.stack([
        np.divide(part // word.astype(object), whole, out=np.zeros(shape, object), where=whole != 0).astype(np.float64)
        for part, whole in ((read_bits + written_bits, every_read + every_written), (read_bits, every_read),
                            (written_bits, every_written))])
    clusters = used_clusters(np.where(dense.held[..., 0], reserved, dense.tile.laid_out), machine)
    with np.errstate(divide="ignore", invalid="ignore"):  # of unused instances
        spread, members = reserved / used, reserved / clusters
        asked = [np.where(used > 0, np.ceil(way / spread) / cycles * machine.bandwidth_scale[..., 0], 0.0)
                 for way in (read, written)]
        # pJ of all actions of one cluster, added up in Timeloop's order
        data, metadata = design.energies
        blocks = np.where(words > 0, (stored_words // block + (stored_words % block > 0)) * block_ratios * data, 0.0)
        lines = np.ceil((bits.astype(object) / width.astype(object)).astype(np.float64)) * metadata
        actions = np.concatenate([*blocks, *np.moveaxis(lines, 1, 0),
                                  [decompressions, compressions] * design.conversions])
        energy = np.where((used > 0) & (clusters > 0), np.add.accumulate(actions)[-1] / members, 0.0)
    addresses = np.where(layer.projection.read_write, busy[UPDATE], busy[READ]) + busy[FILL]
    actual, gated, never = (done * price for done, price in zip(computes, design.compute_energies, strict=True))
    cost = summed_cost(asked[0][..., None], asked[1][..., None], energy[..., None], used[..., None],
                       (addresses * machine.addr_gen * clusters)[..., None], np.array([actual + never + gated]), in_use,
                       machine, clusters[..., None], EXACT)
    # added up as in Timeloop, data space by data space: the order decides how a half is printed
    energies = sum(cost.spent[:, t] + cost.leakage / len(names) for t in range(len(names)))
    cost = replace(cost, level_energy=energies, energy=sum([cost.compute_energy, *energies]))
    return SparseEvaluation(
        in_use, dense.counts, lambda: cost, dense.nest, dense.held, dense.raw, dense.tally, dense.network,
        checks, columns=stored.columns, most=most, average=average, savings=savings, words=words,
        units=units, reductions=reductions, compressions=compressions, wrapped=wrapped, addresses=addresses,
        format_shares=format_shares, computes=computes)


def saved_accesses(words: np.ndarray, units: np.ndarray, column: AnyMapping[int, StoredTile],
                   savings: AnyMapping[int, Saving], skipped: AnyMapping[int, float], *,
                   written: bool) -> tuple[tuple[np.ndarray, ...], float | None]:
    """The accesses of one data space that happen, are gated and are skipped, to words and to metadata.

    A saving at a level also removes the accesses of all levels inside it to the same words, up to the next level with
    its own saving. That level saves only the rest: 1 - (1 - own) / (1 - outer). `words` [A, L]: accesses of the dense
    problem; `units` [A, L, R, 2]: accesses to metadata without savings; `skipped`: the share of instances that levels
    skip.

    Returns (words [K, A, L], units [K, A, L, R, 2], reductions, compressions, decompressions, wrapped, [L] each, as in
    `SparseEvaluation`), and the share of the innermost saving level, which also applies to computes; None without one.
    """
    left, units = words.copy(), units.copy()
    found, found_units = (np.zeros((len(KINDS), *values.shape), np.uint64) for values in (words, units))
    reductions = np.zeros(words.shape[1])
    compressions, decompressions = np.zeros((2, words.shape[1]), np.uint64)
    wrapped, done = np.zeros(words.shape[1], np.bool_), set[int]()
    if formatted := [level for level, tile in column.items() if tile.ranks]:
        # a density a last digit above 1 adds one access (a fault of Timeloop's)
        stored = left[:None if written else UPDATE, formatted]
        sparsity = 1 - np.array([column[level].density for level in formatted])
        left[:len(stored), formatted] = unsigned(stored - np.floor(stored * sparsity))

    def split(level: int, saving: Saving, *, below_another: bool) -> None:
        """The accesses of a level that saves some; of metadata, only the ranks sent to the child are saved."""
        kind, p = saving
        if not math.isfinite(p):
            raise FadiffError("Timeloop's counts are undefined here: a level further out saves every access")
        child, accesses, touched = column[level].child, unsigned(left[:, level]), units[:, level].copy()
        sent = len(column[level if child is None else child].ranks)
        if sent > len(column[level].ranks):
            raise FadiffError("Timeloop reads beyond its tables: accesses are saved at a level without metadata whose "
                              "child has some")
        if below_another:  # Timeloop takes the metadata of reads from the updates' (a fault of its own)
            touched[READ] = touched[UPDATE]
        share = accesses * p
        saved = unsigned(np.array([math.ceil(share[READ]) if written else math.floor(share[READ]), 0,
                                   math.floor(share[UPDATE])], dtype=np.float64))
        off = np.zeros_like(touched)
        off[[READ, UPDATE], :sent] = unsigned(np.floor(touched[[READ, UPDATE], :sent] * p))
        found[ACTUAL, :, level], found_units[ACTUAL, :, level] = accesses - saved, touched - off
        found[kind, :, level], found_units[kind, :, level] = saved, off
        wrapped[level] = p < 0
        done.add(level)

    outside: float | None = None
    saving = sorted({*savings, *skipped}, reverse=True)
    for level, inner in zip(saving, [*saving[1:], -1], strict=False):
        if level in skipped and level in savings and savings[level].probability != 0:
            raise FadiffError("Timeloop aborts: it does not support applying spatial and temporal skipping at the "
                              "same time to one data space at one level")
        outside = skipped[level] if level in skipped else savings[level].probability
        inside = [other for other in column if inner <= other < level]
        left[:, inside] -= np.floor(left[:, inside] * outside)
        if level in column and len(column[level].ranks) == 1:  # of metadata, only rank 0, below a format of one rank
            units[:UPDATE, inside, 0] -= unsigned(np.floor(units[:UPDATE, inside, 0] * outside))
        if inner in column and inner in savings and inner not in skipped:
            kind, own = savings[inner]
            rest = 1 - (1 - own) / (1 - outside) if outside != 1 else math.nan
            split(inner, Saving(kind, rest), below_another=True)
        if level not in done and level in column and level not in skipped:
            split(level, savings[level], below_another=False)
    unsaved = [level for level in column if level not in done]
    found[ACTUAL][:, unsaved], found_units[ACTUAL][:, unsaved] = unsigned(left[:, unsaved]), units[:, unsaved]
    for level in column if written else ():
        reads, updates = words[READ, level], words[UPDATE, level]
        # An option that saves nothing, as the level skips instances, keeps the dense accesses; in Timeloop by a missing
        # case.
        if level in savings and (level not in done or not updates):
            reductions[level] = reads
        elif updates:
            reductions[level] = math.ceil(reads * float(found[ACTUAL, UPDATE, level]) / updates)
    for level, tile in column.items():
        if tile.compressed:
            continue
        if tile.child is not None and column[tile.child].compressed:
            raise FadiffError("Timeloop aborts on this design: it does not model a level that compresses what the "
                              "level further out stores plainly")
        if tile.parent is not None and column[tile.parent].compressed:
            compressions[level] = found[ACTUAL, UPDATE, tile.parent] if written else 0
            decompressions[level] = found[ACTUAL, FILL, level]
    return (found, found_units, reductions, compressions, decompressions, wrapped), outside


class Operand(NamedTuple):
    """One operand of the computes."""

    density: float       # Its density, rounded to a millionth
    has_metadata: bool   # Whether its innermost level stores it in a format
    saved: float | None  # The share of its accesses that its innermost saving level saves; None where no level saves
                         # any


def saved_computes(algorithmic: int, operands: Sequence[Operand], *, gates: bool, skips: bool) -> tuple[int, int, int]:
    """The computes of a run by kind, from the states in which two operands may arrive.

    An operand that arrives is nonzero, zero or, if its innermost level has metadata, absent. If the accesses of a
    partner are saved where this operand is empty, the partner is accessed only elsewhere.
    Probabilities are rounded to a millionth, as in Timeloop. `gates`: computes on a zero are gated; `skips`: computes
    on an operand without a partner are skipped. Raises FadiffError if Timeloop aborts: there are not two operands,
    or a probability leaves [0, 1].
    """
    if len(operands) != 2:
        raise FadiffError(f"Timeloop aborts on sparse optimizations for a problem of {len(operands)} operands; "
                          "accepted: two read-only data spaces")
    left = float(algorithmic)
    for operand in operands:
        left -= 0 if operand.saved is None else math.floor(left * operand.saved)
    states, everything = [], int(left)
    for operand, partner in zip(operands, reversed(operands), strict=True):
        nonzero = operand.density
        if partner.saved is not None:
            kept = 1 - millionths(partner.saved)
            nonzero = nonzero / kept if kept else math.nan if not nonzero else math.inf
        other = 1 - nonzero
        for probability in (nonzero, other):
            if not -TOLERANCE <= probability <= 1 + TOLERANCE:
                raise FadiffError(f"Timeloop aborts: an operand would be nonzero with a probability of {nonzero:.6g}, "
                                  "as the option that saves accesses to its partner looks at other words of it")
        nonzero, other = min(max(nonzero, 0.0), 1.0), min(max(other, 0.0), 1.0)
        states.append((nonzero, 0.0, other) if operand.has_metadata else (nonzero, other, 0.0))
    (nonzero_a, zero_a, absent_a), (nonzero_b, zero_b, absent_b) = states
    computes = [everything * (nonzero_a * nonzero_b), 0.0, 0.0]  # by kind
    for probability, alone in (
            (nonzero_a * zero_b + zero_a * nonzero_b, False), (nonzero_a * absent_b + absent_a * nonzero_b, True),
            (zero_a * zero_b, False), (zero_a * absent_b + absent_a * zero_b, True)):
        computes[SKIPPED if alone and skips else GATED if gates else ACTUAL] += everything * probability
    actual, gated, skipped = computes
    absent = everything * (absent_a * absent_b)
    if not int(abs(skipped + actual + gated + absent - everything)) < everything * TOLERANCE:
        raise FadiffError("Timeloop aborts: no computes are left, as some level saves every access")
    lost = math.floor(skipped) + math.floor(gated) + math.floor(absent)
    return everything - lost, math.floor(gated), math.floor(skipped)


def block_ratio(level: StorageLevel, block: int, tile: StoredTile, model: _kernel.DensityModel) -> float:
    """Vector accesses of a compressed tile over the accesses to the same words in full blocks.

    The ratio is 1 if nonzeros count as filling their blocks of `block` elements, or the tile is stored plainly. Raises
    FadiffError if Timeloop aborts on the block size of a compressed tile.
    """
    if not tile.compressed or block <= 1 or not tile.density < 1.0:
        return 1.0
    if block not in VECTOR_THRESHOLDS:
        raise FadiffError(f'Timeloop aborts: "{level.name}" stores compressed data in blocks of {block} words; '
                          f"accepted: {', '.join(map(str, VECTOR_THRESHOLDS))}, or 1")
    tenth = math.floor(tile.density / 0.1) - 1 if tile.density >= 0.1 else 0
    if VECTOR_THRESHOLDS[block][tenth] <= tile.words // block:
        return 1.0
    occupancies, probabilities = model.histogram(tile.box)
    blocks = ordered_sum(np.ceil(occupancies / block) * probabilities)
    filled = tile.words * tile.density / block
    return blocks / filled if filled else math.nan
