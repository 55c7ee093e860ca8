"""Words over the receivers of one fan-out: worked examples that Timeloop was measured on; when a formula will do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from kernel_parts import parts
from strategies import CONV_1D, MATMUL, UNSHARED, Case, cases, forgetful_cases

from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.access_counts import delivery, demand
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest, exact_traffic
from fadiff_mapper.model.loop_nest import pack, project
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.model.tiles import tiles


def design(units: int, registers: bool) -> Architecture:
    """A DRAM and a buffer over `units` arithmetic units in a row, with a register for each or without."""
    def level(name: str, instances: int) -> StorageLevel:
        return StorageLevel(name, "SRAM", instances, instances, 1, word_bits=8, block_size=1, cluster_size=1, size=None)

    own = (level("Reg", units),) if registers else ()
    return Architecture("row", (*own, level("Buf", 1), level("DRAM", 1)), Arithmetic("MAC", "mac", units, units, 1, 8))


def mapped(spaces: tuple[DataSpace, ...], *levels: str, registers: bool) -> Evaluation:
    """Levels from the innermost one as "K4 / M2 N2": spatial loops below a level, then its temporal ones."""
    names = tuple(sorted({name for space in spaces for name in space.dimensions}))

    def factors(text: str) -> dict[str, int]:
        return {part[0]: int(part[1:]) for part in text.split()}

    def level(text: str) -> LevelMapping:
        spatial, temporal = map(factors, text.split("/"))
        ones = dict.fromkeys(names, 1)
        order = (*temporal, *(name for name in names if name not in temporal))
        return LevelMapping(ones | temporal, order, ones | spatial, names, len(names),
                            frozenset(space.name for space in spaces))

    mapping = Mapping(tuple(level(text) for text in levels))
    bounds = {name: int(np.prod([here.temporal[name] * here.spatial[name] for here in mapping.levels]))
              for name in names}
    problem = Problem("example", bounds, spaces)
    arch = design(max(here.spatial[name] for here in mapping.levels for name in names), registers)
    return evaluate_nest(prepare_layer(arch, problem, Tables()), pack([mapping], problem), details=True)


def tally(found: Evaluation, level: int, tensor: int) -> dict[tuple[int, int], float]:
    """(multicast, scatter) -> words."""
    raw = found.raw
    return {(int(raw.multicast[k, level, tensor, 0]), int(raw.scatter[k, level, tensor, 0])): float(words)
            for k, words in enumerate(raw.words[:, level, tensor, 0]) if words}


def test_the_closed_form_sends_one_word_to_all_units_that_share_an_operand() -> None:
    found = mapped(MATMUL, "/ M2", "M4 / N4 K4", "/", registers=True)
    projection = project(Problem("example", {"K": 4, "M": 8, "N": 4}, MATMUL))
    formula = delivery(found.nest, projection, demand(found.nest, projection, found.tile))
    for name in ("words", "multicast", "scatter"):
        np.testing.assert_array_equal(getattr(formula, name)[0, 1], getattr(found.raw, name)[0, 1])
    assert formula.multicast[0, 1, 1, 0] == 4


def test_units_that_share_an_output_reduce_it() -> None:
    found = mapped(MATMUL, "K4 / M4 N4", "/", registers=False)
    assert tally(found, 0, 2) == {(4, 1): 16}, "Z: one group of four units, sixteen sums"
    assert tally(found, 0, 0) == tally(found, 0, 1) == {(1, 4): 64}, "A and B: every unit its own words"


def test_units_that_share_an_operand_get_it_at_once() -> None:
    found = mapped(MATMUL, "M4 / N4 K4", "/", registers=False)
    assert tally(found, 0, 1) == {(4, 1): 16}, "B does not depend on M"
    assert tally(found, 0, 0) == tally(found, 0, 2) == {(1, 4): 64}


def test_overlapping_windows_are_not_shared() -> None:
    found = mapped(CONV_1D, "/ P2 R3", "P4 /", "/", registers=True)
    assert tally(found, 1, 1) == {(1, 4): 16}, "four tiles of four words, though the row has ten"


def test_a_window_that_steps_by_one_comes_from_the_neighbour() -> None:
    found = mapped(CONV_1D, "/", "P4 / R3", "/", registers=True)
    assert (found.raw.words[:, 1, 1, 0].sum(), found.raw.links[1, 1, 0]) == (6, 6)
    assert (found.counts.fills[0, 1, 0], found.counts.reads[0, 1, 0], found.counts.reads[1, 1, 0]) == (3, 5, 6)


def test_units_without_registers_have_links_too() -> None:
    found = mapped(CONV_1D, "P4 / R3", "/", registers=False)
    assert (found.raw.words[:, 0, 1, 0].sum(), found.raw.links[0, 1, 0]) == (6, 6)


def test_a_multicast_along_x_is_as_far_as_its_last_receiver() -> None:
    found = mapped(MATMUL, "/ M2", "M4 / N4 K4", "/", registers=True)
    assert found.network is not None
    assert found.network.hops[1, 1, 0] == 3


@given(cases(UNSHARED) | forgetful_cases(UNSHARED))
def test_without_shared_ranks_counting_by_elements_gives_the_closed_form(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    tile, reuse = tiles(nest, projection), reuse_of(case.mapping, case.problem.dataspace_names())
    formula = delivery(nest, projection, demand(nest, projection, tile, reuse=reuse), reuse=reuse)
    layer = prepare_layer(case.arch, case.problem, Tables(), reuse)
    counted, _, _ = exact_traffic(layer, nest, with_hops=True)
    # what is not held, such as the arithmetic's operands, may come over links even if it is equal
    for name in ("words", "multicast", "scatter"):
        np.testing.assert_array_equal(getattr(counted, name)[0, reuse.held], getattr(formula, name)[0, reuse.held])
    assert not counted.words[1:, reuse.held].any()
    assert not counted.links[reuse.held].any()


@given(cases())
def test_no_word_is_lost(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    found = evaluate_nest(prepare_layer(case.arch, case.problem, Tables()), nest, details=True).raw
    arrived = (found.words * found.multicast).sum(axis=0) + found.links
    asked = demand(nest, projection, tiles(nest, projection))[0] * found.fan[0]
    np.testing.assert_array_equal(arrived[0], asked)


@pytest.mark.parametrize("details", [False, True])
def test_room_for_kinds_of_transfer_grows_as_needed(details: bool) -> None:
    """P + R over 8 x 8 receivers makes groups of 1 to 8; where links help, of fewer."""
    spaces = (DataSpace("I", (CONV_1D[1].ranks[1],), False), DataSpace("O", CONV_1D[2].ranks, True))
    names = ("K", "P", "R")
    ones = dict.fromkeys(names, 1)
    inner = LevelMapping(ones | {"P": 2, "R": 3}, names, ones | {"P": 8, "R": 8}, names, 3, frozenset({"I", "O"}))
    outer = LevelMapping(ones, names, ones, names, 3, frozenset({"I", "O"}))
    problem = Problem("row", {"K": 1, "P": 16, "R": 24}, spaces)
    found = evaluate_nest(prepare_layer(design(64, False), problem, Tables()), pack([Mapping((inner, outer))], problem),
                          details=details)
    kinds = tally(found, 0, 0)
    assert len(kinds) > 4
    assert sum(words * multicast for (multicast, _), words in kinds.items()) + found.raw.links[0, 0, 0] == 6 * 64


def grid(width: int, height: int) -> np.ndarray:
    """Receivers that all want different words: the word of each is its place (x, y), [E, 2]."""
    return np.array([(x, y) for y in range(height) for x in range(width)], dtype=float)


@pytest.mark.parametrize(("move", "taken"), [
    ((1, 0), 6), ((-1, 0), 6), ((0, 1), 6), ((0, -1), 6),            # one side of a 3 x 3 grid has no such neighbour
    ((0, 0), 0), ((1, 1), 0), ((2, 0), 0),
])
def test_words_come_from_the_four_neighbours_only(move: tuple[int, int], taken: int) -> None:
    assert parts.find_linked(grid(3, 3), 3, 3, np.array(move, dtype=float)) == taken


@pytest.mark.parametrize(("members", "hops"), [
    ([0], 0 + 1.5), ([2], 2 + 1.5), ([5], 2 + 0.5),                  # out along X, then along Y from the middle
    ([0, 9], 0 + 1.5 + 1.5), ([0, 3], 0 + 1.5), (list(range(12)), 2 + 3 * 3),
])
def test_hops_of_a_multicast_in_a_3_by_4_grid(members: list[int], hops: float) -> None:
    group = np.full(12, -1)
    group[members] = 0
    assert parts.count_hops(group, 3, 4).tolist() == [hops]
