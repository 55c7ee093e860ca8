"""Words that are live at once in a level while a fused group runs."""

from __future__ import annotations

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, Hardware
from fadiff_mapper.fusion.groups.step_evaluation import (
    kept_words,
)
from fadiff_mapper.fusion.groups.stored_words import intermediates, live_intermediates, operand_words
from fadiff_mapper.fusion.groups.tile_steps import LayerSteps, layer_steps, step_classes


def live_words(hardware: Hardware, group: FusedGroup, place: int) -> float:
    """Words of one instance of a level that are live at once: all operands that stay, and while a layer runs its tile,
    the intermediates that it reads and writes, and what later steps use of the others."""
    name, all_steps = hardware.arch.levels[place].name, layer_steps(group)
    whole, outlasting = intermediates(group, all_steps, name)
    staying, most = 0.0, 0.0
    for index, steps in enumerate(all_steps):
        layer = group.layers[index]
        stays = {tensor for tensor, stay in layer.operands.items() if stay.level == name}
        staying += sum(operand_words(layer, tensor, group, steps) for tensor in stays)
        if index < len(group.links) and group.links[index].stay.level == name:
            stays.add(layer.problem.output.name)
        if index and group.links[index - 1].stay.level == name and not group.links[index - 1].beside:
            stays.add(group.links[index - 1].tensor)
        sums, passing = _tile_words(hardware, group, index, steps, place, stays)
        staying += sums
        most = max(most, passing * (2 if name in group.double_buffered else 1)
                   + sum(live_intermediates(whole, outlasting, index)))
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
