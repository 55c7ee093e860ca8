"""Layers that run a different number of times in one group: heads, and the projections around them."""

from __future__ import annotations

from functools import cache

from fadiff_mapper import NetworkOptions, NetworkResult, SearchOptions, Workload, map_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Hardware, TileLoop, group_violations
from fadiff_mapper.fusion.candidates import reshaped
from fadiff_mapper.fusion.estimates import compiled_segment, group_bases, layer_base
from fadiff_mapper.fusion.prices import NetworkPrice, summed
from fadiff_mapper.fusion.segments import Segment, batched, segments
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.network.one_design import by_node, specs_of
from fadiff_mapper.search.map_layers import map_layers
from fadiff_mapper.workload import Node, build_workload, make_operator

HEADS, SIZE, TOKENS = 4, 16, 256
ONE = dict.fromkeys("PQRS", 1)


def heads() -> Workload:
    """A projection, a product for each head with a constant, and a projection back."""
    wide = make_operator("gemm", {"N": TOKENS, "C": HEADS * SIZE, "M": HEADS * SIZE, **ONE})
    head = make_operator("gemm", {"N": TOKENS, "C": SIZE, "M": SIZE, **ONE}, repeat=HEADS)
    return build_workload("heads", [
        Node("x", "input", shape=(TOKENS, HEADS * SIZE)), Node("q", "gemm", ("x",), None, wide, ("Inputs",)),
        Node("apart", "reshape", ("q",), (TOKENS, HEADS, SIZE)),
        Node("turned", "transpose", ("apart",), axes=(1, 0, 2)),
        Node("s", "gemm", ("turned",), None, head, ("Inputs",)), Node("back", "transpose", ("s",), axes=(1, 0, 2)),
        Node("together", "reshape", ("back",), (TOKENS, HEADS * SIZE)),
        Node("o", "gemm", ("together",), None, wide, ("Inputs",))])


def segment(*nodes: str) -> Segment:
    return next(found for found in segments(heads(), 3) if found.nodes == nodes)


def test_all_runs_of_a_product_are_one_problem_with_the_same_work_and_words() -> None:
    layer = make_operator("gemm", {"N": 8, "C": 4, "M": 6, **ONE}, repeat=5)
    whole = batched(layer)
    assert whole.problem.computes == layer.macs
    assert [whole.problem.tensor_size(space) for space in whole.problem.dataspaces] == [
        5 * layer.problem.tensor_size(layer.dataspace(space.name)) for space in whole.problem.dataspaces]


def test_heads_move_stretches_of_the_channels_on_either_side() -> None:
    found = segment("q", "s", "o")
    assert (found.repeat, found.runs) == (1, (1, HEADS, 1))
    before, after = found.links
    assert (dict(before.dims), dict(after.dims)) == ({"N": "N", "M": "G"}, {"N": "N", "G": "C"})
    assert (before.between["G"].stride, after.between["C"].shrink, after.whole) == (SIZE, SIZE, {"M"})


@cache
def plan() -> NetworkResult:
    return map_network(heads(), bundled_files.find("arch/gemmini_large"), NetworkOptions(threads=1, longest=3))


def test_a_plan_hands_heads_from_one_projection_to_the_other_on_the_chip() -> None:
    (group,) = plan().groups
    assert group.nodes == ("q", "s", "o") and group.group.repeat == 1
    assert group_violations(plan().hardware, group.group) == []
    for tile in group.tiles:
        assert evaluate_mapping(tile.spec, tile.mapping) == tile.stats
    first, middle, last = group.cost.layers
    words = TOKENS * HEADS * SIZE
    assert first.traffic["DRAM", "Inputs"].reads == last.traffic["DRAM", "Outputs"].updates == words
    for layer, name in ((first, "Outputs"), (middle, "Inputs"), (middle, "Outputs"), (last, "Inputs")):
        assert ("DRAM", name) not in layer.traffic
    assert group.unfused.energy_pj > group.cost.energy_pj


def test_a_neighbour_of_a_group_has_no_loop_over_runs_that_are_no_dimension_there() -> None:
    """Two products for each head by themselves run head by head; behind a projection all heads are one problem."""
    head = make_operator("gemm", {"N": TOKENS, "C": SIZE, "M": SIZE, **ONE}, repeat=HEADS)
    network = build_workload("pair of heads", [
        *heads().nodes[:5], Node("t", "gemm", ("s",), None, head, ("Inputs",))])
    every = {found.nodes: found for found in segments(network, 3)}
    whole, apart = every["q", "s", "t"], every["s", "t"]
    assert "G" in whole.problems[-1].bounds and "G" not in apart.problems[-1].bounds
    specs = specs_of(network, bundled_files.find("arch/gemmini_large"))
    results = map_layers(specs, SearchOptions(("edp",), effort="quick"))
    bases = by_node(network, list(map(layer_base, results)))
    group = FusedGroup(tuple(FusedLayer(problem, {}) for problem in whole.problems), whole.links,
                       (TileLoop("G", 1), TileLoop("N", 64)))
    hardware = Hardware(specs[0].arch, specs[0].tables)
    near = reshaped([(whole.nodes, group)], [whole.nodes], list(every.values()),
                    lambda segment: compiled_segment(hardware, segment, group_bases(segment, bases)),
                    NetworkPrice(summed([base.whole for base in bases.values()])))
    assert {loop.dim for candidate in near[apart.key] for loop in candidate.group.loops} <= set("NMC")
