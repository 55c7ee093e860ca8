"""Access counts of one step of a fused group: FADiff's fusion-aware boundary on Timeloop's counts.

With sigma = 1 for each link of the group and 0 for all others, the counts of a tile that Timeloop evaluated alone are
corrected as follows:

    eqs. 13, 15   no write-back of the intermediate beyond its home level, no fill of it from there: done already, since
                  the tile's mapping keeps it at no level outside its home (`step_evaluation.fused_mapping`)
    eq. 14        the copy into the home level: a read where the words were summed up (`_copied`). Timeloop counts the
                  update at the home, but charges a drain to the next level no read
    -             operands that stay are filled only with words that no earlier step left there (`_fetched_only`)
    -             pooled tensors with a reader outside the group go to the outermost level (`_written_out`)
    -             words of other tensors that are put together with an intermediate come from the outermost level
                  (`_brought_in`)
    -             residual operands that stay on the chip are read at their home level (`_read_again`)
    -             sums that later steps continue stay where they are added up (`_summed_on`), or with `spilled` come
                  back from the outermost level (`_returned`)

Counts are words per instance of a level, [L, T, 1]. Every correction changes reads, fills or updates of one data space
at one level, and address generations by as much (`_changed`).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLink, Hardware
from fadiff_mapper.fusion.groups.link_equations import copied
from fadiff_mapper.fusion.groups.second_reads import home_of
from fadiff_mapper.fusion.groups.step_evaluation import EvaluatedTile, dataspace_index, kept_levels
from fadiff_mapper.fusion.groups.tile_steps import StepClass
from fadiff_mapper.model.access_counts import Counts


def fused_counts(hardware: Hardware, group: FusedGroup, index: int, step: StepClass, tile: EvaluatedTile) -> Counts:
    """The access counts of one step, corrected for words that other steps leave in place (see the module's head).

    Args:
        hardware: the architecture, whose level names the stays use.
        group: the group.
        index: position of the layer in the group.
        step: the class of the step, with the new words of each operand that stays.
        tile: the evaluation of the step's tile.

    Returns:
        Words per instance, [L, T, 1], as `model.access_counts` counts them.
    """
    layer = group.layers[index]
    counts = tile.counts
    for (name, stay), fresh in zip(layer.operands.items(), step.fresh, strict=True):
        counts = _fetched_only(counts, tile, name, hardware.level(stay.level), fresh)
    if index and group.links[index - 1].written_pooled:
        counts = _written_out(counts, tile, group.links[index - 1].tensor, step.counted)
    if index and group.links[index - 1].elsewhere:
        counts = _brought_in(counts, tile, group.links[index - 1], hardware, step.counted)
    if index < len(group.links):
        counts = _copied(counts, tile, hardware.level(group.links[index].stay.level))
    for read in group.second_reads if step.last_sum else ():
        if read.behind == index:
            counts = _read_again(counts, tile, hardware.level(home_of(group, read)))
    if group.spilled:
        return counts if step.first_sum else _returned(counts, tile)
    return counts if step.first_sum and step.last_sum else _summed_on(counts, tile, step)


def _changed(counts: Counts, level: int, dataspace: int, reads: float = 0.0, fills: float = 0.0,
             updates: float = 0.0) -> Counts:
    """The counts with words per instance added for one data space of a level (negative: taken away)."""
    def plus(values: np.ndarray, words: float) -> np.ndarray:
        result = values.copy()
        result[level, dataspace] += words
        return result

    return replace(counts, reads=plus(counts.reads, reads), fills=plus(counts.fills, fills),
                   updates=plus(counts.updates, updates),
                   address_generations=plus(counts.address_generations, reads + fills + updates))


def _fetched_only(counts: Counts, tile: EvaluatedTile, name: str, home: int, fresh: int) -> Counts:
    """An operand that stays: only `fresh` words come from the next level outside its home that keeps it.

    Legality has made sure that the home has one instance and is filled with the whole tile once, so words per instance
    are words, and the parent's reads fall by as many as the home's fills.
    """
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    parent = next(level for level in levels if level > home)
    saved = float(counts.fills[home, t, 0]) - fresh
    return _changed(_changed(counts, home, t, fills=-saved), parent, t, reads=-saved)


def _written_out(counts: Counts, tile: EvaluatedTile, name: str, fresh: int) -> Counts:
    """A pooled tensor with a reader outside the group: new words are read at the home level and written outside."""
    t = dataspace_index(tile, name)
    outside = _changed(counts, len(tile.layer.arch.levels) - 1, t, updates=fresh)
    return _changed(outside, kept_levels(tile, name)[-1], t, reads=fresh)


def _brought_in(counts: Counts, tile: EvaluatedTile, link: FusedLink, hardware: Hardware, fresh: int) -> Counts:
    """An operand of which another tensor brings a part: of its new words, that part is fetched to the home level."""
    t, home = dataspace_index(tile, link.tensor), hardware.level(link.stay.level)
    words = float(fresh * link.elsewhere)
    return _changed(_changed(counts, home, t, fills=words), len(tile.layer.arch.levels) - 1, t, reads=words)


def _read_again(counts: Counts, tile: EvaluatedTile, home: int) -> Counts:
    """A tensor on the chip that is added to the finished output: a word for each of its words."""
    output = tile.layer.problem.output
    return _changed(counts, home, dataspace_index(tile, output.name),
                    reads=float(tile.layer.problem.tensor_size(output)))


def _copied(counts: Counts, tile: EvaluatedTile, home: int) -> Counts:
    """FADiff eq. (14): final words of the output are read where they were summed up, for their home level.

    The update at the home is counted already. Where the home itself adds them up nothing is copied.
    """
    name = tile.layer.problem.output.name
    t = dataspace_index(tile, name)
    inside = [level for level in kept_levels(tile, name) if level < home]
    if not inside:
        return counts
    instances = tile.use.instances[:, 0]
    words = copied(1.0, counts.updates[home, t, 0], instances[home])
    return _changed(counts, inside[-1], t, reads=float(words / instances[inside[-1]]))


def _summed_on(counts: Counts, tile: EvaluatedTile, step: StepClass) -> Counts:
    """Sums that go on in place: later steps read the earlier sums, and all but the last step hand nothing outwards.

    A later step has no first touch of a word (Timeloop's first-read elision left out `partition` words).
    """
    name = tile.layer.problem.output.name
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    if not step.first_sum:
        counts = _changed(counts, levels[0], t, reads=float(counts.partition[levels[0], t, 0]))
    if not step.last_sum:
        for level in levels[1:]:
            counts = _changed(counts, level, t, updates=-float(counts.updates[level, t, 0]))
    return counts


def _returned(counts: Counts, tile: EvaluatedTile) -> Counts:
    """Spilled sums: the first touch of a word, too, is a read, and a fill at all levels but the outermost."""
    name = tile.layer.problem.output.name
    t, levels = dataspace_index(tile, name), kept_levels(tile, name)
    for level in levels:
        words = float(counts.partition[level, t, 0])
        counts = _changed(counts, level, t, reads=words, fills=words if level != levels[-1] else 0.0)
    return counts
