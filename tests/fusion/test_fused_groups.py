"""Fused groups on Timeloop's architectures: exact where nothing is fused, LoopTree's traffic where something is."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product

import pytest
from fadiff_validation.looptree import evaluate_fused
from fused_groups import (
    CONV_2D,
    MATMUL,
    STRIDED,
    THREE,
    as_looptree,
    conv,
    gemmini,
    group,
    hardware,
    mapping,
    with_mappings,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff_mapper import FadiffError
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import GroupTraffic, TileEvaluations, group_cost
from fadiff_mapper.fusion.group_legality import checked_costs, evaluate_group, group_violations, live_words
from fadiff_mapper.fusion.tile_steps import intermediate_words, layer_steps, operand_words, outlasting_words
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.workload.window_slide import WindowSlide

CONV_1D = [conv("first", C=2, M=3, P=14, R=3), conv("second", C=3, M=2, P=12, R=3)]
UNEVEN = [conv("first", C=1, M=1, P=11, R=3), conv("second", C=1, M=1, P=9, R=3)]

DILATED = [conv("first", C=1, M=2, P=16, R=2, dilation=3), conv("second", C=2, M=1, P=12, R=3, dilation=2)]


# What is not fused costs what Timeloop says.

def test_a_layer_by_itself_is_timeloops_result() -> None:
    spec = gemmini()
    shape = tuple(spec.problem.bounds.values())
    own = mapping(shape, {"Scratchpad": {"M": 128, "P": 2}})
    alone = FusedGroup((FusedLayer(spec.problem, {shape: own}),), repeat=3)
    stats, cost = evaluate_mapping(spec, own), group_cost(hardware(), alone)
    assert group_violations(hardware(), alone) == []
    assert cost.cycles == 3 * stats.cycles
    assert cost.energy_pj == pytest.approx(3 * stats.energy_pj, rel=1e-14)
    assert cost.layers[0].recomputed == 0


def test_groups_of_one_layer_cost_what_the_layers_do() -> None:
    spec = gemmini()
    layers = [FusedLayer(problem, {tuple(problem.bounds.values()): mapping(tuple(problem.bounds.values()))})
              for problem in CONV_1D]
    stats = [evaluate_mapping(replace(spec, problem=layer.problem), next(iter(layer.mappings.values())))
             for layer in layers]
    costs = [evaluate_group(hardware(), FusedGroup((layer,))) for layer in layers]
    assert [cost.cycles for cost in costs] == [one.cycles for one in stats]
    assert [cost.energy_pj for cost in costs] == pytest.approx([one.energy_pj for one in stats], rel=1e-14)


@pytest.mark.parametrize(("loops", "outer"), [
    ([("P", 4)], {"P": 3}), ([("M", 1)], {"M": 2}), ([("P", 1)], {"P": 12}),
], ids=str)
def test_the_steps_of_one_layer_move_what_timeloops_outer_loop_moves(loops: list, outer: dict[str, int]) -> None:
    problem = CONV_1D[1]
    spec = replace(gemmini(), problem=problem)
    whole = FusedLayer(problem, {tuple(problem.bounds.values()): mapping(tuple(problem.bounds.values()),
                                                                         {"DRAM": outer})})
    expected = evaluate_mapping(spec, next(iter(whole.mappings.values()))), group_cost(hardware(), FusedGroup((whole,)))
    cost = group_cost(hardware(), group([problem], loops, "".join(outer)))
    assert cost.layers[0].traffic == expected[1].layers[0].traffic
    assert cost.layers[0].computes == expected[0].computes


# What is fused moves what LoopTree says.

def shown(value: object) -> str | None:
    """How a chain of problems is named in a test's id."""
    return "-".join(f"{p.bounds['P']}x{p.bounds['Q']}" for p in value) if value and isinstance(
        value, list) and not isinstance(value[0], tuple) else None


@pytest.mark.parametrize(("problems", "loops", "across", "place"), [
    (CONV_1D, [("P", 4)], "P", 1),
    (CONV_1D, [("P", 1)], "P", 1),
    (CONV_1D, [("P", 12)], "P", 1),
    (THREE, [("P", 2)], "P", 1),
    (CONV_2D, [("P", 2)], "P", 1),
    (CONV_2D, [("P", 2), ("Q", 2)], "Q", 2),
    (CONV_2D, [("P", 2), ("Q", 2)], "PQ", 1),
    (CONV_2D, [("Q", 2), ("P", 4)], "QP", 1),
    (MATMUL, [("N", 2)], "N", 1),
    (MATMUL, [("N", 2), ("M", 2)], "M", 2),
    (UNEVEN, [("P", 4)], "P", 1),
    (STRIDED, [("P", 2)], "P", 1),
    (DILATED, [("P", 3)], "P", 1),
], ids=shown)
def test_a_fused_group_moves_what_looptree_says(problems: list, loops: list, across: str, place: int) -> None:
    fused = group(problems, loops, across)
    assert group_violations(hardware(), fused) == []
    expected = evaluate_fused(as_looptree(fused, place)).to_dict()
    compare_with_looptree(fused, expected)
    for index, (link, steps) in enumerate(zip(fused.links, layer_steps(fused), strict=False), 1):
        assert intermediate_words(fused.layers[index - 1], link, fused, steps) == expected["occupancy_max"][
            f"Buffer/F{index + 1}/E{index + 1}"]


@settings(max_examples=15)
@given(st.data())
def test_chains_of_any_size_move_what_looptree_says(data: st.DataObject) -> None:
    problems, p, q, m = [], data.draw(st.integers(1, 6)), data.draw(st.integers(1, 4)), data.draw(st.integers(1, 3))
    loops = [("P", data.draw(st.integers(1, p))), ("Q", data.draw(st.integers(1, q)))]
    for _ in range(data.draw(st.integers(1, 3))):
        c, r, s = (data.draw(st.integers(1, most)) for most in (3, 3, 2))
        stride = data.draw(st.integers(1, min(r, s)))  # Timeloop counts the holes of a stride beyond the kernel
        problems.insert(0, conv("layer", stride, M=m, C=c, P=p, Q=q, R=r, S=s))
        m, p, q = c, stride * (p - 1) + r, stride * (q - 1) + s
    fused = group(problems, loops, "PQ")
    compare_with_looptree(fused, evaluate_fused(as_looptree(fused, 1)).to_dict())


def compare_with_looptree(fused: FusedGroup, expected: dict) -> None:
    """DRAM and scratchpad traffic of every tensor, and the operations with recomputation."""
    for index, layer in enumerate(group_cost(hardware(), fused).layers, 1):
        moved = {place: (words.reads, words.fills + words.updates) for place, words in layer.traffic.items()}
        names = {"Weights": f"W{index}", "Inputs": f"F{index}", "Outputs": f"F{index + 1}"}
        assert layer.computes == expected["ops"][f"E{index}"]
        levels = {"DRAM": "DRAM", "Scratchpad": "Buffer"}
        found = {f"{levels[level]}/{names[space]}/E{index}": {"reads": reads, "writes": writes}
                 for (level, space), (reads, writes) in moved.items() if level in levels}
        for place, words in found.items():
            if place.startswith("Buffer") and place.split("/")[1] == f"F{index + 1}":
                assert words["writes"] == expected["accesses"][place]["writes"]
            else:
                assert words == expected["accesses"][place], place


def test_channels_between_two_layers_are_summed_up_on_the_chip() -> None:
    fused = group(MATMUL, [("N", 4), ("C", 2)], "")
    first, second = fused.layers
    first = replace(first, operands=first.operands | {"Inputs": Stay("Scratchpad", frozenset("C"))})
    fused = replace(fused, layers=(first, second))
    assert group_violations(hardware(), fused) == []
    cost = group_cost(hardware(), fused)
    assert cost.layers[1].traffic["DRAM", "Outputs"].updates == 8 * 4
    assert cost.layers[1].traffic["DRAM", "Outputs"].reads == 0
    assert cost.layers[1].traffic["Accumulator", "Outputs"].reads == 8 * 6 * 4 - 8 * 4
    assert cost.layers[0].traffic["DRAM", "Inputs"].reads == 8 * 3
    assert cost.layers[0].recomputed == cost.layers[1].recomputed == 0
    assert intermediate_words(fused.layers[0], fused.links[0], fused, layer_steps(fused)[0]) == 4 * 2


@pytest.mark.parametrize("loops", [[("C", 2), ("N", 4)], [("C", 3), ("N", 2)]], ids=str)
def test_sums_that_are_spilled_go_out_and_come_back_as_looptree_says(loops: list) -> None:
    fused = replace(group(MATMUL, loops, loops[-1][0]), sums="DRAM")
    assert group_violations(hardware(), fused) == []
    compare_with_looptree(fused, evaluate_fused(as_looptree(fused, len(loops))).to_dict())


def test_sums_that_are_spilled_cost_what_timeloops_outer_loop_over_them_costs() -> None:
    problem = conv("layer", N=16, M=32, C=96)
    outer = mapping(tuple(problem.bounds.values()), {"DRAM": {"C": 3, "N": 2}})
    *inside, outermost = outer.levels
    outer = replace(outer, levels=(*inside, replace(outermost, order=tuple(sorted(outermost.order, key="C".__eq__)))))
    stats = evaluate_mapping(replace(gemmini(), problem=problem), outer)
    steps = replace(group([problem], [("C", 32), ("N", 8)], "N"), sums="DRAM")
    cost = group_cost(hardware(), steps)
    whole = group_cost(hardware(), FusedGroup((FusedLayer(problem, {tuple(problem.bounds.values()): outer}),)))
    assert cost.layers[0].traffic == whole.layers[0].traffic
    assert cost.energy_pj == pytest.approx(stats.energy_pj, rel=1e-5)  # leakage: each step waits for its own slowest
    assert stats.cycles <= cost.cycles <= 1.01 * stats.cycles


def test_sums_that_rest_in_the_home_cost_what_timeloops_loops_outside_and_inside_it_cost() -> None:
    problem = conv("layer", N=16, M=32, C=96)

    def keeping(own: Mapping) -> Mapping:
        return replace(own, levels=tuple(
            replace(level, keep=level.keep | {"Outputs"}) if "Inputs" in level.keep else level for level in own.levels))
    outer = keeping(mapping(tuple(problem.bounds.values()), {"DRAM": {"C": 3}, "Scratchpad": {"N": 2}}))
    stats = evaluate_mapping(replace(gemmini(), problem=problem), outer)
    steps = group([problem], [("C", 32), ("N", 8)], "N")
    (layer,) = steps.layers
    steps = replace(steps, sums="Scratchpad", layers=(
        replace(layer, mappings={shape: keeping(own) for shape, own in layer.mappings.items()}),))
    whole = group_cost(hardware(), FusedGroup((FusedLayer(problem, {tuple(problem.bounds.values()): outer}),)))
    cost = group_cost(hardware(), steps)
    assert cost.layers[0].traffic == whole.layers[0].traffic
    assert cost.energy_pj == pytest.approx(stats.energy_pj, rel=1e-5)  # leakage: each step waits for its own slowest


def test_a_copy_is_read_where_it_was_summed_and_written_where_it_stays() -> None:
    fused, apart = group(CONV_1D, [("P", 12)], "P"), group(CONV_1D[:1], [], "")
    copied = 3 * 14
    together, alone = (group_cost(hardware(), one).layers[0].traffic for one in (fused, apart))
    assert together["Accumulator", "Outputs"].reads == alone["Accumulator", "Outputs"].reads + copied
    assert together["Scratchpad", "Outputs"].updates == alone["DRAM", "Outputs"].updates == copied
    assert ("DRAM", "Outputs") not in together


def test_an_output_that_others_read_too_also_goes_out() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    fused = replace(fused, links=(replace(fused.links[0], written=True),))
    assert group_cost(hardware(), fused).layers[0].traffic["DRAM", "Outputs"].updates == 3 * 14


def test_a_halo_that_is_not_retained_is_recomputed_and_weights_that_do_not_stay_are_fetched_again() -> None:
    kept, again = group(CONV_1D, [("P", 4)], "P"), group(CONV_1D, [("P", 4)], "", resident=False)
    assert group_violations(hardware(), again) == []
    costs = [group_cost(hardware(), one) for one in (kept, again)]
    assert [cost.layers[0].recomputed for cost in costs] == [0, 2 * 2 * (3 * 2 * 3)]
    assert [cost.layers[1].traffic["DRAM", "Weights"].reads for cost in costs] == [18, 3 * 18]
    assert [cost.layers[0].traffic["DRAM", "Inputs"].reads for cost in costs] == [2 * 16, 3 * 2 * 8]


def test_padding_is_not_computed() -> None:
    same = [conv("first", C=2, M=3, P=12, R=3), conv("second", C=3, M=2, P=12, R=3)]
    fused = group(same, [("P", 4)], "P", padding={"P": 1})
    assert group_violations(hardware(), fused) == []
    assert group_cost(hardware(), fused).layers[0].recomputed == 0
    assert [len(span.done) for span in layer_steps(fused)[0].spans[0]] == [5, 4, 3]


@pytest.mark.parametrize("across", ["", "P", "Q", "PQ"])
@pytest.mark.parametrize("tiles", [(2, 3), (4, 1), (8, 2), (1, 6)])
def test_line_buffers_hold_the_tile_and_what_is_used_again(across: str, tiles: tuple[int, int]) -> None:
    """All steps walked through: the words in use, and those between two uses along a loop along which they are kept."""
    fused = group(CONV_2D, [("P", tiles[0]), ("Q", tiles[1])], across)
    lines = Stay("Scratchpad", frozenset(across), lines=True)
    fused = replace(fused, links=(replace(fused.links[0], stay=lines),),
                    layers=(replace(fused.layers[0], operands={"Inputs": lines}), *fused.layers[1:]))
    steps = layer_steps(fused)[0]
    needed = [[span.needed for span in spans] for spans in steps.spans]
    read = [[range(rows.start, rows.stop + 2) for rows in axis] for axis in needed]
    assert intermediate_words(fused.layers[0], fused.links[0], fused, steps) == 2 * most_alive(needed, across)
    if across == "PQ":   # every word is computed once: what a step reads is what it needs, and its halo
        assert operand_words(fused.layers[0], "Inputs", fused, steps) <= 2 * most_alive(read, across)


@pytest.mark.parametrize("across", ["", "P", "Q", "PQ"])
@pytest.mark.parametrize("tiles", [(2, 3), (4, 1), (8, 2), (1, 6)])
def test_while_other_layers_run_there_is_room_for_what_later_steps_use(across: str, tiles: tuple[int, int]) -> None:
    fused = group(CONV_2D, [("P", tiles[0]), ("Q", tiles[1])], across)
    steps = layer_steps(fused)[0]
    words = outlasting_words(fused.layers[0], fused.links[0], fused, steps)
    least = 2 * most_alive([[span.needed for span in spans] for spans in steps.spans], across, while_used=False)
    running = [dim for dim, spans in zip("PQ", steps.spans, strict=True) if len(spans) > 1]
    if set(across) & set(running) <= set(running[-1:]):
        assert words == least
    else:                                                           # rows that are done with are not given back
        assert least < words == intermediate_words(fused.layers[0], fused.links[0], fused, steps)


@pytest.mark.parametrize("tile", [1, 2, 3, 5])
def test_a_layer_that_is_done_early_keeps_nothing_more(tile: int) -> None:
    """Where rows are padded, the early layers of a long group have nothing left to do in its last steps."""
    fused = group([conv("layer", C=2, M=2, P=21, R=3)] * 4, [("P", tile)], "P", padding={"P": 1})
    resting = 0
    for layer, link, steps in zip(fused.layers, fused.links, layer_steps(fused), strict=False):
        needed = [span.needed for span in steps.spans[0]]
        resting += needed.count(range(0))
        least = 2 * most_alive([needed, [range(1)]], "P", while_used=False)
        assert outlasting_words(layer, link, fused, steps) == least < layer.problem.tensor_size(layer.problem.output)
    assert resting or tile > 2


def test_an_intermediate_takes_no_room_once_it_is_used_up() -> None:
    fused = group(THREE, [], "")
    operands = 14 * 2 + 2 * 3 + 2 * 3 + 4 * 3                             # inputs, and the weights of three layers
    assert live_words(hardware(), fused, 4) == operands + 12 + 2 * 10     # of the intermediates, both; 12 rows, 10 rows
    four = with_mappings(replace(fused, layers=(*fused.layers, FusedLayer(conv("fourth", C=2, M=1, P=8), {})),
                                 links=(*fused.links, fused.links[0])))
    assert live_words(hardware(), four, 4) == operands + 2 * 10 + 2 * 8          # its weights pass


def most_alive(axes: list[list[range]], across: str, while_used: bool = True) -> int:
    """Over the steps of a loop over P and one over Q inside it, the most points in use (unless `while_used` is False)
    or between two uses."""
    used = {at: set(product(axes[0][at[0]], axes[1][at[1]])) for at in product(*(range(len(axis)) for axis in axes))}
    order = sorted(used)

    def kept(one: tuple[int, int], other: tuple[int, int]) -> bool:
        return one < other and ("P" if one[0] != other[0] else "Q") in across

    pairs = [(one, other, used[one] & used[other]) for one, other in product(order, order) if kept(one, other)]
    return max(len((used[here] if while_used else set()).union(
        *(both for one, other, both in pairs if one <= here < other))) for here in order)


# Pools between two layers.

POOLED = [conv("first", C=2, M=3, P=16, R=3), conv("second", C=3, M=2, P=6, R=3)]
POOL = WindowSlide(2, 2)


def pooled(tile: int, across: str, pool: WindowSlide = POOL, problems: list[Problem] = POOLED,
           written: bool = False) -> FusedGroup:
    fused = group(problems, [("P", tile)], across)
    link = replace(fused.links[0], pooled={"P": pool}, written=written)
    return with_mappings(replace(fused, links=(link,)))


@given(st.integers(1, 6), st.sampled_from(["", "P"]), st.integers(1, 3), st.integers(1, 3), st.integers(0, 1))
def test_behind_a_pool_a_pointwise_layer_needs_what_a_layer_with_its_window_needs(tile: int, across: str, kernel: int,
                                                                                  stride: int, pad: int) -> None:
    rows = (6 - 1) * stride + kernel - 2 * pad
    first = conv("first", C=1, M=1, P=rows, R=2)
    behind = pooled(tile, across, WindowSlide(kernel, stride, pad=pad), [first, conv("second", C=1, M=1, P=6)])
    window = group([first, conv("second", stride, C=1, M=1, P=6, R=kernel)], [("P", tile)], across, padding={"P": pad})
    assert layer_steps(behind)[0] == layer_steps(window)[0]
    assert group_violations(hardware(), behind) == []


def test_words_are_pooled_before_they_lie_there_unless_windows_overlap() -> None:
    fused = pooled(2, "P")
    rows, made = 2 * (2 + 2), 2 + 2                # for two rows of outputs: of the intermediate, and of what is pooled
    weights, window = 2 * 3 * 3 + 3 * 2 * 3, 2 * (rows + 2)
    assert group_violations(hardware(), fused) == []
    assert live_words(hardware(), fused, 4) == weights + window + 3 * made
    assert outlasting_words(fused.layers[0], fused.links[0], fused, layer_steps(fused)[0]) == 3 * 2
    over = pooled(2, "P", WindowSlide(3, 2), [conv("first", C=2, M=3, P=17, R=3), POOLED[1]])
    assert group_violations(hardware(), over) == []
    assert live_words(hardware(), over, 4) == weights + (window + 2) + 3 * (rows + 1) + 3 * made


def test_what_pools_make_goes_out_once_and_what_they_read_does_not() -> None:
    fused, alone = pooled(2, "", written=True), pooled(2, "")
    layers, before = (group_cost(hardware(), one).layers for one in (fused, alone))
    assert ("DRAM", "Outputs") not in layers[0].traffic
    assert layers[1].traffic["DRAM", "Inputs"].updates == 3 * 8
    more = layers[1].traffic["Scratchpad", "Inputs"].reads - before[1].traffic["Scratchpad", "Inputs"].reads
    assert more == 3 * 8 and layers[1].energy_pj > before[1].energy_pj


def test_a_pool_that_does_not_lead_to_the_next_layers_extent_is_refused() -> None:
    assert broken(pooled(2, "P", WindowSlide(2, 1))) == {"link"}
    assert broken(pooled(2, "P", WindowSlide(3, 3))) == {"link"}


# What cannot run is named.

def broken(fused: FusedGroup) -> set[str]:
    return {violation.constraint for violation in group_violations(hardware(), fused)}


def test_each_rule_has_its_violation() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    first, second = fused.layers
    link = fused.links[0]
    assert broken(replace(fused, loops=(TileLoop("X", 1),))) == {"shared loops"}
    assert broken(replace(fused, loops=(TileLoop("R", 1),))) == {"shared loops"}
    assert broken(replace(fused, links=())) == {"link"}
    assert broken(replace(fused, links=(replace(link, dims={"N": "N", "M": "C"}),))) == {"link"}
    assert broken(replace(fused, links=(replace(link, padding={"P": 3}),))) == {"link"}
    assert broken(replace(fused, links=(replace(link, stay=Stay("Accumulator")),))) == {"level"}
    assert broken(replace(fused, links=(replace(link, stay=Stay("Nowhere")),))) == {"level"}
    unmapped = replace(fused, layers=(first, replace(second, mappings={})))
    assert broken(unmapped) == {"mapping"}
    with pytest.raises(FadiffError, match="mapping: second has no mapping for the tile C=3"):
        evaluate_group(hardware(), unmapped)
    wrong = replace(first, mappings=dict.fromkeys(first.mappings, next(iter(first.mappings.values()))))
    assert broken(replace(fused, layers=(wrong, second))) == {"mapping"}


# Each of two columns has its output in parts of the channels, one after the other, so that sums leave it unfinished.
IN_PARTS = {"inter_PEColumns_spatial": {"P": 2}, "Scratchpad": {"C": 2}}


def test_an_operand_that_is_not_whole_or_an_intermediate_that_is_not_finished_is_refused() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    first, second = fused.layers
    outside = replace(second, mappings={shape: mapping(shape, {"DRAM": {"C": 3}}) for shape in second.mappings})
    assert broken(replace(fused, layers=(first, outside))) == {"whole"}
    spilled = replace(first, mappings={shape: mapping(shape, IN_PARTS) for shape in first.mappings})
    assert broken(replace(fused, layers=(spilled, second))) == {"reduction"}


def test_unfinished_sums_of_an_intermediate_may_rest_in_a_home_that_adds_to_them() -> None:
    """They come back from there to be added to, and each part of a sum is copied there."""
    fused, adding = group(CONV_1D, [("P", 4)], "P"), replace(hardware(), resting=frozenset({"Scratchpad"}))
    first, second = fused.layers
    resting = replace(first, mappings={shape: mapping(shape, IN_PARTS) for shape in first.mappings})
    apart = replace(fused, layers=(resting, second))
    assert not group_violations(adding, apart)
    before, after = (evaluate_group(adding, one).layers[0].traffic for one in (fused, apart))
    words, operations = 14 * 3, 14 * 3 * 3 * 2
    assert before["Scratchpad", "Outputs"] == GroupTraffic(updates=words)
    assert before["Accumulator", "Outputs"] == GroupTraffic(reads=operations - words + words, updates=operations)
    assert after["Scratchpad", "Outputs"] == GroupTraffic(reads=words, updates=2 * words)
    assert after["Accumulator", "Outputs"] == GroupTraffic(reads=operations - words + 2 * words, fills=words,
                                                           updates=operations)
    assert live_words(adding, apart, 4) == live_words(adding, fused, 4)


def test_sums_that_are_pooled_as_they_arrive_are_finished_before() -> None:
    adding = replace(hardware(), resting=frozenset({"Scratchpad"}))
    fused = pooled(3, "", WindowSlide(2, 2), [conv("first", C=2, M=3, P=12), conv("second", C=3, M=2, P=6)])
    first, second = fused.layers
    assert not group_violations(adding, fused)
    apart = replace(first, mappings={shape: mapping(shape, IN_PARTS) for shape in first.mappings})
    assert {one.constraint for one in group_violations(adding, replace(fused, layers=(apart, second)))} == {"reduction"}


def test_sums_that_later_steps_add_to_do_not_leave_before() -> None:
    fused = group([conv("first", C=2, M=4, P=14, R=3), conv("second", C=4, M=2, P=12, R=3)], [("C", 2)], "")
    first, second = fused.layers
    assert broken(fused) == set()
    leaving = replace(second, mappings={shape: mapping(shape, IN_PARTS) for shape in second.mappings})
    assert broken(replace(fused, layers=(first, leaving))) == {"reduction"}


def test_all_that_is_live_at_once_must_fit() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    weights, window, held = 2 * 3 * 3 + 3 * 2 * 3, 2 * 8, 3 * 6
    assert live_words(hardware(), fused, 4) == weights + window + held
    twice = replace(fused, double_buffered=frozenset({"Accumulator"}))
    assert live_words(hardware(), twice, 2) == 2 * live_words(hardware(), fused, 2) == 2 * 3 * 6
    large = group([conv("first", C=64, M=64, N=4096), conv("second", C=64, M=64, N=4096)], [("N", 4096)], "N")
    reasons = group_violations(hardware(), with_mappings(large))
    assert {violation.level for violation in reasons} >= {"Accumulator"}


# The worked examples of the documentation, and the price of checking.

def test_the_worked_example_of_steps() -> None:
    layers = [conv("first", C=1, M=1, P=10, R=3), conv("second", C=1, M=1, P=8, R=3)]
    kept, again = (layer_steps(group(layers, [("P", 3)], across))[0].spans[0] for across in ("P", ""))
    assert [span.needed for span in kept] == [range(0, 5), range(3, 8), range(6, 10)]
    assert [span.done for span in kept] == [range(0, 5), range(5, 8), range(8, 10)]
    assert [span.done for span in again] == [span.needed for span in kept]


def test_the_worked_example_of_stored_words() -> None:
    layers = [conv("first", C=1, M=1, P=16, Q=16), conv("second", C=1, M=1, P=14, Q=14, R=3, S=3)]
    fused = group(layers, [("P", 2), ("Q", 4)], "P")
    link, steps = fused.links[0], layer_steps(fused)[0]
    lines = replace(link, stay=replace(link.stay, lines=True))
    assert [intermediate_words(fused.layers[0], one, fused, steps) for one in (link, lines)] == [64, 44]


@pytest.fixture
def evaluated_tiles(monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problem of each mapping of a tile that is evaluated from here on."""
    found: list[Problem] = []

    def counted(layer: PreparedLayer, nest: Nest) -> Evaluation:
        found.extend([layer.problem] * nest.batch)
        return evaluate_nest(layer, nest)

    monkeypatch.setattr(import_module("fadiff_mapper.fusion.group_cost"), "evaluate_nest", counted)
    return found


def test_a_tile_is_evaluated_once_for_legality_and_cost(evaluated_tiles: list[Problem]) -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    (broken, cost), = checked_costs(hardware(), [fused])
    assert len(evaluated_tiles) == sum(len(layer.mappings) for layer in fused.layers)
    assert broken == group_violations(hardware(), fused) and cost == group_cost(hardware(), fused)


def test_groups_evaluated_side_by_side_cost_what_each_costs_by_itself() -> None:
    fused = group(CONV_1D, [("P", 4)], "P")
    groups = [fused, replace(fused, links=()), group(CONV_1D, [("P", 2)], "P")]
    assert checked_costs(hardware(), groups) == [checked_costs(hardware(), [one])[0] for one in groups]


def test_tiles_that_groups_have_in_common_are_evaluated_once(evaluated_tiles: list[Problem]) -> None:
    fused, other, known = group(CONV_1D, [("P", 4)], "P"), group(CONV_1D, [("P", 2)], "P"), TileEvaluations()
    first = checked_costs(hardware(), [fused], known)
    once = len(evaluated_tiles)
    assert first == checked_costs(hardware(), [fused], known) == checked_costs(hardware(), [fused])
    assert len(evaluated_tiles) == 2 * once                      # none for the second, all anew without a memory
    assert checked_costs(hardware(), [other], known) == checked_costs(hardware(), [other])
    assert len(known.tiles) > once                               # tiles of other shapes are evaluated
