"""Constraints that a fused group must meet: a list of named violations, empty where the group is legal.

shared loops   a loop cuts no dimension of the last layer, cuts one twice, or cuts a kernel
link           the output of a layer is not what the next one reads
second read    a residual operand that should stay on the chip is not there, or not whole, where a sum reads it
mapping        there is no mapping for a tile, or it does not cover it
level          a level is unknown, has several instances, or lies nowhere inside a level that keeps the tensor
whole          an operand that stays is not whole at its level while its tile runs
reduction      sums of an output are not finished where the next layer, or the next step, needs them; sums that are
               spilled may come back in any step
capacity       words that are live at once do not fit; the accumulator counts in its own words
network        the architecture prices its wires, which fused groups do not model

Every tile must also be a mapping that Timeloop accepts; its own violations are listed under their own names.

Checks run in three stages, each only where the one before finds nothing, because each relies on it: the group's
structure, without evaluating anything; every tile, evaluated once (`step_evaluation`); the capacity of every level.
FADiff has these as penalties (eqs. 21 to 26): mapping validity, memory capacity and adjacent-tile alignment. The last
holds here by construction, since tiles of earlier layers follow from those of later ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware
from fadiff_mapper.fusion.groups.live_words import evaluated_layer_tiles, live_tile_words
from fadiff_mapper.fusion.groups.second_reads import second_read_violations
from fadiff_mapper.fusion.groups.step_evaluation import (
    EvaluatedLayer,
    EvaluatedTile,
    covered_shape,
    dataspace_index,
    evaluate_tiles,
    kept_levels,
)
from fadiff_mapper.fusion.groups.tile_steps import StepClass, layer_steps, read_slide, space_of
from fadiff_mapper.model.legality import Violation
from fadiff_mapper.spec.problem import Problem


def group_violations(hardware: Hardware, group: FusedGroup) -> list[Violation]:
    """Violations of a group.

    Args:
        hardware: architecture and energy tables.
        group: any group.

    Returns:
        All violations of the first stage that has any; empty where the group can run.
    """
    return structure_violations(hardware, group) or tile_violations(hardware, group, evaluate_tiles(hardware, group))


def structure_violations(hardware: Hardware, group: FusedGroup) -> list[Violation]:
    """Violations of a group's loops, links and levels, for which nothing is evaluated.

    Args:
        hardware: architecture and energy tables.
        group: any group.
    """
    return list(_structure(hardware, group))


def tile_violations(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> list[Violation]:
    """Violations of a group's tiles or, where these are legal, of the levels' capacities.

    Args:
        hardware: architecture and energy tables.
        group: a group without `structure_violations`.
        evaluated: its tiles (`evaluate_tiles`), one entry per layer.
    """
    return list(_tiles(hardware, group, evaluated)) or list(_capacity(hardware, group, evaluated))


def _broken(constraint: str, level: str, reason: str, amount: float = 1, limit: float = 0) -> Violation:
    """A violation, by default of a rule without numbers."""
    return Violation(constraint, level, amount, limit, reason)


def _structure(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """Number of links, loops, links, and levels of all tensors that stay."""
    if len(group.links) != len(group.layers) - 1:
        yield _broken("link", "", f"{len(group.layers)} layers with {len(group.links)} links", len(group.links),
                      len(group.layers) - 1)
        return
    yield from _loop_violations(group)
    for layer, after, link in zip(group.layers, group.layers[1:], group.links, strict=False):
        yield from _link_violations(layer, after, link)
    if any(link.elsewhere for link in group.links):
        yield from _put_together(group)
    if group.second_reads:
        all_steps = layer_steps(group)
        yield from second_read_violations(group, [steps.cut for steps in all_steps], [
            [[span.done for span in spans] for spans in steps.spans] for steps in all_steps])
    stays = [stay for layer in group.layers for stay in layer.operands.values()] + [link.stay for link in group.links]
    for name in dict.fromkeys(stay.level for stay in stays):
        if name not in hardware.arch.level_names()[:-1]:
            yield _broken("level", name, f"{name} is not a level inside the outermost one")
        elif (instances := hardware.arch.levels[hardware.level(name)].instances) > 1:
            yield _broken("level", name, f"{name} has several instances", instances, 1)


def _loop_violations(group: FusedGroup) -> Iterator[Violation]:
    """Shared loops cut dimensions of the last layer, each once; loops that add to one output tile stand innermost."""
    last = group.layers[-1].problem
    linked = set(group.links[-1].dims.values()) if group.links else set()
    adding = False
    for index, loop in enumerate(group.loops):
        if loop.dim not in last.bounds or loop.tile < 1:
            yield _broken("shared loops", "", f"a loop over {loop.dim} in tiles of {loop.tile}; the last layer has "
                          f"{', '.join(last.dimensions)}")
            continue
        if any(loop.dim == other.dim for other in group.loops[:index]):
            yield _broken("shared loops", "", f"two loops over {loop.dim}", 2, 1)
        sums = loop.dim not in last.output.dimensions
        if sums and loop.dim not in linked:
            yield _broken("shared loops", "",
                          f"the loop over {loop.dim} cuts a kernel or the channels of no intermediate")
        if adding and not sums and not group.spilled:
            yield _broken("reduction", "", f"the loop over {loop.dim} stands inside one that adds to the same outputs")
        adding = adding or sums


def _put_together(group: FusedGroup) -> Iterator[Violation]:
    """Loops leave the dimensions whole along which an intermediate is put together with tensors from elsewhere."""
    for link, after, steps in zip(group.links, group.layers[1:], layer_steps(group)[1:], strict=True):
        along = space_of(after.problem, link.tensor).dimensions - set(link.dims.values())
        for loop, cut in zip(group.loops, steps.cut, strict=True):
            if link.put_together and cut in along:
                yield _broken("link", "", f"the loop over {loop.dim} cuts {cut}, along which {link.tensor} is put "
                              "together with other tensors")


def _link_violations(layer: FusedLayer, after: FusedLayer, link: FusedLink) -> Iterator[Violation]:
    """Every dimension of the output above one point leads to one of the next layer, and extents agree."""
    output, problem = layer.problem.output, layer.problem
    if link.tensor not in after.problem.dataspace_names():
        yield _broken("link", "", f"the next layer has no data space {link.tensor}")
        return
    space = space_of(after.problem, link.tensor)
    for dim in output.dimensions - set(link.dims) - link.whole:
        if problem.bounds[dim] > 1:
            yield _broken("link", "", f"the output's dimension {dim} leads to none of the next layer",
                          problem.bounds[dim], 1)
    for own, theirs in link.dims.items():
        if own not in output.dimensions or theirs not in space.dimensions:
            yield _broken("link", "", f"{own} -> {theirs}: the one is no dimension of the output, or the other none of "
                          f"{link.tensor}")
            continue
        yield from _extent_violations(problem, after.problem, link, own, theirs)


def _extent_violations(problem: Problem, after: Problem, link: FusedLink, own: str, theirs: str) -> Iterator[Violation]:
    """The next layer leaves less than one stride of the output's points unread, and reads at most as much padding
    after them as before: `extent - stride < reach - pad <= extent + pad`."""
    slide, extent = read_slide(after, link, theirs), problem.bounds[own]
    read = slide.read(range(after.bounds[theirs]))
    beyond = link.pooled[theirs].stride - 1 if theirs in link.pooled else 0    # a pool's last window may be incomplete
    padding = max(-read.start, slide.kernel - 1 if theirs in link.between else 0)
    if not extent - max(slide.advance, 1) < read.stop <= extent + padding + beyond:
        yield _broken("link", "", f"the next layer reads {len(read)} points along {theirs} with {-read.start} of "
                      f"padding before them; {own} has {extent}", len(read), extent + 2 * padding)


def _tiles(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> Iterator[Violation]:
    """Every class of steps of every layer: its mapping, Timeloop's own constraints, residency and reductions."""
    for index, own in enumerate(evaluated):
        layer = group.layers[index]
        for step in own.classes:
            tile = own.tiles.get(step.shape)
            if tile is None:
                yield _unmapped(layer, step)
                continue
            # A constraint's least fill of a level (Timeloop's utilization) is asked of layers, not of their tiles.
            inner = [violation for violation in tile.broken if violation.constraint != "utilization"]
            yield from inner
            if not inner:
                yield from _stay_violations(hardware, group, index, step, tile)


def _unmapped(layer: FusedLayer, step: StepClass) -> Violation:
    """A tile without a mapping, or whose mapping covers other extents."""
    covered = covered_shape(layer, step.shape)
    tile = ", ".join(f"{dim}={points}" for dim, points in zip(layer.problem.dimensions, step.shape, strict=True))
    if covered is None:
        return _broken("mapping", "", f"{layer.problem.name} has no mapping for the tile {tile}")
    return _broken("mapping", "", f"the mapping for the tile {tile} covers {covered}")


def _stay_violations(hardware: Hardware, group: FusedGroup, index: int, step: StepClass,
                     tile: EvaluatedTile) -> Iterator[Violation]:
    """Tensors that stay from step to step are whole where they stay, and sums are finished before they leave."""
    layer = group.layers[index]
    fused = bool(group.links or group.loops)
    if fused and tile.layer.network_priced:
        yield _broken("network", "", "energy per hop, ingress or router is not modelled in fused groups")
    for name, stay in layer.operands.items():
        yield from _whole(hardware, tile, name, stay.level)
        if not any(level > hardware.level(stay.level) for level in kept_levels(tile, name)):
            yield _broken("level", stay.level, f"{name} stays in {stay.level}, but no level outside it keeps it")
    if index < len(group.links):
        home = group.links[index].stay.level
        yield from _finished(tile, hardware.level(home), home)
    if not (group.spilled or (step.first_sum and step.last_sum)):
        for level in kept_levels(tile, layer.problem.output.name)[1:]:
            yield from _finished(tile, level, hardware.arch.levels[level].name)


def _whole(hardware: Hardware, tile: EvaluatedTile, name: str, level: str) -> Iterator[Violation]:
    """A tensor that stays lies whole in its level, and comes there once."""
    home, problem = hardware.level(level), tile.layer.problem
    t, words = dataspace_index(tile, name), problem.tensor_size(space_of(problem, name))
    size = tile.size[home, t]
    if home not in kept_levels(tile, name):
        yield _broken("whole", level, f"the mapping does not keep {name} in {level}", 0, words)
    elif size != words or tile.counts.fills[home, t, 0] > words:
        yield _broken("whole", level, f"{level} holds {size:g} words of {name} at a time, its tile has {words}", size,
                      words)


def _finished(tile: EvaluatedTile, level: int, name: str) -> Iterator[Violation]:
    """No partial sums come back from a level."""
    output = tile.layer.problem.output.name
    back = float(tile.counts.reads[level, dataspace_index(tile, output), 0])
    if back:
        yield _broken("reduction", name, f"{back:g} partial sums of {output} are read back from {name}", back)


def _capacity(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> Iterator[Violation]:
    """Every level holds the words that are live in it at once."""
    tiles = evaluated_layer_tiles(evaluated)
    for index, level in enumerate(hardware.arch.levels):
        if level.usable is not None and (words := live_tile_words(hardware, group, tiles, index)) > level.usable:
            yield _broken("capacity", level.name, f"{words:g} words are live at once in {level.name}, which holds "
                          f"{level.usable}", words, level.usable)
