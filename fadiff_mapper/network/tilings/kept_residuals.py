"""Candidates that read residual operands on the chip.

Problem. A sum behind a layer of a group may read what an earlier layer of the group reads, too
(`chains.residual_operands`). Where it lies on the chip until then, it need not come from the outermost level again, nor
go there if it has no other reader; but it takes room for longer.

Method. A candidate is estimated without; the same loops and tiles with all second reads that they allow are another
candidate, cheaper by the words that stay inside, as long as the home level has room for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, SecondRead, Stay, layer_steps
from fadiff_mapper.fusion.group_legality import structure_violations
from fadiff_mapper.fusion.stored_words import resident_words
from fadiff_mapper.network.layers.edp_prices import NOTHING, OperatingPoint, summed
from fadiff_mapper.network.layers.joined_reads import WordCosts
from fadiff_mapper.network.tilings.estimate_sheet import Candidate


def with_second_reads(hardware: Hardware, candidate: Candidate, costs: WordCosts) -> list[Candidate]:
    """Keeps the residual operands of a candidate on the chip.

    Args:
        hardware: The design.
        candidate: A candidate without second reads.
        costs: Energies and cycles of words.

    Returns:
        The candidate with as many second reads as its loops allow; none where it has none or they do not fit.
    """
    segment, group = candidate.segment, candidate.group
    if not segment.residuals or not group.links:
        return []
    reads = [other.read for other in segment.residuals]
    allowed, kept = reads, _keeping(group, reads, segment.read_inside)
    if structure_violations(hardware, kept):    # mostly all are possible at once
        allowed = [read for read in reads if not structure_violations(hardware, _keeping(group, [read], frozenset()))]
        kept = _keeping(group, allowed, segment.read_inside if len(allowed) == len(reads) else frozenset())
        if not allowed or structure_violations(hardware, kept):
            return []
    if not _fits(hardware, kept):
        return []
    words = {index: other.words for index, other in enumerate(segment.residuals) if other.read in allowed}
    left_out = summed([costs.joined(count) for count in words.values()] or [NOTHING])
    home = hardware.level(group.links[0].stay.level)
    inside = sum(count * costs.read[home] for count in words.values())
    unwritten = sum(segment.residuals[index].words * costs.written for index in _last_readers(candidate, kept))
    estimate = OperatingPoint(candidate.estimate.energy_pj - left_out.energy_pj + inside - unwritten,
                              candidate.estimate.cycles - left_out.cycles)
    return [Candidate(segment, kept, estimate, left_out)]


def _keeping(group: FusedGroup, reads: Sequence[SecondRead], read_inside: frozenset[int]) -> FusedGroup:
    """A group with second reads; its own input, where it is read again, stays at the home of the intermediates."""
    own: Mapping[str, Stay] = {read.tensor: Stay(group.links[0].stay.level) for read in reads if not read.first}
    first: FusedLayer = group.layers[0]
    return replace(group, layers=(replace(first, operands={**own, **first.operands}), *group.layers[1:]),
                   links=tuple(replace(link, written=link.written and index not in read_inside)
                               for index, link in enumerate(group.links)), second_reads=tuple(reads))


def _last_readers(candidate: Candidate, kept: FusedGroup) -> list[int]:
    """One residual operand of each tensor that is no longer written to the outermost level."""
    no_more = {index + 1 for index, (before, after) in enumerate(zip(candidate.group.links, kept.links, strict=True))
               if before.written and not after.written}
    return list({other.read.first: index for index, other in enumerate(candidate.segment.residuals)
                 if other.read.first in no_more}.values())


def _fits(hardware: Hardware, group: FusedGroup) -> bool:
    """Whether what stays from step to step leaves room in the home level."""
    level = hardware.arch.levels[hardware.level(group.links[0].stay.level)]
    return level.usable is None or max(resident_words(group, layer_steps(group), level.name)) < level.usable
