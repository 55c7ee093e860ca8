"""Fused groups written for LoopTree: what LoopTree's model makes of the text is what the group costs."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from fadiff_validation.looptree import evaluate_fused
from fused_groups import CONV_2D, MATMUL, STRIDED, THREE, conv, gemmini, group, hardware, mapping
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fadiff_mapper import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import group_cost
from fadiff_mapper.fusion.group_legality import group_violations
from fadiff_mapper.fusion.tile_steps import intermediate_words, layer_steps, operand_words, step_classes, sums_words
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.yaml.located import plain
from fadiff_mapper.output.looptree import beyond_looptree, looptree_yaml, to_looptree
from fadiff_mapper.workload.window_slide import WindowSlide

CONV_1D = [conv("first", C=2, M=4, P=14, R=3), conv("second", C=4, M=2, P=12, R=3)]
PADDED = [conv("first", C=2, M=3, P=12, R=3), conv("second", C=3, M=2, P=12, R=3)]


def compare(fused: FusedGroup, alike: bool = True, inside: bool = True) -> None:
    """Traffic at DRAM and in the scratchpad (`inside`: that of the tiles, too), operations and what is held."""
    found = evaluate_fused(looptree_yaml(fused, hardware(), alike=alike)).to_dict()
    steps = layer_steps(fused)
    for index, layer in enumerate(group_cost(hardware(), fused).layers):
        assert found["ops"][f"E{index + 1}"] == layer.computes
        for (level, space), words in layer.traffic.items():
            linked = index and space == fused.links[index - 1].tensor
            name = f"Outputs_{index}" if linked else f"{space}_{index + 1}"
            count = found["accesses"].get(f"{level}/{name}/E{index + 1}")
            if level not in ("DRAM", "Scratchpad"):
                continue
            assert count["writes"] == words.fills + words.updates, (index, level, space)
            drained = space == "Outputs" and level == "Scratchpad"     # partial sums of a step are inside it
            if level == "DRAM" or (inside and not drained):
                assert count["reads"] == words.reads, (index, level, space)
        for name in fused.layers[index].operands:
            held = found["occupancy_max"][f"Scratchpad/{name}_{index + 1}/E{index + 1}"]
            assert held == operand_words(fused.layers[index], name, fused, steps[index])
        if index < len(fused.links):
            held = found["occupancy_max"][f"Scratchpad/Outputs_{index + 1}/E{index + 2}"]
            assert held == intermediate_words(fused.layers[index], fused.links[index], fused, steps[index])


def on_the_array(shape: tuple[int, ...]) -> Mapping:
    """Channels side by side, weights stationary: the pixels' loops are the innermost ones."""
    dims = gemmini().problem.dimensions
    extents = dict(zip(dims, shape, strict=True))
    serial = mapping(tuple(1 if dim in "CM" else extents[dim] for dim in dims))
    where = {"inter_PEColumns_spatial": "M", "inter_PERows_spatial": "C"}
    levels = []
    for level, spec in zip(serial.levels, gemmini().arch.levels, strict=True):
        dim = where.get(spec.name)
        order = ("Q", "P", *(d for d in dims if d not in "QP"))
        keep = level.keep | ({"Weights"} if spec.name == "WeightRegister" else frozenset())
        split = 0 if dim == "C" else level.split
        levels.append(replace(level, order=order, keep=keep, split=split,
                              spatial=level.spatial | ({dim: extents[dim]} if dim else {})))
    return Mapping(tuple(levels))


def side_by_side(problems: list, dim: str) -> FusedGroup:
    """A group whose tiles run on the array."""
    fused = group(problems, [(dim, 2)], dim)
    return replace(fused, layers=tuple(
        replace(layer, mappings={shape: on_the_array(shape) for shape in layer.mappings}) for layer in fused.layers))


def summed_up() -> FusedGroup:
    """Channels between two layers, cut: sums go on from step to step."""
    fused = group(MATMUL, [("N", 4), ("C", 2)], "")
    first, second = fused.layers
    first = replace(first, operands=first.operands | {"Inputs": Stay("Scratchpad", frozenset("C"))})
    return replace(fused, layers=(first, second))


def test_sums_that_are_spilled_are_in_the_branch_of_their_layer() -> None:
    spilled = replace(group(MATMUL, [("C", 2), ("N", 4)], "N"), sums="DRAM")
    compare(spilled)
    kept = beyond_looptree(replace(spilled, loops=spilled.loops[::-1]), hardware(), True)
    assert any("sums leave for DRAM in every step along C" in phrase for phrase in kept)


@pytest.mark.parametrize("loops", [
    [("C", 2), ("N", 4)], [("C", 3), ("N", 2)], [("C", 4), ("N", 3)], [("C", 5), ("N", 1)]], ids=str)
def test_sums_that_rest_in_the_home_stay_there_as_looptree_says(loops: list) -> None:
    bare = group(MATMUL, loops, "N")
    *first, last = bare.layers
    kept = {shape: replace(own, levels=tuple(
        replace(level, keep=level.keep | {"Outputs"}) if level.keep >= {"Inputs"} else level for level in own.levels))
        for shape, own in last.mappings.items()}
    fused = replace(bare, layers=(*first, replace(last, mappings=kept)), sums="Scratchpad")
    assert group_violations(hardware(), fused) == []
    compare(fused)
    held = evaluate_fused(looptree_yaml(fused, hardware(), alike=True)).to_dict()["occupancy_max"]
    assert sums_words(fused, layer_steps(fused)[-1]) == held["Scratchpad/Outputs_2/E2"]
    lost = replace(fused, layers=(*first, last))
    assert [each.constraint for each in group_violations(hardware(), lost)] == ["whole"] * sum(
        step.shares_sums for step in step_classes(lost, last, layer_steps(lost)[-1]))


def fetched_again() -> FusedGroup:
    """The last layer's weights come in two parts, in every step."""
    fused = group(CONV_1D, [("P", 4)], "P")
    first, second = fused.layers
    halves = {shape: mapping(shape, {"DRAM": {"M": 2}}) for shape in second.mappings}
    return replace(fused, layers=(first, replace(second, mappings=halves, operands={})))


CASES = {
    "rows": group(CONV_1D, [("P", 4)], "P"), "single rows": group(CONV_1D, [("P", 1)], "P"),
    "one step": group(CONV_1D, [("P", 12)], "P"), "no loops": group(CONV_1D, [], ""),
    "three layers": group(THREE, [("P", 2)], "P"), "rows of images": group(CONV_2D, [("P", 2)], "P"),
    "rows again": group(CONV_2D, [("P", 2), ("Q", 2)], "Q"), "both kept": group(CONV_2D, [("P", 2), ("Q", 2)], "PQ"),
    "columns": group(CONV_2D, [("Q", 2), ("P", 4)], "QP"), "tokens": group(MATMUL, [("N", 2)], "N"),
    "tokens and channels": group(MATMUL, [("N", 2), ("M", 2)], "M"), "strides": group(STRIDED, [("P", 2)], "P"),
    "one layer": group(CONV_1D[:1], [("P", 4)], "P"), "sums": summed_up(), "weights again": fetched_again(),
    "array": side_by_side(CONV_1D, "P"),
    "array of images": side_by_side(CONV_2D, "P"), "array of tokens": side_by_side(MATMUL, "N"),
    "padding": group(PADDED, [("P", 4)], "P", padding={"P": 1}),
}
OTHERWISE = {"array of tokens", "padding"}
"""Where LoopTree counts otherwise inside a tile: it leaves weights in registers while other layers run, and it reads
the zeros of a padding."""


@pytest.mark.parametrize("name", CASES)
def test_an_exported_group_costs_there_what_it_costs_here(name: str) -> None:
    assert group_violations(hardware(), CASES[name]) == []
    compare(CASES[name], inside=name not in OTHERWISE)


def recorded() -> dict[str, dict]:
    """LoopTree's answers (Timeloop 4cf6d4c) to the exported cases: the input, [fills, words from the parent, largest
    number of words held] of "level/tensor/layer", and operations by layer."""
    with gzip.open(Path(__file__).parents[1] / "data" / "looptree_groups.json.gz", "rt", encoding="utf-8") as text:
        return json.load(text)


@pytest.mark.parametrize("name", CASES)
def test_real_looptree_moves_computes_and_holds_what_the_group_does(name: str) -> None:
    fused, found = CASES[name], recorded()[name]
    document = to_looptree(fused, hardware())
    assert found["input"] == plain({key: document[key] for key in ("problem", "mapping")})
    steps = layer_steps(fused)
    for index, layer in enumerate(group_cost(hardware(), fused).layers):
        assert found["operations"][f"E{index + 1}"] == layer.computes
        for space, stay in fused.layers[index].operands.items():
            assert stay.level == "Scratchpad"
            fills, from_parent, held = found["moves"][f"1/{space}_{index + 1}/E{index + 1}"]
            assert fills == from_parent == layer.traffic["DRAM", space].reads
            assert held == operand_words(fused.layers[index], space, fused, steps[index])
        if index < len(fused.links):
            held = found["moves"][f"1/Outputs_{index + 1}/E{index + 2}"][2]
            assert held == intermediate_words(fused.layers[index], fused.links[index], fused, steps[index])


@settings(max_examples=20)
@given(st.data())
def test_chains_of_any_size_and_order_of_loops(data: st.DataObject) -> None:
    problems, p, q, m = [], data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    loops = data.draw(st.permutations([("P", data.draw(st.integers(1, p))), ("Q", data.draw(st.integers(1, q)))]))
    for _ in range(data.draw(st.integers(1, 3))):
        c, r, s = (data.draw(st.integers(1, most)) for most in (3, 3, 2))
        stride = data.draw(st.integers(1, min(r, s)))
        problems.insert(0, conv("layer", stride, M=m, C=c, P=p, Q=q, R=r, S=s))
        m, p, q = c, stride * (p - 1) + r, stride * (q - 1) + s
    fused = group(problems, loops, data.draw(st.sampled_from(["PQ", "PQ", loops[1][0]])))
    assume(not beyond_looptree(fused, hardware(), alike=True))
    compare(fused)


def test_tiles_with_other_loops_are_refused_or_take_those_of_the_largest() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    first = fused.layers[0]
    shape = max(first.mappings)
    mixed = first.mappings | {shape: mapping(shape, {"Scratchpad": {"M": 2}})}
    fused = replace(fused, layers=(replace(first, mappings=mixed), fused.layers[1]))
    assert group_violations(hardware(), fused) == []
    with pytest.raises(FadiffError, match=r"layer 1 .first.: tiles of C=2 M=4 R=3 P=6 and .* have different loops"):
        to_looptree(fused, hardware())
    compare(fused, alike=False, inside=False)


def test_what_looptree_cannot_say_is_named() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    first, second = fused.layers
    link = fused.links[0]

    def reason(changed: FusedGroup) -> str:
        with pytest.raises(FadiffError) as error:
            to_looptree(changed, hardware())
        return str(error.value)

    assert "goes on to the next layer and to the outermost" in reason(replace(fused, links=(replace(link,
                                                                                                    written=True),)))
    again = replace(link, stay=Stay("Scratchpad"))
    assert "layer 1 (first): Outputs is computed again in the steps along P" in reason(replace(fused, links=(again,)))
    assert "layer 2 (second): Weights is fetched again in the steps along P" in reason(
        replace(fused, layers=(first, replace(second, operands={}))))
    assert "its output is pooled on the way" in reason(
        replace(fused, links=(replace(link, pooled={"N": WindowSlide(1, 1)}),)))
    assert "Outputs stays in line buffers" in reason(replace(fused, links=(replace(link, stay=replace(
        link.stay, lines=True)),)))
    gaps = conv("first", C=2, M=4, P=14, R=2, stride=3)
    assert "words that nobody touches" in reason(group([gaps, CONV_1D[1]], [("P", 4)], "P"))
    assert reason(replace(fused, loops=(TileLoop("P", 4),), links=(replace(link, dims={
        "N": "N", "M": "C", "Q": "C", "P": "P"}),))).count("make one axis") == 1
