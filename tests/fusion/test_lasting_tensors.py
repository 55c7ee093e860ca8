"""Tensors that stay on the chip from one group of a plan to another: counts, room, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from fused_groups import CONV_2D, ONWARDS, THREE, hardware, with_mappings

from fadiff_mapper.fusion import FusedCost, FusedGroup, FusedLayer, FusedLink, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import GroupTraffic
from fadiff_mapper.fusion.group_legality import evaluate_group, group_violations

HOME = Stay("Scratchpad")


def handed_on(size: int) -> FusedGroup:
    """The first `size` of three layers in a row, in one group without loops."""
    return with_mappings(FusedGroup(tuple(FusedLayer(problem, {}) for problem in THREE[:size]),
                                    tuple(FusedLink("Inputs", ONWARDS, HOME) for _ in range(size - 1))))


def made(group: FusedGroup, words: int) -> FusedGroup:
    """The group with its output left in the scratchpad, with so many words of all lasting tensors."""
    return replace(group, output_at="Scratchpad", lasting_words={"Scratchpad": words})


def finding(group: FusedGroup, words: int, there: bool = True) -> FusedGroup:
    """The group with the input of its first layer in the scratchpad, already there or brought, likewise."""
    stay = Stay("Scratchpad", frozenset(loop.dim for loop in group.loops))
    first = replace(group.layers[0], operands={**group.layers[0].operands, "Inputs": stay}, lasting={"Inputs": there})
    return replace(group, layers=(first, *group.layers[1:]), lasting_words={"Scratchpad": words})


def moved(cost: FusedCost, index: int = 0) -> dict[tuple[str, str], GroupTraffic]:
    """Words that a layer moves, where it moves any."""
    return {place: words for place, words in cost.layers[index].traffic.items() if words != GroupTraffic()}


def test_a_group_without_loops_is_its_layers_with_lasting_tensors_between_them() -> None:
    words = [problem.tensor_size(problem.output) for problem in THREE]
    first, second, third = (FusedGroup(layers) for layers in ((layer,) for layer in handed_on(3).layers))
    versions = [made(first, words[0]), made(finding(second, words[0]), words[0] + words[1]), finding(third, words[1])]
    assert not any(group_violations(hardware(), group) for group in versions)
    whole, parts = evaluate_group(hardware(), handed_on(3)), [evaluate_group(hardware(), group) for group in versions]
    assert [moved(whole, index) for index in range(3)] == [moved(part) for part in parts]
    assert [layer.energy_pj for layer in whole.layers] == pytest.approx([part.energy_pj for part in parts], rel=1e-12)
    assert [layer.cycles for layer in whole.layers] == [part.cycles for part in parts]


def test_words_by_hand() -> None:
    # 2 x 10 x 8 outputs of 2 channels behind a window of 3 x 3: they go to the scratchpad once, which is read for none
    layer = with_mappings(FusedGroup((FusedLayer(CONV_2D[0], {}),)))
    left, plain = evaluate_group(hardware(), made(layer, 160)), evaluate_group(hardware(), layer)
    home = "Scratchpad", "Inputs"
    assert plain.layers[0].traffic["DRAM", "Outputs"].updates == 2 * 10 * 8
    assert left.layers[0].traffic["Scratchpad", "Outputs"].updates == 2 * 10 * 8
    assert ("DRAM", "Outputs") not in moved(left)
    # its operand of 2 x 12 x 10 words: 240 come from outside, or none
    found = evaluate_group(hardware(), finding(layer, 240))
    assert plain.layers[0].traffic["DRAM", "Inputs"].reads == 2 * 12 * 10
    assert found.layers[0].traffic["DRAM", "Inputs"].reads == found.layers[0].traffic[home].fills == 0
    assert found.layers[0].traffic[home].reads == plain.layers[0].traffic[home].reads


def test_tiles_bring_a_tensor_word_by_word() -> None:
    group = handed_on(2)
    tiled = with_mappings(replace(group, loops=(TileLoop("P", 3),), layers=tuple(
        replace(layer, mappings={}) for layer in group.layers)))
    halo = evaluate_group(hardware(), tiled).layers[0].traffic["DRAM", "Inputs"].reads
    brought = with_mappings(finding(tiled, 28, there=False))
    assert not group_violations(hardware(), brought)
    # 14 rows of 2 channels: tiles of the input overlap, and a tensor that stays comes in once
    assert halo > evaluate_group(hardware(), brought).layers[0].traffic["DRAM", "Inputs"].reads == 2 * 14
    assert evaluate_group(hardware(), finding(tiled, 28)).layers[0].traffic["DRAM", "Inputs"].reads == 0


@pytest.mark.parametrize(("changed", "constraint", "part"), [
    (lambda group: made(group, 16384 * 32), "capacity", "words are live at once in Scratchpad"),
    (lambda group: replace(made(group, 10), output_at="DRAM"), "level", "not a level inside the outermost one"),
    (lambda group: replace(group, lasting_words={"Nowhere": 1}), "level", "Nowhere"),
    (lambda group: replace(finding(group, 28, there=False), repeat=2), "lasting", "are brought to be kept"),
    (lambda group: replace(group, layers=tuple(replace(layer, lasting={"Inputs": True}) for layer in group.layers)),
     "lasting", "does not stay on the chip by itself"),
    (lambda group: made(with_mappings(replace(group, loops=(TileLoop("C", 1),))), 20), "lasting", "several steps add"),
])
def test_what_is_refused(changed: Callable[[FusedGroup], FusedGroup], constraint: str, part: str) -> None:
    first = group_violations(hardware(), changed(handed_on(3)))[0]
    assert first.constraint == constraint and part in first.reason
