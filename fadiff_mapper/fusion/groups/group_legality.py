"""What keeps a fused group from running: a list of named violations, empty where it is legal.

shared loops   a loop cuts no dimension of the last layer, cuts one twice, or cuts a kernel
link           the output of a layer is not what the next one reads
mapping        there is no mapping for a tile, or it does not cover it
level          a level is unknown, has several instances, or lies nowhere inside a level that keeps the tensor
whole          an operand that stays is not whole at its level while its tile runs
reduction      sums of an output are not finished where the next layer, or the next step, needs them; sums that are
               spilled may come back in any step
capacity       what is there at once does not fit; the accumulator counts in its own words
network        the architecture prices its wires, which fused groups do not model

Every tile must also be a mapping that Timeloop accepts; its own violations are listed under their own names.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware
from fadiff_mapper.fusion.groups.step_evaluation import (
    EvaluatedStep,
    evaluate_step,
    kept_levels,
    kept_words,
    tensor_index,
)
from fadiff_mapper.fusion.groups.tile_steps import (
    LayerSteps,
    StepClass,
    layer_steps,
    reading,
    resident_words,
    space_of,
    step_classes,
)
from fadiff_mapper.model.legality import Violation, violations
from fadiff_mapper.spec.problem import Problem


def group_violations(hardware: Hardware, group: FusedGroup) -> list[Violation]:
    """All that is wrong with a group. Later checks are made only where earlier ones find nothing."""
    for check in (_structure, _tiles):
        found = list(check(hardware, group))
        if found:
            return found
    return list(_capacity(hardware, group))


def _broken(constraint: str, level: str, reason: str, amount: float = 1, limit: float = 0) -> Violation:
    return Violation(constraint, level, amount, limit, reason)


def _structure(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """Loops, links and levels, before anything is evaluated."""
    if len(group.links) != len(group.layers) - 1:
        yield _broken("link", "", f"{len(group.layers)} layers with {len(group.links)} links", len(group.links),
                      len(group.layers) - 1)
        return
    yield from _loop_violations(group)
    for layer, after, link in zip(group.layers, group.layers[1:], group.links, strict=False):
        yield from _link_violations(layer, after, link)
    stays = [stay for layer in group.layers for stay in layer.operands.values()] + [link.stay for link in group.links]
    for name in dict.fromkeys(stay.level for stay in stays):
        if name not in hardware.arch.level_names()[:-1]:
            yield _broken("level", name, f"{name} is not a level inside the outermost one")
        elif (instances := hardware.arch.levels[hardware.level(name)].instances) > 1:
            yield _broken("level", name, f"{name} has several instances", instances, 1)


def _loop_violations(group: FusedGroup) -> Iterator[Violation]:
    last = group.layers[-1].problem
    read = {group.links[-1].tensor} if group.links else set()
    linked = set(group.links[-1].dims.values()) if group.links else set()
    adding = False
    for place, loop in enumerate(group.loops):
        if loop.dim not in last.bounds or loop.tile < 1:
            yield _broken("shared loops", "", f"a loop over {loop.dim} in tiles of {loop.tile}; the last layer has "
                          f"{', '.join(last.dimensions)}")
            continue
        if any(loop.dim == other.dim for other in group.loops[:place]):
            yield _broken("shared loops", "", f"two loops over {loop.dim}", 2, 1)
        sums = loop.dim not in last.output.dimensions
        if sums and (loop.dim not in linked or not read):
            yield _broken("shared loops", "",
                          f"the loop over {loop.dim} cuts a kernel or the channels of no intermediate")
        if adding and not sums and not group.spilled:
            yield _broken("reduction", "", f"the loop over {loop.dim} stands inside one that adds to the same outputs")
        adding = adding or sums


def _link_violations(layer: FusedLayer, after: FusedLayer, link: FusedLink) -> Iterator[Violation]:
    output, problem = layer.problem.output, layer.problem
    if link.tensor not in after.problem.dataspace_names():
        yield _broken("link", "", f"the next layer has no data space {link.tensor}")
        return
    space = space_of(after.problem, link.tensor)
    for dim in output.dimensions - set(link.dims):
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
    """The next layer reads what there is, with at most as much padding after it as before it, and one stride."""
    slide, extent = reading(after, link, theirs), problem.bounds[own]
    reach = slide.reach(after.bounds[theirs])
    beyond = link.pooled[theirs].stride - 1 if theirs in link.pooled else 0    # a pool's last window may be incomplete
    if not extent - slide.stride < reach - slide.pad <= extent + slide.pad + beyond:
        yield _broken("link", "", f"the next layer reads {reach} points along {theirs} with {slide.pad} of padding "
                      f"before them; {own} has {extent}", reach, extent + 2 * slide.pad)


def _tiles(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """Every tile of every layer, evaluated."""
    for index, steps in enumerate(layer_steps(group)):
        layer = group.layers[index]
        for kind in step_classes(group, layer, steps):
            mapping = layer.mappings.get(kind.shape)
            tile = ", ".join(f"{d}={n}" for d, n in zip(layer.problem.dimensions, kind.shape, strict=True))
            if mapping is None:
                yield _broken("mapping", "", f"{layer.problem.name} has no mapping for the tile {tile}")
                continue
            covered = tuple(prod(level.temporal[d] * level.spatial[d] for level in mapping.levels)
                            for d in layer.problem.dimensions)
            if covered != kind.shape:
                yield _broken("mapping", "", f"the mapping for the tile {tile} covers {covered}")
                continue
            step = evaluate_step(hardware, group, index, kind)
            inner = [v for v in violations(step.found.checks, 0) if v.constraint != "utilization"]
            yield from inner
            if not inner:
                yield from _stay_violations(hardware, group, index, kind, step)


def _stay_violations(hardware: Hardware, group: FusedGroup, index: int, kind: StepClass,
                     step: EvaluatedStep) -> Iterator[Violation]:
    """What stays from step to step is whole where it stays, and sums are finished before they leave."""
    layer, problem = group.layers[index], step.layer.problem
    fused = bool(group.links or group.loops)
    if fused and step.layer.network_priced:
        yield _broken("network", "", "energy per hop, ingress or router is not modelled in fused groups")
    for name, stay in layer.operands.items():
        yield from _whole(hardware, step, name, stay.level)
        if not any(k > hardware.level(stay.level) for k in kept_levels(step, name)):
            yield _broken("level", stay.level, f"{name} stays in {stay.level}, but no level outside it keeps it")
    if index < len(group.links):
        home = group.links[index].stay.level
        yield from _finished(step, hardware.level(home), home)
    if not (group.spilled or (kind.first_sum and kind.last_sum)):
        levels = kept_levels(step, problem.output.name)
        for level in levels[1:]:
            yield from _finished(step, level, hardware.arch.levels[level].name)


def _whole(hardware: Hardware, step: EvaluatedStep, name: str, level: str) -> Iterator[Violation]:
    """A tensor that stays lies whole in its level, and comes there once."""
    home, problem = hardware.level(level), step.layer.problem
    tensor, tile = tensor_index(step, name), problem.tensor_size(space_of(problem, name))
    size = step.found.tile.size[home, tensor, 0]
    if home not in kept_levels(step, name):
        yield _broken("whole", level, f"the mapping does not keep {name} in {level}", 0, tile)
    elif size != tile or step.found.counts.fills[home, tensor, 0] > tile:
        yield _broken("whole", level, f"{level} holds {size:g} words of {name} at a time, its tile has {tile}", size,
                      tile)


def _finished(step: EvaluatedStep, level: int, name: str) -> Iterator[Violation]:
    """No partial sums come back from a level."""
    output = step.layer.problem.output.name
    back = float(step.found.counts.reads[level, tensor_index(step, output), 0])
    if back:
        yield _broken("reduction", name, f"{back:g} partial sums of {output} are read back from {name}", back)


def _capacity(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """What is there at once at any time."""
    for place, level in enumerate(hardware.arch.levels):
        if level.usable is not None and (words := live_words(hardware, group, place)) > level.usable:
            yield _broken("capacity", level.name, f"{words:g} words are live at once in {level.name}, which holds "
                          f"{level.usable}", words, level.usable)


def live_words(hardware: Hardware, group: FusedGroup, place: int) -> float:
    """Words of one instance of a level that are live at once: all operands that stay, and while a layer runs its tile,
    the intermediates that it reads and writes, and what later steps use of the others."""
    name, all_steps = hardware.arch.levels[place].name, layer_steps(group)
    resident = resident_words(group, all_steps, name)
    staying, most = 0.0, 0.0
    for index, steps in enumerate(all_steps):
        layer = group.layers[index]
        stays = {tensor for tensor, stay in layer.operands.items() if stay.level == name}
        if index < len(group.links) and group.links[index].stay.level == name:
            stays.add(layer.problem.output.name)
        if index and group.links[index - 1].stay.level == name and not group.links[index - 1].beside:
            stays.add(group.links[index - 1].tensor)
        sums, passing = _tile_words(hardware, group, index, steps, place, stays)
        staying += sums
        most = max(most, passing * (2 if name in group.double_buffered else 1) + resident[index])
    return staying + most


def _tile_words(hardware: Hardware, group: FusedGroup, index: int, steps: LayerSteps, place: int,
                stays: set[str]) -> tuple[float, float]:
    """(sums that go on in the next step, the other words) of the layer's largest tile in a level."""
    sums, rest = 0.0, 0.0
    output = group.layers[index].problem.output.name
    for kind in step_classes(group, group.layers[index], steps):
        kept = kept_words(hardware, group, index, kind)
        size = {name: words for name, words in kept[place].items() if name not in stays}
        goes_on = not (group.spilled or (kind.first_sum and kind.last_sum))
        if goes_on and [output in here for here in kept].index(True) == place:
            sums = max(sums, size.pop(output))
        rest = max(rest, sum(size.values()))
    return sums, rest
