"""Links on whose way a tensor is put together with others, cut into stretches, or resized: counted as sets show."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
from fused_groups import conv, gemmini, group, hardware, with_mappings
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import GroupTraffic, group_cost
from fadiff_mapper.fusion.group_legality import group_violations, live_words
from fadiff_mapper.fusion.tile_steps import intermediate_words, layer_steps
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.prepared_layer import prepare_layer, word_energy
from fadiff_mapper.workload.window_slide import WindowSlide

KERNEL = {"R": 3, "S": 3}
OWN, OTHERS = 2, 4
"""Channels that the first layer makes, and channels of other tensors that are put behind them."""


def concatenated(loops: list[tuple[str, int]], across: str) -> FusedGroup:
    """Two convolutions; the second one also reads channels that come from elsewhere."""
    first = conv("first", C=3, M=OWN, P=10, Q=8, **KERNEL)
    second = conv("second", C=OWN + OTHERS, M=2, P=8, Q=6, **KERNEL)
    plain = group([first, replace(second, bounds=second.bounds | {"C": OWN})], loops, across)
    link = FusedLink("Inputs", {"N": "N", "P": "P", "Q": "Q"}, plain.links[0].stay, whole=frozenset("M"),
                     elsewhere=Fraction(OTHERS, OWN + OTHERS), company=Fraction(OTHERS, OWN))
    layers = (plain.layers[0], replace(plain.layers[1], problem=second))
    return with_mappings(replace(plain, layers=layers, links=(link,)))


def tiles(extent: int, tile: int) -> list[range]:
    return [range(start, min(start + tile, extent)) for start in range(0, extent, tile)]


@pytest.mark.parametrize(("loops", "across"), [
    ([("P", 2)], "P"), ([("P", 3)], ""), ([("P", 2), ("Q", 4)], "PQ"), ([("P", 4), ("Q", 2)], "Q"), ([("M", 1)], "M")])
def test_words_from_elsewhere_are_fetched_when_a_step_first_needs_them(loops: list, across: str) -> None:
    fused = concatenated(loops, across)
    assert group_violations(hardware(), fused) == []
    sizes = dict(loops)
    rows, columns = tiles(8, sizes.get("P", 8)), tiles(6, sizes.get("Q", 6))
    fetched = 0
    order = [dict(zip(sizes, picked, strict=True)) for picked in product(*(
        {"P": rows, "Q": columns, "M": tiles(2, 1)}[dim] for dim in sizes))]
    seen: set[tuple[int, int]] = set()
    before: dict[str, range] = {}
    for step in order:
        p, q = step.get("P", range(8)), step.get("Q", range(6))
        wanted = {(r, s) for r in range(p.start, p.stop + 2) for s in range(q.start, q.stop + 2)}
        # along a loop that is not retained nothing of earlier steps is left once it moves on
        if any(dim not in across and before.get(dim) not in (None, points) for dim, points in step.items()):
            seen = set()
        fetched += OTHERS * len(wanted - seen)
        seen |= wanted
        before = step
    traffic = group_cost(hardware(), fused).layers[1].traffic
    assert traffic["DRAM", "Inputs"].reads == fetched
    assert traffic["Scratchpad", "Inputs"].fills == fetched


def test_besides_what_comes_from_elsewhere_nothing_changes_outside_the_chip() -> None:
    fused = concatenated([("P", 2)], "P")
    whole = group([conv("first", C=3, M=OWN + OTHERS, P=10, Q=8, **KERNEL), fused.layers[1].problem], [("P", 2)], "P")
    joined, alone = (group_cost(hardware(), each).layers[1] for each in (fused, whole))
    words = OTHERS * 10 * 8
    for place, more in joined.traffic.items():
        moved = alone.traffic.get(place, GroupTraffic())
        assert (more.reads - moved.reads, more.fills - moved.fills, more.updates - moved.updates) == {
            ("DRAM", "Inputs"): (words, 0, 0), ("Scratchpad", "Inputs"): (0, words, 0)}.get(place, (0, 0, 0)), place
    layer = prepare_layer(gemmini().arch, fused.layers[1].problem, gemmini().tables)
    price = float(word_energy(layer.machine).read[-1, 0])
    assert joined.components["DRAM"] - alone.components["DRAM"] == pytest.approx(words * price)


def test_words_from_elsewhere_take_room_beside_the_intermediate() -> None:
    for loops, across in (([("P", 2)], "P"), ([("P", 2), ("Q", 2)], "Q")):
        fused = concatenated(loops, across)
        own = replace(fused, links=(replace(fused.links[0], company=Fraction(0)),))
        found, alone = (intermediate_words(each.layers[0], each.links[0], each, layer_steps(each)[0])
                        for each in (fused, own))
        assert found * OWN == alone * (OWN + OTHERS)


def test_no_loop_cuts_channels_that_are_put_together() -> None:
    broken = group_violations(hardware(), concatenated([("C", 2)], ""))
    assert any("put together" in violation.reason or "channels of no intermediate" in violation.reason
               for violation in broken)


def gated(loops: list[tuple[str, int]]) -> FusedGroup:
    """A layer that makes a factor per channel, and a convolution that reads an image scaled by it."""
    first, second = conv("gate", C=3, M=OWN), conv("second", C=OWN, M=2, P=8, Q=6, **KERNEL)
    link = FusedLink("Inputs", {"N": "N", "M": "C"}, Stay("Scratchpad", frozenset(dim for dim, _ in loops)),
                     elsewhere=Fraction(1))
    return with_mappings(FusedGroup((FusedLayer(first, {}), FusedLayer(second, {})), (link,),
                                    tuple(TileLoop(dim, tile) for dim, tile in loops)))


@pytest.mark.parametrize("loops", [[], [("P", 2)], [("P", 4), ("Q", 3)], [("C", 1)], [("M", 1)]])
def test_a_scaled_image_is_fetched_tile_by_tile_and_its_factor_never(loops: list) -> None:
    fused = gated(loops)
    assert group_violations(hardware(), fused) == []
    sizes = dict(loops)
    fetched = sum(sizes.get("C", OWN) * (len(p) + 2) * (len(q) + 2)
                  for p in tiles(8, sizes.get("P", 8)) for q in tiles(6, sizes.get("Q", 6)))
    fetched *= (OWN // sizes.get("C", OWN)) * (2 // sizes.get("M", 2))
    gate, second = group_cost(hardware(), fused).layers
    assert ("DRAM", "Outputs") not in gate.traffic and gate.recomputed == 0
    assert second.traffic["DRAM", "Inputs"].reads == second.traffic["Scratchpad", "Inputs"].fills == fetched


def test_a_scaled_image_has_room_of_its_own_beside_its_factor() -> None:
    for loops in ([], [("P", 2)]):
        fused = gated(loops)
        alone = with_mappings(FusedGroup((fused.layers[1],), (), fused.loops))
        level = hardware().level("Scratchpad")
        assert live_words(hardware(), fused, level) == live_words(hardware(), alone, level) + OWN


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 1)])
@pytest.mark.parametrize(("loops", "across"), [([("P", 2)], "P"), ([("P", 4)], ""), ([("M", 1), ("P", 2)], "MP")])
def test_pooled_words_from_elsewhere_are_fetched_pooled(kernel: int, stride: int, loops: list, across: str) -> None:
    """Pooled words stay along a loop where they are stored, and pass where they have room of their own."""
    pooled = concatenated(loops, across)
    rows, columns = 9 * stride + kernel, 7 * stride + kernel
    slides = {"P": WindowSlide(kernel, stride), "Q": WindowSlide(kernel, stride)}
    link = replace(pooled.links[0], pooled=slides)
    first = replace(pooled.layers[0].problem, bounds=pooled.layers[0].problem.bounds | {"P": rows, "Q": columns})
    fused = with_mappings(replace(pooled, layers=(FusedLayer(first, {}), pooled.layers[1]), links=(link,)))
    assert group_violations(hardware(), fused) == []
    size, kept = dict(loops), link.lies_pooled and across
    steps = [(p, m) for p in tiles(8, size.get("P", 8)) for m in range(2 // size.get("M", 2))]
    fetched = OTHERS * 8 * (10 if kept else sum(len(p) + 2 for p, _ in steps))
    assert group_cost(hardware(), fused).layers[1].traffic["DRAM", "Inputs"].reads == fetched


def linked(first: Problem, second: Problem, link: FusedLink, loop: TileLoop) -> FusedGroup:
    return with_mappings(FusedGroup((FusedLayer(first, {}), FusedLayer(second, {})), (link,), (loop,)))


@given(st.integers(1, 3), st.integers(2, 4), st.integers(1, 3), st.integers(1, 6), st.booleans())
def test_a_resized_image_is_computed_by_the_rows_that_its_windows_fall_into(
        factor: int, rows: int, kernel: int, tile: int, retained: bool) -> None:
    pad = kernel // 2
    after = rows * factor + 2 * pad - kernel + 1
    first, second = conv("first", M=2, P=rows), conv("second", C=2, P=after, R=kernel)
    link = FusedLink("Inputs", {"M": "C", "P": "P"}, Stay("Scratchpad", frozenset("P" if retained else "")),
                     {"P": pad}, between={"P": WindowSlide(1, 1, shrink=factor)})
    fused = linked(first, second, link, TileLoop("P", tile))
    assert group_violations(hardware(), fused) == []
    done: set[int] = set()
    computed = 0
    for step in tiles(after, tile):
        read = {(row + tap - pad) // factor for row in step for tap in range(kernel)
                if 0 <= row + tap - pad < rows * factor}
        stretch = set(range(min(read), max(read) + 1))
        computed += len(stretch - done)
        done |= stretch if retained else set()
    assert group_cost(hardware(), fused).layers[0].computes == 2 * computed


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4))
def test_heads_ask_for_their_own_channels_and_nothing_twice(heads: int, size: int, tile: int, tokens: int) -> None:
    first = conv("first", N=tokens, C=2, M=heads * size)
    second = conv("second", N=tokens, C=size, P=heads)     # a head is a row of it
    link = FusedLink("Inputs", {"N": "N", "M": "P"}, Stay("Scratchpad", frozenset("P")),
                     between={"P": WindowSlide(size, size)})
    fused = linked(first, second, link, TileLoop("P", min(tile, heads)))
    assert group_violations(hardware(), fused) == []
    spans = layer_steps(fused)[0].spans[0]
    assert [span.done for span in spans] == [
        range(step.start * size, step.stop * size) for step in tiles(heads, min(tile, heads))]
    assert group_cost(hardware(), fused).layers[0].recomputed == 0


def test_an_output_dimension_that_leads_nowhere_must_be_said_to_be_whole() -> None:
    first, second = conv("first", C=2, M=6, P=8), conv("second", C=3, P=8, R=1)
    link = FusedLink("Inputs", {"P": "P"}, Stay("Scratchpad", frozenset("P")))
    (broken,) = group_violations(hardware(), linked(first, second, link, TileLoop("P", 2)))
    assert broken.constraint == "link" and "leads to none" in broken.reason
    whole = linked(first, second, replace(link, whole=frozenset("M")), TileLoop("P", 2))
    assert group_violations(hardware(), whole) == []
