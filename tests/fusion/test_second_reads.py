"""Residual operands on the chip: a tensor that a layer of a group reads, and a sum behind a later one.

The group of these tests: a pointwise layer, a window over rows, a pointwise layer, and the sum of its output with that
of the first one.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from fused_groups import conv, group, hardware, with_mappings

from fadiff_mapper.fusion import FusedGroup, SecondRead, evaluate_group, group_violations, layer_steps
from fadiff_mapper.fusion.group_legality import live_words
from fadiff_mapper.fusion.tile_steps import intermediate_words, resident_words
from fadiff_mapper.output.looptree import beyond_looptree
from fadiff_mapper.workload.window_slide import WindowSlide

CHANNELS, ROWS = 2, 12
SUM = SecondRead(1, "Inputs", 2, {"M": "M", "P": "P"})
OWN_INPUT = SecondRead(0, "Inputs", 2, {"C": "M", "P": "P"})


def residual(tile: int, across: str, read: SecondRead | None = SUM, kernel: int = 3, written: bool = False,
             loop: str = "P") -> FusedGroup:
    sizes = {"C": CHANNELS, "M": CHANNELS, "P": ROWS}
    problems = [conv("first", **sizes), conv("window", R=kernel, **sizes), conv("third", **sizes)]
    bare = group(problems, [(loop, tile)], across)
    links = (replace(bare.links[0], padding={"P": kernel // 2}, written=written), bare.links[1])
    return with_mappings(replace(bare, links=links, second_reads=(read,) if read else ()))


def scratchpad() -> int:
    return hardware().level("Scratchpad")


@pytest.mark.parametrize(("tile", "across", "kernel"), [*product((1, 2, 3, 5, 12), ("", "P"), (1, 3, 5))])
def test_points_are_there_from_where_they_are_computed_until_they_are_added(tile: int, across: str,
                                                                            kernel: int) -> None:
    """Step by step with sets of rows: what is read was computed, and the room is that of all rows that are alive."""
    fused = residual(tile, across, kernel=kernel)
    first, window, third = layer_steps(fused)
    steps = range(len(third.spans[0]))
    done = [[set(span.done) for span in layer.spans[0]] for layer in (first, window, third)]
    reads = [{row + offset - kernel // 2 for row in done[1][step] for offset in range(kernel)} & set(range(ROWS))
             | done[2][step] for step in steps]
    alive = []
    for step in steps:
        made = set().union(*done[0][:step + 1]) if across else done[0][step]
        assert reads[step] <= made
        later = set().union(*reads[step:]) if across else reads[step]
        alive.append(len(made & later))
        assert set(first.spans[0][step].needed) >= made & later
    assert set().union(*done[2]) == set(range(ROWS))
    if across:
        assert sum(map(len, done[0])) == ROWS
    words = intermediate_words(fused.layers[0], fused.links[0], fused, first)
    assert words == CHANNELS * max(alive)
    assert group_violations(hardware(), fused) == []


def test_the_residual_operand_is_read_where_it_lies_and_never_goes_out() -> None:
    kept, apart = (evaluate_group(hardware(), fused) for fused in (
        residual(3, "P"), residual(3, "P", None, written=True)))
    words = CHANNELS * ROWS
    read = kept.layers[2].traffic["Scratchpad", "Outputs"].reads - (
        apart.layers[2].traffic["Scratchpad", "Outputs"].reads if ("Scratchpad", "Outputs") in apart.layers[2].traffic
        else 0)
    assert read == words
    assert apart.layers[0].traffic["DRAM", "Outputs"].updates == words
    assert ("DRAM", "Outputs") not in kept.layers[0].traffic
    assert [layer.computes for layer in kept.layers] == [layer.computes for layer in apart.layers]


def test_sums_that_go_on_are_added_to_the_operand_once() -> None:
    """A loop over the last intermediate's channels adds to the same outputs: the sum reads behind its last step."""
    whole, in_steps = (evaluate_group(hardware(), residual(tile, "C", OWN_INPUT, loop="C")) for tile in (CHANNELS, 1))
    assert (in_steps.layers[2].traffic["Scratchpad", "Outputs"].reads
            == whole.layers[2].traffic["Scratchpad", "Outputs"].reads == CHANNELS * ROWS)


def test_it_takes_room_while_every_layer_up_to_the_sum_runs() -> None:
    kept, apart = residual(12, ""), residual(12, "", None)
    tensor = CHANNELS * ROWS
    assert (kept.last_uses(), apart.last_uses()) == ([2, 2], [1, 2])
    words = [resident_words(fused, layer_steps(fused), hardware().arch.levels[scratchpad()]) for fused in (kept, apart)]
    assert [more - less for more, less in zip(*words, strict=True)] == [0, 0, tensor]
    assert live_words(hardware(), kept, scratchpad()) >= live_words(hardware(), apart, scratchpad())


@pytest.mark.parametrize(("across", "there"), [("", True), ("P", False)])
def test_the_groups_own_input_is_added_in_the_step_that_brings_it(across: str, there: bool) -> None:
    """With a retained halo the first layer is ahead of the sum, whose rows have left the chip by then."""
    fused = residual(3, across, OWN_INPUT)
    broken = {one.constraint for one in group_violations(hardware(), fused)}
    assert broken == (set() if there else {"second read"})
    if there:
        read = evaluate_group(hardware(), fused).layers[2].traffic["Scratchpad", "Outputs"].reads
        assert read == CHANNELS * ROWS


@pytest.mark.parametrize(("read", "reason"), [
    (SecondRead(2, "Inputs", 1, SUM.dims), "in another order"),
    (SecondRead(1, "Weights", 2, SUM.dims), "not what the layer before hands on"),
    (SecondRead(0, "Bias", 2, SUM.dims), "does not stay on the chip"),
    (SecondRead(1, "Inputs", 2, {"M": "M"}), "other dimensions"),
    (SecondRead(1, "Inputs", 2, {"M": "P", "P": "M"}), "other dimensions")])
def test_what_is_not_there_or_another_tensor_is_refused(read: SecondRead, reason: str) -> None:
    broken = group_violations(hardware(), replace(residual(3, "P"), second_reads=(read,)))
    assert [one.constraint for one in broken] == ["second read"]
    assert reason in broken[0].reason


def test_a_loop_that_cuts_the_tensor_and_not_the_sum_is_refused() -> None:
    """The loop over the last layer's inputs cuts the channels between the layers; the sum needs all of them."""
    fused = residual(1, "C", replace(SUM, first=2, behind=2), loop="C")
    assert "leaves the sum whole" in group_violations(hardware(), fused)[0].reason


def test_a_pooled_tensor_is_not_read_again() -> None:
    fused = residual(12, "")
    pooled = replace(fused, links=(replace(fused.links[0], pooled={"P": WindowSlide(1, 1)}), fused.links[1]))
    assert "is pooled" in group_violations(hardware(), pooled)[0].reason


def test_looptree_has_no_sums() -> None:
    assert any("is added to the output of layer 3" in reason
               for reason in beyond_looptree(residual(3, "P"), hardware(), alike=True))
