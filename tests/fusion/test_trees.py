"""Groups whose layers are a tree: a product of two tensors that other layers of the group make, of one input or two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from fused_groups import conv, hardware, with_mappings
from hypothesis import given, settings
from hypothesis import strategies as st

from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Stay, TileLoop
from fadiff_mapper.fusion.group_cost import group_cost
from fadiff_mapper.fusion.group_legality import group_violations, structure_violations
from fadiff_mapper.fusion.tile_steps import layer_steps, resident_words
from fadiff_mapper.output.looptree import beyond_looptree

ROWS, COLUMNS, SUMMED, WIDE = 8, 6, 4, 3
"""Of the product, rows, columns and summands; and the width of the input."""


def tree(loops: list[tuple[str, int]], across: str, shared: str | None = None, rows: int = ROWS) -> FusedGroup:
    """Keys and queries of one input, and their product; `shared`: loops along which the input stays for both."""
    home = Stay("Scratchpad", frozenset(across))
    keys, queries = conv("keys", N=COLUMNS, M=SUMMED, C=WIDE), conv("queries", N=rows, M=SUMMED, C=WIDE)
    operands = {} if shared is None else {"Inputs": Stay("Scratchpad", frozenset(shared))}
    layers = (FusedLayer(keys, {}, operands),
              FusedLayer(queries, {}, operands, {"Inputs": (0, "Inputs")} if operands else {}),
              FusedLayer(conv("scores", N=rows, M=COLUMNS, C=SUMMED), {}))
    links = (FusedLink("Weights", {"N": "M", "M": "C"}, home, distance=2),
             FusedLink("Inputs", {"N": "N", "M": "C"}, home))
    return with_mappings(FusedGroup(layers, links, tuple(TileLoop(*loop) for loop in loops)))


def walked(loops: list[tuple[str, int]], kept: bool) -> Iterator[tuple[set[tuple[int, int]], set[tuple[int, int]]]]:
    """Keys and queries that each step computes, by a walk: what its part of the product reads and is not kept."""
    extents = {"N": ROWS, "M": COLUMNS, "C": SUMMED}
    made: tuple[set[tuple[int, int]], set[tuple[int, int]]] = set(), set()
    for begins in product(*(range(0, extents[dim], tile) for dim, tile in loops)):
        part = {dim: range(extent) for dim, extent in extents.items()}
        for begin, (dim, tile) in zip(begins, loops, strict=True):
            part[dim] = range(begin, min(begin + tile, extents[dim]))
        wanted = set(product(part["M"], part["C"])), set(product(part["N"], part["C"]))
        yield tuple(want - have if kept else want for want, have in zip(wanted, made, strict=True))  # type: ignore[misc]
        for have, want in zip(made, wanted, strict=True):
            have |= want


@settings(max_examples=25)
@given(st.permutations(["N", "M", "C"]), st.integers(0, 3), st.data())
def test_each_layer_computes_what_a_walk_finds(dims: list[str], count: int, data: st.DataObject) -> None:
    loops = [(dim, data.draw(st.integers(1, 8))) for dim in dims[:count]]
    for kept in (True, False):
        fused = replace(tree(loops, "NMC" if kept else ""), sums="DRAM")
        keys, queries, scores = group_cost(hardware(), fused).layers
        steps = list(walked(loops, kept))
        assert (keys.computes, queries.computes) == tuple(WIDE * sum(len(step[k]) for step in steps) for k in (0, 1))
        assert scores.computes == ROWS * COLUMNS * SUMMED
        # both are read where they lie, and never go to DRAM
        assert not {("DRAM", "Weights"), ("DRAM", "Inputs")} & {
            key for key, words in scores.traffic.items() if words.reads + words.fills}
        assert keys.traffic["Scratchpad", "Outputs"].updates == sum(len(step[0]) for step in steps)


def test_a_tree_without_loops_is_its_layers_without_the_tensors_between_them() -> None:
    fused = tree([], "")
    assert group_violations(hardware(), fused) == []
    cost = group_cost(hardware(), fused)
    read = {"Inputs", "Weights"}
    for layer, own, outside in zip(fused.layers, cost.layers, (read, read, {"Outputs"}), strict=True):
        alone = group_cost(hardware(), FusedGroup((replace(layer, operands={}),))).layers[0]
        for name in ("Inputs", "Weights", "Outputs"):
            assert own.traffic.get(("DRAM", name)) == (alone.traffic["DRAM", name] if name in outside else None)
        assert own.computes == alone.computes


@pytest.mark.parametrize(("stays", "times"), [("C", 1), ("", 2)])
def test_a_shared_operand_comes_once_for_all_its_readers(stays: str, times: int) -> None:
    fused = tree([("C", 2)], "", stays, rows=COLUMNS)
    assert group_violations(hardware(), fused) == []
    keys, queries, _ = group_cost(hardware(), fused).layers
    assert keys.traffic["DRAM", "Inputs"].reads == times * COLUMNS * WIDE
    assert queries.traffic["DRAM", "Inputs"].reads == 0
    apart, home = tree([("C", 2)], "", None, rows=COLUMNS), hardware().level("Scratchpad")
    level = hardware().arch.levels[home]
    assert resident_words(fused, layer_steps(fused), level)[2] == COLUMNS * WIDE + resident_words(
        apart, layer_steps(apart), level)[2]


def test_a_shared_operand_that_is_gone_is_refused() -> None:
    # queries are cut in rows, and all keys are computed in the first step
    lost = structure_violations(hardware(), tree([("N", 2)], "N", "", rows=COLUMNS))
    assert [one.constraint for one in lost] == ["sharing"] and "along N" in (lost[0].reason or "")
    assert structure_violations(hardware(), tree([("N", 2)], "N", "N", rows=COLUMNS)) == []
    other = tree([("N", 2)], "N", "N")    # inputs of other extents
    assert [one.constraint for one in structure_violations(hardware(), other)] == ["sharing"]


def test_the_tensor_of_a_farther_layer_has_room_until_it_is_read() -> None:
    fused, level = tree([("C", 2)], ""), hardware().arch.levels[hardware().level("Scratchpad")]
    keys, queries = 2 * COLUMNS, 2 * ROWS
    assert resident_words(fused, layer_steps(fused), level) == [keys, keys + queries, keys + queries]


def test_links_that_make_no_tree_are_refused_and_trees_are_beyond_looptree() -> None:
    fused = tree([], "")
    first, second = fused.links
    for links in ((replace(first, distance=3), second), (replace(first, distance=0), second),
                  (replace(first, tensor="Inputs", dims={"N": "N", "M": "C"}), second)):
        assert "link" in [one.constraint for one in structure_violations(hardware(), replace(fused, links=links))]
    assert "no chain" in beyond_looptree(fused, hardware(), alike=True)[0]
