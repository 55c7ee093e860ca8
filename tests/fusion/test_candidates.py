"""Ways to run a segment: the estimate of many tile sizes at once is what their steps add up to, and all of it fits."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cache, partial
from math import inf, prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fused_groups import CONV_2D, ONWARDS, conv, group, hardware
from hypothesis import assume, given
from hypothesis import strategies as st
from kernel_parts import parts

from fadiff_mapper import FadiffError, SearchOptions, load, load_network, map_layers
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import (
    FusedGroup,
    FusedLayer,
    FusedLink,
    Hardware,
    Stay,
    TileLoop,
    group_violations,
    layer_steps,
    step_classes,
)
from fadiff_mapper.fusion.candidates import MOST_STEPS, candidates, candidates_along, neighbours, reshaped
from fadiff_mapper.fusion.estimates import (
    CompiledSegment,
    LayerBase,
    SideBySide,
    compiled_segment,
    group_bases,
    layer_base,
    revised,
)
from fadiff_mapper.fusion.group_cost import group_cost
from fadiff_mapper.fusion.prices import NetworkPrice, WordCosts, summed
from fadiff_mapper.fusion.segments import Segment, segments, slides_of
from fadiff_mapper.fusion.tile_steps import intermediate_words, operand_words, outlasting_words, space_of
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel._kernel import FusedSegment, NestEstimate, SegmentLayer, SegmentLink, SumsRest
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.legality import Room
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.network.tile_mappings import (
    ResidentTile,
    TileMemory,
    TileStrategy,
    cut_to_tile,
    with_mappings,
    with_residents,
)
from fadiff_mapper.search.best_so_far import ILLEGAL
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.workload import OperatingPoint, Workload
from fadiff_mapper.workload.window_slide import WindowSlide

SUMS = (1e9, 1e6)
"""Energy in pJ and cycles of a network, in which tiles minimise their shares."""

MATMULS = """
workload:
  version: 1
  name: two products
  inputs: {input: [512, 256]}
  shapes:
  - {id: up, op: gemm, dims: {N: 512, M: 1024, C: 256, P: 1, Q: 1, R: 1, S: 1}, stride: [1, 1]}
  - {id: down, op: gemm, dims: {N: 512, M: 256, C: 1024, P: 1, Q: 1, R: 1, S: 1}, stride: [1, 1]}
  graph:
  - {name: up, shape: up, from: [input]}
  - {name: down, shape: down, from: [up]}
"""


RESIZED = [WindowSlide(1, 1), WindowSlide(1, 1, shrink=2), WindowSlide(1, 1, shrink=3, block=2), WindowSlide(2, 2),
           WindowSlide(1, 1, block=2)]
"""Ways to an operand: as it is, enlarged twice, one and a half times, pooled, and in strips of two rows."""


def segment_of(fused: FusedGroup, links: Sequence[FusedLink] | None = None) -> Segment:
    problems = tuple(layer.problem for layer in fused.layers)
    links = tuple(FusedLink("Inputs", ONWARDS, Stay("")) for _ in fused.links) if links is None else tuple(links)
    return Segment(tuple("abcd"[:len(problems)]), problems, links, (frozenset(),) * len(links), 1,
                   slides=tuple(map(slides_of, links, problems[1:])))


def costs(written: float, bandwidth: float) -> WordCosts:
    """Words that cost 1 pJ to read from the outermost level, and nothing inside."""
    return WordCosts((*(0.0 for _ in hardware().arch.levels[1:]), 1.0), written, inf, bandwidth, inf)


def compiled(segment: Segment) -> CompiledSegment:
    """A segment of layers of which nothing is known, on a design with one level where tensors can stay."""
    base = LayerBase(0.0, {}, inf, (SideBySide(0.0, {}),), costs(1.0, 1.0), OperatingPoint(1.0, 1.0))
    return compiled_segment(hardware(), segment, [base] * len(segment.problems))


def closed_forms(segment: Segment, loops: Sequence[tuple[str, int]], retained: Sequence[Collection[str]], layer: int,
                 name: str, kept: Collection[str] = (),
                 unsure: Sequence[Collection[str]] | None = None,
                 least: Sequence[tuple[str, int]] = ()) -> dict[str, Any]:
    """The closed forms of one layer: loops along which each intermediate is retained and a data space is `kept`; of
    bounds, where each is retained or not along the loops of `unsure`, in tiles from the `least` on."""
    dims = segment.problems[-1].dimensions

    def mask(among: Collection[str]) -> int:
        return sum(1 << index for index, (dim, _) in enumerate(loops) if dim in among)

    return parts.closed_forms(
        compiled(segment).tables, [dims.index(dim) for dim, _ in loops], [float(size) for _, size in loops],
        list(map(mask, retained)), layer,
        segment.problems[layer].dataspace_names().index(name), mask(kept),
        None if unsure is None else list(map(mask, unsure)), [float(size) for _, size in least])


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 3, 6]), st.sampled_from(["", "P", "Q", "PQ"]))
def test_cuts_add_up_to_what_the_steps_do(p: int, q: int, across: str) -> None:
    loops = [("P", p), ("Q", q)]
    fused = group(CONV_2D, loops, across)
    for index, (layer, steps) in enumerate(zip(fused.layers, layer_steps(fused), strict=True)):
        kinds = step_classes(fused, layer, steps)
        macs = sum(count * np.prod(kind.shape) for kind, count in kinds.items())
        closed = partial(closed_forms, segment_of(fused), loops, [across], index)
        assert closed("Weights")["computed"] == pytest.approx(macs / layer.problem.computes)
        for place, (name, stay) in enumerate(layer.operands.items()):
            words = sum(count * kind.fresh[place] for kind, count in kinds.items())
            if name == "Weights":
                assert closed(name, stay.across)["fetched"] == words
                assert closed(name, stay.across)["held"] == operand_words(layer, name, fused, steps)
        if index < len(fused.links):
            link = fused.links[index]
            assert closed("Outputs", link.stay.across)["lying"] == intermediate_words(layer, link, fused, steps)


@given(st.sampled_from([1, 2]), st.sampled_from(["", "P"]),
       st.sampled_from([WindowSlide(2, 2), WindowSlide(3, 2, pad=1)]))
def test_cuts_behind_a_pool_add_up_to_what_the_steps_do(p: int, across: str, pool: WindowSlide) -> None:
    """Three tiles or more, so that one has no padding."""
    rows = (8 - 1) * pool.stride + pool.kernel - 2 * pool.pad
    fused = group([conv("first", C=2, M=3, P=rows, R=3), conv("second", C=3, M=2, P=6, R=3)], [("P", p)], across)
    links = (replace(fused.links[0], pooled={"P": pool}),)
    fused = replace(fused, links=links)
    segment = segment_of(fused, links)
    closed = closed_forms(segment, [("P", p)], [across], 0, "Outputs", across)
    layer, steps = fused.layers[0], layer_steps(fused)[0]
    (cut,), (spans,) = closed["loops"], steps.spans
    assert cut["needed"] == max(len(span.needed) for span in spans)
    assert closed["lying"] == intermediate_words(layer, links[0], fused, steps)
    assert closed["outlasting"] == outlasting_words(layer, links[0], fused, steps)
    assert cut["points"] == pytest.approx(sum(len(span.done) for span in spans), abs=pool.pad * (len(spans) - 1))


@given(st.sampled_from([1, 2, 3, 5]), st.lists(st.booleans(), min_size=3, max_size=3), st.sampled_from([0, 1]))
def test_cuts_of_long_groups_know_the_largest_step(p: int, kept: list[bool], pad: int) -> None:
    """The first step makes most of what is kept, but it has padding before it; four layers, windows of three rows."""
    rows = [21 - (2 - 2 * pad) * place for place in range(4)]
    fused = group([conv("layer", C=2, M=2, P=extent, R=3) for extent in rows], [("P", p)], "",
                  padding={"P": pad} if pad else {})
    links = tuple(replace(link, stay=replace(link.stay, across=frozenset("P" * keeps)))
                  for link, keeps in zip(fused.links, kept, strict=True))
    fused = replace(fused, links=links)
    segment = segment_of(fused, links)
    for index, steps in enumerate(layer_steps(fused)):
        (cut,) = closed_forms(segment, [("P", p)], [link.stay.across for link in links], index, "Outputs")["loops"]
        (spans,) = steps.spans
        assert cut["largest"] == max(len(span.done) for span in spans)
        assert cut["needed"] == max(len(span.needed) for span in spans)


@given(st.data())
def test_no_step_in_a_box_of_tiles_does_more_than_a_bound_says(data: st.DataObject) -> None:
    """Images that are enlarged or made smaller in front of windows, and padding as wide as a window; each intermediate
    is kept, made again or, of bounds, one or the other."""
    rows, pools, windows, pads = [data.draw(st.integers(2, 9))], [], [1], list[int]()
    for _ in range(2):
        pools.append(data.draw(st.sampled_from(RESIZED)))
        windows.append(data.draw(st.sampled_from([1, 2, 3, 5])))
        pads.append(data.draw(st.integers(0, 2)))
        rows.append(rows[-1] * pools[-1].shrink // (pools[-1].stride * pools[-1].block)
                    + 2 * pads[-1] + 1 - windows[-1])
        assume(rows[-1] > 0)
    least = data.draw(st.integers(1, rows[-1]))
    most = data.draw(st.integers(least, rows[-1]))
    tile = data.draw(st.integers(least, most))
    resized = [pool.shrink * pool.block > 1 for pool in pools]
    asked = [data.draw(st.sampled_from(["unsure"] if resizes else ["kept", "again", "unsure"])) for resizes in resized]
    kept = [word == "kept" or (word == "unsure" and data.draw(st.booleans())) for word in asked]
    fused = group([conv("layer", C=2, M=2, P=extent, R=window) for extent, window in zip(rows, windows, strict=True)],
                  [("P", tile)], "")
    fused = replace(fused, links=tuple(
        replace(link, pooled={"P": pool}, padding={"P": pad}, stay=replace(link.stay, across=frozenset("P" * keeps)))
        for link, pool, pad, keeps in zip(fused.links, pools, pads, kept, strict=True)))
    segment = segment_of(fused, fused.links)
    every = layer_steps(fused)
    hidden = any(len(steps.spans[0][0].done) == 0 for steps in every)
    for index, steps in enumerate(every):
        (cut,) = closed_forms(segment, [("P", most)], ["P" * (word != "again") for word in asked], index, "Outputs",
                              unsure=["P" * (word == "unsure") for word in asked], least=[("P", least)])["loops"]
        (spans,) = steps.spans
        points = [len(span.done) for span in spans]
        assert cut["steps"] <= sum(map(bool, points))
        if any(resized) or hidden or all(word != "unsure" for word in asked):
            assert cut["widest"] >= max(points)
        if cut["alike"] and least == most and not any(pads) and index + 1 < len(every):
            assert len(set(points[:-1])) <= 1


def refetched(problem: Problem, passing: Collection[str], staying: Collection[str], room: float, sums: float,
              lanes: dict[str, int], by: Collection[str] = ()) -> dict[str, float] | None:
    """How often each operand of one tile, the whole problem, comes in; None where no schedule fits."""
    base = LayerBase(0.0, {}, sums, (SideBySide(0.0, lanes),),
                     costs(1.0, 1.0), OperatingPoint(1.0, 1.0))
    tables = compiled_segment(hardware(), Segment(("one",), (problem,), (), (), 1), [base]).tables
    names = problem.dataspace_names()
    *masks, past = (sum(1 << names.index(name) for name in some) for some in (passing, staying, by))
    times = parts.refetched(tables, 0, [float(bound) for bound in problem.bounds.values()], *masks, room, sums, past)
    return None if times is None else dict(zip(names, times, strict=True))


@pytest.mark.parametrize(("room", "sums", "times"), [
    (10_000, 64 * 64, (1, 1)),     # all sums fit: both operands stream by once
    (100, 1024, (2, 2)),        # blocks of 32 x 32 sums
    (64 * 32 + 32, 32, (1, 1)),    # one operand stays whole, the other comes in columns
    (64 * 16 + 32, 32, (1, 2)),    # half of it
    (10, 1024, (11, 16)),          # blocks of 6 x 4 sums: no more of both fits beside each other
    (1, 1024, None)], ids=str)
def test_what_a_tile_brings_in_again(room: int, sums: int, times: tuple[int, int] | None) -> None:
    problem = conv("product", N=64, M=64, C=32)
    again = refetched(problem, ["Weights", "Inputs"], [], room, sums, {})
    assert (again is not None) == (times is not None)
    if again and times:
        assert sorted((again["Weights"], again["Inputs"])) == sorted(times)


@given(st.lists(st.floats(0, 5000), min_size=2, max_size=5), st.sampled_from([32.0, 1024.0]))
def test_more_room_never_brings_in_more(rooms: list[float], sums: float) -> None:
    problem = conv("product", N=64, M=48, C=32)
    moved = [inf if again is None else sum(again[space.name] * problem.tensor_size(space)
                                           for space in problem.dataspaces if not space.read_write)
             for again in (refetched(problem, ["Weights", "Inputs"], [], room, sums, {"M": 16})
                           for room in sorted(rooms))]
    assert moved == sorted(moved, reverse=True)


@pytest.mark.parametrize("layer", ["resnet18/conv3x3_256_256_14_s1", "resnet18/conv3x3_64_128_28_s2",
                                   "mobilenet_v1/conv1x1_512_512_14_s1"])
@pytest.mark.parametrize("room", [2000, 8000])
def test_what_comes_in_again_is_near_what_the_best_mapping_brings_in(layer: str, room: int) -> None:
    """Mappings that keep all lanes busy and finish every sum, with less room in the scratchpad than there is."""
    spec = load(bundled_files.find("arch/gemmini_small"), bundled_files.find(f"layers/{layer}"))
    names, problem = spec.arch.level_names(), spec.problem
    home, accumulator = names.index("Scratchpad"), spec.arch.levels[names.index("Accumulator")]
    words = np.array([inf if level.usable is None else float(level.usable) for level in spec.arch.levels])
    words[home] = room
    counted = np.ones((len(names), len(problem.dataspaces)), dtype=bool)
    counted[home, problem.dataspace_names().index("Outputs")] = False
    limits = [cut_to_tile(with_residents(spec.constraints, problem, [
        ResidentTile("Outputs", home, outside=True, handed=True)], strategy), problem)
              for strategy in (TileStrategy.PIECES_FROM_INSIDE, TileStrategy.PIECES_IN_TURN)]
    tasks = [MappingTask(layer_of(spec), build_mapspace(spec.arch, problem, replace(one, min_parallelism=1.0)),
                         room=Room(words, counted)) for one in limits]
    found = search_all(tasks, SearchOptions(metrics=("last_level_accesses",), effort=Effort(chains=32)))
    best = evaluate_nest(tasks[0].layer, min(found, key=lambda one: one.value).nest)
    reads = dict(zip(problem.dataspace_names(), best.counts.reads[-1, :, 0] * best.tile.instances[-1, 0], strict=True))
    again = refetched(problem, ["Weights", "Inputs"], [], room,
                      float((accumulator.usable or 0) * accumulator.instances), {"C": 16, "M": 16})
    assert again is not None
    estimate = sum(again[name] * problem.tensor_size(space_of(problem, name)) for name in ("Weights", "Inputs"))
    assert min(one.value for one in found) < ILLEGAL
    assert 0.5 < estimate / (reads["Weights"] + reads["Inputs"]) < 1.7


def test_an_operand_that_stays_makes_the_others_come_in_whole() -> None:
    problem = conv("product", N=64, M=64, C=32)
    for room, fits in ((31.0, False), (32.0, True)):
        assert (refetched(problem, ["Inputs"], ["Weights"], room, 4096.0, {}) is not None) == fits


def test_an_operand_that_passes_by_the_home_needs_no_room_there() -> None:
    problem = conv("product", N=64, M=64, C=32)
    assert refetched(problem, ["Weights"], ["Inputs"], 0.0, 64 * 64, {}) is None
    again = refetched(problem, ["Weights"], ["Inputs"], 0.0, 64 * 64, {}, by=["Weights"])
    assert again and again["Weights"] == 1
    # blocks of 32 columns, whose sums fit, bring it in no more often; blocks of 32 rows would
    assert refetched(problem, ["Weights"], ["Inputs"], 0.0, 64 * 32, {}, by=["Weights"]) == again
    # both pass by: as many blocks as the sums need
    both = refetched(problem, ["Weights", "Inputs"], [], 0.0, 32 * 32, {}, by=["Weights", "Inputs"])
    assert both and both["Weights"] == both["Inputs"] == 2


@pytest.mark.parametrize(("network", "names", "loops", "kept"), [
    ("vgg16", ("conv1_1", "conv1_2", "conv2_1"), (TileLoop("P", 8),), "P"),      # Timeloop counts padding, the chip not
    ("resnet18", ("layer1.0.conv1", "layer1.0.conv2"),
     (TileLoop("P", 8), TileLoop("Q", 28), TileLoop("C", 32)), "")], ids=["padding", "sums that go on"])
def test_a_group_of_tiles_with_mappings_can_run(network: str, names: tuple[str, ...], loops: tuple[TileLoop, ...],
                                                kept: str) -> None:
    workload = load_network(f"bundled:networks/{network}")
    specs = specs_of(workload, bundled_files.find("arch/gemmini_large"))
    spec_of = {name: spec for entry, spec in zip(workload.distinct(), specs, strict=True) for name in entry.nodes}
    segment = next(one for one in segments(workload, len(names)) if one.nodes == names)
    stay = Stay("Scratchpad", frozenset(kept))
    bare = FusedGroup(tuple(FusedLayer(problem, {}, {"Weights": stay} if kept else {}) for problem in segment.problems),
                      tuple(replace(link, stay=stay) for link in segment.links), loops)
    hardware = Hardware(specs[0].arch, specs[0].tables)
    (mapped,) = with_mappings(hardware, [bare], [[spec_of[name] for name in names]], SUMS)
    assert mapped and not group_violations(hardware, mapped)


def test_estimates_learn_from_groups_that_run_a_layer_in_fewer_cycles() -> None:
    _, segment, (base, _) = products()
    mapping = next(iter(fused_products().layers[0].mappings.values()))
    compute = base.known[0].compute
    assert revised(base, compute, mapping) is base
    assert revised(base, 2 * compute, mapping) is base
    faster = revised(base, compute / 2, mapping)
    assert faster.known[0].compute == compute / 2 and faster.whole == base.whole
    assert faster.known[0].lanes == {dim: prod(level.spatial[dim] for level in mapping.levels)
                            for dim in segment.problems[0].dimensions}


@cache
def product_specs() -> tuple[Workload, tuple[Spec, ...]]:
    """Two matrix products on the small design."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "net.yaml"
        file.write_text(MATMULS)
        workload = load_network(file)
    return workload, specs_of(workload, bundled_files.find("arch/gemmini_small"))


@cache
def products() -> tuple[Hardware, Segment, tuple[LayerBase, ...]]:
    """The two products, whose intermediate fits nowhere."""
    workload, specs = product_specs()
    results = map_layers(specs, SearchOptions(("edp",), threads=1))
    return (Hardware(specs[0].arch, specs[0].tables), segments(workload, 2)[0],
            tuple(layer_base(result) for result in results))


@cache
def fused_products() -> FusedGroup:
    """The two products in the tiles that promise most."""
    hardware, _, _ = products()
    (mapped,) = with_mappings(hardware, [found(1)[0].group], [product_specs()[1]], SUMS)
    assert mapped
    return mapped


def test_next_to_a_group_lie_those_with_other_ends_and_all_of_two_neighbours() -> None:
    network = load_network("bundled:networks/mobilenet_v1")
    specs = specs_of(network, bundled_files.find("arch/gemmini_large"))
    names = ("dw6", "pw6", "dw7", "pw7", "dw8", "pw8")
    spec_of = {name: spec for entry, spec in zip(network.distinct(), specs, strict=True) for name in entry.nodes}
    results = map_layers([spec_of[name] for name in names],
                         SearchOptions(("edp",), threads=1, effort=Effort(chains=16, rounds=10, extra_rounds=0)))
    bases = {name: layer_base(result) for name, result in zip(names, results, strict=True)}
    every = [segment for segment in segments(network, 6) if set(segment.nodes) <= set(names)]
    by_nodes = {segment.nodes: segment for segment in every}
    groups = [(nodes, FusedGroup(tuple(FusedLayer(problem, {}) for problem in by_nodes[nodes].problems),
                                 by_nodes[nodes].links, loops)) for nodes, loops in (
                                     (names[:2], (TileLoop("P", 7),)),
                                     (names[2:4], (TileLoop("P", 7), TileLoop("Q", 7), TileLoop("C", 64))))]
    price = NetworkPrice(summed([base.whole for base in bases.values()]))
    hardware = Hardware(specs[0].arch, specs[0].tables)
    near = reshaped(groups, [names], every,
                    lambda segment: compiled_segment(hardware, segment, group_bases(segment, bases)), price)
    lengths = {one.segment.nodes: {tuple(loop.dim for loop in one.group.loops) for one in own}
               for own in near.values() for one in own}
    assert names[:4] in lengths and names[1:4] in lengths and names[2:6] in lengths
    assert all(("P",) in dims for dims in lengths.values())
    assert {("P", "Q", "C"), ("P", "Q"), ("P", "C"), ("Q", "C")} <= lengths[names[1:4]]


def found(kept: int | None = None) -> Sequence:
    design, segment, bases = products()
    total = summed([base.whole for base in bases])
    price = NetworkPrice(total)
    return candidates(compiled_segment(design, segment, bases), price, price(total.times(segment.repeat)))[:kept]


def test_sums_leave_the_chip_where_nothing_else_fits() -> None:
    best = found()[0]
    assert best.group.sums == "DRAM" and {loop.dim for loop in best.group.loops} == {"N", "C"}


def test_given_tile_sizes_take_the_place_of_the_grid() -> None:
    hardware, segment, bases = products()
    compiled, price = compiled_segment(hardware, segment, bases), NetworkPrice(summed([base.whole for base in bases]))
    tiles = {"N": 24, "C": 40}   # uneven ones
    for dims in (("N", "C"), ("C", "N")):
        given = tuple(tiles[dim] for dim in dims)
        sized = candidates_along(compiled, dims, price, [given])
        assert sized and {tuple(loop.tile for loop in one.group.loops) for one in sized} == {given}
    few = candidates_along(compiled, ("N", "C"), price, [(1, 1)])   # half a million steps
    assert not any(one.group.steps > MOST_STEPS for one in few)


def test_what_stays_fits_and_no_candidate_comes_twice() -> None:
    hardware, _, _ = products()
    every = found()
    usable = hardware.arch.levels[hardware.level("Scratchpad")].usable
    assert usable
    for one in every:
        steps = layer_steps(one.group)
        words = intermediate_words(one.group.layers[0], one.group.links[0], one.group, steps[0])
        words += sum(operand_words(layer, name, one.group, steps[index])
                     for index, layer in enumerate(one.group.layers) for name in layer.operands)
        assert words < usable
    assert all(one.group != other.group for place, one in enumerate(every) for other in every[:place])


def test_a_comparison_notes_the_best_strategies_and_other_searches_begin_with_them() -> None:
    hardware, _, _ = products()
    known: dict[str, str] = {}
    group, specs = found(1)[0].group, [product_specs()[1]]
    (compared,) = with_mappings(hardware, [group], specs, SUMS, compared=True, memory=TileMemory(known))
    assert len(known) == len(group.layers) and set(known.values()) <= {strategy.name for strategy in TileStrategy}
    (plain,) = with_mappings(hardware, [group], specs, SUMS, memory=TileMemory(known))
    assert compared and plain
    assert group_cost(hardware, plain).edp <= 1.05 * group_cost(hardware, compared).edp


@pytest.mark.parametrize(("nest", "sentence"), [
    ((1, inf, [0], [0], SumsRest.INSIDE, np.ones((1, 1))), "home"),
    ((0, inf, [99], [0], SumsRest.INSIDE, np.ones((1, 1))), "dims"),
    ((0, inf, [0], [], SumsRest.INSIDE, np.ones((1, 1))), "retained"),
    ((0, inf, [0], [0], SumsRest.INSIDE, np.ones((2, 1))), "sizes"),
    ((0, inf, [0], [0], SumsRest.INSIDE, np.full((1, 1), np.nan)), "sizes"),
    ((0, inf, [0], [0], SumsRest.INSIDE, np.zeros((1, 1))), "sizes"),
    ((0, inf, [0] * 64, [0], SumsRest.INSIDE, np.ones((64, 1))), "dims")])
def test_a_nest_that_does_not_belong_to_its_segment_is_refused(nest: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        NestEstimate(compiled(segment_of(group(CONV_2D, [("P", 2)], ""))).tables, *nest)


def test_layers_that_no_segment_can_have_are_refused() -> None:
    table: dict[str, Any] = {
        "bounds": [4.0], "known": [(1.0, [2.0])], "spaces": [[[(0, 1.0)]], [[(0, 1.0)]]], "output": 1, "linked": -1,
        "handed": 0, "inside": 0.0, "sums_room": inf, "read": 1.0, "write": 1.0, "words_per_cycle": 1.0,
        "home_reads": [0.0, 0.0], "home_price": [0.0]}
    FusedSegment([SegmentLayer(**table)], [], 1.0, [])
    with pytest.raises(TypeError, match="None"):
        FusedSegment([None], [], 1.0, [])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="linked"):
        FusedSegment([SegmentLayer(**table | {"linked": 0, "handed": 1})], [], 1.0, [])
    for name, wrong in (("bounds", [-1.0]), ("bounds", [np.nan]), ("bounds", [2.0 ** 60]), ("known", [(1.0, [np.nan])]),
                        ("output", 2), ("handed", 2), ("home_reads", [0.0])):
        with pytest.raises(ValueError, match=name):
            SegmentLayer(**table | {name: wrong})


def test_links_have_entries_for_every_dimension() -> None:
    table: dict[str, Any] = {
        "theirs": [0, -1], "slides": [(1.0,) * 7] * 2, "stored": [1.0, 1.0], "lying": (1.0, 1.0), "elsewhere": 0.0,
        "beside": False, "written_whole": False, "written_pooled": False, "distance": 1}
    SegmentLink(**table)
    for name, wrong in ("slides", [(1.0,) * 7]), ("stored", [1.0]):
        with pytest.raises(ValueError, match=name):
            SegmentLink(**table | {name: wrong})


LANED = LayerBase(2.0, {}, 64.0, (SideBySide(900.0, {"P": 4, "M": 3}), SideBySide(1000.0, {"C": 2, "Q": 3})),
                  costs(1.5, 0.5), OperatingPoint(1.0, 1.0))
"""A layer with two mappings that use units side by side."""


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=19),
       st.sampled_from([0, 1, 3]), st.sampled_from([40.0, 400.0, inf]))
def test_the_estimate_of_many_tile_sizes_is_the_best_of_those_of_each(
        sizes: list[tuple[int, int]], retained: int, usable: float) -> None:
    """Of the first choice, in which all operands pass: others depend on all tile sizes."""
    segment = segment_of(group(CONV_2D, [("P", 2), ("Q", 2)], ""))
    tables = compiled_segment(hardware(), segment, [LANED] * len(segment.problems)).tables
    dims = [segment.problems[-1].dimensions.index(dim) for dim in "PQ"]

    def estimate(some: Sequence[tuple[int, int]]) -> NestEstimate:
        return NestEstimate(tables, 0, usable, dims, [retained], SumsRest.INSIDE,
                            np.array(some, dtype=np.float64).T.copy())

    together, each = estimate(sizes), [estimate([size]) for size in sizes]
    assert together.lower_prices(1e4, 1e3)[0] == min(one.lower_prices(1e4, 1e3)[0] for one in each)
    alone_ = [one.best_sizes(0, 1e4, 1e3, inf) for one in each]
    best = together.best_sizes(0, 1e4, 1e3, inf)
    assert (best is None) == all(one is None for one in alone_)
    if best is not None:
        assert best[0] == min(one[0] for one in alone_ if one is not None)
        chosen = alone_[best[3]]
        assert chosen is not None and best[:3] == chosen[:3]


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=19),
       st.sampled_from([0, 1, 3]), st.sampled_from([40.0, 400.0, inf]), st.sampled_from([0.0, 0.9, 1.0, 1.1, 2.0]))
def test_only_nests_that_are_not_below_a_limit_have_no_choices(
        sizes: list[tuple[int, int]], retained: int, usable: float, part: float) -> None:
    segment = segment_of(group(CONV_2D, [("P", 2), ("Q", 2)], ""))
    tables = compiled_segment(hardware(), segment, [LANED] * len(segment.problems)).tables
    nest = (tables, 0, usable, [segment.problems[-1].dimensions.index(dim) for dim in "PQ"], [retained],
            SumsRest.INSIDE, np.array(sizes, dtype=np.float64).T.copy())
    prices = NestEstimate(*nest).lower_prices(1e4, 1e3)
    limit = part * min(prices) if part else 0.0
    limited = NestEstimate(*nest, 1e4, 1e3, limit).lower_prices(1e4, 1e3)
    assert limited == prices or (not limited and min(prices) >= limit)
    assert limited or part <= 1.0
    assert part or not limited


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 12, 16])
@pytest.mark.parametrize("bound", [40, 70_000])
def test_tiles_fill_the_lanes_with_their_largest_divisor(lanes: int, bound: int) -> None:
    base = replace(LANED, known=(SideBySide(1000.0, {"P": lanes}),), costs=replace(LANED.costs, bandwidth=inf))
    problem = conv("one", P=bound)
    tables = compiled_segment(hardware(), Segment(("one",), (problem,), (), (), 1), [base]).tables
    for tile in range(bound - 39, bound + 1):
        estimate = NestEstimate(tables, 0, inf, [problem.dimensions.index("P")], [], SumsRest.INSIDE,
                                np.array([[float(tile)]]))
        best = estimate.best_sizes(0, 1.0, 1.0, inf)
        filled = max(size for size in range(1, lanes + 1) if tile % size == 0)
        assert best is not None and best[2] == pytest.approx(1000 / (filled / lanes))


def test_an_unknown_level_is_refused_by_name() -> None:
    hardware, _, _ = products()
    with pytest.raises(FadiffError, match=r"level: found 'Nowhere'; accepted: .*Scratchpad.*, DRAM"):
        hardware.level("Nowhere")


def test_neighbours_differ_in_one_size() -> None:
    best = found()[0]
    price = NetworkPrice(OperatingPoint(1.0, 1.0), "energy")
    for near in neighbours(compiled_segment(*products()), best, price):
        assert sum(one != other for one, other in zip(near.group.loops, best.group.loops, strict=True)) == 1
