"""Constraints that a fused group must meet: a list of named violations, empty where the group is legal.

shared loops   a loop cuts no dimension of the last layer, cuts one twice, or cuts a kernel
link           the output of a layer is not the operand of its reader
sharing        an operand that several layers share is not in the home in a step in which one of them reads it
share          an intermediate in several instances of its home is not made and used by the same instances
lasting        a tensor that is kept from group to group is not whole in its home
second read    a residual operand is not on the chip, or not whole, where a sum reads it
mapping        a tile has no mapping, or its mapping does not cover the tile
level          a level is unknown, has several instances, or has no level outside that keeps the tensor
whole          an operand that stays is not whole at its level while its tile runs
reduction      sums of an output are not finished where the next layer, or the next step, needs them; partial sums that
               rest in a level further out may come back in any step, those of an intermediate from a home in which they
               may rest (`sums_rest`)
capacity       words that are live at once do not fit; the accumulator counts in its own words
network        the architecture prices its wires, which fused groups do not model

Every tile must also be a mapping that Timeloop accepts; its own violations are listed under their own names.

Checks run in three stages, each only if the one before finds no violation, because it relies on this: the group's
structure, without evaluating anything; every tile, evaluated once (`group_cost`); the capacity of every level.
FADiff has these as penalties (eqs. 21 to 26): mapping validity, memory capacity and adjacent-tile alignment. Alignment
holds here by construction, since tiles of earlier layers follow from those of later layers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, SecondRead, sums_rest
from fadiff_mapper.fusion.group_cost import (
    EvaluatedLayer,
    EvaluatedTile,
    FusedCost,
    TileEvaluations,
    covered_shape,
    evaluate_tiles,
    total_costs,
)
from fadiff_mapper.fusion.tile_steps import (
    LayerSteps,
    StepClass,
    layer_steps,
    moved_rank,
    read_slide,
    resident_words,
    space_of,
    step_classes,
    touched_points,
)
from fadiff_mapper.model.legality import Violation
from fadiff_mapper.workload.window_slide import WindowSlide


def group_violations(hardware: Hardware, group: FusedGroup) -> list[Violation]:
    """All violations of the first stage with violations; empty where the group can run."""
    return structure_violations(hardware, group) or tile_violations(
        hardware, group, evaluate_tiles(hardware, [group])[0])


def evaluate_group(hardware: Hardware, group: FusedGroup) -> FusedCost:
    """Checks a group and computes its cycles and energy.

    Raises:
        FadiffError: the group cannot run; the message names the first violation.
    """
    broken, result = checked_costs(hardware, [group])[0]
    if result is None:
        raise FadiffError(f"the fused group cannot run: {broken[0].constraint}: {broken[0].reason}")
    return result


def checked_costs(hardware: Hardware, groups: Sequence[FusedGroup],
                  known: TileEvaluations | None = None) -> list[tuple[list[Violation], FusedCost | None]]:
    """For each group its violations (`group_violations`) and, without violations, its cost. All tiles of all groups are
    evaluated once, in batches. `known`: as for `evaluate_tiles`."""
    broken = [structure_violations(hardware, group) for group in groups]
    sound = [number for number, own in enumerate(broken) if not own]
    evaluated = dict(zip(sound, evaluate_tiles(hardware, [groups[number] for number in sound], known), strict=True))
    for number, layers in evaluated.items():
        broken[number] = tile_violations(hardware, groups[number], layers)
    legal = [number for number in sound if not broken[number]]
    costs = dict(zip(legal, total_costs(hardware, [(groups[number], evaluated[number]) for number in legal]),
                     strict=True))
    return [(own, costs.get(number)) for number, own in enumerate(broken)]


def structure_violations(hardware: Hardware, group: FusedGroup) -> list[Violation]:
    """Violations of a group's loops and links or, if there are none, of its shared and resident tensors and levels;
    nothing is evaluated."""
    return list(_graph(hardware, group)) or list(_steps(hardware, group))


def tile_violations(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> list[Violation]:
    """Violations of the evaluated tiles or, if there are none, of capacities; the group's structure must be sound."""
    return list(_tiles(hardware, group, evaluated)) or list(_capacity_violations(hardware, group, evaluated))


def _broken(constraint: str, level: str, reason: str, amount: float = 1, limit: float = 0) -> Violation:
    """A violation, by default of a rule without numbers."""
    return Violation(constraint, level, amount, limit, reason)


def _graph(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """Violations in the number of links, in loops and in links."""
    if len(group.links) != len(group.layers) - 1:
        yield _broken("link", "", f"{len(group.layers)} layers with {len(group.links)} links", len(group.links),
                      len(group.layers) - 1)
        return
    if any(not index < group.reader(index) < len(group.layers) for index in range(len(group.links))):
        yield _broken("link", "", "a link leads to no later layer")
        return
    yield from _loop_violations(group)
    for index, (layer, link) in enumerate(zip(group.layers, group.links, strict=False)):
        yield from _link_violations(layer, group.layers[group.reader(index)], link)
        if link.stay.shares:
            yield from _share_violations(hardware, group, index)
    for index in range(len(group.layers)):
        tensors = [link.tensor for link in group.into(index)]
        if len(set(tensors)) < len(tensors):
            yield _broken("link", "", f"two layers make the same operand of layer {index + 1}", len(tensors), 1)
        if sum(link.written_pooled or bool(link.elsewhere) for link in group.into(index)) > 1:
            yield _broken("link", "", f"two operands of layer {index + 1} are pooled or put together with others", 2, 1)


def _steps(hardware: Hardware, group: FusedGroup) -> Iterator[Violation]:
    """Violations of concatenated tensors, second reads, shared and lasting operands, and levels of resident tensors."""
    all_steps = layer_steps(group)
    for index, steps in enumerate(all_steps):
        if not all(any(span.done for span in spans) for spans in steps.spans):     # its reader reads padding alone
            yield _broken("shared loops", "", f"no step computes a point of layer {index + 1}")
            return
    for index, link in enumerate(group.links):
        after, steps = group.layers[group.reader(index)], all_steps[group.reader(index)]
        along = space_of(after.problem, link.tensor).dimensions - set(link.dims.values())
        for loop, cut in zip(group.loops, steps.cut, strict=True):
            if link.put_together and cut in along:
                yield _broken("link", "", f"the loop over {loop.dim} cuts {cut}, along which {link.tensor} is put "
                              "together with other tensors")
    yield from _second_read_violations(group, all_steps)
    yield from _sharing_violations(group, all_steps)
    yield from _lasting_violations(group, all_steps)
    stays = [stay for layer in group.layers for stay in layer.operands.values()] + [link.stay for link in group.links]
    inside = [group.sums] if group.sums not in ("", hardware.arch.level_names()[-1]) else []
    inside += [group.output_at] if group.output_at else []
    divided = {link.stay.level for link in group.links if link.stay.shares} - {
        *(stay.level for stay in stays if not stay.shares), *inside, *group.lasting_words}
    for name in dict.fromkeys([*(stay.level for stay in stays), *inside, *group.lasting_words]):
        if name not in hardware.arch.level_names()[:-1]:
            yield _broken("level", name, f"{name} is not a level inside the outermost one")
        elif (instances := hardware.arch.levels[hardware.level(name)].instances) > 1 and name not in divided:
            yield _broken("level", name, f"{name} has several instances", instances, 1)


def _loop_violations(group: FusedGroup) -> Iterator[Violation]:
    """Shared loops cut dimensions of the last layer, each once; loops that add to one output tile are inside."""
    last = group.layers[-1].problem
    linked = {dim for link in group.into(len(group.layers) - 1) for dim in link.dims.values()}
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
        if adding and not sums and not group.sums:
            yield _broken("reduction", "", f"the loop over {loop.dim} stands inside one that adds to the same outputs")
        adding = adding or sums


def _link_violations(layer: FusedLayer, after: FusedLayer, link: FusedLink) -> Iterator[Violation]:
    """Every dimension of the output with more than one point leads to a dimension of the reader, and extents agree.

    The reader leaves less than one stride of the output's points unread, and reads at most as much padding after them
    as before: `extent - stride < reach - pad <= extent + pad`.
    """
    output, bounds = layer.problem.output, layer.problem.bounds
    if link.tensor not in after.problem.dataspace_names():
        yield _broken("link", "", f"the next layer has no data space {link.tensor}")
        return
    space = space_of(after.problem, link.tensor)
    for dim in output.dimensions - set(link.dims) - link.whole:
        if bounds[dim] > 1:
            yield _broken("link", "", f"the output's dimension {dim} leads to none of the next layer", bounds[dim], 1)
    for own, theirs in link.dims.items():
        if own not in output.dimensions or theirs not in space.dimensions:
            yield _broken("link", "", f"{own} -> {theirs}: the one is no dimension of the output, or the other none of "
                          f"{link.tensor}")
            continue
        slide, extent = read_slide(after.problem, link, theirs), bounds[own]
        read = slide.read(range(after.problem.bounds[theirs]))
        beyond = link.pooled[theirs].stride - 1 if theirs in link.pooled else 0  # the last window may be incomplete
        padding = max(-read.start, slide.kernel - 1 if theirs in link.between else 0)
        if not extent - max(slide.advance, 1) < read.stop <= extent + padding + beyond:
            yield _broken("link", "", f"the next layer reads {len(read)} points along {theirs} with {-read.start} of "
                          f"padding before them; {own} has {extent}", len(read), extent + 2 * padding)


def _sharing_violations(group: FusedGroup, all_steps: Sequence[LayerSteps]) -> Iterator[Violation]:
    """In each step the holder of a shared operand has all words in the home that later layers read of it."""
    for index, layer in enumerate(group.layers):
        for name, (first, space) in layer.shared.items():
            who = f"{name} of layer {index + 1}, shared with layer {first + 1},"
            holder = group.layers[first] if 0 <= first < index else layer
            if holder is layer or space not in holder.operands or space in holder.shared:
                yield _broken("sharing", "", f"{who} does not stay on the chip")
                continue
            extents = [space_of(one.problem, of).tile_extents(one.problem.bounds)
                       for one, of in ((layer, name), (holder, space))]
            if layer.operands.get(name) != holder.operands[space] or extents[0] != extents[1]:
                yield _broken("sharing", "", f"{who} stays in another way or has other extents there")
                continue
            for loop in range(len(group.loops)):
                if not _there(group, (first, space), (index, name), loop, all_steps):
                    yield _broken("sharing", "", f"{who} is not there in every step along {group.loops[loop].dim}")


def _there(group: FusedGroup, holder: tuple[int, str], reader: tuple[int, str], loop: int,
           all_steps: Sequence[LayerSteps]) -> bool:
    """Whether a holder's operand (layer, data space) contains in each step of a loop the words that a reader needs."""
    def touched(place: int, name: str) -> list[tuple[int | None, range]]:
        """In each step the rank that the loop moves and its points; None and `range(1)` for work without a rank."""
        problem, cut, spans = group.layers[place].problem, all_steps[place].cut[loop], all_steps[place].spans[loop]
        space = space_of(problem, name)
        if cut is None or cut not in space.dimensions:
            return [(None, range(min(len(span.done), 1))) for span in spans]
        index, rank = moved_rank(space, cut)
        return [(index, touched_points(rank, problem, cut, span.done)) for span in spans]

    kept = group.loops[loop].dim in group.layers[holder[0]].operands[holder[1]].across
    for (mine, there), (theirs, read) in zip(touched(*holder), touched(*reader), strict=True):
        if not len(read):
            continue
        whole = mine is None and (len(there) > 0 or kept)
        if not whole and not (mine == theirs and there.start <= read.start and read.stop <= there.stop):
            return False
    return True


def _lasting_violations(group: FusedGroup, all_steps: Sequence[LayerSteps]) -> Iterator[Violation]:
    """Lasting tensors are whole: each word of an operand comes in once, and each step finishes its sums of an
    output."""
    for index, (layer, steps) in enumerate(zip(group.layers, all_steps, strict=True)):
        classes = step_classes(group, layer, steps) if layer.lasting else {}
        for name, there in layer.lasting.items():
            if name not in layer.operands or name in layer.shared:
                yield _broken("lasting", "", f"{name} of layer {index + 1} does not stay on the chip by itself")
                continue
            words = layer.problem.tensor_size(space_of(layer.problem, name))
            place = list(layer.operands).index(name)
            brought = sum(times * step.fresh[place] for step, times in classes.items())
            if not there and (brought != words or group.repeat > 1):
                yield _broken("lasting", "", f"{brought} words of {name} of layer {index + 1} are brought to be kept; "
                              f"it has {words}", brought, words)
    if group.output_at and any(step.shares_sums for step in step_classes(group, group.layers[-1], all_steps[-1])):
        yield _broken("lasting", group.output_at, "the output is kept, and several steps add to it")


def _share_violations(hardware: Hardware, group: FusedGroup, index: int) -> Iterator[Violation]:
    """An intermediate divided among instances of its home is used in the instance that makes it: the reader moves along
    divided dimensions point by point, and no other layer reads it."""
    link, after = group.links[index], group.layers[group.reader(index)].problem
    home, names = hardware.level(link.stay.level), hardware.arch.level_names()
    if link.pooled or link.elsewhere or link.company or link.written or any(
            read.first == index + 1 or read.behind == index for read in group.second_reads):
        yield _broken("share", link.stay.level, "the intermediate is pooled, put together with others or read again")
    if group.one_pass and index == len(group.links) - 1 and not group.sums:
        yield _broken("share", link.stay.level, "statistics of rows rest in no level")
    if len({level for level, *_ in link.stay.shares}) < len(link.stay.shares):
        yield _broken("share", link.stay.level, "a level divides the intermediate along two dimensions")
    for level, dim, _ in link.stay.shares:
        if level not in names or hardware.level(level) <= home:
            yield _broken("share", level, f"{level} is no level outside {link.stay.level}")
        elif dim not in link.dims or read_slide(after, link, link.dims[dim]) != WindowSlide(1, 1):
            yield _broken("share", level, f"windows of the next layer slide along {dim}, or {dim} leads nowhere")


def _second_read_violations(group: FusedGroup, all_steps: Sequence[LayerSteps]) -> Iterator[Violation]:
    """Each residual operand is whole on the chip where it is read again; the first obstacle is the violation."""
    for read in group.second_reads:
        reason = _no_second_read(group, read)
        if reason is None:
            reasons = (_lost_along(group, read, loop, all_steps) for loop in range(len(group.loops)))
            reason = next((found for found in reasons if found), None)
        if reason:
            yield _broken("second read", "", f"{read.tensor} of layer {read.first + 1}, read again behind "
                          f"layer {read.behind + 1}, {reason}")


def _no_second_read(group: FusedGroup, read: SecondRead) -> str | None:
    """Why a second read is impossible with any loops; None where it is possible."""
    if not 0 <= read.first <= read.behind < len(group.layers):
        return "is read in another order"
    if not read.first and read.tensor not in group.layers[0].operands:
        return "does not stay on the chip"
    if read.first and (read.tensor != group.links[read.first - 1].tensor or group.links[read.first - 1].distance > 1):
        return "is not what the layer before hands on"
    problem, holder = group.layers[read.behind].problem, group.layers[max(read.first - 1, 0)].problem
    space = holder.output if read.first else space_of(holder, read.tensor)
    along = {dim: holder.bounds[dim] for dim in space.dimensions if holder.bounds[dim] > 1}
    added = {dim: problem.bounds[dim] for dim in problem.output.dimensions if problem.bounds[dim] > 1}
    if {read.dims.get(dim): extent for dim, extent in along.items()} != added:
        return "has other dimensions than the output that it is added to"
    link = group.links[read.first - 1] if read.first else None
    return "is pooled or put together with other tensors" if link and (link.pooled or link.elsewhere) else None


def _lost_along(group: FusedGroup, read: SecondRead, loop: int, all_steps: Sequence[LayerSteps]) -> str | None:
    """Why, along a loop, the chip lacks words of the tensor at its second read; None where all are there."""
    own, moved = all_steps[max(read.first - 1, 0)].cut[loop], all_steps[read.behind].cut[loop]
    own = own if own in read.dims else None
    last = [span.done for span in all_steps[read.behind].spans[loop]]
    if own is not None and read.dims.get(own) != moved and len(last) > 1:
        return f"is cut along {own} by the loop over {group.loops[loop].dim}, which leaves the sum whole"
    if read.first:
        return None
    kept = group.loops[loop].dim in group.layers[0].operands[read.tensor].across
    for span, theirs in zip(all_steps[0].spans[loop], last, strict=True):
        mine = span.done
        there = len(mine) > 0 or kept if own is None else mine.start <= theirs.start and theirs.stop <= mine.stop
        if len(theirs) and not there:
            return f"is not there in every step along {group.loops[loop].dim}"
    return None


def _tiles(hardware: Hardware, group: FusedGroup, evaluated: Sequence[EvaluatedLayer]) -> Iterator[Violation]:
    """For every class of steps of every layer: its mapping, Timeloop's own constraints, residency and reductions."""
    for index, own in enumerate(evaluated):
        layer = group.layers[index]
        for step in own.classes:
            tile = own.tiles.get(step.shape)
            if tile is None:
                covered = covered_shape(layer, step.shape)
                text = ", ".join(f"{dim}={points}"
                                 for dim, points in zip(layer.problem.dimensions, step.shape, strict=True))
                yield _broken("mapping", "", f"{layer.problem.name} has no mapping for the tile {text}"
                              if covered is None else f"the mapping for the tile {text} covers {covered}")
                continue
            # The constraint "utilization", a least fill of a level, applies to layers, not to their tiles.
            inner = [violation for violation in tile.broken if violation.constraint != "utilization"]
            yield from inner
            if not inner:
                yield from _stay_violations(hardware, group, index, step, tile)


def _stay_violations(hardware: Hardware, group: FusedGroup, index: int, step: StepClass,
                     tile: EvaluatedTile) -> Iterator[Violation]:
    """Resident tensors lie whole at their level and are fetched once; sums are finished before they leave a level."""
    problem, output = tile.layer.problem, tile.layer.problem.output.name
    if (group.links or group.loops) and tile.layer.network_priced:
        yield _broken("network", "", "energy per hop, ingress or router is not modelled in fused groups")
    for name, stay in group.layers[index].operands.items():
        home, t, kept = hardware.level(stay.level), tile.index(name), tile.kept_levels(name)
        size, words = tile.boxes.size[home, t, 0], problem.tensor_size(space_of(problem, name))
        if home not in kept:
            yield _broken("whole", stay.level, f"the mapping does not keep {name} in {stay.level}", 0, words)
        elif size != words or tile.counts.fills[home, t, 0] > words:
            yield _broken("whole", stay.level, f"{stay.level} holds {size:g} words of {name} at a time, its tile has "
                          f"{words}", size, words)
        if not any(level > home for level in kept):
            yield _broken("level", stay.level, f"{name} stays in {stay.level}, but no level outside it keeps it")
    links = [(link, {theirs: own for own, theirs in link.dims.items()}, link.tensor) for link in group.into(index)]
    links += [(link, {own: own for own in link.dims}, output) for link in group.links[index:index + 1]]
    for link, dims, name in links:
        if link.stay.shares:
            yield from _divided_violations(hardware, link, dims, name, tile)
    summed, *further = tile.kept_levels(output)     # the innermost level that keeps the output adds up sums
    finished = [home for at in [group.output_home(index)] if at and (home := hardware.level(at)) != summed
                and not sums_rest(hardware, group, index)]
    if step.shares_sums:
        rest = hardware.level(group.sums) if group.sums else summed
        size = tile.boxes.size[rest, tile.index(output), 0] if rest in (summed, *further) else 0
        if group.sums and size != (words := problem.tensor_size(problem.output)):
            yield _broken("whole", group.sums, f"{group.sums} holds {size:g} partial sums of {output}, which rest "
                          f"there, at a time; its tile has {words}", size, words)
        finished += [level for level in further if level > rest]
    for level in finished:
        if back := float(tile.counts.reads[level, tile.index(output), 0]):
            name = hardware.arch.levels[level].name
            yield _broken("reduction", name, f"{back:g} partial sums of {output} are read back from {name}", back)


def _divided_violations(hardware: Hardware, link: FusedLink, dims: Mapping[str, str], name: str,
                        tile: EvaluatedTile) -> Iterator[Violation]:
    """Each instance of a home holds its own share of an intermediate, and works on no other share.

    `dims`: dimension of the layer -> dimension of the intermediate's producer; `name`: its data space in the layer.
    """
    home, problem = hardware.level(link.stay.level), tile.layer.problem
    for index, level in enumerate(hardware.arch.levels[home + 1:], home + 1):
        shares = {dim: number for at, dim, number in link.stay.shares if at == level.name}
        found = {dims.get(dim, dim): factor for dim, factor in tile.spread(index).items() if factor > 1}
        if found != shares:
            yield _broken("share", level.name, f"{level.name} spreads {name} by {found}; its shares are {shares}")
    size, words = tile.boxes.size[home, tile.index(name), 0], problem.tensor_size(space_of(problem, name))
    instances = prod(number for *_, number in link.stay.shares)
    if size * instances != words:
        yield _broken("whole", link.stay.level, f"{instances} instances hold {size:g} words of {name} each at a time; "
                      f"its tile has {words}", size * instances, words)


def _capacity_violations(hardware: Hardware, group: FusedGroup,
                         evaluated: Sequence[EvaluatedLayer]) -> Iterator[Violation]:
    """Every level holds the words that are live in it at once."""
    for index, level in enumerate(hardware.arch.levels):
        if level.usable is not None and (
                words := max(live_words_by_layer(hardware, group, index, evaluated))) > level.usable:
            yield _broken("capacity", level.name, f"{words:g} words are live at once in {level.name}, which holds "
                          f"{level.usable}", words, level.usable)


def live_words(hardware: Hardware, group: FusedGroup, level: int) -> float:
    """The most words that are live at once in one instance of a level, which its capacity must hold; the group has a
    mapping for every tile."""
    return max(live_words_by_layer(hardware, group, level, evaluate_tiles(hardware, [group])[0]))


def live_words_by_layer(hardware: Hardware, group: FusedGroup, level: int,
                        evaluated: Sequence[EvaluatedLayer]) -> list[float]:
    """For each layer, the most words that are live at once in one instance of a level while the layer runs.

    Resident operands of all layers occupy room in every step; so do partial sums in the level in which they rest. In
    addition the running layer needs room for its tile's other data spaces (twice if the level is double buffered), for
    the intermediates that it reads and writes, and for words of other intermediates that later steps use.
    FADiff's eq. (24) adds up weights and activations of all layers instead; LoopTree, too, takes the largest over
    branches that run one after the other. `level`: its index; `evaluated`: from `evaluate_tiles`.
    """
    name, bits = hardware.arch.levels[level].name, hardware.arch.levels[level].word_bits
    resident = resident_words(group, [own.steps for own in evaluated], hardware.arch.levels[level])
    staying, running = 0.0, list[float]()
    for index, (layer, own) in enumerate(zip(group.layers, evaluated, strict=True)):
        output = layer.problem.output.name
        stays = {operand for operand, stay in layer.operands.items() if stay.level == name}
        stays |= {output for at in [group.output_home(index)] if at == name}
        stays |= {link.tensor for link in group.into(index) if link.stay.level == name and not link.beside}
        sums, passing = 0.0, 0.0
        for step in own.classes:
            kept = own.tiles[step.shape].kept_words
            size = {space: words for space, words in kept[level].items() if space not in stays}
            if step.shares_sums and group.sums == name:
                del size[output]
            elif step.shares_sums and not group.sums and [output in words for words in kept].index(True) == level:
                sums = max(sums, size.pop(output))
            elif output in stays and next(words for words in kept if output in words) is kept[level]:
                space = layer.problem.output    # the home holds finished elements, with their own bits
                size[output] = kept[level][output] * float(1 - space.words(bits) / space.words(bits, partial=True))
            passing = max(passing, sum(size.values()))
        staying += sums
        running.append(passing * (2 if name in group.double_buffered else 1) + resident[index])
    return [staying + own for own in running]
